"""Large cities: `bayes` beside what it gave before levels were measured, on fresh cities.

    python -m benchmarks large                            # about 25 CPU-minutes
    python -m benchmarks.large --users 200000             # without the two million
    python -m benchmarks.large --keep-as before           # figures of an earlier version

Cities of the kinds of docs/frontier.md with seeds that tuned nothing, 989 zones or what the kind
has, a week of hours. Mean relative error, earth mover's distance (every seventh hour), total over
the true one, coverage of the 90 % intervals by published count, CPU-seconds of a release without
the reading of its events. The noise is the same for both versions as far as they measure the same.
Bar: at no epsilon a mean relative error above the earlier one by more than 1 %. `--keep-as before`
is how the earlier figures came about: this very file run at commit dadd981. Cities are made once in
SFUMATO_BENCH_DIR or `out`. Writes docs/benchmarks/large.md and large.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.density.registry import scheme_named
from sfumato.density.scheme import PublicFacts
from sfumato.geography.overlay import layout_of_cells, layout_of_zones
from sfumato.privacy.wall import Wall
from sfumato.utility import density
from sfumato.utility.earth_mover import earth_mover_series
from sfumato_lab.studies.frontier.cities import Kind, plan_of
from sfumato_lab.studies.paris.setup import Stage, make_city, open_city

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "benchmarks"
OUT = Path(os.environ.get("SFUMATO_BENCH_DIR", ROOT / "out")) / "large"
SEEDS = {Kind.ORDINARY: 61, Kind.OTHER: 62, Kind.PLACE: 63, Kind.EVENTS: 64}
USERS = {200_000: 2, 2_000_000: 1}
"""People, and draws."""
EPSILONS = (0.1, 0.3, 1.0)
BINS = (1.0, 5.0, 20.0, 100.0)
BAR = 1.01
BEFORE, NOW = "before", "now"


def facts_of(stage: Stage, users: int, epsilon: float) -> PublicFacts:
    """What a release of that city is told."""
    return PublicFacts(
        stage.towers.ids,
        stage.grid,
        epsilon,
        0.2 / users,
        users,
        overlay=stage.overlay,
        layout=layout_of_cells(stage.cells),
        zone_layout=layout_of_zones(stage.zones),
    )


def judged(stage: Stage, users: int, epsilon: float, draws: int) -> dict[str, Any]:
    """Mean figures over the draws."""
    truth, rows = stage.truth, []
    scheme = scheme_named("bayes")
    for draw in range(draws):
        facts = facts_of(stage, users, epsilon)
        began = time.process_time()
        with threadpool_limits(1):
            found = scheme.run(stage.source, Wall.seeded(9_000 + draw), facts)
        cpu = time.process_time() - began
        table = np.asarray(found.values, dtype=np.float64)
        moved = earth_mover_series(truth[:, ::7], table[:, ::7], stage.metres).metres
        assert found.lower is not None
        assert found.upper is not None
        inside = (truth >= found.lower) & (truth <= found.upper)
        size = np.digitize(table, BINS)
        held = [
            float(inside[size == k].mean()) if (size == k).sum() >= 200 else np.nan
            for k in range(len(BINS) + 1)
        ]
        error = float(density.mean_relative_error(truth, table).mean())
        total = float(table.sum() / truth.sum())
        rows.append([error, float(np.nanmean(moved)), total, cpu, float(inside.mean()), *held])
    means = [float(np.mean(column)) for column in zip(*rows, strict=True)]
    return {
        "mre": means[0],
        "emd": means[1],
        "total": means[2],
        "cpu": means[3],
        "held": means[4],
        "by_size": [None if np.isnan(value) else value for value in means[5:]],
        "draws": draws,
    }


def page(known: dict[str, Any]) -> str:
    """The table, with ratios."""
    lines = [
        "# Large cities, before and after levels were measured",
        "",
        "Made by `python -m benchmarks large`; the columns *before* by the same file at commit "
        "dadd981. Fresh cities (seeds 61 to 64) of the kinds of [the frontier](../frontier.md). "
        f"{known['machine']}.",
        "",
        "Bar: no mean relative error more than 1 % above the one before. Intervals: share of all "
        "cells, and by published count 0–1, 1–5, 5–20, 20–100, > 100.",
        "",
        "| city | people | ε | MRE before → now | ratio | EMD | total | held | by count | CPU |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for key, now in known[NOW].items():
        kind, users, epsilon = key.split("|")
        before = known[BEFORE].get(key)
        shown = [" " if v is None else f"{v:.0%}".rstrip("%") for v in now["by_size"]]
        ratio = "" if before is None else f"{now['mre'] / before['mre']:.3f}"
        met = "" if before is None or now["mre"] <= BAR * before["mre"] else " (missed)"
        first = "" if before is None else f"{before['mre']:.4f} → "
        emd = "" if before is None else f"{before['emd']:.0f} → "
        cpu = "" if before is None else f"{before['cpu']:.1f} → "
        lines.append(
            f"| {kind} | {int(users):,} | {epsilon} | {first}{now['mre']:.4f} | {ratio}{met} | "
            f"{emd}{now['emd']:.0f} | {now['total']:.3f} | {now['held']:.1%} | "
            f"{' '.join(shown)} | {cpu}{now['cpu']:.1f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, action="append", help="only that many people")
    parser.add_argument("--keep-as", default=NOW, choices=(NOW, BEFORE))
    parser.add_argument("--kind", action="append", help="only cities of that kind")
    asked = parser.parse_args()
    path = FOLDER / "large.json"
    known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    known = {NOW: {}, BEFORE: {}} | known | {"machine": f"{platform.machine()}, one thread"}
    for users, draws in USERS.items():
        for kind, seed in SEEDS.items():
            if (asked.users and users not in asked.users) or (
                asked.kind and kind.value not in asked.kind
            ):
                continue
            folder = OUT / f"{kind.value.replace(' ', '-')}-{users}"
            make_city(replace(plan_of(kind, users), seed=seed), folder)
            stage = open_city(folder)
            for epsilon in EPSILONS:
                found = judged(stage, users, epsilon, draws)
                known[asked.keep_as][f"{kind.value}|{users}|{epsilon:g}"] = found
                print(kind.value, users, epsilon, json.dumps(found), flush=True)
                path.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    (FOLDER / "large.md").write_text(page(known), "utf-8")


if __name__ == "__main__":
    main()
