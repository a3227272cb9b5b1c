"""Discrete Gaussian and discrete Laplace noise on a bounded integer array.

Unit and neighbours: those of the counts' bound. The counts carry their own L1 and L2 sensitivity,
joint over the whole array, so the array is one measurement however many cells it has.

*Gaussian* (`measure_gaussian`). Claim: rho = l2^2 / (2 sigma2) zCDP (Canonne, Kamath & Steinke
2020, product over cells), and the exact Gaussian curve where `accounting.gaussian` allows it.

*Laplace* (`measure_laplace`). Claim: pure (l1 / scale)-DP (Ghosh, Roughgarden & Sundararajan 2009):
the log-ratio of one cell is at most its change / scale, and the changes sum to at most l1.

*No sum can wrap.* The samplers never give more than 2^57 in absolute value, so a sum stays below
2^63 as long as the number itself is at most 2^62. Larger numbers are cut to that. A refusal would
be an answer about the data that nobody paid for; cutting moves no cell of two neighbours further
apart than it was, nor in the other direction, so every sensitivity stands. No count of people on
any lattice comes near.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.door import open_private, public_facts
from sfumato.privacy.events import Charger, GaussianEvent, LaplaceEvent, Measurement
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.noise import (
    BitStream,
    discrete_gaussian,
    discrete_laplace,
    representable_scale,
    representable_sigma2,
)

LARGEST = 1 << 62
"""Numbers are cut to it, so that a sum with noise below 2^57 stays within 63 bits."""


def bounded(values: NDArray[np.int64], largest: int = LARGEST) -> NDArray[np.int64]:
    """The values, cut to plus and minus `largest`, a public number."""
    if values.dtype != np.int64:
        raise InputError("Only 64-bit integers can be measured.")
    cut: NDArray[np.int64] = np.clip(values, -largest, largest)
    return cut


def add(values: NDArray[np.int64], noise: NDArray[np.int64]) -> NDArray[np.int64]:
    """A new array: the sum, of the shape of `values`."""
    return bounded(values) + noise.reshape(values.shape)


def gaussian_variance(sigma2: Fraction) -> float:
    """Variance of the discrete Gaussian: sigma2 itself from sigma = 4 on, less below."""
    if sigma2 >= 16:
        return float(sigma2)
    k = np.arange(-80.0, 81.0)
    weights = np.exp(-(k**2) / (2 * float(sigma2)))
    return float((k**2 * weights).sum() / weights.sum())


def laplace_variance(scale: Fraction) -> float:
    """Variance of the discrete Laplace: 2 r / (1 - r)^2 with r = exp(-1/scale)."""
    rate = 1 / float(scale)
    return 2 * math.exp(-rate) / math.expm1(-rate) ** 2


def measure_gaussian(
    box: Private[Counts],
    *,
    sigma2: Fraction | int,
    label: str,
    stream: BitStream,
    charger: Charger,
    touched: int | None = None,
) -> Measurement:
    """The array plus noise of variance parameter `sigma2` (lattice units squared).

    `touched` is the most cells that one unit can move, where that is known to be fewer than
    all of them.
    """
    facts = public_facts(box)
    cells = max(facts.size, 1)
    drawn = representable_sigma2(sigma2)
    event = GaussianEvent(rounded_up(facts.l2), drawn, cells if touched is None else touched)
    charger.charge(label, event)
    values = open_private(box).values
    return Measurement(
        label=label,
        values=add(values, discrete_gaussian(facts.size, drawn, stream)),
        variance=gaussian_variance(drawn),
        units_per_count=facts.units_per_count,
        event=event,
        tainted=stream.tainted,
    )


def measure_laplace(
    box: Private[Counts],
    *,
    scale: Fraction | int,
    label: str,
    stream: BitStream,
    charger: Charger,
) -> Measurement:
    """The array plus noise of scale `scale` (lattice units)."""
    facts = public_facts(box)
    drawn = representable_scale(scale)
    event = LaplaceEvent(rounded_up(facts.l1), drawn)
    charger.charge(label, event)
    values = open_private(box).values
    return Measurement(
        label=label,
        values=add(values, discrete_laplace(facts.size, drawn, stream)),
        variance=laplace_variance(drawn),
        units_per_count=facts.units_per_count,
        event=event,
        tainted=stream.tainted,
    )
