from __future__ import annotations

import numpy as np
import shapely

from sfumato.city import CityPlan, build_city
from sfumato.reports.encode import build_topology, encode_outlines, project, ring_points


def square(x: int, y: int, size: int = 10) -> np.ndarray:
    corners = [(x, y), (x + size, y), (x + size, y + size), (x, y + size), (x, y)]
    return np.array(corners, dtype=np.int64)


def test_neighbours_share_one_arc_in_opposite_directions() -> None:
    topology = build_topology([[square(0, 0)], [square(10, 0)]])
    assert len(topology.arcs) == 3
    left, right = (set(zone[0]) for zone in topology.zones)
    shared = [ref for ref in left if ~ref in right]
    assert len(shared) == 1
    assert set(topology.arcs[max(shared[0], ~shared[0])]) == {(10, 0), (10, 10)}


def test_every_ring_comes_back_as_it_was() -> None:
    zones = [[square(0, 0, 30), square(10, 10)], [square(10, 10)], [square(30, 0, 30)]]
    topology = build_topology(zones)
    for rings, built in zip(zones, topology.zones, strict=True):
        for ring, refs in zip(rings, built, strict=True):
            assert shapely.Polygon(ring).equals(shapely.Polygon(ring_points(topology, refs)))
    assert {max(ref, ~ref) for ref in topology.zones[0][1]} == {
        max(ref, ~ref) for ref in topology.zones[1][0]
    }, "an island and the hole it lies in share their arc"


def test_simplified_neighbours_still_meet_without_gaps_or_overlaps() -> None:
    city = build_city(CityPlan(users=100, towers=60, zones=60, seed=3))
    degrees = shapely.get_coordinates(city.zones.geometry)
    low = degrees.min(axis=0)
    zones = [
        [
            np.rint((shapely.get_coordinates(ring) - low) * 40_000).astype(np.int64)
            for ring in shapely.get_rings(shape)
        ]
        for shape in city.zones.geometry
    ]
    whole, light = build_topology(zones), build_topology(zones, tolerance=25.0)
    assert sum(map(len, light.arcs)) < 0.8 * sum(map(len, whole.arcs))

    def shapes(topology):  # type: ignore[no-untyped-def]
        return [
            shapely.Polygon(
                ring_points(topology, zone[0]), [ring_points(topology, r) for r in zone[1:]]
            )
            for zone in topology.zones
        ]

    after = shapes(light)
    assert all(shape.area > 0 for shape in after)
    united = shapely.unary_union(after).area
    total = sum(shape.area for shape in after)
    assert abs(total - united) < 1e-3 * total, "no overlaps"
    assert abs(united - shapely.unary_union(shapes(whole)).area) < 0.01 * united, "no gaps"


def test_dots_and_zones_without_a_shape_are_kept() -> None:
    points = np.array([shapely.Point(2.3, 48.8), shapely.Point(2.4, 48.9), None], dtype=object)
    data = encode_outlines(points)
    assert data is not None
    assert data["km2"] == [0.0, 0.0, 0.0]
    assert encode_outlines(np.array([None, None], dtype=object)) is None


def test_the_plane_keeps_areas() -> None:
    box = shapely.segmentize(shapely.box(2.0, 48.5, 2.6, 49.0), 0.01)
    flat = shapely.Polygon(project(shapely.get_coordinates(box), 2.3, 48.75))
    data = encode_outlines(np.array([box], dtype=object))
    assert data is not None
    assert abs(flat.area / 1e6 / data["km2"][0] - 1) < 0.005


def test_zones_on_both_sides_of_the_date_line_lie_side_by_side() -> None:
    fiji = np.array([shapely.box(179.5, -17, 180, -16), shapely.box(-180, -17, -179.5, -16)])
    data = encode_outlines(fiji)
    assert data is not None
    assert abs(abs(data["lon"]) - 180) < 0.01
    assert data["metres"] * data["size"][0] < 120_000
