"""A grid is recognised by the middles of its zones, and nothing else is."""

from __future__ import annotations

import numpy as np
import shapely

from sfumato.model.places import PlaceKind, Places
from sfumato.streams.facts import grid_columns


def zones(middles: list[tuple[float, float]]) -> Places:
    ids = [f"z{k:04d}" for k in range(len(middles))]
    boxes = [shapely.Point(x, y).buffer(0.001, cap_style="square") for x, y in middles]
    return Places.of(PlaceKind.ZONES, ids, boxes)


def test_rows_of_squares_are_a_grid() -> None:
    assert (
        grid_columns(zones([(2 + x / 100, 48 + y / 150) for y in range(5) for x in range(7)])) == 7
    )
    southward = [(2 + x / 100, 48 - y / 150) for y in range(3) for x in range(4)]
    assert grid_columns(zones(southward)) == 4


def test_squares_of_a_plane_are_not_quite_even_in_degrees() -> None:
    bent = [
        (2 + x * (1 + y / 400) / 100, 48 + (y + x / 300) / 150) for y in range(9) for x in range(9)
    ]
    assert grid_columns(zones(bent)) == 9


def test_towers_a_missing_square_and_scattered_zones_are_none() -> None:
    full = [(2 + x / 100, 48 + y / 150) for y in range(4) for x in range(4)]
    assert grid_columns(zones(full[:-1])) is None
    assert grid_columns(zones([*full[:5], (2.5, 48.5), *full[6:]])) is None
    towers = Places.of(PlaceKind.TOWERS, list("abcd"), [shapely.Point(x, 1) for x in range(4)])
    assert grid_columns(towers) is None
    rng = np.random.default_rng(0)
    assert grid_columns(zones([(x, y) for x, y in rng.uniform(0, 1, (30, 2))])) is None
    assert grid_columns(zones([(x, 0.0) for x in range(6)])) is None
