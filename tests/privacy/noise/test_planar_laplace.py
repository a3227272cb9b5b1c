"""Planar Laplace on the sphere: law, uniform direction, every latitude, precision, lattice."""

from __future__ import annotations

import time

import mpmath
import numpy as np
import pyproj
import pytest
from scipy import stats

from sfumato.errors import UsageError
from sfumato.model.sphere import EARTH_RADIUS_M, great_circle, step_on_sphere
from sfumato.privacy.events import MetricEvent, Tab
from sfumato.privacy.noise import KeyedStream, SeededStream
from sfumato.privacy.noise.planar import (
    ELLIPSOID_FACTOR,
    TAU_M,
    Lattice,
    Strength,
    move,
    planar_laplace,
    polar,
)
from sfumato.traces import sanitise_location

pytestmark = pytest.mark.privacy

GEOD = pyproj.Geod(ellps="WGS84")
PLACES = [(12.0, 0.0), (2.35, 49.0), (25.0, 60.0), (-70.0, 85.0), (179.9999, 12.0), (-180.0, -49.0)]


def radius_law(radius: np.ndarray, noise: float) -> np.ndarray:
    """Distribution function of Gamma(2, noise / 2)."""
    x = 2 * radius / noise
    return 1 - (1 + x) * np.exp(-x)


@pytest.mark.parametrize(("lon", "lat"), PLACES)
def test_radius_and_azimuth_against_pyproj(lon: float, lat: float) -> None:
    """KS accepts the stated scale and rejects one that is 2 % off, at every latitude."""
    n, noise = 150_000, 100.0
    here = np.full(n, lon), np.full(n, lat)
    stream = SeededStream(int(lat * 10 + lon))
    found = planar_laplace(*here, Strength.from_noise(noise), stream)
    _, _, metres = GEOD.inv(*here, *found)
    assert stats.kstest(metres, lambda r: radius_law(r, noise)).pvalue > 1e-3
    for wrong in (0.98, 1.02):
        assert stats.kstest(metres, lambda r: radius_law(r, wrong * noise)).pvalue < 1e-4  # noqa: B023
    # Directions before snapping: the lattice has columns, and reports exactly north of here.
    some = slice(0, 40_000)
    unsnapped = move(here[0][some], here[1][some], *polar(40_000, 2 / noise, stream.child("more")))
    azimuth, _, _ = GEOD.inv(here[0][some], here[1][some], *unsnapped)
    assert stats.kstest(np.mod(azimuth, 360.0) / 360.0, "uniform").pvalue > 1e-3


def test_known_quantiles() -> None:
    radius, _ = polar(400_000, 0.02, SeededStream(3))
    found = np.quantile(radius, [0.5, 0.9, 0.95, 0.99])
    assert found == pytest.approx([83.917, 194.486, 237.193, 331.918], rel=0.01)
    for noise, share in ((50, 0.594), (100, 0.2642), (250, 0.0616), (1000, 0.0047)):
        assert (radius * noise / 100 <= 50).mean() == pytest.approx(share, abs=0.003)


def test_density_is_even_on_the_sphere() -> None:
    """At 3,000 km of noise the acceptance step matters: z = cos(r/R) has density e^(-eps r)."""
    per_metre = 2 / 3_000_000
    radius, _ = polar(60_000, per_metre, SeededStream(4))
    grid = np.linspace(0, np.pi * EARTH_RADIUS_M, 20_001)
    density = np.exp(-per_metre * grid) * np.sin(grid / EARTH_RADIUS_M)
    cdf = np.cumsum(density) / density.sum()
    assert radius.max() <= np.pi * EARTH_RADIUS_M
    assert stats.kstest(radius, lambda r: np.interp(r, grid, cdf)).pvalue > 1e-3
    assert stats.kstest(radius, stats.gamma(2, scale=1 / per_metre).cdf).pvalue < 1e-6


