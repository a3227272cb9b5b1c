from __future__ import annotations

import json
from pathlib import Path

import geopandas as gpd
import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely

from sfumato.city import crowd
from sfumato.city.write import crowd_events, write_crowd
from sfumato.errors import UsageError

PLAN = crowd.CrowdPlan(people=300, days=2, columns=30, rows=20)


def test_records_lie_in_the_cells_that_were_generated(tmp_path: Path) -> None:
    days: list[int] = []
    said = write_crowd(PLAN, tmp_path, days.append)
    events = pq.read_table(tmp_path / "events.parquet")
    cells = gpd.read_file(tmp_path / "zones.geojson")
    assert events.column_names == ["user_id", "timestamp", "lon", "lat"]
    assert len(events) == said["scale"]["events"] == 300 * 2 * 19
    assert json.loads((tmp_path / "city.json").read_text()) == said
    assert sum(days) == 2
    points = shapely.points(np.asarray(events["lon"]), np.asarray(events["lat"]))
    record, cell = shapely.STRtree(cells.geometry.array).query(points, predicate="within")
    assert np.array_equal(record, np.arange(len(events)))
    truth = crowd.generate(PLAN).cells
    expected = np.concatenate([truth[:, day].T.ravel() for day in range(2)])
    np.testing.assert_array_equal(cell, expected)


def test_readings_are_on_the_full_local_hours() -> None:
    batch = next(crowd_events(crowd.generate(PLAN)))
    times = np.unique(np.asarray(batch["timestamp"]))
    assert len(times) == 19
    assert times[0] == np.datetime64("2008-02-03T19:00:00"), "03:00 in Beijing"
    assert (np.diff(times) == np.timedelta64(1, "h")).all()


@pytest.mark.parametrize(
    "wrong", [{"people": 0}, {"slots": 25}, {"first_hour": 6}, {"tz": "Peking"}, {"columns": 2}]
)
def test_a_plan_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        crowd.CrowdPlan(**wrong)  # type: ignore[arg-type]
