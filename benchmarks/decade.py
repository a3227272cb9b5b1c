"""Ten years of 5-minute slots: what a slot of `comb` costs, and what is kept, year by year.

    python -m benchmarks decade               # a few CPU-minutes
    python -m benchmarks.decade --days 1      # fewer days at the beginning

The publisher of `sfumato stream` itself, with its ledger, sealed state, lines and partitions, on a
calendar of ten years (1,052,064 slots of Paris, 12 cells, user-day, epsilon 1). The first days are
published in full, until the memory of 42 vectors is full; then the first day of each year is, with
the state of before. **What lies between is passed over**: the stream is told that the next slot is
a year ahead, and nothing is measured there. A state that grew with the slots that were *published*
would show in the first days, one that grew with the slot's number, the calendar or the age of what
is remembered in the years.

The second table is about the folder: as many lines in `stream.ndjson` and as many partitions in
`slots/` are put there as that many slots leave, then slots and the page are written. The third
reopens it. CPU-seconds are user and system time of the process; the time of waiting for the disk is
not in them. Writes docs/benchmarks/decade.md and decade.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import func, select

from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.streams.facts import StreamFacts
from sfumato.streams.live import LiveStream, StreamRequest
from sfumato.streams.output import line_bytes
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import boxed
from sfumato.streams.scheme import Publication
from sfumato.streams.state import Standing, parts, streams

OUT = Path(__file__).parents[1] / "docs" / "benchmarks"
CELLS, DAYS, YEARS = 12, 6, 10
UNIT = Unit.parse("user-day")
LEVELS = np.random.default_rng(7).gamma(0.7, 120.0, CELLS)
FOLDERS = (1_000, 40_000, 100_000)
"""Slots that are out. A page of 12 cells shows 33,333: beyond that it grows no more."""
SLOTS = 96
"""Slots that are published in each of these folders."""
HEAD = """# Ten years of 5-minute slots

    python -m benchmarks decade

`comb` on {cells} cells, {slots:,} slots (2024 to 2033, Paris), unit user-day, epsilon 1, through
the publisher of `sfumato stream`: noise, estimates, sealed state and output in one transaction of
the ledger, lines and partitions on the disk. The first {days} days are published in full, then the
first day of each year and the last day of all; **the slots between are passed over** (so many
would take hours), so this is a sampled decade: the years show what depends on the slot's number,
the calendar and the age of what is remembered, the first days what depends on how much was
published.
{machine}; load of the machine {load}.

Asked: state and time per slot constant. Last year over first (medians of a slot): **{ratio}**.

| day | CPU ms a slot, median | mean | state, bytes | its rows | ledger's rows | database, kB |
|---|---|---|---|---|---|---|
"""
FOLDER = """
The mean has the days' vectors in it, after which the law of levels and profiles are fitted anew;
the slots between repeat what is known at another time of day. Peak memory of the
process, pages included: {peak} MiB.

## A folder that is full

So many lines and partitions are in the folder before slots are published (median CPU ms a slot) and
the page, which shows the last 33,333 slots of 12 cells at most, is written (CPU ms, median of 3).
*Opening* is what a start with `--resume` costs beside the reading of places and calendar. The last
slot of all reads every line once, for the tables of the finished folder; that is not measured here.

