"""Private choices with exact probabilities: the exponential mechanism and report noisy max.

Costs are integers, and unit and neighbours are those of the costs.

*The exponential mechanism* (`exponential_choice`) chooses a candidate of low cost. Candidate i is
chosen with probability proportional to exp(-cost_i / b), costs being integers
(McSherry & Talwar 2007; drawn exactly, see `noise`).

Claim: bounded range eta = r / b, hence pure eta-DP and eta^2/8 zCDP (Dong, Durfee & Rogers 2020;
Cesar & Rogers 2021). Sensitivity: r bounds how far neighbours can move any two costs *apart*,
|(c_i - c'_i) - (c_j - c'_j)| <= r for all i, j. Then log P(i)/P'(i) = -(c_i - c'_i)/b + (one
number for all i) lies in an interval of length r/b that holds 0. If a unit moves each cost by at
most D in either direction, r = 2 D; if it moves all of them in one direction by at most D, r = D.

Real utilities are put on a lattice by `quantise`, which pays for the rounding.

*One choice in every row, paid for together* (`exponential_choices`). Row e of a table of integer
costs has candidates of its own; candidate i is chosen with probability proportional to
exp(-cost_ei / b), the rows independently of each other.

Claim: R^2 / (8 b^2)-zCDP, however many rows there are. Sensitivity: neighbours move any two costs
of row e apart by at most r_e, and R bounds the Euclidean norm of (r_e) over all rows. *Proof.*
Fix two neighbours. The log-ratio of row e's choice lies in an interval of length r_e / b, so its
Renyi divergence of order alpha is at most alpha r_e^2 / (8 b^2) (Hoeffding's lemma; Dong, Durfee
& Rogers 2020; Cesar & Rogers 2021). The rows are independent, so divergences add up to alpha *
sum of r_e^2 / (8 b^2). QED

The number of rows is public here: it comes from noisy totals that were paid for. There is no
pure epsilon worth stating: losses of rows add up to the *sum* of r_e / b, which for a person in
m rows is larger by up to the square root of m.

*Report noisy max* (`noisy_max`), as permute-and-flip: no ties, no floating point. Adding discrete
noise and taking the largest needs a rule for ties, and careless rules break the proof.
Permute-and-flip (McKenna & Sheldon 2020) has none: flip a coin of chance p_i = exp(-(c_i -
least)/b) for every candidate, and choose uniformly among those that came up (a random order's
first success). The least cost always comes up.

Claim: pure (r / b)-DP, where r bounds how far neighbours move any two costs apart (as
above). *Proof.* Let candidates arrive at independent uniform times: i wins with
probability p_i * integral over t in (0,1) of prod over j != i of (1 - t p_j). Substituting
t = exp(-(s + least)/b) this is the probability that -c_i + E_i is the largest, E
exponential with mean b (Ding et al. 2021). Fix the other candidates' E and put
m = max over j of (c_i - c_j + E_j): i wins with probability exp(-max(0, m)/b), and m moves by
at most r between neighbours. Integrate. QED

It never does worse than the exponential mechanism at the same epsilon and up to twice as well;
but its zCDP cost is that of a pure mechanism, epsilon^2/2, so the exponential mechanism composes
better. Costs beyond a cap where coins have chance below exp(-32768) are cut to the cap, which
moves no two costs further apart: the moves of (c_i - least) have 0 in their range, and cutting
draws each towards 0.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.model.private import Private
from sfumato.privacy.door import candidates, open_private
from sfumato.privacy.events import (
    BoundedRangeEvent,
    Charger,
    ConcentratedEvent,
    PureEvent,
    Selection,
    Selections,
)
from sfumato.privacy.exact import decimal_up
from sfumato.privacy.mechanisms.additive import LARGEST
from sfumato.privacy.noise import BitStream, bernoulli_exp, choose, representable_softness

LARGEST_COST = 1 << 61
"""Costs counted from the least one are cut to it (`above_least`)."""


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


MECHANISM = "exponential mechanism in every row"


def exponential_choices(
    box: Private[NDArray[np.int64]],
    *,
    softness: Fraction | int,
    range_units: int,
    label: str,
    stream: BitStream,
    charger: Charger,
) -> Selections:
    """The chosen index of every row. `softness` is b, `range_units` is R, in cost units."""
    at_least_one(box, range_units)
    drawn = representable_softness(softness)
    event = ConcentratedEvent(choices_rho(drawn, range_units), MECHANISM)
    charger.charge(label, event)
    costs = open_private(box)
    if costs.ndim != 2:
        raise InputError("Choices in rows need a table of costs.")
    chosen = [int(choose(1, above_least(row), drawn, stream)[0]) for row in costs]
    return Selections(label, np.array(chosen, np.int64), costs.shape[1], event, stream.tainted)


def choices_rho(softness: Fraction, range_units: int) -> float:
    """R^2 / (8 b^2), rounded up."""
    return decimal_up((Fraction(range_units) / softness) ** 2 / 8)


def noisy_max(
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
    event = PureEvent(decimal_up(range_units / drawn), "report noisy max (permute-and-flip)")
    charger.charge(label, event)
    costs = np.minimum(above_least(open_private(box)), LARGEST // drawn.denominator)
    heads = bernoulli_exp(costs * drawn.denominator, drawn.numerator, stream)
    up = np.flatnonzero(heads)
    index = int(up[choose(1, np.zeros(up.size, np.int64), 1, stream)[0]])
    return Selection(label, index, count, event, stream.tainted)
