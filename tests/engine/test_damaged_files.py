"""A file of a folder that breaks in the middle gives no rows, and the others give all of theirs."""

from __future__ import annotations

import gzip
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shapely import Point
from tests.io.footers import FILE, restate

from sfumato.engine.local import LocalSource
from sfumato.io.events import read_events, resolved
from sfumato.model.counts import SampleBound
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.door import open_private

pytestmark = pytest.mark.privacy

GRID = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "12h", "UTC")
TOWERS = Places.of(PlaceKind.TOWERS, ["x", "y"], [Point(2, 48), Point(2.1, 48)])
TIME = "2024-03-04T08:00:00Z"


def lines(users: range, place: str) -> bytes:
    rows = (f"u{user * 7919},{TIME},{place}" for user in users)
    return "\n".join(["user,time,tower", *rows, ""]).encode()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["1", "2", "3"])
def test_a_file_that_breaks_takes_no_other_with_it(name: str, threads: int, tmp_path: Path) -> None:
    """One person's file decides about nobody else's, wherever it stands among them."""
    (tmp_path / "1-good.csv").write_bytes(lines(range(40), "x"))
    (tmp_path / "2-good.csv").write_bytes(lines(range(40, 100), "y"))
    packed = gzip.compress(lines(range(1000, 40_000), "x"), 1)
    (tmp_path / f"{name}-cut.csv.gz").write_bytes(packed[: len(packed) // 2])
    events = resolved(read_events(tmp_path), zones=False)
    assert len(events.parts) == 3  # nothing in its first line tells
    source = LocalSource(events, TOWERS, GRID, threads=threads)
    try:
        counts = open_private(source.sampled(SampleBound(1), bytes(32))).values
    finally:
        source.close()
    assert np.array_equal(counts, [[40, 0], [60, 0]])


def counted(folder: Path) -> np.ndarray:
    events = resolved(read_events(folder), zones=False)
    source = LocalSource(events, TOWERS, GRID, threads=1)
    try:
        return open_private(source.sampled(SampleBound(1), bytes(32))).values
    finally:
        source.close()


def texts(folder: Path) -> Path:
    """A Parquet file of texts in many pages."""
    users = [f"u{user * 7919}" for user in range(1000, 2000)]
    columns = {"user": users, "time": [TIME] * 1000, "tower": ["y"] * 999 + ["elsewhere"]}
    path = folder / "2.parquet"
    pages = {"data_page_size": 100, "write_batch_size": 50, "use_dictionary": False}
    pq.write_table(pa.table(columns), path, store_schema=False, **pages)
    return path


def test_a_row_group_whose_columns_end_apart_gives_no_rows(tmp_path: Path) -> None:
    """Also where the ids are whole, and it is the other columns that end before."""
    (tmp_path / "1-good.csv").write_bytes(lines(range(40), "x"))
    restate(texts(tmp_path), 1000, 3, {2: 200})
    assert np.array_equal(counted(tmp_path), [[40, 0], [0, 0]])


@pytest.mark.parametrize("rows", [-(1 << 63), -1, 0, 1 << 40, (1 << 63) - 1])
def test_rows_that_a_footer_promises_are_not_counted_on(tmp_path: Path, rows: int) -> None:
    restate(texts(tmp_path), 1000, 3, {FILE: rows})
    assert np.array_equal(counted(tmp_path), [[0, 0], [999, 0]])
