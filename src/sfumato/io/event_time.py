"""How a time column stores an instant: by its type, its name and the holder's options.

No value is looked at: if the first rows decided, one person's record could change how everybody
else's times are read. An epoch number says nothing about its unit; the name may (`t_utc_s`) or
the holder (`--time-unit`), and where neither does, a column of numbers is refused. A column of
text is ISO 8601 unless name or option say that numbers are written in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.io.aliases import TimeName
from sfumato.io.schema import INT96, Column
from sfumato.model.errors import InputError, UsageError
from sfumato.model.events import TimeEncoding
from sfumato.model.time_grid import zone

INTEGERS = frozenset(
    sign + size for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
)
_FLOATS = frozenset(("FLOAT", "DOUBLE"))
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
    if kind in INTEGERS or kind in _FLOATS or (column.is_text and (unit or name.unit)):
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
            remedy="Say whose wall clock they are with --events-tz, for example "
            "--events-tz Europe/Paris.",
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
            remedy="Say it with --time-unit s, ms, us or ns (`sfumato inspect` shows which fits).",
        )
    how = "as asked" if unit else "by its name"
    note = f"{column.name!r} is read as {chosen} since 1970 UTC, {how}"
    return TimeReading(EPOCHS[chosen], None, column.is_text, (note,))
