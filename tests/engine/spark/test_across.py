"""From one engine to the other: the same input has names that both know, and the same bytes."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from tests.engine.spark.test_release import Shop

import sfumato
from sfumato.density import publish
from sfumato.engine.local import LocalSource
from sfumato.engine.spark.here import survey_here
from sfumato.engine.spark.source import open_source
from sfumato.engine.spark.survey import fingerprint, survey
from sfumato.errors import ReservationRefused
from sfumato.io.events import read_events
from sfumato.model.counts import Counting
from sfumato.privacy.ledger import Cap

pytestmark = [
    pytest.mark.privacy,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
]
KEY = bytes(range(32))
SECONDS = 1_704_067_200
ROWS = 60
HEAD = b"user,time,tower\n"


@pytest.fixture
def shop(tmp_path: Path, town: Any) -> Shop:
    return Shop(tmp_path, town)


def typed(user: pa.Array, time: pa.Array, tower: pa.Array) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        table = pa.table({"user": user, "time": time, "tower": tower})
        pq.write_table(table.slice(0, 2), folder / "a.parquet")
        pq.write_table(table.slice(2), folder / "b.parquet")

    return write


def text(content: bytes, name: str = "a.csv") -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        whole = gzip.compress(content) if name.endswith(".gz") else content
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(whole)

    return write


STAMPS = pa.array([SECONDS * 10**6, None, SECONDS * 10**6 + 1000], pa.timestamp("us", "UTC"))
EPOCHS = pa.array([SECONDS, SECONDS + 5, None], pa.int64())
TOWERS = pa.array(["t0", None, "t1" * 40])
LINES = b"7,2024-01-01T01:00:00Z,t0\n8,2024-01-01T02:00:00Z,t1\r\n,,\n\n" + b"x" * 70 + b"\n9,,t0"
INPUTS = {
    "long ids": typed(pa.array([1, -7, 1 << 60]), STAMPS, TOWERS),
    "short ids": typed(pa.array([1, None, -3], pa.int16()), STAMPS, TOWERS),
    "texts": typed(pa.array(["", "é" * 9, "abc"]), STAMPS, TOWERS),
    "bytes": typed(pa.array([b"", b"\xff\x00", b"a" * 33]), STAMPS, TOWERS),
    "few texts": typed(pa.array(["a", "a", None]).dictionary_encode(), STAMPS, TOWERS),
    "decimals": typed(pa.array([1, 2, None], pa.decimal128(12, 0)), STAMPS, TOWERS),
    "numbers of seconds": typed(pa.array([1, 2, 3]), EPOCHS, TOWERS),
    "odd numbers of seconds": typed(
        pa.array([1, 2, 3]), pa.array([SECONDS + 0.5, float("nan"), -0.0]), TOWERS
    ),
    "milliseconds": typed(pa.array([1, 2, 3]), STAMPS.cast(pa.timestamp("ms", "UTC")), TOWERS),
    "clocks": typed(pa.array([1, 2, 3]), STAMPS.cast(pa.timestamp("us")), TOWERS),
    "lines": text(HEAD + LINES),
    "semicolons": text((HEAD + LINES).replace(b",", b";")),
    "a byte order mark": text(b"\xef\xbb\xbf" + HEAD + LINES),
    "compressed lines": text(HEAD + LINES, "a.csv.gz"),
    "objects": text(b'{"user": 7, "time": "2024-01-01T01:00Z", "place": "t0"}\n{}\n', "a.ndjson"),
    "folders with a meaning": text(b"user,time\n7,2024-01-01T01:00:00Z\n", "tower=t1/day=1/a.csv"),
    "nothing": text(b""),
}
HOW: dict[str, dict[str, Any]] = {
    "numbers of seconds": {"time_unit": "s"},
    "odd numbers of seconds": {"time_unit": "s"},
    "clocks": {"tz": "Europe/Paris"},
}


QUICK = ("long ids", "texts", "odd numbers of seconds", "semicolons", "folders with a meaning")


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[] if k in QUICK else [pytest.mark.slow]) for k in INPUTS]
)
def test_each_engine_knows_the_others_name_of_the_input(
    town: Any, tmp_path: Path, kind: str
) -> None:
    INPUTS[kind](tmp_path)
    places, grid, how = town.towers(2), town.grid(), HOW.get(kind, {})
    local = LocalSource(read_events(tmp_path, **how), places, grid)
    cluster = open_source(tmp_path, places, grid, **how)
    try:
        ours, theirs = local.fingerprint(KEY), cluster.fingerprint(KEY)
        # Small files of lines are summed up here also where Spark reads them.
        scanned = survey(cluster._scans, KEY)
        assert theirs == fingerprint(scanned, places, grid, KEY)
        if cluster._store.small_here(cluster._resolved):
            summed = survey_here(cluster._resolved.parts, KEY)
            assert summed is not None
            assert summed.longest == scanned.longest
        assert theirs in local.fingerprints_elsewhere(KEY)
        assert ours in cluster.fingerprints_elsewhere(KEY)
        # Another key, another row: another name.
        assert theirs not in local.fingerprints_elsewhere(bytes(32))
        if kind != "nothing":
            (tmp_path / "more.csv").write_bytes(b"user,time,tower\n5,2024-01-01T01:00:00Z,t0\n")
            other = LocalSource(read_events(tmp_path, **how), places, grid)
            assert theirs not in other.fingerprints_elsewhere(KEY)
            (tmp_path / "more.csv").unlink()
        counts = [town.opened(one.exact(Counting.VISITS)).values for one in (local, cluster)]
        assert counts[0].tobytes() == counts[1].tobytes()
        # A clock in Paris is an hour before the period begins.
        assert counts[0].any() == (kind not in ("nothing", "clocks"))
    finally:
        cluster.close()


@pytest.mark.parametrize("first", ["spark", "local"])
def test_what_one_engine_began_the_other_finishes_with_the_same_bytes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    drawn: list[bytes] = []
    write = publish.write_release

    def write_and_stop(folder: Path, *more: Any) -> None:
        write(folder, *more)
        drawn.append((folder / "density.parquet").read_bytes())
        raise KeyboardInterrupt

    def run(engine: str) -> Any:
        where = {"out": shop.home / "day", "ledger": shop.ledger, "engine": engine}
        return sfumato.release(shop.home / "events.parquet", **where, **shop.settings)

    second = "local" if first == "spark" else "spark"
    monkeypatch.setattr(publish, "write_release", write_and_stop)
    for engine in (first, second, first):
        with pytest.raises(KeyboardInterrupt):
            run(engine)
    monkeypatch.setattr(publish, "write_release", write)
    assert run(second).how == "resumed"
    assert {*drawn} == {(shop.home / "day" / "density.parquet").read_bytes()}
    assert shop.charges() == 1
    assert run(first).how == "already"


def test_other_rows_are_refused_on_the_other_engine_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    where: dict[str, Any] = {"out": shop.home / "day", "ledger": shop.ledger}
    write = publish.write_release
    monkeypatch.setattr(publish, "write_release", stop)
    with pytest.raises(KeyboardInterrupt):
        sfumato.release(shop.home / "events.parquet", engine="spark", **where, **shop.settings)
    monkeypatch.setattr(publish, "write_release", write)
    others = pa.concat_tables([shop.table.slice(1), shop.table.slice(1, 1)])  # as many as before
    pq.write_table(others, shop.home / "events.parquet")
    with pytest.raises(ReservationRefused, match="changed: the events"):
        sfumato.release(shop.home / "events.parquet", **where, **shop.settings)


def lakehouse(home: Path) -> str:
    """multimno's events by days in folders, its grid by origins in folders, as it writes them."""
    north, east = 28890, 37600
    tiles = np.array([(e << 16) + n for n in range(20) for e in range(20)], np.int32)
    put(home / f"silver/setup/grid/origin={(east << 32) + north}/quadkey=1202", grid_id=tiles)
    cells = {"cell_id": ["t0", "t1"], "latitude": [48.8565, 48.8664], "longitude": [2.3485, 2.3607]}
    put(home / "silver/mno_network/year=2024/month=1/day=1", **cells)
    day = "silver/cleaning/mno_events/year=2024/month=1/day=1/user_id_modulo=0"
    put(
        home / day,
        user_id=pa.array([b"%d" % (k % 20) for k in range(ROWS)], pa.binary()),
        timestamp=pa.array([SECONDS * 10**6 + k * 10**9 for k in range(ROWS)], pa.timestamp("us")),
        cell_id=[f"t{k % 2}" for k in range(ROWS)],
    )
    return "INSPIRE_1km"


