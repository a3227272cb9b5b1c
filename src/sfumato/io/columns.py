"""Columns of events: which play a part, whether their types let them, how a time column is read.

Everything here follows from names, types and the holder's options. No value is looked at: if the
first rows decided, one person's record could change how everybody else's times are read.

How a time column stores an instant follows from its type, its name and the options. An epoch number
says nothing about its unit; the name may (`t_utc_s`) or the holder (`--time-unit`), and where
neither does, a column of numbers is refused. A column of text is ISO 8601 unless name or option say
that numbers are written in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sfumato.errors import InputError, UsageError
from sfumato.io import names as aliases
from sfumato.io.names import TimeName
from sfumato.io.tables import INT96, Column
from sfumato.model.events import EventColumns, Reading, TimeEncoding, UserEncoding
from sfumato.model.time_grid import zone

INTEGERS = frozenset(
    sign + size for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
)
_FLOATS = frozenset(("FLOAT", "DOUBLE"))
NUMBER_TEXT = "DECIMAL"
"""A number of any length, which a database hands over as its decimal text."""
_AWARE = frozenset(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "TIMESTAMPTZ_NS"))
_NAIVE = frozenset(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"))
EPOCHS = {
    "s": TimeEncoding.EPOCH_S,
    "ms": TimeEncoding.EPOCH_MS,
    "us": TimeEncoding.EPOCH_US,
    "ns": TimeEncoding.EPOCH_NS,
}


@dataclass(frozen=True, slots=True)
class TimeReading:
    """The decision: encoding, zone of naive values, whether text, and what was assumed."""

    encoding: TimeEncoding
    tz: str | None
    is_text: bool
    notes: tuple[str, ...] = ()


def check_time_options(tz: str | None, unit: str | None) -> None:
    """Refuse a zone or a unit that does not exist, whatever the columns are."""
    if tz is not None:
        zone(tz)
    if unit is not None and unit not in EPOCHS:
        raise UsageError(f"{unit!r} is not a unit of time stamps.", remedy="Use s, ms, us or ns.")


def read_time(column: Column, *, tz: str | None, unit: str | None, file: str | None) -> TimeReading:
    """Decide how `column` is read, from its type, its name and the options."""
    check_time_options(tz, unit)
    name = TimeName.of(column.name)
    kind = column.type
    if kind in _AWARE:
        return TimeReading(TimeEncoding.INSTANT, None, False)
    if kind == INT96:  # what Spark, Hive and Impala wrote for an instant, on the clock of UTC
        note = f"{column.name!r} holds 96-bit timestamps and is read as UTC"
        return TimeReading(TimeEncoding.NAIVE, "UTC", False, (note,))
    if kind in _NAIVE:
        return _naive(column, name, tz, file)
    if kind == "FLOAT":
        raise InputError(
            "32-bit floating-point numbers hold a time to two minutes only.",
            file=file,
            column=column.name,
            remedy="Store whole seconds as integers.",
        )
    numbers = kind in INTEGERS or kind in _FLOATS or kind == NUMBER_TEXT
    if numbers or (column.is_text and (unit or name.unit)):
        return _epoch(column, name, unit, file)
    if not column.is_text:
        raise InputError(
            "the column holds dates without a time of day."
            if kind == "DATE"
            else f"the column has the type {kind}, which is not a time.",
            file=file,
            column=column.name,
            remedy="Store instants: a timestamp, ISO 8601 text or an epoch number.",
        )
    clock = "UTC" if name.utc else tz
    said = f"without an offset on the clock of {clock}" if clock else "with an offset"
    return TimeReading(
        TimeEncoding.ISO, clock, True, (f"{column.name!r} is read as ISO 8601, {said}",)
    )


def _naive(column: Column, name: TimeName, tz: str | None, file: str | None) -> TimeReading:
    if name.utc:
        note = f"{column.name!r} is read as UTC, as its name says"
        return TimeReading(TimeEncoding.NAIVE, "UTC", False, (note,))
    if tz is None:
        raise InputError(
            "the times carry no time zone.",
            file=file,
            column=column.name,
            remedy="Say whose wall clock they are, for example `events_tz='Europe/Paris'`.",
        )
    note = f"{column.name!r} is read on the clock of {tz}"
    return TimeReading(TimeEncoding.NAIVE, tz, False, (note,))


def _epoch(column: Column, name: TimeName, unit: str | None, file: str | None) -> TimeReading:
    chosen = unit or name.unit
    if chosen is None:
        raise InputError(
            "the column holds numbers, and neither its name nor an option says their unit.",
            file=file,
            column=column.name,
            remedy="Say it with `time_unit`: s, ms, us or ns (`sfumato.inspect` shows which fits).",
        )
    how = "as asked" if unit else "by its name"
    note = f"{column.name!r} is read as {chosen} since 1970 UTC, {how}"
    text = column.is_text or column.type == NUMBER_TEXT
    return TimeReading(EPOCHS[chosen], None, text, (note,))


def event_roles(names: list[str], chosen: Mapping[str, str], label: str) -> EventColumns:
    picked = {role.key: aliases.pick(names, role, chosen, label) for role in aliases.EVENT_ROLES}
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
            remedy="Name them with `column={'place': NAME}`, or "
            "`column={'lon': NAME, 'lat': NAME}`.",
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
