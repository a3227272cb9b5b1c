"""The columns of events: which ones play a part, whether their types let them, how they are read.

Everything here follows from names, types and options: no value is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sfumato.io import aliases
from sfumato.io.event_time import INTEGERS, read_time
from sfumato.io.schema import Column
from sfumato.model.errors import InputError
from sfumato.model.events import EventColumns, Reading, UserEncoding

ROLES = (aliases.USER, aliases.TIME, aliases.PLACE, aliases.LON, aliases.LAT)


def event_roles(names: list[str], chosen: Mapping[str, str], label: str) -> EventColumns:
    picked = {role.key: aliases.pick(names, role, chosen, label) for role in ROLES}
    for role in (aliases.USER, aliases.TIME):
        if picked[role.key] is None:
            raise aliases.missing(names, role, label)
    for role, other in ((aliases.LON, aliases.LAT), (aliases.LAT, aliases.LON)):
        if picked[role.key] is None and picked[other.key] is not None:
            raise aliases.missing(names, role, label)
    if picked["place"] is None and picked["lon"] is None:
        raise InputError(
            "no column is recognised as the place, and there are no coordinates. "
            f"The columns are {aliases.listed(names)}.",
            file=label,
            remedy="Name them with --column place=NAME, or --column lon=NAME --column lat=NAME.",
        )
    taken = [name for name in picked.values() if name is not None]
    for name in taken:
        if taken.count(name) > 1:
            raise InputError("the column cannot play two parts.", file=label, column=name)
    scale = 1.0
    if picked["lon"] is not None and picked["lat"] is not None:
        scale = aliases.degrees_scale(picked["lon"])
        if scale != aliases.degrees_scale(picked["lat"]):
            raise InputError(
                "longitude and latitude are stored on different scales.",
                file=label,
                column=picked["lon"],
                remedy="Store both alike, for example lon_e5 and lat_e5.",
            )
    return EventColumns(
        str(picked["user"]),
        str(picked["time"]),
        picked["place"],
        picked["lon"],
        picked["lat"],
        scale,
        frozenset(chosen),
    )


def _is_integer(kind: str) -> bool:
    """Integers up to 64 bits, and decimals that fit into them exactly."""
    if kind.startswith("DECIMAL("):
        width, scale = (int(part) for part in kind[8:-1].split(","))
        return scale == 0 and width <= 18
    return kind in INTEGERS


def user_encoding(column: Column, label: str) -> UserEncoding:
    """How the column's ids are held. Integers with gaps are often stored as doubles: 7.0 is 7."""
    if column.type == "UBIGINT":  # does not fit; its decimal text is what it is called by
        return UserEncoding.TEXT
    if _is_integer(column.type) or column.type == "DOUBLE":
        return UserEncoding.INTEGER
    if column.is_text:
        return UserEncoding.TEXT
    if column.type == "BLOB":
        return UserEncoding.BINARY
    raise InputError(
        f"the type {column.type} cannot name a user.",
        file=label,
        column=column.name,
        remedy="Store user ids as integers (64 bits at most), text or binary.",
    )


def check_place_types(by_name: Mapping[str, Column], roles: EventColumns, label: str) -> None:
    for name, what in ((roles.place, "place"), (roles.lon, "lon"), (roles.lat, "lat")):
        if name is None:
            continue
        column = by_name[name]
        good = column.is_text or _is_integer(column.type) or column.type == "DOUBLE"
        if what != "place":
            good = good or column.type == "FLOAT" or column.type.startswith("DECIMAL")
        if not good:
            raise InputError(
                f"the type {column.type} cannot be read as a "
                + ("place." if what == "place" else "coordinate."),
                file=label,
                column=name,
                remedy="Store place ids as integers or text."
                if what == "place"
                else "Store coordinates as numbers.",
            )


def describe(
    columns: Sequence[Column],
    chosen: Mapping[str, str],
    label: str,
    *,
    tz: str | None,
    unit: str | None,
) -> tuple[Reading, tuple[str, ...]]:
    """The reading of a part with these columns, and what it assumes, in words."""
    roles = event_roles([column.name for column in columns], chosen, label)
    by_name = {column.name: column for column in columns}
    user = user_encoding(by_name[roles.user], label)
    check_place_types(by_name, roles, label)
    time = read_time(by_name[roles.time], tz=tz, unit=unit, file=label)
    parts = {"user": roles.user, "time": roles.time, "place": roles.place}
    notes = tuple(
        f"{name!r} is read as the {part}"
        for part, name in (parts | {"lon": roles.lon, "lat": roles.lat}).items()
        if name is not None and part not in chosen
    )
    return Reading(roles, time.encoding, user, time.tz, time.is_text), notes + time.notes


def placed(roles: EventColumns, zones: bool) -> EventColumns:
    """The columns without those that are not used with such places; refused where that is open."""
    if roles.by_coordinates(zones):
        return replace(roles, place=None)
    return replace(roles, lon=None, lat=None, degrees_scale=1.0)