def flowdb(home: Path) -> str:
    """An export of FlowKit's tables, events in two of them."""
    moments = pa.array(
        [SECONDS * 10**6 + k * 10**9 for k in range(ROWS)], pa.timestamp("us", "UTC")
    )
    events = {
        "msisdn": pa.array([b"%d" % (k % 20) for k in range(ROWS)], pa.binary()),
        "datetime": moments,
        "location_id": pa.array([f"t{k % 2}" for k in range(ROWS)]),
    }
    half = ROWS // 2
    put(home / "events/calls.parquet", **{name: each[:half] for name, each in events.items()})
    put(home / "events/sms.parquet", **{name: each[half:] for name, each in events.items()})
    put(
        home / "infrastructure/cells.parquet",
        id=["t0", "t1"],
        version=pa.array([0, 0], pa.int32()),
        date_of_first_service=pa.array([date(2015, 1, 1)] * 2, pa.date32()),
        date_of_last_service=pa.nulls(2, pa.date32()),
        geom_point=shapely.to_wkb(shapely.points([2.35, 2.45], [48.85, 48.85])).tolist(),
    )
    put(
        home / "geography/geoms.parquet",
        short_name=["west", "east"],
        long_name=["West", "East"],
        spatial_resolution=pa.array([3, 3], pa.int32()),
        geom=[shapely.to_wkb(shapely.box(x, 48.8, x + 0.1, 48.9)) for x in (2.3, 2.4)],
    )
    return "admin3"


