"""Rows on their way into a stream: one broken record must not stop it, nor touch the others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sfumato.model.errors import InputError
from sfumato.stream.intake import standard_rows


def rows_by_place(table: pa.Table) -> pa.Table:
    return standard_rows(table, {}, "feed", coordinates=False)


def test_a_value_that_cannot_be_read_drops_its_row_and_nothing_else() -> None:
    table = pa.table(
        {
            "user": ["a", "b", "c"],
            "time": ["2024-03-04T08:00:00Z", "nonsense", "2024-03-04T09:00:00+01:00"],
            "place": ["x", "x", "y"],
        }
    )
    rows = rows_by_place(table)
    assert rows["user"].to_pylist() == ["a", "c"]
    assert rows["time"].to_pylist() == [1_709_539_200_000_000] * 2


def test_numbers_that_are_no_times_are_dropped() -> None:
    times = [1.7e9, float("nan"), float("inf"), 1e300]
    table = pa.table({"user": list("abcd"), "time": times, "place": list("xxxx")})
    assert rows_by_place(table)["user"].to_pylist() == ["a"]


def test_epoch_seconds_in_text_stay_times_beside_one_that_is_none() -> None:
    times = ["1709539200", "soon", "2024-03-04T08:00:00Z", "1709539200.5"]
    table = pa.table({"user": list("abcd"), "time": times, "place": list("xxxx")})
    rows = rows_by_place(table)
    assert rows["user"].to_pylist() == ["a", "c", "d"]
    assert rows["time"].to_pylist()[0] == rows["time"].to_pylist()[1] == 1_709_539_200_000_000


def test_a_broken_coordinate_drops_its_row() -> None:
    table = pa.table(
        {"user": ["a", "b"], "time": [1.7e9] * 2, "lon": ["east", "2"], "lat": ["1"] * 2}
    )
    rows = standard_rows(table, {}, "feed", coordinates=True)
    assert rows["user"].to_pylist() == ["b"]


def test_numbers_stored_as_doubles_are_the_same_people() -> None:
    """A missing id turns whole numbers into doubles in many tools; a fraction is nobody."""
    whole = pa.table({"user": [7, 8], "time": [1.7e9] * 2, "place": ["x"] * 2})
    gap = pa.table({"user": [7.0, None, 7.5], "time": [1.7e9] * 3, "place": ["x"] * 3})
    assert rows_by_place(whole)["user"].to_pylist() == ["7", "8"]
    assert rows_by_place(gap)["user"].to_pylist() == ["7"]


def test_a_feed_without_a_column_or_with_naive_times_is_at_fault() -> None:
    with pytest.raises(InputError, match="no column for time"):
        rows_by_place(pa.table({"user": ["a"], "place": ["x"]}))
    naive = pa.array([0], pa.timestamp("us"))
    with pytest.raises(InputError, match="no zone"):
        rows_by_place(pa.table({"user": ["a"], "time": naive, "place": ["x"]}))
