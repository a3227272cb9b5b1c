"""The gate on Spark: every poison person of the readers' zoo in one folder, beside the crowd.

What Spark counts and drops is what one machine does, and what one machine counts of the crowd is
what it counts without them (`tests/io/test_metamorphic.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.io import poison
from tests.io import test_formats as fleets
from tests.io.poison import PLACEMENTS, csv_zoo, json_zoo, written

from sfumato.engine.local import LocalSource
from sfumato.engine.spark.source import open_source
from sfumato.errors import SfumatoError
from sfumato.geography.places import PlaceOptions
from sfumato.io.events import read_events
from sfumato.io.traces import read_traces
from sfumato.model.counts import Counting
from sfumato.model.time_grid import period_of

pytestmark = [pytest.mark.privacy, pytest.mark.xdist_group("spark")]


def test_the_whole_zoo_at_once(town: Any, tmp_path: Path) -> None:
    header = b"user,time,tower,lon,lat"
    zoos = {"csv": (csv_zoo(), poison.crowd_csv()), "ndjson": (json_zoo(), poison.crowd_json())}
    for kind, (zoo, crowd) in zoos.items():
        people = [line for lines in zoo.values() for line in lines]
        top = header if kind == "csv" else None
        for place, order in PLACEMENTS.items():
            lines = order(crowd, people)
            written(tmp_path / place, lines, files=2, header=top, ending=f".{kind}")
    reading = {"columns": {"place": "tower"}, "tz": "UTC"}
    places, grid = town.towers(3), town.grid(days=2)
    local = LocalSource(read_events(tmp_path, **reading), places, grid)
    source = open_source(tmp_path, places, grid, **reading)
    try:
        counted = town.opened(source.exact(Counting.VISITS)).values
        assert counted.tobytes() == town.opened(local.exact(Counting.VISITS)).values.tobytes()
        assert counted.sum() >= len(poison.CROWD)
        assert (source.drops.rows, source.drops.unfit) == (local.drops.rows, local.drops.unfit)
        assert source.drops.dropped == local.drops.dropped
    finally:
        source.close()


def test_folders_of_fleets_and_what_one_of_them_holds(
    spark: Any, town: Any, tmp_path: Path
) -> None:
    """T-Drive, Cabspotting and Geolife with odd files among them; tracks are refused or unread."""
    for k, write in enumerate((fleets.tdrive, fleets.cabspotting, fleets.geolife)):
        write(tmp_path, fleets.PEOPLE[k::3])
    for name, data in fleets.ODD.values():
        if name.endswith((".txt", ".plt")) and name.isprintable():
            fleets.put(tmp_path, name, data)
    grid = period_of("2008-02-04", "2008-02-05", "6h", "Asia/Shanghai")
    places = PlaceOptions(grid="4km", region=fleets.BOX).open(period=grid, tz=grid.tz).counted
    local = LocalSource(read_events(tmp_path), places, grid)
    wanted = town.opened(local.exact(Counting.VISITS)).values
    assert wanted.sum() >= 60
    source = open_source(tmp_path, places, grid)
    try:
        assert town.opened(source.exact(Counting.VISITS)).values.tobytes() == wanted.tobytes()
        assert source.drops.dropped == local.drops.dropped
    finally:
        source.close()
    with pytest.raises(SfumatoError, match="Spark does not read gpx"):
        open_source(tmp_path, places, grid, format="gpx")
    people = [(user, time, lon, lat) for user, time, lon, lat in fleets.FIXES]
    frame = spark.createDataFrame(people, "user string, time timestamp, lon double, lat double")
    traces, _ = read_traces(frame)
    assert (len(traces), set(traces.names)) == (len(fleets.FIXES), set(fleets.PEOPLE))
