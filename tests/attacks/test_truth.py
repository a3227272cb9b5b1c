from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pytest
import shapely

from sfumato.attacks.trajectories import fill, trajectories
from sfumato.errors import InputError, UsageError
from sfumato.io.events import read_events
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

GRID = TimeGrid.between(date(2020, 1, 1), date(2020, 1, 2), "6h", "UTC")
PLACES = Places.of(
    PlaceKind.ZONES, ["a", "b"], np.array([shapely.box(0, 0, 1, 1), shapely.box(1, 0, 2, 1)])
)


def events(rows: list[tuple[str, str, str]]) -> object:
    user, time, place = zip(*rows, strict=True)
    return read_events(
        pa.table({"user": list(user), "time": list(time), "place": list(place)}), tz="UTC"
    )


def test_slots_without_a_record_hold_the_last_known_place() -> None:
    rows = np.array([[-1, 3, -1, 5], [-1, -1, -1, 2]], dtype=np.int32)
    assert fill(rows).tolist() == [[3, 3, 3, 5], [2, 2, 2, 2]]


def test_trajectories_of_events() -> None:
    read = events(
        [
            ("u", "2020-01-01T01:00:00Z", "a"),
            ("u", "2020-01-01T13:00:00Z", "b"),
            ("v", "2020-01-01T20:00:00Z", "b"),
            ("w", "2021-01-01T20:00:00Z", "b"),
        ]
    )
    found = trajectories(read, PLACES, GRID)  # type: ignore[arg-type]
    assert sorted(found.cells.tolist()) == [[0, 0, 1, 1], [1, 1, 1, 1]]
    assert found.filled == pytest.approx(5 / 8)


def test_a_place_that_was_chosen_counts_and_not_the_position_beside_it() -> None:
    rows = {"user": ["u"], "time": ["2020-01-01T01:00:00Z"], "place": ["b"], "lon": [0.5]}
    table = pa.table(rows | {"lat": [0.5]})
    by_name = read_events(table, columns={"place": "place"})
    assert trajectories(by_name, PLACES, GRID).cells.tolist() == [[1, 1, 1, 1]]
    by_position = read_events(table, columns={"lon": "lon", "lat": "lat"})
    assert trajectories(by_position, PLACES, GRID).cells.tolist() == [[0, 0, 0, 0]]
    with pytest.raises(UsageError, match="not said"):
        trajectories(read_events(table), PLACES, GRID)


def test_events_of_another_period_are_refused() -> None:
    read = events([("u", "2021-01-01T01:00:00Z", "a")])
    with pytest.raises(InputError):
        trajectories(read, PLACES, GRID)  # type: ignore[arg-type]
