"""Instants, clocks and epoch numbers: decided by type, name and options, never by a value."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from tests.io.planted import SECRET, SECRET_NUMBER, refused

from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.io.columns import read_time
from sfumato.io.events import read_events
from sfumato.io.tables import Column
from sfumato.model.events import Reading, TimeEncoding

MOMENT = datetime(2020, 1, 1)


def described(times: pa.Array | list[object], name: str = "time", **options: str) -> Reading:
    events = read_events(
        pa.table({"user": pa.array(["a"] * len(times)), name: times, "bs": ["x"] * len(times)}),
        **options,
    )
    return events.parts[0].reading


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_any_precision(unit: str) -> None:
    naive = pa.array([MOMENT], pa.timestamp(unit))
    with pytest.raises(InputError, match="events_tz="):
        described(naive)
    reading = described(naive, tz="Asia/Shanghai")
    assert (reading.time, reading.tz) == (TimeEncoding.NAIVE, "Asia/Shanghai")
    named = described(naive, "time_utc", tz="Asia/Shanghai")
    assert (named.time, named.tz) == (TimeEncoding.NAIVE, "UTC")
    aware = described(naive.cast(pa.timestamp(unit, "Europe/Paris")), tz="Asia/Shanghai")
    assert (aware.time, aware.tz) == (TimeEncoding.INSTANT, None)


@pytest.mark.privacy
@pytest.mark.parametrize(
    "values",
    [
        [],
        [None],
        ["2020-01-01 00:00:00"],
        ["2020-01-01 00:00:00Z", "2020-01-01 00:00:00"],
        ["1600000000"],
        ["1600000000000", SECRET],
        ["10/09/2007 13:05"],
    ],
)
def test_a_column_of_text_is_iso_whatever_is_in_it(values: list[str | None]) -> None:
    column = pa.array(values, pa.string())
    reading = described(column, tz="Europe/Paris")
    assert (reading.time, reading.tz) == (TimeEncoding.ISO, "Europe/Paris")
    assert reading.time_is_text
    assert described(column).tz is None  # an offset is needed then, row by row
    assert described(column, "time_utc", tz="Europe/Paris").tz == "UTC"
    assert described(column, time_unit="s").time is TimeEncoding.EPOCH_S
    assert described(column, "time_ms").time is TimeEncoding.EPOCH_MS


@pytest.mark.privacy
@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint64(), pa.float64()])
def test_a_column_of_numbers_says_its_unit_in_name_or_option(kind: pa.DataType) -> None:
    """Whatever the numbers are: their size decides nothing."""
    for numbers in ([], [0], [1_600_000_000], [2_000_000_000, SECRET_NUMBER % 2**31]):
        column = pa.array(numbers, kind)
        assert "`time_unit`" in refused(lambda column=column: described(column))
        assert described(column, "t_ms").time is TimeEncoding.EPOCH_MS
        assert described(column, time_unit="us").time is TimeEncoding.EPOCH_US
        assert described(column, "t_s", time_unit="ms").time is TimeEncoding.EPOCH_MS
    with pytest.raises(UsageError, match="s, ms, us or ns"):
        described(column, time_unit="h")


def test_what_is_assumed_is_said() -> None:
    def notes(name: str, **options: str) -> tuple[str, ...]:
        return read_time(
            Column(name, "VARCHAR"),
            tz=options.get("tz"),
            unit=options.get("unit"),
            file=None,
        ).notes

    assert "with an offset" in notes("time")[0]
    assert "on the clock of Europe/Paris" in notes("time", tz="Europe/Paris")[0]
    assert "s since 1970 UTC, by its name" in notes("time_s")[0]
    assert "ms since 1970 UTC, as asked" in notes("time", unit="ms")[0]


def test_an_unknown_zone_is_refused_also_where_it_is_not_needed() -> None:
    with pytest.raises(UsageError, match="not a known time zone"):
        described(pa.array([0], pa.timestamp("us", "UTC")), tz="Mars/Olympus")


@pytest.mark.parametrize("kind", ["UUID", "HUGEINT", "MAP(INTEGER, INTEGER)", "BOOLEAN", "DATE"])
@pytest.mark.parametrize("name", ["time", "time_s", "time_utc"])
def test_whatever_the_type_a_decision_or_our_error(kind: str, name: str) -> None:
    with contextlib.suppress(SfumatoError):
        found = read_time(Column(name, kind), tz="UTC", unit=None, file=None)
        assert found.encoding in TimeEncoding


def test_utc_is_utc() -> None:
    assert described(pa.array([MOMENT.replace(tzinfo=UTC)])).time is TimeEncoding.INSTANT
