"""Base class of count sources (local, Spark), their weights in fixed point, and the sensitivities.

**Sources.** `CountSource` holds what every source is asked about, events, places, grid and resource
limits, and answers what needs no pass over the data; sources differ in how they count, never in
what. `Compiled` is the base of those that count by one compiled pass over users: a question is the
name of a pass in `tally`, the shape of its sums and its arguments. On one machine threads run it
over blocks of users, on a cluster tasks do; the arguments are the same, and so are the bytes.

**Sensitivities.** Add or remove one user's whole record. M is any non-negative map of places whose
columns sum to at most one (identity, area shares, clusters); per slot it does not raise the L1
norm.

===============  ===========================  =========================  ====================
answer           L1 (lattice units)           L2 (lattice units)         after M
===============  ===========================  =========================  ====================
sampled          l                            sqrt(l)                    both hold
weighted         2^16 C sqrt(slots)           2^16 C                     both hold
with norms q     2^16 C sqrt(slots)           2^16 C                     of counts times q
place totals     2^16 C sqrt(places)          2^16 C                     L1 only: noise first
slot totals      2^16 C sqrt(slots)           2^16 C                     (no places)
capped total     cap                          cap                        (no places)
one answer       C                            C                          (no places)
answers          2^16 C sqrt(questions)       2^16 C                     (no places)
ladder           2^24 sqrt(steps)             2^24                       (no places)
lives            2^16 sqrt(touched)           2^16                       never: measured as it is
exact            infinite                     infinite                   never measured
===============  ===========================  =========================  ====================

Sampled: at most l slots with one unit each. Weighted: the user adds mass at most w m_t in slot
t, so in L2 over slots at most w norm <= 2^16 C (by the claim below), and per slot the L2
norm over places is at most the L1 norm, before and after M; L1 by Cauchy-Schwarz over slots.
With norms q the same argument bounds sum over places of q times the count: the statement is
about any map that sends a visit at (place, slot) to a vector of L2 norm at most q.
Place totals: entries are rounded down from a vector scaled to C, but M may add up the entries
of many places in one zone, which raises L2: measure first, map the noisy totals afterwards.
One answer: a user adds min(visits inside, C), or one where people are asked for and C is 1.
Answers: the user's *whole vector* over the questions is scaled to C, so any number of questions
that overlap in any way move by C together; L1 by Cauchy-Schwarz over the questions.

**Weights** min(most, C / norm) in fixed point, the same integer on every engine. With n the user's
squared norm, an exact integer in units of 1/`units`^2, and W = floor(2^16 most) the largest weight
(2^16 unless a limit was fitted to people), the weight in units of 2^-16 is

    0                                    n >= 2^53 (a double could not hold n; always valid)
    W                                    n <= floor((2^16 C units / W)^2), compared as integers
    floor(fl(c / fl(sqrt(n))))           otherwise, c = fl(2^16 C units (1 - 2^-46))

where fl is IEEE double rounding: square root and division are correctly rounded everywhere,
so every engine gets the same value.

*Claim: w sqrt(n) <= 2^16 C units, always.* First two lines: at once. Third: write
e = 2^-53. c comes from at most three roundings of exact factors, so c <= 2^16 C units
(1 - 128 e)(1 + e)^3; fl(sqrt(n)) >= sqrt(n) (1 - e), n below 2^53 being exact; the quotient
is rounded once more. So the quotient times sqrt(n) is at most 2^16 C units times
(1 - 128 e)(1 + e)^4 / (1 - e) < 1, and rounding down only helps. (Where c is subnormal it is
below 1 and the weight is 0, as n >= 1.) The price is a relative 2^-46 of weight. On the third line
W sqrt(n) > 2^16 C units, so the weight is below W there, and the sensitivities above hold for
every `most`: it is in none of them.

*No sum wraps.* A weight is at most 2^26 (most 2^10) and, where it is not zero, a user's mass in one
place or slot is below 2^26.5 of its units (n < 2^53), so their product stays below 2^53. Summed
over 2^32 users, a cell of the table stays below 2^58; so does an entry of the totals, at most 2^16
times the slots or places, for most <= 1 and up to 1,024 of them; for more it is at most 2^16 C a
user, where C is at most 2^14 (`WeightBound`): 2^62.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.fingerprint import fingerprint
from sfumato.errors import UsageError
from sfumato.io.events import resolved
from sfumato.model.counts import (
    WEIGHT_UNITS,
    Counting,
    Counts,
    SampleBound,
    WeightBound,
    norms_digest,
)
from sfumato.model.events import Events
from sfumato.model.ladder import LADDER_UNITS, ladder_gains
from sfumato.model.lives import LIFE_UNITS, LifeQuestion
from sfumato.model.masks import Masks, Measure
from sfumato.model.places import PlaceKind, Places
from sfumato.model.private import Private
from sfumato.model.source import NORM_UNITS, Progress
from sfumato.model.time_grid import TimeGrid

NORM_CEILING = 1 << 53
MASS_CEILING = 1 << 27
"""A mass in one slot at or above this has a square above `NORM_CEILING`: larger is the same."""
TOTAL_UNITS = 1 << 12
"""Lattice of a `people` mass inside a norm over places: 2^53 is then 23,170 whole slots."""


@dataclass(frozen=True, slots=True)
class WeightRule:
    """Limit as the two constants every engine works with."""

    whole_up_to: int
    """Squared norms up to this keep the whole weight."""
    whole: int
    """W of the module's text: 2^16 times the largest weight."""
    scale: float
    """c of the module's text: divided by the norm it gives the weight."""

    @classmethod
    def of(cls, bound: WeightBound, units: int = 1) -> WeightRule:
        """The rule for a norm held in units of 1/`units`."""
        exact = (Fraction(bound.limit) * units) ** 2
        largest = Fraction(2) ** 1000
        scale = WEIGHT_UNITS * bound.limit * units * (1 - 2.0**-46) if exact < largest else 2.0**500
        whole_up_to = math.floor(exact * Fraction(WEIGHT_UNITS, bound.whole) ** 2)
        return cls(min(whole_up_to, NORM_CEILING - 1), bound.whole, scale)

    def weight(self, norm_squared: int) -> int:
        """The weight of one user: the definition in plain numbers."""
        if norm_squared >= NORM_CEILING:
            return 0
        if norm_squared <= self.whole_up_to:
            return self.whole
        return math.floor(self.scale / math.sqrt(float(norm_squared)))

    def sql(self, norm_squared: str) -> str:
        """The same as SQL; the norm's column is an exact integer or decimal."""
        return (
            f"CASE WHEN {norm_squared} >= {NORM_CEILING} THEN 0 "
            f"WHEN {norm_squared} <= {self.whole_up_to} THEN {self.whole} ELSE CAST(floor("
            f"CAST('{self.scale!r}' AS DOUBLE) / sqrt(CAST({norm_squared} AS DOUBLE))"
            f") AS BIGINT) END"
        )


