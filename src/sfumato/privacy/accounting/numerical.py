"""Numerical composition of Gaussian noise with pure mechanisms, through dp-accounting.

All Gaussian events together are one continuous Gaussian pair of ratio mu (`discrete` says
why, and what its variation tau costs). An epsilon-DP event is dominated by randomised
response at epsilon, whatever the mechanism (Kairouz, Oh & Viswanath 2015). Dominating pairs
compose, adaptively too (Zhu, Dong & Wang 2022), and dp-accounting convolves their privacy
losses with every rounding upwards.

Each pure epsilon is first moved up to a multiple of the grid, which makes its randomised
response exact on the grid. The transforms behind the convolution work in double precision;
`ROUND_OFF` is set aside for them and no delta below `LEAST_DELTA` is answered.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache

LEAST_DELTA = 1e-9
ROUND_OFF = 1e-12
_GRID = 8000
"""Grid points up to the epsilon that is to be beaten."""
_MOST_GROUPS = 64
"""More distinct epsilons than this are not worth the transforms."""


@lru_cache(maxsize=256)
def numerical_epsilon(
    mu: float, tau: float, pure: tuple[float, ...], delta: float, beat: float
) -> float:
    """Epsilon at this delta of one Gaussian and sorted pure events, if less than `beat`.

    `beat` is what the other methods reached: it sets the grid. Infinite where there is
    nothing to gain.
    """
    groups = Counter(pure)
    if delta < LEAST_DELTA or not 0 < beat < 50 or len(groups) > _MOST_GROUPS:
        return math.inf
    left = delta - (1 + math.exp(beat)) * tau - ROUND_OFF
    if left <= 0:
        return math.inf
    # Loaded here because it takes a second and most questions never come this far.
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = beat / _GRID
    composed = pld.identity(value_discretization_interval=step)
    for epsilon, count in groups.items():
        steps = math.ceil(epsilon / step)
        moved = steps * step
        pair = pld.PrivacyLossDistribution.create_from_rounded_probability(
            {steps: 1 / (1 + math.exp(-moved)), -steps: 1 / (1 + math.exp(moved))}, 0.0, step
        )
        composed = composed.compose(pair.self_compose(count) if count > 1 else pair)
    if mu > 0:
        noise = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=step)
        composed = composed.compose(noise)
    found = float(composed.get_epsilon_for_delta(left))
    return found * (1 + 1e-9) if found < beat else math.inf
