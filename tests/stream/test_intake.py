"""Rows on their way into a stream: one broken record must not stop it, nor touch the others."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from shapely import Point

from sfumato.model.errors import InputError
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.door import open_private
from sfumato.privacy.units import Unit
from sfumato.stream.calendar import Calendar
from sfumato.stream.facts import StreamFacts
from sfumato.stream.intake import Buffer, Dropped, standard_rows


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


def test_a_person_counts_once_in_a_slot_however_often_and_wherever_they_were_seen() -> None:
    """In two places, in two batches, as a number and as text: one position."""
    grid = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "12h", "UTC")
    towers = Places.of(PlaceKind.TOWERS, ["x", "y"], [Point(2, 48), Point(2.1, 48)])
    facts = StreamFacts(2, Calendar.of(grid), 1.0, unit=Unit.parse("user-day"))
    buffer = Buffer(grid, towers, facts, coordinates=False)
    noon = 1_709_553_600.0
    for user, place in ((7, "x"), ("7", "y"), (7.0, "y"), ("8", "x"), ("9", "nowhere")):
        early = pa.table({"user": [user], "time": [noon - 60], "place": [place]})
        buffer.add(rows_by_place(early))
    counts = open_private(buffer.close(bytes(32)))
    assert counts.values.sum() == 2
    assert (counts.l1, counts.l2) == (1.0, 1.0)
    buffer.add(rows_by_place(pa.table({"user": ["a"], "time": [noon - 60], "place": ["x"]})))
    buffer.add(rows_by_place(pa.table({"user": ["b"], "time": [noon + 1e6], "place": ["x"]})))
    assert buffer.dropped == Dropped(late=1, outside=1)
    assert open_private(buffer.close(bytes(32))).values.sum() == 0
