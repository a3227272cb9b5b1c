"""The price of claiming the exact curve for discrete noise: lemma, constant, theorem."""

import math
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from sfumato.privacy.accounting import discrete_delta, discrete_epsilon, gaussian_delta, variation
from sfumato.privacy.accounting.gaussian import VARIATION

pytestmark = pytest.mark.privacy

LIMIT = math.exp(-0.5) / math.sqrt(2 * math.pi) / 12
"""phi(1) / 12."""
FOURTH = 0.012335
SIGMAS = [0.25, 0.4, 0.5, 0.7, 1.0, 1.3, 2.0, 3.0, 3.85, 4.0, 4.3, 5.0, 7.7, 10.0, 16.0, 32.0]


def _total_variation(sigma: float) -> mpmath.mpf:
    """Between the discrete and the rounded Gaussian, with forty digits."""
    with mpmath.workdps(40):
        s = mpmath.mpf(sigma)
        reach = math.ceil(12 * sigma) + 2
        weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * s * s)) for k in range(reach + 1)]
        whole = weights[0] + 2 * mpmath.fsum(weights[1:])
        edges = [
            mpmath.erfc((k + mpmath.mpf(1) / 2) / (s * mpmath.sqrt(2))) / 2
            for k in range(-1, reach + 1)
        ]
        gaps = [abs(weights[k] / whole - (edges[k] - edges[k + 1])) for k in range(reach + 1)]
        return (gaps[0] + 2 * mpmath.fsum(gaps[1:])) / 2


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_proved_bound_holds(sigma: float) -> None:
    theta = 2 * math.exp(-2 * (math.pi * sigma) ** 2) * 1.01
    bound = LIMIT / sigma**2 + FOURTH / sigma**4 + theta / 2
    found = float(_total_variation(sigma))
    assert 0 < found <= bound
    if sigma >= 4:
        assert found <= float(VARIATION) / sigma**2


def test_the_limit_is_a_twelfth_of_the_density_at_one() -> None:
    scaled = [float(_total_variation(sigma)) * sigma**2 for sigma in (8.0, 16.0, 32.0)]
    assert scaled[-1] == pytest.approx(LIMIT, rel=5e-4)
    assert abs(LIMIT - 0.0201643) < 1e-7
    assert LIMIT < float(VARIATION) < 1.042 * LIMIT


def test_the_constants_of_the_proof() -> None:
    """Total variation of |phi''|': the integral of |phi''''| and two jumps of 4 phi(1)."""
    phi = lambda x: mpmath.npdf(x)  # noqa: E731
    roots = [mpmath.sqrt(3 - mpmath.sqrt(6)), mpmath.sqrt(3 + mpmath.sqrt(6))]
    third = lambda x: (3 * x - x**3) * phi(x)  # noqa: E731
    turns = [third(mpmath.mpf(0)), third(roots[0]), third(roots[1]), mpmath.mpf(0)]
    fourth = 2 * sum(abs(b - a) for a, b in pairwise(turns))
    assert float(fourth) == pytest.approx(2.80060, abs=1e-5)
    jumps = 2 * 4 * phi(1)
    assert float(fourth + jumps) / 8 / 48 <= FOURTH
    assert float(VARIATION) >= LIMIT + FOURTH / 16


def _law(sigma: float, reach: int) -> NDArray[np.float64]:
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-(k**2) / (2 * sigma**2))
    return weights / weights.sum()


@pytest.mark.parametrize("shift", [(1,), (3,), (1, 1), (2, -1)])
@pytest.mark.parametrize("sigma", [4.0, 6.5])
def test_the_claim_covers_the_true_curve(shift: tuple[int, ...], sigma: float) -> None:
    """Hockey-stick divergence of the product law by enumeration, all cells touched."""
    reach = 48
    noise = _law(sigma, reach)
    one, other = np.ones(1), np.ones(1)
    for step in shift:
        padded = np.pad(noise, 4)
        one = np.outer(one, padded).ravel()
        other = np.outer(other, np.roll(padded, step)).ravel()
    mu = math.sqrt(sum(step**2 for step in shift)) / sigma
    tau = variation(sigma**2, len(shift))
    for epsilon in (0.0, 0.05, 0.2, 0.6):
        true = max(
            np.maximum(one - math.exp(epsilon) * other, 0).sum(),
            np.maximum(other - math.exp(epsilon) * one, 0).sum(),
        )
        assert true <= discrete_delta(mu, epsilon, tau) + 1e-12


def test_rounded_noise_is_what_the_curve_is_about() -> None:
    """For rounded continuous noise the curve needs no supplement."""
    sigma, k = 5.0, np.arange(-80, 81)
    one = ndtr((k + 0.5) / sigma) - ndtr((k - 0.5) / sigma)
    other = ndtr((k - 0.5) / sigma) - ndtr((k - 1.5) / sigma)
    for epsilon in (0.0, 0.1, 0.5):
        true = np.maximum(one - math.exp(epsilon) * other, 0).sum()
        assert true <= gaussian_delta(1 / sigma, epsilon) + 1e-15


def test_untouched_cells_cost_nothing() -> None:
    """A second cell with the same noise on both sides leaves the divergence as it was."""
    noise = np.pad(_law(4.0, 40), 2)
    moved = np.roll(noise, 1)
    for epsilon in (0.0, 0.2):
        alone = np.maximum(noise - math.exp(epsilon) * moved, 0).sum()
        beside = np.maximum(
            np.outer(noise, noise) - math.exp(epsilon) * np.outer(moved, noise), 0
        ).sum()
        assert beside == pytest.approx(alone, rel=1e-12)


def test_below_sigma_four_nothing_is_claimed() -> None:
    assert variation(15.99, 1) == 1
    assert variation(16, 1) == pytest.approx(0.021 / 16)
    assert discrete_epsilon(0.5, 1e-6, variation(9, 1)) == math.inf


@pytest.mark.parametrize(
    ("mu", "delta", "tau"),
    list(product([0.02, 0.08, 1.0], [1e-9, 2e-6], [0.0, 1e-14, 1e-12])),
)
def test_epsilon_is_the_least_that_pays(mu: float, delta: float, tau: float) -> None:
    epsilon = discrete_epsilon(mu, delta, tau)
    assert discrete_delta(mu, epsilon, tau) <= delta
    assert discrete_delta(mu, epsilon * (1 - 1e-9), tau) > delta


def test_no_epsilon_where_the_lattice_is_too_coarse() -> None:
    assert discrete_epsilon(0.08, 2e-6, 2e-6) == math.inf
    assert discrete_delta(0.08, 800.0, 1e-9) == 1
