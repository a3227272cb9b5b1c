"""`rhythm`: the default scheme of `sfumato stream`.

Measuring every slot spreads a window's budget so thin that the noise buries the city. A few
snapshots with most of the budget each are far better, even though they are a few hours or a
day old, because cities repeat themselves. So k slots of each window are measured (`samples`: k
follows from epsilon and the expected people per cell), at hours that change
from day to day, and every slot is estimated from the last 64 snapshots: by a Gaussian process
over days and hours whose covariance is learned as the days go by (`gaussian_process`),
around what the surroundings of a cell say, with levels by the empirical-Bayes law of levels
(`levels`, `shrinkage`). What is published is the median of each count and, with `counts`, a
count that adds up, with an interval for every slot's sum where it is public how many people are
expected (`sums`).

It falls back by itself: where snapshots cannot carry hourly detail the likelihood says so and
the answer is flat; where they cannot carry a cell's level it is that of cells like it; and
where the median of that is nobody it is zero.

Claim: a window holds at most k snapshots, each of sensitivity 1: Laplace noise of scale
k/epsilon (pure) or Gaussian noise of variance k/(2 rho), whichever is smaller. The rest is
post-processing. Memory: 64 snapshots, however long the stream.

The schedule (`facts.due`) is k slots a window, at public times that visit every hour in turn. Under
`user-day` each day measures k evenly spaced phases, shifted from day to day; under the
other units every n-th slot, n at least W/k, so that no window of W holds more than k. Shift
and n share no factor with the length of a day, so over the days all phases have their turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.wall import Wall
from sfumato.published.estimate import Estimate
from sfumato.streams.facts import StreamFacts, due
from sfumato.streams.parameters import NOISE, Declaration, Kind, Setting, States
from sfumato.streams.scheme import (
    Meter,
    NoiseKind,
    Publication,
    Publisher,
    Repeating,
    State,
    StreamPlan,
    Values,
    noise_of,
)
from sfumato.streams.schemes.rhythm.gaussian_process import (
    Bands,
    Hours,
    Kernel,
    Learned,
    Posterior,
    Times,
    fit,
    learned,
)
from sfumato.streams.schemes.rhythm.levels import busiest, cell_scale, median_counts, spatial_prior
from sfumato.streams.schemes.rhythm.people import (
    LIFT,
    PLACING,
    fit_people,
    is_thin,
    people_correction,
)
from sfumato.streams.schemes.rhythm.shrinkage import LevelCorrection, level_correction
from sfumato.streams.schemes.rhythm.sums import ADDS_UP, COUNTS, COVERAGE, LiveTotal, added_up

_PER_ROOT, _PER_PERSON = 0.7, 0.035
"""Samples a window at epsilon 1 and one expected person a cell; see `samples`.

