"""Levels as sums of single people: the law, counts given a level, habits, and who is placed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.streams.facts import StreamFacts
from sfumato.streams.schemes.rhythm import sums
from sfumato.streams.schemes.rhythm.people import (
    HABITS,
    LEVELS,
    counts_given,
    fit_people,
    people_correction,
    weighted_levels,
)
from sfumato.streams.schemes.rhythm.sums import LiveTotal

CELLS = 1600
Facts = Callable[..., StreamFacts]
Values = NDArray[np.float64]


def stayers(people: int, days: int, seed: int) -> tuple[Values, Values]:
    """One noisy snapshot a day of people who are at home or, now and then, away; and the truth."""
    rng = np.random.default_rng(seed)
    home, away = rng.integers(CELLS, size=people), rng.integers(CELLS, size=people)
    counts = [
        np.bincount(np.where(rng.random(people) < 0.8, home, away), minlength=CELLS)
        for _ in range(days)
    ]
    return counts + rng.laplace(0, 1, (days, CELLS)), np.bincount(home, minlength=CELLS)


def flat(people: int) -> Values:
    return np.full(CELLS, people / CELLS)


@pytest.mark.parametrize("habit", HABITS)
def test_counts_have_the_mean_of_their_level(habit: tuple[bool, float]) -> None:
    small = LEVELS <= 40
    mean = counts_given(habit) @ np.arange(counts_given(habit).shape[1])
    assert np.allclose(mean[small], LEVELS[small], rtol=0.01)


def test_who_stays_is_told_from_who_comes_and_goes() -> None:
    seen, _ = stayers(400, 6, 1)
    stays, passing = fit_people(seen, flat(400), 2.0, laplace=True).habit
    assert stays
    assert passing < 1
    rng = np.random.default_rng(2)
    level = rng.gamma(0.5, 8, 100)
    fleet = np.zeros((6, CELLS))
    fleet[:, :100] = rng.negative_binomial(1.5, 1.5 / (1.5 + level), (6, 100))
    fleet += rng.laplace(0, 1, fleet.shape)
    stays, _ = fit_people(fleet, flat(400), 2.0, laplace=True).habit
    assert not stays


@pytest.mark.parametrize("laplace", [True, False])
def test_every_snapshot_tells_and_levels_add_up(laplace: bool) -> None:
    """Homes are found, and people are neither made nor lost."""
    seen, home = stayers(400, 8, 3)
    if not laplace:
        seen = np.rint(seen) + np.random.default_rng(4).normal(0, 0.5, seen.shape)
    variance = 2.0 if laplace else 2.25
    found = fit_people(seen, flat(400), variance, laplace)
    assert abs(float(found.posterior.expected.sum()) - 400) < 80
    level, _ = weighted_levels(found, seen.mean(axis=0), placed=1.0)
    shown = np.rint(level)
    assert np.abs(shown - home).sum() < 0.9 * home.sum()


def test_noise_alone_is_nobody() -> None:
    rng = np.random.default_rng(5)
    for count in (1, 5):
        noise = rng.laplace(0, 1, (count, CELLS))
        found = fit_people(noise, flat(1), 2.0, laplace=True)
        fixed = people_correction(found, noise.mean(axis=0), flat(1), True, 1.0)
        assert (fixed.factor * flat(1) + fixed.more < 0.5).all()


@pytest.mark.privacy
def test_medians_place_no_more_people_than_the_limit_allows() -> None:
    """Weights stop where medians would place more than who knows all others, and some."""
    seen, home = stayers(800, 8, 6)
    mean = seen.mean(axis=0)
    found = fit_people(seen, flat(800), 2.0, laplace=True)

    def placed(limit: float) -> float:
        level, _ = weighted_levels(found, mean, limit)
        return float(np.minimum(np.rint(level), home).sum()) / 800

    tight, loose = placed(0.0), placed(1.0)
    assert tight <= loose
    assert loose > found.guessed + 0.1
    assert tight < loose - 0.02


def test_means_without_whole_people_keep_the_posterior_mean() -> None:
    seen, _ = stayers(400, 3, 7)
    found = fit_people(seen, flat(400), 2.0, laplace=True)
    fixed = people_correction(found, seen.mean(axis=0), flat(400), False, 1.0)
    assert np.allclose(fixed.factor * flat(400) + fixed.more, found.posterior.expected)


@pytest.mark.parametrize("first", [0.0, 360.0])
def test_a_first_sum_before_the_feed_began_is_believed_less(
    first: float, facts: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise hides at first that nobody was there; the sums of later days tell."""
    known = facts(days=7, cells=1, per_day=10, people=540, columns=1)

    def found() -> float:
        total = LiveTotal(known, 64)
        for slot, people in ((0, first), (13, 360.0), (26, 370.0), (39, 350.0), (52, 360.0)):
            total.learn(slot, people, 150.0**2)
        return total.at(60).value

    with_doubt = found()
    monkeypatch.setattr(sums, "_LATER", 0.0)
    if first:
        assert with_doubt == pytest.approx(found(), rel=0.01)
    else:
        assert with_doubt > 1.05 * found()
