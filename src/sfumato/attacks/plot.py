"""A study as a picture: accuracy of every table beside its baselines, and slot by slot.

INTERNAL. matplotlib is optional (`pip install 'sfumato[plots]'`) and imported when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks.recovery.beside import JUDGED_BY
from sfumato.attacks.recovery.study import Study
from sfumato.model.errors import UsageError

_ATTACK = "#b3261e"
_BASE = {"random": "#9aa5b1", "stay": "#5f7d95", "map": "#7fb59b", "others": "#1b6e53"}
BASELINES = {
    "random": "linked by lot",
    "stay": "everybody stays",
    "map": "knows the map",
    "others": "knows everybody else",
    "census": "census of other people",
    "halves": "halves guessed from halves",
}


def canvas(size: tuple[float, float]) -> Any:
    """A figure that needs no display."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(
            "The plot needs matplotlib.", remedy="Install it with pip install 'sfumato[plots]'."
        ) from None
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_study(study: Study, path: Path) -> None:
    """Bars by table on the left, accuracy by slot on the right."""
    figure = canvas((12.5, 4.2))
    bars, lines = figure.subplots(1, 2, width_ratios=[3, 2])
    at = np.arange(len(study.outcomes))
    reached = [one.scores["greedy"] for one in study.outcomes]
    means = np.array([100 * s.mean for s in reached])
    spread = np.array([[100 * (s.mean - s.low), 100 * (s.high - s.mean)] for s in reached]).T
    bars.bar(at - 0.32, means, 0.16, yerr=spread, color=_ATTACK, label="attack", capsize=2)
    for k, (name, colour) in enumerate(_BASE.items()):
        values = [100 * one.baselines[name]["greedy"] for one in study.outcomes]
        bars.bar(at - 0.16 + 0.16 * k, values, 0.16, color=colour, label=BASELINES[name])
    bars.set_xticks(at, [one.name for one in study.outcomes], rotation=20, ha="right")
    bars.set_ylabel("greedy accuracy, %")
    bars.set_ylim(0, 100)
    bars.legend(frameon=False, fontsize=8)
    for one in study.outcomes:
        lines.plot(100 * one.by_slot, lw=1.2, label=one.name)
    if study.outcomes:  # it does not look at the table, so one line serves all
        style = {"ls": "--", "lw": 1.2, "color": _BASE[JUDGED_BY], "label": BASELINES[JUDGED_BY]}
        lines.plot(100 * study.outcomes[0].others, **style)
    lines.set_xlabel("slot")
    lines.set_ylim(0, 100)
    lines.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle("INTERNAL: trajectories recovered from counts", fontsize=10)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def save_curves(
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]],
    axes: tuple[str, str],
    path: Path,
    title: str = "",
    *,
    log: bool = False,
) -> None:
    """Panels of named curves (x, y in percent): the paper's are dotted, baselines dashed.

    The panels show the same names, so that one legend below serves all of them.
    """
    guessing = set(BASELINES.values())
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure = canvas((max(7.2, 5.2 * columns), 3.4 * lines + 0.9))
    places = np.atleast_1d(figure.subplots(lines, columns)).ravel()
    highest = max(max(y) for curves in panels.values() for _, y in curves.values())
    for place, (name, curves) in zip(places, panels.items(), strict=False):
        for label, (x, y) in curves.items():
            style = {"ls": "--" if label in guessing else "-"}
            if label.startswith("paper"):
                style = {"ls": ":", "color": "black"}
            place.plot(x, y, marker="o", ms=3, lw=1.2, label=label, **style)
        place.set(title=name, xlabel=axes[0], ylabel=axes[1], ylim=(0, min(100, 1.2 * highest)))
        if log:
            place.set_xscale("log")
    handles, labels = places[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    if title:
        figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=110, metadata={"Software": None})
