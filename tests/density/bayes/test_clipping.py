"""What weighting heavy users down is expected to do, and what is found of it afterwards."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest
from scipy.special import ndtri

from sfumato.density.bayes.clipping import (
    Distortion,
    expected_weighting,
    find_distortion,
    margin_leak,
    typical_square,
)
from sfumato.density.bayes.ladder import Activity

RNG = np.random.default_rng(3)


def law(mean: float = 13.55) -> Activity:
    """People as active as in call records."""
    variance = np.log1p(1.35**2)
    ranks = (np.arange(4_000) + 0.5) / 4_000
    levels = np.maximum(np.exp(np.log(mean) - variance / 2 + np.sqrt(variance) * ndtri(ranks)), 1.0)
    typical = float(levels.mean())
    return Activity(np.full(8, 1e5 * typical), typical, levels, np.full(4_000, 1 / 4_000))


def simulated(norm: float, limit: float, others: float, size_biased: bool) -> float:
    """The mean weight of someone with a visit of that norm, by drawing people."""
    activity = law()
    chances = activity.levels if size_biased else np.ones(activity.levels.size)
    visits = RNG.choice(activity.levels, 400_000, p=chances / chances.sum())
    rest = (visits - (1.0 if size_biased else 0.0)) * others
    return float(np.minimum(1.0, limit / np.sqrt(norm**2 + rest)).mean())


def test_the_mean_weight_is_that_of_drawn_people() -> None:
    norms = np.array([[0.5, 1.0, 4.0]])
    found = expected_weighting(norms, typical_square([(norms, np.ones((1, 3)))]), 3.0, law())
    others = float(np.square(norms).mean())
    for k, norm in enumerate(norms[0]):
        assert found.of_visits[0, k] == pytest.approx(simulated(norm, 3.0, others, True), abs=0.01)
        assert found.of_people[0, k] == pytest.approx(simulated(norm, 3.0, others, False), abs=0.01)


def test_visits_of_large_norm_weigh_less_and_people_more_than_visits() -> None:
    norms = np.linspace(0.1, 6.0, 50)[None]
    found = expected_weighting(norms, typical_square([(norms, np.ones((1, 50)))]), 3.0, law())
    assert (np.diff(found.of_visits[0]) < 0).all()
    assert (found.of_people >= found.of_visits).all()


def test_a_limit_nobody_reaches_changes_nothing() -> None:
    found = expected_weighting(np.ones((2, 2)), 1.0, 1e6, law())
    np.testing.assert_allclose(found.of_visits, 1.0)
    assert margin_leak(1e9, law(), 0.5) == pytest.approx(0.0, abs=1e-12)
    assert margin_leak(4.0, law(), 0.5) > margin_leak(16.0, law(), 0.5) > 0.0


def table_of(places: int = 40, slots: int = 48) -> np.ndarray:
    return np.outer(RNG.uniform(20, 60, places), RNG.uniform(0.5, 1.5, slots))


def test_an_hour_whose_people_were_weighted_down_is_named() -> None:
    expected = table_of()
    bounded = expected.copy()
    bounded[:, 7] *= 0.6
    seen = bounded + RNG.normal(0, 5.0, expected.shape)
    found = find_distortion(seen, lambda rows: expected[rows], 5.0)
    assert found.slots[7] == pytest.approx(-0.4, abs=0.05)
    starts = [datetime(2024, 3, 4) + timedelta(hours=k) for k in range(48)]
    (remark,) = found.remarks(starts)
    assert "Hours: Mon 07:00." in remark


def test_hours_are_named_in_the_order_of_time() -> None:
    slots = np.zeros(48)
    slots[[9, 24, 6, 30]] = -0.6, -0.5, -0.4, -0.3
    (remark,) = Distortion(slots, np.ones(48, bool)).remarks(
        [datetime(2024, 3, 4) + timedelta(hours=k) for k in range(48)]
    )
    assert remark.endswith("Hours: Mon 06:00, Mon 09:00, Tue 00:00, Tue 06:00.")


def test_noise_alone_is_not_called_a_distortion() -> None:
    expected = table_of()
    for _ in range(5):
        seen = expected + RNG.normal(0, 20.0, expected.shape)
        found = find_distortion(seen, lambda rows: expected[rows], 20.0)
        assert found.remarks([datetime(2024, 3, 4)] * 48) == ()
