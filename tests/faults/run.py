"""`make faults`: kills, crashes, full disks, wrong clocks and races; writes docs/faults.md.

python tests/faults/run.py --seed 1
python tests/faults/run.py --only release --share 0.2     # a fifth of it, one command, no page
python tests/faults/run.py --keep out/faults.jsonl        # in pieces: goes on where it was stopped
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.faults import weather  # noqa: E402
from tests.faults.commands import COMMANDS  # noqa: E402
from tests.faults.storm import SQLITE, Run, Store, Storm, Tally, zygote  # noqa: E402
from tests.server import NoServer, Server  # noqa: E402

PAGE = ROOT / "docs" / "faults.md"
KILLS = {"SQLite": 70, "PostgreSQL": 25}
CRASHES, DISKS, FILES, JUMPS = 8, 6, 6, 5
"""Strikes of each kind, for every command and database."""
RACES, RACERS_KILLED = 2, 10
KINDS = {
    "killed": "SIGKILL to the run",
    "crashed": "PostgreSQL itself crashed",
    "full": "no room left on the disk",
    "cut": "no file may grow any more (RLIMIT_FSIZE)",
    "jumped": "the clock set back or forward",
    "raced": "32 processes, a cap with room for four",
    "together": "32 processes, one release",
}
Row = tuple[str, str, str, Tally]
WRONG = ("bytes", "paid", "lost", "left", "ledger")


class Suite:
    """Every command in every weather."""

    def __init__(
        self, run: Run, home: Path, seed: int, share: float, only: str, done: frozenset[str]
    ) -> None:
        self.run, self.home, self.seed, self.share = run, home, seed, share
        self.entries = [name for name in COMMANDS if only in name]
        self.done = done
        self._number = 0

    def sieges(
        self, kind: str, make: Callable[..., Storm], store: Store, want: int
    ) -> Iterator[Row]:
        """Storms over every command until each was struck so often."""
        for entry in self.entries:
            if _called(kind, entry, store.name) in self.done:
                continue
            self._number += 1
            home = self.home / str(self._number)
            storm = make(self.run, entry, home, store, self.seed)
            while storm.tally.strikes < want * self.share and storm.tally.sieges < want:
                storm.siege()
            yield kind, entry, store.name, storm.tally

    def on(self, store: Store) -> Iterator[Row]:
        """What can befall a run wherever its ledger is."""
        yield from self.sieges("killed", Storm, store, KILLS[store.name])
        yield from self.sieges("jumped", _with(weather=weather.jumping), store, JUMPS)
        yield from self.sieges("cut", _with(weather=weather.small_files), store, FILES)
        try:
            with weather.small_disk() as disk:
                full = lambda *given: weather.FullDisk(disk, *given)  # noqa: E731
                yield from self.sieges("full", full, store, DISKS)
        except OSError as error:
            print(f"full: {error}", file=sys.stderr)
        if "release" in self.entries and _called("raced", "release", store.name) not in self.done:
            yield from self.races(store)

    def races(self, store: Store) -> Iterator[Row]:
        raced = Tally()
        for number in range(RACES):
            home = self.home / f"race-{store.name}-{number}"
            raced.add(weather.race(self.run, home, store, RACERS_KILLED, self.seed + number))
        home = self.home / f"together-{store.name}"
        yield "together", "release", store.name, weather.one_of_many(self.run, home, store)
        yield "raced", "release", store.name, raced

    def crashes(self, server: Server) -> Iterator[Row]:
        store = weather.postgres(server)
        yield from self.sieges("crashed", _with(**weather.crashing(server)), store, CRASHES)

    def rows(self, store: str) -> Iterator[Row]:
        if store == "SQLite":
            yield from self.on(SQLITE)
            return
        try:
            with Server() as server:
                yield from self.on(weather.postgres(server))
                yield from self.crashes(server)
        except NoServer as why:
            print(f"PostgreSQL: {why}", file=sys.stderr)


def _with(**more: object) -> Callable[..., Storm]:
    return lambda *given: Storm(*given, **more)  # type: ignore[arg-type]


def _called(kind: str, entry: str, store: str) -> str:
    return f"{kind} / {entry} / {store}"


class Kept:
    """Rows of earlier runs, a line of JSON each: what was measured is not measured again."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        there = path is not None and path.is_file()
        lines = path.read_text().splitlines() if path is not None and there else []
        self.lines = [json.loads(line) for line in lines]

    @property
    def done(self) -> frozenset[str]:
        return frozenset(_called(*line["row"]) for line in self.lines)

    @property
    def rows(self) -> list[Row]:
        return [
            (*line["row"], Tally(**line["tally"] | {"sites": set(line["tally"]["sites"])}))
            for line in self.lines
        ]

    def add(self, row: Row, cpu_s: float) -> None:
        *names, tally = row
        told = asdict(tally) | {"sites": sorted(tally.sites)}
        self.lines.append({"row": names, "tally": told, "cpu_s": round(cpu_s, 2)})
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(self.lines[-1]) + "\n")


