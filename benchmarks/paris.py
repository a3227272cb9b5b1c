"""The Paris release: what it costs and whether it beats the printed calibration at full size.

    python -m benchmarks.paris                       # everything, about five CPU-minutes
    python -m benchmarks.paris --parts after,emd     # some of after, emd, release, quality

* `after`: CPU time of everything after the counts (cover, clusters, noise, shapes, smoothing,
  mapping to zones, writing) for 1,303 towers, 989 zones and 168 hours; best of three.
* `emd`: all 168 exact earth mover's distances of a release, and of the Laplace baseline.
* `release`: the whole command on a week of 27 million records, in a process of its own, beside a
  bare count of the same file (the best of three). Memory is the process's peak resident set.
* `quality`: mean relative error and correlation of `paris` and of the printed calibration on a city
  of two million people on which nothing was tuned (seed 7).

Files are made once in SFUMATO_BENCH_DIR or the user's cache folder. Writes docs/benchmarks/paris.md
and paris.json; parts that were not asked for keep their figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import platformdirs
import pyarrow as pa

from sfumato.city import CityPlan, build_city, generate_events
from sfumato.density.paris import Paris
from sfumato.density.registry import scheme_named
from sfumato.density.scheme import PublicFacts
from sfumato.density.tables import density_table
from sfumato.engine.local import LocalSource
from sfumato.geography.overlay import layout_of_cells, layout_of_zones, overlay
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.events import read_events
from sfumato.io.write import write_csv, write_parquet
from sfumato.model.source import RememberingSource
from sfumato.privacy.wall import Wall
from sfumato.published.tables import with_local_times
from sfumato.utility.density import mean_relative_error, pearson
from sfumato.utility.earth_mover import earth_mover_series
from sfumato_lab.as_printed.paris import PublishedParis
from sfumato_lab.studies.paris.setup import Stage, make_city, open_city

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
PARTS = ("after", "emd", "release", "quality")
SETTINGS: dict[str, dict[str, str]] = {
    "towers (default)": {},
    "zones": {"space": "zones"},
    "cover": {"space": "cover"},
    "one k chosen": {"keep": "exponential"},
    "a k for each cluster": {"keep": "exponential", "cut": "each"},
    "pure ε": {"noise": "laplace"},
}
LIMITS = {"paris": 40, "bayes": 90}
SEED, DRAWS, EPSILONS = 7, 3, (0.1, 0.3, 0.5, 1.0)
Row = dict[str, float | str]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--parts", default=",".join(PARTS))
    wanted = options.parse_args().parts.split(",")
    file = FOLDER / "paris.json"
    found: dict[str, list[Row]] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    found = {part: found[part] for part in PARTS if part in found}
    makers = {"after": after, "emd": emd, "release": release, "quality": quality}
    for part in PARTS:
        if part in wanted:
            found[part] = makers[part]()
            print(part, found[part], flush=True)
            file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
            (FOLDER / "paris.md").write_text(as_markdown(found), encoding="utf-8")


def files() -> Path:
    return Path(os.environ.get("SFUMATO_BENCH_DIR", platformdirs.user_cache_dir("sfumato")))


def after() -> list[Row]:
    """Each working space and option, on the counts of a smaller population on the same map."""
    source, facts = counted_city()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, chosen in SETTINGS.items():
            asked = replace(facts, parameters=dict(chosen))

            def work(asked: PublicFacts = asked) -> None:
                density = scheme_named("paris").run(source, Wall.seeded(1), asked)
                table = density_table(density, asked.grid)
                write_parquet(Path(scratch) / "density.parquet", table)
                write_csv(Path(scratch) / "density.csv", with_local_times(table, asked.grid))

            work()  # counts once, and compiles
            rows.append({"what": name, "cpu": best(work, 3)})
    return rows


def counted_city() -> tuple[RememberingSource, PublicFacts]:
    plan = CityPlan(users=100_000)
    city = build_city(plan)
    cells = voronoi_cells(city.towers, city.zones, period=plan.grid)
    events = read_events(pa.Table.from_batches(list(generate_events(city))))
    source = RememberingSource(LocalSource(events, city.towers, plan.grid))
    layouts = {"layout": layout_of_cells(cells), "zone_layout": layout_of_zones(city.zones)}
    shares = overlay(cells, city.zones)
    return source, PublicFacts(city.towers.ids, plan.grid, 0.3, 2e-6, overlay=shares, **layouts)


def emd() -> list[Row]:
    """168 exact distances between the true maps and those of a release and a baseline."""
    stage = full_city()
    facts = stage.facts(0.3, 2e-6)
    rows: list[Row] = []
    for name in ("paris", "laplace"):
        density = scheme_named(name).run(stage.source, Wall.seeded(1), facts)
        table = np.asarray(density.values, dtype=np.float64)

        def work(table: np.ndarray = table) -> None:
            earth_mover_series(stage.truth, table, stage.metres)

        rows.append({"what": f"truth against {name}", "cpu": best(work, 1)})
    return rows


@cache
def full_city() -> Stage:
    folder = files() / f"city-2000000-{SEED}"
    make_city(CityPlan(users=2_000_000, seed=SEED), folder)
    return open_city(folder, SEED)


def release() -> list[Row]:
    """The command itself, beside a bare count."""
    week = files() / "week"
    make_city(CityPlan(users=2_000_000), week)
    events = week / "events.parquet"
    hour = "epoch_us(timestamp) // 3600000000"
    sql = f"SELECT tower, {hour} AS hour, count(*) FROM '{events}' GROUP BY ALL"
    count = [sys.executable, "-c", f"import duckdb; duckdb.connect().execute({sql!r}).fetchnumpy()"]
    empty = [sys.executable, "-c", "import duckdb; duckdb.connect()"]
    start = child(empty)["cpu"]
    bare = min((child(count) for _ in range(3)), key=lambda row: float(row["cpu"]))
    base = float(bare["cpu"]) - float(start)
    rows: list[Row] = [{"what": "bare count", "cpu": base, "times": 1.0, "gib": bare["gib"]}]
    for name in LIMITS:
        spent = child(command(name, week), True)
        times = float(spent["cpu"]) / base
        rows.append({"what": f"release --scheme {name}", **spent, "times": times})
    return rows


def command(scheme: str, week: Path) -> list[str]:
    """`sfumato release` of the week; OUT stands for a new folder."""
    places = ["--towers", str(week / "towers.csv"), "--zones", str(week / "zones.geojson")]
    period = ["--from", "2007-09-10", "--to", "2007-09-17", "--tz", "Europe/Paris"]
    asked = ["--epsilon", "0.3", "--delta", "2e-7", "--expected-users", "2000000"]
    started = [
        str(Path(sys.executable).with_name("sfumato")),
        "release",
        str(week / "events.parquet"),
    ]
    where = ["--dataset", "benchmark", "--ledger", "OUT/ledger.db", "--out", "OUT/release"]
    return [*started, *places, *period, *asked, *where, "--scheme", scheme, "--quiet"]


def child(arguments: list[str], scratch: bool = False) -> Row:
    """CPU seconds and peak memory of a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        if scratch:
            arguments = [part.replace("OUT", folder) for part in arguments]
            ledger = ["ledger", "init", "--dataset", "benchmark", "--cap-rho", "1"]
            subprocess.run(
                [arguments[0], *ledger, "--ledger", f"{folder}/ledger.db"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        process = subprocess.Popen(arguments)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
    if status:
        raise SystemExit(f"{arguments} failed")
    return {"cpu": used.ru_utime + used.ru_stime, "gib": used.ru_maxrss / 2**20}


def quality() -> list[Row]:
    """Both at every epsilon, on a city of two million people."""
    stage, rows = full_city(), []
    for epsilon in EPSILONS:
        facts, printed = stage.facts(epsilon, 2e-6), PublishedParis(epsilon)
        ours = [Paris().run(stage.source, Wall.seeded(draw), facts) for draw in range(DRAWS)]
        theirs = [
            printed.run(stage.opened(30, draw), stage.ground, np.random.default_rng(draw))
            for draw in range(DRAWS)
        ]
        row: Row = {"epsilon": epsilon}
        for name, tables in (("paris", [one.values for one in ours]), ("printed", theirs)):
            row[f"{name} mre"] = mean(mean_relative_error(stage.truth, t).mean() for t in tables)
            row[f"{name} pearson"] = mean(pearson(stage.truth, t).mean() for t in tables)
        rows.append(row)
    return rows


def mean(values: object) -> float:
    return float(np.mean(list(values)))  # type: ignore[call-overload]


def best(work: Callable[[], None], times: int) -> float:
    taken = []
    for _ in range(times):
        before = time.process_time()
        work()
        taken.append(time.process_time() - before)
    return min(taken)


def as_markdown(found: dict[str, list[Row]]) -> str:
    parts = [
        "# The Paris release",
        f"Made by `python -m benchmarks.paris` ({platform.machine()}, Python "
        f"{platform.python_version()}, {os.cpu_count()} cores). CPU-seconds are user and system "
        "time.",
    ]
    if "after" in found:
        rows = [[row["what"], f"{row['cpu']:.2f}"] for row in found["after"]]
        parts += [
            "**After the counts**: 1,303 towers, 989 zones, 168 hours, writing included; at most "
            "15 are allowed.",
            table(["working space or option of `paris`", "CPU-seconds"], rows),
        ]
    if "emd" in found:
        rows = [[row["what"], f"{row['cpu']:.2f}"] for row in found["emd"]]
        parts += [
            "**168 exact earth mover's distances** on 989 zones; at most 8 are allowed.",
            table(["maps", "CPU-seconds"], rows),
        ]
    if "release" in found:
        rows = [
            [
                row["what"],
                f"{row['cpu']:.1f}",
                f"{row['times']:.1f}",
                str(LIMITS.get(str(row["what"]).split()[-1], "")),
                f"{row['gib']:.2f}",
            ]
            for row in found["release"]
        ]
        head = ["what", "CPU-seconds", "times the bare count", "allowed", "peak memory (GiB)"]
        parts += [
            "**The whole command** on 27.1 million records of two million people, start of Python "
            "and ledger included; under 3 GiB is asked for.",
            table(head, rows),
        ]
    if "quality" in found:
        names = ("paris mre", "printed mre", "paris pearson", "printed pearson")
        rows = [
            [f"{row['epsilon']:g}", *(f"{row[name]:.3f}" for name in names)]
            for row in found["quality"]
        ]
        head = [
            "ε",
            "MRE, `paris`",
            "as printed",
            "Pearson, `paris`",
            "as printed",
        ]
        parts += [
            "**Against the printed calibration**: a synthetic Paris of two million people (seed "
            f"{SEED}, on which nothing was tuned), mean of {DRAWS} draws.",
            table(head, rows),
        ]
    return "\n\n".join(parts) + "\n"


def table(head: list[str], rows: list[list[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    main()
