"""The figures as PNG: maps, series, utility against epsilon, hours, boxes. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.io.write import write_atomically
from sfumato.model.extras import optional
from sfumato_lab.studies.paris.cases import Score
from sfumato_lab.studies.paris.setup import Stage, Table

if TYPE_CHECKING:
    from sfumato_lab.studies.paris.study import Results

_COLOURS = ("#1d4ed8", "#c2410c", "#047857", "#7c3aed", "#a16207", "#be123c", "#0e7490")


def draw_all(stage: Stage, found: Results, out: Path) -> list[Path]:
    """Every figure for which there are results."""
    middle = found.settings.middle
    drawn: dict[str, Any] = {"fig-1-cells": _cells(stage), "fig-2-cover": _cover(stage)}
    drawn["fig-3-5-series"] = _series(
        stage, found, (("LPA(30)",), ("EFPAG⁻(30)",), ("EFPAG(30)", "bayes"))
    )
    drawn["fig-6-histogram"] = _histogram(found)
    seven = ("EFPAG(10)", "EFPAG(30)", "EFPAG(168)", "LPA(10)", "LPA(30)", "LPA(168)")
    eight = ("EFPAG⁻(168)", "EFPAG⁻(30)", "EFPAG(168)", "EFPAG(30)", "EFPA(30)")
    drawn["fig-7-sample-size"] = _against_epsilon(found, seven)
    drawn["fig-8-variants"] = _against_epsilon(found, eight)
    drawn["corrected"] = _against_epsilon(found, ("EFPAG(30)", "gaussian", "paris", "bayes"))
    drawn["fig-9-hours"] = _hours(found)
    drawn["fig-10-boxes"] = _boxes(found)
    drawn["fig-11-maps"] = _maps(stage, found, ("LPA(30)", "EFPAG(30)", "bayes"), middle)
    drawn["chapter-fig-3-4-series"] = _series(stage, found, (("chapter⁻(30)",), ("chapter(30)",)))
    drawn["chapter-fig-5-maps"] = _maps(stage, found, ("GPA(30)", "chapter(30)"), middle)
    written = []
    for name, figure in drawn.items():
        path = out / f"{name}.internal.png"
        write_atomically(path, _saver(figure))
        written.append(path)
    return written


def _saver(figure: Any) -> Callable[[Path], None]:
    return lambda path: figure.savefig(path, format="png", dpi=110, metadata={"Software": None})


def _new(size: tuple[float, float], rows: int, columns: int) -> tuple[Any, Any]:
    figure = optional("matplotlib.figure", "The plot").Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _cells(stage: Stage) -> Any:
    """Figure 1: outlines of the zones, and the Voronoi cells of the towers."""
    figure, ((left, right),) = _new((11, 4.5), 1, 2)
    zones, towers = stage.outlines, stage.tower_outlines
    for axes, shapes, what in ((left, zones, "zones"), (right, towers, "cells of towers")):
        _outlines(axes, shapes)
        axes.set_title(f"{int((~shapely.is_empty(shapes)).sum())} {what}")
    return figure


def _cover(stage: Stage) -> Any:
    """Figure 2: mean counts of the cells of towers (a), of the zones (b), of the cover (c)."""
    figure, (panels,) = _new((15, 4.5), 1, 3)
    cover = stage.cover
    counts = np.asarray(cover.forward @ stage.at_towers).mean(axis=1)
    zones, towers = stage.outlines, stage.tower_outlines
    covered = shapely.union_all(zones[cover.zones])
    city = shapely.union_all(zones)
    inside = shapely.intersection(towers, city)
    rest = shapely.difference(inside[cover.towers], covered)
    top = float(np.quantile(counts, 0.98))
    by_tower = stage.at_towers.mean(axis=1)
    for axes, shapes, values, what in (
        (panels[0], inside, by_tower, "cells of towers"),
        (panels[1], zones, stage.truth.mean(axis=1), "zones"),
        (panels[2], np.concatenate((zones[cover.zones], rest)), counts, "cells of the cover"),
    ):
        _paint(figure, axes, shapes, values, top, "visits an hour")
        axes.set_title(f"{values.size} {what}, mean {values.mean():.0f}")
    return figure


def _outlines(axes: Any, shapes: NDArray[np.object_]) -> None:
    from matplotlib.collections import LineCollection

    rings = [
        shapely.get_coordinates(ring)
        for shape in shapely.get_parts(shapes)
        if shapely.get_dimensions(shape) == 2
        for ring in shapely.get_rings(shape)
    ]
    axes.add_collection(LineCollection(rings, colors="#374151", linewidths=0.4))
    axes.autoscale_view()
    axes.set_aspect("equal")
    axes.set_axis_off()


def _paint(
    figure: Any, axes: Any, shapes: NDArray[np.object_], values: Table, top: float, unit: str
) -> None:
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path as Outline

    def outline(shape: Any) -> Any:
        parts = [p for p in shapely.get_parts(shape) if shapely.get_dimensions(p) == 2]
        rings = [shapely.get_coordinates(r) for p in parts for r in shapely.get_rings(p)]
        if not rings:
            return Outline(np.zeros((0, 2)))
        return Outline.make_compound_path(*(Outline(ring, closed=True) for ring in rings))

    painted = PathCollection(
        [outline(shape) for shape in shapes], cmap="YlOrRd", edgecolors="white", linewidths=0.2
    )
    painted.set_array(values)
    painted.set_clim(0, top)
    axes.add_collection(painted)
    axes.autoscale_view()
    axes.set_aspect("equal")
    axes.set_axis_off()
    figure.colorbar(painted, ax=axes, shrink=0.7, label=unit, extend="max")


_SAMPLED = 30
_NIGHTS = slice(0, 32)
"""Two nights with their minima close to 4 o'clock: the close-ups of Figures 4b and 5b."""


