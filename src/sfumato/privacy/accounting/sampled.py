"""Gaussian noise on sums over a random part of the people, many times over (DP-SGD).

*Claim.* In each of T steps every unit joins by its own secret coin of chance q, a sum of vectors of
length at most one over those who joined gets Gaussian noise of deviation s, and the next step may
depend on all earlier answers (Abadi et al. 2016). Adding or removing one unit, a step is dominated
by the pair (1 - q) N(0, s^2) + q N(1, s^2) against N(0, s^2), in both orders; dominating pairs
compose adaptively (Zhu, Dong & Wang 2022), and dp-accounting convolves them with every rounding
upwards. zCDP has no amplification by sampling, so there is no rho; the whole run is one event.

*Discrete noise.* The noise that is drawn is the discrete Gaussian on a lattice of 1 / `units`. For
every outcome of the coins and the past, the sum is an integer vector and the theorem of
`accounting.gaussian` holds: a step lies within tau = cells * 0.021 / sigma^2 of rounded continuous
noise, sigma in lattice units, T steps within T tau, and (1 + e^epsilon) T tau is added to delta.
"""

from __future__ import annotations

import math
from functools import lru_cache

from sfumato.errors import UsageError
from sfumato.privacy.accounting.compose import ROUND_OFF
from sfumato.privacy.accounting.gaussian import VARIATION

_GRID = 1e-3
"""Of privacy losses; each step's is rounded upwards to it, 5 % of epsilon at most where that is
above 0.3."""


@lru_cache(maxsize=256)
def sampled_epsilon(
    chance: float, sigma: float, steps: int, delta: float, *, cells: int, units: int
) -> float:
    """Epsilon of the whole run at this delta; infinite where there is none.

    Args:
        chance: With which a unit joins a step.
        sigma: Deviation of the noise over the length that a unit's vector may have.
        steps: How many there are, fixed beforehand.
        delta: Of the whole run.
        cells: Numbers in the vector.
        units: Lattice units of a length of one.
    """
    if not (0 < chance < 1 and sigma > 0 and steps >= 1 and 0 < delta < 1):
        raise UsageError("A run has a chance and a delta between 0 and 1, noise, and a step.")
    # Loaded here because it takes a second and most questions never come this far.
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = pld.from_gaussian_mechanism(
        sigma, sampling_prob=chance, value_discretization_interval=_GRID
    )
    run = step.self_compose(steps)
    tau = steps * cells * float(VARIATION) / (sigma * units) ** 2 * (1 + 1e-12)
    epsilon = 0.0
    for _ in range(50):  # each pays for the variation at the last epsilon, from below
        left = delta - ROUND_OFF - (1 + math.exp(min(epsilon, 700.0))) * tau
        if left <= 0:
            return math.inf
        following = float(run.get_epsilon_for_delta(left)) * (1 + 1e-9)
        if following <= epsilon:
            return epsilon
        epsilon = following * (1 + 1e-6)
    return math.inf


@lru_cache(maxsize=256)
def sampled_sigma(
    chance: float, steps: int, epsilon: float, delta: float, *, cells: int, units: int
) -> float:
    """The least deviation, to four figures and rounded up, that keeps the run in the budget."""

    def kept(sigma: float) -> bool:
        return sampled_epsilon(chance, sigma, steps, delta, cells=cells, units=units) <= epsilon

    high = 1.0
    while not kept(high):
        high *= 2
        if high > 1 << 9:  # the widest noise of the lattice is 2^40 units
            raise UsageError("The budget is too small to train with.", remedy="Raise `epsilon`.")
    low = 0.25
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if kept(middle) else (middle, high)
    digits = 3 - math.floor(math.log10(high))
    rounded = math.ceil(high * 10.0**digits) / 10.0**digits
    return rounded if kept(rounded) else high
