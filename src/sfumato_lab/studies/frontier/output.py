"""Results of the frontier: on disk, in Markdown, and as one picture.

One JSON line for each draw of a method: a killed run goes on from there. The Markdown has figures
of all methods, ratios with their bars, and the crowd; the picture is error against epsilon, a panel
for each city and size.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.io.write import write_atomically, write_bytes
from sfumato.model.extras import optional
from sfumato_lab.studies.frontier.cities import Kind
from sfumato_lab.studies.frontier.methods import BAYES, LABELS, ORACLE, PAPER_STEPS, PARIS, PRINTED


@dataclass(frozen=True, slots=True)
class Row:
    """Figures of one draw; `emd`, `coverage` and `crowd` are None where there are none."""

    city: str
    users: int
    epsilon: float
    method: str
    draw: int
    mre: float
    pearson: float
    emd: float | None
    coverage: float | None
    crowd: float | None
    cpu: float

    @property
    def key(self) -> tuple[str, int, float, str, int]:
        return (self.city, self.users, self.epsilon, self.method, self.draw)


class Record:
    """All rows of a file; a line that was cut off by a kill is dropped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[Row] = []
        if path.is_file():
            for line in path.read_text("utf-8").splitlines():
                try:
                    self.rows.append(Row(**json.loads(line)))
                except (ValueError, TypeError):
                    continue
            self._rewrite()

    def has(self, key: tuple[str, int, float, str, int]) -> bool:
        return any(row.key == key for row in self.rows)

    def add(self, rows: Iterable[Row]) -> None:
        """Append, and be on the disk before the next draw begins."""
        new = [row for row in rows if not self.has(row.key)]
        self.rows += new
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(row)) + "\n" for row in new)

    def forget(self, methods: Iterable[str], among: Callable[[Row], bool]) -> None:
        """Drop the rows of some methods, among those asked about, so that they are drawn again."""
        gone = set(methods)
        self.rows = [row for row in self.rows if row.method not in gone or not among(row)]
        self._rewrite()

    def _rewrite(self) -> None:
        text = "".join(json.dumps(asdict(row)) + "\n" for row in self.rows)
        write_bytes(self._path, text.encode())


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


_STYLE = {
    BAYES: ("#c2410c", "-", 2.4),
    ORACLE: ("#111827", ":", 1.6),
    PARIS: ("#1d4ed8", "-", 1.5),
    PAPER_STEPS: ("#1d4ed8", "--", 1.3),
    PRINTED: ("#1d4ed8", ":", 1.3),
}
_OTHERS = ("#a1a1aa", "#a16207", "#71717a", "#047857", "#7c3aed", "#0e7490")


def draw_frontier(rows: Sequence[Row], path: Path) -> None:
    """Write the PNG."""
    drawing = optional("matplotlib.figure", "The plot")
    shown = (Kind.ORDINARY, Kind.OTHER, Kind.PLACE, Kind.EVENTS)
    means = Means([row for row in rows if row.city in shown])
    size = (3.3 * len(means.kinds) + 1.2, 3.1 * len(means.users) + 1.1)
    figure = drawing.Figure(figsize=size, layout="constrained")
    panels = figure.subplots(
        len(means.users), len(means.kinds), squeeze=False, sharey="row", sharex=True
    )
    for line, users in zip(panels, means.users, strict=True):
        for axes, kind in zip(line, means.kinds, strict=True):
            _panel(axes, means, kind.value, users)
            axes.set_title(f"{kind.value}, {users:,} people", fontsize=9)
        line[0].set_ylabel("mean relative error")
    for axes in panels[-1]:
        axes.set_xlabel("ε")
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize=8, frameon=False)

    def save(to: Path) -> None:
        figure.savefig(to, format="png", dpi=110, metadata={"Software": None})

    write_atomically(path, save)


def _panel(axes: Any, means: Means, city: str, users: int) -> None:
    others = [label for label in LABELS if label not in _STYLE]
    for label in LABELS:
        at = [e for e in means.epsilons if math.isfinite(means.of(city, users, e, label, "mre"))]
        if not at:
            continue
        values = [means.of(city, users, e, label, "mre") for e in at]
        colour, dashes, width = _STYLE.get(label) or (
            _OTHERS[others.index(label) % len(_OTHERS)],
            "-",
            1.0,
        )
        axes.plot(
            at,
            values,
            color=colour,
            ls=dashes,
            lw=width,
            marker="o",
            ms=3,
            label=label,
            zorder=width,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(means.epsilons, [f"{e:g}" for e in means.epsilons])
    axes.minorticks_off()
    low, high = axes.get_ylim()
    ticks = [t for t in (0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if low <= t <= high]
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.grid(alpha=0.25, lw=0.5)
