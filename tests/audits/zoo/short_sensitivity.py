"""A sensitivity 1.2 times too small: the least mistake that the audit promises to see.

Gaussian noise on a vector for an L2 sensitivity of 10 while the user moves it by 12, and
Laplace noise for an L1 sensitivity of 10 while the user moves it by 12.
"""

from fractions import Fraction

import numpy as np

from sfumato.audits.run import EpsilonClaim, MuClaim, Subject
from sfumato.privacy.noise.bits import SeededStream
from sfumato.privacy.noise.discrete import discrete_gaussian, discrete_laplace

RUNS = 20_000
TRUE = {12: np.array([8, 8, 4, 0]), 10: np.array([8, 6, 0, 0])}  # L2 norms 12 and 10


def gaussian(l2):
    def draw(with_user, runs, seed):
        noise = discrete_gaussian(4 * runs, Fraction(100), SeededStream(seed)).reshape(runs, 4)
        return (noise + TRUE[l2] * int(with_user)).astype(float)

    return Subject(
        f"Gaussian, L2 {l2} for 10", "a heavy user", (MuClaim(1.0, 4 * 0.021 / 100),), draw
    )


def laplace(l1):
    def draw(with_user, runs, seed):
        return l1 * int(with_user) + discrete_laplace(runs, Fraction(10), SeededStream(seed))

    return Subject(f"Laplace, L1 {l1} for 10", "a heavy user", (EpsilonClaim(1.0),), draw)


BROKEN = (gaussian(12), laplace(12))
CORRECTED = (gaussian(10), laplace(10))
