"""Zones as shared arcs: every border is held once, simplified once, and drawn once.

Rings on an integer lattice are cut at junctions, the points where borders part. A piece
between two junctions is an arc, stored in one direction and referred to by both neighbours
(the other way round as ~index). Because an arc is simplified by itself and its ends stay,
neighbours keep sharing it: no slivers and no gaps appear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import shapely
from numpy.typing import NDArray

Ring = NDArray[np.int64]
Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Topology:
    """Arcs on the lattice, and for each zone its rings as lists of arc references."""

    arcs: tuple[tuple[Point, ...], ...]
    zones: tuple[tuple[tuple[int, ...], ...], ...]


def build_topology(zones: Sequence[Sequence[Ring]], tolerance: float = 0.0) -> Topology:
    """Cut, share and simplify. Rings are closed (last point equals first) and may be given
    in any direction; those with fewer than three distinct points are dropped."""
    rings = [[_clean(ring) for ring in zone] for zone in zones]
    rings = [[ring for ring in zone if len(ring) >= 3] for zone in rings]
    junctions = _junctions([ring for zone in rings for ring in zone])
    arcs: list[tuple[Point, ...]] = []
    index: dict[tuple[Point, ...], int] = {}

    def reference(piece: tuple[Point, ...]) -> int:
        back = piece[::-1]
        key, turned = (piece, False) if piece <= back else (back, True)
        if key not in index:
            index[key] = len(arcs)
            arcs.append(key)
        return ~index[key] if turned else index[key]

    built = tuple(
        tuple(tuple(map(reference, _pieces(ring, junctions))) for ring in zone) for zone in rings
    )
    if tolerance <= 0 or not arcs:
        return Topology(tuple(arcs), built)
    return Topology(_simplified(arcs, built, tolerance), built)


def ring_points(topology: Topology, ring: Sequence[int]) -> list[Point]:
    """A ring's points in order, the first not repeated."""
    points: list[Point] = []
    for ref in ring:
        arc = topology.arcs[~ref][::-1] if ref < 0 else topology.arcs[ref]
        points.extend(arc[:-1])
    return points


def _clean(ring: Ring) -> list[Point]:
    """Distinct consecutive points, open."""
    points: list[Point] = [(int(x), int(y)) for x, y in ring]
    kept = [p for k, p in enumerate(points) if k == 0 or p != points[k - 1]]
    while len(kept) > 1 and kept[0] == kept[-1]:
        kept.pop()
    return kept


def _junctions(rings: list[list[Point]]) -> set[Point]:
    """Points whose neighbours are not the same pair wherever they occur."""
    seen: dict[Point, frozenset[Point]] = {}
    parted: set[Point] = set()
    for ring in rings:
        for k, point in enumerate(ring):
            pair = frozenset((ring[k - 1], ring[(k + 1) % len(ring)]))
            if seen.setdefault(point, pair) != pair:
                parted.add(point)
    return parted


def _pieces(ring: list[Point], junctions: set[Point]) -> list[tuple[Point, ...]]:
    cuts = [k for k, point in enumerate(ring) if point in junctions]
    if not cuts:  # an island: one closed arc, begun where every ring through it would begin
        start = min(range(len(ring)), key=lambda k: ring[k])
        turned = ring[start:] + ring[:start]
        return [(*turned, turned[0])]
    turned = ring[cuts[0] :] + ring[: cuts[0]] + [ring[cuts[0]]]
    marks = [k - cuts[0] for k in cuts] + [len(ring)]
    return [tuple(turned[a : b + 1]) for a, b in pairwise(marks)]


def _simplified(
    arcs: list[tuple[Point, ...]], zones: tuple[tuple[tuple[int, ...], ...], ...], tolerance: float
) -> tuple[tuple[Point, ...], ...]:
    lines = np.array([shapely.LineString(arc) for arc in arcs], dtype=object)
    thin: NDArray[np.object_] = np.asarray(
        shapely.simplify(lines, tolerance, preserve_topology=False), dtype=object
    )
    lighter = [tuple((int(x), int(y)) for x, y in shapely.get_coordinates(t)) for t in thin]
    trial = Topology(tuple(lighter), zones)
    whole = Topology(tuple(arcs), zones)
    result = list(lighter)
    for zone in zones:  # a zone that would nearly vanish keeps its outline as it is
        for ring in zone:
            before, after = _area(ring_points(whole, ring)), _area(ring_points(trial, ring))
            if after < 0.5 * before or after == 0:
                for ref in ring:
                    k = ~ref if ref < 0 else ref
                    result[k] = arcs[k]
    return tuple(result)


def _area(points: list[Point]) -> float:
    if len(points) < 3:
        return 0.0
    xy = np.array(points, dtype=np.float64)
    x, y = xy[:, 0], xy[:, 1]
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
