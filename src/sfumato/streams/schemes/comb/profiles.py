"""Profiles of a day by Gaussian processes: the city's, and that of a cell's surroundings.

**The kernel** says how a profile departs from the public shape of a day, as a share of its level:

    constant      .09   the level itself is known to a third
  + daily         .10   exp(-(phase apart)^2 / 2 (2.4 h)^2), the same every day
  + kind of day   .02   the same, between working days and between free days
  + drift         .02   exp(-|time apart| / 3 days)
  + hours         .01   exp(-|time apart| / 6 hours)
  + this day     .006   between slots of one day, times the day's own factor (`Times.factor`)

Values hardly matter (docs/decisions/streams.md, "comb"), but for the scale of all of them, which is
weighed by marginal likelihood: the city's interval hangs on it. The public shape is a wave of a
fifth that is highest at 18 h, or none: which of the two, the sums tell. A city in which everybody
is always counted has none and the least scale; where the first sum is near the public number of
people, that is likely from the first vector on.

**The city's profile** comes from the vectors' sums, pooled over days. A holiday is a day whose
factor is large: factors compete by marginal likelihood as soon as the day has a vector, so that the
first one corrects the level and the next day does not inherit it.

**The surroundings' profile** of a cell comes from a Gaussian-weighted mean of its neighbours,
without itself; where they are too few to tell, it is the city's.

Computed from noisy vectors and public times: post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.ndimage import gaussian_filter
from scipy.special import ndtr

from sfumato.model.matrices import firm
from sfumato.streams.scheme import Values

_CONSTANT, _DAILY, _KIND, _DRIFT, _HOURS, _DAY = 0.09, 0.10, 0.02, 0.02, 0.01, 0.006
LENGTH, _DRIFT_DAYS, _HOURS_DAYS = 0.1, 3.0, 0.25
STEADY_LENGTH, _STEADY_AROUND = 0.15, 0.2
"""In a city whose total does not change: how far hours are alike, and the scale of the kernel of
surroundings. With both a crowd of 130,000 had 1.5 % less error; fleets have 2 % more."""
_WAVES, _PEAK = (0.0, 0.2), 0.75
"""Sizes of the public wave that compete, and when it is highest."""
SCALES = (0.01, 0.1, 0.3, 1.0, 3.0)
"""Multiples of the kernel that compete."""
LIVE_SCALES = (1e-5, 0.001, *SCALES)
"""Those of live cities: totals that hardly change are among them."""
_COMPLETE, NEAR = 0.3, 0.03
"""How likely a city is one in which everybody is always counted (no wave, the least kernel), and
how nearly the public number of people is then known."""
_STEADY = 0.001
"""Multiple of the kernel up to which totals hardly change: by 2 % of their level. With 0.01 three
sums of a fleet's first day could pass for it."""
CERTAIN = 0.95
"""How likely a city must be complete for its total to be one number."""
_MORE = 1.5
"""Times the publicly expected people that there may be."""
_ROOT = math.sqrt(2 * math.pi)
_HALVINGS = 40
"""Steps towards a quantile: to a millionth of a millionth of where it may lie."""
CHANCES = (0.01, 1.0)
"""Variance of the total beside the kernel, a person, that compete: who is seen may be everybody."""
_FACTORS = (1.0, 100.0)
_UNUSUAL = 0.03
"""How often a day is unlike others: eleven public holidays a year."""
HOLIDAY = 10.0
"""Factor of a holiday before its first vector: its level is known to a quarter."""
_NIGHTS, _NIGHT, _NIGHT_LONG = 2.0, 0.13, 0.09
"""By how much more variances of changing totals are multiplied around 3 h, when that is, and how
long, as shares of a day: totals of nights lie furthest from those of days, and those of free
nights from those of others."""
_WIDTH = 1.2
"""Cells, of the surroundings that give a profile."""
LEAST = 0.05
"""No profile is below this share of the mean."""
_GOLDEN = 0.618
"""Share of a tooth's width by which the comb moves each day: successive days fall between."""


