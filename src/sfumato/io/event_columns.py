"""The columns of events: which ones play a part, and whether their types let them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sfumato.io import aliases
from sfumato.io.event_time import INTEGERS
from sfumato.io.schema import Column, Inspector
from sfumato.model.errors import InputError
from sfumato.model.events import EventColumns, FileSource, TableSource, UserEncoding

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
    )


def used_columns(roles: EventColumns) -> list[str]:
    parts = (roles.user, roles.time, roles.place, roles.lon, roles.lat)
    return [name for name in parts if name is not None]


def _is_integer(kind: str) -> bool:
    """Integers up to 64 bits, and decimals that fit into them exactly."""
    if kind.startswith("DECIMAL("):
        width, scale = (int(part) for part in kind[8:-1].split(","))
        return scale == 0 and width <= 18
    return kind in INTEGERS


def user_encoding(column: Column, label: str) -> UserEncoding:
    if _is_integer(column.type):
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
        good = column.is_text or _is_integer(column.type)
        if what != "place":
            good = good or column.type in ("FLOAT", "DOUBLE") or column.type.startswith("DECIMAL")
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


def check_degrees(
    look: Inspector,
    where: FileSource | TableSource,
    by_name: Mapping[str, Column],
    roles: EventColumns,
    label: str | None,
) -> None:
    """Refuse coordinates that are plainly metres: more than half of the first ones out of range."""
    for name, limit in ((roles.lon, 180.0), (roles.lat, 90.0)):
        if name is None:
            continue
        numbers = []
        for row, value in enumerate(look.glance(where, name), start=1):
            if value is None:
                continue
            try:
                numbers.append(float(value) / roles.degrees_scale)
            except ValueError:
                raise InputError(
                    "the coordinate is not a number.",
                    file=label,
                    column=by_name[name].name,
                    row=row,
                ) from None
        outside = sum(not abs(number) <= limit for number in numbers)
        if numbers and outside * 2 > len(numbers):
            raise InputError(
                f"most of the first rows are not between -{limit:g} and {limit:g} degrees.",
                file=label,
                column=name,
                remedy="Coordinates are WGS84 degrees; lon_e5 and lat_e5 are degrees x 100000. "
                "Longitude and latitude may also be swapped.",
            )


def usable_degrees(
    look: Inspector,
    where: FileSource | TableSource,
    by_name: Mapping[str, Column],
    roles: EventColumns,
    label: str | None,
    chosen: Mapping[str, str],
) -> tuple[EventColumns, tuple[str, ...]]:
    """Coordinates beside a place are a help, not a need: unusable ones are left out and noted."""
    try:
        check_degrees(look, where, by_name, roles, label)
    except InputError:
        if roles.place is None or {"lon", "lat"} & set(chosen):
            raise
        note = f"{roles.lon!r} and {roles.lat!r} are not degrees and are not used"
        return replace(roles, lon=None, lat=None, degrees_scale=1.0), (note,)
    return roles, ()