def _series(stage: Stage, found: Results, panels: Sequence[Sequence[str]]) -> Any:
    """One zone: the week, and two nights close up; the truth and the truncated series beside.

    Truncated is what sampling leaves of it, before any noise: Figure 4 shows by it which error is
    whose.
    """
    figure = optional("matplotlib.figure", "The plot").Figure(
        figsize=(12, 2.6 * len(panels)), layout="constrained"
    )
    rows = figure.subplots(len(panels), 2, squeeze=False, width_ratios=(3, 1))
    truth = stage.truth[stage.example]
    truncated = stage.overlay.to_zones(stage.opened(_SAMPLED).sampled)[stage.example]
    for (whole, close), labels in zip(rows, panels, strict=True):
        curves = [("truth", truth, "#111827"), (f"truncated to {_SAMPLED}", truncated, "#9ca3af")]
        for colour, label in zip(_COLOURS[1:], labels, strict=False):
            one = found.of(label, found.settings.middle)
            if one is not None:
                k = stage.example
                told = f"{label}: MRE {one.zone_mre[k]:.2f}, PC {one.zone_pearson[k]:.2f}"
                curves.append((told, one.series, colour))
        for told, values, colour in curves:
            whole.plot(values, color=colour, lw=1.0, label=told)
            close.plot(np.arange(values.size)[_NIGHTS], values[_NIGHTS], color=colour, lw=1.0)
        low = np.concatenate([values[_NIGHTS] for _, values, _ in curves])
        close.set_ylim(min(0.0, float(low.min())), max(float(np.quantile(low, 0.6)), 1.0))
        whole.margins(y=0.25)  # room for the legend above the curves
        whole.legend(fontsize=8, loc="upper left", ncols=2)
        whole.set_ylabel("visits")
    rows[0][0].set_title(f"zone {stage.zones.ids[stage.example]}")
    rows[0][1].set_title("two nights")
    for axes in rows[-1]:
        axes.set_xlabel("hour of the week")
    return figure


