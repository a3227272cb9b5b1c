"""Figures for papers: the map of a slot, a zone's series, every zone and slot as a strip.

    plot("release/week-37", "map", slot=12).savefig("noon.svg")
    write_figures("release/week-37", "figures")          # PNG and SVG of all three

Drawn with matplotlib from the release folder alone; the same folder gives the same picture.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.io.write import make_folder, write_atomically
from sfumato.model.extras import optional
from sfumato.published.release import Release, as_release
from sfumato.reports.classes import (
    bar_text,
    faded,
    measured,
    scale_bar,
    sequential,
    shown_bounds,
)
from sfumato.reports.encode import project
from sfumato.reports.privacy_label import label_facts, load_words, unit_words, upward

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("map", "series", "strip")
_LINES = "#1b1d2680"
_GROUND, _MISSING, _INK, _HATCH = "#e4e2db", "#d8d6d0", "#1b1d26", "\\\\\\\\"
"""The page's ground, on which uncertain places fade; its grey; its ink; falling lines."""


def plot(
    folder: str | Path | Release,
    kind: str = "map",
    *,
    slot: int | None = None,
    zone: str | None = None,
) -> Figure:
    """A matplotlib figure. `slot` defaults to the busiest, `zone` to the sum over all zones."""
    return _drawn(as_release(folder), kind, slot, zone)


def _drawn(
    release: Release,
    kind: str,
    slot: int | None = None,
    zone: str | None = None,
    bounds: Mapping[str, list[float]] | None = None,
) -> Figure:
    _matplotlib()
    if kind not in KINDS:
        raise UsageError(f"There is no figure {kind!r}.", remedy=f"Take {', '.join(KINDS)}.")
    if slot is not None and not 0 <= slot < release.values.shape[1]:
        raise UsageError(f"There is no slot {slot}.", remedy="Slots are counted from 0.")
    if zone is not None and zone not in release.ids:
        raise UsageError(f"There is no zone {zone!r}.", remedy="Zones are named by their ids.")
    if kind == "map":
        return _map(release, _busiest(release) if slot is None else slot, bounds)
    return _series(release, zone) if kind == "series" else _strip(release, bounds)


def write_figures(
    folder: str | Path | Release,
    out: str | Path,
    bounds: Mapping[str, list[float]] | None = None,
) -> list[Path]:
    """PNG and SVG of every figure the release allows (no map without shapes of places).

    `bounds` are the page's, where it shows several releases.
    """
    release = as_release(folder)
    target = make_folder(Path(out))
    kinds = [k for k in KINDS if k != "map" or release.geometry is not None]
    written = []
    for kind in kinds:
        drawn = _drawn(release, kind, bounds=bounds)
        for suffix, save in (("png", png), ("svg", svg)):
            path = target / f"{kind}.{suffix}"
            write_atomically(path, save(drawn))
            written.append(path)
    return written


def png(drawn: Figure) -> Callable[[Path], None]:
    return lambda path: drawn.savefig(path, format="png", dpi=200, metadata={"Software": None})


def svg(drawn: Figure) -> Callable[[Path], None]:
    import matplotlib as mpl

    def save(path: Path) -> None:
        with mpl.rc_context({"svg.hashsalt": "sfumato", "svg.fonttype": "none"}):
            drawn.savefig(path, format="svg", metadata={"Date": None})

    return save


