"""`bayes` against the printed and the corrected Paris release, on a city it was not tuned on.

    python -m benchmarks.bayes                  # 2 million people, about five CPU-minutes
    python -m benchmarks.bayes --users 200000

The defaults of `bayes` were settled on the city of seed 1; this takes seed 5. All schemes run
on the same records in the same run, so the ratios mean something. EMD is taken at every seventh
hour, which meets each hour of the day once. Writes docs/benchmarks/bayes-USERS.md and .json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import platformdirs
from threadpoolctl import threadpool_limits

from sfumato.city import CityPlan
from sfumato.density.bayes import Bayes
from sfumato.density.paris import Paris
from sfumato.density.published.paris import PublishedParis
from sfumato.density.scheme import Density
from sfumato.privacy.wall import Wall
from sfumato.reproduction.paris.stage import Stage, make_city, open_city
from sfumato.utility.earth_mover import earth_mover_series
from sfumato.utility.evaluation import interval_coverage
from sfumato.utility.metrics import mean_relative_error, pearson

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
EPSILONS = (0.1, 0.3, 1.0)
SEED = 5
Scores = dict[str, float]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--users", type=int, default=2_000_000)
    options.add_argument("--draws", type=int, default=5)
    asked = options.parse_args()
    cache = Path(os.environ.get("SFUMATO_BENCH_DIR", platformdirs.user_cache_dir("sfumato")))
    folder = cache / f"city-{asked.users}-{SEED}"
    make_city(CityPlan(users=asked.users, seed=SEED), folder)
    stage = open_city(folder)
    rows = [row for epsilon in EPSILONS for row in compare(stage, epsilon, asked.draws)]
    write(rows, asked.users, asked.draws)


def compare(stage: Stage, epsilon: float, draws: int) -> list[dict[str, object]]:
    """The three schemes at one epsilon, each over several noise draws."""
    facts, printed, opened = stage.facts(epsilon, 2e-6), PublishedParis(epsilon), stage.opened(30)
    schemes: dict[str, Callable[[int], np.ndarray | Density]] = {
        "paris as printed": lambda s: printed.run(opened, stage.ground, np.random.default_rng(s)),
        "paris": lambda s: Paris().run(stage.source, Wall.seeded(s), facts),
        "bayes": lambda s: Bayes().run(stage.source, Wall.seeded(s), facts),
    }
    found = []
    for name, run in schemes.items():
        scores, spent = [], 0.0
        for seed in range(1, draws + 1):
            start = time.process_time()
            with threadpool_limits(1):
                result = run(seed)
            spent += time.process_time() - start
            scores.append(judge(stage, result))
        mean = {key: float(np.mean([one[key] for one in scores])) for key in scores[0]}
        found.append({"epsilon": epsilon, "scheme": name, **mean, "cpu": spent / draws})
        print(found[-1], flush=True)
    return found


def judge(stage: Stage, result: np.ndarray | Density) -> Scores:
    table = result.values if isinstance(result, Density) else result
    scores = {
        "mre": float(mean_relative_error(stage.truth, table).mean()),
        "pearson": float(pearson(stage.truth, table).mean()),
        "emd": float(
            np.nanmean(earth_mover_series(stage.truth[:, ::7], table[:, ::7], stage.metres))
        ),
    }
    if isinstance(result, Density):
        held = interval_coverage(stage.truth, result.lower, result.upper)
        scores["coverage"] = held["coverage_from_20"]
    return scores


def write(rows: list[dict[str, object]], users: int, draws: int) -> None:
    lines = [
        f"# `bayes` against Paris, {users:,} people",
        "",
        f"Made by `python -m benchmarks.bayes --users {users} --draws {draws}`: a synthetic Paris "
        f"(seed {SEED}; defaults were settled on seed 1), δ 2e-6, mean of {draws} noise draws, EMD "
        "at every seventh hour. CPU-seconds are for one run; counts asked before are remembered.",
        "",
        "| ε | scheme | mean relative error | ÷ bayes | Pearson | EMD (m) | ÷ bayes | "
        "intervals hold | CPU s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        best = next(
            one for one in rows if one["epsilon"] == row["epsilon"] and one["scheme"] == "bayes"
        )
        ratio = {key: float(row[key]) / float(best[key]) for key in ("mre", "emd")}  # type: ignore[arg-type]
        held = f"{row['coverage']:.3f}" if "coverage" in row else ""
        lines.append(
            f"| {row['epsilon']} | {row['scheme']} | {row['mre']:.4f} | {ratio['mre']:.2f} | "
            f"{row['pearson']:.4f} | {row['emd']:.1f} | {ratio['emd']:.2f} | {held} | "
            f"{row['cpu']:.1f} |"
        )
    FOLDER.mkdir(parents=True, exist_ok=True)
    name = f"bayes-{users}"
    (FOLDER / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (FOLDER / f"{name}.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
