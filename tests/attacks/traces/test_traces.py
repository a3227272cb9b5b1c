"""Each attack does what it says, on cases whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.attacks.traces.denoise import (
    average_after_interpolation,
    expected_error_m,
    most_likely_place,
    moving_average,
)
from sfumato.attacks.traces.reidentify import (
    SIDE_M,
    Visits,
    halves,
    link,
    top_places,
    unicity,
    wilson,
)
from sfumato.errors import UsageError
from sfumato.model.sphere import great_circle
from sfumato.model.traces import MICROSECONDS, Traces
from sfumato.privacy.noise import SeededStream
from sfumato.privacy.noise.planar import Strength, planar_laplace
from sfumato.privacy.wall import Wall
from sfumato.traces.cells import Cells
from sfumato.traces.interpolation import interpolate, resample
from sfumato.traces.mechanisms import simulated

NOON_US = 1_225_540_800 * MICROSECONDS


def walk(fixes: int, every_s: int = 5, trips: int = 1) -> Traces:
    """One user walking east at 1.4 m/s, several times."""
    step = np.tile(np.arange(fixes), trips)
    trip = np.repeat(np.arange(trips), fixes)
    lon = 116.3 + np.degrees(step * every_s * 1.4 / (6_371_008.8 * np.cos(np.radians(39.9))))
    return Traces(
        np.array(["w"], dtype=object),
        np.zeros(step.size, np.int64),
        trip,
        NOON_US + (step + trip * 10_000) * every_s * MICROSECONDS,
        lon,
        np.full(step.size, 39.9),
        np.arange(step.size),
    )


def error_m(true: Traces, guess: Traces) -> float:
    return float(great_circle(true.lon, true.lat, guess.lon, guess.lat).mean())


def test_interpolation_draws_the_path_between_windows() -> None:
    true = walk(240)
    frozen = simulated(true, Strength.from_noise(5.0), Wall.seeded(1), "noise", window_s=120)
    drawn = interpolate(frozen, 120)
    assert error_m(true, drawn) < 0.4 * error_m(true, frozen)
    assert np.allclose(drawn.lon[::24], frozen.lon[::24])  # anchors stay
    assert np.unique(drawn.lon[-24:]).size == 1  # nothing follows the last window


def test_interpolation_does_not_cross_trips() -> None:
    true = walk(24, trips=2)
    drawn = interpolate(
        simulated(true, Strength.from_noise(5.0), Wall.seeded(2), "noise", window_s=60), 60
    )
    assert np.unique(drawn.lon[12:24]).size == 1


def test_interpolation_crosses_the_date_line() -> None:
    two = walk(2, every_s=60).at(np.array([179.99, -179.99]), np.zeros(2))
    middle = resample(two, 30.0)
    assert abs(abs(middle.lon[1]) - 180.0) < 1e-6


def test_resample_keeps_the_path() -> None:
    sparse = walk(5, every_s=60)
    dense = resample(sparse, 5.0)
    assert len(dense) == 49
    assert np.allclose(dense.lon[::12], sparse.lon)
    assert np.diff(dense.lon).std() < 1e-9


def test_plain_average_removes_noise_and_the_printed_one_stands_still() -> None:
    true = walk(400)
    noisy = simulated(true, Strength.from_noise(100.0), Wall.seeded(3), "noise")
    smooth = moving_average(noisy, 20)
    assert error_m(true, smooth) < 0.4 * error_m(true, noisy)
    printed = moving_average(noisy, 20, as_published=True)
    assert np.array_equal(printed.lon[:20].round(9), noisy.lon[:20].round(9))
    assert np.ptp(printed.lon[-50:]) < 1e-7
    assert error_m(true, printed) > error_m(true, smooth)


def test_recursive_average_by_hand() -> None:
    three = walk(5).at(np.array([0.0, 2.0, 4.0, 99.0, 99.0]) * 1e-4, np.zeros(5))
    out = moving_average(three, 2, as_published=True).lon * 1e4
    assert np.allclose(out, [0, 2, 1, 1.5, 1.25], atol=1e-6)
    plain = moving_average(three, 2).lon * 1e4
    assert np.allclose(plain, [0, 1, 3, 51.5, 99], atol=1e-6)
    with pytest.raises(UsageError):
        moving_average(three, 0)


def test_second_attack_after_the_first() -> None:
    true = walk(600)
    frozen = simulated(true, Strength.from_noise(60.0), Wall.seeded(4), "noise", window_s=120)
    both = average_after_interpolation(frozen, 120, 48)
    assert error_m(true, both) < error_m(true, frozen)


@pytest.mark.parametrize(("reports", "metres"), [(100, 8.6), (1000, 2.7)])
def test_a_stationary_user_is_found(reports: int, metres: float) -> None:
    """1,000 reports at 100 m of noise give a place away to 2.7 m."""
    errors = []
    for trial in range(40):
        here = np.full(reports, 2.35), np.full(reports, 48.85)
        noisy = planar_laplace(*here, Strength.from_noise(100.0), SeededStream(100 + trial))
        lon, lat = most_likely_place(*noisy)
        errors.append(great_circle(*(np.array([v]) for v in (2.35, 48.85, lon, lat)))[0])
    assert np.mean(errors) == pytest.approx(metres, rel=0.25)
    assert expected_error_m(100.0, reports) == pytest.approx(metres, rel=0.1)


def crowd(users: int, fixes: int, seed: int, spread: float = 0.002) -> Traces:
    """Users who stay around homes of their own."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), fixes)
    home = rng.uniform(0, 0.1, (users, 2))
    return Traces(
        np.array([str(u) for u in range(users)], dtype=object),
        user,
        np.zeros(user.size, np.int64),
        NOON_US + np.tile(np.arange(fixes), users) * 3600 * MICROSECONDS,
        116.3 + home[user, 0] + rng.normal(0, spread, user.size),
        39.9 + home[user, 1] + rng.normal(0, spread, user.size),
        np.arange(user.size),
    )


