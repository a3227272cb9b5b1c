"""The gate through the engine: the counts of D ∪ u are the counts of D and those of u, added up.

Exact counts add over people, so whatever u's records are, they can only add u's own. Also the
samples of the others stay as they are, since an order depends on the id's canonical text alone.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from numpy.typing import NDArray
from tests.io import poison
from tests.io.poison import BY_NAME, BY_POSITION, PLACEMENTS, csv_zoo, json_zoo, written

from sfumato.engine.local import LocalSource
from sfumato.io.events import read_events, resolved, rows_of
from sfumato.io.rows import LONGEST_BINARY, SWOLLEN
from sfumato.model.counts import Counting, SampleBound, WeightBound
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

pytestmark = pytest.mark.privacy
GRID = TimeGrid.between(date(2024, 1, 1), date(2024, 1, 3), "1h", "UTC")
ZONES = Places.of(
    PlaceKind.ZONES,
    ["t0", "t1", "t2"],
    [shapely.box(2 + k / 10, 48, 2.1 + k / 10, 48.1) for k in range(3)],
)
TOWERS = Places.of(
    PlaceKind.TOWERS, ["t0", "t1", "t2"], [shapely.Point(2.05 + k / 10, 48.05) for k in range(3)]
)
HEADER = b"user,time,tower,lon,lat"


def counted(source: object, columns: dict[str, str] = BY_NAME) -> list[NDArray[np.int64]]:
    """Exact and bounded counts, by name or by position."""
    places = ZONES if columns is BY_POSITION else TOWERS
    opened = LocalSource(read_events(source, columns=columns, tz="UTC"), places, GRID, threads=1)
    try:
        boxes = [
            *(opened.exact(counting) for counting in Counting),
            opened.sampled(SampleBound(1), bytes(32)),
            opened.weighted(WeightBound(1.3), Counting.VISITS),
        ]
        return [box._through_the_door().values for box in boxes]
    finally:
        opened.close()


def added(both: list[Any], d: list[Any], u: list[Any]) -> bool:
    return all((x == y + z).all() for x, y, z in zip(both, d, u, strict=True))


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
@pytest.mark.parametrize("columns", [BY_NAME, BY_POSITION], ids=["names", "positions"])
def test_the_counts_of_a_poison_person_are_added_and_nothing_else(
    kind: str, columns: dict[str, str], tmp_path: Path
) -> None:
    crowd, zoo, header = poison.crowd_csv(), csv_zoo(), HEADER
    if kind == "ndjson":
        crowd, zoo, header = poison.crowd_json(), json_zoo(), None
    everyone = [line for u in zoo.values() for line in u]

    def put(name: str, lines: list[bytes], files: int = 1) -> Path:
        return written(tmp_path / name, lines, files=files, header=header, ending=f".{kind}")

    alone = counted(put("d", crowd), columns)
    assert alone[0].sum() > 20
    u = counted(put("u", everyone), columns)
    assert u[0].sum() > 0  # some of the odd records are good ones
    for place, mix in PLACEMENTS.items():
        both = counted(put(place, mix(crowd, everyone), files=3), columns)
        assert added(both, alone, u), place


def test_a_file_with_ids_of_another_kind_leaves_samples_alone(tmp_path: Path) -> None:
    """Beside a text file integers become text and bytes hex: the same people, the same order."""
    rng = np.random.default_rng(3)
    times = pa.array(rng.integers(0, 48 * 3600, 400) + 1_704_067_200, pa.int64())
    tower = pa.array([f"t{k}" for k in rng.integers(0, 3, 400)])
    numbers = rng.integers(1, 40, 400)
    for name, ids in {
        "integers": pa.array(numbers),
        "bytes": pa.array([int(k).to_bytes(3, "big") for k in numbers], pa.binary()),
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        table = pa.table({"user": ids, "time_s": times, "tower": tower})
        pq.write_table(table, folder / "d.parquet")
        alone = counted(folder)
        (folder / "u.csv").write_bytes(b"user,time,tower\npoison,2024-01-01T05:00:00Z,t1\n")
        both = counted(folder)
        change = [x - y for x, y in zip(both, alone, strict=True)]
        assert [int(np.count_nonzero(cell)) for cell in change] == [1, 1, 1, 1], name
        assert all(cell[1, 5] > 0 for cell in change)


def test_seven_is_one_person_in_every_source(tmp_path: Path) -> None:
    when = "2024-01-01T05:00:00Z"
    (tmp_path / "a.csv").write_text(f"user,time,tower\n7,{when},t1\n")
    (tmp_path / "b.ndjson").write_text(
        f'{{"user": 7.0, "time": "{when}", "tower": "t1"}}\n'
        f'{{"user": "7", "time": "{when}", "tower": "t1"}}\n'
    )
    time = pa.array([1_704_085_200], pa.int64())
    for k, kind in enumerate((pa.int8(), pa.uint64(), pa.float64(), pa.decimal128(9, 0))):
        table = pa.table(
            {"user": pa.array([7], pa.int8()).cast(kind), "time_s": time, "tower": ["t1"]}
        )
        pq.write_table(table, tmp_path / f"{k}.parquet")
    assert counted(tmp_path)[0].sum() == 1
    (tmp_path / "z.csv").write_text(f"user,time,tower\n007,{when},t1\n")
    assert counted(tmp_path)[0].sum() == 2


def test_a_long_binary_id_is_read_alike_beside_any_other_file(tmp_path: Path) -> None:
    """Beside a text file its hex digits, twice as long, are its name: neither may stop the rest."""

    def file(name: str, users: list[bytes] | list[str]) -> None:
        times = pa.array([1_704_067_200] * len(users), pa.int64())
        table = pa.table({"user": users, "t_s": times, "tower": ["t0"] * len(users)})
        pq.write_table(table, tmp_path / name)

    file("binary.parquet", [b"b" * LONGEST_BINARY, b"c" * (LONGEST_BINARY + 1)])
    assert counted(tmp_path)[0].sum() == 1
    file("text.parquet", ["anna"])
    assert counted(tmp_path)[0].sum() == 2


@pytest.mark.parametrize("column", ["user", "t", "tower"])
def test_a_long_text_that_many_rows_name_is_read_in_pieces(column: str, tmp_path: Path) -> None:
    """Fifty kilobytes of Parquet: spelled out at once, one person's rows would be gigabytes."""
    rows, times = 600, [f"2024-01-01T0{k}:00:00Z" for k in range(3)]
    texts = {"user": ["a", "b", "u"], "t": times, "tower": ["t0", "t1", "t2"]}
    texts[column][2] = "x" * (1 << 20)
    indices = pa.array([0, 1, *([2] * rows)])
    columns = {n: pa.DictionaryArray.from_arrays(indices, pa.array(texts[n])) for n in texts}
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), file, store_schema=False, dictionary_pagesize_limit=1 << 26)
    assert file.stat().st_size < 1 << 20
    events = resolved(read_events(file, tz="UTC"), zones=False)
    sizes = [found.rows for found in rows_of(events, dictionaries=column != "tower")]
    assert sum(sizes) == 2 + rows
    assert max(sizes) <= SWOLLEN >> 20
    assert counted(file, {})[0].sum() == 2