| slots that are out | a slot, ms | the page, ms | opening, ms |
|---|---|---|---|
"""


@dataclass
class Bench:
    """One stream in a folder of its own."""

    home: Path
    grid: TimeGrid
    scheme: str = "comb"

    def __post_init__(self) -> None:
        self.facts = StreamFacts(CELLS, Calendar.of(self.grid), 1.0, 0.0, UNIT, 1_000, 4)
        self.book = Ledger(self.home / "ledger.sqlite")
        self.book.initialise()
        self.book.add_dataset("made", Cap(epsilon=1.0, delta=1e-6), UNIT)
        ids = np.array([f"z{cell:02d}" for cell in range(CELLS)])
        recipe = stream_scheme(self.scheme)
        out = self.home / "out"
        self.request = StreamRequest("made", "decade", recipe, self.facts, self.grid, ids, out)
        self.rng = np.random.default_rng(11)

    def opened(self) -> LiveStream:
        return LiveStream(self.book, self.request, resume=True)

    def slots(self, live: LiveStream, number: int) -> list[float]:
        """Publish so many slots: CPU milliseconds of each."""
        spent = []
        for slot in range(live.next_slot, live.next_slot + number):
            wave = 1 + 0.5 * np.sin(2 * np.pi * self.facts.calendar.phase[slot] / 288)
            box = boxed(self.rng.poisson(LEVELS * wave), self.facts)
            begun = time.process_time()
            live.publish(slot, box)
            spent.append(1e3 * (time.process_time() - begun))
        return spent

    def kept(self) -> dict[str, int]:
        """What the database holds of the stream, and how much there is of it."""
        with self.book.database.reading() as connection:
            sealed = func.coalesce(func.sum(func.length(parts.c.sealed)), 0)
            size, rows = connection.execute(select(sealed, func.count(parts.c.name))).one()
            mine = connection.execute(select(func.count(streams.c.release))).scalar_one()
        file = self.book.database.file
        return {
            "state": int(size),
            "rows": int(rows) + int(mine),
            "ledger": len(self.book.entries()),
            "kilobytes": 0 if file is None else file.stat().st_size // 1024,
        }


def jump(live: LiveStream, slot: int) -> None:
    """Go on at a later slot, as if those between had been published."""
    live._standing = replace(live._standing, next_slot=slot)


def through_the_years(bench: Bench, days: int) -> list[dict[str, Any]]:
    """The first days in full, then the first day of each year and the last day of all."""
    found = []
    day = bench.facts.calendar.day
    first = (date(2024, 1, 1) - bench.grid.start(0).date()).days
    years = [(date(2024 + y, 1, 1) - date(2024, 1, 1)).days + first for y in range(1, YEARS)]
    for number in [*range(days), *years, int(day[-1])]:
        with bench.opened() as live:  # state saved, restored: as after a kill at midnight
            slot = int(np.searchsorted(day, number))
            jump(live, max(slot, live.next_slot))
            spent = bench.slots(live, int(np.searchsorted(day, number + 1)) - slot - 1)
        row = {"day": number, "median": float(np.median(spent)), "mean": float(np.mean(spent))}
        found.append(row | bench.kept())
        print(json.dumps(found[-1]), flush=True)
    return found


def fill(live: LiveStream, slots: int) -> None:
    """Lines and partitions of so many slots in the folder, and a standing behind them."""
    outputs, there = live._outputs, live.next_slot
    made = Publication(LEVELS, False, 3.0, False, LEVELS, LEVELS - 3, LEVELS + 3)
    with (outputs.folder / "stream.ndjson").open("ab") as lines:
        for slot in range(there, slots):
            start, end = (when.isoformat() for when in live.times(slot))
            lines.write(line_bytes(slot, start, end, made))
            with suppress(FileExistsError):
                home = outputs.folder / "slots" / f"slot={slot:05d}"
                home.mkdir()
                (home / "part-0.parquet").touch()
        size = lines.tell()
    live._standing = Standing(slots, b"", b"", size)


def in_full_folders(bench: Bench, sizes: tuple[int, ...]) -> list[dict[str, float]]:
    """What a slot, the page and opening cost where so many slots are out."""
    found = []
    for size in sizes:
        with bench.opened() as live:
            fill(live, size)
            spent = bench.slots(live, SLOTS)
            pages = [_milliseconds(live.page) for _ in range(3)]
        begun = time.process_time()
        with bench.opened():
            opening = 1e3 * (time.process_time() - begun)
        row = {"slots": size, "slot": float(np.median(spent)), "page": float(np.median(pages))}
        found.append(row | {"opening": opening})
        print(json.dumps(found[-1]), flush=True)
    return found


def _milliseconds(work: Any) -> float:
    begun = time.process_time()
    work()
    return 1e3 * (time.process_time() - begun)


def page(known: dict[str, Any]) -> str:
    """The tables."""
    years = known["years"]
    last, first = years[-1]["median"], years[known["days"] - 1]["median"]
    ratio = f"{last:.2f} over {first:.2f} ms = {last / first:.2f}"
    lines = [HEAD.format(**known, ratio=ratio)]
    for row in years:
        lines.append(
            f"| {row['day']:,} | {row['median']:.2f} | {row['mean']:.2f} | {row['state']:,} | "
            f"{row['rows']} | {row['ledger']} | {row['kilobytes']:,} |\n"
        )
    lines.append(FOLDER.format(**known))
    for row in known["folders"]:
        lines.append(
            f"| {row['slots']:,} | {row['slot']:.2f} | {row['page']:.0f} | {row['opening']:.0f} |\n"
        )
    return "".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=int, default=DAYS, help="days published in full at first")
    asked = parser.parse_args()
    grid = TimeGrid.between(date(2024, 1, 1), date(2024 + YEARS, 1, 1), "5min", "Europe/Paris")
    load = os.getloadavg()[0]
    known: dict[str, Any] = {"cells": CELLS, "slots": grid.slots, "days": asked.days}
    with tempfile.TemporaryDirectory() as place:
        homes = [Path(place) / name for name in ("years", "folders")]
        for home in homes:
            home.mkdir()
        known["years"] = through_the_years(Bench(homes[0], grid), asked.days)
        known["folders"] = in_full_folders(Bench(homes[1], grid), FOLDERS)
    known["load"] = f"{load:.0f} to {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    known["machine"] = f"{platform.machine()}, one thread"
    known["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    (OUT / "decade.json").write_text(json.dumps(known, indent=1) + "\n")
    (OUT / "decade.md").write_text(page(known))


if __name__ == "__main__":
    main()
