"""Calibration: the least noise whose recomputed guarantee stays within a target.

Every answer is a fraction that the sampler can draw exactly, rounded up, and is checked by
running the accountant on the event it will cause. A joint calibration divides one (epsilon,
delta) over several Gaussian measurements by shares of rho, and takes the exact curve where
the lattices are fine enough for it (see `accounting.gaussian`), else zCDP; it says which.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sfumato.errors import UsageError
from sfumato.privacy.accounting import (
    Guarantee,
    discrete_delta,
    event_epsilon,
    event_rho,
    gaussian_mu,
    guarantee,
    variation,
    zcdp_rho,
)
from sfumato.privacy.events import GaussianEvent, LaplaceEvent
from sfumato.privacy.exact import Number, decimal_up, exact, rounded_up, total
from sfumato.privacy.noise import representable_scale, representable_sigma2
from sfumato.privacy.noise.discrete import SMALLEST_SCALE

LARGEST = 1e6
"""The largest epsilon that noise is calibrated to. It protects nobody from 20 on; beyond this the
noise is below every lattice step, and numbers of the curves overflow."""


@dataclass(frozen=True, slots=True)
class GaussianPart:
    """One Gaussian measurement of a joint plan: its sensitivity, cells and share of rho."""

    l2: float
    touched: int
    share: Number = 1


@dataclass(frozen=True, slots=True)
class Calibration:
    """Variances in lattice units squared, one per part, and what they guarantee together."""

    sigma2: tuple[Fraction, ...]
    guarantee: Guarantee
    """Its method says whether the exact curve (`gaussian`) or `zcdp` was claimed."""


def gaussian_sigma2(l2: float, rho: Number) -> Fraction:
    """The least variance parameter with l2^2 / (2 sigma2) <= rho."""
    target = _spendable(rho, "rho")
    square = exact(rounded_up(l2)) ** 2
    sigma2 = representable_sigma2(max(square / (2 * target), SMALLEST_SCALE**2))
    assert event_rho(GaussianEvent(rounded_up(l2), sigma2, 1)) <= target
    return sigma2


def laplace_scale(l1: float, epsilon: Number) -> Fraction:
    """The least scale with l1 / scale <= epsilon."""
    target = _spendable(epsilon, "epsilon")
    scale = representable_scale(max(exact(rounded_up(l1)) / target, SMALLEST_SCALE))
    spent = event_epsilon(LaplaceEvent(rounded_up(l1), scale))
    assert spent is not None
    assert spent <= target
    return scale


def gaussian_sigma2_for(epsilon: float, delta: float, l2: float, touched: int) -> Calibration:
    """The least noise for one Gaussian measurement within (epsilon, delta)."""
    return calibrate_gaussians(epsilon, delta, [GaussianPart(l2, touched)])


def calibrate_gaussians(epsilon: float, delta: float, parts: Sequence[GaussianPart]) -> Calibration:
    """The least noise for several Gaussian measurements together within (epsilon, delta).

    The parts' shares divide rho (a part's sigma is l2 / sqrt(2 share rho)). They are fixed
    here, before any answer is seen, which is what the exact curve's composition asks for.
    """
    return _calibrated(epsilon, delta, tuple(parts))


@lru_cache(maxsize=64)
def _calibrated(epsilon: float, delta: float, parts: tuple[GaussianPart, ...]) -> Calibration:
    """The same question is asked by a plan, by the run after it, and by every run of an audit."""
    shares = [exact(part.share) for part in parts]
    if not parts or min(shares) <= 0 or total(shares) > 1:
        raise UsageError("Parts have positive shares that sum to at most 1.")
    _spendable(epsilon, "epsilon")
    if not 0 < delta < 1:
        raise UsageError("Gaussian noise needs a delta strictly between 0 and 1.")
    rhos = [zcdp_rho(epsilon, delta)]
    curve = _curve_rho(epsilon, delta, parts)
    if curve > rhos[0]:
        rhos.append(curve)
    for rho in reversed(rhos):
        found = _within(epsilon, delta, parts, rho)
        if found is not None:
            return found
    raise UsageError("No noise that can be drawn reaches this target.")


def _events(parts: Sequence[GaussianPart], sigma2: Sequence[Fraction]) -> list[GaussianEvent]:
    return [
        GaussianEvent(rounded_up(part.l2), variance, part.touched)
        for part, variance in zip(parts, sigma2, strict=True)
    ]


def _curve_rho(epsilon: float, delta: float, parts: Sequence[GaussianPart]) -> float:
    """The largest rho of all parts by the exact curve, the lattices' variation paid.

    Both the curve's delta and the variation grow with rho, so halving intervals finds it.
    """
    used = float(total(exact(part.share) for part in parts))

    def claimed(rho: float) -> float:
        tau = math.fsum(
            variation(part.l2**2 / (2 * float(part.share) * rho), part.touched) for part in parts
        )
        return discrete_delta(math.sqrt(2 * rho * used), epsilon, tau)

    high = gaussian_mu(epsilon, delta) ** 2 / 2 / used
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if claimed(middle) <= delta else (low, middle)
    return low


def _within(
    epsilon: float, delta: float, parts: Sequence[GaussianPart], rho: float
) -> Calibration | None:
    """Variances for this rho, raised by a hair until the accountant agrees; None if never."""
    for nudge in (0, 50, 46, 42, 38, 34):
        slack = Fraction(1, 1 << nudge) if nudge else Fraction(0)
        sigma2 = tuple(
            gaussian_sigma2(part.l2, exact(rho) * exact(part.share) * (1 - slack)) for part in parts
        )
        reached = guarantee(_events(parts, sigma2), delta)
        if reached.epsilon <= epsilon:
            return Calibration(sigma2, reached)
    return None


def selection_softness(range_units: int, epsilon: Number) -> Fraction:
    """The b of weights exp(-cost / b) whose bounded range `range_units` / b is epsilon."""
    return laplace_scale(float(range_units), epsilon)


def sparse_scales(epsilon: Number, sensitivity: int, positives: int) -> tuple[Fraction, Fraction]:
    """Threshold and query scales of a sparse vector run that costs at most epsilon.

    Sensitivity/b_T + 2 k sensitivity/b_q = epsilon, divided 1 : (2k)^(2/3), which makes the
    variance of their difference least (Lyu, Su & Li 2017).
    """
    target = _spendable(epsilon, "epsilon")
    weight = exact(round((2 * positives) ** (2 / 3), 6))
    threshold = target / (1 + weight)
    return (
        laplace_scale(float(sensitivity), threshold),
        laplace_scale(float(2 * positives * sensitivity), target - threshold),
    )


def _spendable(amount: Number, what: str) -> Fraction:
    if isinstance(amount, float) and not math.isfinite(amount):
        raise UsageError(
            f"An infinite {what} protects nobody and cannot be calibrated to.",
            remedy=f"Give a finite {what}.",
        )
    value = exact(amount)
    if what == "epsilon" and value > LARGEST:
        raise UsageError(
            f"An epsilon above {LARGEST:,.0f} protects nobody and cannot be calibrated to.",
            remedy="Give a smaller epsilon: 0.1 to 2 are usual.",
        )
    if value <= 0:
        raise UsageError(f"With a {what} of zero or less nothing may be measured.")
    return value


def cost(l2: float, sigma2: Fraction) -> float:
    """rho of one Gaussian measurement, rounded up: what a plan shows."""
    return decimal_up(event_rho(GaussianEvent(rounded_up(l2), sigma2, 1)))
