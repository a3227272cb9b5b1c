"""Totals over the week noised for an L2 sensitivity of sqrt(l) (Acs, Biczók & Castelluccia).

Bounding a user to l visits bounds the hourly vector by sqrt(l), because the visits fall in
different hours. In the total of one place they all fall together: l. With l = 30 and
sigma = 193.5 for a claim of (0.15, 1e-6) the truth is (0.635, 1e-6).

Corrected: sigma for a sensitivity of l.
"""

import math
from fractions import Fraction

from sfumato.audits.run import EpsilonClaim, MuClaim, Subject
from sfumato.privacy.noise.bits import SeededStream
from sfumato.privacy.noise.discrete import discrete_gaussian

RUNS = 200_000
VISITS, EPSILON, DELTA = 30, 0.15, 1e-6


def sigma(sensitivity):
    return sensitivity * math.sqrt(2 * math.log(1.25 / DELTA)) / EPSILON


def drawing(sensitivity):
    variance = Fraction(round(sigma(sensitivity)) ** 2)

    def draw(with_user, runs, seed):
        return VISITS * int(with_user) + discrete_gaussian(runs, variance, SeededStream(seed))

    return draw


def claims(sensitivity):
    return (EpsilonClaim(EPSILON, DELTA), MuClaim(sensitivity / sigma(sensitivity)))


PAIR = "a user with all 30 visits in one place"
BROKEN = (Subject("totals, √l", PAIR, claims(math.sqrt(VISITS)), drawing(math.sqrt(VISITS))),)
CORRECTED = (Subject("totals, l", PAIR, claims(VISITS), drawing(VISITS)),)
