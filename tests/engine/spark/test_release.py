"""`sfumato release` on Spark: paid once, finished after an interruption, nothing left or told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.density import publish
from sfumato.engine.local import LocalSource
from sfumato.engine.spark.session import _JAVA_SET_UP, _SET_UP, _pass_on
from sfumato.engine.spark.source import open_source
from sfumato.errors import InputError, UsageError
from sfumato.privacy.ledger import Ledger

pytestmark = pytest.mark.xdist_group("spark")


class Shop:
    """Events, towers and a ledger in a folder."""

    def __init__(self, home: Path, town: Any) -> None:
        self.home = home
        rng = np.random.default_rng(5)
        self.rows = [
            (int(rng.integers(0, 90)), float(rng.uniform(0, 24)), f"t{rng.integers(0, 4)}")
            for _ in range(1500)
        ]
        self.table = town.table(self.rows)
        pq.write_table(self.table, home / "events.parquet")
        towers = [f"t{i},{2.30 + 0.01 * i},{48.85 + 0.01 * (i % 2)}\n" for i in range(4)]
        (home / "towers.csv").write_text("cell_id,lon,lat\n" + "".join(towers))
        self.ledger = Ledger(home / "ledger.sqlite")
        self.settings: dict[str, Any] = {
            "towers": home / "towers.csv",
            "start": "2024-01-01",
            "end": "2024-01-02",
            "slot": "3h",
            "tz": "UTC",
            "dataset": "city",
            "epsilon": 0.5,
            "delta": 1e-6,
            "expected_users": 1000,
            "scheme": "gaussian",
        }
        result = self.run("ledger", "init", "--dataset", "city", "--cap-epsilon", "1",
                          "--cap-delta", "1e-5")  # fmt: skip
        assert result.exit_code == 0

    def run(self, *arguments: str) -> Any:
        where = ["--ledger", str(self.home / "ledger.sqlite")]
        return CliRunner().invoke(app, [*arguments, *where])

    def flags(self) -> list[str]:
        names = {"start": "--from", "end": "--to"}
        return [
            text
            for key, value in self.settings.items()
            for text in (names.get(key, "--" + key.replace("_", "-")), str(value))
        ]

    def charges(self) -> int:
        return len(self.ledger.book().charges)


@pytest.fixture
def shop(tmp_path: Path, town: Any) -> Shop:
    return Shop(tmp_path, town)


def test_interrupted_and_run_again_it_is_the_same_release_paid_once(
    shop: Shop, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.createDataFrame(shop.table)
    drawn: list[bytes] = []
    write = publish.write_release

    def write_and_stop(folder: Path, *more: Any) -> None:
        write(folder, *more)
        drawn.append((folder / "density.parquet").read_bytes())
        raise KeyboardInterrupt

    monkeypatch.setattr(publish, "write_release", write_and_stop)
    out = shop.home / "day"
    with pytest.raises(KeyboardInterrupt):
        sfumato.release(frame, out=out, ledger=shop.ledger, **shop.settings)
    assert not out.exists()
    assert spark._jsc.getPersistentRDDs().size() == 0
    monkeypatch.setattr(publish, "write_release", write)
    shuffled = frame.orderBy("tower").repartition(3)
    made = sfumato.release(shuffled, out=out, ledger=shop.ledger, **shop.settings)
    assert made.how == "resumed"
    assert shop.charges() == 1
    assert (out / "density.parquet").read_bytes() == drawn[0]


def test_changed_rows_are_refused_the_same_noise(
    shop: Shop, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publish, "write_release", stop)
        with pytest.raises(KeyboardInterrupt):
            sfumato.release(
                spark.createDataFrame(shop.table),
                out=shop.home / "day",
                ledger=shop.ledger,
                **shop.settings,
            )
    fewer = spark.createDataFrame(shop.table.slice(1))
    with pytest.raises(sfumato.errors.SfumatoError, match=r"abandon|changed|another"):
        sfumato.release(fewer, out=shop.home / "day", ledger=shop.ledger, **shop.settings)


def test_a_job_that_fails_spends_nothing(shop: Shop, spark: Any) -> None:
    broken = spark.createDataFrame(shop.table).selectExpr(
        "user", "time", "IF(user = 7, raise_error('SECRET'), tower) AS tower"
    )
    with pytest.raises(InputError) as caught:
        sfumato.release(broken, out=shop.home / "day", ledger=shop.ledger, **shop.settings)
    assert "SECRET" not in str(caught.value)
    assert shop.charges() == 0


@pytest.mark.usefixtures("spark")
def test_a_session_of_ours_starts_without_a_word(
    sessions: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """Spark warned of host names and libraries, Java of a module; errors still come through."""
    if any(name in os.environ for name in (*_SET_UP, *_JAVA_SET_UP)):
        pytest.skip("Spark or Java is set up here, and speaks as it is set up to")
    assert sessions.start == ""
    reading, writing = os.pipe()
    os.write(writing, b"WARNING: Using incubator modules\nError: too small a heap\n")
    os.close(writing)
    _pass_on(reading)
    assert capfd.readouterr().err == "Error: too small a heap\n"


def test_the_command_counts_on_the_active_session(shop: Shop, spark: Any) -> None:
    assert spark is not None
    out = str(shop.home / "out")
    events = str(shop.home / "events.parquet")
    done = shop.run("release", events, "--out", out, "--engine", "spark", *shop.flags())
    assert done.exit_code == 0, done.output
    again = shop.run("release", events, "--out", out, "--engine", "spark", *shop.flags())
    assert "nothing was done or charged" in again.output
    assert "Charged then, to" in again.output
    refused = shop.run("release", events, "--out", out, "--master", "local[2]", *shop.flags())
    assert isinstance(refused.exception, UsageError)
    with pytest.raises(UsageError, match="no engine"):
        sfumato.release(events, out=out, engine="abacus", ledger=shop.ledger, **shop.settings)


CONNECT = """
import sys, numpy as np, pyarrow.parquet as pq
from pyspark.sql import SparkSession
from sfumato.engine.spark.source import open_source
from sfumato.io.towers import read_towers
from sfumato.model.counts import Counting, SampleBound, WeightBound
from sfumato.model.time_grid import TimeGrid
from datetime import date
session = SparkSession.builder.remote("local[1]").getOrCreate()
frame = session.createDataFrame(pq.read_table(sys.argv[1]))
grid = TimeGrid.between(date(2024, 1, 1), date(2024, 1, 2), "3h", "UTC")
source = open_source(frame, read_towers(sys.argv[2]), grid)
source.fingerprint(bytes(32))
found = [source.sampled(SampleBound(2), bytes(range(32))),
         source.weighted(WeightBound(1.5), Counting.PEOPLE)]
