"""Pages about uses of published traces: a map of chosen cells, a curve of who was reached.

Plain HTML with drawings in SVG: no script, nothing from elsewhere, every text escaped. What stands
on them was computed from published reports alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import cos, degrees, floor, log10, radians
from typing import TYPE_CHECKING

from sfumato.model.rounding import number_of, percent
from sfumato.model.sphere import EARTH_RADIUS_M
from sfumato.model.traces import Box

if TYPE_CHECKING:
    from sfumato.utility.placement import HotSpots
    from sfumato.utility.spreading import Spread

_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:54rem;"
    "margin:2rem auto;padding:0 1rem}table{border-collapse:collapse;margin:1rem 0}"
    "td,th{border:1px solid #8888;padding:.2rem .6rem;text-align:right}svg{max-width:100%;"
    "height:auto}.note{border-left:4px solid #c2410c;padding-left:.8rem}"
    "svg text{font:12px system-ui,sans-serif;fill:currentColor}"
)
_WIDE, _HIGH, _EDGE = 640, 420, 46


def hotspots_page(found: HotSpots) -> str:
    """The chosen cells on a plain map with a scale bar, and as a table."""
    per_people = found.by == "people"
    share = "users reached so far" if per_people else "share of locations"
    rows = [
        (str(c.rank), f"{c.lat:.5f}", f"{c.lon:.5f}", percent(c.share, 2), f"{c.reports:,}")
        for c in found.cells
    ]
    what = "of the users" if per_people else "of all locations (estimated)"
    parts = [
        f"<p>{number_of(len(found.cells), 'cells')} of {found.side_m:.0f} m serve "
        f"{percent(found.covered, 1)} {what}.</p>",
        _notes(found.notes),
        _cells_map(found),
        _table(("rank", "latitude", "longitude", share, "reports"), rows),
        f"<p>From {escape(found.signature)}. hotspots.csv and hotspots.geojson hold the same "
        "cells.</p>",
    ]
    return _page("Hot spots from published traces", parts)


def spread_page(found: Spread) -> str:
    """The curve of who has been reached, and the figures in words."""
    late = found.latency
    words = [
        f"Among {number_of(found.users, 'users')} a message reaches {percent(found.reached, 1)} on "
        f"average; from the sender with the least reach {percent(found.fewest, 1)}, with the most "
        f"{percent(found.most, 1)}."
    ]
    if late is not None:
        words.append(
            f"Where it arrives, half of the arrivals are within {late.median:.1f} hours of the "
            f"first report (a quarter within {late.lower:.1f}, three quarters within "
            f"{late.upper:.1f})."
        )
    parts = [
        *(f"<p>{escape(line)}</p>" for line in words),
        _notes(found.notes),
        _line(found.hours, found.curve),
        f"<p>From {escape(found.signature)}. spread.json holds every figure.</p>",
    ]
    return _page("Spreading over contacts of published traces", parts)


def _page(title: str, parts: Iterable[str]) -> str:
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>" + "\n".join(parts) + "\n</html>\n"
    )


def _notes(notes: Sequence[str]) -> str:
    return '<div class="note">' + "".join(f"<p>{escape(one)}</p>" for one in notes) + "</div>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _svg(inside: str, high: float, what: str) -> str:
    return (
        f'<svg role="img" aria-label="{escape(what)}" width="{_WIDE}" height="{high:.0f}" '
        f'viewBox="0 0 {_WIDE} {high:.0f}">{inside}</svg>'
    )


def _cells_map(found: HotSpots) -> str:
    """North is up; a cell is drawn at least 9 pixels wide, so that it can be seen."""
    box = _frame(found)
    middle = cos(radians((box.south + box.north) / 2))
    wide_m = radians(box.east - box.west) * EARTH_RADIUS_M * middle
    high_m = radians(box.north - box.south) * EARTH_RADIUS_M
    high = min(max(_WIDE * high_m / wide_m, 120.0), 900.0)
    scale = min(_WIDE / wide_m, high / high_m)
    side = max(found.side_m * scale, 9.0)
    drawn = [
        f'<rect width="{_WIDE}" height="{high:.0f}" fill="none" stroke="#8888"/>',
        *_traffic(found, box, scale, high_m * scale),
    ]
    for one in reversed(found.cells):
        x = (one.lon - box.west) / (box.east - box.west) * wide_m * scale
        y = (box.north - one.lat) / (box.north - box.south) * high_m * scale
        title = f"{one.rank}: {one.lat:.5f}, {one.lon:.5f}"
        drawn.append(
            f'<rect x="{x - side / 2:.1f}" y="{y - side / 2:.1f}" width="{side:.1f}" '
            f'height="{side:.1f}" fill="#c2410c" fill-opacity="0.75"><title>{title}</title></rect>'
        )
        if one.rank <= 10:
            drawn.append(f'<text x="{x + side:.1f}" y="{y + 4:.1f}">{one.rank}</text>')
    bar = 10 ** floor(log10(wide_m / 3))
    drawn.append(
        f'<path d="M12 {high - 12:.0f}h{bar * scale:.1f}" stroke="currentColor" stroke-width="3"/>'
        f'<text x="12" y="{high - 18:.0f}">{f"{bar / 1000:g} km" if bar >= 1000 else f"{bar:g} m"}'
        "</text>"
    )
    return _svg("".join(drawn), high, "Map of the chosen cells")


def _frame(found: HotSpots) -> Box:
    """The chosen cells with a fifth of their extent around them: far reports do not shrink them."""
    box = found.region
    if not found.cells:
        return box
    lon, lat = ([getattr(one, of) for one in found.cells] for of in ("lon", "lat"))
    side = degrees(10 * found.side_m / EARTH_RADIUS_M)
    x = max((max(lon) - min(lon)) / 5, side / cos(radians(lat[0])))
    y = max((max(lat) - min(lat)) / 5, side)
    return Box(
        max(box.west, min(lon) - x),
        max(box.south, min(lat) - y),
        min(box.east, max(lon) + x),
        min(box.north, max(lat) + y),
    )


def _traffic(found: HotSpots, frame: Box, scale: float, high: float) -> Iterable[str]:
    """Traffic in blocks of cells, in grey: where the chosen ones lie."""
    rows, columns = found.background.shape
    if not found.background.max(initial=0.0) > 0:
        return
    side = found.block_m * scale
    shade = (found.background / found.background.max()) ** 0.4
    metre = radians(1.0) * EARTH_RADIUS_M * scale
    across = cos(radians((frame.south + frame.north) / 2))
    left = (frame.west - found.region.west) * metre * across
    below = (frame.south - found.region.south) * metre
    for row in range(rows):
        for column in range(columns):
            if shade[row, column] > 0.05:
                yield (
                    f'<rect x="{column * side - left:.1f}" '
                    f'y="{high - (row + 1) * side + below:.1f}" '
                    f'width="{side:.1f}" height="{side:.1f}" fill="#808890" '
                    f'fill-opacity="{0.6 * shade[row, column]:.2f}"/>'
                )


def _line(hours: Sequence[float], shares: Sequence[float]) -> str:
    if not hours:
        return ""
    end = max(hours[-1], 1e-9)
    wide, high = _WIDE - _EDGE - 10, _HIGH - _EDGE - 10
    points = " ".join(
        f"{_EDGE + h / end * wide:.1f},{10 + (1 - s) * high:.1f}"
        for h, s in zip(hours, shares, strict=True)
    )
    ticks = "".join(
        f'<text x="4" y="{14 + (1 - share) * high:.0f}">{percent(share)}</text>'
        f'<path d="M{_EDGE} {10 + (1 - share) * high:.0f}h{wide}" stroke="#8884"/>'
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ) + "".join(
        f'<text x="{_EDGE + part * wide:.0f}" y="{_HIGH - 16}" '
        f'text-anchor="{"end" if part == 1 else "middle"}">'
        f"{part * end:.3g}</text>"
        for part in (0.0, 0.5, 1.0)
    )
    axis = f'<text x="{_EDGE + wide / 2:.0f}" y="{_HIGH - 2}" text-anchor="middle">hours</text>'
    line = f'<polyline points="{points}" fill="none" stroke="#c2410c" stroke-width="2"/>'
    return _svg(ticks + axis + line, _HIGH, "Mean share of users reached over time")
