"""On Spark, as on one machine, a row costs itself alone and no row stops a count."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from sfumato.engine.local import LocalSource
from sfumato.engine.spark import files
from sfumato.engine.spark import source as engine
from sfumato.engine.spark.session import unmeasured
from sfumato.engine.spark.source import SparkSource, open_source
from sfumato.errors import InputError, UsageError
from sfumato.io.events import read_events
from sfumato.model.counts import Counting
from sfumato.model.places import PlaceKind, Places

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.privacy]

T = b"2024-01-01T05:00Z"
POISON = [
    b'"u,2024-01-01T05:00Z,t0',
    b'u,2024-01-01T05:00Z,"t0',
    b'"u"x,2024-01-01T05:00Z,t0',
    b"u\xff\xfe,2024-01-01T05:00Z,t0",
    b"u\0,2024-01-01T05:00Z\0,t0",
    b"u,2024-01-01T05:00Z,t\xc3",
    b"\xef\xbb\xbfu,1e400,t0",
    b"u,1704085200,t0",
    b"u,99999999999999999999999,t0",
    b"u,2024-02-30T05:00Z,t0",
    b"u,2024-01-01 24:00,t0",
    b"u,2024-01-01T05:00+99,t0",
    b"u,SECRET,t0",
    b"u,,t0",
    b",2024-01-01T05:00Z,t0",
    b"u,2024-01-01T05:00Z,",
    b"u,2024-01-01T05:00Z,t0,more",
    b"u,2024-01-01T05:00Z",
    b"user,time,tower",
    b"",
    b"\r",
    b"\x0b,\x1c,\x85",
    b"u" * (1 << 20) + b",2024-01-01T05:00Z,t0",
    b"u" * ((1 << 20) - 100) + b",2024-01-01T05:00Z,t0",
    b"u,2024-01-01T05:00Z," + b"t" * (3 << 20),
]
OBJECTS = [
    b'{"user": 7, "time": "2024-01-01T05:00Z", "tower": "t0"}',
    b'{"user": "7", "time": 1704085200, "tower": "t1"',
    b'{"user": {"a": 1}, "time": true, "tower": [1]}',
    b'{"user": "\xff", "time": "2024-01-01T05:00Z", "tower": "t0"}',
    b'{"user": 1, "user": 1e999, "time": 1e99, "tower": "t0"}',
    b'{"user": "\\ud800", "time": "2024-01-01T05:00Z", "tower": "t0"}',
    b"[1]",
    b'{"user": "7", "time": 1704085200.5, "tower": "t1"}',
]


def good(count: int, start: int = 0) -> list[bytes]:
    return [b"g%d,2024-01-01T0%d:00Z,t%d" % (k, k % 9, k % 3) for k in range(start, start + count)]


@pytest.fixture
def small_splits(spark: Any) -> Any:
    """Files in several pieces each, so that lines and headers meet their edges."""
    key = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(key)
    spark.conf.set(key, str(1 << 20))
    yield spark
    spark.conf.set(key, before)


def counted(town: Any, given: Any, places: Places, **reading: Any) -> Any:
    """Exact counts, sampled counts and drops, the same bytes from both engines."""
    local = LocalSource(read_events(given, **reading), places, town.grid())
    source = open_source(given, places, town.grid(), **reading)
    try:
        values = town.opened(source.exact(Counting.VISITS)).values
        assert values.tobytes() == town.opened(local.exact(Counting.VISITS)).values.tobytes()
        here, there = local.drops, source.drops
        assert (there.rows, there.unfit) == (here.rows, here.unfit)
        assert there.dropped == here.dropped
    finally:
        source.close()
    return values


def poisoned(folder: Path) -> None:
    """Files of every format and schema beside one another, each with rows that cannot be read."""
    lines = [b"user,time,tower", *good(40), *POISON, *good(40, 40), *POISON]
    (folder / "a.csv").write_bytes(b"\n".join(lines))
    turned = [b"tower;cell;user;time", b"t1;x;g1;2024-01-01T05:00Z\r", b'"t1;x;y', b"t2;;g2;bad"]
    (folder / "b, é [1].csv.gz").write_bytes(gzip.compress(b"\n".join(turned)))
    (folder / "c.ndjson").write_bytes(b"\n".join(OBJECTS))
    (folder / "d.csv").write_bytes(b"colour,size\n1,2\n")
    (folder / "e.csv").write_bytes(b"user,time,tower\n")
    (folder / "f.csv").write_bytes(b"")
    numbers = pa.table(
        {
            "user": pa.array([7, 2**64 - 1, None], pa.uint64()),
            "t_ms": pa.array([1704085200000, -(2**63), None], pa.int64()),
            "tower": ["t0", "t1", "t2"],
        }
    )
    pq.write_table(numbers, folder / "h.parquet")
    raw = pa.array([b"7", b"\xff", b"g1", None], pa.binary())
    texts = pa.table(
        {
            "user": raw.view(pa.string()),
            "time": pa.array([T, T, b"\xff\xfe", T]).view(pa.string()),
            "tower": pa.array([b"t0", b"t0", b"t1", b"t\xc3"]).view(pa.string()),
        }
    )
    pq.write_table(texts, folder / "i.parquet")
    (folder / "k.parquet").write_bytes(b"PAR1 and no more")


def damaged(folder: Path) -> None:
    """Two files whose schemas are whole and whose rows cannot be read to the end."""
    whole = gzip.compress(b"user,time,tower\n" + b"\n".join(good(9000)), mtime=0)
    (folder / "g.csv.gz").write_bytes(whole[: len(whole) // 2])
    table = pa.table({"user": ["u"], "time": [T.decode()], "tower": ["t0"]})
    file = folder / "j.parquet"
    pq.write_table(table, file, compression="none", use_dictionary=False)
    file.write_bytes(b"PAR1" + b"\xff" * 60 + file.read_bytes()[64:])


@pytest.mark.usefixtures("small_splits")
def test_a_folder_full_of_poison_counts_as_on_one_machine(town: Any, tmp_path: Path) -> None:
    poisoned(tmp_path)
    values = counted(town, tmp_path, town.towers(3))
    assert values.sum() > 80  # the rows between the poison are all there


@pytest.mark.usefixtures("small_splits")
def test_a_poisoned_person_changes_nobody_elses_count(town: Any, tmp_path: Path) -> None:
    """Lines of unknown towers, so that they count nowhere: the table is as without them."""
    poison = [line.replace(b"t0", b"nowhere") for line in POISON]
    tables, asked = [], (town.towers(3), town.grid())
    for k, lines in enumerate(([], poison)):
        file = tmp_path / f"{k}.csv"
        head = [b"user,time,tower", *lines]
        file.write_bytes(b"\n".join([*head, *good(50), *lines, *good(50, 50), *lines]))
        opened = open_source(file, town.towers(3), town.grid(), tz="UTC")
        # As if somebody had very many rows: repeats are dropped before the exchange.
        crowd = {"crowded": 1, "rows_per_task": 40}
        source = SparkSource(opened.events, *asked, store=opened._store, **crowd)
        tables.append(town.opened(source.exact(Counting.VISITS)).values)
        source.close()
    assert tables[0].sum() == 100
    assert tables[0].tobytes() == tables[1].tobytes()


@pytest.mark.usefixtures("spark")
def test_no_rows_are_zeros(town: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"user,time,tower\n")
    (tmp_path / "none").mkdir()
    for given in (tmp_path / "a.csv", tmp_path / "none"):
        assert counted(town, given, town.towers(2)).sum() == 0
    source = open_source(tmp_path / "none", town.towers(2), town.grid())
    assert len(source.fingerprint(town.key)) == 64
    source.close()


@pytest.mark.usefixtures("spark")
def test_a_damaged_file_gives_no_rows_where_it_was_found(town: Any, tmp_path: Path) -> None:
    damaged(tmp_path)
    (tmp_path / "a.csv").write_bytes(b"\n".join([b"user,time,tower", *good(5)]))
    assert counted(town, tmp_path, town.towers(3)).sum() == 5


@pytest.mark.usefixtures("spark")
def test_a_file_whose_name_is_no_text_stops_no_other(town: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\n".join([b"user,time,tower", *good(5)]))
    try:
        (tmp_path / os.fsdecode(b"u\xff.csv")).write_bytes(b"user,time,tower\nu," + T + b",t0\n")
    except OSError:
        pytest.skip("this file system refuses the name")
    source = open_source(tmp_path, town.towers(3), town.grid(), tz="UTC")
    try:
        assert town.opened(source.exact(Counting.VISITS)).values.sum() == 5
        assert source.drops.unfit == 1
    finally:
        source.close()


@pytest.mark.usefixtures("spark")
def test_a_named_file_that_does_not_fit_is_refused(town: Any, tmp_path: Path) -> None:
    damaged(tmp_path)
    (tmp_path / "d.csv").write_bytes(b"colour,size\n1,2\n")
    (tmp_path / "k.parquet").write_bytes(b"PAR1 and no more")
    for name in ("d.csv", "g.csv.gz", "j.parquet", "k.parquet"):
        with pytest.raises(InputError) as caught:
            _ = open_source(tmp_path / name, town.towers(3), town.grid()).drops
        assert "SECRET" not in str(caught.value)


@pytest.mark.usefixtures("spark")
def test_texts_in_numbers_and_odd_epochs_are_dropped(town: Any, tmp_path: Path) -> None:
    """Coordinates and epoch numbers as text, in zones that hold a place column as well."""
    zones = Places.of(PlaceKind.ZONES, ["z"], [shapely.box(2, 48, 2.1, 48.1)])
    told = ["2.05", "n/a", "+2.05e0", " 2.05", "nan", "inf", "1e400", "", "0x2", "2,05", "1_000"]
    times = ["1704085200", "1704085200.5", "1e9", "-1", "9" * 19, "9" * 30, "", "SECRET", " 1"]
    table = pa.table(
        {
            "user": [f"u{k}" for k in range(len(told) * len(times))],
            "t_s": [time for time in times for _ in told],
            "lon": told * len(times),
            "lat": ["48.05"] * len(told) * len(times),
            "cell": ["z"] * len(told) * len(times),
        }
    )
    file = tmp_path / "gps.parquet"
    pq.write_table(table, file)
    chosen = {"lon": "lon", "lat": "lat"}
    assert counted(town, file, zones, columns=chosen).sum() == 4
    with pytest.raises(UsageError, match="which of them"):
        open_source(file, zones, town.grid())


def test_unsigned_and_extreme_times_of_a_frame_are_far(town: Any, spark: Any) -> None:
    moments = [1704085200, 2**64 - 1, None, 0]
    table = pa.table(
        {
            "user": [1, 2, 3, 4],
            "t_s": pa.array(moments, pa.decimal128(20, 0)),
            "tower": ["t0"] * 4,
        }
    )
    source = open_source(spark.createDataFrame(table), town.towers(1), town.grid())
    unsigned = table.set_column(1, "t_s", pa.array(moments, pa.uint64()))
    local = LocalSource(read_events(unsigned), town.towers(1), town.grid())
    try:
        assert source.drops.dropped == local.drops.dropped
        assert town.opened(source.exact(Counting.VISITS)).values.sum() == 1
    finally:
        source.close()


@pytest.mark.usefixtures("spark")
def test_folders_name_towers_of_text_files_too(town: Any, tmp_path: Path) -> None:
    for number, tower in enumerate(("t0", "t1", "__HIVE_DEFAULT_PARTITION__", "t%31")):
        folder = tmp_path / f"tower={tower}" / f"day={number}"
        folder.mkdir(parents=True)
        (folder / "a.csv").write_bytes(b"user,time\ng%d,2024-01-01T05:00Z\n" % number)
        table = town.table([(number, 5.5, "not this")])
        pq.write_table(table, folder / "b.parquet")
    values = counted(town, tmp_path, town.towers(2))
    assert np.asarray(values).sum(axis=1).tolist() == [2, 4]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_one_long_record_has_every_batch_measured(
    town: Any, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Short ones need it not, in sessions of ours alone; settings are left as they were."""
    limit, seen = "spark.sql.execution.arrow.maxBytesPerBatch", []

    @contextmanager
    def watched(session: Any) -> Iterator[None]:
        with unmeasured(session):
            seen.append(session.conf.get(limit, None))
            yield

    def measured(*ids: str) -> bool:
        lines = [f"{name},2024-01-01T05:00Z,t0" for name in ids]
        file = tmp_path / f"a.{kind}"
        file.write_text("\n".join(["user,time,tower", *lines]))
        if kind == "parquet":
            rows = {
                "user": ids,
                "time": ["2024-01-01T05:00Z"] * len(ids),
                "tower": ["t0"] * len(ids),
            }
            pq.write_table(pa.table(rows), file)
        seen.clear()
        assert counted(town, file, town.towers(1)).sum() == len(ids)
        assert spark.conf.get(limit, None) is None
        return not any(seen)

    monkeypatch.setattr(engine, "unmeasured", watched)
    assert not measured("a", "b")
    assert measured("a", "b" * 3000)
    monkeypatch.setattr(engine, "SHORT_ROW", 1 << 20)
    assert not measured("a", "b" * 3000)
    spark.conf.set("spark.sfumato.session", "")  # somebody else's
    try:
        assert measured("a", "b")
    finally:
        spark.conf.set("spark.sfumato.session", "own")


@pytest.mark.usefixtures("spark")
def test_addresses_are_listed_and_described_by_spark(
    town: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of this machine, as if only Spark could see them."""
    poisoned(tmp_path)
    folder = tmp_path / "tower=t1"
    folder.mkdir()
    (folder / "a.csv").write_bytes(b"user,time\ng,2024-01-01T05:00Z\n")
    expected = LocalSource(read_events(tmp_path), town.towers(3), town.grid())
    monkeypatch.setattr(files, "_local", lambda _: None)
    for given in (tmp_path.as_uri(), tmp_path.as_uri() + "/*"):
        source = open_source(given, town.towers(3), town.grid())
        try:
            values = town.opened(source.exact(Counting.VISITS)).values
            assert values.tobytes() == town.opened(expected.exact(Counting.VISITS)).values.tobytes()
            assert source.drops.dropped == expected.drops.dropped
        finally:
            source.close()
    with pytest.raises(InputError, match="not"):
        open_source((tmp_path / "d.csv").as_uri(), town.towers(3), town.grid())
