"""The figure of docs/choosing.md: what error to expect, and what is of use, from `plan` alone.

    python -m benchmarks.choosing        # some five minutes

Left: the forecast error of a count by its size. Right: how many people it takes for how many zones.
A week of hours, people who are seen as often as in call records, the scheme `bayes`, delta a tenth
of one over the people. Nothing is read and nothing is spent. Writes docs/images/choosing.png and
docs/benchmarks/choosing.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

import sfumato
from sfumato.density.fitness import Case, fitness
from sfumato.density.registry import DEFAULT
from sfumato.density.scheme import PublicFacts
from sfumato.model.time_grid import period_of

mpl.use("Agg")
from matplotlib import pyplot as plt

DOCS = Path(__file__).resolve().parents[1] / "docs"
EPSILONS = {0.1: "#8c510a", 0.3: "#c8762b", 1.0: "#1b6ca8", 3.0: "#0b3c5d"}
CITY = {"people": 100_000, "zones": 400}
PEOPLE = (500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
ZONES = (10, 40, 150, 400, 1000)
PANELS = (0.3, 1.0)


def errors(epsilon: float) -> dict[str, float]:
    """Errors of counts by their size, as `plan` rehearses them."""
    people = CITY["people"]
    said = sfumato.plan(
        epsilon=epsilon, delta=0.1 / people, expected_users=people, zone_count=CITY["zones"]
    )
    return dict(said.answer["rehearsal"]["by_count"])


def verdict(people: int, zones: int, epsilon: float) -> dict[str, Any]:
    """Whether it is of use, as `plan` and `release` have it."""
    grid = period_of("2024-01-08", "2024-01-15", "1h", "UTC")
    places = np.array([f"{zone:05d}" for zone in range(zones)])
    facts = PublicFacts(places, grid, epsilon, 0.1 / people, expected_users=people)
    case = Case.of(DEFAULT, facts)
    assert case is not None
    asked = {"people": people, "zones": zones, "epsilon": epsilon}
    return asked | fitness(case).answer()


def measured() -> dict[str, Any]:
    """All forecasts, as they stand in the JSON file."""
    return {
        "city": CITY,
        "errors": {str(epsilon): errors(epsilon) for epsilon in EPSILONS},
        "verdicts": [
            verdict(people, zones, epsilon)
            for epsilon in PANELS
            for people in PEOPLE
            for zones in ZONES
        ],
    }


def draw(found: dict[str, Any]) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), width_ratios=(1.25, 1, 1))
    for epsilon, colour in EPSILONS.items():
        points = found["errors"][str(epsilon)]
        sizes = [int(size) for size in points]
        axes[0].plot(
            sizes, list(points.values()), "o-", ms=4, color=colour, label=f"epsilon {epsilon:g}"
        )
    axes[0].set(
        xscale="log",
        yscale="log",
        xlabel="visits in a zone and hour",
        ylabel="mean relative error",
        title=f"{CITY['people']:,} people, {CITY['zones']} zones",
    )
    axes[0].legend(frameon=False)
    axes[0].grid(alpha=0.3, which="both", lw=0.4)
    for axis, epsilon in zip(axes[1:], PANELS, strict=True):
        for one in found["verdicts"]:
            if one["epsilon"] != epsilon:
                continue
            rough = bool(one["failing"]) and not one["useless"]
            colour = "#b2182b" if one["useless"] else "#e0a030" if rough else "#1b6ca8"
            mark = "x" if one["useless"] else "o"
            axis.plot(one["people"], one["zones"], mark, ms=7, color=colour)
        axis.set(xscale="log", yscale="log", xlabel="people", title=f"epsilon {epsilon:g}")
        axis.set_yticks(ZONES, [str(zones) for zones in ZONES], minor=False)
        axis.minorticks_off()
    axes[1].set_ylabel("zones, a week of hours")
    marks = [
        axes[2].plot([], [], mark, color=colour, label=label)[0]
        for label, mark, colour in (
            ("of use", "o", "#1b6ca8"),
            ("rough, published with a note", "o", "#e0a030"),
            ("refused", "x", "#b2182b"),
        )
    ]
    figure.legend(handles=marks, loc="lower right", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(DOCS / "images" / "choosing.png", dpi=110)


def main() -> None:
    found = measured()
    text = json.dumps(found, indent=1, sort_keys=True) + "\n"
    (DOCS / "benchmarks" / "choosing.json").write_text(text, "utf-8")
    draw(found)


if __name__ == "__main__":
    main()