def _boxed(
    values: NDArray[np.int64], units: int, l1: float, l2: float, counting: Counting, what: str
) -> Private[Counts]:
    return Private(Counts(values, units, l1, l2, counting, what), what)


def _at_most(bound: WeightBound) -> str:
    return "" if bound.most == 1 else f", nobody by more than {bound.most:g}"


def sampled_counts(
    values: NDArray[np.int64], bound: SampleBound, grid: TimeGrid
) -> Private[Counts]:
    """Sampling keeps one unit per user and slot, so what is counted is people, thinned."""
    what = f"place x slot, one visit a slot and at most {bound.slots} slots a user"
    return _boxed(values, 1, bound.l1(grid.slots), bound.l2(grid.slots), Counting.PEOPLE, what)


def weighted_counts(
    values: NDArray[np.int64],
    bound: WeightBound,
    counting: Counting,
    grid: TimeGrid,
    event_norms: NDArray[np.int64] | None,
) -> Private[Counts]:
    what = f"place x slot of {counting}, weighted to norm {bound.limit:g}{_at_most(bound)}"
    norms = ""
    if event_norms is not None:
        what += "; sensitivity of the counts multiplied by the event norms"
        norms = norms_digest(event_norms)
    l1, l2 = bound.l1(grid.slots), bound.l2(grid.slots)
    return Private(Counts(values, WEIGHT_UNITS, l1, l2, counting, what, norms), what)


def place_total_counts(
    values: NDArray[np.int64], bound: WeightBound, counting: Counting
) -> Private[Counts]:
    what = f"place totals of {counting}, scaled to norm {bound.limit:g}{_at_most(bound)}"
    l2 = bound.limit * WEIGHT_UNITS
    return _boxed(values, WEIGHT_UNITS, l2 * math.sqrt(values.size), l2, counting, what)


def slot_total_counts(
    values: NDArray[np.int64], bound: WeightBound, counting: Counting
) -> Private[Counts]:
    what = f"slot totals of {counting}, scaled to norm {bound.limit:g}{_at_most(bound)}"
    l2 = bound.limit * WEIGHT_UNITS
    return _boxed(values, WEIGHT_UNITS, l2 * math.sqrt(values.size), l2, counting, what)


