"""Bounded counts of a week of 27 million events, beside a bare count on the same file.

    python -m benchmarks.counting            # about ten minutes on two cores, 3 GB of files
    python -m benchmarks.counting --large    # 135 million rows as well
    python -m benchmarks.counting --quick --files week text   # without the slow baselines
    python -m benchmarks.counting --quick --files written     # weights, as users write their files
    python -m benchmarks.counting --beside CHECKOUT   # reading alone, beside an earlier commit

The week is a synthetic city (2 million users, 1,303 towers, 168 hours), generated once into
SFUMATO_BENCH_DIR or the user's cache folder. Every figure comes from a process of its own:
CPU time is user and system time of the work alone (compiled code loaded, file cache warm, memory
touched before by another process), memory is the process's peak resident set. Rounds are paired:
every question is divided by the bare count of the same file in the same round, and the median of
these is shown. *Before* is the table that this file wrote on 2026-11-16 (commit 488a6af). Writes
docs/benchmarks/counting.md and counting.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import platformdirs
from tests.engine.reference import RelationalSource

from sfumato.city.plan import CityPlan
from sfumato.city.write import write_city
from sfumato.engine.local import LocalSource
from sfumato.io.events import read_events
from sfumato.io.towers import read_towers
from sfumato.model.counts import Counting, SampleBound, WeightBound
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid

USERS = 2_000_000
COPIES = 5
REPEATS = 5
SMALL = 100_000
"""More than a few: below 65,536 rows, users are not partitioned."""
FILES = ("week", "by_time", "text", "lines", "text-lines")
WRITERS = ("pyarrow", "duckdb", "spark")
PACKED = {
    f"{ids}-{writer}{'-zstd' * zstd}": (ids, writer, bool(zstd))
    for ids in ("week", "text")
    for writer in WRITERS
    for zstd in (0, 1)
}
"""Parquet by each writer's defaults, and the same packed with ZSTD."""
WRITTEN = (*PACKED, "lines", "text-lines")
BEFORE = {
    ("sampling, l = 30", "week"): 7.2,
    ("weights, C = 3", "week"): 6.5,
    ("sampling, l = 30", "by_time"): 8.2,
    ("weights, C = 3", "by_time"): 7.5,
    ("sampling, l = 30", "text"): 11.2,
    ("weights, C = 3", "text"): 11.1,
    ("three margins and the matrix", "week"): 6.6,
    ("sampling, l = 30", "large"): 11.7,
    ("weights, C = 3", "large"): 9.9,
    ("sampling, relational", "week"): 56.0,
    ("weights, relational", "week"): 48.2,
    ("sampling, pandas", "week"): 28.2,
}
"""Times the bare count, then; best of two runs, not paired."""
ASKED = {
    ("weights, C = 3", file): "6.5" if file.startswith("text") else "3"
    for file in ("week", "text", *WRITTEN)
}
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
GRID = TimeGrid.between(date(2007, 9, 10), date(2007, 9, 17), "1h", "Europe/Paris")
SAMPLE, WEIGHT, KEY = SampleBound(30), WeightBound(3.0), bytes(range(32))


@dataclass(frozen=True)
class Figure:
    """One process: CPU seconds of the work and peak memory."""

    what: str
    file: str
    cpu_seconds: float
    wall_seconds: float
    peak_gib: float
    round: int = 0


def _write(sql: str, path: Path) -> None:
    if not path.exists():
        partial = path.with_suffix(".partial")
        database = duckdb.connect()
        database.execute("SET memory_limit = '4GB'")
        database.execute("SET TimeZone = 'UTC'")
        database.execute(f"COPY ({sql}) TO '{partial}' (FORMAT {path.suffix[1:]})")
        partial.rename(path)


def _written(rows: Path, path: Path, writer: str, zstd: bool) -> None:
    """A copy of a file as users write it: everything but the codec is the writer's default."""
    if path.exists():
        return
    partial = path.with_suffix(".partial")
    if writer == "duckdb":
        codec = ", COMPRESSION zstd" if zstd else ""
        duckdb.connect().execute(f"COPY (FROM '{rows}') TO '{partial}' (FORMAT parquet{codec})")
    elif writer == "pyarrow":
        import pyarrow.parquet as pq

        table = pq.read_table(rows)
        pq.write_table(table, partial, **({"compression": "zstd"} if zstd else {}))
    else:
        from pyspark.sql import SparkSession

        session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = session.config("spark.driver.memory", "3g").getOrCreate()
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        options = {"compression": "zstd"} if zstd else {}
        spark.read.parquet(str(rows)).write.options(**options).parquet(str(partial))
    partial.rename(path)