@pytest.mark.parametrize(
    ("pipeline", "laid_out", "first", "then"),
    [("multimno", lakehouse, "spark", "local"), ("flowkit", flowdb, "local", "spark")],
)
def test_what_a_pipeline_holds_is_counted_on_one_engine_and_again_on_the_other(
    tmp_path: Path, pipeline: str, laid_out: Callable[[Path], str], first: str, then: str
) -> None:
    zoning = laid_out(tmp_path)
    ledger = sfumato.Ledger(tmp_path / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("city", Cap(epsilon=1, delta=1e-5))
    settings: dict[str, Any] = {
        "pipeline": pipeline, "zoning": zoning, "start": "2024-01-01",
        "end": "2024-01-02", "slot": "6h", "tz": "UTC", "dataset": "city", "epsilon": 0.5,
        "delta": 1e-6, "expected_users": 1000, "scheme": "gaussian", "anyway": True,
        "ledger": ledger, "keep_key": True, "out": tmp_path / "day",
    }  # fmt: skip
    told: list[Any] = []
    made = sfumato.release(tmp_path, engine=first, internal=told.append, **settings)
    assert told[0].kept == ROWS
    assert made.how == "new"
    settings |= {"engine": then}
    assert sfumato.release(tmp_path, **settings).how == "already"
    settings |= {"out": tmp_path / "again", "name": "day"}
    assert sfumato.release(tmp_path, **settings).how == "repeated"
    for path in (tmp_path / "day").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def put(path: Path, **columns: Any) -> None:
    """One table: a file where the name says so, else a folder of one."""
    file = path if path.suffix else path / "part-0.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file)