def capped_total_count(total: int, cap: int, counting: Counting) -> Private[Counts]:
    values = np.array([total], np.int64)
    what = f"total of {counting}, at most {cap} a user"
    return _boxed(values, 1, float(cap), float(cap), counting, what)


def ladder_counts(
    values: NDArray[np.int64], steps: tuple[int, ...], counting: Counting
) -> Private[Counts]:
    what = f"activity of {counting} in {len(steps)} steps up to {steps[-1]} a user"
    l2 = float(LADDER_UNITS)
    return _boxed(values, LADDER_UNITS, l2 * math.sqrt(len(steps)), l2, counting, what)


def one_answer_count(total: int, cap: int, measure: Measure) -> Private[Counts]:
    what = f"{measure} of one question, at most {cap} a user"
    values = np.array([total], np.int64)
    return _boxed(values, 1, float(cap), float(cap), _counted(measure), what)


def answer_counts(
    values: NDArray[np.int64], bound: WeightBound, measure: Measure
) -> Private[Counts]:
    what = f"{measure} of {values.size} questions, scaled to norm {bound.limit:g}{_at_most(bound)}"
    l2 = bound.limit * WEIGHT_UNITS
    l1 = l2 * math.sqrt(values.size)
    return _boxed(values, WEIGHT_UNITS, l1, l2, _counted(measure), what)


def _counted(measure: Measure) -> Counting:
    return Counting.VISITS if measure is Measure.VISITS else Counting.PEOPLE


def life_counts(values: NDArray[np.int64], question: LifeQuestion) -> Private[Counts]:
    what = "how persons live, scaled to norm 1"
    l2 = float(LIFE_UNITS)
    return _boxed(values, LIFE_UNITS, l2 * math.sqrt(question.touched), l2, Counting.PEOPLE, what)


def exact_counts(values: NDArray[np.int64], counting: Counting) -> Private[Counts]:
    units = WEIGHT_UNITS if counting is Counting.PEOPLE else 1
    what = f"place x slot of {counting}, unbounded: never to be measured"
    return _boxed(values, units, math.inf, math.inf, counting, what)


def checked_norms(norms: NDArray[Any], places: int, slots: int) -> NDArray[np.int64]:
    """Event norms as the engines use them. Public numbers, so they may be refused.

    They are not cut at MASS_CEILING: a mean over places of cut norms can lie below the ceiling
    where the true mean does not, and the weight would be too large.
    """
    array = np.asarray(norms)
    if array.shape != (places, slots) or array.dtype != np.int64 or bool((array < 0).any()):
        raise UsageError(
            f"Event norms are non-negative 64-bit integers, one per place and slot "
            f"({places} x {slots})."
        )
    if array.size and int(array.max()) >= MASS_CEILING:
        raise UsageError(
            "An event norm is 2^19 or more.",
            remedy="Scale the weights of the map down: a visit at such a place counts nothing.",
        )
    return np.ascontiguousarray(array)


def checked_masks(masks: Masks, places: int, slots: int) -> Masks:
    """Questions about the places and slots that are counted. Public, so they may be refused."""
    if (masks.places.shape[0], masks.slots.shape[0]) != (places, slots):
        raise UsageError("The questions are about other places or slots.")
    return masks


def one_answer_cap(bound: int | WeightBound, measure: Measure) -> int:
    """C of a single question."""
    cap = checked_cap(bound) if isinstance(bound, int) else 0
    if not cap or (measure is Measure.UNIQUE_PEOPLE and cap != 1):
        raise UsageError(
            "One question is bounded by a whole number of visits a person, and by 1 for people."
        )
    return cap


def checked_cap(cap: int) -> int:
    if not isinstance(cap, int) or isinstance(cap, bool) or not 1 <= cap < 1 << 53:
        raise UsageError("The cap of a total is a whole number, at least 1.")
    return cap


def checked_key(key: bytes) -> bytes:
    if len(key) < 16:
        raise UsageError("The sampling key needs at least 16 secret bytes.")
    return key


class BoundBroken(AssertionError):
    """A count broke its own bound: a fault in the program, and nothing may be published."""