def test_arithmetic_stays_within_tau() -> None:
    """The step in doubles against fifty digits, near poles and at the date line too."""
    rng = np.random.default_rng(5)
    n = 150
    lon = rng.choice([-180.0, 179.999999, 2.3, 0.0], n)
    lat = rng.choice([90.0, -90.0, 89.9999, 49.123456, 0.0, -60.0], n)
    radius = 10 ** rng.uniform(-1, 7.2, n)
    azimuth = rng.uniform(0, 2 * np.pi, n)
    got_lon, got_lat = move(lon, lat, radius, azimuth)
    mpmath.mp.dps = 50
    for i in range(n):
        phi, a = mpmath.radians(mpmath.mpf(lat[i])), mpmath.mpf(radius[i]) / EARTH_RADIUS_M
        az = mpmath.mpf(azimuth[i])
        x = mpmath.cos(phi) * mpmath.cos(a) - mpmath.sin(phi) * mpmath.cos(az) * mpmath.sin(a)
        y = mpmath.sin(az) * mpmath.sin(a)
        z = mpmath.sin(phi) * mpmath.cos(a) + mpmath.cos(phi) * mpmath.cos(az) * mpmath.sin(a)
        turn = mpmath.radians(mpmath.mpf(lon[i]))
        true = (
            x * mpmath.cos(turn) - y * mpmath.sin(turn),
            x * mpmath.sin(turn) + y * mpmath.cos(turn),
            z,
        )
        p, q = mpmath.radians(mpmath.mpf(got_lat[i])), mpmath.radians(mpmath.mpf(got_lon[i]))
        got = (mpmath.cos(p) * mpmath.cos(q), mpmath.cos(p) * mpmath.sin(q), mpmath.sin(p))
        apart = mpmath.sqrt(sum((s - t) ** 2 for s, t in zip(true, got, strict=True)))
        assert apart * EARTH_RADIUS_M < TAU_M / 2


def test_lattice_hides_low_bits_and_keeps_its_cells_wide() -> None:
    lattice = Lattice()
    rng = np.random.default_rng(6)
    lat = np.degrees(np.arcsin(rng.uniform(-1, 1, 5000)))
    lat[:6] = [90, -90, 89.99999, 89.9999, 60.00001, 0]
    lon = rng.uniform(-180, 180, 5000)
    to_lon, to_lat = lattice.snap(lon, lat)
    assert np.array_equal(to_lon, np.rint(to_lon * 1e5) / 1e5)
    assert np.array_equal(to_lat, np.rint(to_lat * 1e5) / 1e5)
    assert great_circle(lon, lat, to_lon, to_lat).max() < 1.2
    again = lattice.snap(to_lon.copy(), to_lat.copy())
    assert np.array_equal(again[0], to_lon)
    assert np.array_equal(again[1], to_lat)
    assert set(np.unique(to_lon[np.abs(to_lat) == 90])) == {0.0} or set(
        np.unique(to_lon[np.abs(to_lat) == 90])
    ) == {-180.0, 0.0}


def test_finite_precision_is_paid_for() -> None:
    lattice = Lattice()
    for noise in (5, 100, 1000, 100_000):
        per_metre = 2 / noise
        drawn = lattice.drawn_per_metre(per_metre)
        assert 0 < drawn < per_metre
        assert drawn + lattice.excess(drawn) / lattice.step_m <= per_metre * (1 + 1e-12)
        assert lattice.excess(per_metre) < 5e-6


def test_audit_of_two_close_points() -> None:
    """No set of reports is more than e^(eps d) likelier under one of two points 50 m apart."""
    n, d = 400_000, 50.0
    strength = Strength.from_noise(100.0)
    lat = 48.85
    shift = np.degrees(d / EARTH_RADIUS_M)
    counts = []
    for k, where in enumerate((lat, lat + shift)):
        noisy = planar_laplace(np.full(n, 2.35), np.full(n, where), strength, SeededStream(70 + k))
        y = np.radians(noisy[1] - lat) * EARTH_RADIUS_M
        counts.append(np.histogram(y, bins=np.arange(-400, 451, 25))[0])
    a, b = (c.astype(float) for c in counts)
    busy = (a > 500) & (b > 500)
    ratio = np.log(a[busy] / b[busy])
    spread = np.sqrt(1 / a[busy] + 1 / b[busy])
    limit = strength.per_metre * d
    assert (np.abs(ratio) <= limit + 4 * spread).all()
    # The audit has teeth: the far bins reach at least 80 % of the bound.
    assert np.abs(ratio).max() > 0.8 * limit


