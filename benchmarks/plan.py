"""What `sfumato plan` forecasts, beside what a release of the city then measures.

    python -m benchmarks.plan                       # 200,000 people and fewer, minutes
    python -m benchmarks.plan --cities 2000000x1303x989x7

The forecaster was set on seeds 1 and 101 to 104; the cities here are others. A city is
users x towers x zones x seed. Forecasts and measurements are means of several noise draws. Rows
are added to docs/benchmarks/plan.json; the table is written anew from all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from threadpoolctl import threadpool_limits

from sfumato.city import CityPlan
from sfumato.density.registry import SCHEMES
from sfumato.density.rehearsal import Rehearsal
from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.model.counts import SampleBound
from sfumato.model.source import RememberingSource
from sfumato.privacy.wall import Wall
from sfumato.utility.density import relative_error
from sfumato_lab.studies.paris.setup import Stage, make_city, open_city

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
CITIES = ("200000x1303x989x201", "60000x200x150x202", "300000x130x100x203", "20000x60x45x204")
EPSILONS = (0.1, 0.3, 1.0)
SCHEMES_RUN = ("bayes", "paris", "gaussian", "laplace")
DELTA = 2e-6
LIMIT = 0.25


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--cities", nargs="*", default=list(CITIES))
    asked = options.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    kept = FOLDER / "plan.json"
    if kept.is_file():
        rows = {key(row): row for row in json.loads(kept.read_text("utf-8"))}
    for city in asked.cities:
        users, towers, zones, seed = (int(part) for part in city.split("x"))
        plan = CityPlan(
            users=users, towers=towers, zones=zones, seed=seed, area_km2=zones * 105 / 989
        )
        cache = Path(os.environ.get("SFUMATO_BENCH_DIR", platformdirs.user_cache_dir("sfumato")))
        known = cache / f"city-{users}-{seed}"  # as the other benchmarks leave it
        with tempfile.TemporaryDirectory() as fresh:
            folder = known if known.is_dir() else Path(fresh) / "city"
            make_city(plan, folder)
            for row in compare(open_city(folder), seed):
                rows[key(row)] = row
        FOLDER.mkdir(exist_ok=True)
        ordered = sorted(
            rows.values(), key=lambda r: (-r["users"], r["seed"], r["scheme"], r["epsilon"])
        )
        kept.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
        write(ordered)


def key(row: dict[str, Any]) -> str:
    return f"{row['users']}/{row['seed']}/{row['scheme']}/{row['epsilon']}"


def compare(stage: Stage, seed: int) -> list[dict[str, Any]]:
    """Every scheme at every epsilon: forecast from public facts alone, then measured."""
    found: list[dict[str, Any]] = []
    facts = stage.facts(EPSILONS[0], DELTA)
    users = facts.expected_users
    assert users is not None
    start = time.process_time()
    rehearsal = Rehearsal(
        facts,
        users,
        len(stage.zones),
        lambda *a: RememberingSource(LocalSource(*a)),
        relative_error,
    )
    print(f"rehearsal stage: {time.process_time() - start:.1f} CPU s", flush=True)
    for name in SCHEMES_RUN:
        for epsilon in EPSILONS:
            at = replace(facts, epsilon=epsilon)
            bound = SampleBound(30) if name == "laplace" else facts.bound
            start = time.process_time()
            with threadpool_limits(1):
                said = rehearsal.run(SCHEMES[name], epsilon=epsilon, bound=bound)
                cpu = time.process_time() - start
                times = 2 if stage.truth.size > 50_000 else 8
                measured = np.mean(
                    [error(stage, name, replace(at, bound=bound), draw) for draw in range(times)]
                )
            found.append(
                {
                    "users": stage.users,
                    "towers": len(stage.towers),
                    "zones": len(stage.zones),
                    "seed": seed,
                    "scheme": name,
                    "epsilon": epsilon,
                    "forecast": round(said.mean_relative_error, 4),
                    "measured": round(float(measured), 4),
                    "cpu": round(cpu, 1),
                }
            )
            print(found[-1], flush=True)
    return found


def error(stage: Stage, name: str, facts: PublicFacts, draw: int) -> float:
    """Mean relative error of one release, as `evaluate` has it."""
    density = SCHEMES[name].run(stage.source, Wall.seeded(9_000 + draw), facts)
    return float(relative_error(stage.truth, np.asarray(density.values, np.float64)).mean())


def write(rows: list[dict[str, Any]]) -> None:
    lines = [
        "# Forecasts of `sfumato plan`",
        "",
        "Made by `python -m benchmarks.plan`: mean relative error as forecast from public facts / "
        "as measured, on cities that had no part in setting the forecaster; means of 8 noise "
        "draws (2 from 300 zones on); laplace with sample:30, the others with their defaults.",
        "",
        "| people | towers | zones | seed | scheme | "
        + " | ".join(f"ε = {epsilon}" for epsilon in EPSILONS)
        + " | furthest off |",
        "|---|---|---|---|---|" + "---|" * (len(EPSILONS) + 1),
    ]
    groups: dict[tuple[Any, ...], dict[float, dict[str, Any]]] = {}
    for row in rows:
        group = (row["users"], row["towers"], row["zones"], row["seed"], row["scheme"])
        groups.setdefault(group, {})[row["epsilon"]] = row
    for group, by in groups.items():
        cells = [f"{by[e]['forecast']:.3f} / {by[e]['measured']:.3f}" for e in EPSILONS]
        off = max((by[e]["forecast"] / by[e]["measured"] - 1 for e in EPSILONS), key=abs)
        mark = "" if abs(off) <= LIMIT else " **"
        lines.append(f"| {group[0]:,} | " + " | ".join(map(str, group[1:])) + " | ")
        lines[-1] += " | ".join(cells) + f" | {off:+.0%}{mark} |"
    beyond = sum(abs(row["forecast"] / row["measured"] - 1) > LIMIT for row in rows)
    lines += ["", f"{len(rows) - beyond} of {len(rows)} forecasts within 25 %."]
    (FOLDER / "plan.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
