"""Every cell's level and its count: one Gaussian process a level, and a law of levels.

Given its level l, a cell's vectors are Gaussian around l times its profile, with covariance

    l^2 .4 H   what its own profile does (the relative kernel)
  + l N        chance: whole people, who stay for about an hour
  + 2 b^2 I    the noise of the measurement,

so one Cholesky factor a level serves all cells. The likelihood of a level is then put right for
Laplace noise vector by vector: the density of each vector given the others, which is Gaussian plus
Gaussian, is replaced by Gaussian plus Laplace (Reed 2006).

**The law of levels** is non-parametric maximum likelihood (Kiefer & Wolfowitz 1956), by
expectation maximisation from an average of gamma laws (`rhythm.levels`): first over all cells, then
in classes of cells that have surroundings of like level, each starting from the law of all.

**The count** at a slot is a mixture over levels of negative binomials with the process' mean and
variance; `mixture.summaries` reads its mean, median and 90 % interval.

**In a city whose total does not change** hours are alike for longer, and which hours of which days
are alike is learned from all cells (`learned`).

Computed from noisy vectors and public times: post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.model.matrices import firm
from sfumato.streams.output import nearest_counts
from sfumato.streams.scheme import Values
from sfumato.streams.schemes.comb.learned import Learned
from sfumato.streams.schemes.comb.mixture import BINS, laplace_logs, summaries
from sfumato.streams.schemes.comb.profiles import (
    LENGTH,
    STEADY_LENGTH,
    Surroundings,
    Times,
    lasting_kernel,
    passing_kernel,
    turns,
)
from sfumato.streams.schemes.rhythm.levels import (
    LevelPosterior,
    gamma_average,
    log_normal_plus,
    npmle,
    spatial_prior,
)
from sfumato.streams.schemes.rhythm.shrinkage import weighted_medians

_LEVELS = 36
"""Levels, the first of them 0. They are coarse: each allows a third more or less."""
DOWN, _UP = 10, 14
"""Levels below and above its surroundings that a cell may have."""
_FLOOR = 0.2
"""Surroundings are taken as at least this share of their mean."""
_BUSY = 300
"""Cells on which habits are weighed: those with the busiest surroundings."""
_CLASSES, _CELLS_A_CLASS = 8, 100
_LEARN_FROM = 3
"""Vectors from which on covariances are learned, where the city's total does not change. Elsewhere
it changed nothing: ten fleets 5.32 and .835 instead of 5.33 and .834. On crowds of 20,000 and
130,000 it took 1 and 2 % off the error over all cells."""
_SLIGHT = 1e-3
"""Levels less likely than this are left out of a mixture: they cost time and tell nothing."""
_KEPT, _KEPT_TOTAL, _FIRM = 0.9, 0.97, 6.0
"""Weight of what was learned of errors before each new vector; likewise for sums, which are one
number each; and vectors that the model's own variance of a sum counts for."""
_BUSY_WIDER = np.array([1.0, 1.0, 1.15, 1.15, 1.15])
"""By what variances are multiplied beside: 90 % intervals of means above 5 held 82 to 87 % on
development data without it."""
_STEADY_WIDER = np.array([1.0, 1.0, 1.0, 1.0, 4.0])
"""The same beside, in a city whose total does not change: the few cells that are published above
100 are the fullest ones and those that noise lifted there. They held 56 and 81 % at epsilon .4
and 1 (six development crowds of 130,000)."""
_EMPTY, _MOST_EMPTY = 0.03, 0.5
"""Share of a mean cell's people that one may have which is taken for empty, in such a city, and the
most of them: a law of the largest likelihood has its mass at few levels, and there 0 stands for
what noise hides. Between cells of 16 people such cells had half a person, and intervals of those
below .2 held 77 and 84 % (the same crowds)."""
_TABLE, _WIDEST = 240, 12.0
"""Points at which the density of Gaussian plus Laplace is computed, and standard deviations that
they reach; between them it is linear, and beyond them too."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How cells depart from their profile; weighed by likelihood."""

    own: float
    """Variance of a cell's own profile over that of the relative kernel."""
    brief: float
    """Relative variance of what lasts for three hours."""
    people: tuple[float, float]
    """Shares of people who are there again at the same time of other days, and who are there at
    all times: homes, not taxis."""

    length: float = LENGTH
    """How far hours are alike, as a share of a day."""

    @classmethod
    def numbered(cls, at: At, length: float = LENGTH) -> Habits:
        """From places on the scales that are tried."""
        own, brief, people = at
        return cls(_OWN[own], _BRIEFLY[brief], _PEOPLE[people], length)

    def relative(self, a: Times, b: Times) -> Values:
        """Covariance over the square of the level."""
        return self.lasting(a, b) + self.passing(a, b)

    def lasting(self, a: Times, b: Times) -> Values:
        """The part of it that comes back on other days."""
        return self.own * lasting_kernel(a, b, self.length)

    def passing(self, a: Times, b: Times) -> Values:
        """The part that does not."""
        apart = np.abs(a.at[:, None] - b.at[None])
        return np.asarray(self.own * passing_kernel(a, b) + self.brief * np.exp(-apart / _BRIEF))

    def chance(self, a: Times, b: Times) -> Values:
        """Covariance of chance, over the level."""
        return self.staying(a, b) + self.fresh(a, b)

    def staying(self, a: Times, b: Times) -> Values:
        """The part of it due to those who stay or return."""
        alike = np.where(a.free[:, None] == b.free[None], 1.0, _OTHER)
        again = np.exp(-0.5 * np.square(turns(a, b) / _AGAIN)) * alike
        returning, steady = self.people
        return np.asarray(returning * again + steady)

    def fresh(self, a: Times, b: Times) -> Values:
        """The part due to others, who stay for about an hour."""
        apart = np.abs(a.at[:, None] - b.at[None])
        return np.asarray((1 - sum(self.people)) * np.exp(-apart / _STAY))


