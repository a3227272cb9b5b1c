"""The error half of the study on a page: tables, and error against the number of questions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks.report import canvas
from sfumato_lab.studies.queries.errors import (
    BATCH,
    BATCH_WHOLE,
    CLIPPED,
    CUBE_BAYES,
    CUBE_GAUSSIAN,
    CUBE_HALF,
    CUBE_UNCUT,
    DESK,
    DESK_STORED,
    INDEPENDENT,
    METHODS,
    MWEM_MARGINS,
    MWEM_RELEASE,
    MWEM_UNIFORM,
    PMW,
    PRODUCT,
    Row,
)
from sfumato_lab.studies.queries.page import Grid, Picture, Section, save_figure

PICTURE = "queries-error.internal.png"
_STYLE = {
    INDEPENDENT: ("#71717a", "-", 1.0),
    CLIPPED: ("#71717a", "--", 1.0),
    BATCH: ("#1d4ed8", "-", 1.5),
    BATCH_WHOLE: ("#1d4ed8", "--", 1.2),
    MWEM_UNIFORM: ("#a16207", ":", 1.2),
    MWEM_MARGINS: ("#a16207", "-", 1.5),
    MWEM_RELEASE: ("#a16207", "--", 1.2),
    PMW: ("#047857", "-", 1.5),
    CUBE_GAUSSIAN: ("#c2410c", "--", 1.0),
    CUBE_UNCUT: ("#c2410c", ":", 1.0),
    CUBE_BAYES: ("#c2410c", "-", 2.4),
    CUBE_HALF: ("#c2410c", "-", 0.9),
    DESK_STORED: ("#be185d", "--", 1.2),
    DESK: ("#be185d", "-", 1.5),
    PRODUCT: ("#111827", ":", 1.2),
}


class Means:
    """Means over draws."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self.users = sorted({row.users for row in rows})
        self.epsilons = sorted({row.epsilon for row in rows})
        self.questions = sorted({row.questions for row in rows})
        self.methods = [name for name in METHODS if any(row.method == name for row in rows)]
        self.draws = len({row.draw for row in rows})

    def of(self, users: int, epsilon: float, method: str, many: int, figure: str) -> float:
        """NaN where there is none."""
        wanted = (users, epsilon, method, many)
        found = [getattr(row, figure) for row in self._rows if row.key[:4] == wanted]
        known = [value for value in found if value is not None]
        return float(np.mean(known)) if known else math.nan

    def remark(self, users: int, epsilon: float, method: str, many: int) -> str:
        """What the last draw remarked."""
        wanted = (users, epsilon, method, many)
        return next((row.remark for row in reversed(self._rows) if row.key[:4] == wanted), "")


def error_section(rows: Sequence[Row], picture: bool = False) -> Section:
    """Mean relative and absolute errors by number of questions, and how often intervals hold."""
    means = Means(rows)
    blocks: list[str | Grid | Picture] = [
        "Random ranges, discs of 0.5 to 3 km times 1 to 48 hours, on one budget for all of them: "
        "noise of each question alone, of a batch planned together, tables that are fitted to the "
        "questions (MWEM; PMW as they come), sums over a published release, and the desk, which "
        "combines what it knows. The product of true margins is not private at all.",
    ]
    if picture:
        words = (
            "Mean relative error of ranges with ten visits or more. Answers that are measured "
            "one by one or in a batch lose with every question; a release does not care how many "
            "there are."
        )
        blocks.append(Picture(PICTURE, words))
    for users in means.users:
        for epsilon in means.epsilons:
            title = f"{users:,} people, ε {epsilon:g} (draws: {means.draws})"
            blocks.append(_errors(means, users, epsilon, title))
    blocks.append(_held(means))
    blocks.append(
        "An interval is about noise, and about the posterior of a release. Whom a clip or a batch "
        "counts less is not in it: the second figure of a pair shows what that costs."
    )
    return Section("Error against the number of questions", blocks)


def _errors(means: Means, users: int, epsilon: float, title: str) -> Grid:
    head = ["MRE / mean error (visits)", *(f"{many:,} questions" for many in means.questions), ""]
    body = []
    for method in means.methods:
        line = [method]
        for many in means.questions:
            mre = means.of(users, epsilon, method, many, "mre")
            off = means.of(users, epsilon, method, many, "off")
            line.append("" if math.isnan(off) else f"{mre:.3f} / {off:,.0f}")
        body.append([*line, means.remark(users, epsilon, method, means.questions[-1])])
    return Grid(title, head, body)


def _held(means: Means) -> Grid:
    body = []
    for users in means.users:
        for method in means.methods:
            line = [f"{method}, {users:,}"]
            for epsilon in means.epsilons:
                shares = [
                    means.of(users, epsilon, method, means.questions[-1], figure)
                    for figure in ("held", "held_true")
                ]
                if not any(map(math.isnan, shares)):
                    line.append(" / ".join(f"{share:.1%}" for share in shares))
            if len(line) > 1:
                body.append(line)
    many = means.questions[-1] if means.questions else 0
    caption = "90 % intervals that hold: of the people as bounded / of the truth"
    return Grid(caption, [f"{many:,} questions", *(f"ε {e:g}" for e in means.epsilons)], body)


def draw_errors(rows: Sequence[Row], path: Path) -> None:
    """Write the PNG: a panel for each size and epsilon."""
    means = Means(rows)
    figure = canvas((3.6 * len(means.epsilons) + 1.0, 3.1 * len(means.users) + 1.5))
    panels = figure.subplots(
        len(means.users), len(means.epsilons), squeeze=False, sharex=True, sharey="row"
    )
    for line, users in zip(panels, means.users, strict=True):
        for axes, epsilon in zip(line, means.epsilons, strict=True):
            _panel(axes, means, users, epsilon)
            axes.set_title(f"{users:,} people, ε {epsilon:g}", fontsize=9)
        line[0].set_ylabel("mean relative error")
    for axes in panels[-1]:
        axes.set_xlabel("questions")
    handles, names = panels[0][0].get_legend_handles_labels()
    wide = min(4, 2 * len(means.epsilons))  # more names do not fit under one panel
    figure.legend(handles, names, loc="outside lower center", ncols=wide, fontsize=8, frameon=False)
    save_figure(figure, path)


def _panel(axes: Any, means: Means, users: int, epsilon: float) -> None:
    for method in means.methods:
        values = [means.of(users, epsilon, method, many, "mre") for many in means.questions]
        colour, dashes, width = _STYLE[method]
        axes.plot(
            means.questions,
            values,
            color=colour,
            ls=dashes,
            lw=width,
            marker="o",
            ms=3,
            label=method,
            zorder=width,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(means.questions, [f"{many:,}" for many in means.questions])
    axes.minorticks_off()
    low, high = axes.get_ylim()
    ticks = [t for t in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0) if low <= t <= high]
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.grid(alpha=0.25, lw=0.5)
