"""A year of hours: CPU-seconds and memory of a whole `bayes` release, and what it is worth.

    python -m benchmarks year                              # about 15 CPU-minutes
    python -m benchmarks.year --case year-100              # one case only
    python -m benchmarks.year --keep-as before             # figures of an earlier version

Made-up cities whose seeds tuned nothing. CPU-seconds (user and system) and peak memory are of the
whole command `sfumato release`, forecast and imports included, in a process of its own. Error and
coverage are of what it published: of eight weeks at two budgets, and of the year. Keys differ from
run to run, so errors carry the chance of their noise; eight weeks are released three times.
`--keep-as before` is how the earlier figures came about: this very file run at commit 300c5ff.
Cities are made once in SFUMATO_BENCH_DIR or `out`. Writes docs/benchmarks/year.md and year.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from sfumato.city import CityPlan
from sfumato.utility import density
from sfumato_lab.studies.paris.setup import make_city, open_city

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "benchmarks"
OUT = Path(os.environ.get("SFUMATO_BENCH_DIR", ROOT / "out")) / "year"
BEFORE, NOW = "before", "now"


@dataclass(frozen=True, slots=True)
class Case:
    """A city, a period and a budget."""

    zones: int
    days: int
    users: int
    epsilon: float
    seed: int
    times: int = 1

    @property
    def plan(self) -> CityPlan:
        return CityPlan(
            users=self.users,
            towers=round(1.32 * self.zones),
            zones=self.zones,
            seed=self.seed,
            start=date(2007, 1, 1),
            days=self.days,
            area_km2=0.106 * self.zones,
        )


CASES = {
    "eight-weeks-1": Case(100, 56, 50_000, 1.0, 71, times=3),
    "eight-weeks-4": Case(100, 56, 50_000, 4.0, 71, times=3),
    "year-100": Case(100, 365, 6_000, 1.0, 72),
    "year-100-4": Case(100, 365, 6_000, 4.0, 72),
    "year-989": Case(989, 365, 10_000, 1.0, 73),
}


def released(case: Case, folder: Path) -> dict[str, float]:
    """One release of the city in `folder`: what it took, and how far it is off."""
    out, book = folder / "release", folder / "ledger"
    for old in (out, book):
        shutil.rmtree(old, ignore_errors=True)
    book.mkdir()
    whose = ["--dataset", "made up", "--ledger", str(book / "ledger.sqlite")]
    cap = ["ledger", "init", "--cap-epsilon", "9", "--cap-delta", "1e-5", *whose]
    subprocess.run([sys.executable, "-m", "sfumato", *cap], check=True, capture_output=True)
    command = [sys.executable, "-m", "sfumato", "release", "events.parquet"]
    command += ["--towers", "towers.csv", "--zones", "zones.geojson", "--tz", "Europe/Paris"]
    command += ["--from", "2007-01-01", "--to", str(date(2007, 1, 1) + timedelta(case.days))]
    command += [*whose, "--expected-users", str(case.users), "--delta", "1e-6"]
    command += ["--epsilon", str(case.epsilon), "--out", "release", "--anyway", "--quiet"]
    child = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", 'cd "$0" && exec "$@"', str(folder), *command],
        os.environ,
    )
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"The release failed: {command}")
    stage = open_city(folder)
    table = pq.read_table(out / "density.parquet", columns=["count", "lower", "upper"])
    values, low, high = (c.to_numpy().reshape(stage.truth.shape) for c in table.columns)
    return {
        "cpu": used.ru_utime + used.ru_stime,
        "gib": used.ru_maxrss / 2**20,
        "mre": float(density.mean_relative_error(stage.truth, values).mean()),
        "held": float(((stage.truth >= low) & (stage.truth <= high)).mean()),
        "width": float((high - low).mean() / max(float(stage.truth.mean()), 1e-9)),
    }


def page(known: dict[str, Any]) -> str:
    """Both versions beside each other."""
    lines = [
        "# A year of hours",
        "",
        "Made by `python -m benchmarks year`; the columns *before* by the same file at commit "
        f"300c5ff. {known['machine']}. CPU-seconds and peak memory of the whole command `sfumato "
        "release` (`bayes`), forecast and imports included.",
        "",
        "| city | people | slots | ε | CPU s | GiB | mean relative error | 90 % intervals hold | "
        "their width over the mean count |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, case in CASES.items():
        now, before = known[NOW].get(name), known[BEFORE].get(name)
        if now is None:
            continue
        cells = [
            f"{case.zones} zones, {case.days} days",
            f"{case.users:,}",
            f"{24 * case.days:,}",
            f"{case.epsilon:g}",
        ]
        for key, form in (
            ("cpu", ".1f"),
            ("gib", ".2f"),
            ("mre", ".4f"),
            ("held", ".1%"),
            ("width", ".3f"),
        ):
            first = "" if before is None else f"{before[key]:{form}} → "
            cells.append(f"{first}{now[key]:{form}}")
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Asked of it: half of 63 CPU-seconds and 1 GiB in 100 zones; half of 123 and 1 GiB, if it "
        "can be, in 989. What was done, and what the rest of the memory is: "
        "[decision](../decisions/year.md).",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", action="append", choices=tuple(CASES))
    parser.add_argument("--keep-as", default=NOW, choices=(NOW, BEFORE))
    asked = parser.parse_args()
    path = FOLDER / "year.json"
    known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    known = {NOW: {}, BEFORE: {}} | known | {"machine": f"{platform.machine()}, two shared cores"}
    for name in asked.case or CASES:
        case = CASES[name]
        folder = (OUT / f"{case.zones}-{case.days}-{case.seed}").resolve()
        make_city(case.plan, folder)
        each = [released(case, folder) for _ in range(case.times)]
        found = {key: float(np.mean([one[key] for one in each])) for key in each[0]}
        known[asked.keep_as][name] = found
        print(name, json.dumps(found), flush=True)
        path.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    (FOLDER / "year.md").write_text(page(known), "utf-8")


if __name__ == "__main__":
    main()
