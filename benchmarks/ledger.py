"""What one question costs the ledger when 0, 100, 1,000 and 10,000 came before it.

    python -m benchmarks ledger                          # about six CPU-minutes
    python -m benchmarks.ledger --entries 1000 --store sqlite

A question is reserve, persist (nothing here: the answer is not the ledger's) and commit. CPU is
user and system time of the process that asks, for PostgreSQL also that of the server's processes.
Two workloads, both on data sets that are linked as holding the same people:

* `desk`: questions about whole records over runs of days in four weeks, Gaussian and Laplace noise
  of many sizes, caps for whole records and for days;
* `mixed`: the same and charges for days of two clocks, windows, single records and locations,
  with a cap for each, over stretches of hours in three months, hardly two of them alike.

Entries before the measured ones are sealed and written in one go. `opening` is what a fresh process
pays before its first question: it checks every row. `--run` asks all 10,000 questions one by one
through the ledger instead. Writes docs/benchmarks/ledger.md and ledger.json.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import secrets
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import insert

from sfumato.privacy.events import GaussianEvent, LaplaceEvent, MetricEvent, PrivacyEvent, Unit
from sfumato.privacy.ledger import Cap, Claim, Ledger, Reservation
from sfumato.privacy.ledger import database as tables
from sfumato.privacy.ledger.chain import canonical, seal
from sfumato.privacy.ledger.records import ACCOUNTING, Kind

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
ENTRIES = (0, 100, 1_000, 10_000)
SAMPLES = 40
HOUR = 3_600 * 1_000_000
START = int(datetime(2024, 3, 4, tzinfo=UTC).timestamp()) * 1_000_000
DATASETS = ("city", "second operator", "survey")
WIDE = Cap(epsilon=1e6, delta=1e-6, rho=1e6)
UNITS = ("user-period", "user-day@Europe/Paris", "w-event:24h/1h", "event", "point:200m")
LIMIT_MS = 50


def question(number: int, workload: str, rng: np.random.Generator) -> Claim:
    """The number-th question: its unit, its stretch of time and its noise."""
    unit, first, hours = Unit(), 24 * int(rng.integers(0, 28)), 24 * int(rng.integers(1, 8))
    if workload == "mixed":
        unit = Unit.parse(UNITS[number % len(UNITS)])
        first, hours = int(rng.integers(0, 24 * 90)), int(rng.integers(1, 24 * 7))
        if unit.clock is not None:
            first, hours = 24 * (first // 24) - 1, 24 * (1 + hours // 24)
    event: PrivacyEvent
    if str(unit).startswith("point"):
        event = MetricEvent(float(rng.integers(1, 50)) / 1e4, "planar")
    elif number % 3 == 0:
        event = LaplaceEvent(1.0, Fraction(int(rng.integers(10, 10_000)), 7))
    else:
        event = GaussianEvent(float(rng.integers(1, 49)), Fraction(int(rng.integers(1e6, 1e9))), 48)
    period = (START + first * HOUR, START + (first + hours) * HOUR)
    return Claim(
        dataset=DATASETS[number % len(DATASETS)],
        name=f"question-{number}",
        unit=unit,
        delta=1e-6,
        period=period,
        events=(("answer", event),),
        config={"measure": "visits", "zones": f"{number:064x}", "period": list(period)},
        fingerprint="f" * 64,
        out=f"/answers/{number}",
        sums=("answer",) if number % 2 else (),
    )


def prepare(ledger: Ledger, workload: str) -> None:
    """A ledger with linked data sets and a cap for every unit that is charged."""
    ledger.initialise()
    for name in DATASETS:
        ledger.add_dataset(name, WIDE)
    for unit in UNITS[1:] if workload == "mixed" else ("user-day",):
        ledger.add_dataset(DATASETS[0], WIDE, Unit.parse(unit))
    ledger.link(DATASETS)


def fill(ledger: Ledger, numbers: range, workload: str, rng: np.random.Generator) -> None:
    """Reserve and commit these questions as rows sealed here, without asking the ledger."""
    before, key, rows = ledger.entries()[-1], ledger.keyring.load(), []
    for number in numbers:
        release, claim = secrets.token_hex(16), question(number, workload, rng)
        reserved = {"release": release, "claim": claim.to_json(), "accounting": ACCOUNTING}
        done = {"release": release, "files": {"answer.json": "a" * 64}, "key_kept": False}
        for kind, content in ((Kind.RESERVE, reserved), (Kind.COMMIT, done)):
            text = canonical(content)
            before = seal(key, before.seq + 1, kind.value, before.time, text, before.hash)
            rows.append({name: getattr(before, name) for name in tables.entries.c.keys()})
    if rows:
        with ledger.database.writing() as connection:
            connection.execute(insert(tables.entries), rows)
        ledger.keyring.note(before.head)


def ask(ledger: Ledger, claim: Claim) -> None:
    """One question: reserve and commit."""
    found = ledger.reserve(claim)
    assert isinstance(found, Reservation)
    ledger.commit(found.id, {"answer.json": "a" * 64})


class Clock:
    """CPU of this process, and of a server's processes that have ended."""

    def __init__(self, postmaster: int | None) -> None:
        self._postmaster = postmaster

    def mine(self) -> float:
        return 1000 * time.process_time()

    def server(self) -> float:
        """User and system time of the server's ended children, in milliseconds."""
        if self._postmaster is None:
            return 0.0
        after_name = Path(f"/proc/{self._postmaster}/stat").read_text().rsplit(")", 1)[1].split()
        return 1000 * (int(after_name[13]) + int(after_name[14])) / os.sysconf("SC_CLK_TCK")


