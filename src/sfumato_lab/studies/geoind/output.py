"""The study of geo-indistinguishable traces as an internal page and six figures.

The page has our figures beside the paper's; the figures are PNG files, where matplotlib is
installed (`plots` extra).
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks.traces.run import classifier_table, head, percent, table
from sfumato.privacy.noise import SeededStream
from sfumato.privacy.noise.planar import Strength
from sfumato.privacy.wall import Wall
from sfumato.traces.interpolation import interpolate
from sfumato.traces.mechanisms import simulated
from sfumato_lab.studies.geoind import study
from sfumato_lab.studies.geoind.study import Hotspots, Linking, Source, Spreading

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
        "figure6": _confusion_figure(network) if network else _confusion(linked),
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
    strength, wall = Strength.from_noise(100.0), Wall.seeded(SeededStream(seed).child("figure2"))
    frozen = simulated(true, strength, wall, "windows", window_s=300)
    panels = {
        "a trip": true,
        "independent, 100 m": simulated(true, strength, wall, "independent"),
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
        known = [(n, 100 * (v[k] or 0.0)) for n, v in study.HOTSPOT.items() if v[k] is not None]
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
        axis.axhline(100 * study.BASELINE, color="grey", linestyle="--", label="paper, no noise")
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


def _confusion_figure(found: dict[str, Any]) -> Any:
    figure, axes = _axes(1, len(found))
    for axis, (name, row) in zip(axes.ravel(), found.items(), strict=True):
        table = np.array(row["confusion"], float)
        axis.imshow(table / np.maximum(table.sum(axis=1, keepdims=True), 1.0), cmap="Blues")
        axis.set(title=f"{name}: {row['balanced']:.0%}", xlabel="guessed", ylabel="class")
    return figure


_TITLE = "Sanitised traces in two uses and one attack"


def page(results: list[dict[str, Any]]) -> str:
    """One page for all data sets."""
    parts = [head(_TITLE), f"<h1>{_TITLE}</h1>"]
    for result in results:
        parts += [f"<h2>{escape(result['name'])}</h2>"]
        parts += [f"<p>{escape(note)}</p>" for note in result["notes"]]
        parts += [_hotspots(result), _gossip(result), _linking(result), _network(result)]
        parts += [f'<p><img src="{escape(n)}" alt="{escape(n)}"></p>' for n in result["figures"]]
    parts += ["<h2>Beside the paper</h2><ul>", *(f"<li>{escape(r)}</li>" for r in study.REMARKS)]
    return "\n".join([*parts, "</ul></html>", ""])


def _hotspots(result: dict[str, Any]) -> str:
    placed = result["hotspots"]
    rows = []
    for row in placed["rows"]:
        theirs = study.HOTSPOT.get(row["noise_m"], (None, None))
        rows.append(
            [
                f"{row['noise_m']:g} m",
                percent(row["plain"]),
                f"{percent(row['plain_low'])} to {percent(row['plain_high'])}",
                percent(row["updated"]),
                percent(row["stopped_early"]),
                percent(theirs[0]),
                percent(theirs[1]),
                f"{row['last_change']:.1e}",
            ]
        )
    columns = ["noise", "reports", "ways to break ties", "updated, 50 steps", "stopped early"]
    columns += ["paper, reports", "paper, updated"]
    text = (
        f"<h3>Hot spots</h3><p>{placed['hotspots']:,} of {placed['cells']:,} cells are non-empty "
        f"and chosen; the paper has {study.HOTSPOTS:,} of {study.CELLS:,} (Geolife).</p>"
    )
    return text + table([*columns, "change in the last step"], rows)


def _gossip(result: dict[str, Any]) -> str:
    spread = result["gossip"]
    rows = [[name, *(percent(rate) for rate in rates)] for name, rates in spread["rates"].items()]
    text = (
        f"<h3>Gossip</h3><p>Without noise a message reaches {percent(spread['baseline'])} of the "
        f"users (paper, Geolife: {percent(study.BASELINE)}; with windows of 2 and 10 minutes at "
        "1000 m about 50 % and 20 %).</p>"
    )
    late = [
        [name, *("" if v is None else f"{v:.0f}" for v in values)]
        for name, values in spread["latencies"].items()
    ]
    baseline = spread["latency"]
    columns = ["", *(f"{noise:g} m" for noise in spread["noises"])]
    more = (
        "<p>Mean minutes from the first slot to an arrival, over pairs that are reached"
        f"{'' if baseline is None else f'; without noise {baseline:.0f}'}:</p>"
    )
    return text + table(columns, rows) + more + table(columns, late)


def _linking(result: dict[str, Any]) -> str:
    linked = result["linking"]
    rows = [
        [name, percent(rate), percent(study.CLASSIFIER.get(name))]
        for name, rate in linked["rates"].items()
    ]
    text = (
        "<h3>Who is recognised at 100 m of noise</h3><p>By heat maps of the first half of the "
        f"period; guessing gets {percent(linked['chance'])}. The paper's column is its recurrent "
        "network among eleven classes, a different task.</p>"
    )
    return text + table(["reports", "linked to their user", "paper's network"], rows)


def _network(result: dict[str, Any]) -> str:
    if not result["classifier"]:
        return "<p>The recurrent network was not trained (it needs the extra rnn).</p>"
    text = (
        "<h3>The recurrent network among eleven classes</h3><p>Ten users and the rest, at 100 m; "
        "units, windows, optimiser, split and what it is told of known trips are ours, the paper "
        "does not print its own. The headline is the mean over classes: always guessing the "
        "largest class wins in accuracy. The nearest training window by mean place stands beside "
        "it.</p>"
    )
    return text + classifier_table(result["classifier"], study.CLASSIFIER)