The first was settled on development crowds; the second, for cells that hold thousands, after seeing
C2TM, so that the rows of C2TM show only that it works there (docs/streams.md, "How good is the
default?"). Why few snapshots win at all: docs/decisions/streams.md.
"""
_RHYTHM_SHOWS = 1.6
"""Epsilon times the root of the expected people a cell, from which on hours can be told apart."""


def samples(facts: StreamFacts) -> int:
    """How many slots of a window to measure, from public facts alone.

    The noise of k samples has sd of about 1.4 k / epsilon; a count of n people varies from day
    to day by about sqrt(n) and, where n is large, by about a twentieth of it. More samples
    pay until the former reaches the latter. Fewer than three do not show a day's rhythm, so
    there are three wherever there may be one to see.
    """
    people = (facts.expected_users or 4 * facts.cells) / facts.cells
    signal = facts.epsilon * math.sqrt(people)
    wanted = round(max(_PER_ROOT * signal, _PER_PERSON * facts.epsilon * people))
    least = min(3, max(facts.window // 4, 1)) if signal >= _RHYTHM_SHOWS else 1
    return min(max(wanted, least), facts.window)


_NOBODY = 4.0
"""Standard deviations of a snapshot's sum that nobody stays below. On cabs whose feed begins at
13 h errors of the week fell by 4 to 5 % at epsilon 1 (development data)."""
_FITS = 6
"""How often a day the kernel is fitted anew, at most, so that many snapshots stay quick."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """`snapshots` a window; None lets public facts decide. `whole` rounds to whole people.

    With `counts` numbers that add up stand beside medians.
    """

    snapshots: int | None = None
    whole: bool = True
    noise: NoiseKind = NoiseKind.BEST
    name: str = "rhythm"
    finished: bool = False
    memory: int = 64
    """Snapshots that are kept: a bound on memory and on the cost of a slot
    (docs/benchmarks/stream.md)."""
    counts: bool = False
    placed: float = 0.0
    """Above 0 levels of thin maps are sums of single people (`people`). Not by default: counts of
    1,000 people on 8,010 cells then stand 6 to 10 points above the adversary who knows all others,
    where three are the line (docs/attacks.md)."""
    declares: ClassVar = Declaration(
        "The default where cells hold few people, or nobody says how many there are.",
        {
            "snapshots": Setting(
                *("snapshots", Kind.WHOLE, "slots of a window that are measured", 2, 1, 100_000),
                unset="from epsilon and the expected people a cell",
            ),
            "memory": Setting("memory", Kind.WHOLE, "snapshots that are kept", 16, 8, 1024),
            "whole": Setting("whole", Kind.FLAG, "medians in whole people, not means", False),
            "counts": COUNTS,
            "placed": replace(PLACING, meaning=f"{PLACING.meaning}; 0: levels follow surroundings"),
            **NOISE,
        },
        reads=("holidays", "begins"),
        states=(States.MEDIAN, States.SUMS),
        judged=True,
    )

    @property
    def adds_up(self) -> bool:
        return self.counts and self.whole

    def most(self, facts: StreamFacts) -> int:
        return min(self.snapshots or samples(facts), facts.window)

    def plan(self, facts: StreamFacts) -> StreamPlan:
        most = self.most(facts)
        noise = noise_of(facts, self.noise, most)
        line = (
            f"{most} of {facts.window} slots a window are measured with {noise.kind} noise, "
            f"sd {noise.sd:.3g}; all are estimated from the last {self.memory} snapshots."
        )
        sums = COVERAGE if self.adds_up and facts.expected_users is not None else 0.0
        account = noise.account("snapshot", most, facts.l1, facts.l2)
        lines = (line, ADDS_UP) if self.adds_up else (line,)
        return StreamPlan(self.name, (account,), lines, median=self.adds_up, sums=sums)

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Rhythm(facts, self)


class _Rhythm(Repeating):
    def __init__(self, facts: StreamFacts, scheme: Rhythm) -> None:
        super().__init__(facts)
        self._k = scheme.most(facts)
        self._noise = noise_of(facts, scheme.noise, self._k)
        self._whole = scheme.whole
        self._memory = scheme.memory
        self._placed, self._thin = scheme.placed, scheme.placed > 0 and is_thin(facts)
        self._total = LiveTotal(facts, scheme.memory) if scheme.adds_up else None
        none = np.zeros(0, dtype=np.int64)
        self._times = Times(none, none, none.astype(bool), facts.calendar.longest_day)
        self._seen = np.zeros((0, facts.cells))
        self._kernel: Kernel | None = None
        a_day = self._k * facts.calendar.longest_day / facts.window
        self._rest, self._since = max(math.ceil(a_day / _FITS), 1), 0
        self._hours = Hours(facts.calendar.longest_day)
        self._covariance: Values | None = None
        self._prior = np.zeros(facts.cells)
        self._level = np.ones(facts.cells)
        self._posterior: Posterior | None = None
        self._bands: Bands
        self._fix: LevelCorrection
        self._level_spread: Values

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        each = self._noise.event(self.facts.l1, self.facts.l2)
        fresh = due(self.facts, slot, self._k) and meter.affords("snapshot", slot, each)
        if fresh:
            snapshot = self._noise.measure(wall, box, f"snapshot@{slot}")
            self.tainted = self.tainted or snapshot.tainted
            noisy = snapshot.estimate()
            if not self._begins_later(slot, float(noisy.sum())):
                self._learn(slot, noisy)
        values, sd = self._estimate(slot)
        found = Publication(values, fresh, sd, self.tainted)
        return found if self._total is None else self._adding(found, self._total.at(slot))

    def _adding(self, found: Publication, total: Estimate) -> Publication:
        """The same with counts beside the medians."""
        facts, seen = self.facts, self._seen
        mean = seen.mean(axis=0) if len(seen) else found.values
        variance = self._noise.variance / max(len(seen), 1)
        counts = added_up(found.values, total.value, mean, variance, facts)
        stated = None
        if facts.expected_users is not None:
            stated = replace(total, value=float(counts.sum()))
        return replace(found, values=counts, median=found.values, total=stated)

    def _begins_later(self, slot: int, total: float) -> bool:
        """Whether the feed has not begun: on the first day, nobody where many are expected.

        By a noisy sum and public facts. One empty snapshot would be averaged for good.
        """
        sd = math.sqrt(self._noise.variance * self.facts.cells)
        expected = self.facts.expected_users or 0
        first = int(self.facts.calendar.day[slot]) == int(self.facts.calendar.day[0])
        return first and not len(self._seen) and total < _NOBODY * sd < expected / 2

    def _now(self, slot: int) -> tuple[int, int, bool]:
        calendar = self.facts.calendar
        return int(calendar.day[slot]), int(calendar.phase[slot]), bool(calendar.free[slot])

    def _learn(self, slot: int, noisy: Values) -> None:
        times = self._times.with_one_more(*self._now(slot))
        keep = slice(-self._memory, None)
        self._times = Times(times.day[keep], times.phase[keep], times.free[keep], times.length)
        self._seen = np.concatenate((self._seen, noisy[None]))[keep]
        if self._total is not None:
            self._forget(
                self._total.learn(slot, float(noisy.sum()), self._noise.variance * noisy.size)
            )
        count, variance = self._seen.shape[0], self._noise.variance
        mean = self._seen.mean(axis=0)
        facts = self.facts
        self._prior = spatial_prior(
            mean, facts.grid_columns, variance / count, facts.expected_users
        )
        # A cell's counts vary like its level.
        self._level = cell_scale(mean, self._prior, variance / count)
        busy = busiest(self._level)
        apart = (self._seen[:, busy] - self._prior[busy]) / np.sqrt(self._level[busy])
        moments = apart @ apart.T / busy.size
        noise = variance * float((1 / self._level[busy]).mean())
        self._since += 1
        if self._kernel is None or self._since >= self._rest:
            self._kernel, self._since = fit(self._times, moments, noise, self._kernel), 0
        process = learned(self._hours, self._kernel, self._times, moments, noise, self._covariance)
        self._covariance = process.covariance
        self._arrange()

    def _forget(self, begun: NDArray[np.bool_]) -> None:
        """Keep only snapshots of a feed that had begun: those of nobody would be averaged."""
        times = self._times
        self._seen = self._seen[begun]
        self._times = Times(times.day[begun], times.phase[begun], times.free[begun], times.length)

    def _arrange(self) -> None:
        """What serves all slots until the next snapshot."""
        assert self._kernel is not None
        assert self._covariance is not None
        count, variance = self._seen.shape[0], self._noise.variance
        known = Learned(self._hours, self._kernel, self._covariance)
        self._posterior = Posterior.given(known, self._times)
        self._bands = Bands(self._level, self._seen - self._prior)
        common = known.with_level(self._times)
        share = self._posterior.shares(common, variance / self._bands.levels)
        base = np.maximum(self._bands.combined(share) + self._prior, 0.0)
        known_by = np.maximum(known.covariance.mean() - share @ common, 0.0)
        self._level_spread = self._bands.of_each(known_by * self._bands.levels)
        laplace = self._noise.kind is NoiseKind.LAPLACE
        mean = self._seen.mean(axis=0)
        if self._thin:
            found = fit_people(self._seen, self._prior, variance, laplace)
            self._fix = people_correction(found, mean, base, self._whole, self._placed, LIFT)
            return
        # One snapshot shows who happens to be there. Several of other hours and days show who
        # keeps being there: chance is soon forgotten, sooner than if it were new each time.
        self._fix = level_correction(
            mean, self._prior, base, variance / count, count, laplace, self._whole, 1 / count**2
        )

    def _estimate(self, slot: int) -> tuple[Values, float]:
        if self._posterior is None:
            return np.zeros(self.facts.cells), float("inf")
        day, phase, free = self._now(slot)
        now = Times(np.array([day]), np.array([phase]), np.array([free]), self._times.length)
        bands = self._bands
        share, spread = self._posterior.weights(now, self._noise.variance / bands.levels)
        values = np.maximum(bands.combined(share) + self._prior, 0.0)
        variance = bands.of_each(spread * bands.levels)
        values, variance = self._fix.apply(values, variance, self._level_spread)
        sd = self._fix.sd(variance)
        return (median_counts(values, variance) if self._whole else values), sd

    def state(self) -> State:
        more: dict[str, Any] = {
            "day": self._times.day,
            "phase": self._times.phase,
            "free": self._times.free,
            "seen": self._seen,
            "prior": self._prior,
            "level": self._level,
            "since": self._since,
        }
        if self._covariance is not None:
            more["covariance"] = self._covariance
        if self._total is not None:
            more |= self._total.state()
        if self._kernel is not None:
            kernel = self._kernel
            more["kernel"] = [
                kernel.constant,
                kernel.daily,
                kernel.kind,
                kernel.today,
                kernel.length,
            ]
        return {**super().state(), **more}

    def restore(self, state: State) -> None:
        super().restore(state)
        length = self.facts.calendar.longest_day
        self._times = Times(state["day"], state["phase"], state["free"], length)
        self._seen, self._prior, self._level = state["seen"], state["prior"], state["level"]
        self._since = int(state["since"])
        if self._total is not None:
            self._total.restore(state)
        if "kernel" in state:
            self._kernel = Kernel(*(float(part) for part in state["kernel"]))
            self._covariance = state["covariance"]
            self._arrange()
