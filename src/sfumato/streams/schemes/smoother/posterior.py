"""What is known of every cell at any time, from noisy means over sets of slots.

The model is that of `comb` (`comb.profiles`, `comb.cells`): the city's total, the surroundings of a
cell and the cell itself are Gaussian processes in time with the same kernels, levels have a law by
non-parametric maximum likelihood. Two things differ. What is seen is the mean over a part of a
window, so covariances are averaged over the slots of the part: with shares A (part x time) and a
kernel K over times, parts have covariance A K A', and a slot has K A' with them. And parts lie
before and after the slot that is estimated: this is a smoother, not a filter.

**No public shape of the day.** `comb` begins with a wave that is highest at 18 h. With one mean a
day nothing corrects it, and crowds that are always complete were a fifth off; so here the day is
flat until parts say otherwise.

**Levels are brought half-way to the total.** On thin maps the law of levels, which knows noise only
cell by cell, holds too many people: 1.2 to 1.4 times the noisy total on a day of 540 cabs. Levels
are multiplied by the root of the ratio; relative errors there fell from 6 % above those of zeros to
3 %.

Tried and dropped: covariances of parts, or of hours, learned by expectation maximisation from busy
cells (low-rank rhythms). On crowds of 20,000 and 130,000 and ten superposed fleets, one day and
seven, errors changed by less than 1 % either way.

Computed from noisy means and public times: post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.model.matrices import firm
from sfumato.streams.facts import StreamFacts
from sfumato.streams.scheme import Values
from sfumato.streams.schemes.comb.cells import DOWN, At, Cells, Counted, Habits
from sfumato.streams.schemes.comb.learned import Learned
from sfumato.streams.schemes.comb.mixture import BINS, summaries
from sfumato.streams.schemes.comb.profiles import (
    CHANCES,
    LEAST,
    LIVE_SCALES,
    SCALES,
    Fit,
    Times,
    around,
    between,
    fitted,
    judged,
    relative_kernel,
    steady_fits,
)

_BUSY_MORE = 4.0
"""What busy levels count more in the median, times what `rhythm.shrinkage` finds free of cost. On a
day of a crowd of 5,000 errors on the busiest cells were 2 % above those of `mean` without it, and
are 2 % below them."""
_BEGIN: At = (0, 1, 2)
"""Habits with few parts, and where the search begins with more. With those that `comb` begins with,
which have four times the variance, busy cells of crowds were shrunk by 1 to 6 % of their error."""
_OFF = (0.5, 1.1)
"""How far levels are brought to the total, before the root is taken."""
_MANY = 20.0
"""People from which on the median is taken as the mean. A negative binomial as wide as few parts
leave it is skewer than counts are: medians of a crowd of 130,000 had 2 to 3 % more error."""
_WIDER, _STAY = (1.0, 1.0, 1.3, 1.4, 1.2), 0.8
"""By what variances are multiplied, for means up to 1, 5, 20, 100 and above, and the share of
people who stay from which on they are not. Means over hours hide how much a fleet varies from slot
to slot: without it 90 % intervals of ten superposed fleets held 66 to 84 % above 5 people."""
_STAYING = (1.0, 1.0, 1.15, 1.0, 4.0)
"""The same where they stay. The few fullest cells, above 100 people, vary more than habits say:
without it their intervals held 53 to 58 % in seven days of a crowd of 130,000."""
_COMPLETELY = (1.0, 1.0, 0.9, 0.7, 2.0)
"""The same where everybody is always counted and too few parts say whether people stay. With
`_WIDER` those above 20 people held 98 to 100 % in one window of 130,000."""
_FORETOLD = (1.0, 4.0)
"""The least and the most by which variances are multiplied for how well slots were foretold."""
_SWING = 0.06
"""Relative variance of the total that cells are at most given."""
_SUMS, _FIRM = (0.7, 4.0), 6.0
"""Those of sums, and how many sums the laws' own variances count for."""
_COMPLETE = 0.8
"""How likely everybody must be counted for a total to be taken as one number. One sum gives .91."""
_Z90 = 1.6449
_NODES = 720
"""Times that a posterior tells apart; slots of longer or finer histories share them."""
_ALONE = 1.4
"""By what variances of the sums of one window are multiplied: without it 90 % intervals of single
days of cabs held 79 to 92 % of slots (development data)."""
_SPARSE, _WAVES_OF = 0.3, 1.0
"""Share of the publicly expected people counted in a mean slot below which totals may swing as call
records do, and the least scale of the kernel there. A total lies between nobody and everybody, so a
mean near everybody bounds how far it swings, and one of a tenth does not: with every scale allowed
90 % intervals of sums of call records held 24 to 36 % of slots (2,000 people, one window)."""
_WEIGHED_FROM = 3
"""Parts from which on habits are weighed by likelihood."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Noisy means of parts: their shares in the times (part x time), their values (part x cell)."""

    times: Times
    shares: Values
    values: Values
    noise: Values
    """Variance of the noise in each mean."""
    alone: bool = False
    """Whether the parts tile one window: then no two of them are of like hours."""


