"""Several weeks read together: what they have in common, and how this one differs. Post-processing.

Earlier releases about the same places enter by what they *measured*, never by what was published of
it: a posterior holds its own prior already, and would count it again. Let y_w = x_w + noise be the
noisy counts of week w, each brought to the level of the current week, with noise of known variance
v_w. The mean of all weeks, weighted by 1 / v_w, and the difference of this week from that mean have
independent noise, of variance v = 1 / sum(1 / v_w) and v_now - v, and they say everything that
the measurements say of this week. So the ordinary inference reads the mean, at the sharper noise,
and the same layers read the difference: each finds by marginal likelihood how much of it is more
than noise. A city that stays what it was has nothing there and is read from all weeks; one that
has changed is read from its own week again. Draws of both are added.

Place and slot totals are treated alike, and the levels that the ladders say. What bounding
people takes away is the same in every week and does not average out: its error is added
once, at full size (`inference.prepare`).

Slots are matched by weekday and clock, or by kind of day and clock where the weekday is missing. A
slot without a match is read from its own week alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.density.bayes.frame import Frame
from sfumato.density.bayes.ground import PAIRS, Ground
from sfumato.density.bayes.ladder import Activity
from sfumato.density.bayes.measured import Margins
from sfumato.model.time_grid import HourCalendar

Table = NDArray[np.float64]
Vector = NDArray[np.float64]

_CHANGES = np.concatenate(([0.0], np.geomspace(0.005, 2.0, 25)))
"""How far totals may differ from the mean of the weeks, relative to it, tried on a grid."""
_LEAST = 0.05
"""Least part of the usual total of a place or a slot that is taken to be left of it."""
OTHER_CITY, _TOLD_APART = 0.85, 4.0
"""Correlation of place totals below which an earlier week is of another city, and left out: .99 and
more from week to week, .90 to .98 where a fifth of the towers change places, .5 to .85 where all
do (large zones stay large). At .5 memory made the error 15 % larger, at .7 by 1 %, and from .9 on
smaller. And standard deviations of its error from which the variance of totals is known."""
_LEVELS, _LIKELY_LEVEL, _SURE_OF_LEVEL = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64), 0.04, 1.0
"""How far the levels of weeks differ, as a standard deviation of their logarithms: tried, likely,
and how sure that is."""
_CROWD = 5.0
"""Standard deviations between a cell and the same cell of another week from which on that week says
nothing of it: a crowd that came once, then or now. By chance that is one cell in two million."""
_NEGLIGIBLE = 1e-6
_SEED = 20070910


@dataclass(frozen=True, slots=True, eq=False)
class Week:
    """What an earlier week measured, on the slots of the current one."""

    margins: Margins
    counted_alike: bool
    """Whether the same places were counted, with the same shares in the released ones."""
    counts: Table
    """Noisy counts of the released places at the level of a total of one."""
    variance: Table
    """Of their noise; infinite where nothing matches."""
    slots: csr_array
    """Current x earlier slots: rows are means of what matches."""
    activity: Activity
    alike: float
    """Correlation of its place totals with those of the current week, their noise taken out."""

    @property
    def whole(self) -> bool:
        """Whether it has the slots of the current week, each once, and no others."""
        rows, columns = self.slots.shape
        return bool(rows == columns == self.slots.nnz and np.isfinite(self.variance).all())


def matching(coming: HourCalendar, past: HourCalendar) -> csr_array:
    """Coming x past slots: each row takes the mean of its likes; empty where there are none."""
    now, before = _times(coming), _times(past)
    rows: list[int] = []
    columns: list[int] = []
    shares: list[float] = []
    for t in range(now.shape[1]):
        for depth in range(2):  # weekday and clock, kind of day and clock
            same = np.flatnonzero((before[depth:] == now[depth:, t : t + 1]).all(axis=0))
            if same.size:
                rows += [t] * same.size
                columns += same.tolist()
                shares += [1.0 / same.size] * same.size
                break
    return csr_array((shares, (rows, columns)), shape=(now.shape[1], before.shape[1]))


def _times(calendar: HourCalendar) -> NDArray[np.int64]:
    """Rows from the finest to the coarsest: weekday, kind of day, time of day."""
    clock = np.rint(calendar.hour * 12).astype(np.int64)
    return np.stack([calendar.weekday, calendar.weekend.astype(np.int64), clock])


def week(
    frame: Frame, past: Ground, totals: Margins, coming: Margins, area: csr_array, now: HourCalendar
) -> Week:
    """An earlier week from its own matrix, ground and totals, beside the totals of the coming one,
    whose shares are `area`."""
    slots = matching(now, past.calendar)
    total = float(past.places.sum())
    counts, variance = frame.matrix / frame.scale / total, np.square(frame.sd / frame.scale / total)
    gaps = np.asarray(slots.sum(axis=1)).ravel() == 0
    carried = np.asarray(variance @ slots.power(2).T)
    carried[:, gaps] = np.inf
    same = area.shape == past.area.shape and abs(area - past.area).max() == 0
    alike = _correlation(past.places / total, _shares(past.area, totals), _shares(area, coming))
    moved = np.asarray(counts @ slots.T)
    return Week(totals, bool(same), moved, carried, slots, past.activity, alike)


def _shares(area: csr_array, margins: Margins) -> tuple[Vector, Vector]:
    """Noisy shares of the released places in their total, and the variance of the noise."""
    noisy = np.asarray(area @ margins.places)
    square = np.asarray(area.power(2).sum(axis=1), dtype=np.float64).ravel()
    total = max(float(noisy.sum()), margins.places_sd)
    return noisy / total, square * (margins.places_sd / total) ** 2


def _correlation(usual: Vector, one: tuple[Vector, Vector], other: tuple[Vector, Vector]) -> float:
    """Of two weeks' place totals without their noise: half of what they differ by, over how far
    places differ. One where nobody can tell places apart."""
    weight = 1.0 / (usual + usual.mean())
    noise = one[1] + other[1]
    apart = float((weight * (np.square(one[0] - other[0]) - noise)).sum())
    middle = 0.5 * (one[0] + other[0])
    sizes = float((weight * (np.square(middle - middle.mean()) - noise / 4)).sum()) + apart / 4
    unsure = float(np.sqrt(2 * np.square(weight * noise / 4).sum()))
    return 1.0 - 0.5 * apart / sizes if sizes > _TOLD_APART * unsure else 1.0


def _likeliest(usual: Vector, away: Vector, noise: Vector) -> float:
    """Standard deviation of relative changes, by marginal likelihood."""
    total = np.maximum(np.square(np.outer(_CHANGES, usual)) + noise, 1e-300)
    score = -0.5 * (np.log(total) + np.square(away) / total).sum(axis=1)
    return float(_CHANGES[int(np.argmax(score))])


def shared_level(own: Activity, weeks: Sequence[Week]) -> Activity:
    """The level of this week, drawn towards that of the others as far as levels are alike.

    Logarithms of levels are normal around a common mean. How far they spread is not known: each
    spread counts by how likely it makes the levels found, and by a prior of a few per cent.
    """
    found = [np.log(one.activity.totals) for one in weeks if one.whole]
    if not found:
        return own
    level, error = np.array([[each.mean(), each.std()] for each in found]).T
    here = np.log(own.totals)
    belief = np.zeros(here.size)
    for spread in _LEVELS:
        variance = np.square(error) + spread**2
        precision = 1.0 / variance
        mean = float((precision * level).sum() / precision.sum())
        score = -0.5 * float((np.square(level - mean) / variance + np.log(variance)).sum())
        score -= 0.5 * math.log(precision.sum())
        score -= 0.5 * (math.log(spread / _LIKELY_LEVEL) / _SURE_OF_LEVEL) ** 2
        around = spread**2 + 1.0 / precision.sum()
        belief += np.exp(score - 0.5 * np.square(here - mean) / around) / math.sqrt(around)
    return own.weighted(belief)


def mean_margins(margins: Margins, weeks: Sequence[Week]) -> Margins:
    """Totals of all weeks averaged, at the level of the current one; its own ladder.

    A week that counted at other places says nothing of these, and one that lacks a slot is not
    averaged over slots: what they know of single cells is in their matrix.
    """
    places, places_sd = _mean(
        [(margins.places, margins.places_sd)]
        + [(one.margins.places, one.margins.places_sd) for one in weeks if one.counted_alike]
    )
    slots, slots_sd = _mean(
        [(margins.slots, margins.slots_sd)]
        + [(one.slots @ one.margins.slots, one.margins.slots_sd) for one in weeks if one.whole]
    )
    return replace(margins, places=places, places_sd=places_sd, slots=slots, slots_sd=slots_sd)


def _mean(totals: list[tuple[Vector, float]]) -> tuple[Vector, float]:
    """Weighted by precision, each at the level of the first."""
    level = float(totals[0][0].sum())
    factors = [
        level / max(float(one.sum()), 0.1 * level) if level > 0 else 1.0 for one, _ in totals
    ]
    precisions = [1.0 / np.square(sd * up) for (_, sd), up in zip(totals, factors, strict=True)]
    whole = float(sum(precisions))
    mean = sum(
        (p / whole * up * one for (one, _), up, p in zip(totals, factors, precisions, strict=True)),
        np.zeros_like(totals[0][0]),
    )
    return mean, whole**-0.5


def this_week(usual: Ground, margins: Margins, mean: Margins) -> Ground:
    """The ground of the mean, moved as far as this week's own totals differ from it."""
    rng = np.random.default_rng(_SEED)
    area = usual.area
    square = np.asarray(area.power(2).sum(axis=1), dtype=np.float64).ravel()
    up = float(usual.counted.sum() / max(float(mean.places.sum()), 1e-9))
    places = _moved(
        usual.places,
        usual.place_draws,
        np.asarray(area @ (margins.places - mean.places)) * up,
        square * (margins.places_sd**2 - mean.places_sd**2) * up**2,
        np.zeros(usual.places.size, dtype=np.int64),
        rng,
    )
    up = float(usual.slots.sum() / max(float(mean.slots.sum()), 1e-9))
    slots = _moved(
        usual.slots,
        usual.slot_draws,
        (margins.slots - mean.slots) * up,
        np.full(usual.slots.size, (margins.slots_sd**2 - mean.slots_sd**2) * up**2),
        usual.calendar.day,
        rng,
    )
    relative = np.sqrt(places.variance) / np.maximum(places.mean, 1e-9)
    # How much falls in the released places may have changed; the level of the draws has not.
    inside = float(places.mean.sum() / usual.places.sum())
    sums = usual.place_draws.sum(axis=1, keepdims=True) * inside
    return replace(
        usual,
        places=places.mean,
        place_draws=places.draws * (sums / places.draws.sum(axis=1, keepdims=True)),
        slots=slots.mean * (usual.slots.sum() * inside / slots.mean.sum()),
        slot_draws=slots.draws * (sums / slots.draws.sum(axis=1, keepdims=True)),
        spread=np.hypot(usual.spread, relative),
        slots_sd=float(np.sqrt(usual.slots_sd**2 + slots.variance.mean())),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Moved:
    mean: Vector
    draws: Table
    variance: Vector
    """Of the difference from the mean of the weeks."""


def _moved(
    usual: Vector,
    draws: Table,
    away: Vector,
    noise: Vector,
    group: NDArray[np.int64],
    rng: np.random.Generator,
) -> _Moved:
    """Totals with the part of `away` that is more than noise; relative changes in a group are
    draws of one normal law, whose spread is the likeliest."""
    signal = np.zeros(usual.size)
    for one in np.unique(group):
        rows = group == one
        signal[rows] = np.square(_likeliest(usual[rows], away[rows], noise[rows]) * usual[rows])
    gain = signal / np.maximum(signal + noise, 1e-300)
    variance = gain * noise
    half = rng.standard_normal((PAIRS, usual.size)) * np.sqrt(variance)
    shift = gain * away
    moved = np.maximum(usual + shift, _LEAST * usual)
    drawn = np.maximum(draws + shift + np.concatenate((half, -half)), _LEAST * draws)
    return _Moved(moved, drawn, variance)


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """Earlier weeks, and the product of the margins that all weeks have on average."""

    weeks: tuple[Week, ...]
    usual: Table

    def split(self, frame: Frame, field: Table) -> tuple[Frame, Frame]:
        """The mean of the weeks less its field, and what this week differs by less the difference
        of the fields, each on a scale of its own on which its noise is the same everywhere."""
        total = float(self.usual.sum())
        own, noisy = np.square(frame.sd / frame.scale), frame.matrix / frame.scale
        precision, mean = 1.0 / own, noisy / own
        for one in self.weeks:
            variance, counts = one.variance * total**2, one.counts * total
            known = np.isfinite(variance) & (
                np.abs(counts - noisy) < _CROWD * np.sqrt(variance + own)
            )
            weight = np.where(known, 1.0 / variance, 0.0)
            precision = precision + weight
            mean = mean + np.where(known, counts, 0.0) * weight
        variance = 1.0 / precision
        mean = mean * variance
        left = own - variance
        known = left > _NEGLIGIBLE * own
        sharper = frame.sd * float(np.sqrt((variance / own).mean()))
        scale = sharper / np.sqrt(variance)
        common = Frame(scale * (mean - self.usual), scale, sharper)
        scale = frame.sd / np.sqrt(np.where(known, left, _NEGLIGIBLE * own))
        away = noisy - mean - (field - self.usual)
        return common, Frame(np.where(known, scale * away, 0.0), scale, frame.sd)
