"""How often a charge for one unit counts in the account of another: one rule for all pairs.

A charge says: adding or removing one *unit* of it (a person's record in the period, on one day,
within one window, one record) changes what is published by at most so much. An account asks what
one *step* of its own unit changes: the person's data in some stretch of time I = [a, b) go (a day,
a window, all of time), one record goes, or one location moves.

**Rule.** The charge counts n times, n being the number of its own steps on a path from the one
data set to the other.

*Proof.* The output distributions of neighbours of the charge's unit are within epsilon (or rho, or
mu) of each other. Along a path D = D_0, D_1, ..., D_n = D' each two successive data sets are
such neighbours. Pure epsilons add up along a path (the logarithm of a ratio of probabilities is
a sum): n epsilon. For zero-concentrated DP the distance sqrt(rho) adds up: n^2 rho (Bun & Steinke
2016, proposition 27). For Gaussian noise the mean moves by at most n l2 by the triangle
inequality, which is both n^2 rho and the exact curve with n mu (Dong, Roth & Su 2022, theorem 3).
A selection of bounded range eta has its log-ratios in an interval of length n eta. Any path
will do: a longer one than needed overstates the loss and never understates it. QED

**Paths.** The charge sees only its own period P, so I is cut to I ∩ P first; if nothing is left
the two data sets are the same to it: n = 0. Otherwise the units that meet I are gone through one
by one. A unit that lies in I as a whole is removed: one step. A unit that I cuts is removed with
all it holds, and what lies outside I is added again: two steps.

* `user-period`: one unit, P itself: 1 if P lies in I, else 2.
* `user-day`: the days of the charge's clock within P. The same clock gives 1, another 2 for each
  of two days that are cut (and 1 for a short day between them).
* `w-event`: windows of length w that begin on any slot edge, and they may overlap: what an earlier
  window removed is gone, so a later one that reaches over it removes only what is left. If a
  and b are slot edges and b - a >= w, then ceil((b - a) / w) windows that all lie in I remove it,
  the last one reaching back. If b - a < w, the window that holds I is cut: 2. Where a is no slot
  edge, the window that begins on the edge before it is cut (2) and goes w far; what is left is
  covered as before, and likewise at b. Outside P there is nothing, so a window that sticks out of
  P is not cut there, and an end of P is as good as a slot edge. (Listing all data sets of a
  small world finds no shorter path: `tests/privacy/ledger/test_nesting.py`.)
* One record (`event`) or one moved location (`point`) lies within one unit, and the rest of
  that unit stays: 2. A single record is one step of `event`; a moved location is a record that
  goes and another that comes: 2.
* `trajectory`: a person's records between two pauses of more than 20 minutes, of any length. As a
  charge: one step of its own account; a moved location lies within one trip, and the rest of it
  stays: 2; a record that goes may leave a pause behind, so that one trip goes and two come: 3; a
  stretch of time may hold any number of trips: unbounded. As an account: where one trip lies is
  not known, so it is asked of all of time. Of `user-period` and of every day and window that a
  trip can meet, some records go and others stay: 2 for each of them.
* A charge for `event` says nothing about a stretch of time: there may be any number of records
  in it. A charge for `point` says nothing about data that go: how far they move is not bounded.
  Both are unbounded (-1 here), which is said and not counted.

**Sums of clipped, non-negative contributions.** Where a charge is Gaussian noise on the sum of
vectors, one for each unit, each with entries >= 0 and length at most l2, n = 2 steps *at one
unit* replace its vector x by x'. Then |x - x'|^2 = |x|^2 + |x'|^2 - 2 <x, x'> <= 2 l2^2, because
<x, x'> >= 0: rho counts twice instead of four times. This needs the charge's word (`Claim.sums`),
since transforms with negative entries, choices and sparse vectors are not of that kind, and it
holds for `user-period` only, where both steps are always at one and the same unit. QED
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.model.time_grid import MICROSECONDS, TimeGrid, zone
from sfumato.privacy.events import (
    BoundedRangeEvent,
    ConcentratedEvent,
    GaussianEvent,
    LaplaceEvent,
    MetricEvent,
    PrivacyEvent,
    PureEvent,
    Unit,
    UnitKind,
)
from sfumato.privacy.exact import decimal_up, exact, rounded_up

Ints = NDArray[np.int64]
UNBOUNDED = -1
ALWAYS = (-(1 << 60), 1 << 60)
"""All of time, in epoch microseconds: the stretch of a person's whole record."""
_SHORTEST_DAY = 20 * 3600 * MICROSECONDS
"""No local day is shorter: what is known of a day whose clock is not."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


Period = tuple[int, int] | tuple[Ints, Ints]
"""First instant and first instant after; arrays where a rule is asked of many charges at once."""


def steps(
    charge: Unit,
    period: Period,
    account: UnitKind,
    begin: Ints,
    end: Ints,
    *,
    anywhere: bool = False,
) -> Ints:
    """The n of the rule, for each stretch [begin, end) that one step of the account removes.

    For the accounts `event` and `point` the stretch is where the one record lies. `UNBOUNDED`
    where no number of steps is enough. `anywhere`: a stretch stands for all of its length that
    begin near it, not only for itself, so that no window may be taken to fit it. Of many charges
    for one unit, `period` has the edges as columns, and the answer one row for each.
    """
    first, last = np.maximum(begin, period[0]), np.minimum(end, period[1])
    met = first < last
    if charge.kind is UnitKind.POINT:
        # Locations are charged for a whole trace, and a place is met again: they always add.
        within = 1 if account is UnitKind.POINT else UNBOUNDED
        return np.where(met | (within == 1), within, 0).astype(np.int64)
    if charge.kind is UnitKind.EVENT:
        found = {UnitKind.EVENT: 1, UnitKind.POINT: 2}.get(account, UNBOUNDED)
        return np.where(met, found, 0).astype(np.int64)
    if account in (UnitKind.EVENT, UnitKind.POINT):
        # A record that is gone may be the bridge over a pause: one trip out, two in.
        torn = charge.kind is UnitKind.TRAJECTORY and account is UnitKind.EVENT
        return np.where(met, 3 if torn else 2, 0).astype(np.int64)
    if charge.kind is UnitKind.TRAJECTORY:
        found = 1 if account is UnitKind.TRAJECTORY else UNBOUNDED
        return np.where(met, found, 0).astype(np.int64)
    if charge.kind is UnitKind.USER_PERIOD:
        count = np.where((first == period[0]) & (last == period[1]), 1, 2)
    elif charge.kind is UnitKind.USER_DAY:
        count = _days(charge.clock, period, first, last)
    else:
        count = _windows(charge, period, first, last, anywhere)
    if account is UnitKind.TRAJECTORY:  # what else the person did in each of them stays
        count = np.where(count > 0, 2 if charge.kind is UnitKind.USER_PERIOD else 2 * count, count)
    return np.where(met, count, 0).astype(np.int64)


def scaled(event: PrivacyEvent, n: int, *, sums: bool = False) -> PrivacyEvent:
    """The event that n steps of its unit amount to (see the module's proof)."""
    if n == 1:
        return event
    match event:
        case GaussianEvent():
            once = sums and n == 2
            l2 = rounded_up(event.l2 * math.sqrt(2.0)) if once else _times(event.l2, n)
            return replace(event, l2=l2, touched=n * event.touched)
        case LaplaceEvent():
            return replace(event, l1=_times(event.l1, n))
        case BoundedRangeEvent():
            return replace(event, range=_times(event.range, n))
        case PureEvent():
            return replace(event, epsilon=_times(event.epsilon, n))
        case ConcentratedEvent():
            return replace(event, rho=_times(event.rho, n * n))
        case MetricEvent():
            return replace(event, epsilon_per_metre=_times(event.epsilon_per_metre, n))


def within_radius(
    event: PrivacyEvent, radius_m: float, of_m: float | None, least_m: float
) -> PrivacyEvent:
    """A charge for locations as the loss of moving them by at most `radius_m`.

    Planar Laplace noise loses epsilon per metre times the distance, and no less than for one step
    of its lattice, `least_m` (`noise.planar`). Gaussian noise was charged for the radius `of_m`
    with l2 = sqrt(n) (reach + sqrt(2)) for n reports, the second term being the rounding to
    whole centimetres, which does not shrink with the radius (`traces.request`);
    `touched` is 2n, so that term is sqrt(touched).
    """
    if isinstance(event, MetricEvent):
        loss = exact(event.epsilon_per_metre) * exact(max(radius_m, least_m))
        return PureEvent(decimal_up(loss), f"{event.mechanism} within {radius_m:g} m")
    if isinstance(event, GaussianEvent) and of_m is not None:
        rounding = min(math.sqrt(event.touched), event.l2)
        reach = (event.l2 - rounding) * (radius_m / of_m) * (1 + 1e-12)
        return replace(event, l2=rounded_up(reach + rounding))
    return event


@lru_cache(maxsize=256)
def day_edges(clock: str, begin: int, end: int) -> Ints:
    """First instants of the local days that meet [begin, end), and of the day after them."""
    local = zone(clock)
    first, last = (
        (_EPOCH + timedelta(microseconds=instant)).astimezone(local).date()
        for instant in (begin, end - 1)
    )
    # A clock set back over midnight shows the day before once more; one day more on each side.
    near = TimeGrid.between(first - timedelta(days=1), last + timedelta(days=2), "1d", clock).edges
    low = int(np.searchsorted(near, begin, side="right")) - 1
    high = int(np.searchsorted(near, end, side="left")) + 1
    return np.asarray(near[max(low, 0) : high], dtype=np.int64)


def _days(clock: str | None, period: Period, first: Ints, last: Ints) -> Ints:
    """Days removed whole count 1, days that are cut 2. A period may begin or end within a day."""
    if clock is None:
        whole = -(-(period[1] - period[0]) // _SHORTEST_DAY)
        met = (last - first) // _SHORTEST_DAY + 2
        inside = (first == period[0]) & (last == period[1])
        return np.where(inside, whole, np.minimum(met + 2, 2 * whole)).astype(np.int64)
    edges = day_edges(clock, int(np.min(period[0])), int(np.max(period[1])))
    return _cells(edges, period, first, last)


def _cells(edges: Ints, period: Period, first: Ints, last: Ints) -> Ints:
    """For cells that part a period: those in [first, last) once, those that are cut twice."""
    low = np.searchsorted(edges, first, side="right") - 1
    high = np.searchsorted(edges, last, side="left")
    inside = (low >= 0) & (high < edges.size) & (low < high)
    low, high = np.where(inside, low, 0), np.where(inside, high, 1)
    cut_first = np.maximum(edges[low], period[0]) < first
    cut_last = np.minimum(edges[high], period[1]) > last
    met = high - low
    count = met + cut_first + np.where(met > 1, cut_last, cut_last & ~cut_first)
    return np.where(inside, count, 0).astype(np.int64)


def _windows(charge: Unit, period: Period, first: Ints, last: Ints, anywhere: bool) -> Ints:
    """Windows that cover [first, last), cut at most at its two ends: see the module.

    Where slots are not all of one length the span is no whole number of them (`streams.facts`).
    Their edges are not known here then, only that one comes at least every `slot`, and every
    window lasts at least `span`: a plain row of windows, the first and the last of them cut, is
    all that is sure.
    """
    slot = (charge.slot_s or 1) * MICROSECONDS
    span = charge.span_s * MICROSECONDS if charge.span_s else (charge.window or 1) * slot
    length = period[1] - period[0]
    a, b = first - period[0], last - period[0]
    begins, ends = a == 0, b == length
    if span % slot:
        met = -(-(b - a + slot) // span)
        row = np.where(met > 1, met + 2, 2)
        return np.where(begins & ends, -(-length // span), row).astype(np.int64)

    def covering(size: Ints) -> Ints:
        return np.maximum(-(-size // span), 0)

    low, high = a - a % slot, b + -b % slot
    if anywhere:
        low, high = a - slot, b + slot
    cut_first = (low < a) & ~begins
    cut_last = (high > b) & ~ends
    inside = np.where(begins | ends | (b - a >= span), covering(b - a), 2)
    from_first = 2 + covering(b - (low + span))
    from_last = 2 + covering((high - span) - a)
    from_both = np.where(high - low <= span, 2, 4 + covering((high - span) - (low + span)))
    found = np.where(cut_last, from_last, inside)
    found = np.where(cut_first, np.where(cut_last, from_both, from_first), found)
    return found.astype(np.int64)


def _times(value: float, n: int) -> float:
    return decimal_up(Fraction(n) * exact(value))
