"""Instants, naive readings and epoch numbers: what is understood, and what must be said."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io.planted import SECRET, SECRET_NUMBER, refused

from sfumato.io.event_time import read_time
from sfumato.io.events import read_events
from sfumato.io.schema import Column
from sfumato.model.errors import InputError, SfumatoError, UsageError
from sfumato.model.events import Events, TimeEncoding

Written = Callable[..., Path]
MOMENTS = st.datetimes(datetime(1981, 1, 1), datetime(2099, 1, 1))
STEADY = settings(derandomize=True, deadline=None, max_examples=10)
"""A reading opens a database, which is what takes the time."""
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def described(times: pa.Array | list[object], name: str = "time", **options: str) -> Events:
    return read_events(
        pa.table({"user": pa.array(["a"] * len(times)), name: times, "bs": ["x"] * len(times)}),
        **options,
    )


@STEADY
@given(st.lists(MOMENTS, min_size=1, max_size=5), st.sampled_from(["s", "ms", "us", "ns"]))
def test_timestamps_of_any_precision(moments: list[datetime], unit: str) -> None:
    naive = pa.array(moments, pa.timestamp("us")).cast(pa.timestamp(unit), safe=False)
    with pytest.raises(InputError, match="--tz"):
        described(naive)
    events = described(naive, tz="Asia/Shanghai")
    assert (events.time, events.tz) == (TimeEncoding.NAIVE, "Asia/Shanghai")
    named = described(naive, "time_utc", tz="Asia/Shanghai")
    assert (named.time, named.tz) == (TimeEncoding.NAIVE, "UTC")
    aware = described(naive.cast(pa.timestamp(unit, "Europe/Paris")), tz="Asia/Shanghai")
    assert (aware.time, aware.tz) == (TimeEncoding.INSTANT, None)


@STEADY
@given(
    st.lists(MOMENTS, min_size=1, max_size=5),
    st.integers(-14 * 60, 14 * 60),
    st.sampled_from(["auto", "minutes", "seconds", "microseconds"]),
    st.sampled_from(" T"),
)
def test_text_with_and_without_an_offset(
    moments: list[datetime], offset: int, precision: str, between: str
) -> None:
    naive = [moment.isoformat(between, precision) for moment in moments]
    with pytest.raises(InputError, match="--tz"):
        described(naive)
    events = described(naive, tz="Europe/Paris")
    assert (events.time, events.tz) == (TimeEncoding.NAIVE, "Europe/Paris")
    assert events.time_is_text
    sign = "-" if offset < 0 else "+"
    tail = f"{sign}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
    events = described([text + tail for text in naive])
    assert (events.time, events.tz, events.time_is_text) == (TimeEncoding.INSTANT, None, True)
    with pytest.raises(InputError, match=r"row 2.*another way"):
        described([naive[0], naive[0] + tail], tz="Europe/Paris")


@STEADY
@given(st.lists(MOMENTS, min_size=1, max_size=5), st.sampled_from(list(UNITS)), st.booleans())
def test_the_size_of_epoch_numbers_tells_their_unit(
    moments: list[datetime], unit: str, as_text: bool
) -> None:
    micros = [(m - datetime(1970, 1, 1)) // timedelta(microseconds=1) for m in moments]
    numbers = [value * UNITS[unit] // 10**6 for value in micros]
    events = described([str(n) for n in numbers] if as_text else pa.array(numbers, pa.int64()))
    assert events.time is TimeEncoding(f"epoch_{unit}")
    assert events.time_is_text == as_text
    assert f"'time' is read as {unit} since 1970 UTC, by the size of the numbers" in events.notes


def test_a_unit_is_taken_from_the_name_or_the_option_or_asked_for() -> None:
    assert described([12, 900], "t_ms").time is TimeEncoding.EPOCH_MS
    assert described([12, 900], time_unit="us").time is TimeEncoding.EPOCH_US
    assert "--time-unit" in refused(lambda: described([12, SECRET_NUMBER]))
    assert "the name says s, the size of the numbers says ms" in refused(
        lambda: described([1_600_000_000_000], "t_utc_s")
    )
    assert described([1_600_000_000_000], "t_s", time_unit="ms").time is TimeEncoding.EPOCH_MS
    with pytest.raises(UsageError, match="s, ms, us or ns"):
        described([1], time_unit="h")


def test_fractions_are_for_seconds() -> None:
    assert described([1.6e9, 1.6e9 + 0.25]).time is TimeEncoding.EPOCH_S
    assert described(["1600000000.25"]).time is TimeEncoding.EPOCH_S
    assert described([1.6e12, float("nan")]).time is TimeEncoding.EPOCH_MS
    assert "whole numbers" in refused(lambda: described([1.6e12, 1.6e12 + 0.5]))


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (["2020-01-01 00:00:00Z", SECRET], "row 2: the text is not a time"),
        ([None, "2020-01-01"], "row 2: a date without a time of day"),
        (["10/09/2007 13:05"], "row 1: the text is not a time"),
        ([None, None], "the first 2 rows have no time"),
        (["1600000000", "2020-01-01 00:00Z"], "row 2: the time is written in another way"),
    ],
)
def test_texts_that_are_not_times(values: list[str | None], problem: str) -> None:
    text = refused(lambda: described(pa.array(values, pa.string())))
    assert problem in text
    assert "column 'time'" in text


def test_csv_times_name_file_column_and_row(csv_file: Written) -> None:
    path = csv_file(f"user,time,bs\na,2020-01-01 00:00:00Z,x\n{SECRET},{SECRET},x\n")
    assert refused(lambda: read_events(path)).startswith(f"{path}, column 'time', row 2: ")


def test_an_unknown_zone_is_refused_also_where_it_is_not_needed() -> None:
    with pytest.raises(UsageError, match="not a known time zone"):
        described(pa.array([0], pa.timestamp("us", "UTC")), tz="Mars/Olympus")


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.lists(
        st.none() | st.integers() | st.floats() | st.text(max_size=20) | MOMENTS.map(str),
        max_size=4,
    ),
    st.sampled_from(["VARCHAR", "BIGINT", "DOUBLE", "UUID", "HUGEINT", "MAP(INTEGER, INTEGER)"]),
)
def test_whatever_the_values_a_decision_or_our_error(values: list[object], kind: str) -> None:
    if kind in ("BIGINT", "DOUBLE"):
        values = [value for value in values if value is None or isinstance(value, (int, float))]
        values = [v for v in values if not isinstance(v, int) or abs(v) < 2**63]
    column = Column("time", kind)
    with contextlib.suppress(SfumatoError):
        found = read_time(column, lambda: list(values), tz="UTC", unit=None, file=None)
        assert found.encoding in TimeEncoding


def test_utc_is_utc() -> None:
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    assert described(pa.array([moment])).time is TimeEncoding.INSTANT
