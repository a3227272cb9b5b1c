"""How many vectors a day `comb` measures, and whether a stream begins with a look.

**How many vectors** follows from what was published: D, the people that a person shares a cell
with, from the noisy vectors less what their noise adds and one standard error, gives
k = .9 sqrt(D epsilon) at each midnight; busy cells decide, not the mean cell. On the first day
D is taken as four times the public people a cell, for a third of the vectors. Where the sums say
that everybody is always counted, D counts a third, and an eighth on a kind of day that was seen
before: who stays need not be seen again. There each vector is one slot. Where the sum of one vector
with a tenth of the budget would tell that (by public facts), a stream begins with such a look,
and the rest of its first day is one vector.

Computed from noisy vectors (post-processing) and public facts.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.streams.facts import StreamFacts
from sfumato.streams.scheme import NoiseKind, Values, noise_of
from sfumato.streams.schemes.comb.profiles import NEAR

_PER_ROOT, _MOST = 0.9, 12
"""Vectors a day at D = epsilon = 1, and the most of them. Between 3 and 8 it hardly matters."""
_CONCENTRATION = 4.0
"""D over the mean people a cell before anything is measured: crowds have 3, taxis 17."""
_STAYING, _STAYING_KNOWN = 1 / 3, 1 / 8
"""What D counts where everybody is always counted, and where this kind of day was seen before. On
crowds 2 vectors a day instead of 4 had 8 % less error over all cells, and the same on the busiest;
with 1 instead of 2 on known days a crowd of 130,000 had 4 to 7 % less over all cells on those."""
_NIGHT = 0.25
"""Share of a day in which a vector must have been for that: at its busiest hour the sum of a city
that is not complete may equal the public number, in the small hours hardly."""
LOOK, SPLIT = Fraction(1, 10), 3
"""Share of the first day's budget that a look costs, and the vectors a first day from which on one
pays: k vectors tell k times less of a level than one does."""


def people_of(facts: StreamFacts) -> int:
    """People that are publicly expected."""
    return facts.expected_users or 4 * facts.cells


def vectors_for(dense: float, facts: StreamFacts) -> int:
    """How many vectors a day where a person shares a cell with so many."""
    wanted = int(_PER_ROOT * math.sqrt(max(dense, 0.0) * facts.epsilon))
    return min(max(wanted, 1), _MOST, facts.window)


def expected_vectors(facts: StreamFacts) -> int:
    """How many as far as public facts tell."""
    return vectors_for(_CONCENTRATION * people_of(facts) / facts.cells, facts)


def company(seen: Values, variances: Values) -> float:
    """D by noisy vectors (vector x cell), less what their noise adds and one standard error."""
    precision = 1 / variances
    variance = 1 / float(precision.sum())
    mean = np.asarray(variance * (precision @ seen))
    # Squares of noise add its variance to each cell; fourth moments of Laplace noise are six
    # times the variance's square, so squares have a variance of five.
    noise = mean.size * variance + variance * math.sqrt(5.0 * mean.size)
    squares = float(np.square(mean).sum()) - noise
    return squares / max(float(mean.sum()), 2 * math.sqrt(mean.size * variance))


def staying(phase: Values, kinds: NDArray[np.bool_], free: bool) -> float:
    """What D counts where everybody is always counted, by when vectors were taken and today's kind
    of day."""
    known = bool((kinds == free).any()) and bool((phase < _NIGHT).any())
    return _STAYING_KNOWN if known else _STAYING


def look_tells(facts: StreamFacts, kind: NoiseKind) -> bool:
    """Whether the sum of a look would tell that everybody is counted; by public facts."""
    sd = noise_of(facts, kind, 1, LOOK).sd * math.sqrt(facts.cells)
    return sd <= NEAR * people_of(facts)