def timeline(facts: StreamFacts, begin: int, stop: int) -> tuple[Times, NDArray[np.int64]]:
    """The times that a posterior of these slots tells apart, and at which of them each slot is."""
    calendar, slots = facts.calendar, np.arange(begin, stop)
    length = calendar.longest_day
    joined = -(-slots.size // _NODES)
    key = calendar.day[slots] * length + calendar.phase[slots] // joined
    _, first, node, size = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    phase = np.bincount(node, calendar.phase[slots]) / size / length
    day = calendar.day[slots[first]].astype(np.float64)
    times = Times(day + phase, phase, calendar.free[slots[first]], np.ones(first.size))
    return times, node


class Total:
    """The city's total at all times, from the sums of the parts; scales of the kernel compete."""

    def __init__(self, seen: Seen, ceiling: float, people: int | None = None) -> None:
        kernel, flat = relative_kernel(seen.times, seen.times), np.ones(seen.times.at.size)
        cross = kernel @ seen.shares.T
        within = seen.shares @ cross
        sums, noise = seen.values.sum(axis=1), seen.noise * seen.values.shape[1]
        shape = seen.shares @ flat
        fits = [
            fitted(within, shape, sums, noise, scale, chance, ceiling)
            for scale in SCALES
            for chance in CHANCES
        ]
        logs = np.array([one.fit for one in fits])
        counted = float(sums @ (1 / noise)) / float(shape @ (1 / noise))
        sparse = people is not None and counted < _SPARSE * people
        if sparse:
            # Restricted likelihoods, as in `judged`: one sum would speak for the least swing.
            logs -= [0.5 * math.log(float(shape @ one.inverse @ shape)) for one in fits]
            logs[[one.scale < _WAVES_OF for one in fits]] = -np.inf
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        self.level = float(weights @ np.array([one.level for one in fits]))
        means, seconds, levels = [], [], []
        for one in fits:
            share = one.scale * one.level**2
            mean = one.level * flat + share * (cross @ one.solved)
            told = cross @ one.inverse
            left = share * np.diag(kernel) - share**2 * np.sum(told * cross, axis=1)
            if sparse:  # the level is read from few people: its own error counts (kriging)
                apart = flat - share * (told @ shape)
                levels.append(apart / math.sqrt(float(shape @ one.inverse @ shape)))
                left = left + np.square(levels[-1])
            means.append(mean)
            seconds.append(np.maximum(left, 0.0) + one.chance * one.level + np.square(mean))
        mean = weights @ np.array(means)
        self._fits, self._weights, self._kernel, self._cross = fits, weights, kernel, cross
        self._apart, self._levels = np.array(means) - mean, levels or [0 * flat] * len(fits)
        self.white = np.full(mean.size, float(weights @ [one.chance * one.level for one in fits]))
        """Variance of single slots that others do not share."""
        self.mean = np.maximum(mean, 0.0)
        self.variance = np.maximum(weights @ np.array(seconds) - np.square(mean), 0.0)
        self._wider = _ALONE if seen.alone else self._foretold(seen)
        self.variance *= self._wider
        self.relative = np.maximum(self.mean / max(self.level, 1e-9), LEAST)

    def _foretold(self, seen: Seen) -> float:
        """By how much sums were further from what all others say than the laws have it."""
        slots = np.sum(seen.shares > 0, axis=1)
        parts = np.flatnonzero(slots == slots.min())
        own = np.array([np.diag(one.inverse)[parts] for one in self._fits])
        apart = np.array([one.solved[parts] for one in self._fits]) / own
        errors = float((self._weights @ np.square(apart) / (self._weights @ (1 / own))).sum())
        return float(np.clip((errors + _FIRM) / (parts.size + _FIRM), *_SUMS))

    def settle(self, level: float, variance: float) -> None:
        """Take the total as one number with that error."""
        self.mean, self.variance = np.full_like(self.mean, level), np.full_like(self.mean, variance)

    def root(self) -> Values:
        """A root of the covariance of the total over all times, without `white` (time x any)."""
        within = (self._apart * self._weights[:, None]).T @ self._apart
        for one, level, weight in zip(self._fits, self._levels, self._weights, strict=True):
            share = one.scale * one.level**2
            told = self._cross @ one.inverse @ self._cross.T
            within += weight * (share * self._kernel - share**2 * told + np.outer(level, level))
        values, axes = np.linalg.eigh(self._wider * (within + within.T) / 2)
        return np.asarray((axes * np.sqrt(np.maximum(values, 0.0))) @ axes.T)


def window_totals(seen: Seen, people: float) -> tuple[Values, Values, Values]:
    """The total of every slot of one window, and what it lies between with 90 %.

    One sum tells neither how much totals change in a day nor how far they are from it, so the laws
    are those of a live city (`comb.profiles`): one in which everybody is always counted is likely
    where the sum is near the public number of people, and the level's own error counts.
    """
    kernel, flat = relative_kernel(seen.times, seen.times), np.ones(seen.times.at.size)
    cross = kernel @ seen.shares.T
    shape = seen.shares @ flat
    fits, weights = _live_fits(seen, people)
    known = _one_number(seen, fits, weights)
    if known is not None:
        reach = _Z90 * math.sqrt(known[1])
        return known[0] * flat, max(known[0] - reach, 0.0) * flat, (known[0] + reach) * flat
    means, variances = [], []
    for one in fits:
        share = one.scale * one.level**2
        told = cross @ one.inverse
        left = share * np.diag(kernel) - share**2 * np.sum(told * cross, axis=1)
        apart = flat - share * (told @ shape)
        left += np.square(apart) / float(shape @ one.inverse @ shape)
        means.append(one.level * flat + share * (cross @ one.solved))
        variances.append(np.maximum(left, 0.0) + one.chance * one.level)
    low, high = between(weights, np.array(means), _ALONE * np.array(variances))
    return np.maximum(weights @ np.array(means), 0.0), low, high


def _live_fits(seen: Seen, people: float) -> tuple[list[Fit], Values]:
    """Processes of the parts' sums as in a live city without a public wave, and their weights."""
    kernel = relative_kernel(seen.times, seen.times)
    within, shape = seen.shares @ kernel @ seen.shares.T, seen.shares.sum(axis=1)
    sums, noise = seen.values.sum(axis=1), seen.noise * seen.values.shape[1]
    habits = [(0.0, scale, chance) for scale in LIVE_SCALES for chance in CHANCES]
    fits = [judged(within, shape, sums, noise, habit, people) for habit in habits]
    logs = np.array([one.fit for one in fits])
    weights = np.exp(logs - logs.max())
    return fits, weights / weights.sum()


def everybody(seen: Seen, people: int | None) -> tuple[float, float] | None:
    """The total and the variance of its error, where the sums say that everybody is always counted:
    then it is one number, and nothing but noise is unknown of it."""
    if people is None:
        return None
    return _one_number(seen, *_live_fits(seen, float(people)))


def _one_number(seen: Seen, fits: list[Fit], weights: Values) -> tuple[float, float] | None:
    if float(weights[steady_fits(fits)].sum()) <= _COMPLETE:
        return None
    precision = 1 / (seen.noise * seen.values.shape[1])
    return float(precision @ seen.values.sum(axis=1) / precision.sum()), 1 / float(precision.sum())


class Profiles:
    """Every cell's profile (time x cell): the city's, moved by what its neighbours show."""

    steady = False
    """Covariances are not learned here: it changed errors by less than 1 %."""

    def __init__(self, total: Total, seen: Seen, columns: int | None) -> None:
        cells = seen.values.shape[1]
        self.city_level, self.level = total.level, np.full(cells, total.level / cells)
        base, shares, noise = total.relative, seen.shares, seen.noise
        self.all = np.broadcast_to(base[:, None], (base.size, cells))
        if columns is not None:
            means, squares = around(seen.values, columns)
            inside, precision = shares @ base, 1 / noise
            level = (inside * precision) @ means / float((np.square(inside) * precision).sum())
            self.level = np.maximum(level, 0.0)
            clipped = np.maximum(level, max(0.02 * total.level / cells, 1e-9))
            cross = relative_kernel(seen.times, seen.times) @ shares.T
            within = shares @ cross
            # People stay for a while, so a mean over more slots has less chance in it.
            slots = np.sqrt(np.sum(shares > 0, axis=1))
            bands = np.rint(2 * np.log2(clipped)).astype(np.int64)
            solved = np.zeros_like(seen.values)
            for band in np.unique(bands):
                which = np.flatnonzero(bands == band)
                size = 2.0 ** (band / 2)
                own = (noise / size**2 + 1 / (size * slots)) * squares
                whole = firm(within + np.diag(own), own)
                apart = means[:, which] / clipped[which] - inside[:, None]
                solved[:, which] = np.linalg.solve(whole, apart)
            self.all = np.maximum(base[:, None] + cross @ solved, LEAST)
        self.seen = np.asarray(shares @ self.all)

    def at(self, time: int) -> Values:
        return np.ascontiguousarray(self.all[time])


class PartCells(Cells):
    """The posterior of all cells given means of parts."""

    def __init__(
        self, seen: Seen, laplace: bool, columns: int | None, people: int | None, ceiling: float
    ) -> None:
        self._shares, self._nodes, self.columns = seen.shares, seen.times, columns
        self.total = Total(seen, ceiling, people)
        self._everybody = everybody(seen, people)
        if self._everybody is not None:
            self.total.settle(*self._everybody)
        self._profiles = Profiles(self.total, seen, columns)
        weigh = len(seen.noise) >= _WEIGHED_FROM
        super().__init__(
            *(seen.times, seen.values, seen.noise, laplace, self._profiles, columns, people),  # type: ignore[arg-type]
            *(_BEGIN, weigh),
        )
        self._more = _BUSY_MORE * self._more
        stay = Habits.numbered(self.at_habits).people[1] >= _STAY
        complete = self._everybody is not None and not stay
        self._wider = np.array(_COMPLETELY if complete else _STAYING if stay else _WIDER)
        self._kernel = self._habits.relative(seen.times, seen.times)
        self._chances = self._habits.chance(seen.times, seen.times)
        some = np.unique(np.linspace(0, seen.times.at.size - 1, 6).astype(np.int64))
        held = sum(float(self.count(int(time)).mean.sum()) for time in some)
        off = float(self.total.mean[some].sum()) / max(held, 1e-9)
        self.levels = self.levels * float(np.clip(off, *_OFF)) ** 0.5
        self._wider = self._wider * self._foretold()

    def _foretold(self) -> Values:
        """By how much single slots were further from what all other parts say than they should be.

        Each part that is one slot is foretold from the others, level by level. The squares of
        errors, less the noise's share, over the variances foretold are a factor for each class of
        means, drawn to 1 as far as noise hides it.
        """
        size = len(BINS) + 1
        errors, spreads, doubt = np.zeros(size), np.zeros(size), np.zeros(size)
        slots = np.sum(self._shares > 0, axis=1)
        for part in np.flatnonzero(slots == slots.min()):
            noise, seen = float(self._noise[part]), self._seen[:, part]
            first, second = np.zeros(seen.size), np.zeros(seen.size)
            for k, (level, inverse) in enumerate(zip(self.levels, self._solves, strict=True)):
                own = float(inverse[part, part])
                apart = (self._seen - level * self._profile) @ inverse[:, part] / own
                mean = np.maximum(seen - apart, 0.0)
                first += self._chance[:, k] * mean
                second += self._chance[:, k] * (np.square(mean) + max(1 / own - noise, 0.0))
            spread = second - np.square(first)
            which = np.digitize(first, BINS)
            errors += np.bincount(which, np.square(seen - first) - noise, size)
            spreads += np.bincount(which, spread, size)
            # Squares of Laplace noise have five times the square of its variance.
            unsure = 5 * noise**2 + 4 * noise * spread + 2 * np.square(spread)
            doubt += np.bincount(which, unsure, size)
        prior = 2 * np.sqrt(doubt) + 1e-9
        return np.asarray(np.clip((errors + prior) / (spreads + prior), *_FORETOLD))

    def _posterior(self, logs: Values, base: Values) -> Values:
        """As in `comb`; but which of the levels that lie far below its surroundings a cell has, the
        parts tell. Taken as empty, masts of a handful among such of thousands had no interval."""
        out = super()._posterior(logs, base)
        step = math.log(self.levels[2] / self.levels[1])
        lowest = 1 + np.rint(np.log(base / self.levels[1]) / step) - DOWN
        below = np.arange(self.levels.size) < np.maximum(lowest, 1)[:, None]
        share = np.where(below, logs, -np.inf)
        share = np.exp(share - share.max(axis=1, keepdims=True))
        share *= (out[:, 0] / share.sum(axis=1))[:, None]
        out[:, 0] = 0.0
        return np.asarray(out + share)

    def _inverses(self, levels: Values, habits: Habits | Learned) -> Values:
        shares, times = self._shares, self._nodes
        kernel = shares @ habits.relative(times, times) @ shares.T
        chance = shares @ habits.chance(times, times) @ shares.T
        size = levels[:, None, None]
        whole = np.square(size) * kernel + size * chance + np.diag(self._noise)
        return np.asarray(np.linalg.inv(firm(whole, self._noise)), dtype=np.float64)

    @property
    def kernel(self) -> Values:
        """Relative covariance of a cell's own course over all times …"""
        return self._kernel

    @property
    def people(self) -> Values:
        """… and that of chance, over the level."""
        return self._chances

    @property
    def shares(self) -> Values:
        """Part x time."""
        return self._shares

    @property
    def solves(self) -> Values:
        """Inverse covariances of the parts, level by level."""
        return self._solves

    @property
    def chances(self) -> Values:
        """Probability of each level for each cell."""
        return self._chance

    @property
    def wider(self) -> Values:
        """By what variances are multiplied, by classes of means."""
        return self._wider

    def courses(self, some: slice) -> tuple[Values, Values, Values]:
        """Of some cells: the parts, and the profile in the parts and at all times."""
        return self._seen[some], self._profile[some], self._profiles.all[:, some].T

    def count(self, time: int) -> Counted:
        """Every cell's count in a slot at one of the times."""
        cross, chance = self._shares @ self._kernel[time], self._shares @ self._chances[time]
        size = self.levels[:, None]
        shared = np.square(size) * cross + size * chance
        weights = np.einsum("kvw,kw->kv", self._solves, shared)
        own = float(self._kernel[time, time])
        spread = np.square(self.levels) * own + self.levels - np.sum(shared * weights, axis=1)
        # With the city's total all profiles rise and fall.
        swing = float(self.total.variance[time]) / max(float(self.total.mean[time]), 1e-9) ** 2
        made = Counted(
            *summaries(
                *(self._seen, self._profile, self._profiles.at(time), self.levels),
                *(weights, np.maximum(spread, 0.0), self._chance, self._more),
                *(self._wider, self._everybody is not None, 0.0, min(swing, _SWING)),
            )
        )
        middle = np.clip(np.rint(made.mean), made.lower, made.upper)
        return replace(made, median=np.where(made.mean > _MANY, middle, made.median))