def prepare(folder: Path, large: bool, files: Collection[str]) -> None:
    """The week by groups of users, in order of time, with text ids, as CSV, and large."""
    week = folder / "week" / "events.parquet"
    if not (folder / "week" / "city.json").exists():
        write_city(CityPlan(users=USERS), folder / "week")
    if "by_time" in files:
        _write(f"SELECT * FROM '{week}' ORDER BY timestamp", folder / "by_time.parquet")
    text = "SELECT md5(CAST(user_id AS VARCHAR)) AS user_id, timestamp, tower"
    _write(f"{text} FROM '{week}'", folder / "text.parquet")
    iso = "strftime(timestamp AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%SZ') AS timestamp"
    if "lines" in files:
        _write(f"SELECT user_id, {iso}, tower FROM '{week}'", folder / "lines.csv")
    if "text-lines" in files:
        texts = f"SELECT user_id, {iso}, tower FROM '{folder / 'text.parquet'}'"
        _write(texts, folder / "text-lines.csv")
    for file in PACKED.keys() & set(files):
        ids, writer, zstd = PACKED[file]
        _written(path_of(folder, ids), path_of(folder, file), writer, zstd)
    for file in {"week", "text", *files} - {"by_time", *PACKED}:
        whole = path_of(folder, file)
        _write(f"SELECT * FROM '{whole}' LIMIT {SMALL}", small_of(folder, file))
    if large:
        copies = f"(SELECT unnest(range({COPIES})) AS copy)"
        shifted = f"user_id + copy * {1 << 40} AS user_id, timestamp, tower"
        _write(f"SELECT {shifted} FROM '{week}', {copies}", folder / "large.parquet")


def path_of(folder: Path, file: str) -> Path:
    if file.endswith("lines"):
        return folder / f"{file}.csv"
    return folder / "week" / "events.parquet" if file == "week" else folder / f"{file}.parquet"


def small_of(folder: Path, file: str) -> Path:
    """A few rows of the same kind: what is compiled is loaded by them."""
    kind = file if file.endswith("lines") else "text" if file.startswith("text") else "week"
    return folder / f"small-{kind}{path_of(folder, kind).suffix}"


def bare(path: Path, _: Places) -> None:
    hour = "epoch_us(timestamp) // 3600000000"
    files = f"{path}/*.parquet" if path.is_dir() else path
    sql = f"SELECT tower, {hour} AS hour, count(*) FROM '{files}' GROUP BY ALL"
    duckdb.connect().execute(sql).fetchnumpy()


def users_alone(path: Path, _: Places) -> None:
    """What it takes to tell users apart, and nothing else."""
    sql = f"SELECT count(*) FROM (SELECT user_id, count(*) FROM '{path}' GROUP BY 1)"
    duckdb.connect().execute(sql).fetchall()


def ids_decoded(path: Path, _: Places) -> None:
    """What it takes Arrow to unpack the column of users, and nothing else: no user told apart."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
        for _batch in file.iter_batches(1 << 15, columns=["user_id"], use_threads=False):
            pass


def local(ask: Callable[[Any], Any]) -> Callable[[Path, Places], None]:
    def work(path: Path, towers: Places) -> None:
        ask(LocalSource(read_events(path), towers, GRID))

    return work


def relational(ask: Callable[[Any], Any]) -> Callable[[Path, Places], None]:
    def work(path: Path, towers: Places) -> None:
        ask(RelationalSource(read_events(path), towers, GRID))

    return work


def sampled(source: Any) -> None:
    source.sampled(SAMPLE, KEY)


def weighted(source: Any) -> None:
    source.weighted(WEIGHT, Counting.VISITS)


def scheme(source: Any) -> None:
    """What a scheme with margins asks: three margins, then the matrix with event norms."""
    source.place_totals(WEIGHT, Counting.VISITS)
    source.slot_totals(WEIGHT, Counting.VISITS)
    source.capped_total(250, Counting.VISITS)
    norms = np.full((source.place_ids.size, source.grid.slots), 256, np.int64)
    source.weighted(WEIGHT, Counting.VISITS, norms)


def reading(source: Any) -> None:
    """Read, judge and group all rows, and count nothing yet."""
    _ = source.drops


def pandas_sampled(path: Path, towers: Places) -> None:
    """What one would write first: shuffle, one row a slot, thirty rows a user."""
    import pandas as pd

    frame = pd.read_parquet(path)
    slot = (frame.timestamp.astype("int64") - int(GRID.edges[0])) // 3_600_000_000
    frame = frame.assign(slot=slot)[["user_id", "slot", "tower"]]
    frame = frame[frame.tower.isin(towers.ids) & frame.slot.between(0, GRID.slots - 1)]
    frame = frame.sample(frac=1.0, random_state=1).drop_duplicates(["user_id", "slot"])
    frame = frame[frame.groupby("user_id").cumcount() < SAMPLE.slots]
    frame.groupby(["tower", "slot"]).size()


WORK: dict[str, Callable[[Path, Places], None]] = {
    "bare count": bare,
    "GROUP BY user_id": users_alone,
    "user_id decoded by Arrow": ids_decoded,
    "reading": local(reading),
    "sampling, l = 30": local(sampled),
    "weights, C = 3": local(weighted),
    "three margins and the matrix": local(scheme),
    "sampling, relational": relational(sampled),
    "weights, relational": relational(weighted),
    "sampling, pandas": pandas_sampled,
}


def warm_up(small: Path, towers: Places) -> None:
    """Load what is compiled, so that a figure is the work's and not the compiler's."""
    for ask in (reading, sampled, weighted, scheme):
        local(ask)(small, towers)


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_gib() -> float:
    """Peak resident set of this process; getrusage's also remembers the parent's at the fork."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) / (1 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def measure_here(what: str, file: str, folder: Path) -> Figure:
    towers = read_towers(folder / "week" / "towers.csv")
    if what.startswith(("reading", "sampling, l", "weights, C", "three")):
        warm_up(small_of(folder, file), towers)
    cpu, wall = cpu_seconds(), time.perf_counter()
    WORK[what](path_of(folder, file), towers)
    spent = cpu_seconds() - cpu, time.perf_counter() - wall
    return Figure(what, file, *spent, peak_gib())