At = tuple[int, int, int]
_OWN, _BRIEFLY = (0.1, 0.4, 1.2), (0.0, 0.01, 0.05, 0.2)
_PEOPLE = ((0.0, 0.0), (0.5, 0.0), (0.3, 0.5), (0.1, 0.8), (0.05, 0.9), (0.3, 0.65))
"""Kept streams hold places on these scales: they grow at their ends."""
FIRST_HABITS: At = (1, 2, 2)
"""Where the search begins: places on the three scales."""
STEADY_HABITS: At = (0, 1, 5)
"""Where it begins in a city whose total does not change: there people stay. From there a crowd's
first days had 3 to 13 % less error on the busiest cells than from `FIRST_HABITS`."""
_STAY, _BRIEF, _AGAIN = 1 / 24, 0.125, 0.06
"""Days: how long people stay, how long a crowd lasts, how punctually people return."""
_OTHER = 0.3
"""Share of those who return that do so on days of the other kind, too."""


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """What is known of every cell's count at one slot."""

    mean: Values
    variance: Values
    median: Values
    lower: Values
    upper: Values


class Calibration:
    """How much wider errors are than the model says, by what was forecast of each new vector.

    A vector is first foretold, as a slot without one would be published. The squares of its errors,
    less the noise's share, over the variances foretold are a factor for each class of means;
    where noise hides it, the factor is 1. Old vectors count less.
    """

    def __init__(self, sums: Values | None = None, totals: Values | None = None) -> None:
        self.sums = np.zeros((3, len(BINS) + 1)) if sums is None else sums
        self.totals = np.zeros(2) if totals is None else totals

    def learn_total(self, error: float, variance: float) -> None:
        """Take up the error of a sum's forecast, and the variance foretold, noise included."""
        self.totals = _KEPT_TOTAL * self.totals + np.array([error**2 / variance, 1.0])

    @property
    def wider_total(self) -> float:
        """By what variances of sums are multiplied."""
        return float(np.clip((self.totals[0] + _FIRM) / (self.totals[1] + _FIRM), 0.5, 4.0))

    def learn(self, foretold: Counted, noisy: Values, noise: float) -> None:
        """Take up the errors of a vector's forecast; `noise` is its variance."""
        which = np.digitize(foretold.mean, BINS)
        size = len(BINS) + 1
        errors = np.square(noisy - foretold.mean) - noise
        # Squares of Laplace noise have five times the square of its variance.
        doubt = 5 * noise**2 + 4 * noise * foretold.variance + 2 * np.square(foretold.variance)
        new = [np.bincount(which, part, size) for part in (errors, foretold.variance, doubt)]
        self.sums = _KEPT * self.sums + np.array(new)

    @property
    def wider(self) -> Values:
        errors, variances, doubt = self.sums
        prior = 2 * np.sqrt(doubt) + 1e-9
        found = np.clip((errors + prior) / (variances + prior), 0.7, 4.0)
        return np.asarray(_BUSY_WIDER * found)