def test_no_low_bits_leak() -> None:
    """Reports of two close points share one support: the lattice."""
    strength = Strength.from_noise(20.0)
    for lon in (2.35, 2.35 + 3e-9):
        noisy = planar_laplace(np.full(2000, lon), np.full(2000, 48.0), strength, SeededStream(9))
        assert (np.abs(noisy[0] * 1e5 - np.rint(noisy[0] * 1e5)) < 1e-6).all()


def test_ten_draws_and_ten_more_are_twenty() -> None:
    stream, whole = KeyedStream(b"k" * 32, "a"), KeyedStream(b"k" * 32, "a")
    first, more = polar(1000, 0.02, stream), polar(1500, 0.02, stream)
    both = polar(2500, 0.02, whole)
    assert np.array_equal(np.concatenate((first[0], more[0])), both[0])
    assert np.array_equal(np.concatenate((first[1], more[1])), both[1])


def test_speed() -> None:
    """Ten million points in eight CPU-seconds; here half a million, with room for noise."""
    lon, lat = np.full(500_000, 2.35), np.full(500_000, 48.85)
    planar_laplace(lon[:10], lat[:10], Strength(0.02), KeyedStream(b"k" * 32, "warm"))
    before = time.process_time()
    planar_laplace(lon, lat, Strength(0.02), KeyedStream(b"k" * 32, "timed"))
    assert time.process_time() - before < 0.8


def test_ellipsoid_factor_bounds_every_pair() -> None:
    rng = np.random.default_rng(8)
    lon, lat = rng.uniform(-180, 180, 4000), rng.uniform(-90, 90, 4000)
    other_lon, other_lat = (
        lon + rng.normal(0, 5, 4000),
        np.clip(lat + rng.normal(0, 5, 4000), -90, 90),
    )
    _, _, ellipsoid = GEOD.inv(lon, lat, other_lon, other_lat)
    assert (great_circle(lon, lat, other_lon, other_lat) <= ELLIPSOID_FACTOR * ellipsoid).all()
    assert ELLIPSOID_FACTOR < 1.0057


def test_the_pole_is_a_place_like_any_other() -> None:
    n = 20_000
    noisy = planar_laplace(
        np.zeros(n), np.full(n, 90.0), Strength.from_noise(100.0), SeededStream(2)
    )
    metres = great_circle(np.zeros(n), np.full(n, 90.0), *noisy)
    assert stats.kstest(metres, stats.gamma(2, scale=50).cdf).pvalue > 1e-3
    assert stats.kstest((noisy[0] + 180) / 360, "uniform").pvalue > 1e-3


def test_single_location_on_a_device() -> None:
    tab = Tab()
    lon, lat = sanitise_location(2.35, 48.85, expected_noise_m=100, budget=tab)
    assert tab.charged == {"location": MetricEvent(0.02, "planar Laplace")}
    tab = Tab()
    other = sanitise_location(2.35, 48.85, radius_m=200, level=float(np.log(4)), budget=tab)
    assert abs(lon - 2.35) < 1
    assert abs(lat - 48.85) < 1
    assert (lon, lat) != other
    with pytest.raises(UsageError):
        sanitise_location(2.35, 48.85, budget=Tab())
    with pytest.raises(UsageError, match="not in degrees"):
        sanitise_location(2.35, 4885.0, expected_noise_m=100, budget=tab)
    with pytest.raises(UsageError, match="missing"):
        sanitise_location(float("nan"), 48.85, expected_noise_m=100, budget=tab)
    assert len(tab.charged) == 1  # the caller's slip costs nothing


def test_step_keeps_longitude_in_range() -> None:
    lon, lat = np.array([179.999, -179.999]), np.array([0.0, 0.0])
    step_on_sphere(lon, lat, np.array([1000.0, 1000.0]), np.array([np.pi / 2, 1.5 * np.pi]))
    assert ((lon >= -180) & (lon < 180)).all()
    assert lon[0] < 0 < lon[1]