def measure(
    ledger: Ledger, workload: str, first: int, samples: int, clock: Clock, seed: int
) -> dict[str, float]:
    """CPU of the next questions, one by one, in milliseconds."""
    rng = np.random.default_rng([seed, 2])
    spent, server = [], clock.server()
    for number in range(first, first + samples):
        claim = question(number, workload, rng)
        begun = clock.mine()
        ask(ledger, claim)
        spent.append(clock.mine() - begun)
    time.sleep(0.2)  # the server's processes are counted when they have ended
    served = (clock.server() - server) / samples
    return {
        "median_ms": round(statistics.median(spent), 1),
        "p99_ms": round(float(np.quantile(spent, 0.99)), 1),
        "largest_ms": round(max(spent), 1),
        "server_ms": round(served, 1),
    }


@contextmanager
def postgres() -> Iterator[tuple[str, int]]:
    """A server of its own: the address of an empty database, and the server's process."""
    (programs, *_) = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    home = Path(tempfile.mkdtemp(prefix="sfumato-pg-", dir="/tmp"))
    prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if prefix:
        shutil.chown(home, "postgres")

    def run(*command: str) -> None:
        subprocess.run([*prefix, *command], check=True, capture_output=True, cwd=home)

    data, control = str(home / "data"), f"{programs}/pg_ctl"
    try:
        run(f"{programs}/initdb", "-D", data, "-A", "trust", "-U", "postgres", "-N")
        run(control, "-D", data, "-o", f"-k {home} -c listen_addresses=''", "-l", str(home / "log"))
        run(control, "-D", data, "-o", f"-k {home} -c listen_addresses=''", "-w", "start")
        try:
            pid = int((home / "data" / "postmaster.pid").read_text().split()[0])
            yield f"postgresql://postgres@/postgres?host={home}", pid
        finally:
            run(control, "-D", data, "-m", "fast", "-w", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def opening(location: str, key: Path) -> float:
    """CPU that a fresh `Ledger` spends before it knows the ledger, in milliseconds."""
    fresh = Ledger(location, key=key)
    begun = time.process_time()
    fresh.book()
    return round(1000 * (time.process_time() - begun), 1)
