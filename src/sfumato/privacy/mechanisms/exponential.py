"""The exponential mechanism with exact probabilities: choose a candidate of low cost.

Candidate i is chosen with probability proportional to exp(-cost_i / b), costs being integers
(McSherry & Talwar 2007; drawn exactly, see `noise`).

Claim: bounded range eta = r / b, hence pure eta-DP and eta^2/8 zCDP (Dong, Durfee & Rogers
2020; Cesar & Rogers 2021). Unit and neighbours: those of the costs. Sensitivity: r bounds how
far neighbours can move any two costs *apart*, |(c_i - c'_i) - (c_j - c'_j)| <= r for all i, j.
Then log P(i)/P'(i) = -(c_i - c'_i)/b + (one number for all i) lies in an interval of length
r/b that holds 0. If a unit moves each cost by at most D in either direction, r = 2 D; if it
moves all of them in one direction by at most D, r = D.

Real utilities are put on a lattice by `quantise`, which pays for the rounding.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.model.private import Private
from sfumato.privacy.charging import Charger
from sfumato.privacy.door import candidates, open_private
from sfumato.privacy.events import BoundedRangeEvent
from sfumato.privacy.exact import decimal_up
from sfumato.privacy.measurement import Selection
from sfumato.privacy.noise import BitStream, choose, representable_softness

LARGEST_COST = 1 << 61


def exponential_choice(
    box: Private[NDArray[np.int64]],
    *,
    softness: Fraction | int,
    range_units: int,
    label: str,
    stream: BitStream,
    charger: Charger,
) -> Selection:
    """The chosen index. `softness` is b and `range_units` is r, both in cost units."""
    count = at_least_one(box, range_units)
    drawn = representable_softness(softness)
    event = BoundedRangeEvent(decimal_up(range_units / drawn))
    charger.charge(label, event)
    costs = above_least(open_private(box))
    index = int(choose(1, costs, drawn, stream)[0])
    return Selection(label, index, count, event, stream.tainted)


def quantise(
    utilities: NDArray[np.float64], *, units: int, spread: float
) -> tuple[NDArray[np.int64], int]:
    """Integer costs floor(-utility * units) and the r that holds for them.

    `spread` bounds |(u_i - u'_i) - (u_j - u'_j)| of the utilities as real numbers. Rounding
    down moves each of the four by less than one unit, so the apartness grows by less
    than 2; the utilities are taken to be computed with errors below a quarter of a unit, which
    adds less than 1. Hence r = ceil(units * spread) + 3.

    Utilities are private, and the charge is paid when they come here: nothing is raised because
    of them. What no lattice holds (2^62 units, infinite, not a number) is the dearest there is;
    doubles are exact to a quarter of a unit up to 2^50, far above what 2^31 people can add up to.
    """
    if units < 1 or not (math.isfinite(spread) and spread >= 0):
        raise UsageError("A lattice of utilities needs positive units and a finite spread.")
    scaled = -np.asarray(utilities, dtype=np.float64) * units
    held = np.clip(np.where(np.isnan(scaled), np.inf, scaled), -(2.0**62), 2.0**62)
    costs: NDArray[np.int64] = np.floor(held).astype(np.int64)
    return costs, math.ceil(units * spread) + 3


def at_least_one(box: Private[NDArray[np.int64]], range_units: int) -> int:
    """The number of candidates, and a check of what is public about the choice."""
    if range_units < 1:
        raise UsageError("The range of a choice is a whole number of cost units, at least 1.")
    count = candidates(box)
    if count == 0:
        raise UsageError("There is no candidate to choose from.")
    return count


def above_least(costs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Costs counted from the least one, at most `LARGEST_COST`; they are private, so none raises.

    No probability depends on where costs start. Cutting what is counted from the least one keeps
    the range: if costs move by amounts in [a, b], the least one moves by some d in [a, b] too, so
    the counted ones move by amounts in [a - d, b - d], which holds 0; a cut brings each of these
    amounts nearer to 0, and they still lie within b - a of each other.
    """
    if costs.ndim != 1 or costs.dtype != np.int64:
        raise UsageError("Costs are a vector of 64-bit integers.")
    above = costs.view(np.uint64) - costs.min().view(np.uint64)  # exact: below 2^64
    cut: NDArray[np.int64] = np.minimum(above, np.uint64(LARGEST_COST)).astype(np.int64)
    return cut
