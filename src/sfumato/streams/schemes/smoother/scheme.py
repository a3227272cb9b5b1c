"""`smoother`: a few means of every finished window, and every slot read from all around it.

**Measured** in each window are k means over parts of it; one mean over any set of slots costs what
one snapshot does. A history of one window is divided into k parts that tile the day. With several
windows parts are half as wide and begin at other hours in every window, by the golden section, and
in every second window they are single slots: over the days every hour is seen, and how much counts
vary from slot to slot shows.

**Read** is every slot from the parts of its own window and of `reach` windows before and after
it (`posterior`): a history that is over need not be published as if the future were unknown. So
later windows are measured before the first slot of an earlier one leaves.

**How many parts** follows from D, the mean people in a person's cell. Public facts tell the mean
people a cell, and D is twice that in crowds and 15 to 19 times in fleets of taxis. One number
tells them apart: how many people are beyond eight times the mean in their cell, none of a crowd
and a fifth of a fleet. Where it matters a hundredth of the first window's epsilon buys that
number (`survey`); one unit moves it by 1. With Gaussian noise, where a delta is given and many
parts pay, the number of parts is public.

Claim: (epsilon, delta)-DP for one unit (what one person did on one local day, or in the whole
period) added or removed. Sensitivity: a unit counts at most once a slot, so it moves the sum over n
slots by at most n (L1; and L2, if all fall into one cell) and their mean by 1: k means cost what k
snapshots do. Laplace noise of scale k/epsilon on a mean, or Gaussian noise of variance k/(2 rho).
The survey adds up what cells hold beyond a public number, which moves by no more than the cells do.
Each window's parts and its survey draw on that window's account alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import nbinom

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.events import UnitKind
from sfumato.privacy.exact import exact
from sfumato.privacy.wall import Wall
from sfumato.published.estimate import Estimate
from sfumato.streams.facts import StreamFacts, begins_window, window_end
from sfumato.streams.parameters import NOISE, Declaration, Kind, Need, Setting, States, share
from sfumato.streams.scheme import (
    Joint,
    Meter,
    Noise,
    NoiseKind,
    Publication,
    Publisher,
    Repeating,
    State,
    StreamPlan,
    Values,
    noise_of,
)
from sfumato.streams.schemes.comb.scheme import DENSE
from sfumato.streams.schemes.rhythm.sums import added_up
from sfumato.streams.schemes.smoother.joint import joint_of
from sfumato.streams.schemes.smoother.posterior import PartCells, Seen, timeline

_GOLDEN = 0.618
"""Share of a part's distance by which parts move from window to window."""
_PER_PART = 8.0
"""D times the root of epsilon for every part. At epsilon 1 ten superposed fleets (D 50) want five
or six parts of a single day and three to six of each of seven, a crowd of 130,000 (D 27) two or
three, of 20,000 (D 5) one."""
_TIMES = 8
"""Times the mean people a cell beyond which the survey counts."""
_CROWD, _FLEET, _BETWEEN = 1.6, 20.0, 4.0
"""D over the mean people a cell: in crowds, in fleets, and what is taken where nothing tells."""
_PER_SHARE = 75.0
"""What the share of people beyond adds to that: .18 to .21 in fleets with 15 to 19, 0 in crowds."""
_COVERAGE, _REACH = 0.9, 1.6449
_MORE = 1.5
"""Times the publicly expected people that there may be."""
_FEWEST, _LEAST_EPSILON = 5, 0.5
"""Windows and budget from which on sums have intervals. On development data 90 % intervals of sums
over areas held 43 to 94 % for one day, 78 to 98 % for three and 86 to 94 % for seven; for seven
days of fresh data 87 to 93 % at epsilon 1, and 82 to 90 % at 0.3 (docs/benchmarks/ranges.md)."""
_NO_SUMS = (
    "How errors of slots hang together is stated where a history of {} to {} windows is read as a "
    "whole, from epsilon {:g} on: of fewer windows, or with more noise, it is not known well "
    "enough, and of more windows not all that was measured is remembered. "
    "Single counts and sums of whole slots have the intervals that are printed with them."
)
_SIGNAL = 2.0
"""Expected people a cell, times epsilon, from which on single counts of one window have intervals.
Those of one day of ten fleets held 57 to 78 % above five people at 1.2, and 84 to 87 % at 2.9
(docs/benchmarks/finished.md): with so few parts nothing shows how much counts vary."""
_FACTORS = (0.7, 1.4)
"""How far counts are scaled to the city's total."""
_SURELY, _UNLIKE, _NEARLY = 8.0, 0.25, 0.04
"""By how many logs nobody must explain the first parts better than sums of other windows do, the
share by which sums may differ from those, and how near in phase, as a share of a day, these must
be: with 0.1 quiet mornings of check-ins passed for a feed that had not begun."""
_UNEVEN = 0.5
"""Relative variance of cells among which a total is spread. Without ends of their own such counts
of 1 to 5 held 59 to 76 % on a day of call records (2,000 people, 60 towers), with them 92 to 93."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Smoother:
    """`parts` of a window; None lets public facts and the survey decide."""

    parts: int | None = None
    reach: int = 6
    survey: float = 0.01
    noise: NoiseKind = NoiseKind.BEST
    name: str = "smoother"
    finished: bool = True
    declares: ClassVar = Declaration(
        "The default for a finished history, from two expected people a cell on.",
        {
            "parts": Setting(
                *("parts", Kind.WHOLE, "parts of a window whose means are measured", 2, 1, 10_000),
                unset="from epsilon, the expected people a cell, and the survey",
            ),
            "reach": Setting(
                *("reach", Kind.WHOLE, "windows before and after that a slot is read from"),
                *(1, 0, 30),
            ),
            "survey": share(
                "survey", "share of the first window that tells how crowded cells are", 0.3
            ),
            **NOISE,
        },
        reads=("holidays", "begins"),
        needs=(Need.APART,),
        states=(States.MEDIAN, States.INTERVALS, States.SUMS),
        judged=True,
    )

    def most(self, facts: StreamFacts) -> int:
        """Parts of a window, as far as public facts tell."""
        if facts.unit.kind not in (UnitKind.USER_DAY, UnitKind.USER_PERIOD):
            raise UsageError(
                f"{self.name} measures windows that are days or the whole period; a sliding window "
                "meets two of them, and fills parts of both.",
                remedy="Use the unit user-period or user-day, or the scheme comb or rhythm.",
            )
        if self.parts is not None:
            return min(self.parts, facts.calendar.longest_day)
        return parts_for(_BETWEEN, facts)

    def kind(self, facts: StreamFacts) -> NoiseKind:
        return noise_of(facts, self.noise, self.most(facts)).kind

    def surveys(self, facts: StreamFacts) -> bool:
        """Whether a first look is paid for: where crowds and fleets want different numbers.

        Not with Gaussian noise: shares of rho would not add up exactly.
        """
        few, many = parts_for(_CROWD, facts), parts_for(_FLEET, facts)
        return self.parts is None and self.kind(facts) is NoiseKind.LAPLACE and many > few

    def ahead(self, facts: StreamFacts) -> int:
        return min(self.reach, facts.windows - 1)

    def states_totals(self, facts: StreamFacts) -> bool:
        """Whether slots' sums have intervals, by public facts alone: never by what was seen."""
        return (facts.expected_users or 0) >= DENSE * facts.cells

    def states_intervals(self, facts: StreamFacts) -> bool:
        """Whether single counts have, too."""
        enough = facts.windows > 1 or facts.epsilon * _mean(facts) >= _SIGNAL
        return enough and self.states_totals(facts)

    def states_sums(self, facts: StreamFacts) -> bool:
        """Where every slot is read from all windows, and these are enough: by public facts."""
        enough = _FEWEST <= facts.windows <= self.reach + 1 and facts.epsilon >= _LEAST_EPSILON
        return enough and self.states_intervals(facts)

    def plan(self, facts: StreamFacts) -> StreamPlan:
        most = self.most(facts)
        noise = noise_of(facts, self.noise, most)
        chosen = ""
        if self.surveys(facts):
            few, many = parts_for(_CROWD, facts), parts_for(_FLEET, facts)
            chosen = f", or {few} to {many} by {self.survey:.3g} of the first window's budget,"
        of = "" if self.states_intervals(facts) else " of sums"
        line = (
            f"The means of {most} parts of every finished window{chosen} with {noise.kind} noise, "
            f"sd {noise.sd:.3g} for each of {most}; all slots are estimated from the parts "
            f"of {self.reach} windows before and after, "
            + (f"with 90 % intervals{of}." if self.states_totals(facts) else "without intervals.")
        )
        account = replace(
            noise.account("part", most, facts.l1, facts.l2, 2 * facts.window),
            ahead=self.ahead(facts),
        )
        stated = _COVERAGE if self.states_intervals(facts) else 0.0
        alone = _COVERAGE if self.states_totals(facts) and not stated else 0.0
        sums = self.states_sums(facts)
        why = _NO_SUMS.format(_FEWEST, self.reach + 1, _LEAST_EPSILON)
        return StreamPlan(
            self.name, (account,), (line,), stated, True, alone, joint=sums, no_joint=why
        )

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Smoother(facts, self)


