"""The frontier as one picture: error against epsilon, a panel for each city and size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.io.writers import write_atomically
from sfumato.reproduction.frontier.cities import Kind
from sfumato.reproduction.frontier.methods import BAYES, LABELS, ORACLE, PAPER_STEPS, PARIS, PRINTED
from sfumato.reproduction.frontier.record import Row
from sfumato.reproduction.frontier.tables import Means

_STYLE = {
    BAYES: ("#c2410c", "-", 2.4),
    ORACLE: ("#111827", ":", 1.6),
    PARIS: ("#1d4ed8", "-", 1.5),
    PAPER_STEPS: ("#1d4ed8", "--", 1.3),
    PRINTED: ("#1d4ed8", ":", 1.3),
}
_OTHERS = ("#a1a1aa", "#a16207", "#71717a", "#047857", "#7c3aed", "#0e7490")


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write the PNG."""
    from matplotlib.figure import Figure

    shown = (Kind.ORDINARY, Kind.OTHER, Kind.PLACE, Kind.EVENTS)
    means = Means([row for row in rows if row.city in shown])
    size = (3.3 * len(means.kinds) + 1.2, 3.1 * len(means.users) + 1.1)
    figure = Figure(figsize=size, layout="constrained")
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
