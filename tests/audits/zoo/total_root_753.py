"""The number of all visits noised for a sensitivity of sqrt(753) (Acs, Biczók & Castelluccia).

The busiest user makes 753 visits. A sum is one number, so its sensitivity is 753, not the
root; and 753 must be a cap fixed in advance, not the largest number seen. The claim of
(0.075, 5e-7) is (1.72, 5e-7) in truth.

Corrected: every user capped at 753, sigma for 753.
"""

import math
from fractions import Fraction

from sfumato.audits.run import EpsilonClaim, MuClaim, Subject
from sfumato.privacy.noise.bits import SeededStream
from sfumato.privacy.noise.discrete import discrete_gaussian

RUNS = 40_000
CAP, EPSILON, DELTA = 753, 0.075, 5e-7


def subject(name, sensitivity):
    sigma = sensitivity * math.sqrt(2 * math.log(1.25 / DELTA)) / EPSILON
    variance = Fraction(round(sigma) ** 2)

    def draw(with_user, runs, seed):
        noise = discrete_gaussian(runs, variance, SeededStream(seed))
        return 100_000 + CAP * int(with_user) + noise

    claims = (EpsilonClaim(EPSILON, DELTA), MuClaim(sensitivity / sigma))
    return Subject(name, "a user with 753 visits", claims, draw)


BROKEN = (subject("K, √753", math.sqrt(CAP)),)
CORRECTED = (subject("K, 753", CAP),)
