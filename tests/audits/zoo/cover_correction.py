"""The cover correction as printed (Acs & Castelluccia 2014), with Laplace noise.

Cells in the cover are towers and zones; where they overlap, visits would count twice, so a
tower's count is reduced by (share of the tower in the zone) x (count of the *zone*). But the
zone's count holds the visits of other towers too. Here four towers lie 90 % in zone 0, two more
lie inside it, and the cover is zone 0 with the four towers: one visit to an inner tower adds 1
to the zone and takes 0.9 from each of four towers, 4.6 in L1 where 1 was claimed.

Corrected: a tower keeps the part of its own visits that no zone of the cover has counted.
"""

from fractions import Fraction

import numpy as np

from sfumato.audits.run import EpsilonClaim, Subject
from sfumato.privacy.noise.bits import SeededStream
from sfumato.privacy.noise.discrete import discrete_laplace

RUNS = 20_000
UNITS = 10  # tenths of a visit, so that all shares are whole
CLAIM = (EpsilonClaim(1.0),)
SHARES = np.array([9, 9, 9, 9, 10, 10])  # of each tower in zone 0, in tenths
OTHERS = np.array([3, 1, 4, 1, 5, 9])


def as_printed(towers):
    zone = SHARES @ towers  # tenths
    return np.concatenate(([zone], UNITS * towers[:4] - SHARES[:4] * zone // UNITS))


def intended(towers):
    return np.concatenate(([SHARES @ towers], (UNITS - SHARES[:4]) * towers[:4]))


def drawing(counts_of):
    def draw(with_user, runs, seed):
        towers = OTHERS.copy()
        towers[5] += int(with_user)
        counts = counts_of(towers)
        noise = discrete_laplace(runs * counts.size, Fraction(UNITS), SeededStream(seed))
        return (counts + noise.reshape(runs, -1)).astype(float)

    return draw


PAIR = "one visit to a tower inside the zone"
BROKEN = (Subject("cover correction as printed", PAIR, CLAIM, drawing(as_printed)),)
CORRECTED = (Subject("cover correction as intended", PAIR, CLAIM, drawing(intended)),)
