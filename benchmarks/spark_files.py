"""What Spark costs where records are text files as a fleet leaves them: one for each taxi.

    python -m benchmarks.spark_files                # 10,325 files of 400 records
    python -m benchmarks.spark_files --records 100

Made taxis in the format of T-Drive (`<number>.txt`, no header). `sfumato release` of a week of
hours over a grid, on one machine and then on Spark `local[2]`, each a command of its own with a
ledger of its own, after one that compiles what is not yet. CPU-seconds are those of the command
and of all that it started, elapsed time depends on who else uses the machine. Writes
docs/benchmarks/spark_files.md.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import tempfile
import time
from contextlib import suppress
from datetime import date
from pathlib import Path

import numpy as np
from benchmarks._spark_figures import Meter
from benchmarks.spark_start import _SUBREAPER, sfumato

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "spark_files.md"
FILES, WEEK = 10_325, 7 * 86_400
START = np.datetime64("2008-02-04T00:00:00")
ENGINES = {"one machine": ("local",), "Spark": ("spark", "--master", "local[2]")}


def write(folder: Path, records: int) -> None:
    """Every taxi about a place of its own, at any second of the week."""
    draws = np.random.default_rng(36)
    folder.mkdir()
    for taxi in range(1, FILES + 1):
        times = np.datetime_as_string(START + np.sort(draws.integers(0, WEEK, records)))
        lon, lat = (
            centre + draws.normal(0, 0.05) + draws.normal(0, 0.02, records)
            for centre in (116.4, 39.92)
        )
        fixes = zip(times.tolist(), lon.tolist(), lat.tolist(), strict=True)
        lines = (f"{taxi},{t.replace('T', ' ')},{x:.5f},{y:.5f}\n" for t, x, y in fixes)
        (folder / f"{taxi}.txt").write_text("".join(lines))


def release(home: Path, taxis: Path, engine: tuple[str, ...], meter: Meter) -> tuple[float, float]:
    """CPU-seconds of the command and of all processes below it, and elapsed ones."""
    home.mkdir()
    book = ("--dataset", "taxis", "--ledger", str(home / "ledger.sqlite"))
    sfumato("ledger", "init", "--cap-epsilon", "5", "--cap-delta", "1e-5", *book)
    cpu, begin = meter.seconds() - time.process_time(), time.perf_counter()
    sfumato(
        *("release", str(taxis), "--out", str(home / "week"), *book, "--quiet", "--anyway"),
        *("--grid", "2km", "--region", "116.2,39.8,116.6,40.05", "--tz", "Asia/Shanghai"),
        *("--from", "2008-02-04", "--to", "2008-02-11", "--expected-users", str(FILES)),
        *("--epsilon", "1", "--delta", "1e-6", "--engine", *engine),
    )
    elapsed = time.perf_counter() - begin
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return meter.seconds() - time.process_time() - cpu, elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=400, help="in each file")
    records = parser.parse_args().records
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    meter, rows = Meter(every=0.1), []
    spent: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        write(Path(scratch) / "taxis", records)
        release(Path(scratch) / "compiled", Path(scratch) / "taxis", ENGINES["one machine"], meter)
        for name, engine in ENGINES.items():
            spent.append(release(Path(scratch) / name, Path(scratch) / "taxis", engine, meter))
            cpu, elapsed = spent[-1]
            rows.append(f"| {name} | {cpu:.0f} | {elapsed:.0f} | {os.getloadavg()[1]:.0f} |")
            print(rows[-1], flush=True)
    cpu, elapsed = (there / here for here, there in zip(*spent, strict=True))
    PAGE.write_text(f"""# A release on Spark from ten thousand text files

    python -m benchmarks.spark_files --records {records}

{date.today()}, {os.cpu_count()} cores ({platform.machine()}), shared with others.
`sfumato release` of {FILES:,} made taxis in the format of T-Drive, a text file of {records} records
for each, {FILES * records:,} in all: a week of hours over a grid of 2 km, the default scheme. One
run of each, one after the other, when all was compiled.

| engine | CPU-seconds | elapsed (s) | processes that wanted a core, last five minutes |
|---|---|---|---|
{chr(10).join(rows)}

Spark takes **{elapsed:.1f}** times as long as one machine (asked of it: at most 3), and
{cpu:.1f} times the CPU time.
""")


if __name__ == "__main__":
    main()
