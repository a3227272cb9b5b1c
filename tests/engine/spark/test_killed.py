"""The whole process killed at every stage: paid once, finished as it was begun, nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.io.write import PREFIX
from sfumato.privacy.ledger import Cap, Ledger

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow]

RELEASE = """
import os, signal, sys, threading
import sfumato
home, stage, delay = sys.argv[1], sys.argv[2], float(sys.argv[3])

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def hear(what, share):
    if what == stage:
        die() if delay == 0 else threading.Timer(delay, die).start()

made = sfumato.release(
    f"{home}/events.parquet", towers=f"{home}/towers.csv", out=f"{home}/day",
    ledger=f"{home}/ledger.sqlite", start="2024-01-01", end="2024-01-02", slot="3h", tz="UTC",
    dataset="city", epsilon=0.5, delta=1e-6, expected_users=1000, scheme="gaussian", anyway=True,
    engine="spark", master="local[1]", progress=hear,
    spark_conf={"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1",
           "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
)
print("how:", made.how)
"""
SCAN, EXCHANGE, COUNT = "fingerprint of the input", "reading events", "counting"
STAGES = [(SCAN, "0.2", 0), (EXCHANGE, "0.2", 0), (COUNT, "0", 1), (COUNT, "0.2", 1)]


def test_killed_at_every_stage_it_is_paid_once(tmp_path: Path, sessions: object) -> None:
    """Before the charge nothing is spent; after it the next run finishes the same release."""
    del sessions  # only for its skips: the processes below have sessions of their own
    rng = np.random.default_rng(2)
    moments = rng.integers(0, 24 * 3600, 3000) * 1_000_000 + 1_704_067_200_000_000
    events = pa.table(
        {
            "user": [f"SECRET{u}" for u in rng.integers(0, 90, 3000)],
            "time": pa.array(moments, pa.timestamp("us", "UTC")),
            "tower": [f"t{t}" for t in rng.integers(0, 4, 3000)],
        }
    )
    pq.write_table(events, tmp_path / "events.parquet")
    towers = [f"t{k},{2.30 + 0.01 * k},48.85\n" for k in range(4)]
    (tmp_path / "towers.csv").write_text("cell_id,lon,lat\n" + "".join(towers))
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("city", Cap(epsilon=1, delta=1e-5))
    scratch = tmp_path / "tmp"
    scratch.mkdir()

    def run(stage: str, delay: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", RELEASE, str(tmp_path), stage, delay]
        env = os.environ | {"TMPDIR": str(scratch)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert "SECRET" not in done.stdout + done.stderr
        return done

    for stage, delay, charges in STAGES:
        assert run(stage, delay).returncode == -signal.SIGKILL, stage
        assert len(ledger.book().charges) == charges, stage
        assert not (tmp_path / "day").exists()
    done = run("never", "0")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "how: resumed" in done.stdout
    assert len(ledger.book().charges) == 1
    deadline = time.monotonic() + 30  # Java takes a moment to notice that its Python is gone
    while left := list(scratch.glob(f"{PREFIX}*/**/*")):
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
    assert "already" in run("never", "0").stdout
