"""Remapping moves reports towards where people are, and costs nothing."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.model.sphere import great_circle
from sfumato.model.traces import Traces
from sfumato.privacy.noise.planar import Strength
from sfumato.privacy.wall import Wall
from sfumato.traces.cells import Cells
from sfumato.traces.mechanisms import simulated
from sfumato_lab.studies.geoind.remap import Loss, remap


def walk(fixes: int) -> Traces:
    """One person who walks east from Beijing."""
    nobody, step = np.zeros(fixes, np.int64), np.arange(fixes)
    lat = np.full(fixes, 39.9)
    return Traces(
        np.array(["a"], dtype=object), nobody, nobody, step, 116.3 + 0.001 * step, lat, step
    )


CELLS = Cells(116.28, 39.88, 40, 70, 100.0, 39.9)


def test_a_prior_on_the_street_halves_the_error() -> None:
    true = walk(40)
    prior = CELLS.count(true.lon, true.lat) + 0.0
    noisy = simulated(true, Strength.from_noise(300.0), Wall.seeded(1), "noise")

    def error(guess: Traces) -> float:
        return float(great_circle(true.lon, true.lat, guess.lon, guess.lat).mean())

    for loss in Loss:
        assert error(remap(noisy, CELLS, prior, Strength.from_noise(300.0), loss)) < 0.75 * error(
            noisy
        )


def test_posterior_mean_and_median_by_hand() -> None:
    """Three cells in a row: the mean is pulled by the far one, the median is not."""
    prior = np.zeros((40, 70))
    prior[20, [10, 12, 60]] = 1.0
    weak = Strength.from_noise(900_000.0)  # all posteriors are nearly the prior
    one = walk(1)
    x = CELLS.metres(remap(one, CELLS, prior, weak, Loss.SQUARED).lon, one.lat)[0][0]
    assert x == pytest.approx(100 * (10.5 + 12.5 + 60.5) / 3, rel=0.01)
    x = CELLS.metres(remap(one, CELLS, prior, weak, Loss.DISTANCE).lon, one.lat)[0][0]
    assert x == pytest.approx(1250, abs=5)


def test_far_reports_do_not_underflow() -> None:
    prior = np.zeros((40, 70))
    prior[0, 0] = 1.0
    far = walk(1).at(np.array([120.0]), np.array([39.9]))
    found = remap(far, CELLS, prior, Strength.from_noise(50.0))
    assert np.isfinite(found.lon).all()


def test_a_prior_must_fit() -> None:
    one = walk(1)
    for prior in (np.ones(3), np.zeros((40, 70)), -np.ones((40, 70))):
        with pytest.raises(UsageError):
            remap(one, CELLS, prior, Strength.from_noise(100.0))
