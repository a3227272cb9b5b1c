"""What one question costs the ledger when 0, 100, 1,000 and 10,000 came before it.

    python -m benchmarks ledger                          # about six CPU-minutes
    python -m benchmarks.ledger --run 10000 --workload desk
    python -m benchmarks.ledger --entries 1000 --store sqlite

A question is reserve and commit, with the name of an analyst who has an allowance and an answer of
some 200 bytes. CPU is user and system time of the process that asks, for PostgreSQL also that of
the server's processes. It is measured in one process, its first question apart: that one checks
every row.
Two workloads, both on data sets that are linked as holding the same people:

* `desk`: questions about whole records over runs of days in four weeks, Gaussian and Laplace noise
  of many sizes, caps and allowances for whole records, a cap for days;
* `mixed`: the same and charges for days, windows, single records and locations,
  with a cap and allowances for each, over stretches of hours in three months, hardly two of them
  alike.

Entries before the measured ones are sealed and written in one go; `--run 10000` asks that many
questions one by one instead. Writes docs/benchmarks/ledger.md and ledger.json.
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
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import insert

from sfumato.privacy.events import GaussianEvent, LaplaceEvent, MetricEvent, PrivacyEvent, Unit
from sfumato.privacy.ledger import Cap, Claim, Ledger, Reservation, remembered
from sfumato.privacy.ledger import database as tables
from sfumato.privacy.ledger.chain import canonical, seal
from sfumato.privacy.ledger.records import Kind
from sfumato.privacy.ledger.views import verify

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
ENTRIES = (0, 100, 1_000, 10_000)
SAMPLES = 40
HOUR = 3_600 * 1_000_000
START = int(datetime(2024, 3, 4, tzinfo=UTC).timestamp()) * 1_000_000
DATASETS = ("city", "second operator", "survey")
ANALYSTS = tuple(f"analyst {number}" for number in range(8))
ANSWER = {
    "noisy": 7_412_663,
    "units": 65_536,
    "plus_minus": 41.27,
    "measure": "visits",
    "mechanism": "gaussian",
    "clip": 48,
    "asked": "2024-03-04T00:00:00+01:00/2024-03-06T00:00:00+01:00",
    "zones": 17,
}
WIDE = Cap(epsilon=1e6, delta=1e-6, rho=1e6)
UNITS = ("user-period", "user-day@Europe/Paris", "w-event:24h/1h", "event", "point:200m")
LIMIT_MS = 50
NAMES = tuple(tables.entries.c.keys())


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
        analyst=ANALYSTS[number % len(ANALYSTS)],
    )


def prepare(ledger: Ledger, workload: str) -> None:
    """A ledger with linked data sets and a cap for every unit that is charged."""
    ledger.initialise()
    for name in DATASETS:
        ledger.add_dataset(name, WIDE)
    for unit in UNITS[1:] if workload == "mixed" else ("user-day",):
        ledger.add_dataset(DATASETS[0], WIDE, Unit.parse(unit))
    ledger.link(DATASETS)
    for who in ANALYSTS:
        for unit in UNITS if workload == "mixed" else UNITS[:1]:
            ledger.set_allowance(DATASETS[0], who, WIDE, Unit.parse(unit).for_cap())


def fill(ledger: Ledger, numbers: range, workload: str, rng: np.random.Generator) -> None:
    """Reserve and commit these questions as rows sealed here, without asking the ledger."""
    before, key, rows = ledger.entries()[-1], ledger.keyring.load(), []
    for number in numbers:
        release, claim = secrets.token_hex(16), question(number, workload, rng)
        reserved = {"release": release, "claim": claim.to_json()}
        done = {"release": release, "files": {}, "key_kept": False, "answer": ANSWER}
        for kind, content in ((Kind.RESERVE, reserved), (Kind.COMMIT, done)):
            text = canonical(content)
            before = seal(key, before.seq + 1, kind.value, before.time, text, before.hash)
            rows.append({name: getattr(before, name) for name in NAMES})
    if rows:
        with ledger.database.writing() as connection:
            connection.execute(insert(tables.entries), rows)
        ledger.keyring.note(before.head)


def ask(ledger: Ledger, claim: Claim) -> None:
    """One question: reserve and commit."""
    found = ledger.reserve(claim)
    assert isinstance(found, Reservation)
    ledger.commit(found.id, {}, answer=ANSWER)


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
        "above_limit": sum(one > LIMIT_MS for one in spent),
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
        settings = f"-k {home} -c listen_addresses=''"
        run(control, "-D", data, "-o", settings, "-l", str(home / "log"), "-w", "start")
        try:
            pid = int((home / "data" / "postmaster.pid").read_text().split()[0])
            yield f"postgresql://postgres@/postgres?host={home}", pid
        finally:
            run(control, "-D", data, "-m", "fast", "-w", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def judged(store: str, workload: str, entries: int, samples: int, seed: int) -> dict[str, Any]:
    """A ledger with so many entries, and what the next questions cost it."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_:
        location, process = str(Path(folder) / "ledger.sqlite"), None
        if store == "postgresql":
            location, process = open_.enter_context(postgres())
        key = Path(folder) / "ledger.key"
        ledger = Ledger(location, key=key)
        prepare(ledger, workload)
        fill(ledger, range(entries), workload, np.random.default_rng([seed, 1]))
        remembered.forget()
        begun = time.process_time()
        ask(ledger, question(entries, workload, np.random.default_rng([seed, 3])))
        opened = 1000 * (time.process_time() - begun)
        found = measure(ledger, workload, entries + 1, samples, Clock(process), seed)
        begun = time.process_time()
        sound = verify(ledger).sound
        verified = 1000 * (time.process_time() - begun)
    return {
        "store": store,
        "workload": workload,
        "entries": entries,
        "questions": samples,
        "first_ms": round(opened),
        **found,
        "verify_ms": round(verified),
        "sound": sound,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, action="append")
    parser.add_argument("--store", choices=("sqlite", "postgresql"), action="append")
    parser.add_argument("--workload", choices=("desk", "mixed"), action="append")
    parser.add_argument("--run", type=int, metavar="QUESTIONS", help="ask so many one by one")
    parser.add_argument("--seed", type=int, default=20)
    asked = parser.parse_args()
    rows = []
    for store in asked.store or ("sqlite", "postgresql"):
        for workload in asked.workload or ("desk", "mixed"):
            for entries in asked.entries or ((0,) if asked.run else ENTRIES):
                samples = asked.run or SAMPLES
                rows.append(judged(store, workload, entries, samples, asked.seed))
                print(rows[-1], flush=True)
    name = "ledger-run" if asked.run else "ledger"
    (FOLDER / f"{name}.json").write_text(json.dumps(rows, indent=2) + "\n", "utf-8")
    pages = [FOLDER / f"{part}.json" for part in ("ledger", "ledger-run")]
    known = [row for path in pages if path.exists() for row in json.loads(path.read_text("utf-8"))]
    (FOLDER / "ledger.md").write_text(page(known), "utf-8")


