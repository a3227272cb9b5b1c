"""The frontier in Markdown: figures of all methods, ratios with their bars, the crowd."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.reproduction.frontier.cities import Kind
from sfumato.reproduction.frontier.methods import (
    BAYES,
    LABELS,
    ORACLE,
    PAPER_STEPS,
    PARIS,
    PRINTED,
)
from sfumato.reproduction.frontier.record import Row

Cell = tuple[str, int, float, str]


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio of two methods' figures in the ordinary city, and the least it should be."""

    text: str
    figure: str
    above: str
    below: str
    users: int
    least: tuple[tuple[float, float], ...]
    at_most: bool = False


BARS = (
    Bar("MRE: printed ÷ bayes", "mre", PRINTED, BAYES, 2_000_000, ((0.1, 1.6), (0.3, 2), (1, 2.6))),
    Bar(
        "EMD: printed ÷ bayes", "emd", PRINTED, BAYES, 2_000_000, ((0.1, 3.5), (0.3, 3.8), (1, 3.8))
    ),
    Bar(
        "MRE: corrected paris, the paper's own steps ÷ bayes",
        "mre",
        PAPER_STEPS,
        BAYES,
        2_000_000,
        ((0.1, 1.3), (0.3, 1.55), (1, 1.9)),
    ),
    Bar(
        "MRE: our paris (weights, shrinkage) ÷ bayes",
        "mre",
        PARIS,
        BAYES,
        2_000_000,
        ((0.1, 1.3), (0.3, 1.55), (1, 1.9)),
    ),
    Bar("MRE: printed ÷ bayes", "mre", PRINTED, BAYES, 200_000, ((0.1, 1), (0.3, 1.15), (1, 1.3))),
    Bar(
        "MRE: bayes ÷ linear oracle",
        "mre",
        BAYES,
        ORACLE,
        2_000_000,
        ((0.1, 1.1), (0.3, 1.1), (1, 1.09)),
        at_most=True,
    ),
)


class Means:
    """Means over draws of every figure."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.users = sorted({row.users for row in rows}, reverse=True)
        self.epsilons = sorted({row.epsilon for row in rows})
        self.cities = list(dict.fromkeys(row.city for row in rows))
        self.kinds = [kind for kind in Kind if kind.value in self.cities]

    def of(self, city: str, users: int, epsilon: float, method: str, figure: str) -> float:
        """NaN where it was not drawn."""
        wanted = (city, users, epsilon, method)
        found = [
            value
            for row in self.rows
            if row.key[:4] == wanted and (value := getattr(row, figure)) is not None
        ]
        return float(np.mean(found)) if found else math.nan

    def draws(self, city: str, users: int, epsilon: float, method: str) -> int:
        return sum(row.key[:4] == (city, users, epsilon, method) for row in self.rows)


def as_markdown(rows: Sequence[Row]) -> str:
    """Everything."""
    means = Means(rows)
    parts = [
        "# The frontier (internal: compares with true counts)",
        _bars(means),
        *(_city(means, city, users) for users in means.users for city in means.cities),
        _crowd(means),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _city(means: Means, city: str, users: int) -> str:
    body = []
    for label in LABELS:
        line, any_found = [label], False
        for epsilon in means.epsilons:
            where = (city, users, epsilon, label)
            mre, pearson, emd = (means.of(*where, f) for f in ("mre", "pearson", "emd"))
            any_found |= math.isfinite(mre)
            line.append(
                " / ".join((f"{mre:.3f}", f"{pearson:.3f}", *([f"{emd:.0f}"] * math.isfinite(emd))))
                if math.isfinite(mre)
                else ""
            )
        held = [means.of(city, users, e, label, "coverage") for e in means.epsilons]
        shown = label in (PARIS, BAYES) and all(map(math.isfinite, held))
        line.append(" ".join(f"{h:.3f}" for h in held) if shown else "")
        if any_found:
            body.append(line)
    draws = max(means.draws(city, users, e, BAYES) for e in means.epsilons)
    head = ["MRE / Pearson / EMD (m)", *(f"ε {e:g}" for e in means.epsilons), "intervals hold"]
    return _table(f"**{city}, {users:,} people** (draws: {draws})", head, body)


def _bars(means: Means) -> str:
    body = []
    city = Kind.ORDINARY.value
    for bar in BARS:
        line = [f"{bar.text}, {bar.users:,} people"]
        for epsilon, least in bar.least:
            above = means.of(city, bar.users, epsilon, bar.above, bar.figure)
            below = means.of(city, bar.users, epsilon, bar.below, bar.figure)
            if not (math.isfinite(above) and math.isfinite(below) and below > 0):
                line.append("")
                continue
            ratio = above / below
            met = ratio <= least if bar.at_most else ratio >= least
            sign = "≤" if bar.at_most else "≥"
            line.append(f"{ratio:.2f} ({sign} {least:g}: {'met' if met else 'missed'})")
        if any(line[1:]):
            body.append(line)
    head = ["ordinary city", "ε 0.1", "ε 0.3", "ε 1"]
    return _table("**Ratios, and what was asked of them**", head, body)


def _crowd(means: Means) -> str:
    city = Kind.EVENTS.value
    body = []
    for users in means.users:
        for label in LABELS:
            found = [means.of(city, users, e, label, "crowd") for e in means.epsilons]
            if any(map(math.isfinite, found)):
                cells = [f"{100 * v:+.1f} %" if math.isfinite(v) else "" for v in found]
                body.append([f"{label}, {users:,}", *cells])
    head = ["error of the crowd's total", *(f"ε {e:g}" for e in means.epsilons)]
    return _table("**The crowd of the match**", head, body)


def _table(title: str, head: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return title + "\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines)
