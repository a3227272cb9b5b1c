"""On Spark too one person is one user, with byte order marks before the id or without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.engine.test_marks import write_marked

from sfumato.engine.local import LocalSource
from sfumato.engine.spark.source import open_source
from sfumato.io.events import read_events
from sfumato.model.counts import SampleBound

pytestmark = [
    pytest.mark.privacy,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
]


def test_one_person_is_one_user_in_every_column_and_format(tmp_path: Path, town: Any) -> None:
    rows = write_marked(tmp_path, "amelie")
    places, grid = town.towers(1), town.grid()
    local = LocalSource(read_events(tmp_path), places, grid)
    cluster = open_source(tmp_path, places, grid)
    try:
        assert cluster.drops.kept == rows
        counts = [
            town.opened(one.sampled(SampleBound(1), town.key)).values for one in (local, cluster)
        ]
        assert counts[0].tobytes() == counts[1].tobytes()
        assert counts[1].sum() == 1
    finally:
        cluster.close()
