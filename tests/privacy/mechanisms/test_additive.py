"""Gaussian and Laplace measurements: what is added has the variance that is stated."""

from fractions import Fraction

import numpy as np
import pytest

from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, Tab
from sfumato.privacy.mechanisms import measure_gaussian, measure_laplace
from sfumato.privacy.mechanisms.additive import gaussian_variance, laplace_variance
from sfumato.privacy.noise import SeededStream

pytestmark = pytest.mark.privacy

N = 40_000


def box(value: int, units: int = 1) -> Private[Counts]:
    values = np.full((N // 10, 10), value)
    return Private(Counts(values, units, 30.0, 30**0.5, Counting.VISITS, "test"), "test")


@pytest.mark.parametrize("sigma2", [Fraction(1, 4), Fraction(2), Fraction(5000), Fraction(1 << 40)])
def test_gaussian_noise_has_its_variance(sigma2: Fraction) -> None:
    found = measure_gaussian(
        box(1000), sigma2=sigma2, label="m", stream=SeededStream(5), charger=Tab()
    )
    noise = found.values - 1000
    # The kurtosis of a discrete Gaussian is near 3 unless nearly all of it is zero.
    assert noise.var() == pytest.approx(found.variance, rel=5 * np.sqrt(8 / N))
    assert abs(noise.mean()) < 5 * np.sqrt(found.variance / N)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(100), Fraction(1 << 30)])
def test_laplace_noise_has_its_variance(scale: Fraction) -> None:
    found = measure_laplace(box(-7), scale=scale, label="m", stream=SeededStream(6), charger=Tab())
    noise = found.values + 7
    assert noise.var() == pytest.approx(found.variance, rel=5 * np.sqrt(8 / N))
    assert abs(noise.mean()) < 5 * np.sqrt(found.variance / N)


def test_variances_of_the_laws() -> None:
    k = np.arange(-2000, 2001)
    for sigma2 in (0.1, 1.0, 7.0, 16.0, 100.0):
        weights = np.exp(-(k**2) / (2 * sigma2))
        truth = (k**2 * weights).sum() / weights.sum()
        assert gaussian_variance(Fraction(sigma2)) == pytest.approx(truth, rel=1e-9)
    for scale in (0.25, 1.0, 30.0):
        weights = np.exp(-np.abs(k) / scale)
        truth = (k**2 * weights).sum() / weights.sum()
        assert laplace_variance(Fraction(scale)) == pytest.approx(truth, rel=1e-9)


def test_a_measurement_knows_its_lattice_and_its_event() -> None:
    tab = Tab()
    found = measure_gaussian(
        box(65_536, units=65_536),
        sigma2=65_536**2,
        touched=30,
        label="hours",
        stream=SeededStream(1),
        charger=tab,
    )
    assert found.sd == 1.0
    assert found.estimate().mean() == pytest.approx(1.0, abs=0.05)
    assert found.label == "hours"
    assert isinstance(found.event, GaussianEvent)
    assert tab.charged == {"hours": found.event}
    assert found.event.touched == 30
    assert found.event.l2 == pytest.approx(30**0.5)
    assert found.event.l2**2 > 30


def test_all_cells_count_as_touched_unless_fewer_are_known() -> None:
    found = measure_gaussian(box(0), sigma2=9, label="m", stream=SeededStream(1), charger=Tab())
    assert isinstance(found.event, GaussianEvent)
    assert found.event.touched == N


def test_the_charge_is_for_the_noise_that_is_drawn() -> None:
    """A scale that the sampler cannot hold is rounded up, and the event says so."""
    found = measure_laplace(
        box(0),
        scale=Fraction(10**30 + 1, 3 * 10**29),
        label="m",
        stream=SeededStream(1),
        charger=Tab(),
    )
    assert isinstance(found.event, LaplaceEvent)
    assert found.event.scale > Fraction(10**30 + 1, 3 * 10**29)
    assert found.event.scale.numerator.bit_length() <= 46
