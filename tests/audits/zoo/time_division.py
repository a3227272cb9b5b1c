"""The time division of Chen et al.: a window chosen by a utility whose sensitivity is not 2 log S.

U(i, j) = log_a(j - i + 1) * aveDis / simVar over the L1 distances between successive
histograms, both averages dividing j - i distances by j - i + 1, as printed. The claimed
sensitivity 2 log_a S needs simVar >= 1, which nothing enforces. If everyone stands still all
distances and all utilities are 0; one person who moves every hour makes all distances 2, and
U of the whole day 19 log_a 19 = 22.5 where 2.4 was claimed.

Corrected: noisy distances (L1 sensitivity 2 (S - 1)), then any choice, for free.
"""

import math
from fractions import Fraction

import numpy as np

from sfumato.audits.run import EpsilonClaim, Subject
from sfumato.privacy.noise.bits import SeededStream
from sfumato.privacy.noise.discrete import discrete_laplace

RUNS = 100_000
SLOTS, BASE, CLAIMED = 19, 12, 0.30
WINDOWS = [(i, j) for i in range(SLOTS) for j in range(i + 1, SLOTS)]
PAIR = "everyone still, and one person who moves every hour"


def utility(distances, i, j):
    length = j - i + 1
    average = distances[i:j].sum() / length
    spread = np.abs(average - distances[i:j]).sum() / length
    return math.log(length, BASE) * average / spread if spread > 0 else 0.0


def distances(with_user):
    return np.full(SLOTS - 1, 2.0 * with_user)


def law(with_user):
    scores = np.array([utility(distances(with_user), i, j) for i, j in WINDOWS])
    weights = np.exp(CLAIMED * scores / (2 * 2 * math.log(SLOTS, BASE)))
    return weights / weights.sum()


def as_printed(with_user, runs, seed):
    return np.random.default_rng(seed).choice(len(WINDOWS), size=runs, p=law(with_user))


def measured_first(with_user, runs, seed):
    """The window with the largest sum of (noisy distance - 1): busy and long."""
    stream, parts = SeededStream(seed), []
    starts, ends = np.array(WINDOWS).T
    for size in [min(10_000, runs - done) for done in range(0, runs, 10_000)]:
        noise = discrete_laplace(
            size * (SLOTS - 1), Fraction(2 * (SLOTS - 1)) / Fraction(3, 10), stream
        )
        noisy = distances(with_user) + noise.reshape(size, -1)
        sums = np.pad(np.cumsum(noisy - 1, axis=1), ((0, 0), (1, 0)))
        parts.append(np.argmax(sums[:, ends] - sums[:, starts], axis=1))
    return np.concatenate(parts)


CLAIM = (EpsilonClaim(CLAIMED),)
BROKEN = (Subject("time division as printed", PAIR, CLAIM, as_printed),)
CORRECTED = (Subject("time division on noisy distances", PAIR, CLAIM, measured_first),)
EXACT_BROKEN = (law(False), law(True), CLAIMED)