def width(k: int, length: int) -> int:
    """Slots over which each of k vectors a day is the mean."""
    return max(1, {1: length // 4, 2: length // 12}.get(k, 1))


def teeth(day: int, k: int, length: int, first: int = 0) -> list[int]:
    """The slots of a day at which its vectors end: k, evenly apart, other ones every day; all from
    the slot `first` on."""
    apart = (length - first) / k
    shift = apart * math.modf(_GOLDEN * day)[0]
    return [first + int(shift + j * apart) for j in range(k)]


def standing_out(sums: Values, noises: Values, far: float) -> int:
    """The fewest of the last sums that lie so many standard deviations above zero together.

    A feed of few people may never stand out in one vector: 120 cabs in 76 cells were unseen for
    a day and a half where each had to. 0 where no number of them does.
    """
    clear = np.cumsum(sums[::-1]) >= far * np.sqrt(np.cumsum(noises[::-1]))
    return int(np.argmax(clear)) + 1 if clear.any() else 0


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """When vectors were taken: day with its fraction, phase as a share of a day, kind of day."""

    at: Values
    phase: Values
    free: NDArray[np.bool_]
    factor: Values
    """Of the variance of each vector's day; see `_FACTORS`."""

    @property
    def day(self) -> NDArray[np.int64]:
        return np.floor(self.at + 1e-9).astype(np.int64)

    def shape(self, wave: float) -> Values:
        """The public shape of a day, with a wave of that size."""
        return np.asarray(1 + wave * np.cos(2 * math.pi * (self.phase - _PEAK)))

    @property
    def nights(self) -> Values:
        """By how much more totals are unlike what other hours show."""
        away = np.abs(self.phase - _NIGHT)
        return np.asarray(
            _NIGHTS * np.exp(-0.5 * np.square(np.minimum(away, 1 - away) / _NIGHT_LONG))
        )

    def chosen(self, which: NDArray[np.bool_]) -> Times:
        return Times(self.at[which], self.phase[which], self.free[which], self.factor[which])


def turns(a: Times, b: Times) -> Values:
    """Shares of a day between the phases, on the circle."""
    turn = np.abs(a.phase[:, None] - b.phase[None])
    return np.asarray(np.minimum(turn, 1 - turn))


def relative_kernel(a: Times, b: Times, length: float = LENGTH) -> Values:
    """Covariance of the departure from the public shape, as a share of the level.

    `length` is how far hours are alike, as a share of a day.
    """
    return lasting_kernel(a, b, length) + passing_kernel(a, b)


def lasting_kernel(a: Times, b: Times, length: float = LENGTH) -> Values:
    """The part of it that comes back on other days."""
    alike = np.exp(-0.5 * np.square(turns(a, b) / length))
    kind = a.free[:, None] == b.free[None]
    return np.asarray(_CONSTANT + (_DAILY + _KIND * kind) * alike)


def passing_kernel(a: Times, b: Times) -> Values:
    """The part that does not: drift, hours and this very day."""
    apart = np.abs(a.at[:, None] - b.at[None])
    same = a.day[:, None] == b.day[None]
    own = np.sqrt(a.factor[:, None] * b.factor[None])
    return np.asarray(
        _DRIFT * np.exp(-apart / _DRIFT_DAYS)
        + _HOURS * np.exp(-apart / _HOURS_DAYS)
        + _DAY * own * same
    )


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """One Gaussian process on the sums: level, scale of the kernel, and how well it fits."""

    level: float
    scale: float
    chance: float
    solved: Values
    inverse: Values
    fit: float
    wave: float = 0.0
    """Size of the public wave around which it is."""


@dataclass(frozen=True, slots=True, eq=False)
class CityProfile:
    """The city's total at any time, from noisy sums."""

    times: Times
    fits: tuple[Fit, ...]
    weights: Values
    level: float
    """The mean total of a day."""
    sums: Values
    noise: Values
    """The sums, and the variance of the noise in each."""

    @classmethod
    def of(cls, times: Times, sums: Values, noise: Values, people: float) -> CityProfile:
        """From the vectors' sums, the variance of their noise, and the people expected."""
        kernel = relative_kernel(times, times)
        fits = tuple(
            judged(kernel, times.shape(wave), sums, noise, (wave, scale, chance), people)
            for wave in _WAVES
            for scale in LIVE_SCALES
            for chance in CHANCES
        )
        logs = np.array([one.fit for one in fits])
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        level = float(weights @ np.array([one.level for one in fits]))
        return cls(times, fits, weights, level, sums, noise)

    @property
    def fit(self) -> float:
        """Log of the marginal likelihood, averaged over the scales."""
        logs = np.array([one.fit for one in self.fits])
        return float(logs.max() + np.log(np.exp(logs - logs.max()).mean()))

    @property
    def complete(self) -> bool:
        """Whether the sums speak for a city in which everybody is always counted."""
        return float(self.weights[steady_fits(self.fits)].sum()) > 0.5

    def _parts(self, now: Times) -> tuple[Values, Values]:
        """Means and variances of the total at these times under each of the fits."""
        cross, own = relative_kernel(now, self.times), np.diag(relative_kernel(now, now))
        means, variances = [], []
        for one in self.fits:
            share = one.scale * one.level**2
            means.append(one.level * now.shape(one.wave) + share * (cross @ one.solved))
            shape, told = self.times.shape(one.wave), cross @ one.inverse
            variance = share * own - np.square(share) * np.sum(told * cross, axis=1)
            # The level is fitted, too: what its error leaves of a sum (universal kriging).
            apart = now.shape(one.wave) - share * (told @ shape)
            variance += np.square(apart) / float(shape @ one.inverse @ shape)
            variances.append(np.maximum(variance, 0.0) + one.chance * one.level)
        return np.array(means), np.array(variances)

    def total(self, now: Times) -> tuple[Values, Values]:
        """Mean and variance of the total at these times."""
        means, variances = self._parts(now)
        mean = self.weights @ means
        variance = self.weights @ (variances + np.square(means)) - np.square(mean)
        return np.maximum(mean, 0.0), np.maximum(variance, 0.0)

    @property
    def one_number(self) -> tuple[float, float] | None:
        """The total and the variance of its error, where all but certainly everybody is always
        counted: nothing but noise is unknown of it then. With the laws' average, in which slots
        may vary by chance, which noise hides, intervals of crowds held always."""
        if float(self.weights[steady_fits(self.fits)].sum()) <= CERTAIN:
            return None
        precision = 1 / self.noise
        return float(precision @ self.sums / precision.sum()), 1 / float(precision.sum())

    def interval(self, now: Times, wider: float) -> tuple[float, float]:
        """What the total at one time lies between with 90 %: quantiles of the average of the fits.

        A variance would be that of its unlikeliest part. `wider` multiplies variances.
        """
        means, variances = self._parts(now)
        changing = ~steady_fits(self.fits)[:, None]
        low, high = between(self.weights, means, wider * variances * (1 + changing * now.nights))
        return float(low[0]), float(high[0])

    def relative(self, now: Times) -> Values:
        """The total as a multiple of a day's mean."""
        return np.maximum(self.total(now)[0] / max(self.level, 1e-9), LEAST)


def steady_fits(fits: Sequence[Fit]) -> NDArray[np.bool_]:
    """Which are of a city whose total does not change."""
    return np.array([one.scale <= _STEADY and one.wave == 0 for one in fits])


def between(weights: Values, means: Values, variances: Values) -> tuple[Values, Values]:
    """5 % and 95 % of averages of Gaussian totals (fit x time), which are not negative."""
    sds = np.sqrt(np.maximum(variances, 1e-9))
    ends = []
    for share in (0.05, 0.95):
        low, high = (means - 5 * sds).min(axis=0), (means + 5 * sds).max(axis=0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = weights @ ndtr((middle - means) / sds) < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        ends.append((low + high) / 2)
    return np.maximum(ends[0], 0.0), np.asarray(ends[1])


def fitted(
    kernel: Values,
    shape: Values,
    sums: Values,
    noise: Values,
    scale: float,
    chance: float,
    ceiling: float,
) -> Fit:
    """The process that has this scale: its level by generalised least squares, and its fit."""
    level = min(max(float(sums.mean()), 1.0), ceiling)
    for _ in range(4):
        own = noise + chance * level
        whole = firm(scale * level**2 * kernel + np.diag(own), own)
        factor = cho_factor(whole, lower=True)
        towards = cho_solve(factor, shape)
        level = min(max(float(towards @ sums) / float(towards @ shape), 1.0), ceiling)
    apart = sums - level * shape
    solved = cho_solve(factor, apart)
    logdet = 2 * float(np.log(np.diag(factor[0])).sum())
    inverse = cho_solve(factor, np.eye(sums.size))
    return Fit(level, scale, chance, solved, inverse, -0.5 * (float(apart @ solved) + logdet))


def judged(
    kernel: Values,
    shape: Values,
    sums: Values,
    noise: Values,
    habit: tuple[float, float, float],
    people: float,
) -> Fit:
    """A live city's process: wave, scale and chance, and how likely its level was beforehand."""
    wave, scale, chance = habit
    one = fitted(kernel, shape, sums, noise, scale, chance, _MORE * people)
    # The level is fitted as well, which a single sum allows to any kernel (Harville 1974).
    fit = one.fit - 0.5 * math.log(float(shape @ one.inverse @ shape))
    fit += _expected(one.level / people, wave == 0 and scale == LIVE_SCALES[0])
    return replace(one, fit=fit, wave=wave)


def _expected(share: float, steady: bool) -> float:
    """Log of how likely a level is before anything is seen, as a share of the people expected."""
    some = (1 - _COMPLETE) / (len(_WAVES) * len(LIVE_SCALES)) / _MORE
    if steady:
        some += _COMPLETE * math.exp(-0.5 * ((share - 1) / NEAR) ** 2) / (NEAR * _ROOT)
    return math.log(some)


def day_factor(
    times: Times, sums: Values, noise: Values, people: float, holiday: bool = False
) -> tuple[Times, CityProfile]:
    """The last day's factor by its marginal likelihood, and the city's profile with it.

    A `holiday` by the public calendar is as likely unlike other days as like them.
    """
    today = times.day == times.day[-1]
    if (~today).sum() == 0:
        return times, CityProfile.of(times, sums, noise, people)
    tried = []
    for factor in _FACTORS:
        one = replace(times, factor=np.where(today, factor, times.factor))
        tried.append((one, CityProfile.of(one, sums, noise, people)))
    unusual = 0.5 if holiday else _UNUSUAL
    logs = np.array([found.fit for _, found in tried]) + np.log([1 - unusual, unusual])
    weights = np.exp(logs - logs.max())
    factor = float(weights @ np.array(_FACTORS) / weights.sum())
    found = replace(times, factor=np.where(today, factor, times.factor))
    return found, CityProfile.of(found, sums, noise, people)


def around(values: Values, columns: int, width: float = _WIDTH) -> tuple[Values, float]:
    """Weighted means of each cell's neighbours, and the sum of the squared weights."""
    grid = values.reshape(values.shape[0], -1, columns)
    blurred = gaussian_filter(grid, (0, width, width), mode="nearest", truncate=3.0)
    side = 2 * math.ceil(3 * width) + 1
    here = np.zeros((side, side))
    here[side // 2, side // 2] = 1.0
    weights = gaussian_filter(here, width, mode="constant", truncate=3.0)
    own = float(weights[side // 2, side // 2])
    squares = float(np.square(weights).sum()) - own**2
    return ((blurred - own * grid) / (1 - own)).reshape(values.shape), squares / (1 - own) ** 2


class Surroundings:
    """Profiles of all cells: the city's, moved by what their neighbours show."""

    def __init__(
        self, city: CityProfile, times: Times, seen: Values, noise: Values, columns: int | None
    ) -> None:
        self._city, self._times = city, times
        self._columns = columns
        self._cells = seen.shape[1]
        self.city_level, self.steady = city.level, city.complete
        base = city.relative(times)
        self.seen = np.broadcast_to(base[:, None], seen.shape)
        self.level = np.full(self._cells, city.level / self._cells)
        if columns is None:
            return
        means, squares = around(seen, columns)
        kernel = self._kernel(times)
        precision = 1 / noise
        level = (base * precision) @ means / float((np.square(base) * precision).sum())
        self.level = np.maximum(level, 0.0)
        floor = max(0.02 * city.level / self._cells, 1e-9)
        clipped = np.maximum(self.level, floor)
        bands = np.rint(2 * np.log2(clipped)).astype(np.int64)
        self._solved = np.zeros_like(seen)
        kinds = np.unique(bands)
        for band in kinds:
            which = np.flatnonzero(bands == band)
            size = 2.0 ** (band / 2)
            own = (noise / size**2 + 1 / size) * squares
            whole = firm(kernel + np.diag(own), own)
            apart = means[:, which] / clipped[which] - base[:, None]
            self._solved[:, which] = np.linalg.solve(whole, apart)
        self.seen = np.maximum(base[:, None] + kernel @ self._solved, LEAST)

    def at(self, now: Times) -> Values:
        """Every cell's profile at one time."""
        base = float(self._city.relative(now)[0])
        if self._columns is None:
            return np.full(self._cells, base)
        return np.asarray(np.maximum(base + self._kernel(now)[0] @ self._solved, LEAST))

    def _kernel(self, now: Times) -> Values:
        """Covariance of a neighbourhood's profile with what it was when vectors were taken."""
        if not self.steady:
            return relative_kernel(now, self._times)
        return _STEADY_AROUND * relative_kernel(now, self._times, STEADY_LENGTH)
