"""Textbook Laplace noise in doubles (Mironov 2012).

A double in [1/4, 1/2) has one bit more than one in [1/2, 1). Count 1 plus noise in
[-3/4, -1/2) lands there with its lowest bit always zero; count 0 plus noise does not. So some
outputs are possible on one input only, whatever epsilon the scale promises.

Corrected: exact integer noise.
"""

from fractions import Fraction

import numpy as np

from sfumato.audits.run import EpsilonClaim, Subject
from sfumato.privacy.noise.bits import SeededStream
from sfumato.privacy.noise.discrete import discrete_laplace

RUNS = 20_000
SCALE = 2


def textbook(with_user, runs, seed):
    u = np.random.default_rng(seed).random(runs) - 0.5
    return int(with_user) - SCALE * np.sign(u) * np.log1p(-2 * np.abs(u))


def exact(with_user, runs, seed):
    return int(with_user) + discrete_laplace(runs, Fraction(SCALE), SeededStream(seed))


CLAIM = (EpsilonClaim(1 / SCALE),)
BROKEN = (Subject("Laplace in doubles", "count 0 and 1", CLAIM, textbook),)
CORRECTED = (Subject("discrete Laplace", "count 0 and 1", CLAIM, exact),)
