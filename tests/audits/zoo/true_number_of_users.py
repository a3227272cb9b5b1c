"""Noisy counts divided by the true number of users (Acs & Castelluccia 2014, scaling step).

The noise is right and even exact; the division is not post-processing, because it reads N.
With 10 users all outputs are tenths, with 11 elevenths: no finite epsilon.

Corrected: divide by a public number.
"""

from fractions import Fraction

from sfumato.audits.run import EpsilonClaim, Subject
from sfumato.privacy.noise.bits import SeededStream
from sfumato.privacy.noise.discrete import discrete_laplace

RUNS = 10_000
CLAIM = (EpsilonClaim(0.5),)
PAIR = "5 of 10 users and 6 of 11"


def drawing(divisor):
    def draw(with_user, runs, seed):
        noise = discrete_laplace(runs, Fraction(2), SeededStream(seed))
        return (5 + int(with_user) + noise) / divisor(10 + int(with_user))

    return draw


BROKEN = (Subject("frequency by true N", PAIR, CLAIM, drawing(lambda n: n)),)
CORRECTED = (Subject("frequency by public N", PAIR, CLAIM, drawing(lambda _: 10)),)
