"""Plots of the studies of streams, where matplotlib is installed. Internal, like the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from sfumato.model.extras import optional
from sfumato_lab.studies.moving.study import Row

_SCHEMES = ("direct", "threshold", "static-hybrid", "dynamic-hybrid")
_COLOURS = dict(zip(_SCHEMES, ("#4477aa", "#ee6677", "#228833", "#ccbb44"), strict=True))


def _figure(width: float, height: float) -> Any:
    figure = optional("matplotlib.figure", "The plot", instead="Or give `figures=False`.")
    return figure.Figure(figsize=(width, height), layout="constrained")


def paper_figures(name: str, study: dict[str, Any], path: Path) -> None:
    """Figures 2, 4 and 7 to 12 of Chen et al. on one page."""
    figure = _figure(11, 9.5)
    axes = figure.subplots(3, 3)
    _distances(axes[0, 0], study["distances"])
    _ends(axes[0, 1], study["day"], 0, "begin of the day")
    _ends(axes[0, 2], study["day"], 1, "end of the day")
    words = {"mae": "MAE, all cells", "mre": "MRE as printed", "busiest": "MAE, 200 busiest"}
    for axis, what in zip(axes[1], words, strict=True):
        _lines(axis, study["threshold"], "share", what)
        axis.set(xlabel="T in mean distances (epsilon 0.8)", ylabel=words[what])
    for axis, what in zip(axes[2], words, strict=True):
        _lines(axis, [p for p in study["epsilon"] if p["processed"]], "epsilon", what)
        _lines(axis, [p for p in study["epsilon"] if not p["processed"]], "epsilon", what, ":")
        axis.set(xlabel="epsilon (dotted: no Algorithm 3)", ylabel=words[what])
    axes[1, 0].legend(fontsize=7)
    figure.suptitle(f"{name}: the schemes of Chen et al. as printed (internal)")
    figure.savefig(path, dpi=100)


def _distances(axis: Any, study: dict[str, Any]) -> None:
    axis.plot(study["hours"], study["distances"], color="#333333")
    axis.set(xlabel="hour", ylabel="people moved (L1)", title="distance to the slot before")
    axis.set_ylim(bottom=0)


def _ends(axis: Any, study: dict[str, Any], end: int, title: str) -> None:
    """How often each hour was chosen, as printed and corrected; the raw optimum as a line."""
    hours = sorted({w[end] for form in ("printed", "corrected") for w in study[form]})
    step = min((b - a for a, b in pairwise(hours)), default=1.0)
    for form, colour, side in (("printed", "#ee6677", -0.2), ("corrected", "#4477aa", 0.2)):
        chosen = [window[end] for window in study[form]]
        shares = [chosen.count(hour) / len(chosen) for hour in hours]
        places = [hour + side * step for hour in hours]
        axis.bar(places, shares, width=0.4 * step, label=form, color=colour)
    axis.axvline(study["raw"][end], color="#333333", linestyle=":", label="raw optimum")
    axis.set(xlabel="hour", ylabel="share of draws", title=title)
    axis.legend(fontsize=7)


def _lines(axis: Any, points: Sequence[dict[str, Any]], x: str, y: str, style: str = "-") -> None:
    for scheme in _SCHEMES:
        own = [p for p in points if p["scheme"] == scheme]
        axis.plot(
            [p[x] for p in own], [p[y] for p in own], style, color=_COLOURS[scheme], label=scheme
        )
    axis.set_yscale("log")
    _plain_numbers(axis.yaxis)


def _plain_numbers(axis: Any) -> None:
    """20 instead of 2 x 10^1, on a logarithmic axis."""
    from matplotlib.ticker import LogFormatter

    axis.set_major_formatter(LogFormatter())
    axis.set_minor_formatter(LogFormatter())


def comparison(rows: Sequence[Row], path: Path) -> None:
    """Which scheme when: every scheme's error on the busiest cells, a panel for each epsilon."""
    panels = list(dict.fromkeys((row.city, row.epsilon) for row in rows))
    longest = max(sum((row.city, row.epsilon) == panel for row in rows) for panel in panels)
    figure = _figure(4.2 * len(panels), 1.0 + 0.27 * max(longest, 6))
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (city, epsilon) in zip(axes, panels, strict=True):
        own = [row for row in rows if (row.city, row.epsilon) == (city, epsilon)]
        own.sort(key=lambda row: -row.score.busiest)
        for place, row in enumerate(own):
            colour = "#4477aa" if row.form == "corrected" else "#bbbbbb"
            if row.scheme in ("rhythm", "profile"):
                colour = "#228833"
            elif row.scheme in ("zeros", "sample", "mean", "uniform"):
                colour = "#ccbb44"
            axis.barh(place, row.score.busiest, color=colour)
            number = f" {row.score.busiest:.3g}"
            axis.text(row.score.busiest, place, number, va="center", fontsize=7)
        words = [r.scheme + (" (printed)" if r.form == "as printed" else "") for r in own]
        axis.set_yticks(range(len(own)), words, fontsize=7)
        axis.set(xlabel="MAE, 200 busiest cells", title=f"{city}, epsilon {epsilon:g}")
        axis.set_xlim(0, 1.15 * own[0].score.busiest)  # bars are lengths: from 0, and linear
        axis.set_ylim(-0.7, len(own) - 0.3)
    figure.savefig(path, dpi=100)


def learning(name: str, errors: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Error by day: what the default learns."""
    figure = _figure(4.5 * len(errors), 3.2)
    axes = figure.subplots(1, len(errors), squeeze=False)[0]
    for axis, (epsilon, found) in zip(axes, errors.items(), strict=True):
        for scheme, days in found.items():
            axis.plot(range(1, len(days) + 1), days, marker="o", markersize=3, label=scheme)
        axis.set(xlabel="day", ylabel="MAE, 200 busiest", title=f"{name}, epsilon {epsilon}")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=100)
