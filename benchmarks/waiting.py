"""What people wait for: whole commands in CPU-seconds and bare counts, and how they grow.

    python -m benchmarks waiting                        # about ten CPU-minutes
    python -m benchmarks.waiting --only release plan    # some, the rest as it was
    python -m benchmarks.waiting --page                 # the page again, nothing measured

Each command runs in a process of its own, imports and forecasts included; CPU-seconds are user and
system time. A bare count of the week (27.1 million events, `benchmarks.counting`) is taken before
and after every command, and the mean of the two is what it is divided by. *Before* was
measured at commit 4627417. Cities are made once in SFUMATO_BENCH_DIR or the user's cache folder;
seeds tuned nothing. Writes docs/benchmarks/waiting.md, waiting.json and waiting.png.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import platformdirs
from benchmarks.counting import measure, prepare, touch_memory

from sfumato.city import CityPlan
from sfumato_lab.studies.paris.setup import make_city

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
HOME = Path(os.environ.get("SFUMATO_BENCH_DIR") or platformdirs.user_cache_path("sfumato"))
START = date(2007, 9, 10)
FIRST_SECOND = 1_189_382_400  # of that day in UTC


@dataclass(frozen=True, slots=True)
class City:
    users: int
    zones: int
    towers: int
    days: int = 7
    seed: int = 81

    def made(self) -> Path:
        if self == WEEK:
            prepare(HOME, large=False, files=("week",))
            return HOME / "week"
        folder = HOME / f"waiting-{self.users}-{self.zones}-{self.days}-{self.seed}"
        area = 0.106 * self.zones
        plan = CityPlan(
            users=self.users,
            towers=self.towers,
            zones=self.zones,
            days=self.days,
            seed=self.seed,
            start=START,
            area_km2=area,
        )
        # In a child: a process that was large hands its peak on to those that it starts.
        child = get_context("fork").Process(target=make_city, args=(plan, folder))
        child.start()
        child.join()
        return folder

    @property
    def places(self) -> list[str]:
        return ["--towers", "towers.csv", "--zones", "zones.geojson", "--tz", "Europe/Paris"]

    @property
    def asked(self) -> list[str]:
        period = ["--from", str(START), "--to", str(START + timedelta(self.days))]
        budget = ["--epsilon", "1", "--delta", "1e-7", "--expected-users", str(self.users)]
        return [*self.places, *period, *budget]


WEEK = City(2_000_000, 989, 1303)
TOY, TOWN, LARGE = City(2_000, 40, 50), City(20_000, 100, 130), City(20_000, 5_000, 6_000)
BOOK = ["--dataset", "made up", "--ledger", "books/ledger.sqlite"]


def run(
    folder: Path, *command: str, door: str = "sfumato", compiled: Path | None = None
) -> tuple[float, float]:
    """CPU-seconds and GiB of a command; `compiled` is where compiled code is kept, if elsewhere."""
    line = [sys.executable, "-m", door, *command]
    shell = ["sh", "-c", 'cd "$0" && exec "$@" > said.txt 2>&1', str(folder), *line]
    here = Path(__file__).resolve().parents[1]  # `benchmarks.undrawn` is no installed module
    given = {**os.environ, "PYTHONPATH": f"{here / 'src'}:{here}"}
    given.pop("PYTHONDONTWRITEBYTECODE", None)  # installers compile: nobody's command does it anew
    if compiled is not None:
        given["NUMBA_CACHE_DIR"] = str(compiled)
    touch_memory()
    child = os.posix_spawn("/bin/sh", shell, given)
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"This failed in {folder}: {line}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def opened(folder: Path, *more: str) -> None:
    """A new ledger, and no results of before."""
    for old in ("books", "release"):
        shutil.rmtree(folder / old, ignore_errors=True)
    (folder / "books").mkdir()
    cap = ["ledger", "init", "--cap-epsilon", "9", "--cap-delta", "1e-5", *BOOK, *more]
    quiet = subprocess.DEVNULL
    subprocess.run([sys.executable, "-m", "sfumato", *cap], cwd=folder, check=True, stdout=quiet)


def release(
    city: City, scheme: str = "bayes", door: str = "sfumato", compiled: Path | None = None
) -> tuple[float, float]:
    folder = city.made()
    opened(folder)
    given = [*city.asked, *BOOK, "--scheme", scheme, "--anyway", "--out", "release"]
    return run(folder, "release", "events.parquet", *given, door=door, compiled=compiled)


def cold(warmed: bool) -> tuple[float, float]:
    """The first release after an install, with or without `doctor --warm` before it."""
    with tempfile.TemporaryDirectory() as empty:
        if warmed:
            run(TOY.made(), "doctor", "--warm", "--quiet", compiled=Path(empty))
        return release(TOY, compiled=Path(empty))


def fixes() -> tuple[float, float]:
    """A week of 10,000 taxis with a fix every 400 seconds or so, streamed live over a grid."""
    folder = HOME / "fixes"
    if not (folder / "fixes.parquet").exists():
        folder.mkdir(parents=True, exist_ok=True)
        turn = "user_id * 0.7 + second / 20000.0"
        home = "2.2 + (user_id % 97) / 500.0, 48.8 + (user_id % 89) / 700.0"
        lon, lat = home.split(", ")
        rows = f"""SELECT user_id, to_timestamp({FIRST_SECOND} + second) AS timestamp,
            {lon} + 0.05 * sin({turn}) AS lon, {lat} + 0.03 * cos({turn}) AS lat
            FROM (SELECT user_id, (fix * 403 + user_id * 131) % 604800 AS second
            FROM range(10000) AS taxis(user_id), range(1500) AS fixes(fix))"""
        duckdb.sql(f"COPY ({rows}) TO '{folder / 'fixes.parquet'}'")
    opened(folder, "--unit", "user-day")
    where = ["--grid", "1km", "--region", "2.15,48.77,2.45,48.96", "--tz", "UTC"]
    when = ["--from", str(START), "--to", str(START + timedelta(7)), "--slot", "30min"]
    budget = ["--epsilon", "1", "--expected-users", "10000", "--unit", "user-day", *BOOK]
    given = [*where, *when, *budget, "--scheme", "comb", "--out", "release"]
    return run(folder, "stream", "fixes.parquet", *given)


def plan(city: City) -> tuple[float, float]:
    return run(city.made(), "plan", *city.asked)


def after_release(city: City, *command: str) -> tuple[float, float]:
    folder = city.made()
    if not (folder / "release").exists():
        release(city)
    shutil.rmtree(folder / "internal", ignore_errors=True)
    given = ["--events", "events.parquet", *city.places, "--out", "internal"]
    return run(folder, *command, "release", *given)


Case = tuple[str, Callable[[], tuple[float, float]], str, str]
UNDRAWN = "benchmarks.undrawn"
COMMANDS: dict[str, Case] = {
    "release": ("`release`, `bayes`, the week", lambda: release(WEEK), "", ""),
    "undrawn": (
        "the same without forecast and draws",
        lambda: release(WEEK, door=UNDRAWN),
        "15.6 ×",
        "9 ×",
    ),
    "paris": ("`release`, `paris`, the week", lambda: release(WEEK, "paris"), "", ""),
    "paris-undrawn": (
        "the same without forecast",
        lambda: release(WEEK, "paris", UNDRAWN),
        "11.8 ×",
        "6 ×",
    ),
    "plan": (
        "`plan`, 1,000 zones × 1,400 towers",
        lambda: plan(City(200_000, 1_000, 1_400)),
        "18–65 s",
        "5 s",
    ),
    "evaluate": (
        "`evaluate`, 5,000 zones",
        lambda: after_release(LARGE, "evaluate"),
        "not ended in 225 s",
        "60 s",
    ),
    "toy": (
        "`attack`, 2,000 people, 40 zones",
        lambda: after_release(TOY, "attack"),
        "205 s, unfinished",
        "20 s",
    ),
    "town": (
        "`attack`, 20,000 people, 100 zones",
        lambda: after_release(TOWN, "attack"),
        "",
        "120 s",
    ),
    "fixes": ("`stream`, 15 million fixes, live scheme", fixes, "13 s", "16 s"),
    "warm": ("`release`, 2,000 people, 40 zones", lambda: release(TOY), "3.7 s", ""),
    "cold": ("the same, nothing compiled yet", lambda: cold(False), "15.3 s", ""),
    "warmed": ("the same after `doctor --warm`", lambda: cold(True), "", ""),
}
WEEKS = ("undrawn", "paris-undrawn")
PAIRED = 5
"""Runs of a release that a figure is asked of, each between two bare counts; medians are shown."""
GROWTH: dict[str, dict[int, City]] = {
    "records": {13_500 * k: City(1_000 * k, 100, 130, seed=82) for k in (20, 60, 200)},
    "zones": {
        zones: City(20_001, zones, round(1.3 * zones), seed=83) for zones in (100, 300, 1_000)
    },
    "hours": {24 * days: City(20_000, 100, 130, days, seed=84) for days in (2, 7, 28)},
}


def bare() -> float:
    return measure("bare count", "week", HOME).cpu_seconds


def page(known: dict[str, Any]) -> str:
    lines = [
        "# What people wait for",
        "",
        "    python -m benchmarks waiting",
        "",
        f"{known['machine']}. Whole commands, imports and forecasts included, in CPU-seconds and "
        "in bare counts of the week (27.1 million events) taken right before and after. With a "
        f"range: medians of {PAIRED} such runs. *Before*: commit 4627417, "
        "which had neither forecasts nor drawn intervals, so what is asked is of a release without "
        "the forecast and with 2 pairs of draws for 32 (`benchmarks/undrawn.py`).",
        "",
        "| command | CPU-seconds | bare counts | before | asked | GiB |",
        "|---|---|---|---|---|---|",
    ]
    for name, (what, _, before, asked) in COMMANDS.items():
        if name in known["commands"]:
            runs = np.atleast_2d(known["commands"][name])
            times = runs[:, 0] / runs[:, 2]
            spread = f" ({times.min():.1f}–{times.max():.1f})" if times.size > 1 else ""
            lines.append(
                f"| {what} | {np.median(runs[:, 0]):.1f} | {np.median(times):.1f}{spread} | "
                f"{before} | {asked} | {runs[:, 1].max():.2f} |"
            )
    lines += [
        "",
        "How a `bayes` release grows: each point is one release, the others of its panel apart "
        "from one number the same (20,000 people, 100 zones, a week of hours).",
        "",
        "![CPU-seconds against records, zones and hours](waiting.png)",
        "",
        "| grows | " + " | ".join(["at", "CPU-seconds", "GiB"]) + " |",
        "|---|---|---|---|",
    ]
    for axis, points in known["growth"].items():
        for at, (cpu, gib) in points.items():
            lines.append(f"| {axis} | {int(at):,} | {cpu:.1f} | {gib:.2f} |")
    return "\n".join([*lines, "", _slopes(known["growth"]), ""])


def _slopes(growth: dict[str, dict[str, list[float]]]) -> str:
    said = []
    for axis, points in growth.items():
        if len(points) > 1:
            (low, (first, _)), *_, (high, (last, _)) = points.items()
            slope = (last - first) / (int(high) - int(low))
            each = {"records": 1_000_000, "zones": 100, "hours": 100}[axis]
            said.append(f"{slope * each:.2f} for {each:,} more {axis}")
    return f"CPU-seconds from the first point to the last: {'; '.join(said)}."


def draw(growth: dict[str, dict[str, list[float]]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3), layout="constrained")
    for k, (axis, points) in enumerate(growth.items()):
        at = [int(one) for one in points]
        panel = figure.add_subplot(1, 3, k + 1)
        panel.plot(at, [cpu for cpu, _ in points.values()], "o-", color="#1f5a8a")
        panel.set(xlabel=axis, xlim=(0, None), ylim=(0, None))
        if k == 0:
            panel.set_ylabel("CPU-seconds of a release")
    figure.savefig(path, dpi=120, metadata={"Software": ""})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=(*COMMANDS, *GROWTH))
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    path = FOLDER / "waiting.json"
    known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    known = {"commands": {}, "growth": {}} | known
    wanted = [] if asked.page else asked.only or [*COMMANDS, *GROWTH]
    if wanted:
        known["machine"] = f"{date.today()}, {platform.machine()}, two cores"
    for name in wanted:
        if name in COMMANDS:
            runs = []
            for _ in range(
                PAIRED if name in ("release", "undrawn", "paris", "paris-undrawn") else 1
            ):
                first = bare()
                found = COMMANDS[name][1]()
                runs.append([*found, (first + bare()) / 2])
            known["commands"][name] = runs
        else:
            known["growth"][name] = {str(at): release(city) for at, city in GROWTH[name].items()}
        path.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
        print(name, json.dumps(known["commands"].get(name, known["growth"].get(name))), flush=True)
    (FOLDER / "waiting.md").write_text(page(known), "utf-8")
    draw(known["growth"], FOLDER / "waiting.png")


if __name__ == "__main__":
    main()
