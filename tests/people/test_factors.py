"""Errors of people on plain arrays: what is added, what cancels, what two operators share."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
import shapely

from sfumato.model.time_grid import TimeGrid
from sfumato.people.areas import Areas, shares_in
from sfumato.people.factors import (
    ORIGINS,
    Weights,
    blend_of,
    brought_to,
    cell_variances,
    put_together,
    sampling,
    unseen,
    weighed,
    with_sampling,
)
from sfumato.people.origins import at_home, by_origin, zone_distances
from sfumato.people.weights import census_weights, share_weights, slot_weights_of
from sfumato.published.posterior import Factors

GRID = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "1h", "UTC")
NIGHT = np.array([1 <= one.hour < 5 for one in GRID.starts()], dtype=np.float64)


def factors(seed: int = 1, places: int = 6, chance: float = 0.5) -> Factors:
    """A release of some places and a day, with every kind of error."""
    rng = np.random.default_rng(seed)
    counts = rng.uniform(50, 150, (places, GRID.slots))
    return Factors(
        counts=counts,
        level=rng.normal(0, 0.05, 32),
        places=rng.normal(0, 0.03, (32, places)),
        slots=rng.normal(0, 0.02, (32, GRID.slots)),
        strengths=rng.normal(0, 1.0, (places, 32 * 2)).astype(np.float32),
        rhythms=rng.normal(0, 1.0, (GRID.slots, 2)),
        chance=chance * counts,
        piece=np.ones(places),
        coverage=0.9,
    )


def areas(values: np.ndarray, sd: float = 0.0) -> Areas:  # type: ignore[type-arg]
    number = values.size
    ids = np.arange(number).astype(np.str_)
    return Areas(ids, values.astype(float), np.full(number, sd), np.eye(number), "test")


def test_a_zone_where_nobody_moves_has_the_weight_of_its_homes() -> None:
    counts = np.tile(np.array([100.0, 50.0, 20.0])[:, None], (1, GRID.slots))
    apart = np.array([[0.4, 2.0, 3.0], [2.0, 0.4, 2.0], [3.0, 2.0, 0.4]])
    values = np.array([2.0, 4.0, 8.0])
    found = by_origin(values, counts[:, 0], counts, GRID, apart)
    np.testing.assert_allclose(found.mean, at_home(values, GRID.slots).mean, rtol=1e-6)
    np.testing.assert_allclose(found.error, 0.0, atol=1e-3)


def test_visitors_bring_the_weights_of_their_homes() -> None:
    homes = np.array([100.0, 100.0])
    counts = np.tile(homes[:, None], (1, GRID.slots))
    counts[:, 12] = (40.0, 160.0)
    apart = np.array([[0.4, 1.0], [1.0, 0.4]])
    found = by_origin(np.array([2.0, 6.0]), homes, counts, GRID, apart)
    assert found.mean[1, 3] == pytest.approx(6.0, abs=1e-6)
    assert 3.9 < found.mean[1, 12] < 5.1  # at least 60 of the 160 have weight 2
    assert found.error[1, 12] > 0.5
    people = (found.mean * counts).sum(axis=0)
    np.testing.assert_allclose(people, 800.0, rtol=0.02)  # nobody is lost on the way


def test_distances_are_kilometres_and_the_way_inside_a_zone_is_not_zero() -> None:
    squares = [shapely.box(2.0 + 0.01 * k, 48.0, 2.01 + 0.01 * k, 48.01) for k in range(3)]
    found = zone_distances(np.array(squares, dtype=object))
    assert found[0, 2] == pytest.approx(2 * found[0, 1], rel=1e-3)
    assert found[0, 1] == pytest.approx(0.745, rel=0.01)
    assert (np.diag(found) > 0.2).all()
    points = zone_distances(np.array([shapely.centroid(one) for one in squares], dtype=object))
    assert (np.diag(points) > 0.2).all()


def test_weights_multiply_counts_and_their_errors() -> None:
    release = factors()
    flat = np.full(release.counts.shape, 4.0)
    zero = np.zeros_like(release.places)
    sure = weighed(release, Weights(flat, zero, 0 * flat, 0 * flat))
    np.testing.assert_allclose(sure.counts, 4 * release.counts)
    vague = weighed(release, Weights(flat, zero + 0.1, 0 * flat, 0 * flat))
    assert (cell_variances(vague) > cell_variances(sure)).mean() > 0.7
    away = weighed(release, Weights(flat, zero, 0 * flat + 0.3, 0 * flat))
    more = cell_variances(away) - cell_variances(sure)
    assert more.mean() == pytest.approx(((ORIGINS * 0.3 * sure.counts) ** 2).mean(), rel=0.3)


def test_a_census_cancels_errors_that_night_and_day_share() -> None:
    """An error of the level alone: the ratio to the night does not have it."""
    release = replace(
        factors(chance=0.0),
        level=np.tile([0.2, -0.2], 16),
        places=np.zeros((32, 6)),
        slots=np.zeros((32, GRID.slots)),
        strengths=np.zeros((6, 64), dtype=np.float32),
    )
    people = areas(np.full(6, 1_000.0))
    found = census_weights(people, release.counts, NIGHT, release, 32, stays=0.0)
    weights = slot_weights_of(found, release.counts, NIGHT, GRID, None, 2.0)
    made = weighed(release, weights)
    assert np.sqrt(cell_variances(made) / made.counts**2).max() < 1e-9
    known = share_weights(areas(np.full(6, 0.5)), release.counts, NIGHT, 32, stays=0.0)
    made = weighed(release, slot_weights_of(known, release.counts, NIGHT, GRID, None, 2.0))
    assert np.sqrt(cell_variances(made) / made.counts**2).min() == pytest.approx(0.2)


def test_flags_say_what_to_distrust() -> None:
    release = factors()
    counts = release.counts.copy()
    counts[2] = 4.0
    census = areas(np.array([300.0, 300.0, 12.0, 20.0, 4_000.0, 300.0]))
    census.zones[5] = 0.0
    found = census_weights(census, counts, NIGHT, replace(release, counts=counts), 32, 0.5)
    assert found.flags[0] == []
    assert found.flags[2][0] == "few people"
    assert found.flags[3] == ["implausible"]
    assert found.flags[4] == ["implausible"]
    assert found.flags[5] == ["no zone of the release"]
    values, relative = found.by_zone()
    assert values[5] == pytest.approx(found.whole)
    assert np.sqrt(np.square(relative[:, 5]).mean()) > 0.3


def test_sampling_errors_of_operators_that_exclude_each_other_are_opposed() -> None:
    """Simulated: people at one operator, at the other, at both; counts seen exactly."""
    rng = np.random.default_rng(3)
    people, runs = 400, 4_000
    for overlap in (0.0, 0.2, 1.0):
        one, two = 0.4, 0.25
        both = overlap * two
        luck = rng.random((runs, people))
        first = (luck < one).sum(axis=1) / one
        second = ((luck < both) | ((luck >= one) & (luck < one + two - both))).sum(axis=1) / two
        table = np.full((1, 1), float(people))
        weights = [np.full((1, 1), 1 / one), np.full((1, 1), 1 / two)]
        seen = [np.zeros((1, 1))] * 2
        lasting, chance = sampling(table, weights, seen, [0.5, 0.5], overlap)
        expected = (lasting + chance)[:, :, 0, 0]
        np.testing.assert_allclose(np.cov(first, second), expected, rtol=0.12, atol=25)


def test_a_count_that_was_not_seen_is_no_sample() -> None:
    table, weight = np.full((1, 1), 100.0), np.full((1, 1), 5.0)
    for hidden, variance in ((0.0, 400.0), (1.0, 100.0)):
        lasting, chance = sampling(table, [weight], [np.full((1, 1), hidden)], [0.0], 0.0)
        assert lasting[0, 0, 0, 0] == 0
        assert chance[0, 0, 0, 0] == pytest.approx(variance)
    assert unseen(factors(chance=1e-6)).mean() < unseen(factors(chance=3.0)).mean() == 1.0


def test_the_mean_of_two_has_the_variance_of_two_independent_tables() -> None:
    one, two = factors(1), factors(2)
    two = replace(two, counts=one.counts)
    blend = np.stack([np.full(6, 0.3), np.full(6, 0.7)])
    both = put_together([one, two], blend)
    np.testing.assert_allclose(both.counts, one.counts)
    assert both.pairs == one.pairs + two.pairs
    expected = 0.09 * cell_variances(one) + 0.49 * cell_variances(two)
    np.testing.assert_allclose(cell_variances(both), expected, rtol=1e-4)
    a, b = np.ones((1, 6)), np.ones((1, GRID.slots))
    sums = 0.09 * one.variances(a, b) + 0.49 * two.variances(a, b)
    np.testing.assert_allclose(both.variances(a, b), sums, rtol=1e-3)


def test_the_blend_is_that_of_least_variance_and_never_negative() -> None:
    own = np.array([[1.0, 1.0], [3.0, 1.0]])
    none = np.zeros((2, 2, 2))
    np.testing.assert_allclose(blend_of(own, none), [[0.75, 0.5], [0.25, 0.5]], rtol=1e-6)
    tight = np.zeros((2, 2, 1))
    tight[:, :, 0] = [[1.0, 1.5], [1.5, 9.0]]
    np.testing.assert_allclose(blend_of(np.full((2, 1), 1e-9), tight), [[1.0], [0.0]])


def test_other_zones_keep_the_people_and_their_error() -> None:
    release = factors(chance=0.2)
    whole = brought_to(release, np.ones((1, 6)))
    a, b = np.ones((1, 6)), np.ones((1, GRID.slots))
    np.testing.assert_allclose(whole.counts[0], release.counts.sum(axis=0))
    expected = release.variances(a, b)
    np.testing.assert_allclose(whole.variances(np.ones((1, 1)), b), expected, rtol=0.05)
    squares = np.array([shapely.box(k, 0, k + 1, 1) for k in range(4)], dtype=object)
    halves = np.array([shapely.box(0.5, 0, 2, 1), shapely.box(2, 0, 4, 1)], dtype=object)
    found = shares_in(squares, halves)
    np.testing.assert_allclose(found, [[0.5, 1, 0, 0], [0, 0, 1, 1]], atol=1e-3)


def test_lasting_errors_do_not_average_out() -> None:
    release = replace(factors(), level=np.zeros(32), places=np.zeros((32, 6)))
    variance = 0.5 * release.counts
    one = np.eye(6)[:1]
    b = np.ones((1, GRID.slots))
    lasting = with_sampling(release, variance, np.zeros_like(variance)).variances(one, b)
    chance = with_sampling(release, None, variance).variances(one, b)
    plain = release.variances(one, b)
    assert (chance - plain)[0] == pytest.approx(variance[0].sum(), rel=1e-6)
    assert (lasting - plain)[0] > 5 * variance[0].sum()
