"""The gate on Spark: every poison person of the readers' zoo in one folder, beside the crowd.

What Spark counts and drops is what one machine does, and what one machine counts of the crowd is
what it counts without them (`tests/io/test_metamorphic.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.io import poison
from tests.io.poison import PLACEMENTS, csv_zoo, json_zoo, written

from sfumato.engine.local import LocalSource
from sfumato.engine.spark.source import open_source
from sfumato.io.events import read_events
from sfumato.model.counts import Counting

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