CELLS = Cells(116.25, 39.85, 40, 40, SIDE_M, 39.9)


def test_heat_maps_link_users_in_spite_of_noise() -> None:
    known, attacked = halves(crowd(30, 60, 5))
    noisy = simulated(attacked, Strength.from_noise(100.0), Wall.seeded(6), "noise")
    found = link(known, noisy, CELLS)
    assert found.rate > 0.6
    assert found.chance == pytest.approx(1 / 30)
    hidden = simulated(attacked, Strength.from_noise(20_000.0), Wall.seeded(7), "noise")
    assert link(known, hidden, CELLS).rate < 0.4


def test_topsoe_by_the_formula() -> None:
    a, b = crowd(4, 30, 8), crowd(4, 30, 9)
    from sfumato.attacks.traces.kernels import topsoe
    from sfumato.attacks.traces.reidentify import _profiles

    _, oa, ca, sa = _profiles(a, CELLS)
    _, ob, cb, sb = _profiles(b, CELLS)
    got = topsoe(oa, ca, sa, ob, cb, sb)
    for i in range(4):
        for j in range(4):
            p, q = np.zeros(CELLS.size), np.zeros(CELLS.size)
            p[ca[oa[i] : oa[i + 1]]] = sa[oa[i] : oa[i + 1]]
            q[cb[ob[j] : ob[j + 1]]] = sb[ob[j] : ob[j + 1]]
            m = np.maximum(p + q, 1e-300)
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = np.where(p > 0, p * np.log(2 * p / m), 0)
                terms += np.where(q > 0, q * np.log(2 * q / m), 0)
            assert got[i, j] == pytest.approx(terms.sum(), abs=1e-12)


def test_unicity_by_brute_force() -> None:
    traces = crowd(12, 20, 10, spread=0.02)
    seen = Visits.of(traces, CELLS, 7200)
    found = unicity(seen.user, seen.point, 2, trials=1500, seed=1)
    cell, slot = CELLS.index(traces.lon, traces.lat), traces.time // (7200 * MICROSECONDS)
    been = [
        set(zip(slot[traces.user == u].tolist(), cell[traces.user == u].tolist(), strict=True))
        for u in range(12)
    ]
    from itertools import combinations

    share = np.mean(
        [
            np.mean([sum(set(pair) <= other for other in been) == 1 for pair in combinations(b, 2)])
            for b in been
        ]
    )
    assert found.low - 0.02 <= share <= found.high + 0.02
    assert unicity(seen.user, seen.point, 500, trials=10, seed=1).users_left_out == 1.0
    assert wilson(0, 0) == (0.0, 1.0)


def test_more_points_are_more_unique() -> None:
    traces = crowd(60, 40, 11, spread=0.03)
    seen = Visits.of(traces, CELLS, 36_000)
    shares = [unicity(seen.user, seen.point, p, trials=800, seed=2).share for p in (1, 2, 4)]
    assert shares[0] < shares[1] < shares[2]


def test_top_places() -> None:
    base = crowd(3, 4, 12)
    x = np.array([0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 0]) * 0.02
    traces = base.at(116.3 + x, np.full(12, 39.9))
    seen = Visits.of(traces, CELLS)
    found = top_places(seen.user, seen.cell, 1)
    assert found.sizes.tolist() == [2, 2, 1]
    assert top_places(seen.user, seen.cell, 2).sizes.tolist() == [2, 2, 1]
    assert top_places(seen.user, seen.cell, 2, ordered=False).sizes.tolist() == [3, 3, 3]
    assert found.share_below(2) == pytest.approx(1 / 3)
