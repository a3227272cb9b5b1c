from __future__ import annotations

import numpy as np
import pytest

from sfumato.city.rhythm import WEEK_MAX, WEEK_MEAN, WEEK_SD, tower_hour_law


def moments(law: np.ndarray) -> tuple[float, float]:
    weights, values = np.diff(law, prepend=0.0), np.arange(1, law.size + 1)
    mean = float(weights @ values)
    return mean, float(np.sqrt(weights @ (values - mean) ** 2))


def test_the_law_has_the_mean_deviation_and_largest_value_of_the_paris_study() -> None:
    law = tower_hour_law(WEEK_MEAN, 168, 1_303)
    mean, deviation = moments(law)
    assert mean == pytest.approx(WEEK_MEAN, abs=1e-6)
    assert deviation == pytest.approx(WEEK_SD, abs=1e-6)
    assert law.size == WEEK_MAX
    # Of two million people a few come near the largest value, so the maximum is about it.
    assert 1 < 2e6 * (1 - law[649]) < 50


def test_short_periods_and_few_towers_are_capped() -> None:
    assert tower_hour_law(13.55, 168, 4).size == 336
    assert tower_hour_law(13.55 / 7, 24, 1_303).size <= 105
    assert moments(tower_hour_law(13.55, 168, 4))[0] == pytest.approx(13.55, rel=1e-3)
