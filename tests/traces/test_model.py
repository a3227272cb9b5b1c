"""Bad input: each kind is handled, counted, and never shown."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.model.traces import (
    MICROSECONDS,
    make_traces,
    run_starts,
)

NOON_US = 1_225_540_800 * MICROSECONDS
NAMES = np.array(["a", "b"], dtype=object)


def _made(user, seconds, lon, lat, **more):  # type: ignore[no-untyped-def]
    time = NOON_US + np.array(seconds, np.int64) * MICROSECONDS
    return make_traces(
        np.array(user, np.int64), NAMES, time, np.array(lon, float), np.array(lat, float), **more
    )


def test_unsorted_rows_are_sorted() -> None:
    traces, found = _made([1, 0, 1, 0], [30, 20, 10, 0], [1, 2, 3, 4], [0, 0, 0, 0])
    assert traces.user.tolist() == [0, 0, 1, 1]
    assert traces.lon.tolist() == [4, 2, 3, 1]
    assert traces.row.tolist() == [3, 1, 2, 0]
    assert found.unsorted


def test_duplicate_times_keep_the_first_row() -> None:
    traces, found = _made([0, 0, 0, 1], [5, 5, 6, 5], [1.0, 1.5, 1.1, 9.0], [0, 0, 0, 0])
    assert traces.lon.tolist() == [1.0, 1.1, 9.0]
    assert found.repeated_times == 1
    assert "repeat an instant" in found.lines()[0]


def test_gaps_cut_trips() -> None:
    traces, _ = _made([0] * 4 + [1], [0, 60, 5000, 5060, 5061], [0] * 5, [0] * 5, gap_s=1200.0)
    assert traces.trip.tolist() == [0, 0, 1, 1, 2]
    assert traces.starts.tolist() == [0, 2, 4, 5]


def test_missing_and_impossible_places_are_left_out() -> None:
    nan = float("nan")
    traces, found = _made(
        [0, 0, -1, 0, 0, 0], [0, 1, 2, 3, 4, 5], [0, nan, 0, 200, 5, 0], [0, 0, 0, 0, 90, 90.01]
    )
    assert traces.lat.tolist() == [0, 90]
    assert (found.missing, found.off_the_globe) == (2, 2)
    assert found.dropped == 4


def test_impossible_speeds_are_counted_and_kept() -> None:
    traces, found = _made([0, 0, 0], [0, 10, 20], [0.0, 1.0, 1.0001], [0, 0, 0])
    assert len(traces) == 3
    assert found.impossible_speeds == 1


@pytest.mark.privacy
def test_a_time_outside_1980_to_2100_costs_its_row() -> None:
    time = np.array([NOON_US, NOON_US * 1000, NOON_US + 1, -1], np.int64)
    traces, found = make_traces(np.zeros(4, np.int64), NAMES, time, np.zeros(4), np.zeros(4))
    assert traces.time.tolist() == [NOON_US, NOON_US + 1]
    assert (found.far_times, found.dropped) == (2, 2)
    assert any("1980" in line for line in found.lines())


def test_empty_traces_are_empty() -> None:
    traces, found = _made([], [], [], [])
    assert len(traces) == 0
    assert traces.starts.tolist() == [0]
    assert found.rows == 0
    assert found.lines() == []


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(UsageError):
        make_traces(np.zeros(2, np.int64), NAMES, np.zeros(3, np.int64), np.zeros(2), np.zeros(2))


def test_run_starts() -> None:
    assert run_starts(np.array([1, 1, 2]), np.array([0, 1, 1])).tolist() == [0, 1, 2, 3]