class Cells:
    """The posterior of all cells given the vectors (vector x cell)."""

    def __init__(
        self,
        times: Times,
        seen: Values,
        noise: Values,
        laplace: bool,
        surroundings: Surroundings,
        columns: int | None,
        people: int | None,
        habits: At,
        weigh: bool,
    ) -> None:
        self._times, self._around, self._noise = times, surroundings, noise
        self._length = STEADY_LENGTH if surroundings.steady else LENGTH
        self._seen = np.ascontiguousarray(seen.T)
        self._profile = np.ascontiguousarray(surroundings.seen.T)
        precision = 1 / noise
        own = precision @ seen / float(precision.sum())
        mean = surroundings.city_level / own.size
        top = max(1.5 * float(own.max()), 8 * mean, 1.0)
        least = max(min(0.1 * mean, 0.3), 1e-3)
        self.levels = np.concatenate(([0.0], np.geomspace(least, top, _LEVELS - 1)))
        self.at_habits = self._weighed(habits) if weigh else habits
        self._habits: Habits | Learned = Habits.numbered(self.at_habits, self._length)
        base = spatial_prior(own, columns, 1 / float(precision.sum()), people)
        base = np.maximum(base, max(_FLOOR * float(base.mean()), 0.5 * self.levels[1]))
        if surroundings.steady and len(noise) >= _LEARN_FROM:
            spread = max(float(np.square(own - base).mean()), 1e-9)
            trust = max(1 - 1 / float(precision.sum()) / spread, 0.0)
            level = np.maximum(base + trust * (own - base), self.levels[1])
            self._habits = Learned(self._habits)
            self._habits.fit(times, self._seen, self._profile, level, noise)
        self._solves = self._inverses(self.levels, self._habits)
        logs = self._likelihoods(laplace)
        self._chance = self._posterior(logs, base)
        law = LevelPosterior(np.ones(base.size), self.levels, self._chance, "npmle")
        self._more = weighted_medians(law, nearest_counts(own).astype(np.float64))[2][0]

    def _weighed(self, habits: At) -> At:
        """One sweep along each scale towards the likeliest vectors of busy cells."""
        busy = np.argsort(-self._around.level, kind="stable")[:_BUSY]
        seen, profile = self._seen[busy], self._profile[busy]
        known: dict[At, float] = {}

        def fit(at: At) -> float:
            if at not in known:
                some = self.levels[1::3]
                inverses = self._inverses(some, Habits.numbered(at, self._length))
                logs = np.array(
                    [
                        _gaussian_logs(seen - level * profile, inverse)[0]
                        for level, inverse in zip(some, inverses, strict=True)
                    ]
                )
                top = logs.max(axis=0)
                known[at] = float((top + np.log(np.exp(logs - top).mean(axis=0))).sum())
            return known[at]

        for axis, scale in enumerate((_OWN, _BRIEFLY, _PEOPLE)):
            habits = max((_with(habits, axis, k) for k in range(len(scale))), key=fit)
        return habits

    def _inverses(self, levels: Values, habits: Habits | Learned) -> Values:
        """The inverse covariance of a cell's vectors at each level."""
        kernel = habits.relative(self._times, self._times)
        chance = habits.chance(self._times, self._times)
        size = levels[:, None, None]
        whole = np.square(size) * kernel + size * chance + np.diag(self._noise)
        return np.asarray(np.linalg.inv(firm(whole, self._noise)), dtype=np.float64)

    def _likelihoods(self, laplace: bool) -> Values:
        """Log likelihood of every level for every cell.

        For Laplace noise the density of each vector given the others, Gaussian with precision
        p, becomes Gaussian plus Laplace; by table, in standard deviations.
        """
        logs = np.empty((self._seen.shape[0], self.levels.size))
        whole = 1 / np.sqrt(np.diagonal(self._solves, axis1=1, axis2=2))
        scale = np.sqrt(self._noise / 2)
        sd = np.sqrt(np.maximum(np.square(whole) - self._noise, 1e-12)) / scale
        x = np.linspace(0.0, _WIDEST, _TABLE)
        for k, (level, inverse) in enumerate(zip(self.levels, self._solves, strict=True)):
            logs[:, k], solved = _gaussian_logs(self._seen - level * self._profile, inverse)
            if laplace:
                wide = (whole[k] / scale)[:, None]
                table = log_normal_plus(x * wide, sd[k][:, None], 1.0)
                table += 0.5 * np.square(x) + np.log(wide * math.sqrt(2 * math.pi))
                logs[:, k] += laplace_logs(solved, whole[k], table, (_TABLE - 1) / _WIDEST)
        return logs

    def _posterior(self, logs: Values, base: Values) -> Values:
        """Probability of each level for each cell, under the law of multiples of `base`."""
        likelihood = np.exp(np.maximum(logs - logs.max(axis=1, keepdims=True), -80.0))
        # On a geometric grid a multiple is a shift: one law serves cells of every base.
        step = math.log(self.levels[2] / self.levels[1])
        first = np.rint(np.log(base / self.levels[1]) / step).astype(np.int64)
        reach = np.arange(-DOWN, _UP + 1)
        multiples = np.exp(step * reach)
        at = 1 + first[:, None] + reach
        top = self.levels.size - 1
        inside = np.take_along_axis(likelihood, np.clip(at, 0, top), axis=1)
        # Below the grid a cell is as good as empty; above it nobody is.
        shifted = np.concatenate((likelihood[:, :1], np.where(at > top, 0.0, inside)), axis=1)
        edges = np.concatenate(
            ([0.0, 0.5 * multiples[0]], np.sqrt(multiples[1:] * multiples[:-1]), [np.inf])
        )
        law, _ = npmle(shifted, gamma_average(shifted, edges)[0])
        cells = shifted.shape[0]
        chance = shifted * law
        classes = min(_CLASSES, cells // _CELLS_A_CLASS)
        if classes > 1 and np.ptp(base) > 0:
            rank = np.empty(cells, dtype=np.int64)
            rank[np.argsort(base, kind="stable")] = np.arange(cells)
            for one in range(classes):
                which = rank * classes // cells == one
                chance[which] = shifted[which] * npmle(shifted[which], law)[0]
        out = np.zeros_like(likelihood)
        out[:, 0] = chance[:, 0]
        rows = np.repeat(np.arange(cells), reach.size)
        np.add.at(out, (rows, np.clip(at, 0, top).ravel()), chance[:, 1:].ravel())
        out /= np.maximum(out.sum(axis=1, keepdims=True), 1e-300)
        return np.where(out < _SLIGHT, 0.0, out)

    def at(self, now: Times, wider: Values | None = None) -> Counted:
        """Every cell's count at one time, with variances that much wider (see `Calibration`)."""
        habits = self._habits
        cross, chance = habits.relative(now, self._times)[0], habits.chance(now, self._times)[0]
        own, people = float(habits.relative(now, now)[0, 0]), float(habits.chance(now, now)[0, 0])
        size = self.levels[:, None]
        shared = np.square(size) * cross + size * chance
        weights = np.einsum("kvw,kw->kv", self._solves, shared)
        spread = np.square(self.levels) * own + self.levels * people
        spread -= np.sum(shared * weights, axis=1)
        factors, empty = np.ones(len(BINS) + 1) if wider is None else wider, 0.0
        if self._around.steady:
            factors = factors * _STEADY_WIDER
            empty = min(_EMPTY * self._around.city_level / len(self._seen), _MOST_EMPTY)
        return Counted(
            *summaries(
                *(self._seen, self._profile, self._around.at(now), self.levels),
                *(weights, np.maximum(spread, 0.0), self._chance, self._more),
                *(factors, True, empty),
            )
        )


def _gaussian_logs(apart: Values, inverse: Values) -> tuple[Values, Values]:
    """Log likelihoods of the rows of `apart`, and these times the inverse covariance."""
    solved = apart @ inverse
    _, logdet = np.linalg.slogdet(inverse)
    return np.asarray(0.5 * logdet - 0.5 * np.einsum("cv,cv->c", apart, solved)), solved


def _with(at: At, axis: int, value: int) -> At:
    first, second, third = (value if k == axis else old for k, old in enumerate(at))
    return first, second, third
