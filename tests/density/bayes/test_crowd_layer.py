"""One-off crowds: found where they are, not where they are not, and taken out of the margins."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from sfumato.density.bayes.clipping import Weighting
from sfumato.density.bayes.crowd_counts import SetApart, set_apart
from sfumato.density.bayes.crowds import Crowd, find_crowds, low_rank
from sfumato.density.bayes.ground import Ground
from sfumato.density.bayes.ladder import Activity
from sfumato.model.time_grid import HourCalendar

Table = NDArray[np.float64]
SIGMA, PLACES = 20.0, 144
CENTRES = 300.0 * np.array([(k % 12, k // 12) for k in range(PLACES)], dtype=np.float64)
STADIUM, BEGIN, DRAWS = 66, 116, 64


def calendar(days: int = 7) -> HourCalendar:
    starts = [datetime(2007, 9, 10) + timedelta(hours=k) for k in range(24 * days)]
    return HourCalendar.of(starts, [start + timedelta(hours=1) for start in starts])


def crowd_table(slots: int, size: float) -> Table:
    """`size` at the centre, falling off over 300 m up to 600 m, for three slots."""
    table = np.zeros((PLACES, slots))
    away = np.linalg.norm(CENTRES - CENTRES[STADIUM], axis=1)
    fall = np.where(away < 620.0, np.exp(-away / 300.0), 0.0)
    table[:, BEGIN : BEGIN + 3] = (size * fall)[:, None]
    return table


def scan(rest: Table, expected: float = 5.0, days: int = 7) -> tuple[Crowd, ...]:
    flat = np.full(rest.shape, expected)
    return find_crowds(rest, SIGMA, flat, np.ones(rest.shape), CENTRES, calendar(days))


def test_noise_has_no_crowds() -> None:
    rng = np.random.default_rng(1)
    assert not any(scan(SIGMA * rng.standard_normal((PLACES, 168))) for _ in range(12))


def test_chance_of_small_counts_has_none_either() -> None:
    rng = np.random.default_rng(2)
    for _ in range(5):
        noise = 0.1 * rng.standard_normal((PLACES, 168))
        rest = rng.poisson(0.2, (PLACES, 168)) - 0.2 + noise
        flat, one = np.full(rest.shape, 0.2), np.ones(rest.shape)
        assert find_crowds(rest, 0.1, flat, one, CENTRES, calendar()) == ()


@pytest.mark.parametrize("size", [4.0, 12.0, 100.0])
def test_a_crowd_is_found_and_told_in_full(size: float) -> None:
    truth = crowd_table(168, size * SIGMA)
    rng = np.random.default_rng(3)
    crowds = scan(truth + SIGMA * rng.standard_normal(truth.shape))
    assert len(crowds) == 1
    inside = truth > 0.3 * size * SIGMA
    layer = np.zeros(truth.shape)
    layer[crowds[0].cells] = crowds[0].mean.reshape(crowds[0].places.size, -1)
    assert layer[inside].sum() == pytest.approx(truth[inside].sum(), rel=0.15 if size < 5 else 0.06)


def test_what_comes_every_day_is_a_rhythm() -> None:
    truth = np.zeros((PLACES, 168))
    for day in range(7):
        truth[STADIUM, 24 * day + 20 : 24 * day + 23] = 12 * SIGMA
    rng = np.random.default_rng(4)
    assert scan(truth + SIGMA * rng.standard_normal(truth.shape)) == ()


def test_twice_the_expected_is_no_crowd_where_much_is_expected() -> None:
    truth = crowd_table(168, 0.7 * 400.0)
    rng = np.random.default_rng(5)
    assert scan(truth + SIGMA * rng.standard_normal(truth.shape), expected=400.0) == ()


def test_a_few_days_do_not_tell_what_is_ordinary() -> None:
    assert scan(crowd_table(168, 50 * SIGMA)[:, BEGIN - 20 : BEGIN + 4], days=1) == ()


def test_a_crowd_makes_no_component_but_what_is_shared_does() -> None:
    rng = np.random.default_rng(6)
    shared = np.outer(rng.standard_normal(PLACES), np.sin(np.arange(168) / 4.0)) * 3 * SIGMA
    crowd = crowd_table(168, 60 * SIGMA)
    found, level = low_rank(shared + crowd + SIGMA * rng.standard_normal(shared.shape), SIGMA)
    assert level == pytest.approx(SIGMA, rel=0.05)
    assert np.abs(found - shared).max() < 3 * SIGMA
    assert found[STADIUM, BEGIN] < 0.1 * crowd[STADIUM, BEGIN]


def town(size: float, over: float = 1.5) -> tuple[Ground, Table, Table, Weighting, Table]:
    """A flat town with a crowd; a visit of the crowd weighs `over` times an ordinary one."""
    crowd = crowd_table(168, size)
    ordinary = np.full(crowd.shape, 20.0)
    margin = ordinary + over**0.5 * crowd
    ground = Ground(
        activity=Activity(np.full(8, margin.sum()), margin.sum() / 1e4, np.ones(1), np.ones(1)),
        counted=margin.sum(axis=1),
        places=margin.sum(axis=1),
        slots=margin.sum(axis=0),
        spread=np.full(PLACES, 0.02),
        slots_sd=10.0,
        place_draws=np.tile(margin.sum(axis=1), (DRAWS, 1)),
        slot_draws=np.tile(margin.sum(axis=0), (DRAWS, 1)),
        dilution=np.ones(PLACES),
        calendar=calendar(),
        centres=CENTRES,
        area=csr_array(eye_array(PLACES, format="csr")),
        place_limit=10.0,
    )
    # A place that keeps half of its visits' weight in the matrix keeps sqrt(1/2) in its total.
    weighting = Weighting(
        np.full(crowd.shape, 0.5), np.full(crowd.shape, 0.5 * over), leak=2 - 2**0.5
    )
    scale = np.full(crowd.shape, 0.5)
    rng = np.random.default_rng(7)
    noise = SIGMA * rng.standard_normal(crowd.shape)
    return ground, scale * (ordinary + over * crowd) + noise, scale, weighting, crowd


def apart_of(size: float) -> tuple[SetApart, Table, Ground]:
    ground, matrix, scale, weighting, crowd = town(size)
    return set_apart(ground, matrix, scale, SIGMA, weighting), crowd, ground


def test_people_are_counted_and_ordinary_totals_come_back() -> None:
    apart, crowd, ground = apart_of(2000.0)
    assert apart.mean.sum() == pytest.approx(crowd.sum(), rel=0.2)
    assert abs(apart.factor - 1 / 1.5) < 2.5 * apart.factor_sd
    near = np.unique(apart.cells[0])
    assert ground.places[near].max() > 1.5 * 20 * 168
    assert apart.ground.places[near].mean() == pytest.approx(20 * 168, rel=0.15)
    whole = apart.ground.places.sum() + apart.mean.sum()
    assert whole == pytest.approx(ground.places.sum())


def test_draws_lie_around_the_mean_and_leave_the_whole_as_it_was() -> None:
    apart, _, ground = apart_of(2000.0)
    assert apart.draws.shape == (DRAWS, apart.mean.size)
    assert (apart.draws >= 0).all()
    clear = apart.mean > 100.0
    assert clear.any()
    assert apart.draws.mean(axis=0)[clear] == pytest.approx(apart.mean[clear], rel=0.02)
    relative = apart.draws.sum(axis=1).std() / apart.mean.sum()
    assert relative == pytest.approx(apart.factor_sd / apart.factor, rel=0.35)
    for totals in (apart.ground.place_draws, apart.ground.slot_draws):
        whole = totals.sum(axis=1) + apart.draws.sum(axis=1)
        assert whole == pytest.approx(ground.place_draws.sum(axis=1))


def test_without_a_crowd_nothing_changes() -> None:
    apart, _, ground = apart_of(0.0)
    assert apart.ground is ground
    assert apart.draws.shape == (DRAWS, 0)
    assert apart.crowds == ()
