"""How a time column stores an instant: by its type, its name and, for text and numbers, a glance.

An epoch number says nothing about its unit. The name may (`t_utc_s`), the user may
(`--time-unit`), and otherwise the size tells: read as dates between 1980 and 2100 the four
units are a factor of a hundred apart, so a value fits one of them or none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sfumato.io.aliases import TimeName
from sfumato.io.schema import INT96, Column
from sfumato.model.errors import InputError, UsageError
from sfumato.model.events import INSTANT_TEXT, NAIVE_TEXT, NUMBER_TEXT, TimeEncoding
from sfumato.model.time_grid import zone

INTEGERS = frozenset(
    sign + size for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
)
_FLOATS = frozenset(("FLOAT", "DOUBLE"))
_AWARE = frozenset(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "TIMESTAMPTZ_NS"))
_NAIVE = frozenset(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"))
_EPOCHS = {
    "s": (TimeEncoding.EPOCH_S, 1),
    "ms": (TimeEncoding.EPOCH_MS, 10**3),
    "us": (TimeEncoding.EPOCH_US, 10**6),
    "ns": (TimeEncoding.EPOCH_NS, 10**9),
}
_PLAUSIBLE = (315_532_800, 4_102_444_800)  # seconds: 1980-01-01 and 2100-01-01
_DATE_ONLY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class TimeReading:
    """The decision: encoding, zone of naive values, whether text, and what was assumed."""

    encoding: TimeEncoding
    tz: str | None
    is_text: bool
    notes: tuple[str, ...] = ()


def read_time(
    column: Column,
    first_values: Callable[[], list[Any]],
    *,
    tz: str | None,
    unit: str | None,
    file: str | None,
) -> TimeReading:
    """Decide how `column` is read. `first_values` is called only where values must decide."""
    if tz is not None:
        zone(tz)
    if unit is not None and unit not in _EPOCHS:
        raise UsageError(f"{unit!r} is not a unit of time stamps.", remedy="Use s, ms, us or ns.")
    name = TimeName.of(column.name)
    kind, text = column.type, column.is_text
    if kind in _AWARE:
        return TimeReading(TimeEncoding.INSTANT, None, False)
    if kind == INT96:  # what Spark, Hive and Impala wrote for an instant, on the clock of UTC
        note = f"{column.name!r} holds 96-bit timestamps and is read as UTC"
        return TimeReading(TimeEncoding.NAIVE, "UTC", False, (note,))
    if kind in _NAIVE:
        return _naive(column, name, tz, file, False)
    if kind in INTEGERS or kind in _FLOATS:
        if kind == "FLOAT":
            raise InputError(
                "32-bit floating-point numbers hold a time to two minutes only.",
                file=file,
                column=column.name,
                remedy="Store whole seconds as integers.",
            )
        numbers = [float(value) for value in first_values() if value is not None]
        return _epoch(column, name, numbers, unit, file, False)
    if not text:
        dates = kind == "DATE"
        raise InputError(
            "the column holds dates without a time of day."
            if dates
            else f"the column has the type {kind}, which is not a time.",
            file=file,
            column=column.name,
            remedy="Store instants: a timestamp, ISO 8601 text or an epoch number.",
        )
    return _text(column, name, first_values(), tz, unit, file)


def _naive(
    column: Column, name: TimeName, tz: str | None, file: str | None, text: bool
) -> TimeReading:
    if name.utc:
        return TimeReading(
            TimeEncoding.NAIVE, "UTC", text, (f"{column.name!r} is read as UTC, as its name says",)
        )
    if tz is None:
        raise InputError(
            "the times carry no time zone.",
            file=file,
            column=column.name,
            remedy="Say whose wall clock they are with --tz, for example --tz Europe/Paris.",
        )
    return TimeReading(
        TimeEncoding.NAIVE, tz, text, (f"{column.name!r} is read on the clock of {tz}",)
    )


def _text(
    column: Column,
    name: TimeName,
    values: list[Any],
    tz: str | None,
    unit: str | None,
    file: str | None,
) -> TimeReading:
    patterns = {"instant": INSTANT_TEXT, "naive": NAIVE_TEXT, "number": NUMBER_TEXT}
    kind: str | None = None
    for row, value in enumerate(values, start=1):
        if value is None:
            continue
        fits = next((k for k, p in patterns.items() if re.fullmatch(p, str(value))), None)
        if fits is None:
            raise InputError(
                "a date without a time of day."
                if _DATE_ONLY.fullmatch(str(value))
                else "the text is not a time.",
                file=file,
                column=column.name,
                row=row,
                remedy="Write times as 2007-09-10 13:05:00, with an offset (+02:00 or Z) or --tz.",
            )
        if kind is not None and fits != kind:
            raise InputError(
                "the time is written in another way than in the rows before.",
                file=file,
                column=column.name,
                row=row,
                remedy="Write all times with an offset, or all without.",
            )
        kind = fits
    if kind is None:
        raise InputError(
            f"the first {len(values)} rows have no time.", file=file, column=column.name
        )
    if kind == "instant":
        return TimeReading(TimeEncoding.INSTANT, None, True)
    if kind == "naive":
        return _naive(column, name, tz, file, True)
    numbers = [float(value) for value in values if value is not None]
    return _epoch(column, name, numbers, unit, file, True)


def _epoch(
    column: Column,
    name: TimeName,
    values: list[float],
    unit: str | None,
    file: str | None,
    text: bool,
) -> TimeReading:
    low, high = _PLAUSIBLE
    finite = [value for value in values if value - value == 0]
    fitting = [
        key
        for key, (_, per_second) in _EPOCHS.items()
        if finite and all(low * per_second <= value <= high * per_second for value in finite)
    ]
    remedy = "Say it with --time-unit s, ms, us or ns."
    chosen = unit or name.unit
    if unit is None and name.unit and fitting and name.unit not in fitting:
        raise InputError(
            f"the name says {name.unit}, the size of the numbers says {fitting[0]}.",
            file=file,
            column=column.name,
            remedy=remedy,
        )
    if chosen is None:
        if not fitting:
            raise InputError(
                "the unit of the time stamps cannot be told from the name or the first rows.",
                file=file,
                column=column.name,
                remedy=remedy,
            )
        chosen = fitting[0]
    if chosen != "s" and any(value != int(value) for value in finite):
        raise InputError(
            f"time stamps in {chosen} must be whole numbers.",
            file=file,
            column=column.name,
            remedy=remedy,
        )
    how = "as asked" if unit else "by its name" if name.unit else "by the size of the numbers"
    note = f"{column.name!r} is read as {chosen} since 1970 UTC, {how}"
    return TimeReading(_EPOCHS[chosen][0], None, text, (note,))
