"""The time column as epoch microseconds in Spark SQL, as `sfumato.engine.instants` has it.

Nothing depends on the session's zone: timestamps without a zone are taken apart by the calendar,
and texts reach a cast only with an offset. Every cast that can fail is a TRY_CAST, because
Spark's ANSI errors quote the value. Fractions are rounded down. Texts are cast to plain ones
first, because a collation may take two letters for one and regular expressions refuse some. A
time outside the years 1 to 9999 is outside every period: calendar arithmetic on the largest
timestamps overflows.
"""

from __future__ import annotations

import numpy as np

from sfumato.engine.spark.words import quoted
from sfumato.io.values import BAD, FAR
from sfumato.model.events import INSTANT_TEXT, NAIVE_TEXT, NUMBER_TEXT, Events, TimeEncoding
from sfumato.model.time_grid import TimeGrid

_SCALES = {
    TimeEncoding.EPOCH_S: (1_000_000, 1),
    TimeEncoding.EPOCH_MS: (1_000, 1),
    TimeEncoding.EPOCH_US: (1, 1),
    TimeEncoding.EPOCH_NS: (1, 1_000),
}


def _floor_divided(value: str, by: int) -> str:
    return value if by == 1 else f"(({value}) - pmod({value}, {by}L)) div {by}L"


_FIRST, _LAST = "TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59'"
_DAY = 86_400_000_000


def _clock(value: str) -> str:
    """Reading of a timestamp without zone, as if it were UTC."""
    return (
        f"(unix_date(CAST({value} AS DATE)) * 86400000000L + hour({value}) * 3600000000L "
        f"+ minute({value}) * 60000000L + CAST(extract(SECOND FROM {value}) * 1000000 AS BIGINT))"
    )


def _matched(column: str, pattern: str, value: str) -> str:
    return (
        f"CASE WHEN {column} IS NOT NULL THEN CASE WHEN {column} RLIKE r'\\A{pattern}\\z' "
        f"THEN COALESCE({value}, {BAD}L) ELSE {BAD}L END END"
    )


def _text(column: str, encoding: TimeEncoding) -> str:
    """Date and time of day, seconds filled in where they are left out, then the offset.

    24:00 is the midnight that ends the day, which Spark would not read.
    """
    seconds = f"regexp_extract({column}, r'\\A.{{16}}(:[0-9]{{2}}([.][0-9]{{1,6}})?)', 1)"
    whole = f"CASE WHEN {seconds} = '' THEN ':00' ELSE {seconds} END"
    clock = f"substr({column}, 12, 5)"
    ends = f"({clock} = '24:00' AND {whole} RLIKE r'\\A:00([.]0+)?\\z')"
    hours = f"CASE WHEN {ends} THEN '00:00' ELSE {clock} END"
    late = f"CASE WHEN {ends} THEN {_DAY}L ELSE 0L END"
    head = f"concat(substr({column}, 1, 10), ' ', {hours}, {whole})"
    if encoding is TimeEncoding.NAIVE:
        value = _clock(f"TRY_CAST({head} AS TIMESTAMP_NTZ)")
        return _matched(column, NAIVE_TEXT, f"{value} + {late}")
    offset = f"regexp_extract({column}, r'(Z| UTC|[+-][0-9]{{2}}(:?[0-9]{{2}})?)\\z', 1)"
    where = f"CASE WHEN {offset} IN ('Z', ' UTC') THEN '+00:00' ELSE {offset} END"
    value = f"unix_micros(TRY_CAST(concat({head}, {where}) AS TIMESTAMP))"
    return _matched(column, INSTANT_TEXT, f"{value} + {late}")


def _epoch(column: str, kind: str, encoding: TimeEncoding, is_text: bool) -> str:
    multiply, divide = _SCALES[encoding]
    reach = (FAR - 1) // multiply
    if is_text:
        number = f"TRY_CAST({column} AS DECIMAL(28, 9))"
        scaled = f"CAST(floor({number} * CAST({multiply} AS DECIMAL(7, 0))) AS BIGINT)"
    elif kind == "double":
        number = column
        scaled = f"CAST(floor({number} * CAST({multiply} AS DOUBLE)) AS BIGINT)"
    else:
        number = f"TRY_CAST({column} AS BIGINT)"
        scaled = f"{number} * {multiply}L"
    inside = f"{number} BETWEEN {-reach}L AND {reach}L"
    value = f"CASE WHEN {inside} THEN {_floor_divided(scaled, divide)} ELSE {FAR}L END"
    if is_text:
        return _matched(column, NUMBER_TEXT, value)
    return f"CASE WHEN {column} IS NOT NULL THEN {value} END"


def reading_sql(events: Events, kind: str) -> str:
    """What the column says, in microseconds; `kind` is its Spark type."""
    column = quoted(events.columns.time)
    if events.time_is_text:
        column = f"CAST({column} AS STRING)"
    if events.time in (TimeEncoding.INSTANT, TimeEncoding.NAIVE):
        if events.time_is_text:
            return _text(column, events.time)
        if kind == "timestamp":
            value = f"unix_micros({column})"
            far = f"{value} >= {FAR}L OR {value} <= {BAD}L"
            return f"CASE WHEN {far} THEN {FAR}L ELSE {value} END"
        far = f"{column} NOT BETWEEN {_FIRST} AND {_LAST}"
        return f"CASE WHEN {far} THEN {FAR}L ELSE {_clock(column)} END"
    return _epoch(column, kind, events.time, events.time_is_text)


def slot_sql(grid: TimeGrid, t: str) -> str:
    """Slot of an instant inside the period: one division, in runs of slots of one length."""
    steps = np.diff(grid.edges)
    starts = np.flatnonzero(np.diff(steps, prepend=-1))  # slots where another length begins

    def between(low: int, high: int) -> str:
        if high - low == 1:
            first = int(starts[low])
            begin, step = int(grid.edges[first]), int(steps[first])
            return f"{first} + ({t} - {begin}L) div {step}L"
        middle = (low + high) // 2
        edge = int(grid.edges[starts[middle]])
        return f"IF({t} < {edge}L, {between(low, middle)}, {between(middle, high)})"

    return f"({between(0, starts.size)})"
