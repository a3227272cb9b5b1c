"""Questions to a week of 27 million events, beside a bare count of the same file in the same run.

    python -m benchmarks questions                          # about five minutes on two cores
    python -m benchmarks.questions --beside CHECKOUT        # and an earlier commit's, in turns

The week is that of `benchmarks.counting`. A question is everything that a desk does with the
events for it: describe the file, fingerprint it before the reservation, answer, fingerprint it
again. Every figure is the CPU time of a process of its own, compiled code loaded and the file cache
warm, over that of the bare count that ran just before it; the table has the median of all turns.
Writes docs/benchmarks/questions.md and questions.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np
import platformdirs
from benchmarks.counting import (
    FOLDER,
    GRID,
    Figure,
    bare,
    cpu_seconds,
    path_of,
    peak_gib,
    prepare,
    small_of,
)

from sfumato.engine.local import LocalSource
from sfumato.io.events import read_events
from sfumato.io.towers import read_towers
from sfumato.model.counts import WeightBound
from sfumato.model.masks import Masks, Measure
from sfumato.model.places import Places

TURNS = 5
BATCH = 1000
KEY = bytes(range(32))
FILES = ("week", "by_time", "text")
BARE = "bare count"
BAR = 2.0
"""What is asked of one question, in bare counts."""
Ask = Callable[[LocalSource, Places], object]


def _discs(towers: Places, count: int) -> list[tuple[list[int], list[int]]]:
    """Random discs of 0.5 to 3 km around towers, 1 to 48 hours each. The seed tuned nothing."""
    rng = np.random.default_rng(21)
    points = np.array([(point.x, point.y) for point in towers.geometry])
    metres = points * [111_320 * np.cos(np.radians(points[:, 1].mean())), 111_320]
    questions = []
    for _ in range(count):
        away = np.linalg.norm(metres - metres[rng.integers(len(towers))], axis=1)
        inside = np.flatnonzero(away <= rng.uniform(500, 3000)).tolist()
        hours = int(rng.integers(1, 49))
        first = int(rng.integers(0, GRID.slots - hours + 1))
        questions.append((inside, list(range(first, first + hours))))
    return questions


def _masks(towers: Places, questions: list[tuple[list[int], list[int]]]) -> Masks:
    return Masks.of(len(towers), GRID.slots, questions)


def narrow(source: LocalSource, towers: Places) -> object:
    """One disc in an hour."""
    return source.answers(_masks(towers, [(_discs(towers, 1)[0][0], [60])]), Measure.VISITS, 1)


def ranged(measure: Measure, cap: int) -> Ask:
    """The largest of the ranges that studies ask for: a disc of 3 km over two days."""

    def ask(source: LocalSource, towers: Places) -> object:
        points = np.array([(point.x, point.y) for point in towers.geometry])
        metres = points * [111_320 * np.cos(np.radians(points[:, 1].mean())), 111_320]
        away = np.linalg.norm(metres - np.median(metres, axis=0), axis=1)
        inside = np.flatnonzero(away <= 3_000).tolist()
        return source.answers(_masks(towers, [(inside, list(range(24, 72)))]), measure, cap)

    return ask


def broad(measure: Measure, cap: int) -> Ask:
    """All places, all slots."""

    def ask(source: LocalSource, towers: Places) -> object:
        everything = (list(range(len(towers))), list(range(GRID.slots)))
        return source.answers(_masks(towers, [everything]), measure, cap)

    return ask


def batch(measure: Measure) -> Ask:
    def ask(source: LocalSource, towers: Places) -> object:
        return source.answers(_masks(towers, _discs(towers, BATCH)), measure, WeightBound(8.0))

    return ask


ASKED: dict[str, Ask] = {
    "one disc, one hour, visits": narrow,
    "a disc of 3 km, 48 hours, visits (C = 30)": ranged(Measure.VISITS, 30),
    "a disc of 3 km, 48 hours, unique_people": ranged(Measure.UNIQUE_PEOPLE, 1),
    "everywhere, all week, visits (C = 30)": broad(Measure.VISITS, 30),
    "everywhere, all week, unique_people": broad(Measure.UNIQUE_PEOPLE, 1),
    f"{BATCH:,} discs x hours, visits": batch(Measure.VISITS),
    f"{BATCH:,} discs x hours, unique_people": batch(Measure.UNIQUE_PEOPLE),
    "fingerprint, twice": lambda *_: None,
}


def whole(ask: Ask, path: Path, towers: Places) -> None:
    """Everything a desk does with the events for one answer."""
    source = LocalSource(read_events(path), towers, GRID)
    before = source.fingerprint(KEY)
    ask(source, towers)
    assert source.fingerprint(KEY) == before
    source.close()


def measure_here(what: str, file: str, folder: Path) -> Figure:
    towers = read_towers(folder / "week" / "towers.csv")
    if what != BARE:
        whole(ASKED[what], small_of(folder, file), towers)
    cpu, wall = cpu_seconds(), time.perf_counter()
    if what == BARE:
        bare(path_of(folder, file), towers)
    else:
        whole(ASKED[what], path_of(folder, file), towers)
    return Figure(what, file, cpu_seconds() - cpu, time.perf_counter() - wall, peak_gib())


def measure(what: str, file: str, folder: Path, sources: Path | None = None) -> Figure:
    """One figure in a process of its own, with the sources of another checkout if given."""
    command = [sys.executable, "-m", "benchmarks.questions", "--one", what, file]
    env = os.environ | {"SFUMATO_BENCH_DIR": str(folder)}
    if sources is not None:
        env["PYTHONPATH"] = str(sources)
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    figure = Figure(**json.loads(done.stdout.splitlines()[-1]))
    then = "" if sources is None else " (before)"
    print(f"{what} / {file}{then}: {figure.cpu_seconds:.2f} s", flush=True)
    return figure


def _median(figures: list[Figure], turns: list[dict[str, Figure]]) -> str:
    """Median over the turns of a figure in bare counts of the same turn."""
    pairs = zip(figures, turns, strict=True)
    ratios = [figure.cpu_seconds / turn[BARE].cpu_seconds for figure, turn in pairs]
    return f"{statistics.median(ratios):.2f}"


def report(turns: list[dict[str, Figure]], earlier: str) -> str:
    lines = [
        "| file | question | times the bare count | "
        f"{f'{earlier} | ' if earlier else ''}CPU-seconds | peak memory (GiB) |",
        f"|---|---|---|{'---|' if earlier else ''}---|---|",
    ]
    for file in FILES:
        own = [turn for turn in turns if turn[BARE].file == file]
        base = statistics.median(turn[BARE].cpu_seconds for turn in own)
        size = max(turn[BARE].peak_gib for turn in own)
        then = "1 | " if earlier else ""
        lines.append(f"| {file} | bare count | 1 | {then}{base:.2f} | {size:.2f} |")
        for what in ASKED:
            found = [turn[what] for turn in own]
            then = ""
            if earlier:
                old = [turn[f"before: {what}"] for turn in own]
                then = f"{_median(old, own)} | "
            cpu = statistics.median(figure.cpu_seconds for figure in found)
            size = max(figure.peak_gib for figure in found)
            now = _median(found, own)
            lines.append(f"| {file} | {what} | {now} | {then}{cpu:.2f} | {size:.2f} |")
    packages = ("duckdb", "numba", "numpy", "pyarrow")
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    count = min(sum(turn[BARE].file == file for turn in turns) for file in FILES)
    return "\n".join(
        [
            "# Questions to the events",
            "",
            f"    python -m benchmarks.questions{' --beside CHECKOUT' if earlier else ''}",
            "",
            f"{date.today()}, {os.cpu_count()} cores ({platform.machine()}), {versions}. Medians "
            f"of {count} turns. `week`: 2 million users, 27.1 million events in groups of users, "
            "each in order of time; `by_time`: all in order of time; `text`: the week with "
            "32-character ids. Every question includes describing the file and its fingerprint "
            "before and after.",
            "",
            *lines,
            "",
            f"Asked of it: one question at most {BAR:g} bare counts, a batch of {BATCH:,} one pass "
            "over the file.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="an earlier commit's files")
    parser.add_argument("--one", nargs=2, metavar=("WHAT", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    cache = platformdirs.user_cache_dir("sfumato")
    folder = Path(os.environ.get("SFUMATO_BENCH_DIR") or Path(cache) / "benchmarks")
    if options.one:
        print(json.dumps(asdict(measure_here(*options.one, folder))))
        return
    folder.mkdir(parents=True, exist_ok=True)
    prepare(folder, large=False)
    earlier = None if options.beside is None else options.beside.resolve() / "src"
    turns: list[dict[str, Figure]] = []
    for _ in range(options.turns):
        for file in FILES:
            turn = {BARE: measure(BARE, file, folder)}
            for what in ASKED:
                turn[what] = measure(what, file, folder)
                if earlier is not None:
                    turn[f"before: {what}"] = measure(what, file, folder, earlier)
            turns.append(turn)
        before = "" if earlier is None else "before"
        if len(turns) >= len(FILES):
            (FOLDER / "questions.md").write_text(report(turns, before))
        raw = [{what: asdict(figure) for what, figure in turn.items()} for turn in turns]
        (FOLDER / "questions.json").write_text(json.dumps(raw, indent=1) + "\n")
    print(report(turns, "" if earlier is None else "before"))


if __name__ == "__main__":
    main()
