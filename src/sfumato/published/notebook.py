"""How a release shows itself in a notebook: a small map or strip, its privacy, its first rows.

Plain HTML and SVG, made from published facts alone: no script, no style sheet, no reference to
anything elsewhere, every text escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from html import escape

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from sfumato.model.rounding import number_of, rounded_up
from sfumato.published.manifest import Manifest
from sfumato.published.statement import whose

Table = NDArray[np.float64]
_COLOURS = ("#eef5e4", "#cfe8c3", "#a2d5b8", "#67bcb3", "#3596ab", "#22678f", "#1d3b6b")
_SHARES = (0.12, 0.32, 0.53, 0.73, 0.88, 0.97)
"""As on the page: more classes at the busy end."""
_WIDE, _HIGH = 260, 170
_MOST_SHAPES = 3000
"""Beyond this a map is hundreds of kilobytes in every notebook that shows it: a strip is drawn."""
_ROWS, _COLUMNS = 34, 84


def shown(
    manifest: Manifest,
    rows: pa.Table,
    values: Table | None,
    shapes: NDArray[np.object_] | None,
    sealed: bool = True,
) -> str:
    """The whole piece of HTML.

    Args:
        manifest: The privacy statement.
        rows: The first rows of the table.
        values: Counts, place x slot; none for traces.
        shapes: Outlines of the places, where they were published.
        sealed: Whether digests vouch for the numbers.
    """
    picture = ""
    if values is not None:
        outlines = shapes is not None and _drawable(shapes)
        picture = _map(values, shapes) if outlines and shapes is not None else _strip(values)
    label = "".join(
        f"<div><b>{escape(term)}</b> {escape(text)}</div>"
        for term, text in _label(manifest, sealed)
        if text
    )
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:16px;align-items:flex-start;font-size:90%">'
        f'{picture}<div style="max-width:34em">{label}</div>{_table(rows)}</div>'
    )


def _label(manifest: Manifest, sealed: bool) -> Iterable[tuple[str, str]]:
    privacy, grid = manifest.privacy, manifest.grid
    yield manifest.release.name, f"({manifest.kind})"
    warned = manifest.tainted or manifest.scheme.as_published or not manifest.differential_privacy
    yield ("Not private.", "These numbers protect nobody." if warned else "")
    yield "take note", " ".join(manifest.caveats)
    yield "protects", whose(privacy.unit, privacy.neighbours)
    per = " per metre" if privacy.method == "per metre" else ""
    yield "privacy loss", f"ε = {rounded_up(privacy.epsilon)}{per}, δ = {rounded_up(privacy.delta)}"
    yield "method", manifest.scheme.name
    times = f"{grid.start[:16]} to {grid.end[:16]}".replace("T", " ", 2)
    yield "period", f"{times if grid.fold is None else grid.days()} ({grid.tz})"
    if manifest.kind != "traces":
        places = number_of(manifest.released.count, manifest.released.kind)
        yield "table", f"{places} × {number_of(grid.slots, 'slots')}"
    yield "not sealed", "" if sealed else "no manifest yet: no digest vouches for these numbers"


def _drawable(shapes: NDArray[np.object_]) -> bool:
    return 0 < sum(shape is not None for shape in shapes) <= _MOST_SHAPES


def _classes(values: Table) -> NDArray[np.int64]:
    """The colour of each value; -1 where there is none."""
    known = values[np.isfinite(values)]
    bounds = np.quantile(known, _SHARES) if known.size else np.zeros(len(_SHARES))
    found = np.searchsorted(bounds, values, side="right")
    return np.where(np.isfinite(values), found, -1)


def _fill(kind: int) -> str:
    return "#d8d6d0" if kind < 0 else _COLOURS[min(kind, len(_COLOURS) - 1)]


def _map(values: Table, shapes: NDArray[np.object_]) -> str:
    """The busiest slot, per unit of area; towers as dots."""
    slot = int(np.argmax(np.nansum(values, axis=0)))
    left, bottom, right, top = shapely.total_bounds(shapes)
    flat = float(np.cos(np.radians((bottom + top) / 2)))
    scale = min(_WIDE / max((right - left) * flat, 1e-9), _HIGH / max(top - bottom, 1e-9))

    def place(points: Table) -> Table:
        east = (points[:, 0] - left) * flat * scale
        return np.column_stack([east, (top - points[:, 1]) * scale])

    area = shapely.area(shapes)
    sized = np.where(area > 0, area, np.nan) if np.nansum(area) > 0 else 1.0
    kinds = _classes(values[:, slot] / sized)
    placed = shapely.simplify(shapely.transform(shapes, place), 0.4)
    parts = []
    for shape, kind in zip(placed, kinds, strict=True):
        if shape is None or shapely.is_empty(shape):
            continue
        if shapely.get_dimensions(shape) < 2:
            x, y = shapely.get_coordinates(shapely.centroid(shape))[0]
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{_fill(kind)}"/>')
            continue
        rings = (ring for part in shapely.get_parts(shape) for ring in shapely.get_rings(part))
        path = "".join(
            "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in shapely.get_coordinates(ring)[:-1]) + "Z"
            for ring in rings
        )
        parts.append(f'<path d="{path}" fill="{_fill(kind)}"/>')
    drawn = "".join(parts)
    return _svg(f'<g fill-rule="evenodd" stroke="#fff" stroke-width="0.4">{drawn}</g>', "map")


def _strip(values: Table) -> str:
    """Every place and slot, busiest places first, neighbours averaged to what can be seen."""
    order = np.argsort(-np.nansum(values, axis=1), kind="stable")
    rows = np.array_split(order, min(_ROWS, values.shape[0]))
    columns = np.array_split(np.arange(values.shape[1]), min(_COLUMNS, values.shape[1]))
    filled = np.nan_to_num(values)
    means = np.array([[filled[np.ix_(r, c)].mean() for c in columns] for r in rows])
    wide, high = _WIDE / means.shape[1], _HIGH / means.shape[0]
    cells = "".join(
        f'<rect x="{k * wide:.1f}" y="{i * high:.1f}" width="{wide:.2f}" height="{high:.2f}" '
        f'fill="{_fill(kind)}"/>'
        for i, line in enumerate(_classes(means))
        for k, kind in enumerate(line)
    )
    return _svg(cells, "every place and slot, busiest places first")


def _svg(inside: str, what: str) -> str:
    return (
        f'<svg role="img" aria-label="{what}" width="{_WIDE}" height="{_HIGH}" '
        f'viewBox="0 0 {_WIDE} {_HIGH}">{inside}</svg>'
    )


def _table(rows: pa.Table) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in rows.column_names)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(_text(cell))}</td>" for cell in row.values()) + "</tr>"
        for row in rows.to_pylist()
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def _text(cell: object) -> str:
    if isinstance(cell, datetime):
        return cell.isoformat(" ", "minutes")
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