def page(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# What a question costs the ledger",
        "",
        "CPU of reserve and commit, in milliseconds, with so many releases in the ledger; "
        "`python -m benchmarks ledger`. *First* is the first question of a process, "
        "which checks every row (imports not counted). "
        f"The limit is {LIMIT_MS} ms for each question of a process that goes on; *above* is how "
        "many took more. *Server* is what PostgreSQL's own processes spent on a question. "
        "Every question names one of eight analysts with an allowance, and its answer "
        "stands in the ledger. "
        "`desk`: questions about whole records over runs of days, Gaussian and Laplace noise, "
        "caps for whole records and days. `mixed`: also days of a clock, windows, single records "
        "and locations, a cap and allowances for each, over stretches of hours of which hardly two "
        "are alike. Three linked data sets. Ledgers were filled with sealed rows first, unless "
        "asked for one by one (`--run`), and all verified afterwards.",
        "",
        "| store | workload | releases before | questions | first | median | 99 % | largest | "
        "above | server |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['store']} | {row['workload']} | {row['entries']:,} | {row['questions']:,} | "
        f"{row['first_ms']:,} | {row['median_ms']} | {row['p99_ms']} | {row['largest_ms']} | "
        f"{row['above_limit']} | {row['server_ms'] if row['store'] == 'postgresql' else ''} |"
        for row in rows
    ]
    return "\n".join([*lines, "", BEFORE, ""])


BEFORE = (
    "Before sums were kept, on the same machine and SQLite: `desk` 16, 74 and 713 ms, `mixed` 19, "
    "174 and 8,558 ms with 0, 100 and 1,000 releases (medians). On another seed (20), SQLite, "
    "10,000 releases before: at most 18.2 ms. 10,000 `desk` questions asked one by one (`--run "
    "10000`, the machine shared): SQLite median 8.5, 99 % 12.9, largest 56.1 ms, one above the "
    "limit; PostgreSQL 6.8, 15.2, 85.1 ms, two above."
)


if __name__ == "__main__":
    main()
