"""Studies of large cities beside the levels: one-off crowds, weak signals.

Call records of 200,000 people, 1,303 towers, 989 zones, a week of hours.

*Crowd*: the same city with a match and without. What the match adds to its cells, as far as the
release tells it: (released - truth without it) / (truth with it - truth without it), summed over
cells that hold at least three times what they would, and stand 8 standard deviations of its noise
above in the matrix (beside it: over all of those cells). In releases without a match: cells where
the release shows a crowd that is not there, 5 standard deviations and three times the truth.

*Weak signal*: the earth mover's distance of `bayes` over that of the linear oracle on the same
noise (`lab.frontier.oracle`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks._levels_judge import seed_of
from benchmarks._levels_people import Population, Table, calls
from threadpoolctl import threadpool_limits

from sfumato.city import CityPlan, Match
from sfumato.density.bayes import Bayes
from sfumato.density.bayes.scheme import MATRIX
from sfumato.density.scheme import Density
from sfumato.privacy.door import open_private
from sfumato.utility.density import mean_relative_error
from sfumato.utility.earth_mover import earth_mover_series
from sfumato_lab.studies.frontier.oracle import BoxKeepingWall, Oracle

PEOPLE, TOWERS, ZONES = 200_000, 1_303, 989
TIMES_USUAL = 3.0
"""A cell belongs to the crowd where it holds this many times what it would without one."""
FALSE_SIGMAS = 5.0
"""A release shows a crowd where a cell exceeds the truth as much, and by this much in the noise."""
STANDS_OUT = 8.0
"""Cells whose excess is so many standard deviations of the matrix's noise are the bar's."""
CROWDS = ((0.1, 4_000), (0.1, 8_000), (0.3, 1_500), (0.3, 4_000))
"""Epsilon and people at the match; the smaller of each stands out barely."""
TOLD = {0.1: 0.60, 0.3: 0.80}
Tell = Callable[[str], None]


def large_city(seed: int, match: int = 0, people: int = PEOPLE) -> Population:
    """The city, with so many people at a match on Friday evening."""
    return calls(
        CityPlan(
            users=people,
            towers=TOWERS,
            zones=ZONES,
            seed=seed,
            match=Match(people=match) if match else None,
        )
    )


def released(people: Population, epsilon: float, *name: object) -> tuple[Density, Table, float]:
    """One release of `bayes`, what one visit counts in each cell of its matrix over the noise, and
    CPU-seconds."""
    wall = BoxKeepingWall.seeded(seed_of(*name, epsilon))
    start = time.process_time()
    with threadpool_limits(1):
        found = Bayes().run(people.source, wall, people.facts(epsilon))
    cpu = time.process_time() - start
    box = open_private(wall.boxes[MATRIX])
    clean = box.values / np.float64(box.units_per_count)
    weight = clean / np.maximum(people.truth, 1e-9) / wall.taken[MATRIX].sd
    return found, np.where(people.truth > 0, weight, 0.0), cpu


def crowd_study(seed: int, draws: int, tell: Tell) -> list[dict[str, Any]]:
    """The share of a crowd that is told, and crowds that are not there."""
    without = large_city(seed)
    rows = []
    for epsilon in sorted({epsilon for epsilon, _ in CROWDS}):
        rows.append(_no_crowd(without, epsilon, seed, draws))
        tell(str(rows[-1]))
    for epsilon, match in CROWDS:
        rows.append(_crowd(without, epsilon, match, seed, draws))
        tell(str(rows[-1]))
    return rows


def _no_crowd(people: Population, epsilon: float, seed: int, draws: int) -> dict[str, Any]:
    false, errors = 0, []
    for draw in range(draws):
        found, weight, _ = released(people, epsilon, "crowd", seed, draw)
        values = np.asarray(found.values, dtype=np.float64)
        shown = (values - people.truth) * weight > FALSE_SIGMAS
        shown &= values > TIMES_USUAL * np.maximum(people.truth, 1.0)
        false += int(shown.sum())
        errors.append(float(mean_relative_error(people.truth, values).mean()))
    return {
        "study": "no crowd",
        "epsilon": epsilon,
        "seed": seed,
        "releases": draws,
        "false_cells": false,
        "mre": round(float(np.mean(errors)), 4),
        "verdict": "met" if false <= max(1, draws / 10) else "missed",
    }


def _crowd(
    without: Population, epsilon: float, match: int, seed: int, draws: int
) -> dict[str, Any]:
    crowded = large_city(seed, match)
    excess = crowded.truth - without.truth
    cells = crowded.truth > TIMES_USUAL * np.maximum(without.truth, 1.0)
    told, out, sigmas, errors, held = [], [], [], [], []
    for draw in range(draws):
        found, weight, cpu = released(crowded, epsilon, "crowd", seed, draw)
        values = np.asarray(found.values, dtype=np.float64)
        high = cells & (excess * weight >= STANDS_OUT)
        sigmas.append(float((excess * weight)[cells].max()))
        told.append(_share(values - without.truth, excess, cells))
        out.append(_share(values - without.truth, excess, high))
        errors.append(float(mean_relative_error(crowded.truth, values).mean()))
        if found.lower is not None and found.upper is not None:
            inside = (found.lower <= crowded.truth) & (crowded.truth <= found.upper)
            held.append(float(inside[cells].mean()))
    standing = float(np.nanmean(out)) if np.isfinite(out).any() else None
    verdict = f"nowhere {STANDS_OUT:g} σ"
    if standing is not None:
        verdict = "met" if standing >= TOLD[epsilon] else "missed"
    return {
        "study": "crowd",
        "epsilon": epsilon,
        "seed": seed,
        "people": match,
        "releases": draws,
        "cells": int(cells.sum()),
        "sigmas": round(float(np.mean(sigmas)), 1),
        "told": None if standing is None else round(standing, 3),
        "told_all_cells": round(float(np.mean(told)), 3),
        "mre": round(float(np.mean(errors)), 4),
        "held": round(float(np.mean(held)), 3) if held else None,
        "cpu": round(cpu, 1),
        "verdict": verdict,
    }


def _share(found: Table, excess: Table, cells: Any) -> float:
    return float(found[cells].sum() / excess[cells].sum()) if cells.any() else float("nan")


def weak_study(
    seed: int, draws: int, tell: Tell, epsilons: tuple[float, ...] = (0.1, 0.3)
) -> list[dict[str, Any]]:
    """Earth mover's distance of `bayes` over the oracle's, and relative errors of both."""
    people = large_city(seed)
    assert people.zone_layout is not None
    at = people.zone_layout.centres
    metres = np.linalg.norm(at[:, None] - at[None], axis=2)
    oracle, every, rows = Oracle(people.truth), 12, []
    for epsilon in epsilons:
        moved: list[list[float]] = []
        errors = []
        for draw in range(draws):
            wall = BoxKeepingWall.seeded(seed_of("weak", seed, draw, epsilon))
            with threadpool_limits(1):
                found = oracle.with_bayes(people.source, wall, people.facts(epsilon))
            tables = [np.asarray(found[0].values, dtype=np.float64), found[1]]
            moved.append(
                [
                    float(
                        np.nanmean(
                            earth_mover_series(
                                people.truth[:, 6::every], t[:, 6::every], metres
                            ).metres
                        )
                    )
                    for t in tables
                ]
            )
            errors.append([float(mean_relative_error(people.truth, t).mean()) for t in tables])
        mean, error = np.mean(moved, axis=0), np.mean(errors, axis=0)
        row = {
            "study": "weak",
            "epsilon": epsilon,
            "seed": seed,
            "emd": round(float(mean[0]), 1),
            "emd_oracle": round(float(mean[1]), 1),
            "ratio": round(float(mean[0] / mean[1]), 3),
            "mre": round(float(error[0]), 4),
            "mre_oracle": round(float(error[1]), 4),
            "releases": draws,
            "verdict": "met" if mean[0] <= MOVED * mean[1] else "missed",
        }
        rows.append(row)
        tell(str(row))
    return rows


MOVED = 1.15
"""The earth mover's distance may exceed the oracle's by this factor."""


STUDIES: dict[str, Callable[[int, int, Tell], list[dict[str, Any]]]] = {
    "crowd": crowd_study,
    "weak": weak_study,
}


def studies_page(rows: list[dict[str, Any]]) -> str:
    """One table for each study."""
    lines = ["# Large cities beside the levels", ""]
    lines += [line.strip() for line in (__doc__ or "").splitlines()[2:]]
    lines += [
        "",
        "Made by `python -m benchmarks.levels --study NAME --judge`. Borders are in border.md, "
        "four weeks in weeks.md.",
        "",
    ]
    for study in dict.fromkeys(row["study"] for row in rows):
        found = [row for row in rows if row["study"] == study]
        names = [name for name in found[0] if name != "study"]
        lines += [f"## {study.capitalize()}", ""]
        lines += ["| " + " | ".join(name.replace("_", " ") for name in names) + " |"]
        lines += ["|" + "---|" * len(names)]
        lines += [
            "| " + " | ".join("–" if row[n] is None else f"{row[n]}" for n in names) + " |"
            for row in found
        ]
        lines += [""]
    return "\n".join(lines)