class CountSource:
    """Events, the places and slots they are counted over, and how much of the machine to use."""

    def __init__(
        self,
        events: Events,
        places: Places,
        grid: TimeGrid,
        *,
        threads: int | None = None,
        memory_limit: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._events = resolved(events, places.kind is PlaceKind.ZONES)
        self._places = places
        self._grid = grid
        self._threads = threads or os.cpu_count() or 1
        self._memory_limit = memory_limit
        self._progress = progress

    @property
    def grid(self) -> TimeGrid:
        return self._grid

    @property
    def place_ids(self) -> NDArray[np.str_]:
        return self._places.ids

    def fingerprint(self, key: bytes) -> str:
        return fingerprint(self._events, self._places, self._grid, key, self._progress)

    def fingerprints_elsewhere(self, key: bytes) -> frozenset[str]:
        """What a reservation that was made on Spark holds for this input."""
        from sfumato.engine.spark.here import name_on_spark  # which is made of this

        return name_on_spark(self._events, self._places, self._grid, key)

    @property
    def _shape(self) -> tuple[int, int]:
        """Places and slots of every table."""
        return len(self._places), self._grid.slots


_NO_NORMS = np.zeros((1, 1), np.int64)


class Compiled(ABC):
    """Answers by passes over users; whoever inherits it runs them."""

    @property
    @abstractmethod
    def grid(self) -> TimeGrid: ...

    @property
    @abstractmethod
    def place_ids(self) -> NDArray[np.str_]: ...

    @abstractmethod
    def _ask(
        self, kernel: str, shape: tuple[int, ...], arguments: tuple[Any, ...]
    ) -> NDArray[np.int64]:
        """The sums of a pass over all users; it checks the bound on what it counts."""

    @property
    def _shape(self) -> tuple[int, int]:
        """Places and slots of every table."""
        return self.place_ids.size, self.grid.slots

    @property
    def _bits(self) -> int:
        """Width of a place in a packed row."""
        return max(1, (self.place_ids.size - 1).bit_length())

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        with_norms = event_norms is not None
        norms = _NO_NORMS
        if event_norms is not None:
            norms = checked_norms(event_norms, *self._shape)
        units = NORM_UNITS if with_norms else 1
        rule = _rule(bound, units, WEIGHT_UNITS * bound.limit * units)
        arguments = (norms, with_norms, counting is Counting.PEOPLE, rule)
        values = self._ask("weighted", self._shape, arguments)
        return weighted_counts(values, bound, counting, self.grid, event_norms)

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        people = counting is Counting.PEOPLE
        units = TOTAL_UNITS if people else 1
        arguments = (people, units, _rule(bound, units, WEIGHT_UNITS * bound.limit))
        values = self._ask("place_totals", self._shape[:1], arguments)
        return place_total_counts(values, bound, counting)

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        arguments = (counting is Counting.PEOPLE, _rule(bound, 1, WEIGHT_UNITS * bound.limit))
        values = self._ask("slot_totals", self._shape[1:], arguments)
        return slot_total_counts(values, bound, counting)

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        arguments = (counting is Counting.PEOPLE, checked_cap(cap))
        values = self._ask("capped_total", (1,), arguments)
        return capped_total_count(int(values[0]), cap, counting)

    def ladder(self, steps: tuple[int, ...], counting: Counting) -> Private[Counts]:
        gains = ladder_gains(steps)
        ends = np.array(steps, np.int64)
        arguments = (counting is Counting.PEOPLE, ends, gains, float(LADDER_UNITS**2))
        values = self._ask("ladder", gains.shape, arguments)
        return ladder_counts(values, steps, counting)

    def answers(self, masks: Masks, measure: Measure, bound: int | WeightBound) -> Private[Counts]:
        masks, sets = checked_masks(masks, *self._shape), (masks.places, masks.slots)
        if not isinstance(bound, WeightBound):
            if masks.count != 1:
                raise UsageError("Several questions are bounded by the norm of all their answers.")
            cap = one_answer_cap(bound, measure)
            values = self._ask("capped_answer", (1,), (*sets, cap))
            return one_answer_count(int(values[0]), cap, measure)
        unique = measure is Measure.UNIQUE_PEOPLE
        arguments = (*sets, unique, _rule(bound, 1, WEIGHT_UNITS * bound.limit))
        values = self._ask("answers", (masks.count,), arguments)
        return answer_counts(values, bound, measure)

    def lives(self, question: LifeQuestion) -> Private[Counts]:
        if (question.region.size, question.period.size) != self._shape:
            raise UsageError("The question is about other places or slots.")
        values = self._ask("lives", (question.cells,), question.arguments())
        return life_counts(values, question)

    def exact(self, counting: Counting) -> Private[Counts]:
        values = self._ask("exact", self._shape, (counting is Counting.PEOPLE,))
        return exact_counts(values, counting)


def _rule(bound: WeightBound, units: int, ceiling: float) -> tuple[int, int, float, float]:
    rule = WeightRule.of(bound, units)
    return rule.whole_up_to, rule.whole, rule.scale, ceiling
