from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.city import CityPlan, Geometry, build_city, write_city
from sfumato.city.map import Ground, generate_ground
from sfumato.errors import InputError
from sfumato.geography.projection import Plane
from sfumato.io.zones import read_zones

DATA = os.environ.get("SFUMATO_DATA")


def check_cover(ground: Ground) -> None:
    """Zones are valid, do not overlap, and leave nothing of the region out."""
    assert shapely.is_valid(ground.zone_shapes).all()
    areas = shapely.area(ground.zone_shapes)
    # On a millimetre lattice: at full precision the union itself can lose a piece.
    whole = shapely.union_all(ground.zone_shapes, grid_size=1e-3)
    assert areas.sum() == pytest.approx(whole.area, rel=1e-6)
    assert whole.area == pytest.approx(ground.region.area, rel=1e-6)
    assert shapely.symmetric_difference(whole, ground.region).area < 1e-6 * ground.region.area


@settings(max_examples=8, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), zones=st.integers(4, 120), area=st.floats(1, 2_000))
def test_zones_cover_the_region_without_overlap(seed: int, zones: int, area: float) -> None:
    ground = generate_ground(CityPlan(users=100, towers=20, zones=zones, seed=seed, area_km2=area))
    assert len(ground.zone_shapes) == zones
    assert ground.region.area == pytest.approx(area * 1e6)
    check_cover(ground)


@pytest.fixture(scope="module")
def paris() -> Ground:
    """The ground of the Paris study: 1,303 towers, 989 zones."""
    return generate_ground(CityPlan(users=1_000_000))


def test_the_city_of_the_paris_study(paris: Ground) -> None:
    ground = paris
    check_cover(ground)
    assert ground.region.area == pytest.approx(105e6)
    lived_in = ground.residents[~ground.parks]
    assert lived_in.std() / lived_in.mean() < 0.1, "about equal population"
    assert ground.parks.sum() == 12
    assert ground.residents[ground.parks].max() < 0.1 * lived_in.min()
    assert ground.residents.sum() == pytest.approx(1_100_000, rel=1e-3)
    assert len(set(ground.districts)) == 20


def test_towers_are_dense_in_the_centre_and_some_stand_outside(paris: Ground) -> None:
    ground = paris
    points = shapely.points(ground.tower_points)
    away = shapely.distance(ground.region, points)
    assert 0.08 < (away > 0).mean() < 0.16
    assert away.max() <= 3_000
    radius = np.hypot(*ground.tower_points.T)
    edge = np.sqrt(ground.region.area / np.pi)
    core = (radius < 0.4 * edge).sum() / 0.16
    rest = ((radius >= 0.4 * edge) & (away == 0)).sum() / 0.84
    assert core > 1.7 * rest, "towers per area"
    assert np.unique(ground.tower_points, axis=0).shape[0] == 1_303


def test_the_same_plan_gives_the_same_map_and_another_seed_another() -> None:
    small = {"users": 100, "towers": 30, "zones": 20}
    one, two = (build_city(CityPlan(**small, seed=5)) for _ in range(2))  # type: ignore[arg-type]
    other = build_city(CityPlan(**small, seed=6))  # type: ignore[arg-type]
    assert one.zones.fingerprint() == two.zones.fingerprint() != other.zones.fingerprint()
    assert one.towers.fingerprint() == two.towers.fingerprint() != other.towers.fingerprint()


def test_land_use_is_a_share_of_the_city() -> None:
    city = build_city(CityPlan(users=100, towers=60, zones=40))
    np.testing.assert_allclose(city.land_use.sum(axis=0), 1.0)
    assert city.tower_attraction.sum() == pytest.approx(1.0)
    assert {"homes", "offices", "nightlife", "park"} <= set(city.labels)


def test_the_plane_keeps_lengths_and_returns() -> None:
    plane = Plane(2.35, 48.86)
    there = np.array([[3_000.0, -4_000.0]])
    back = plane.to_metres(plane.to_degrees(there))
    np.testing.assert_allclose(back, there, atol=1e-6)
    # A degree of latitude at 48.86 N measures 111.2 km on the ellipsoid.
    assert plane.metres_per_degree[1] == pytest.approx(111_206, abs=20)


@pytest.mark.real_data
@pytest.mark.skipif(DATA is None, reason="SFUMATO_DATA is not set: no real map of Paris")
def test_the_real_map_of_paris() -> None:
    city = build_city(CityPlan(users=1_000, geometry=Geometry.PARIS, data=Path(str(DATA))))
    assert len(city.zones) == 992
    assert city.ground.region.area == pytest.approx(105.38e6, rel=0.005)
    assert int(city.tower_inside.sum()) == pytest.approx(1_375, abs=5)
    assert len(city.towers) > 1_375
    assert city.ground.residents.sum() == 1_926_666
    check_cover_loosely = shapely.area(city.ground.zone_shapes).sum()
    assert check_cover_loosely == pytest.approx(city.ground.region.area, rel=1e-4)


def test_a_missing_map_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="iris_paris"):
        build_city(CityPlan(geometry=Geometry.PARIS, data=tmp_path))


def test_zones_are_valid_in_the_decimals_that_are_written(tmp_path: Path) -> None:
    for seed, zones in ((1, 500), (2, 450)):
        plan = CityPlan(users=100, towers=600, zones=zones, seed=seed)
        write_city(plan, tmp_path / str(seed))
        assert len(read_zones(tmp_path / str(seed) / "zones.geojson")) == zones
