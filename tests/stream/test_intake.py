"""Rows on their way into a stream: one broken record must not stop it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sfumato.model.errors import InputError
from sfumato.stream.intake import standard_rows


def test_a_value_that_cannot_be_read_drops_its_row_and_nothing_else() -> None:
    table = pa.table(
        {
            "user": ["a", "b", "c"],
            "time": ["2024-03-04T08:00:00Z", "nonsense", "2024-03-04T09:00:00+01:00"],
            "place": ["x", "x", "y"],
        }
    )
    rows = standard_rows(table, {}, "feed")
    assert rows["user"].to_pylist() == ["a", "c"]
    assert rows["time"].to_pylist() == [1_709_539_200_000_000] * 2


def test_numbers_that_are_no_times_are_dropped() -> None:
    times = [1.7e9, float("nan"), float("inf"), 1e300]
    table = pa.table({"user": list("abcd"), "time": times, "place": list("xxxx")})
    assert standard_rows(table, {}, "feed")["user"].to_pylist() == ["a"]


def test_a_broken_coordinate_is_no_coordinate() -> None:
    table = pa.table({"user": ["a"], "time": [1.7e9], "lon": ["east"], "lat": ["48.8"]})
    assert standard_rows(table, {}, "feed")["lon"].to_pylist() == [None]


def test_a_feed_without_a_column_or_with_naive_times_is_at_fault() -> None:
    with pytest.raises(InputError, match="no column for time"):
        standard_rows(pa.table({"user": ["a"], "place": ["x"]}), {}, "feed")
    naive = pa.array([0], pa.timestamp("us"))
    with pytest.raises(InputError, match="no zone"):
        standard_rows(pa.table({"user": ["a"], "time": naive, "place": ["x"]}), {}, "feed")
