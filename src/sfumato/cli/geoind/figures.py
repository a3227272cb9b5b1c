"""The six figures as PNG files, where matplotlib is installed (`plots` extra)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks.traces.interpolate import interpolate
from sfumato.cli.geoind import paper
from sfumato.cli.geoind.sources import Source
from sfumato.cli.geoind.studies import Hotspots, Linking, Spreading
from sfumato.privacy.noise import SeededStream
from sfumato.traces.level import Strength
from sfumato.traces.mechanisms.independent import independent
from sfumato.traces.mechanisms.windows import on_printed_clock

_MOST_POINTS = 200_000
_MAPS = (100.0, 250.0, 1000.0)


def available() -> bool:
    """Whether figures can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def _axes(rows: int, columns: int, size: float = 4.0) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size * columns, size * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def draw_all(
    folder: Path,
    source: Source,
    placed: Hotspots,
    spread: Spreading,
    linked: Linking,
    network: dict[str, Any],
    seed: int,
) -> list[str]:
    """Names of the files that were made."""
    slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in source.name.lower())
    made = {
        "figure1": _scatter(source),
        "figure2": _one_trace(source, seed),
        "figure3": _scores(placed, source.is_geolife),
        "figure4": _heat_maps(placed),
        "figure5": _curves(spread, source.is_geolife),
        "figure6": _network(network) if network else _confusion(linked),
    }
    names = []
    for name, figure in made.items():
        names.append(f"{slug}-{name}.internal.png")
        figure.savefig(folder / names[-1], dpi=80, metadata={"Software": None})
    return names


def _scatter(source: Source) -> Any:
    figure, axes = _axes(1, 1, 6.0)
    every = max(len(source.traces) // _MOST_POINTS, 1)
    some = source.traces.pick(np.arange(0, len(source.traces), every))
    axes[0, 0].scatter(some.lon, some.lat, s=0.2, c=some.user % 20, cmap="tab20", linewidths=0)
    axes[0, 0].set_title(f"{source.name}: colours are users")
    return figure


def _one_trace(source: Source, seed: int) -> Any:
    lengths = np.diff(source.traces.starts)
    trip = int(np.argsort(lengths)[-max(lengths.size // 50, 1)])
    start = int(source.traces.starts[trip])
    true = source.traces.pick(np.arange(start, start + int(lengths[trip])))
    strength, stream = Strength.from_noise(100.0), SeededStream(seed).child("figure2")
    frozen = on_printed_clock(true, 300, strength, stream.child("windows"))
    panels = {
        "a trip": true,
        "independent, 100 m": independent(true, strength, stream.child("independent")),
        "windows of 5 min, 100 m": frozen,
        "windows, interpolated": interpolate(frozen, 300),
    }
    figure, axes = _axes(2, 2)
    for axis, (title, trace) in zip(axes.ravel(), panels.items(), strict=True):
        axis.plot(trace.lon, trace.lat, ".-", markersize=3, linewidth=0.6)
        axis.set_title(title)
    return figure


def _scores(placed: Hotspots, is_geolife: bool) -> Any:
    figure, axes = _axes(1, 1, 5.0)
    noise = [row.noise_m for row in placed.rows]
    axis = axes[0, 0]
    axis.plot(noise, [100 * row.plain for row in placed.rows], "o-", label="reports")
    axis.plot(noise, [100 * row.updated for row in placed.rows], "s-", label="after the update")
    early = [100 * row.stopped_early for row in placed.rows]
    axis.plot(noise, early, "d-", label="update, stopped early")
    for k, label in enumerate(("paper, reports", "paper, update")):
        known = [(n, 100 * (v[k] or 0.0)) for n, v in paper.HOTSPOT.items() if v[k] is not None]
        if is_geolife:
            axis.plot(*zip(*known, strict=True), "x--", label=label)
    axis.set(xlabel="expected noise (m)", ylabel="traffic in chosen cells (%)")
    axis.legend()
    return figure


def _heat_maps(placed: Hotspots) -> Any:
    shown = [noise for noise in _MAPS if noise in placed.maps] or list(placed.maps)[:1]
    figure, axes = _axes(len(shown), 2)
    for row, noise in enumerate(shown):
        for column, field in enumerate(placed.maps[noise]):
            scaled = np.log1p(field / max(field.max(), 1e-300) * 1e4)
            axes[row, column].imshow(scaled, origin="lower", cmap="inferno")
            axes[row, column].set_title(f"{noise:g} m" + (", updated" if column else ""))
    return figure


def _curves(spread: Spreading, is_geolife: bool) -> Any:
    figure, axes = _axes(1, 1, 5.0)
    axis = axes[0, 0]
    axis.axhline(100 * spread.baseline, color="black", linestyle=":", label="no noise")
    for name, rates in spread.rates.items():
        axis.plot(spread.noises, [100 * rate for rate in rates], "o-", label=name)
    if is_geolife:
        axis.axhline(100 * paper.BASELINE, color="grey", linestyle="--", label="paper, no noise")
    axis.set(xlabel="expected noise (m)", ylabel="users reached (%)")
    axis.legend()
    return figure


def _confusion(linked: Linking) -> Any:
    shown = [name for name in linked.confusion if name != "no noise"]
    figure, axes = _axes(1, len(shown))
    for axis, name in zip(axes.ravel(), shown, strict=True):
        axis.imshow(linked.confusion[name], cmap="Blues")
        axis.set(title=f"{name}: {linked.rates[name]:.0%}", xlabel="linked to", ylabel="user")
    return figure


def _network(found: dict[str, Any]) -> Any:
    figure, axes = _axes(1, len(found))
    for axis, (name, row) in zip(axes.ravel(), found.items(), strict=True):
        table = np.array(row["confusion"], float)
        axis.imshow(table / np.maximum(table.sum(axis=1, keepdims=True), 1.0), cmap="Blues")
        axis.set(title=f"{name}: {row['accuracy']:.0%}", xlabel="guessed", ylabel="class")
    return figure
