"""What the Spark benchmark measures, and how its page is written."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

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


def tree_cpu(root: int) -> float:
    """CPU seconds of a process and everything below it, the finished children included."""
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            stats[int(entry.name)] = int(fields[1]), sum(int(x) for x in fields[11:15]) / TICKS
    inside, grown = {root}, True
    while grown:
        more = {pid for pid, (parent, _) in stats.items() if parent in inside} - inside
        inside |= more
        grown = bool(more)
    return sum(stats[pid][1] for pid in inside if pid in stats)


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
        mine = [f.cpu_seconds for f in week if f.what == f"{name}: sfumato"]
        sql = [f.cpu_seconds for f in week if f.what.startswith(f"{name}: SQL")]
        if mine and sql:
            found.append(f"{name}: **{min(mine) / min(sql):.2f}**")
    return found


def _agreement(figures: list[Figure], questions: Iterable[str]) -> str:
    """Whether all that answer one question about one file give the same sum."""
    sums: dict[tuple[str, str], set[int]] = {}
    several: Counter[tuple[str, str]] = Counter()
    for figure in figures:
        name = next((q for q in questions if figure.what.startswith(q)), figure.what.split(",")[0])
        sums.setdefault((name, figure.file), set()).add(figure.checksum)
        several[name, figure.file] += 1
    compared = [key for key, number in several.items() if number > 1]
    same = sum(len(sums[key]) == 1 for key in compared)
    return f"{same} of {len(compared)}"


def report(figures: list[Figure], questions: Iterable[str]) -> str:
    """The page: all figures, and the ratio to the best hand-written SQL."""
    questions = list(questions)
    lines = [
        "| work | file | CPU-seconds | elapsed | driver's memory (GiB) | shuffled (GiB) | largest "
        "task reads (GiB) | its memory in Java (GiB) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {f.what} | {f.file} | {f.cpu_seconds:.1f} | {f.wall_seconds:.0f} | {f.driver_gib:.2f} "
        f"| {f.shuffle_gib:.2f} | {f.largest_task_gib:.3f} | {f.peak_task_gib:.3f} |"
        for f in figures
    ]
    ratios = _ratios(figures, questions)
    driver = max((f.driver_gib for f in figures if not f.what.endswith(": local")), default=0.0)
    versions = ", ".join(f"{p} {version(p)}" for p in ("pyspark", "numba", "pyarrow"))
    return f"""# Bounded counts on Spark

    python -m benchmarks.spark --large --skew

{date.today()}, {os.cpu_count()} cores ({platform.machine()}), {versions}, Java 17, `local[2]`.
`week`: 2 million users, 27.1 million events; `tenth`: a tenth of these users; `large`: five such
weeks, 135.5 million events; `skewed`: the tenth and one id with half as many rows again, in tasks
of 2^18 rows. CPU time is that of all processes (driver, Java, Python workers) in a warmed-up
session. Spark uses both cores: elapsed time much above half of its CPU time means that others used
the machine, which also makes CPU time longer.

{chr(10).join(lines)}

What a command costs beside this, to start Java and its workers: [start](spark_start.md).

CPU time as a multiple of the best hand-written SQL for the same steps (asked of it: at most 1.3):
{"; ".join(ratios) or "not measured"}.
sfumato's figures include its first scan (fingerprint, faults, sizes), which the SQL does not have.
The baselines (`benchmarks/_spark_sql.py`) reduce rows to distinct visits after one exchange by user
and go on without another; sampling orders by Spark's own hash instead of the keyed order, which is
cheaper.

The same question about the same file gave the same sum, on Spark, on one machine and in SQL, in
{_agreement(figures, questions)} cases.

The driver's own process, Java apart, peaked at {driver:.2f} GiB (asked of it: less than 1 GiB).
"""
