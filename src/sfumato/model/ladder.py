"""The activity ladder: how active people are, as one short vector of known sensitivity.

A user's activity a_u is a whole number: the slots with any visit (`people`), or the distinct pairs
of place and slot (`visits`). Steps 0 = c_0 < c_1 < ... < c_m are public and fixed before the data
is seen. Step k sums, over users, how much of the activity lies between c_(k-1) and c_k:

    S_k = sum over u of clip(a_u - c_(k-1), 0, c_k - c_(k-1))

S_1 + ... + S_m is the total of everybody's activity, each user cut at c_m; S_k over the width of
its step falls from the number of people active at all (c_1 = 1) to that of the most active: it is
the tail of the law of activity, averaged over the step.

What is counted is g_k S_k, with whole gains

    g_k = floor(LADDER_UNITS / ((c_k - c_(k-1)) sqrt(m)))

*Claim.* Unit: a user's whole record in the period; neighbours add or remove one. The vector moves
by at most `LADDER_UNITS` in L2, and sqrt(m) times that in L1. Proof: one user adds between 0 and
g_k (c_k - c_(k-1)) <= LADDER_UNITS / sqrt(m) to entry k, as an inequality between integers,
g_k^2 (c_k - c_(k-1))^2 m <= LADDER_UNITS^2; the squares of m entries sum to at most
LADDER_UNITS^2. L1 by Cauchy-Schwarz. A user at or above the top reaches the bound, up to the
rounding of the gains, so no smaller number would do. Entries stay below 2^62 for up to 2^38 users.

Equal reach of every step (the sqrt(m)) rather than equal noise in people: the noise of S_k is
proportional to the width of its step, as is the mass that a very active user has there.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError

LADDER_UNITS = 1 << 24
"""L2 sensitivity of a ladder, in lattice units: an integer, so that the claim is exact.

A step of width 1,000 in a ladder of ten has a gain of 5,305, so rounding it down wastes less than
1 in 5,000; and noise of 2^16 times the sensitivity can still be drawn (`noise.LARGEST_SCALE`).
"""


def ladder_gains(steps: tuple[int, ...]) -> NDArray[np.int64]:
    """The whole numbers g_k that the steps' sums are multiplied with.

    Args:
        steps: c_1 < ... < c_m, whole numbers from 1 up. Public.

    Returns:
        g_k = floor(LADDER_UNITS / ((c_k - c_(k-1)) sqrt(m))), by integer arithmetic alone.

    Raises:
        UsageError: Steps that are not whole, positive and increasing, or one that is so wide
            that its gain would be zero.
    """
    whole = all(isinstance(step, int) and not isinstance(step, bool) for step in steps)
    if not (whole and steps and all(low < high for low, high in pairwise((0, *steps)))):
        raise UsageError(
            "The steps of a ladder are whole numbers, each above the one before, from 1 up.",
            remedy="Give for example (1, 2, 4, 8, 16).",
        )
    # floor(sqrt(x)) is isqrt(floor(x)): nothing is rounded on the way.
    gains = [
        math.isqrt(LADDER_UNITS**2 // ((high - low) ** 2 * len(steps)))
        for low, high in pairwise((0, *steps))
    ]
    if min(gains) < 1:
        raise UsageError(
            f"A step of the ladder is wider than {LADDER_UNITS:,} over the root of their number.",
            remedy="Give a lower top, or more steps below it.",
        )
    return np.array(gains, np.int64)


def step_sums(
    values: NDArray[np.int64], variance: float, steps: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The sums S_k of a measured ladder, and the standard deviation of the noise in each.

    Args:
        values: The noisy entries, as `Measurement.values` holds them (lattice units).
        variance: Variance of the noise on each entry, `Measurement.variance`.
        steps: The steps that were asked for.

    Returns:
        Noisy S_k in units of activity, and the sd of their noise. Both float64 of shape (m,).

    Raises:
        UsageError: Values of another number of steps, or steps that are none.
    """
    gains = ladder_gains(steps)
    if values.shape != gains.shape:
        raise UsageError(f"A ladder of {len(steps)} steps has that many values.")
    return values / gains.astype(np.float64), math.sqrt(variance) / gains.astype(np.float64)
