"""Figures for papers: the map of a slot, a zone's series, every zone and slot as a strip.

    plot("release/week-37", "map", slot=12).savefig("noon.svg")
    write_figures("release/week-37", "figures")          # PNG and SVG of all three

Drawn with matplotlib from the release folder alone; the same folder gives the same picture.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.io.write import make_folder, write_atomically
from sfumato.model.places import PlaceKind
from sfumato.published.release import Release, as_release
from sfumato.reports.encode import areas_km2, project
from sfumato.reports.privacy_label import label_facts, load_words, upward

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("map", "series", "strip")
_SHARES = (0.12, 0.32, 0.53, 0.73, 0.88, 0.97)


def plot(
    folder: str | Path | Release,
    kind: str = "map",
    *,
    slot: int | None = None,
    zone: str | None = None,
) -> Figure:
    """A matplotlib figure. `slot` defaults to the busiest, `zone` to the sum over all zones."""
    return _drawn(as_release(folder), kind, slot, zone)


def _drawn(release: Release, kind: str, slot: int | None = None, zone: str | None = None) -> Figure:
    _matplotlib()
    if kind not in KINDS:
        raise UsageError(f"There is no figure {kind!r}.", remedy=f"Take {', '.join(KINDS)}.")
    if slot is not None and not 0 <= slot < release.values.shape[1]:
        raise UsageError(f"There is no slot {slot}.", remedy="Slots are counted from 0.")
    if zone is not None and zone not in release.ids:
        raise UsageError(f"There is no zone {zone!r}.", remedy="Zones are named by their ids.")
    if kind == "map":
        return _map(release, _busiest(release) if slot is None else slot)
    return _series(release, zone) if kind == "series" else _strip(release)


def write_figures(folder: str | Path | Release, out: str | Path) -> list[Path]:
    """PNG and SVG of every figure the release allows (no map without outlines)."""
    release = as_release(folder)
    target = make_folder(Path(out))
    kinds = [k for k in KINDS if k != "map" or _outlines(release) is not None]
    written = []
    for kind in kinds:
        drawn = _drawn(release, kind)
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


def _map(release: Release, slot: int) -> Figure:
    from matplotlib.collections import PathCollection
    from matplotlib.colors import BoundaryNorm, ListedColormap

    shapes = _outlines(release)
    if shapes is None:
        raise UsageError(
            "The release has no outlines of zones, so it has no map.",
            remedy="Draw the series or the strip instead.",
        )
    areas = np.array(areas_km2(shapes))
    per = np.where(areas > 0, areas, np.nan)[:, None]
    dense = release.values / per
    lowest = min(0.0, float(np.nanmin(dense)))
    bounds = np.unique([_round(v) for v in np.nanquantile(dense, _SHARES)])
    bounds = bounds[bounds > lowest]  # where most zones are empty, most quantiles are zero
    # A quantile near the top may be rounded to above it.
    edges = [lowest, *bounds, max(float(np.nanmax(dense)), *bounds, lowest) + 1]
    drawn, axes = new_figure((6.4, 5.6))
    colours = _colours("YlGnBu", len(edges) - 1)
    lon, lat = shapely.get_coordinates(shapely.envelope(shapes)).mean(axis=0)
    collection = PathCollection(
        [_path(shape, float(lon), float(lat)) for shape in shapes],
        cmap=ListedColormap(colours).with_extremes(bad="#d8d6d0"),
        norm=BoundaryNorm(edges, len(colours)),
        edgecolors="white",
        linewidths=0.3 if len(shapes) > 200 else 0.6,
    )
    collection.set_array(np.ma.masked_invalid(dense[:, slot]))
    axes.add_collection(collection)
    axes.autoscale_view()
    axes.set_aspect("equal")
    axes.set_axis_off()
    bar = drawn.colorbar(collection, ax=axes, shrink=0.7, spacing="uniform", format="{x:,.4g}")
    bar.ax.set_title(f"{_unit(release)}\nper km²", fontsize=8, loc="left")
    bar.set_ticks(bounds.tolist())
    start = release.grid.start(slot)
    axes.set_title(f"{start:%A %d %B %Y, %H:%M} ({start.tzname()})", fontsize=10, loc="left")
    return _signed(drawn, release)


def _series(release: Release, zone: str | None) -> Figure:
    drawn, axes = new_figure((7.2, 3.0))
    hours = _hours(release)
    if zone is None:
        axes.plot(hours, np.nansum(release.values, axis=0), color="#c2410c", lw=1.6)
        title = "All zones together (no interval is stated for sums)"
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


def _strip(release: Release) -> Figure:
    drawn, axes = new_figure((7.2, 4.2))
    order = np.argsort(-np.nansum(release.values, axis=1), kind="stable")
    hours = _hours(release)
    image = axes.imshow(
        release.values[order], aspect="auto", cmap="cividis", interpolation="nearest",
        vmax=float(np.nanquantile(release.values, 0.99)),
        extent=(0, float(hours[-1] + 1), len(order), 0),
    )  # fmt: skip
    drawn.colorbar(image, ax=axes, label=f"{_unit(release)} per zone and slot", extend="max")
    axes.set_ylabel("zones, busiest first")
    _days(axes, release)
    return _signed(drawn, release)


def new_figure(size: tuple[float, float]) -> tuple[Figure, Any]:
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
    loss = f"ε = {upward(privacy.epsilon)}, δ = {upward(privacy.delta)}, unit {privacy.unit}"
    warnings = label_facts(release.manifest.model_dump(mode="json"), load_words())["warnings"]
    text = " ".join(warnings or ["Differentially private estimates."]) + f" {loss}"
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


def _outlines(release: Release) -> NDArray[np.object_] | None:
    """Outlines of zones; towers have none."""
    return release.geometry if release.manifest.released.kind == PlaceKind.ZONES else None


def _busiest(release: Release) -> int:
    return int(np.argmax(np.nansum(release.values, axis=0)))


def _round(value: float) -> float:
    return float(f"{value:.1g}") if value > 0 else 0.0


def _colours(name: str, size: int) -> list[Any]:
    import matplotlib as mpl

    return list(mpl.colormaps[name](np.linspace(0.05, 1, size)))


def _matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401 - only asked whether it is there
    except ImportError:
        raise UsageError(
            "Figures need matplotlib, which is not installed.",
            remedy="Install it with pip install 'sfumato[plots]'.",
        ) from None