def _map(release: Release, slot: int, bounds: Mapping[str, list[float]] | None) -> Figure:
    """Classes, colours and faded places are those of the page (`reports.classes`)."""
    from matplotlib.patches import Patch, PathPatch

    shapes = release.geometry
    if shapes is None:
        raise UsageError(
            "The release has no shapes of places, so it has no map.",
            remedy="Draw the series or the strip instead.",
        )
    table, edges, colours, title = _classed(release, bounds)
    shown = table[:, slot]
    kinds = np.digitize(shown, edges)
    unsure = np.zeros(shown.size, bool) if release.uncertain is None else release.uncertain[:, slot]
    drawn, axes = new_figure((7.0, 5.6))
    middle = shapely.get_coordinates(shapely.envelope(shapes)).mean(axis=0)
    lon, lat = float(middle[0]), float(middle[1])
    fine = 0.3 if len(shapes) > 200 else 0.6
    for shape, value, kind, doubt in zip(shapes, shown, kinds, unsure, strict=True):
        known = bool(np.isfinite(value))
        look = {
            "facecolor": _MISSING if not known else _colour(colours[kind], doubt),
            "hatch": _HATCH if doubt and known else None,
        }
        if shapely.get_dimensions(shape) == 0:
            x, y = project(shapely.get_coordinates(shape), lon, lat)[0]
            axes.scatter([x], [y], s=46, edgecolors="#1b1d26", linewidths=0.5, **look)
        elif not (shapely.is_missing(shape) or shapely.is_empty(shape)):
            outline = _path(shape, lon, lat)
            axes.add_patch(PathPatch(outline, edgecolor="white", linewidth=fine, **look))
            if look["hatch"]:  # the hatch takes the colour of the edge, which is white
                over = {"facecolor": "none", "edgecolor": _LINES, "linewidth": 0, "hatch": _HATCH}
                axes.add_patch(PathPatch(outline, **over))
    axes.autoscale_view()
    axes.set_aspect("equal")
    axes.set_axis_off()
    _bar(axes)
    further = []
    if unsure.any():
        hatched = Patch(facecolor=_GROUND, edgecolor=_LINES, hatch=_HATCH, linewidth=0)
        further.append((hatched, "uncertain: error over\nhalf of the value"))
    if not np.isfinite(shown).all():
        further.append((Patch(facecolor=_MISSING), "no number"))
    _legend(axes, edges, colours, title, further)
    start, end = release.grid.start(slot), release.grid.end(slot)
    hours = f"{start:%H:%M}–{end:%H:%M}" if end - start < timedelta(days=1) else "all day"
    day = f"{start:%A} {start.day} {start:%B %Y}"
    axes.set_title(f"{day}, {hours} ({start.tzname()})", fontsize=10, loc="left")
    return _signed(drawn, release)


def _classed(
    release: Release, bounds: Mapping[str, list[float]] | None
) -> tuple[NDArray[np.float64], list[float], list[str], str]:
    """What the page colours by: the table, its classes, their colours, and what they are of."""
    tables = measured(release)
    measure = next(iter(tables))
    edges = (bounds or shown_bounds([tables]))[measure]
    per = "km²" if measure == "density" else release.manifest.released.kind.removesuffix("s")
    return tables[measure], edges, sequential(len(edges) + 1), f"{_unit(release)} per {per}"


def _legend(
    axes: Any,
    edges: list[float],
    colours: list[str],
    title: str,
    further: Sequence[tuple[Any, str]] = (),
) -> None:
    from matplotlib.patches import Patch

    named = [Patch(facecolor=c, edgecolor="#80808060") for c in reversed(colours)]
    axes.legend(
        [*named, *(patch for patch, _ in further)],
        [*class_names(edges)[::-1], *(text for _, text in further)],
        title=title, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8,
        title_fontsize=8, alignment="left", borderaxespad=0.0,
    )  # fmt: skip


ONE_CLASS = "one class: the numbers hardly differ"
"""As the page says it."""


def class_names(edges: Sequence[float]) -> list[str]:
    """What each class holds, as the page's legend says it."""
    if not edges:
        return [ONE_CLASS]
    said = [f"{edge:,.6g}" for edge in edges]
    between = [f"{low} – {high}" for low, high in pairwise(said)]
    return [f"< {said[0]}", *between, f"≥ {said[-1]}"]


def _colour(colour: str, doubt: bool) -> str:
    return faded(colour, _GROUND) if doubt else colour


def _bar(axes: Any) -> None:
    """A scale bar; the plane is in metres."""
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    metres, _ = scale_bar(1.0, 0.22 * (right - left))
    x, y, tick = left, bottom - 0.02 * (top - bottom), 0.012 * (top - bottom)
    axes.plot([x, x, x + metres, x + metres], [y + tick, y, y, y + tick], color=_INK, lw=1.2)
    axes.text(x + metres / 2, y + tick, bar_text(metres), ha="center", va="bottom", fontsize=8)


def _series(release: Release, zone: str | None) -> Figure:
    drawn, axes = new_figure((7.2, 3.0))
    hours = _hours(release)
    if zone is None:
        axes.plot(hours, np.nansum(release.values, axis=0), color="#c2410c", lw=1.6)
        ends = _total_ends(release)
        if ends is not None:
            axes.fill_between(hours, *ends, color="#c2410c", alpha=0.18)
        said = "" if ends is not None else " (no interval is stated for sums)"
        title = f"All {release.manifest.released.kind} together{said}"
    else:
        k = int(np.flatnonzero(release.ids == zone)[0])
        if release.lower is not None and release.upper is not None:
            band = (release.lower[k], release.upper[k])
            axes.fill_between(hours, *band, color="#c2410c", alpha=0.18)
        axes.plot(hours, release.values[k], color="#c2410c", lw=1.4)
        title = release.names[k]
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_ylabel(_unit(release))
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.spines[["top", "right"]].set_visible(False)
    _days(axes, release)
    return _signed(drawn, release)