np.save(sys.argv[3], np.stack([box._through_the_door().values for box in found]))
source.close()
session.stop()
"""


@pytest.mark.slow
def test_spark_connect_gives_the_same_bytes(shop: Shop, town: Any, tmp_path: Path) -> None:
    """A Connect server of its own, which has neither RDDs nor a way into Java."""
    from sfumato.io.towers import read_towers
    from sfumato.model.counts import Counting, SampleBound, WeightBound

    found = tmp_path / "found.npy"
    arguments = [str(shop.home / "events.parquet"), str(shop.home / "towers.csv"), str(found)]
    done = subprocess.run(
        [sys.executable, "-c", CONNECT, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    grid = town.grid(1, "3h")
    local = LocalSource(town.events(shop.rows), read_towers(shop.home / "towers.csv"), grid)
    expected = [
        town.opened(local.sampled(SampleBound(2), town.key)).values,
        town.opened(local.weighted(WeightBound(1.5), Counting.PEOPLE)).values,
    ]
    assert np.load(found).tobytes() == np.stack(expected).tobytes()


@pytest.mark.slow
def test_the_command_alone_leaves_no_file_and_no_record_in_its_log(shop: Shop) -> None:
    """A session of our own, on events with a time that is none, in the middle of secret ids."""
    lines = [f"SECRET{k},2024-01-01T0{k % 9}:00:00Z,t{k % 4}" for k in range(3000)]
    lines[2000] = "SECRET7,SECRET-TIME,t1"
    events = shop.home / "events.csv"
    events.write_text("user,time,tower\n" + "\n".join(lines) + "\n")
    command = [sys.executable, "-m", "sfumato.cli.main", "release", str(events)]
    command += ["--engine", "spark", "--master", "local[1]", "--out", str(shop.home / "day")]
    command += ["--ledger", str(shop.home / "ledger.sqlite"), "--keep-key", *shop.flags()]
    scratch = shop.home / "tmp"
    scratch.mkdir()
    env = os.environ | {"TMPDIR": str(scratch)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "SECRET" not in done.stdout + done.stderr
    assert not re.search("WARN|log4j|log level", done.stdout + done.stderr)
    assert shop.charges() == 1
    assert list(scratch.iterdir()) == []
    # By the key that was kept, one machine makes the same files and pays nothing.
    again = shop.home / "check" / "day"
    again.parent.mkdir()
    at = command.index("--engine")
    command[at : at + 6] = ["--engine", "local", "--out", str(again)]
    done = subprocess.run([*command, "--name", "day"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "with the same bytes" in done.stdout
    for path in (shop.home / "day").iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes()
    assert shop.charges() == 1


def test_a_source_that_is_opened_twice_reads_twice(shop: Shop, spark: Any, town: Any) -> None:
    """Closing lets go of the rows, not of the description."""
    from sfumato.model.counts import Counting

    frame = spark.createDataFrame(pa.Table.from_batches(shop.table.to_batches()))
    source = open_source(frame, town.towers(4), town.grid())
    first = town.opened(source.exact(Counting.VISITS)).values
    source.close()
    assert town.opened(source.exact(Counting.VISITS)).values.tobytes() == first.tobytes()
    source.close()


def test_evaluate_counts_the_truth_on_spark(shop: Shop, spark: Any) -> None:
    """The figures on Spark are those on one machine."""
    assert spark is not None  # the active session, which is asked for nothing but the truth
    squares = [shapely.box(2.295 + 0.01 * k, 48.8, 2.305 + 0.01 * k, 48.9) for k in range(4)]
    zones = geopandas.GeoDataFrame(
        {"zone_id": [f"z{k}" for k in range(4)]}, geometry=squares, crs="EPSG:4326"
    )
    zones.to_file(shop.home / "zones.geojson")
    shop.settings["zones"] = shop.home / "zones.geojson"
    out, events = str(shop.home / "day"), str(shop.home / "events.parquet")
    done = shop.run("release", events, "--out", out, *shop.flags())
    assert done.exit_code == 0, done.output
    asked = ["evaluate", out, "--events", events, "--json", "--no-earth-mover"]
    asked += ["--towers", str(shop.settings["towers"]), "--zones", str(shop.settings["zones"])]
    here = CliRunner().invoke(app, asked)
    there = CliRunner().invoke(app, [*asked, "--engine", "spark"])
    assert here.exit_code == there.exit_code == 0, there.output
    assert json.loads(here.stdout) == json.loads(there.stdout)