def _mean(facts: StreamFacts) -> float:
    """Publicly expected people a cell."""
    return (facts.expected_users or 4 * facts.cells) / facts.cells


def parts_for(times: float, facts: StreamFacts) -> int:
    """How many parts where a person shares a cell with so many times the mean people a cell."""
    wanted = int(times * _mean(facts) * math.sqrt(facts.epsilon) / _PER_PART)
    return min(max(wanted, 1), facts.calendar.longest_day)


def parts_of(facts: StreamFacts, first: int, k: int) -> list[Mask]:
    """Which slots of the window that begins at `first` are in each part; by public times alone."""
    length = facts.calendar.longest_day
    phase = facts.calendar.phase[first : window_end(facts, first)]
    if facts.windows == 1:
        found = [phase * k // length == j for j in range(k)]
    else:
        window = facts.windows_between(0, first)
        wide = 1 if window % 2 else max(1, length // (2 * k))
        shift = length / k * (math.modf(_GOLDEN * window)[0] + 0.5) - wide / 2
        begins = [int(shift + j * length / k) for j in range(k)]
        found = [(phase - begin) % length < wide for begin in begins]
    fed = np.arange(first, first + phase.size) >= facts.begins
    # A short day may lack the last hours, and one on which the feed begins the first.
    return [part & fed for part in found if (part & fed).any()] or [fed]


class _Smoother(Repeating):
    def __init__(self, facts: StreamFacts, scheme: Smoother) -> None:
        super().__init__(facts)
        self._scheme, self._kind = scheme, scheme.kind(facts)
        self._k, self._stated = scheme.most(facts), scheme.states_intervals(facts)
        self._sums = scheme.states_totals(facts)
        self.ahead = scheme.ahead(facts)
        self._seen = np.zeros((0, facts.cells))
        self._noise = np.zeros(0)
        self._first = np.zeros(0, dtype=np.int64)
        self._inside = np.zeros((0, facts.window), dtype=np.int64)
        self._cells: PartCells | None = None
        self._node = np.zeros(0, dtype=np.int64)
        self._begun = 0

    def prepare(self, whole: Private[Counts], first: int, wall: Wall) -> None:
        facts, share = self.facts, exact(1)
        if first == 0 and self._scheme.surveys(facts):
            share = 1 - self._surveyed(whole, wall)
        noise = noise_of(facts, self._kind, self._k, share)
        for number, part in enumerate(parts_of(facts, first, self._k)):
            mean, variance = self._measured(whole, part, noise, f"part@{first}/{number}", wall)
            inside = np.zeros((1, facts.window), dtype=np.int64)
            inside[0, : part.size] = part
            self._seen = np.concatenate((self._seen, mean[None]))
            self._noise = np.append(self._noise, variance)
            self._first = np.append(self._first, first)
            self._inside = np.concatenate((self._inside, inside))
        self._cells = None

    def _surveyed(self, whole: Private[Counts], wall: Wall) -> Fraction:
        """Choose the number of parts by how many people are in crowded cells; what it costs."""
        facts, share = self.facts, exact(self._scheme.survey)
        slots = window_end(facts, 0) - facts.begins
        bound, l1 = math.ceil(_TIMES * _mean(facts) * slots), float(facts.l1 * slots)

        def beyond(counts: Counts) -> Counts:
            over = np.maximum(counts.values[:, facts.begins :].sum(axis=1) - bound, 0)
            return replace(counts, values=over.sum(keepdims=True), l1=l1, l2=l1, what="crowding")

        one = noise_of(facts, self._kind, 1, share)
        noise = Noise(one.kind, one.parameter * slots)
        found = noise.measure(wall, whole.map(beyond, "crowding"), "part@0/survey", 2 * slots)
        self.tainted = self.tainted or found.tainted
        people = _mean(facts) * facts.cells * slots
        sure = max(float(found.estimate()[0]) - noise.sd, 0.0) / people
        self._k = parts_for(min(_CROWD + _PER_SHARE * sure, _FLEET), facts)
        return share

    def _measured(
        self, whole: Private[Counts], chosen: Mask, noise: Noise, label: str, wall: Wall
    ) -> tuple[Values, float]:
        """The noisy mean over the chosen slots of the window, and the variance of its noise."""
        slots = int(chosen.sum())
        l1, l2 = float(self.facts.l1 * slots), self.facts.l2 * slots

        def added(counts: Counts) -> Counts:
            values = np.ascontiguousarray(counts.values[:, chosen].sum(axis=1))
            return replace(counts, values=values, l1=l1, l2=l2, what="sum over part of a window")

        power = 1 if noise.kind is NoiseKind.LAPLACE else 2
        wide = Noise(noise.kind, noise.parameter * slots**power)
        summed = whole.map(added, "sum over part of a window")
        found = wide.measure(wall, summed, label, touched=2 * slots)
        self.tainted = self.tainted or found.tainted
        return found.estimate() / slots, wide.variance / slots**2

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        del box, wall, meter
        fresh = begins_window(self.facts, slot)
        if fresh:
            self._forget(slot)
        if self._cells is None:
            self._cells = self._read()
        if slot < self._begun:
            return self._nobody(fresh)
        cells, node = self._cells, int(self._node[slot - int(self._first[0])])
        made = cells.count(node)
        total, spread = float(cells.total.mean[node]), float(cells.total.variance[node])
        values = self._adding_up(made.mean, total)
        sd, reach = float(np.sqrt(made.variance.mean())), _REACH * math.sqrt(spread)
        found = Publication(values, fresh, sd, self.tainted, made.median)
        if not self._sums:
            return found
        whole = Estimate(float(values.sum()), max(total - reach, 0.0), total + reach, _COVERAGE)
        found = replace(found, total=whole)
        if not self._stated:
            return found
        lower, upper = made.lower, made.upper
        scale = total / max(float(made.mean.sum()), 1e-9)
        if not _FACTORS[0] <= scale <= _FACTORS[1]:
            # How a total is spread says little of a cell: gamma levels, and the total's own error.
            share = np.maximum(values, math.sqrt(spread) / values.size)
            wide = _UNEVEN + spread / max(total, math.sqrt(spread), 1e-9) ** 2
            law = (1 / wide, 1 / (1 + wide * share))
            lower = np.minimum(lower, nbinom.ppf(0.05, *law))
            upper = np.maximum(upper, nbinom.ppf(0.95, *law))
        return replace(found, lower=lower, upper=upper)

    def _nobody(self, fresh: bool) -> Publication:
        """A slot before the feed began."""
        none = np.zeros(self.facts.cells)
        sd = math.sqrt(float(self._noise.mean()))
        found = Publication(none, fresh, sd, self.tainted, none)
        if not self._sums:
            return found
        reach = _REACH * sd * math.sqrt(none.size)
        found = replace(found, total=Estimate(0.0, 0.0, reach, _COVERAGE))
        return replace(found, lower=none, upper=none) if self._stated else found

    def _begins(self) -> int:
        """The first slot of the feed, if it is not public by noisy sums: after parts of the first
        window that nobody explains far better than what is seen at such hours of others does."""
        if self.facts.begins:
            return self.facts.begins
        calendar, slots = self.facts.calendar, [np.flatnonzero(row) for row in self._inside]
        sums, noise = self._seen.sum(axis=1), self._noise * self.facts.cells
        own = sorted(np.flatnonzero(self._first == 0), key=lambda part: int(slots[part][0]))
        others = np.flatnonzero(self._first > 0)
        if not others.size:
            return 0
        at = [calendar.phase[self._first[k] + slots[k]].mean() for k in range(len(slots))]
        phase = np.array(at) / calendar.longest_day
        found, best, begun = 0.0, _SURELY, 0
        for part in own:
            turn = np.abs(phase[others] - phase[part])
            near = np.exp(-0.5 * np.square(np.minimum(turn, 1 - turn) / _NEARLY)) + 0.01
            like = max(float(near @ sums[others] / near.sum()), 0.0)
            chance, wide = float(noise[part]), float(noise[part]) + (_UNLIKE * like) ** 2
            nobody = sums[part] ** 2 / chance + math.log(chance)
            found += 0.5 * ((sums[part] - like) ** 2 / wide + math.log(wide) - nobody)
            if found > best:
                best, begun = found, int(slots[part][-1]) + 1
        return begun

    def _adding_up(self, mean: Values, total: float) -> Values:
        """Cells' means, scaled to the total. Where they hold hardly any of it, as in a town whose
        every cell drowns in noise, the rest is spread over neighbourhoods, as on thin maps: scaled
        as far as `_FACTORS` alone, counts of such towns added up to 1 to 34 % of the truth."""
        scale = total / max(float(mean.sum()), 1e-9)
        values = np.asarray(np.clip(scale, *_FACTORS) * mean)
        if _FACTORS[0] <= scale <= _FACTORS[1]:
            return values
        noise = float(self._noise.mean()) / self._noise.size
        return added_up(values, total, self._seen.mean(axis=0), noise, self.facts)

    def joint(self) -> Joint:
        """How errors of all slots hang together; of a history that is read as a whole."""
        cells = self._cells or self._read()
        found = joint_of(cells)
        at, begun = self._node, np.arange(self._node.size) >= self._begun
        rhythms, chance = found.rhythms[at] * begun[:, None], found.chance[:, at] * begun
        return Joint(found.slots[:, at] * begun, found.strengths, rhythms, chance)

    def _forget(self, slot: int) -> None:
        """Let go of windows that no later slot is read from."""
        reach, facts = self._scheme.reach, self.facts
        kept = np.array([facts.windows_between(int(at), slot) <= reach for at in self._first])
        if not kept.all():
            self._seen, self._noise = self._seen[kept], self._noise[kept]
            self._first, self._inside = self._first[kept], self._inside[kept]
            self._cells = None

    def _read(self) -> PartCells:
        """The posterior, and at which of its times each slot is from the first window on."""
        facts, begin = self.facts, int(self._first[0])
        self._begun = self._begins() if begin == 0 else 0
        times, self._node = timeline(facts, begin, window_end(facts, int(self._first[-1])))
        shares = np.zeros((self._noise.size, times.at.size))
        for row, (at, inside) in enumerate(zip(self._first, self._inside, strict=True)):
            nodes = self._node[np.flatnonzero(inside) + int(at) - begin]
            shares[row] = np.bincount(nodes, minlength=times.at.size) / nodes.size
        ends = [np.flatnonzero(row)[-1] for row in self._inside]
        later = (self._first > 0) | (np.array(ends) >= self._begun)
        known = (shares[later], self._seen[later], self._noise[later])
        seen = Seen(times, *known, facts.windows == 1)
        people = facts.expected_users
        ceiling = _MORE * (people or 4 * facts.cells)
        laplace = self._kind is NoiseKind.LAPLACE
        return PartCells(seen, laplace, facts.grid_columns, people, ceiling)

    def state(self) -> State:
        more: dict[str, Any] = {
            "seen": self._seen,
            "noise": self._noise,
            "first": self._first,
            "inside": self._inside,
            "k": self._k,
        }
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._seen, self._noise = state["seen"], state["noise"]
        self._first, self._inside, self._k = state["first"], state["inside"], int(state["k"])
        self._cells = None
