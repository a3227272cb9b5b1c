"""Micro-batches reach a stream once, whatever fails on the way, and give the same bytes."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.streams.zygote import TOWERS

import sfumato
from sfumato.errors import InputError, UsageError
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger

pytestmark = [pytest.mark.privacy, pytest.mark.xdist_group("spark")]
BATCHES = 3
ROOT = Path(__file__).parents[3]


class Fell(Exception):
    """What stands for a kill of the driver."""


def rows(batch: int) -> list[dict[str, Any]]:
    hours = [(7 * k + 5 * batch) % 48 for k in range(40)]
    return [
        {
            "user": f"u{(k + batch) % 25}",
            "time": f"2024-03-{4 + hour // 24:02d}T{hour % 24:02d}:30:00Z",
            "place": f"t{k % 4}",
            "diagnosis": "nobody's business",
        }
        for k, hour in enumerate(hours)
    ] + [{"user": "lost", "time": "soon", "place": "t0"}, {"user": "astray", "place": "mars"}]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Files that Spark takes one at a time."""
    folder = tmp_path / "source"
    folder.mkdir()
    for batch in range(BATCHES):
        lines = "\n".join(map(json.dumps, rows(batch)))
        (folder / f"{batch}.ndjson").write_text(lines + "\n")
    return folder


def run(spark: Any, source: Path, checkpoint: Path, put: Callable[[Any, int], None]) -> None:
    frame = (
        spark.readStream.schema("user string, time string, place string, diagnosis string")
        .option("maxFilesPerTrigger", 1)
        .json(str(source))
    )
    query = (
        frame.writeStream.foreachBatch(put)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def falling(put: Callable[[Any, int], None], falls: Iterator[str]) -> Callable[[Any, int], None]:
    """Falls before or after a batch is put, as long as falls are left."""

    def fallible(frame: Any, batch: int) -> None:
        when = next(falls, "never")
        if when == "before":
            raise Fell
        put(frame, batch)
        if when == "after":
            raise Fell

    return fallible


def stream(folder: object, home: Path, **more: Any) -> dict[str, bytes]:
    done = sfumato.stream(
        folder,
        towers=TOWERS,
        start="2024-03-04",
        end="2024-03-06",
        slot="6h",
        tz="UTC",
        dataset="city",
        epsilon=1.0,
        expected_users=30,
        scheme="direct",
        out=home / "out",
        ledger=Ledger(home / "ledger.sqlite"),
        **more,
    )
    assert done.finished or done.next_slot == 0
    names = ("stream.ndjson", "density.parquet")
    return {name: (home / "out" / name).read_bytes() for name in names if done.finished}


def test_however_often_it_falls_the_rows_are_there_once_and_give_the_same_bytes(
    spark: Any,
    source: Path,
    tmp_path: Path,
) -> None:
    inbox, one, other = tmp_path / "inbox", tmp_path / "one", tmp_path / "other"
    inbox.mkdir()
    one.mkdir(mode=0o700)
    falls = iter(["before", "after", "never", "after"])
    put = falling(sfumato.foreach_batch(inbox), falls)
    for _ in range(3):
        with pytest.raises(Exception, match="Fell"):
            run(spark, source, tmp_path / "checkpoint", put)
    run(spark, source, tmp_path / "checkpoint", put)
    files = sorted(inbox.iterdir())
    assert len(files) == BATCHES
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    brought = pa.concat_tables([pq.read_table(file) for file in files])
    assert brought.column_names == ["user", "time", "place"], "no other column leaves Spark"
    assert brought.num_rows == BATCHES * 42

    Ledger(one / "ledger.sqlite").initialise()
    city = Cap(epsilon=1.0, delta=1e-6)
    Ledger(one / "ledger.sqlite").add_dataset("city", city, Unit.parse("user-day"))
    stream(io.BytesIO(b""), one, clock="feed")  # reserved, nothing published
    shutil.copytree(one, other)
    for folder in (inbox, source):
        (folder / "CLOCK").write_text("2024-03-08T00:00:00Z")
    cluster = stream(inbox, one, follow=True, resume=True)
    assert cluster
    assert cluster == stream(source, other, follow=True, resume=True)


def test_a_new_checkpoint_has_files_of_its_own(
    spark: Any,
    source: Path,
    tmp_path: Path,
) -> None:
    """Its batches are numbered from zero again, and hold other rows."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for checkpoint in ("first", "second"):
        run(spark, source, tmp_path / checkpoint, sfumato.foreach_batch(inbox))
    assert len(list(inbox.iterdir())) == 2 * BATCHES


DRIVER = """
import sys
import sfumato
from sfumato.engine.spark.session import open_session
from tests.engine.spark.conftest import QUICK
from tests.engine.spark.test_batches import run
from pathlib import Path
source, checkpoint, inbox = map(Path, sys.argv[1:])
spark, _ = open_session("local[1]", QUICK)
run(spark, source, checkpoint, sfumato.foreach_batch(inbox))
print("done")
"""


@pytest.mark.slow
def test_a_driver_that_is_killed_again_and_again_leaves_every_batch_once(tmp_path: Path) -> None:
    """SIGKILL to driver and Java alike, soon after a file appears or before the next does."""
    source, inbox, rng = tmp_path / "source", tmp_path / "inbox", random.Random(4)
    source.mkdir()
    inbox.mkdir()
    for batch in range(12):
        lines = "\n".join(
            json.dumps(row | {"user": f"{batch}-{k}"}) for k, row in enumerate(rows(0))
        )
        (source / f"{batch:02d}.ndjson").write_text(lines + "\n")
    killed, said = 0, ""
    while "done" not in said:
        command = [sys.executable, "-c", DRIVER, *map(str, (source, tmp_path / "c", inbox))]
        before = len(list(inbox.glob("batch-*")))
        driver = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=ROOT
        )
        while killed < 6 and driver.poll() is None:
            if len(list(inbox.glob("batch-*"))) > before:
                time.sleep(rng.uniform(0, 0.3))
                os.killpg(driver.pid, signal.SIGKILL)
                killed += 1
                break
            time.sleep(0.005)
        said = driver.communicate()[0]
    brought = pa.concat_tables([pq.read_table(file) for file in inbox.glob("batch-*")])
    users = brought.column("user").to_pylist()
    assert killed == 6
    assert len(users) == len(set(users)) == 12 * 42


def test_what_cannot_be_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        sfumato.foreach_batch(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="part of a file's name"):
        sfumato.foreach_batch(tmp_path, query="../../etc")
    with pytest.raises(UsageError, match="query='positions'"):
        sfumato.foreach_batch(tmp_path)(object(), 0)
