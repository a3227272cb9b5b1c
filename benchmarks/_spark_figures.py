"""What the Spark benchmark measures, and how its page is written."""

from __future__ import annotations

import json
import os
import platform
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


def report(figures: list[Figure], questions: Iterable[str]) -> str:
    """The page: all figures, and the ratio to the best hand-written SQL."""
    lines = [
        "| work | file | CPU-seconds | driver's memory (GiB) | shuffled (GiB) | largest task "
        "reads (GiB) | its memory in Java (GiB) |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {f.what} | {f.file} | {f.cpu_seconds:.1f} | {f.driver_gib:.2f} | {f.shuffle_gib:.2f} "
        f"| {f.largest_task_gib:.3f} | {f.peak_task_gib:.3f} |"
        for f in figures
    ]
    ratios = []
    for name in questions:
        mine = [f.cpu_seconds for f in figures if (f.what, f.file) == (f"{name}: sfumato", "week")]
        sql = [
            f.cpu_seconds for f in figures if f.what.startswith(f"{name}: SQL") and f.file == "week"
        ]
        if mine and sql:
            ratios.append(f"{name}: {min(mine) / min(sql):.2f}")
    versions = ", ".join(f"{p} {version(p)}" for p in ("pyspark", "numba", "pyarrow"))
    return "\n".join(
        [
            "# Bounded counts on Spark",
            "",
            "    python -m benchmarks.spark --large --skew",
            "",
            f"{date.today()}, {os.cpu_count()} cores ({platform.machine()}), {versions}, Java 17, "
            "`local[2]`. `week`: 2 million users, 27.1 million events; `tenth`: a tenth of these "
            "users; `large`: five such weeks, 135.5 million events; `skewed`: the tenth and one id "
            "with half as many rows again, in tasks of 2^18 rows.",
            "",
            *lines,
            "",
            "CPU time as a multiple of the best hand-written SQL for the same steps (asked of it: "
            f"at most 1.3): {'; '.join(ratios) or 'not measured'}.",
            "",
        ]
    )
