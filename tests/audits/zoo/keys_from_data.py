"""A table that lists the places which occur in the data, each with a properly noised count.

A row that exists because of one person tells that the person was there, whatever its number
says. Absent rows are NaN.

Corrected: a row for every public place, empty ones too.
"""

from fractions import Fraction

import numpy as np

from sfumato.audits.run import EpsilonClaim, Subject
from sfumato.privacy.noise.bits import SeededStream
from sfumato.privacy.noise.discrete import discrete_laplace

RUNS = 5_000
OTHERS = np.array([4, 0, 7, 0, 2, 1])
CLAIM = (EpsilonClaim(1.0),)
PAIR = "the only visitor of one place"


def drawing(*, public_keys):
    def draw(with_user, runs, seed):
        counts = OTHERS.copy()
        counts[3] += int(with_user)
        noise = discrete_laplace(runs * counts.size, Fraction(1), SeededStream(seed))
        table = (counts + noise.reshape(runs, -1)).astype(float)
        if not public_keys:
            table[:, counts == 0] = np.nan
        return table

    return draw


BROKEN = (Subject("rows from the data", PAIR, CLAIM, drawing(public_keys=False)),)
CORRECTED = (Subject("rows from a public list", PAIR, CLAIM, drawing(public_keys=True)),)
