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
from tests.io.footers import FILE, IMPOSSIBLE, make_impossible, restate

from sfumato.engine.local import LocalSource
from sfumato.io.events import read_events, resolved, rows_of
from sfumato.io.files import Damaged
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


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_a_footer_that_cannot_be_is_a_damaged_file(tmp_path: Path, what: str) -> None:
    """Asked in Python for such columns, Arrow ends the process."""
    (tmp_path / "1-good.csv").write_bytes(lines(range(40), "x"))
    make_impossible(texts(tmp_path), what)
    assert np.array_equal(counted(tmp_path), [[40, 0], [0, 0]])
    with pytest.raises(Damaged, match="damaged or cut short"):
        list(rows_of(resolved(read_events(tmp_path / "2.parquet"), zones=False)))


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_nor_is_one_believed_where_there_are_no_rows(tmp_path: Path, what: str) -> None:
    (tmp_path / "1-good.csv").write_bytes(lines(range(40), "x"))
    table = pq.read_table(texts(tmp_path))
    with pq.ParquetWriter(tmp_path / "2.parquet", table.schema, store_schema=False) as sink:
        sink.write_table(table.slice(0, 0))
    make_impossible(tmp_path / "2.parquet", what)
    assert np.array_equal(counted(tmp_path), [[40, 0], [0, 0]])


def test_empty_row_groups_take_no_rows_from_others(tmp_path: Path) -> None:
    table = pq.read_table(texts(tmp_path))
    with pq.ParquetWriter(tmp_path / "2.parquet", table.schema, use_dictionary=False) as sink:
        for start, rows in ((0, 0), (0, 600), (600, 0), (600, 400), (0, 0)):
            sink.write_table(table.slice(start, rows))
    assert pq.ParquetFile(tmp_path / "2.parquet").num_row_groups == 5
    assert np.array_equal(counted(tmp_path), [[0, 0], [999, 0]])


def test_what_is_damaged_in_columns_that_nobody_asked_for_costs_nothing(tmp_path: Path) -> None:
    """Only columns that are used are read at all, whatever the footer says of others."""
    path = texts(tmp_path)
    table = pq.read_table(path).append_column("more", [["m"] * 1000])
    options = {"use_dictionary": False, "compression": {"more": "snappy", "user": "zstd"}}
    pq.write_table(table, path, store_schema=False, **options)
    make_impossible(path, "codec")
    assert np.array_equal(counted(tmp_path), [[0, 0], [999, 0]])