def _count(tally: Tally, what: str) -> int:
    return sum(one.startswith(what) for one in tally.wrong)


def page(rows: list[Row], seed: int, cpu_s: float) -> str:
    kills = sum(tally.strikes for kind, _, _, tally in rows if kind in ("killed", "raced"))
    every = sum(tally.strikes for *_, tally in rows)
    wrong = sum(len(tally.wrong) for *_, tally in rows)
    places = len(set().union(*(tally.sites for *_, tally in rows)))
    lines = [
        *INTRODUCTION.format(seed=seed).splitlines(),
        f"{every:,} faults, of which {kills:,} are kills of the run, at {places:,} different "
        f"points and by the clock; {wrong} broke a rule. {cpu_s:,.0f} CPU-seconds, the database "
        "server's apart.",
    ]
    for kind, what in KINDS.items():
        found = [row for row in rows if row[0] == kind]
        if found:
            aimed = kind not in ("full", "cut")
            lines += ["", f"## {what[0].upper()}{what[1:]}", "", *_table(found, aimed)]
    return "\n".join([*lines, ""])


def _table(rows: list[Row], aimed: bool) -> list[str]:
    """`aimed`: at a point or by the clock, and not wherever the room ended."""
    where = ("points hit", "by the clock") if aimed else ()
    heads = ("command", "ledger on", "faults", *where, "finished", "compared")
    wrongs = ("other bytes", "paid wrongly", "lost", "left behind", "other")
    lines = ["| " + " | ".join((*heads, *wrongs)) + " |", "|---" * (len(heads) + len(wrongs)) + "|"]
    for _, entry, store, tally in rows:
        bad = [_count(tally, what) for what in WRONG[:4]]
        cells = [f"`{entry}`", store, tally.strikes]
        cells += [len(tally.sites), tally.by_clock] if aimed else []
        cells += [tally.sieges, tally.compared, *bad, len(tally.wrong) - sum(bad)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


INTRODUCTION = """\
# Kills, crashes, full disks

    make faults     # python tests/faults/run.py --seed {seed}

Every command that spends budget is run on a small crowd and struck: the run is killed with SIGKILL,
the database server crashes, the disk is full, the clock is set, others race for the same budget.
Each is struck up to four times and then left to finish. It must end with the bytes and numbers of
an undisturbed run *with the same key* ("compared": made from a copy of ledger and keys, taken while
the reservation was open), one charge in the ledger, a ledger that verifies, and no key, private
state or temporary file left. A run that was not killed and could not go on must say so in an error
of ours. Kills and crashes hit once at every lasting step first (sync, rename, removal, lock,
commit), then at other calls to files and database, while something is taken up again, and by the
clock; a point is a function of ours, the call it makes, and before or after it. Where nothing was
reserved before the run was left to finish, there is nothing to compare with.

"""


def part(
    store: str, seed: int, share: float, only: str, keep: Path | None
) -> tuple[list[Row], float]:
    """The suite on one kind of database, and its CPU-seconds."""
    kept = Kept(keep and keep.with_suffix(f".{store}{keep.suffix}"))
    begun = time.perf_counter()
    with ExitStack() as held:
        home = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="sfumato-faults-")))
        (home / "warm").mkdir()
        run = held.enter_context(zygote(home / "warm"))
        spent = 0.0
        for row in Suite(run, home, seed, share, only, kept.done).rows(store):
            now = sum(os.times()[:2]) + float(run(None))
            kept.add(row, now - spent)
            spent = now
            kind, entry, _, tally = row
            took = f"{time.perf_counter() - begun:,.0f} s"
            print(f"{took}: {store}, {entry}, {kind}: {tally.strikes}", flush=True)
            for one in tally.wrong:
                print(f"    {one}", flush=True)
    return kept.rows, sum(line["cpu_s"] for line in kept.lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--only", default="", help="commands whose name holds this")
    parser.add_argument("--keep", type=Path, help="rows go there, and are not measured again")
    asked = parser.parse_args()
    parts = [(store, asked.seed, asked.share, asked.only, asked.keep) for store in KILLS]
    # Two processes: what one waits for is mostly the disk or the server.
    with multiprocessing.get_context("fork").Pool(len(parts), maxtasksperchild=1) as pool:
        found = pool.starmap(part, parts, chunksize=1)
    rows = [row for some, _ in found for row in some]
    cpu_s = sum(cost for _, cost in found)
    if not asked.only and asked.share >= 1:
        PAGE.write_text(page(rows, asked.seed, cpu_s))
    wrong = sum(len(tally.wrong) for *_, tally in rows)
    strikes = sum(tally.strikes for *_, tally in rows)
    print(f"{strikes:,} faults, {wrong} broke a rule, {cpu_s:,.0f} CPU-seconds")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