def touch_memory(gib: float = 1.5) -> None:
    """Have this much memory at hand, as the file cache has the files.

    A virtual machine's host hands memory out when it is first touched, and charges whoever comes
    first: up to 1.2 CPU-seconds of system time a GiB here, more than the bare count itself.
    """
    size = f"{int(gib * 2**30)}"
    subprocess.run([sys.executable, "-c", f"import numpy; numpy.ones({size}, 'u1')"], check=True)


def measure(what: str, file: str, folder: Path, sources: Path | None = None) -> Figure:
    """Run one figure in a process of its own, with the sources of another checkout if given."""
    command = [sys.executable, "-m", "benchmarks.counting", "--one", what, file]
    env = os.environ | {"SFUMATO_BENCH_DIR": str(folder)}
    if sources is not None:
        env["PYTHONPATH"] = str(sources)
    touch_memory(3.0 if file == "large" else 1.5)
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    figure = Figure(**json.loads(done.stdout.splitlines()[-1]))
    print(f"{what} / {file}: {figure.cpu_seconds:.1f} s, {figure.peak_gib:.2f} GiB", flush=True)
    return figure


def report(figures: list[Figure], command: str) -> str:
    bare = {(f.file, f.round): f.cpu_seconds for f in figures if f.what == "bare count"}
    once = {file: spent for (file, _), spent in bare.items()}
    lines = [
        "| question | file | CPU-seconds | times the bare count | range | before | asked | GiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for what, file in dict.fromkeys((f.what, f.file) for f in figures):
        found = [f for f in figures if (f.what, f.file) == (what, file)]
        least = {
            f.round: bare.get((file, f.round), once.get(file, once.get("week", float("nan"))))
            for f in found
        }
        times = [f.cpu_seconds / least[f.round] for f in found]
        spent = float(np.median([f.cpu_seconds for f in found]))
        before = BEFORE.get((what, file))
        cells = [what, file, f"{spent:.2f}", f"{np.median(times):.1f}"]
        cells += [f"{min(times):.1f}–{max(times):.1f}" if len(times) > 1 else ""]
        cells += ["" if before is None else f"{before}", ASKED.get((what, file), "")]
        lines.append(f"| {' | '.join(cells)} | {max(f.peak_gib for f in found):.2f} |")
    versions = ", ".join(f"{p} {version(p)}" for p in ("duckdb", "numba", "numpy", "pyarrow"))
    rounds = 1 + max(f.round for f in figures)
    return "\n".join(
        [
            "# Bounded counts",
            "",
            f"    {command}",
            "",
            f"{date.today()}, {os.cpu_count()} cores ({platform.machine()}), {versions}. Medians "
            f"of {rounds} rounds, each beside the bare count of the same round; before each figure "
            "another process touched as much memory, which a virtual machine's host hands out "
            "then. `week`: 2 million users, 27.1 million events by groups of users; "
            "`by_time`: the same in order of time; `text`: the same with 32-character ids; "
            f"`large`: {COPIES} such populations, 10 million users, 135.5 million events; `lines`, "
            "`text-lines`: as CSV; `week-` and `text-` with the name of a writer: Parquet by its "
            "defaults (Spark: a folder), or packed with ZSTD. Every "
            "figure includes reading the file; the bare count does not read the users. *Before*: "
            "2026-11-16, commit 488a6af, best of two.",
            "",
            *lines,
            "",
            *_left_out(figures),
            "Why text ids cost what they do: [decision](../decisions/bounded-counting.md). What "
            "whole commands cost, and how that grows: [waiting](waiting.md).",
            "",
        ]
    )


def _left_out(figures: list[Figure]) -> list[str]:
    """What was measured before and is not measured again in this run."""
    have = {(f.what, f.file) for f in figures}
    gone = [f"{what}, {file}: {times}" for (what, file), times in BEFORE.items()
            if (what, file) not in have]  # fmt: skip
    return [f"Not measured again (before): {'; '.join(gone)}.", ""] if gone else []


def beside(folder: Path, sources: Path, repeats: int) -> str:
    """Reading alone, now and with the sources of an earlier commit, in turns."""
    rows = []
    for file in ("week", "text", "lines"):
        now, then = [], []
        for _ in range(repeats):
            then.append(measure("reading", file, folder, sources))
            now.append(measure("reading", file, folder))
        here, there = (min(f, key=lambda figure: figure.cpu_seconds) for f in (now, then))
        rows.append(
            f"| {file} | {there.cpu_seconds:.2f} | {here.cpu_seconds:.2f} | "
            f"{here.cpu_seconds / there.cpu_seconds:.2f} | {there.wall_seconds:.1f} | "
            f"{here.wall_seconds:.1f} | {there.peak_gib:.2f} | {here.peak_gib:.2f} |"
        )
    return "\n".join(
        [
            "# Reading",
            "",
            "    python -m benchmarks.counting --beside CHECKOUT",
            "",
            f"{date.today()}, {os.cpu_count()} cores ({platform.machine()}). 27.1 million rows "
            "read, judged and grouped; CHECKOUT is commit 4627417, whose reader let rows decide "
            f"about each other. Best of {repeats} processes each, in turns. `week`: Parquet, "
            "integer ids; `text`: Parquet, 32-character ids; `lines`: CSV.",
            "",
            "| file | CPU-seconds before | now | ratio | seconds before | now | GiB before | now |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            "Asked of it: Parquet at most 1.1 times as slow, CSV not slower.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="135 million rows as well")
    parser.add_argument("--quick", action="store_true", help="without the slow baselines")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="processes a figure")
    parser.add_argument("--files", nargs="+", default=FILES, help="only of these")
    parser.add_argument("--resume", action="store_true", help="only what the last run left out")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="an earlier commit's files")
    parser.add_argument("--one", nargs=2, metavar=("WHAT", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.files = [
        n for file in options.files for n in (WRITTEN if file == "written" else [file])
    ]
    if unknown := set(options.files) - {*FILES, *WRITTEN}:
        parser.error(f"no such files: {', '.join(sorted(unknown))}")
    cache = platformdirs.user_cache_dir("sfumato")
    folder = Path(os.environ.get("SFUMATO_BENCH_DIR") or Path(cache) / "benchmarks")
    if options.one:
        print(json.dumps(asdict(measure_here(*options.one, folder))))
        return
    folder.mkdir(parents=True, exist_ok=True)
    prepare(folder, options.large, options.files)
    if options.beside is not None:
        text = beside(folder, options.beside.resolve() / "src", options.repeats)
        (FOLDER / "reading.md").write_text(text)
        return
    ours = ["bare count", "sampling, l = 30", "weights, C = 3"]
    rounds = range(options.repeats)
    plain = [file for file in options.files if file in FILES]
    runs = [(what, file, k) for k in rounds for file in plain for what in ours]
    packed = [file for file in options.files if file in PACKED]
    runs += [(what, file, k) for k in rounds for file in packed for what in ours[::2]]
    runs += [("three margins and the matrix", "week", k) for k in rounds if "week" in plain]
    alone = ["GROUP BY user_id", "user_id decoded by Arrow"]
    tables = [file for file in plain if not file.endswith("lines")]
    runs += [(what, file, 0) for what in alone for file in tables]
    runs += [(what, "large", k) for k in rounds[:3] for what in ours if options.large]
    slow = ["sampling, relational", "weights, relational", "sampling, pandas"]
    runs += [(what, "week", 0) for what in slow if not options.quick]
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = FOLDER / "counting.json"
    figures: list[Figure] = []
    command = " ".join(["python -m benchmarks.counting", *sys.argv[1:]])
    if options.resume and kept.exists():
        figures = [Figure(**each) for each in json.loads(kept.read_text())]
        have = {(figure.what, figure.file, figure.round) for figure in figures}
        runs = [run for run in runs if run not in have]
    for what, file, k in runs:
        figures.append(replace(measure(what, file, folder), round=k))
        # After every figure: a run that is stopped has not been for nothing.
        (FOLDER / "counting.md").write_text(report(figures, command))
        raw = json.dumps([asdict(figure) for figure in figures], indent=1)
        kept.write_text(raw + "\n")
    print(report(figures, command))


if __name__ == "__main__":
    main()
