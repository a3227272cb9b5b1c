"""What `sfumato release --engine spark` costs before it has read much: CPU of all processes.

    python -m benchmarks.spark_start

Each release is a command of its own, with a ledger of its own, on a made city. CPU-seconds are
those of the command and of everything that it started (Java, Spark's Python workers), ended or
orphaned, up to the tenth of a second before the end of each. *Quick start off*: the same command
where `SPARK_CONF_DIR` names an empty folder, which sfumato takes for a Spark that somebody has set
up, and leaves as it is.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import date
from pathlib import Path

from benchmarks._spark_figures import Meter

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "spark_start.md"
CITIES = {"small": 2_000, "0.6 million records": 46_000, "1.9 million records": 140_000}
ENGINES = ("quick start off", "quick start", "one machine")
RUNS = 3
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans of Java come to us and are seen


def sfumato(*arguments: str, **environment: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "sfumato", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | environment,
    )


def cpu_of(folder: Path, city: str, engine: str, number: int, meter: Meter) -> float:
    """CPU-seconds of one release and of all processes below it."""
    data, home = folder / city.replace(" ", "-"), folder / f"{city}-{engine}-{number}"
    home.mkdir()
    ledger = str(home / "ledger.sqlite")
    cap = ("--cap-epsilon", "5", "--cap-delta", "1e-5")
    sfumato("ledger", "init", "--dataset", "city", *cap, "--ledger", ledger)
    where: tuple[str, ...] = ("--engine", "local")
    if engine != "one machine":
        where = ("--engine", "spark", "--master", "local[2]")
    settings = {"SPARK_CONF_DIR": str(home)} if engine == "quick start off" else {}
    before = meter.seconds() - time.process_time()
    sfumato(
        *("release", str(data / "events.parquet"), "--towers", str(data / "towers.csv")),
        *("--zones", str(data / "zones.geojson"), "--out", str(home / "week"), "--ledger", ledger),
        *("--dataset", "city", "--epsilon", "1", "--delta", "1e-6", "--anyway", "--quiet"),
        *("--from", "2007-09-10", "--to", "2007-09-17", "--tz", "Europe/Paris"),
        *("--expected-users", str(CITIES[city]), *where),
        **settings,
    )
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return meter.seconds() - time.process_time() - before


def page(found: dict[str, dict[str, list[float]]]) -> str:
    rows = [
        f"| {city} | "
        + " | ".join(", ".join(f"{cpu:.1f}" for cpu in found[city][e]) for e in ENGINES)
        + " |"
        for city in found
    ]
    return f"""# What a release on Spark costs to start

    python -m benchmarks.spark_start

{date.today()}, {os.cpu_count()} cores ({platform.machine()}), shared with others. CPU-seconds of
`sfumato release --engine spark --master 'local[2]'`, the scheme `bayes`, a made week of 120 towers
and 60 zones (`small`: {CITIES["small"]:,} people, 27,000 records), with Java and all Python
workers. Runs alternate.

| city | Spark, quick start off | Spark, quick start | one machine |
|---|---|---|---|
{chr(10).join(rows)}

Quick start is what sfumato does where it starts Spark on this machine itself for files of at most
4 MiB: Java's first compiler alone and its serial collector, no code made for queries, one
partition for sums. *Off* is the same command in an environment that is set up for Spark. In both,
users of so small files are grouped by one task where there were two.
"""


def main() -> None:
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    meter = Meter(every=0.1)
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for city, users in CITIES.items():
            made = str(Path(scratch) / city.replace(" ", "-"))
            size = ("--towers", "120", "--zones", "60", "--users", str(users))
            sfumato("city", "--out", made, *size, "--quiet")
            found[city] = {engine: [] for engine in ENGINES}
            for number in range(RUNS if city == "small" else 1):
                for engine in ENGINES:
                    cpu = cpu_of(Path(scratch), city, engine, number, meter)
                    found[city][engine].append(cpu)
                    print(f"{city}, {engine}: {cpu:.1f}", file=sys.stderr, flush=True)
            PAGE.write_text(page(found))
            PAGE.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
