"""Levels on thin maps: a cell's level is the sum of single people's shares of their time.

A law of multiples of the surroundings (`levels`) fails where cells hold hardly anybody: there a
cell has somebody or it has not, and who is there does not come in parts. So for maps of fewer
than two people a cell:

* *The law of levels.* A cell whose surroundings say m has a negative binomial number of people,
  each of whom spends a share of the time there, with density proportional to s^(a-1) on (0, 1]: a
  compound law (Panjer 1981), by its transform. Spread and a are those of the largest likelihood.
* *Counts given a level.* Of l people a part stays, so that a count is the whole number below or
  above that, and the rest is Poisson; or all come and go, as taxis do, and counts are negative
  binomial. Which it is, is the *habit* of the largest likelihood.
* *The likelihood* is that of every snapshot by itself: whole people plus the exact law of the
  noise. The mean of n Laplace numbers is less than they tell: their median has half its variance.

The answer of a cell is the weighted median of its count, where a level among the busiest of the
city counts more. Of a ladder of weights that one is taken whose least *lead* over simple answers
(zeros, the noisy mean as it is, and made whole) is largest: over all cells, on the busiest, and in
relative error. Errors are those that the posterior itself expects. Two limits hold it back: all
cells must not fall behind zeros, and **medians must not place many more people than an adversary
who knows all others would** (`PLACED`), because a good map of few people is a map of persons.

Unit, neighbours, sensitivity and cost are those of the snapshots: computed from noisy numbers and
public facts, post-processing. Oracles and what was tried: docs/decisions/streams.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import nbinom, poisson

from sfumato.streams.facts import StreamFacts
from sfumato.streams.output import nearest_counts
from sfumato.streams.parameters import Kind, Setting
from sfumato.streams.scheme import Values
from sfumato.streams.schemes.rhythm.levels import LevelPosterior
from sfumato.streams.schemes.rhythm.shrinkage import LevelCorrection, busiest_levels, median_level

THIN = 2.0
"""People a cell below which levels are sums of single people."""
PLACING = Setting(
    *("placed", Kind.NUMBER, "share of people that thin maps may place beyond guessing", 1.0, 0, 1)
)
PLACED = 0.06
"""Share of all people whom medians may place beyond an adversary who knows all others. With it the
attack of docs/attacks.md stays within three points of that one; without it thin maps are 6 to 8
above."""
_HARMLESS = 0.17
"""Share of people that may be placed in any case: the attack was below who knows all others
with 500 people on 8,010 cells."""
_STEP, _LATTICE = 0.1, 4096
LEVELS = np.concatenate(
    (
        *(np.arange(0, 11) / 10, np.arange(6, 16) / 5, np.arange(7, 17) / 2),
        *(np.arange(9.0, 17.0), np.arange(18.0, 41.0, 2.0), np.geomspace(46, 200, 11)),
    )
)
"""The levels told apart: tenths of a person below 1, then coarser."""
_BASES = np.geomspace(0.002, 60, 47)
"""What surroundings may say, in steps of a quarter."""
_SHARES = (0.15, 0.35, 0.7, 1.5, 4.0, 20.0)
_SPREADS = (0.25, 0.5, 1.0, 2.0, 4.0, 16.0)
_FLOOR = 0.2
"""Surroundings are taken as at least this share of their mean."""
_STAYING = (0.0, 0.25, 0.5, 1.0)
"""Shares of a level that come and go."""
_FLEETS = (4.0, 2.5, 1.5)
"""Shapes of the negative binomial counts of cells whose people all come and go."""
Habit = tuple[bool, float]
HABITS: tuple[Habit, ...] = (*((True, s) for s in _STAYING), *((False, s) for s in _FLEETS))
_UNSEEN: dict[bool, Habit] = {True: (True, 0.5), False: (False, 1.5)}
"""Assumed where means over many slots hide it: of a city that may be complete, and of one in which
fewer people are counted than there are. With the first for both, seven days of cabs were 1.00 and
.91 times as good as zeros over all cells and in relative error, with the second for both a crowd of
5,000 .87 times as good as `mean` on the busiest (epsilon 1, development data)."""
_SURE = 2.0
"""Standard deviations of the total's noise by which it must be below everybody for that."""
_WEIGHED = 2_000
"""Cells on which laws and habits are weighed, at most."""
_COUNTS, _ANSWERS = 260, 60
"""The largest count of a law, and the largest answer whose error is expected."""
_WEIGHTS = (
    *(0.0, 0.0625, 0.125, 0.1875, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0, 1.25, 1.5),
    *(2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
)
"""What a busy level counts more, in times that make busy cells as a whole count like all."""
_BEHIND, _RELATIVE = 0.985, 0.96
"""The lead over all cells that weights may cost, and the lead in relative errors that is as good as
one in absolute errors: the bars allow 1 % and 5 %."""
_CLEAR = 1.45
"""A lead beyond which more is not worth a loss elsewhere."""
_SANE = 0.001
"""Relative errors are taken of at least this share of all people, and of one person."""
_FULL = 2.5
"""Level from which the Gaussian process' own level stays where people stay: it is finer there."""
LIFT = 1.5
"""By how much more than the law says the weight of busy cells lifts those live, which the process
shrinks more than the law does: 1.35 and 1.59 times better than simple answers on the busiest and
over all cells with 1, 1.41 and 1.49 with 1.5 (5,000 people at epsilon 1, `PLACED` 1, development
data)."""


def is_thin(facts: StreamFacts) -> bool:
    """Whether the public number of people says that cells hold hardly anybody."""
    return facts.expected_users is not None and facts.expected_users < THIN * facts.cells


@lru_cache(maxsize=1)
def _laws() -> Values:
    """Laws of levels: (share, spread) x surroundings x level."""
    lattice = np.arange(_LATTICE) * _STEP
    edges = (LEVELS[1:] + LEVELS[:-1]) / 2
    edges[0] = _STEP / 2  # nobody is nobody
    cell = np.digitize(lattice, edges)
    share = np.arange(1, 11) * _STEP
    found = []
    for power in _SHARES:
        chance = np.diff(share**power, prepend=0.0)
        turned = np.fft.rfft(np.concatenate(([0.0], chance)), _LATTICE)
        people = _BASES[:, None] / float(chance @ share)
        for spread in _SPREADS:
            compound = np.exp(-spread * np.log1p(people / spread * (1 - turned)))
            law = np.maximum(np.fft.irfft(compound, _LATTICE, axis=1), 0.0)
            summed = np.stack([np.bincount(cell, row, LEVELS.size) for row in law])
            found.append(np.maximum(summed / summed.sum(axis=1, keepdims=True), 1e-12))
    return np.array(found)


@lru_cache(maxsize=len(HABITS))
def counts_given(habit: Habit) -> Values:
    """Chances of each count at each level (level x count)."""
    stays, value = habit
    count = np.arange(_COUNTS)
    if not stays:
        found = np.asarray(nbinom.pmf(count, value, value / (value + LEVELS[:, None])))
    else:
        found = np.zeros((LEVELS.size, _COUNTS))
        for row, level in zip(found, LEVELS, strict=True):
            staying, passing = (1 - value) * level, poisson.pmf(count, value * level)
            least = math.floor(staying + 1e-9)
            row[least:] += (1 - (staying - least)) * passing[: _COUNTS - least]
            row[least + 1 :] += (staying - least) * passing[: _COUNTS - least - 1]
    return np.asarray(np.maximum(found, 0.0) / found.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """What is known of every cell: its level, its people's habit, and how many could be guessed."""

    posterior: LevelPosterior
    habit: Habit
    guessed: float
    """Share of people who are where a guess by lot from everybody else's map has somebody."""


def fit_people(
    seen: Values, prior: Values, variance: float, laplace: bool, averages: int | None = None
) -> People:
    """The posterior of levels given noisy counts (snapshot x cell) with noise of that variance.

    Args:
        seen: The snapshots, or noisy means over many slots.
        prior: What the surroundings of each cell say.
        variance: That of the noise in one number.
        laplace: Whether the noise is Laplace's, or else Gaussian.
        averages: Where the numbers are means over many slots, which have no chance of their own:
            how many people there are.
    """
    base = np.maximum(prior, max(_FLOOR * float(prior.mean()), float(_BASES[0])))
    step = math.log(_BASES[1] / _BASES[0])
    like = np.rint(np.log(base / _BASES[0]) / step).astype(np.int64)
    like = np.clip(like, 0, _BASES.size - 1)
    some = slice(None, None, max(base.size // _WEIGHED, 1))
    habits, averaged = HABITS, averages is not None
    if averages is not None:
        doubt = _SURE * math.sqrt(variance * base.size / len(seen))
        habits = (_UNSEEN[float(seen.mean(axis=0).sum()) + doubt >= averages],)
    noise = (variance, laplace, averaged)
    best, law, habit = -math.inf, 0, habits[0]
    for tried in habits:
        chances, logs = _likelihood(seen[:, some], tried, *noise)
        for k, table in enumerate(_laws()):
            summed = np.einsum("ij,ij->i", chances, table[like[some]])
            if (fit := float(np.log(summed).sum()) + logs) > best:
                best, law, habit = fit, k, tried
    before = _laws()[law][like]
    chance = _likelihood(seen, habit, *noise)[0] * before
    chance /= chance.sum(axis=1, keepdims=True)
    chance[chance < 1e-9] = 0.0  # denormal numbers are slow
    guessed = float(base @ (1 - before @ np.exp(-LEVELS)) / base.sum())
    return People(LevelPosterior(np.ones(base.size), LEVELS, chance, "people"), habit, guessed)


_TOGETHER, _LEAST = 8, 1e-30
"""Likelihoods that are multiplied before their logarithm is taken, and the least of one."""


def _likelihood(
    seen: Values, habit: Habit, variance: float, laplace: bool, averaged: bool
) -> tuple[Values, float]:
    """Likelihood of every level for every cell over the largest one, and the logs of those."""
    if averaged:
        at, given = LEVELS, np.eye(LEVELS.size)
    else:
        at = np.arange(min(_COUNTS, math.ceil(1.5 * max(float(seen.mean(axis=0).max()), 0)) + 20))
        given = counts_given(habit)[:, : at.size].T
    logs = np.zeros((seen.shape[1], LEVELS.size))
    for first in range(0, len(seen), _TOGETHER):
        product = np.ones_like(logs)
        for row in seen[first : first + _TOGETHER]:
            apart = np.abs(row[:, None] - at)
            shape = apart * math.sqrt(2 / variance) if laplace else 0.5 * apart**2 / variance
            product *= np.maximum(np.exp(-shape) @ given, _LEAST)
        logs += np.log(product)
    highest = logs.max(axis=1)
    return np.exp(np.maximum(logs - highest[:, None], -80.0)), float(highest.sum())


def people_correction(
    found: People, mean: Values, base: Values, whole: bool, placed: float, lift: float = 1.0
) -> LevelCorrection:
    """From the levels `base` to those of the law of people; see `shrinkage.level_correction`."""
    posterior = found.posterior
    none = np.zeros(mean.size)
    if not whole:
        level = posterior.expected
        factor = np.minimum(level / np.maximum(base, 1e-9), 1.0)
        doubt = posterior.doubt(level)
        return LevelCorrection(factor, np.maximum(level - base, 0.0), none == 0, doubt)
    level, plain = weighted_levels(found, mean, placed)
    settled = none == 0
    stays, passing = found.habit
    if stays and passing < 1:
        settled = level < _FULL
    lifted = np.where(settled, 0.0, lift * np.maximum(level - plain, 0.0))
    doubt = np.where(settled, posterior.doubt(level), 0.0)
    level = np.where(settled, level, base)
    factor = np.minimum(level / np.maximum(base, 1e-9), 1.0)
    return LevelCorrection(factor, np.maximum(level - base, 0.0) + lifted, settled, doubt)


def weighted_levels(found: People, mean: Values, placed: float) -> tuple[Values, Values]:
    """Every cell's level for the best weight of busy levels, and for none."""
    posterior, given = found.posterior, counts_given(found.habit)
    chance = posterior.chance
    busy, unit = busiest_levels(posterior)
    shown = chance * busy
    all_people = max(float(posterior.expected.sum()), 1e-9)
    errors = _Errors(chance, shown, given, max(_SANE * all_people, 1.0))
    rivals = (np.zeros(mean.size), mean, nearest_counts(mean).astype(np.float64))
    bar = np.min([errors.of(rival) for rival in rivals], axis=0)
    most = max(found.guessed + placed, _HARMLESS)
    summed = np.cumsum(chance @ given[:, : _ANSWERS + 1], axis=1)
    more = unit * np.cumsum(shown @ given[:, : _ANSWERS + 1], axis=1)
    half_more = unit * shown.sum(axis=1)
    best: tuple[float, float] = (-1.0, -1.0)
    answer, taken = np.zeros(mean.size), 0.0
    for weight in _WEIGHTS:
        half = 0.5 * (1 + weight * half_more) - 1e-12
        tried = np.sum(summed + weight * more < half[:, None], axis=1).astype(np.float64)
        if weight > 0 and errors.placed(tried) > most * all_people:
            break
        lead = bar / np.maximum(errors.of(tried), 1e-12)
        least = min(float(lead[0]), float(lead[1]), float(lead[2]) / _RELATIVE, _CLEAR)
        merit = (min(float(lead[0]), _BEHIND), least)
        if merit > best:
            best, answer, taken = merit, tried, weight
    levels = np.broadcast_to(LEVELS, chance.shape)
    plain = median_level(levels, np.cumsum(chance, axis=1))
    level = median_level(levels, np.cumsum(chance + taken * unit * shown, axis=1))
    # The median of a count is not that of its level: what is published is the former.
    around = np.clip(level, answer - 0.3, answer + np.where(answer > 0, 0.5, 0.3))
    return np.where(answer < _ANSWERS, around, level), plain


class _Errors:
    """Expected errors of whole answers: over all cells, on the busiest, and relative there."""

    def __init__(self, chance: Values, shown: Values, given: Values, sane: float) -> None:
        count, answers = np.arange(_COUNTS)[:, None], np.arange(_ANSWERS + 1)
        apart = np.abs(count - answers)
        error, relative = given @ apart, given @ (apart / np.maximum(count, sane))
        self._of = (chance @ error, shown @ error, shown @ relative)
        self._below = (np.ones(len(chance)), shown.sum(axis=1), shown.sum(axis=1))
        self._placed = chance @ (given @ np.minimum(count, answers))

    def of(self, answer: Values) -> Values:
        """Summed over cells; between whole answers an expected error is linear."""
        low, up = self._around(answer)
        under = np.maximum(-answer, 0.0)
        return np.array(
            [
                float((self._at(table, low, up) + below * under).sum())
                for table, below in zip(self._of, self._below, strict=True)
            ]
        )

    def placed(self, answer: Values) -> float:
        """People who are where the answers have somebody."""
        return float(self._at(self._placed, *self._around(answer)).sum())

    @staticmethod
    def _around(answer: Values) -> tuple[NDArray[np.int64], Values]:
        inside = np.clip(answer, 0.0, _ANSWERS)
        low = np.minimum(inside.astype(np.int64), _ANSWERS - 1)
        return low, inside - low

    @staticmethod
    def _at(table: Values, low: NDArray[np.int64], up: Values) -> Values:
        rows = np.arange(low.size)
        return np.asarray(table[rows, low] * (1 - up) + table[rows, low + 1] * up)
