"""Remapping moves reports towards where people are, and costs nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.model.sphere import great_circle
from sfumato.model.traces import Traces
from sfumato.privacy.noise import SeededStream
from sfumato.privacy.noise.planar import Strength
from sfumato.traces.mechanisms import independent
from sfumato.traces.remap import Cells, Loss, remap

CELLS = Cells(116.28, 39.88, 40, 70, 100.0, 39.9)


def test_a_prior_on_the_street_halves_the_error(walkers: Callable[..., Traces]) -> None:
    true = walkers(people=1, fixes=40)
    prior = CELLS.count(true.lon, true.lat) + 0.0
    noisy = independent(true, Strength.from_noise(300.0), SeededStream(1))

    def error(guess: Traces) -> float:
        return float(great_circle(true.lon, true.lat, guess.lon, guess.lat).mean())

    for loss in Loss:
        assert error(remap(noisy, CELLS, prior, Strength.from_noise(300.0), loss)) < 0.75 * error(
            noisy
        )


def test_posterior_mean_and_median_by_hand(walkers: Callable[..., Traces]) -> None:
    """Three cells in a row: the mean is pulled by the far one, the median is not."""
    prior = np.zeros((40, 70))
    prior[20, [10, 12, 60]] = 1.0
    weak = Strength.from_noise(900_000.0)  # all posteriors are nearly the prior
    one = walkers(people=1, fixes=1)
    x = CELLS.metres(remap(one, CELLS, prior, weak, Loss.SQUARED).lon, one.lat)[0][0]
    assert x == pytest.approx(100 * (10.5 + 12.5 + 60.5) / 3, rel=0.01)
    x = CELLS.metres(remap(one, CELLS, prior, weak, Loss.DISTANCE).lon, one.lat)[0][0]
    assert x == pytest.approx(1250, abs=5)


def test_far_reports_do_not_underflow(walkers: Callable[..., Traces]) -> None:
    prior = np.zeros((40, 70))
    prior[0, 0] = 1.0
    far = walkers(people=1, fixes=1).at(np.array([120.0]), np.array([39.9]))
    found = remap(far, CELLS, prior, Strength.from_noise(50.0))
    assert np.isfinite(found.lon).all()


def test_a_prior_must_fit(walkers: Callable[..., Traces]) -> None:
    one = walkers(people=1, fixes=1)
    for prior in (np.ones(3), np.zeros((40, 70)), -np.ones((40, 70))):
        with pytest.raises(UsageError):
            remap(one, CELLS, prior, Strength.from_noise(100.0))