def _total_ends(release: Release) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Ends of the interval of every slot's sum, as the page has them."""
    if release.total_interval is not None:
        return release.total_interval[:, 0], release.total_interval[:, 1]
    if release.posterior is None:
        return None
    zones, slots = release.values.shape
    _, low, high = release.posterior.estimates(np.ones((1, zones)), np.eye(slots))
    return low, high


def _strip(release: Release, bounds: Mapping[str, list[float]] | None) -> Figure:
    """A row for every place and a column for every slot, in the classes of the map."""
    from matplotlib.colors import ListedColormap

    table, edges, colours, title = _classed(release, bounds)
    drawn, axes = new_figure((7.2, 4.2))
    kind = str(release.manifest.released.kind)
    order = np.argsort(-np.nansum(release.values, axis=1), kind="stable")
    hours = _hours(release)
    axes.imshow(
        np.where(np.isfinite(table), np.digitize(table, edges), np.nan)[order],
        cmap=ListedColormap(colours), vmin=-0.5, vmax=len(colours) - 0.5, aspect="auto",
        interpolation="nearest", extent=(0, float(hours[-1] + 1), len(order), 0),
    )  # fmt: skip
    axes.set_facecolor(_MISSING)
    _legend(axes, edges, colours, title)
    axes.set_ylabel(f"{kind}, busiest first")
    _days(axes, release)
    return _signed(drawn, release)


def new_figure(size: tuple[float, float]) -> tuple[Figure, Any]:
    _matplotlib()
    drawn = _shown()(figsize=size, layout="constrained")
    return drawn, drawn.subplots()


@cache
def _shown() -> type[Figure]:
    """A figure that a notebook shows without pyplot, whose registry would keep it for ever."""
    from matplotlib.figure import Figure

    class Shown(Figure):
        def _repr_png_(self) -> bytes:
            sink = io.BytesIO()
            self.savefig(sink, format="png", dpi=144)
            return sink.getvalue()

    return Shown


def _signed(drawn: Figure, release: Release) -> Figure:
    """Every figure says how private it is."""
    privacy = release.manifest.privacy
    loss = f"ε = {upward(privacy.epsilon)}, δ = {upward(privacy.delta)}"
    words = load_words(kinds=[release.manifest.released.kind])
    warnings = label_facts(release.manifest.model_dump(mode="json"), words)["warnings"]
    loss += f", protecting {unit_words(str(privacy.unit), words)}."
    about = release.manifest.about
    said = [f"{about.title}."] if about and about.title else []
    text = " ".join([*said, *(warnings or ["Differentially private estimates."]), loss])
    drawn.supxlabel(text, fontsize=7, color="#5c6070", x=0.01, ha="left")
    return drawn


def _path(shape: Any, lon: float, lat: float) -> Any:
    from matplotlib.path import Path as Outline

    rings = [
        project(shapely.get_coordinates(ring), lon, lat)
        for part in shapely.get_parts(shape)
        if shapely.get_dimensions(part) == 2
        for ring in shapely.get_rings(part)
    ]
    if not rings:
        return Outline(np.zeros((0, 2)))
    return Outline.make_compound_path(*(Outline(ring, closed=True) for ring in rings))


def _hours(release: Release) -> NDArray[np.float64]:
    edges = release.grid.edges
    hours: NDArray[np.float64] = (edges[:-1] - edges[0]) / 3.6e9
    return hours


def _days(axes: Any, release: Release) -> None:
    """Marks at local midnights."""
    starts, hours = release.grid.starts(), _hours(release)
    marks = [k for k, t in enumerate(starts) if k == 0 or t.date() != starts[k - 1].date()]
    marks = marks[:: max(1, len(marks) // 10)]
    axes.set_xticks([hours[k] for k in marks], [f"{starts[k]:%a %d}" for k in marks], fontsize=8)
    axes.set_xlim(0, float(hours[-1] + 1))


def _unit(release: Release) -> str:
    return release.manifest.privacy.counting


def _busiest(release: Release) -> int:
    return int(np.argmax(np.nansum(release.values, axis=0)))


def _matplotlib() -> None:
    optional("matplotlib", "Drawing a figure")
