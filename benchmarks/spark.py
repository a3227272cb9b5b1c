"""Bounded counts on Spark `local[2]`, beside hand-written Spark SQL for the same steps.

    python -m benchmarks.spark            # 27 million rows: about half an hour on two cores
    python -m benchmarks.spark --large    # 2.7 and 135 million rows as well
    python -m benchmarks.spark --skew     # one id with a third of all rows
    python -m benchmarks.spark --again --only week --runs 3    # only these, thrice in turn

The week is that of `benchmarks.counting`. All figures of Spark come from one session, which first
does everything once on one part in two hundred of the rows (Java compiles, workers import). CPU
time is user and system time of all processes (driver, Java, Python workers, ended ones too), memory
the peak of the driver's own process over the whole run, Java apart. Shuffle figures are Spark's
own, from its event log. Writes docs/benchmarks/spark.md and spark.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import platformdirs
from benchmarks import _spark_sql as spark_sql
from benchmarks._spark_figures import Figure, Meter, memory_gib, report, spark_metrics, today
from benchmarks.counting import FOLDER, GRID, KEY, SAMPLE, WEIGHT

from sfumato.engine.local import LocalSource
from sfumato.engine.spark.session import open_session
from sfumato.engine.spark.source import SparkSource, open_source
from sfumato.io.events import read_events
from sfumato.io.towers import read_towers
from sfumato.model.counts import Counting
from sfumato.model.places import Places

SHARES = {"tenth": 10, "warm": 200}
SMALL = 1 << 18


def sampled(source: Any) -> list[Any]:
    return [source.sampled(SAMPLE, KEY)]


def weighted(source: Any) -> list[Any]:
    return [source.weighted(WEIGHT, Counting.VISITS)]


def norms_of(places: int) -> Any:
    """Some public event norms, between one half and two."""
    return (np.indices((places, GRID.slots)).sum(axis=0) * 37 % 384 + 128).astype(np.int64)


def scheme(source: Any) -> list[Any]:
    """What the default scheme asks: three margins, then the matrix with event norms."""
    return [
        source.place_totals(WEIGHT, Counting.VISITS),
        source.slot_totals(WEIGHT, Counting.VISITS),
        source.capped_total(250, Counting.VISITS),
        source.weighted(WEIGHT, Counting.VISITS, norms_of(source.place_ids.size)),
    ]


ASKED: dict[str, Callable[[Any], list[Any]]] = {
    "sampling, l = 30": sampled,
    "weights, C = 3": weighted,
    "three margins and the matrix": scheme,
}


def _sum(boxes: list[Any]) -> int:
    """One number to compare runs by; benchmarks are run on made-up people."""
    return sum(int(box._through_the_door().values.sum()) for box in boxes)


def ours(ask: Callable[[Any], list[Any]]) -> Callable[[Any, Path, Places], int]:
    def work(session: Any, path: Path, towers: Places) -> int:
        source = open_source(session.read.parquet(str(path)), towers, GRID)
        try:
            return _sum(ask(source))
        finally:
            source.close()

    return work


def fingerprint(session: Any, path: Path, towers: Places) -> int:
    source = open_source(session.read.parquet(str(path)), towers, GRID)
    return int(source.fingerprint(KEY)[:12], 16)


def crowded(limit: int) -> Callable[[Any, Path, Places], int]:
    """Weights with and without dropping repeats before the exchange."""

    def work(session: Any, path: Path, towers: Places) -> int:
        opened = open_source(session.read.parquet(str(path)), towers, GRID)
        source = SparkSource(opened.events, towers, GRID, rows_per_task=SMALL, crowded=limit)
        try:
            return _sum(weighted(source))
        finally:
            source.close()

    return work


WORK: dict[str, Callable[[Any, Path, Places], int]] = {
    **{f"{name}: sfumato": ours(ask) for name, ask in ASKED.items()},
    **{
        f"{name}: SQL, {form}": work
        for (name, form), work in spark_sql.forms(GRID, SAMPLE, WEIGHT, norms_of).items()
    },
    "fingerprint, one scan: sfumato": fingerprint,
    "skew, repeats to one task": crowded(1 << 62),
    "skew, repeats dropped first": crowded(SMALL),
}


def path_of(folder: Path, file: str) -> Path:
    return folder / "week" / "events.parquet" if file == "week" else folder / f"{file}.parquet"


def prepare(folder: Path, file: str) -> None:
    """Parts of the week by whole users, and a tenth of it with one id that owns a third."""
    path = path_of(folder, file)
    if path.exists():
        return
    week = path_of(folder, "week")
    if file in SHARES:
        sql = f"SELECT * FROM '{week}' WHERE user_id % {SHARES[file]} = 0"
    elif file == "skewed":
        tenth = f"SELECT * FROM '{week}' WHERE user_id % 10 = 0"
        some = f"SELECT timestamp, tower FROM '{week}' WHERE user_id % 20 = 0"
        sql = f"{tenth} UNION ALL BY NAME SELECT -1 AS user_id, * FROM ({some})"
    else:
        raise SystemExit(f"{path} is missing: run python -m benchmarks.counting --large first")
    partial = path.with_suffix(".partial")
    duckdb.connect().execute(f"COPY ({sql}) TO '{partial}' (FORMAT parquet)")
    partial.rename(path)


def one_machine(what: str, file: str, folder: Path) -> Figure:
    """The same question on the local engine."""
    towers = read_towers(folder / "week" / "towers.csv")
    ask = ASKED[what.removesuffix(": local")]
    _sum(ask(LocalSource(read_events(path_of(folder, "warm")), towers, GRID)))
    cpu, wall = time.process_time(), time.perf_counter()
    checksum = _sum(ask(LocalSource(read_events(path_of(folder, file)), towers, GRID)))
    spent = time.process_time() - cpu, time.perf_counter() - wall
    return Figure(what, file, *spent, memory_gib("VmHWM"), 0.0, 0.0, 0.0, checksum, today())


def on_spark(runs: list[tuple[str, str]], folder: Path) -> Iterator[Figure]:
    """All runs in one session, one after the other."""
    towers, meter = read_towers(folder / "week" / "towers.csv"), Meter()
    with tempfile.TemporaryDirectory() as logs:
        settings = {
            "spark.driver.memory": "4g",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": Path(logs).as_uri(),
        }
        session, closing = open_session("local[2]", settings)
        found = []
        with closing:
            for what in dict.fromkeys(what for what, _ in runs):
                WORK[what](session, path_of(folder, "warm"), towers)
            for what, file in runs:
                begin, cpu, wall = time.time(), meter.seconds(), time.perf_counter()
                checksum = WORK[what](session, path_of(folder, file), towers)
                spent = meter.seconds() - cpu, time.perf_counter() - wall
                found.append((begin, time.time(), what, file, *spent, checksum))
                print(f"{what} / {file}: {spent[0]:.1f} s", file=sys.stderr, flush=True)
        for begin, end, what, file, cpu, wall, checksum in found:
            metrics = spark_metrics(Path(logs), begin, end)
            memory = memory_gib("VmHWM")
            yield Figure(what, file, cpu, wall, memory, *metrics, checksum, today())


def child(work: str, runs: list[tuple[str, str]]) -> Iterator[Figure]:
    """Figures from a process of its own; its messages pass through."""
    command = [sys.executable, "-m", "benchmarks.spark", "--child", work, json.dumps(runs)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        if line.startswith('{"what"'):
            yield Figure(**json.loads(line))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="2.7 and 135 million rows as well")
    parser.add_argument("--skew", action="store_true", help="one id with a third of all rows")
    parser.add_argument(
        "--only", default="", help="figures of this file or with this in their name"
    )
    parser.add_argument("--resume", action="store_true", help="keep what the last run measured")
    parser.add_argument("--again", action="store_true", help="keep what is not measured now")
    parser.add_argument("--runs", type=int, default=1, help="of each on Spark, in turn")
    parser.add_argument("--child", nargs=2, metavar=("WORK", "RUNS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    cache = platformdirs.user_cache_dir("sfumato")
    folder = Path(os.environ.get("SFUMATO_BENCH_DIR") or Path(cache) / "benchmarks")
    if options.child:
        given = [(str(what), str(file)) for what, file in json.loads(options.child[1])]
        found: Iterable[Figure] = on_spark(given, folder)
        if options.child[0] == "local":
            found = (one_machine(what, file, folder) for what, file in given)
        for figure in found:
            print(json.dumps(asdict(figure)), flush=True)
        return
    runs = [(what, "week") for what in WORK if not what.startswith("skew")]
    both = [f"{name}: {engine}" for name in ASKED for engine in ("sfumato", "local")]
    if options.large:
        runs += [(what, file) for file in ("tenth", "week", "large") for what in both]
    if options.skew:
        runs += [(what, "skewed") for what in WORK if what.startswith("skew")]
    kept = FOLDER / "spark.json"
    figures: list[Figure] = []
    runs = [run for run in dict.fromkeys(runs) if options.only in run[0] or options.only == run[1]]
    if (options.resume or options.again) and kept.exists():
        figures = [Figure(**each) for each in json.loads(kept.read_text())]
    if options.again:
        figures = [each for each in figures if (each.what, each.file) not in runs]
    have = {(figure.what, figure.file) for figure in figures}
    runs = [run for run in runs if run not in have]
    for file in ("warm", *(file for _, file in runs)):
        prepare(folder, file)
    here = [run for run in runs if run[0].endswith(": local")]
    groups = [("spark", [run for run in runs if run not in here] * options.runs)]
    groups += [("local", [run]) for run in here]
    for work, some in groups:
        figures += child(work, some) if some else ()
        # After every group: a run that is stopped has not been for nothing.
        (FOLDER / "spark.md").write_text(report(figures, ASKED))
        kept.write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n")
    print(report(figures, ASKED))


if __name__ == "__main__":
    main()
