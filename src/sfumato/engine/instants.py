"""The time column as epoch microseconds, in SQL, for every encoding of `sfumato.model.events`.

Casts are lenient where a count must not be: a text is matched against the contract's pattern
before it is cast, fractions are rounded down and never to the nearest, and wall-clock readings
become instants by the offsets of `sfumato.model.wall_clock` instead of the engine's own rules.
"""

from __future__ import annotations

from sfumato.model.events import INSTANT_TEXT, NAIVE_TEXT, NUMBER_TEXT, Events, TimeEncoding
from sfumato.model.time_grid import TimeGrid
from sfumato.model.wall_clock import clock_offsets

FAR = 1 << 62
"""An instant outside every period: infinite, or too large for the arithmetic."""
BAD = -(1 << 62)
"""Not a time: a text that does not match the pattern of its encoding."""

_PER_SECOND = {
    TimeEncoding.EPOCH_S: (1_000_000, 1),
    TimeEncoding.EPOCH_MS: (1_000, 1),
    TimeEncoding.EPOCH_US: (1, 1),
    TimeEncoding.EPOCH_NS: (1, 1_000),
}
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")


def _floor_divided(value: str, by: int) -> str:
    """Floor division of a signed integer; the engine's own rounds towards zero."""
    return value if by == 1 else f"(({value}) - ((({value}) % {by}) + {by}) % {by}) // {by}"


def _timestamp(column: str, kind: str) -> str:
    if "NS" in kind:
        value = _floor_divided(f"epoch_ns({column})", 1000)
    else:
        cast = "TIMESTAMPTZ" if "TIME ZONE" in kind else "TIMESTAMP"
        value = f"epoch_us(CAST({column} AS {cast}))"
    return f"CASE WHEN {column} IS NOT NULL THEN COALESCE({value}, {FAR}) END"


def _text(column: str, pattern: str, value: str) -> str:
    return (
        f"CASE WHEN {column} IS NOT NULL THEN CASE WHEN regexp_full_match({column}, '{pattern}') "
        f"THEN COALESCE({value}, {BAD}) ELSE {BAD} END END"
    )


def _epoch(column: str, kind: str, encoding: TimeEncoding, is_text: bool) -> str:
    multiply, divide = _PER_SECOND[encoding]
    reach = (FAR - 1) // multiply
    whole = any(kind.endswith(name) for name in _INTEGERS)
    number = column
    if is_text:
        number = f"TRY_CAST({column} AS DECIMAL(38, 9))"
    elif kind in ("FLOAT", "DOUBLE"):
        number = f"CAST({column} AS DOUBLE)"
    inside = f"{number} BETWEEN {-reach} AND {reach}"
    if whole:
        scaled = _floor_divided(f"CAST({column} AS BIGINT) * {multiply}", divide)
    else:
        scaled = _floor_divided(f"CAST(floor({number} * {multiply}) AS BIGINT)", divide)
    value = f"CASE WHEN {inside} THEN {scaled} ELSE {FAR} END"
    if is_text:
        return _text(column, NUMBER_TEXT, value)
    return f"CASE WHEN {column} IS NOT NULL THEN {value} END"


def reading_sql(events: Events, kind: str) -> str:
    """What the column says, in microseconds; `kind` is its DuckDB type.

    For naive times this is the wall clock's reading as if it were UTC.
    """
    column = '"' + events.columns.time.replace('"', '""') + '"'
    if events.time is TimeEncoding.INSTANT and events.time_is_text:
        return _text(column, INSTANT_TEXT, f"epoch_us(TRY_CAST({column} AS TIMESTAMPTZ))")
    if events.time is TimeEncoding.NAIVE and events.time_is_text:
        return _text(column, NAIVE_TEXT, f"epoch_us(TRY_CAST({column} AS TIMESTAMP))")
    if events.time in (TimeEncoding.INSTANT, TimeEncoding.NAIVE):
        return _timestamp(column, kind)
    return _epoch(column, kind, events.time, events.time_is_text)


def instant_sql(events: Events, grid: TimeGrid, reading: str) -> str:
    """The instant of a reading (the name of its column)."""
    if events.time is not TimeEncoding.NAIVE:
        return reading
    assert events.tz is not None  # Events checks it
    breaks, offsets = clock_offsets(events.tz, int(grid.edges[0]), int(grid.edges[-1]))
    steps = "".join(
        f" WHEN {reading} < {int(edge)} THEN {reading} - ({int(offset)})"
        for edge, offset in zip(breaks, offsets[:-1], strict=True)
    )
    return (
        f"CASE WHEN {reading} <= {BAD} OR {reading} >= {FAR} THEN {reading}{steps} "
        f"ELSE {reading} - ({int(offsets[-1])}) END"
    )
