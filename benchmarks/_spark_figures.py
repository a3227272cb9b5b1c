"""What the Spark benchmark measures, and how its page is written."""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figure:
    """One process: CPU seconds of the tree, the driver's memory, and Spark's own metrics."""

    what: str
    file: str
    cpu_seconds: float
    wall_seconds: float
    driver_gib: float
    shuffle_gib: float
    largest_task_gib: float
    """Shuffle bytes that the largest task read."""
    peak_task_gib: float
    """Peak memory of Java for one task's sorting and grouping."""
    checksum: int
    day: str
    """When it was measured."""


def today() -> str:
    return str(date.today())


class Meter:
    """CPU seconds of this process and everything below it, of what has ended as well.

    Spark ends Python workers that were idle for a minute, and their parent ignores it: the system
    then adds their time to nobody's. So all processes are looked at every so many seconds, and
    what was seen of each is kept. Reading it as a tree would take the time of workers that ended
    off whatever runs meanwhile.
    """

    def __init__(self, every: float = 1.0) -> None:
        self._every = every
        self._seen: dict[tuple[int, str], float] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.seconds()
            time.sleep(self._every)

    def seconds(self) -> float:
        with self._lock:
            self._seen.update(_own_seconds(os.getpid()))
            return sum(self._seen.values())


def _own_seconds(root: int) -> dict[tuple[int, str], float]:
    """By number and start: CPU seconds of each process below, without those of its children."""
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                stats[int(entry.name)] = (entry / "stat").read_text().rpartition(") ")[2].split()
    inside, grown = {root}, True
    while grown:
        more = {pid for pid, fields in stats.items() if int(fields[1]) in inside} - inside
        inside |= more
        grown = bool(more)
    return {
        (pid, stats[pid][19]): (int(stats[pid][11]) + int(stats[pid][12])) / TICKS
        for pid in inside & stats.keys()
    }


def memory_gib(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(x for x in lines if x.startswith(field)).split()[1]) / (1 << 20)


def spark_metrics(folder: Path, begin: float, end: float) -> tuple[float, float, float]:
    """Bytes shuffled, the largest task's share, and the largest task's memory, in GiB."""
    written = largest = peak = 0
    for log in (path for path in folder.rglob("*") if path.is_file()):
        for line in log.read_text().splitlines():
            if '"SparkListenerTaskEnd"' not in line:
                continue
            event = json.loads(line)
            launched = event["Task Info"]["Launch Time"] / 1000
            if not begin <= launched <= end or "Task Metrics" not in event:
                continue
            found = event["Task Metrics"]
            written += found["Shuffle Write Metrics"]["Shuffle Bytes Written"]
            read = found["Shuffle Read Metrics"]
            largest = max(largest, read["Local Bytes Read"] + read["Remote Bytes Read"])
            peak = max(peak, found.get("Peak Execution Memory", 0))
    return written / (1 << 30), largest / (1 << 30), peak / (1 << 30)


def _ratios(figures: list[Figure], questions: Iterable[str]) -> list[str]:
    """Ours by the best SQL, for each question on the week."""
    found = []
    week = [f for f in figures if f.file == "week"]
    for name in questions:
        cpu: dict[str, list[float]] = {}
        for each in week:
            cpu.setdefault(each.what, []).append(each.cpu_seconds)
        mine = cpu.get(f"{name}: sfumato")
        sql = [median(some) for what, some in cpu.items() if what.startswith(f"{name}: SQL")]
        if mine and sql:
            found.append(f"{name}: **{median(mine) / min(sql):.2f}**")
    return found


def _agreement(figures: list[Figure], questions: Iterable[str]) -> str:
    """Whether all that answer one question about one file give the same sum.

    On one day: the files may have been made anew since.
    """
    sums: dict[tuple[str, str, str], set[int]] = {}
    several: Counter[tuple[str, str, str]] = Counter()
    for figure in figures:
        name = next((q for q in questions if figure.what.startswith(q)), figure.what.split(",")[0])
        sums.setdefault((name, figure.file, figure.day), set()).add(figure.checksum)
        several[name, figure.file, figure.day] += 1
    compared = [key for key, number in several.items() if number > 1]
    same = sum(len(sums[key]) == 1 for key in compared)
    return f"{same} of {len(compared)}"


def report(figures: list[Figure], questions: Iterable[str]) -> str:
    """The page: all figures, and the ratio to the best hand-written SQL."""
    questions = list(questions)
    lines = [
        "| work | file | measured | CPU-seconds | elapsed | driver's memory (GiB) | shuffled (GiB) "
        "| largest task reads (GiB) | its memory in Java (GiB) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    runs: dict[tuple[str, str], list[Figure]] = {}
    for figure in figures:
        runs.setdefault((figure.what, figure.file), []).append(figure)
    for every in runs.values():
        f = every[-1]
        cpu = ", ".join(f"{one.cpu_seconds:.1f}" for one in every)
        wall = ", ".join(f"{one.wall_seconds:.0f}" for one in every)
        lines.append(
            f"| {f.what} | {f.file} | {f.day} | {cpu} | {wall} | {f.driver_gib:.2f} "
            f"| {f.shuffle_gib:.2f} | {f.largest_task_gib:.3f} | {f.peak_task_gib:.3f} |"
        )
    ratios = _ratios(figures, questions)
    driver = max((f.driver_gib for f in figures if not f.what.endswith(": local")), default=0.0)
    last = max((f.day for f in figures), default=today())
    versions = ", ".join(f"{p} {version(p)}" for p in ("pyspark", "numba", "pyarrow"))
    return f"""# Bounded counts on Spark

    python -m benchmarks.spark --large --skew

{last}, {os.cpu_count()} cores ({platform.machine()}), {versions}, Java 17, `local[2]`.
`week`: 2 million users, 27.1 million events; `tenth`: a tenth of these users; `large`: five such
weeks, 135.5 million events; `skewed`: the tenth and one id with half as many rows again, in tasks
of 2^18 rows. CPU time is that of all processes (driver, Java, Python workers) in a warmed-up
session; several figures are several runs, in turn with those of the other works. Spark uses both
cores: elapsed time much above half of its CPU time means that others used the machine, which also
makes CPU time longer.

{chr(10).join(lines)}

What a command costs beside this, to start Java and its workers: [start](spark_start.md);
where records are ten thousand small text files: [files](spark_files.md).

CPU time of the week as a multiple of the best hand-written SQL for the same steps, by the medians
(asked of it: at most 0.7): {"; ".join(ratios) or "not measured"}.
Figures of 2026-11-16 are of the code before parcels, and may lack the time of workers that ended
([why](../decisions/spark.md#how-cpu-time-is-measured)).
sfumato's figures include its first scan (fingerprint, faults, sizes), which the SQL does not have.
The baselines (`benchmarks/_spark_sql.py`) reduce rows to distinct visits after one exchange by user
and go on without another; sampling orders by Spark's own hash instead of the keyed order, which is
cheaper.

The same question about the same file gave the same sum on one day, on Spark, on one machine and in
SQL, in {_agreement(figures, questions)} cases.

The driver's own process, Java apart, peaked at {driver:.2f} GiB (asked of it: less than 1 GiB).
"""