def _against_epsilon(found: Results, labels: Sequence[str]) -> Any:
    figure, ((left, right),) = _new((10, 4), 1, 2)
    for k, label in enumerate(labels):
        scores = _by_epsilon(found, label)
        if not scores:
            continue
        at = [one.epsilon for one in scores]
        for axes, name in ((left, "mre"), (right, "pearson")):
            spread = np.nan_to_num([one.spread(name) for one in scores])
            axes.errorbar(
                at,
                [one.mean(name) for one in scores],
                yerr=spread,
                label=label,
                color=_COLOURS[k % len(_COLOURS)],
                marker="o",
                ms=3,
                ls="--" if label.startswith("LPA") else "-",
            )
    left.set_ylabel("mean relative error")
    right.set_ylabel("Pearson correlation")
    left.set_yscale("log")
    for axes in (left, right):
        axes.set_xlabel("ε")
        axes.legend(fontsize=7)
    return figure


def _by_epsilon(found: Results, label: str) -> list[Score]:
    return sorted((one for one in found.scores if one.label == label), key=lambda s: s.epsilon)


def _hours(found: Results) -> Any:
    figure, rows = _new((9, 5), 2, 1)
    for k, label in enumerate(("EFPAG⁻(30)", "EFPAG(30)", "EFPA(30)", "LPA(30)", "bayes")):
        one = found.of(label, found.settings.middle)
        if one is None:
            continue
        if not label.startswith("LPA"):
            rows[0][0].plot(one.slot_mre, lw=0.9, color=_COLOURS[k], label=label)
        hours = np.flatnonzero(np.isfinite(one.slot_emd))
        if hours.size:
            rows[1][0].plot(hours, one.slot_emd[hours], lw=0.9, color=_COLOURS[k], label=label)
    rows[0][0].set_ylabel("mean relative error")
    rows[1][0].set_ylabel("EMD (m)")
    rows[1][0].set_xlabel("hour of the week")
    for (axes,) in rows:
        axes.legend(fontsize=7)
    return figure


def _boxes(found: Results) -> Any:
    figure, ((left, right),) = _new((9, 4), 1, 2)
    scores = _by_epsilon(found, "EFPAG(30)")
    names = [f"{one.epsilon:g}" for one in scores]
    for axes, values, text in (
        (left, [one.zone_mre for one in scores], "mean relative error"),
        (right, [one.zone_pearson for one in scores], "Pearson correlation"),
    ):
        axes.boxplot(values, tick_labels=names, showfliers=False)
        axes.set_ylabel(text)
        axes.set_xlabel("ε, EFPAG(30)")
    return figure


def _maps(stage: Stage, found: Results, labels: Sequence[str], epsilon: float) -> Any:
    scores = [one for label in labels if (one := found.of(label, epsilon)) is not None]
    figure, rows = _new((4.6 * max(len(scores), 1), 8), 2, max(len(scores), 1))
    shapes = stage.outlines
    for k, one in enumerate(scores):
        _paint(figure, rows[0][k], shapes, one.zone_mre, 0.5, "MRE")
        _paint(figure, rows[1][k], shapes, one.zone_pearson, 1.0, "Pearson")
        rows[0][k].set_title(f"{one.label}: {one.zone_mre.mean():.2f}")
        rows[1][k].set_title(f"{one.label}: {one.zone_pearson.mean():.2f}")
    return figure


def _histogram(found: Results) -> Any:
    figure, ((left, right),) = _new((9, 3.6), 1, 2)
    for colour, sampling in zip(_COLOURS, (True, False), strict=False):
        same = (h for h in found.histogram if h.sampling is sampling)
        taken = sorted(same, key=lambda h: h.epsilon)
        at = [h.epsilon for h in taken]
        label = "with sampling" if sampling else "without sampling"
        left.plot(at, [h.divergence for h in taken], "o-", color=colour, label=label)
        right.plot(at, [h.mre for h in taken], "o-", color=colour, label=label)
    left.set_yscale("log")
    left.set_ylabel("Jensen-Shannon divergence (bits)")
    right.set_ylabel("MRE of totals")
    for axes in (left, right):
        axes.set_xlabel("ε′")
        axes.legend(fontsize=8)
    return figure
