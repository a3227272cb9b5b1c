"""The period as a condition for the server, so that only rows that can count travel.

The condition keeps every row whose time the engine would put inside the period, and may keep a few
more: for wall clocks, an hour at a change of the clock; for floating-point epochs, a second. Text
is not compared on the server (its order is not that of time), so a text column travels whole.
Timestamps and numbers are compared as they are stored with constants, which no value makes fail:
the server puts infinity and NaN above all others, and so outside.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sfumato.io.postgres.address import quoted
from sfumato.model.events import Reading, TimeEncoding
from sfumato.model.wall_clock import clock_offsets

Period = tuple[int, int]
"""First instant and first instant after, in epoch microseconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_MICROSECOND = {
    TimeEncoding.EPOCH_S: (1, 1_000_000),
    TimeEncoding.EPOCH_MS: (1, 1_000),
    TimeEncoding.EPOCH_US: (1, 1),
    TimeEncoding.EPOCH_NS: (1_000, 1),
}


def condition(column: str, type: str, reading: Reading, period: Period | None) -> str:
    """An SQL condition about the time column, `true` where nothing can be said."""
    name = quoted(column)
    if reading.time_is_text:
        return "true"
    if reading.time in (TimeEncoding.INSTANT, TimeEncoding.NAIVE):
        if period is None:
            return "true"
        first, last = period
        if reading.time is TimeEncoding.NAIVE:
            assert reading.tz is not None  # the reader has refused a clock without a zone
            _, offsets = clock_offsets(reading.tz, first, last)
            first, last = first + int(offsets.min()), last + int(offsets.max())
        aware = reading.time is TimeEncoding.INSTANT
        low, high = (_moment(edge, aware) for edge in (first, last))
        return f"{name} >= {low} AND {name} < {high}"
    if period is None:
        return "true"
    multiply, divide = _PER_MICROSECOND[reading.time]
    margin = 0 if type in ("SMALLINT", "INTEGER", "BIGINT") else 1_000_000
    low_edge = (period[0] - margin) * multiply // divide
    high_edge = -(-(period[1] + margin) * multiply // divide)
    return f"{name} >= {low_edge} AND {name} < {high_edge}"


def _moment(microseconds: int, aware: bool) -> str:
    """An instant as an SQL constant, so that the server can leave out whole partitions."""
    try:
        text = (_EPOCH + timedelta(microseconds=microseconds)).isoformat(sep=" ")
    except OverflowError:  # beyond the years 1 and 9999
        text = "infinity" if microseconds > 0 else "-infinity"
    return f"timestamptz '{text}'" if aware else f"timestamp '{text.removesuffix('+00:00')}'"
