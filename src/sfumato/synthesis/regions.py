"""Public geometry of synthesis: coarse regions of places, distances, points inside places.

All of it is computed from the places alone, so nothing here knows a person.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.geography.overlay import centres
from sfumato.geography.projection import Projection
from sfumato.model.lives import PARTS, span_of, whole_coordinates
from sfumato.model.places import PlaceKind, Places
from sfumato.model.traces import Box
from sfumato.synthesis.method import SynthFacts, people_stream

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

POINTS = 64
"""Points of a zone that made-up people may stand at."""
_DECIMALS = 6
"""Of degrees: a decimetre."""


def split_regions(centres: Floats, weights: Floats, count: int) -> Ints:
    """A region of each place: halves across the longer side until there are `count` of them.

    The heaviest part is cut next, at the middle of its weight; places of one position stay
    together by their order.
    """
    parts = [np.arange(centres.shape[0])]
    while len(parts) < count:
        heavy = max(range(len(parts)), key=lambda k: (parts[k].size > 1, weights[parts[k]].sum()))
        part = parts[heavy]
        if part.size < 2:
            break
        side = int(np.ptp(centres[part], axis=0).argmax())
        order = part[np.lexsort((part, centres[part, 1 - side], centres[part, side]))]
        half = np.searchsorted(np.cumsum(weights[order]), weights[order].sum() / 2)
        cut = int(np.clip(half + 1, 1, order.size - 1))
        parts[heavy] = order[:cut]
        parts.append(order[cut:])
    found = np.empty(centres.shape[0], np.int64)
    for number, part in enumerate(sorted(parts, key=lambda part: int(part.min()))):
        found[part] = number
    return found


REGIONS = 40
"""Of home-work pairs: 1,681 cells, of which 200,000 people fill most."""


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Public geometry of counted and of released places, on one plane."""

    counted: Floats
    """Centres of counted places, metres."""
    main: Ints
    """The released place that most of each counted one lies in."""
    shares: Floats | None
    """Counted x released, where these differ."""
    at: Floats
    """Released places in the coordinates of a life's question."""
    region: Ints
    part: Ints
    """Of released places."""
    span: tuple[float, float, float]
    regions: int


def ground_of(facts: SynthFacts) -> Ground:
    """Where places are, from the lists of places alone. A tower that moved stands where it first
    stood."""
    assert facts.places is not None
    places, counted = facts.places, facts.counted or facts.places
    plane = Projection.around(places)
    ids, first, row = np.unique(places.ids, return_index=True, return_inverse=True)
    released, before = centres(places, plane)[first], centres(counted, plane)
    before = np.where(np.isfinite(before), before, released.mean(axis=0))
    shares = None
    main = row.astype(np.int64)
    if facts.public.overlay is not None:
        shares = np.asarray(facts.public.overlay.shares.todense(), dtype=np.float64)
        main = shares.argmax(axis=1).astype(np.int64)
    elif ids.size != len(places):
        shares = (row[:, None] == np.arange(ids.size)[None, :]).astype(np.float64)
    span = span_of(released)
    ones = np.ones(ids.size)
    region = split_regions(released, ones, REGIONS)
    return Ground(
        before,
        main,
        shares,
        whole_coordinates(released, span),
        region,
        split_regions(released, ones, PARTS),
        span,
        int(region.max()) + 1,
    )


def points_inside(places: Places, seed: int) -> tuple[Floats, Floats]:
    """`POINTS` points of each place, place x point: longitudes and latitudes in it for certain.

    Drawn uniformly from the box of the zone until enough lie inside; towers are where they are.
    """
    shapes = places.geometry
    if places.kind is PlaceKind.TOWERS:
        at = shapely.get_coordinates(shapes)
        return tuple(np.repeat(at[:, side, None], POINTS, axis=1) for side in (0, 1))  # type: ignore[return-value]
    random = people_stream(seed, "points")
    west, south, east, north = shapely.bounds(shapes).T
    found = np.zeros((len(places), POINTS, 2))
    inner = shapely.point_on_surface(shapes)
    found[:] = shapely.get_coordinates(inner)[:, None, :]
    missing = np.ones((len(places), POINTS), np.bool_)
    shapely.prepare(shapes)
    for _ in range(12):
        row, column = np.nonzero(missing)
        if row.size == 0:
            break
        drawn = random.random((row.size, 2))
        lon = np.round(west[row] + drawn[:, 0] * (east - west)[row], _DECIMALS)
        lat = np.round(south[row] + drawn[:, 1] * (north - south)[row], _DECIMALS)
        good = shapely.contains_properly(shapes[row], shapely.points(lon, lat))
        found[row[good], column[good]] = np.stack([lon, lat], axis=1)[good]
        missing[row[good], column[good]] = False
    return found[..., 0].copy(), found[..., 1].copy()


SIDE = 32
"""Cells of a public box on a side, for the density of made-up traces."""


def box_cells(box: Box) -> Places:
    """`SIDE` x `SIDE` cells of a public box, west to east in each row from the south."""
    wide, high = (box.east - box.west) / SIDE, (box.north - box.south) / SIDE
    row, column = np.divmod(np.arange(SIDE * SIDE), SIDE)
    west, south = box.west + column * wide, box.south + row * high
    shapes = shapely.box(west, south, west + wide, south + high)
    ids = [f"r{r:02d}c{c:02d}" for r, c in zip(row, column, strict=True)]
    return Places.of(PlaceKind.ZONES, ids, np.asarray(shapes, dtype=object))


def with_cells(facts: SynthFacts) -> SynthFacts:
    """The facts, with cells of the public box as places where traces have none of their own."""
    if facts.places is not None:
        return facts
    assert facts.box is not None
    cells = box_cells(facts.box)
    public = replace(facts.public, place_ids=cells.ids)
    return replace(facts, places=cells, public=public)


def cell_in_box(box: Box, lon: Floats, lat: Floats) -> Ints:
    """The cell of each point; those outside are in the nearest."""
    sides = ((lon - box.west) / (box.east - box.west), (lat - box.south) / (box.north - box.south))
    column, row = (np.clip(np.floor(side * SIDE), 0, SIDE - 1).astype(np.int64) for side in sides)
    return np.asarray(row * SIDE + column, dtype=np.int64)


def own_point(user: Ints, place: Ints) -> Ints:
    """Where in a place each person stands: the same point whenever they come back."""
    return (user * 2654435761 + place * 40503) % 4294967291 % POINTS
