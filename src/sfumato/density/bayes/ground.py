"""Where the reading starts: the level from the ladder, and the totals of places and of slots.

The margins are totals of bounded people. Brought to the level of the ladder they are cleaned by
laws of their sizes (`refine.levels`) and drawn with the level. Their product is the prior mean of
the table, and says how the matrix is to be weighted. Post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.density.bayes.ladder import Activity
from sfumato.density.bayes.measured import Margins
from sfumato.density.refine.levels import level_posterior, levels_of_day
from sfumato.density.refine.margins import PLACE_FLOOR, SLOT_FLOOR
from sfumato.model.time_grid import HourCalendar

PAIRS = 32
"""Pairs of draws."""
_UNEVEN, _OF_FEW, _MOST_UNEVEN = 0.04, 0.1, 0.5
"""What the bound took from a place is not known. Active people are not spread evenly: relative
error for each unit of weight taken away. And a place may by chance have some of the few from whom
much was taken: their part of the variance as if everybody was at one place. At most so much."""
_LEAST_KEPT = 0.05
"""Least share of the total that a bounded margin is taken to hold, whatever noise says."""
_SEED = 20170403

Table = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Cleaned margins of the released places, and what every later layer needs."""

    activity: Activity
    counted: Vector
    """Totals of the counted places, scaled to the grand total and floored."""
    places: Vector
    slots: Vector
    """Slot totals of what falls in the released places."""
    spread: Vector
    """Relative standard deviation of each place total after cleaning."""
    slots_sd: float
    """Standard deviation of the noise of a slot total."""
    place_draws: Table
    """Draws x places, their sums draws of the level; pairs k and k + PAIRS lie opposite."""
    slot_draws: Table
    dilution: Vector
    """Variance of a released count over its mean where visits are independent: 1 for whole
    places, less where a count is gathered from shares of several."""
    calendar: HourCalendar
    centres: NDArray[np.float64]
    area: csr_array
    place_limit: float

    @property
    def field(self) -> Table:
        """The product of the margins."""
        return self.field_of(slice(None))

    def field_of(self, rows: slice) -> Table:
        """The same for some of the places."""
        result: Table = self.places[rows][:, None] * (self.slots / self.slots.sum())[None, :]
        return result


def prepare(
    margins: Margins,
    activity: Activity,
    area: csr_array,
    centres: NDArray[np.float64],
    starts: list[datetime],
    ends: list[datetime],
) -> Ground:
    """Clean the margins. `area` is released x counted."""
    calendar = HourCalendar.of(starts, ends)
    rng = np.random.default_rng(_SEED)
    total = max(activity.total, 1.0)
    bounded = max(float(margins.places.sum()), _LEAST_KEPT * total)
    up = total / bounded
    noisy = np.asarray(area @ margins.places) * up
    square = np.asarray(area.power(2).sum(axis=1)).ravel()
    variance = np.square(margins.places_sd * up) * square
    each = max(float(noisy.mean()), _LEAST_KEPT * total / noisy.size)
    places = level_posterior(noisy, variance, np.full(noisy.size, each))
    # What falls into the released places; a sum of cleaned totals would say how they were cleaned.
    positive = np.maximum(margins.places, 0.0)
    within = float(np.asarray(area @ positive).sum()) / max(float(positive.sum()), 1e-9)
    inside = min(max(within, _LEAST_KEPT), 1.0)
    taken = 1.0 - min(bounded / total, 1.0)
    uneven = _unevenness(activity, margins.place_limit, taken, places.mean)
    opposite = np.sort(activity.stratified(2 * PAIRS))
    order = rng.permutation(PAIRS)
    totals = np.concatenate((opposite[:PAIRS][order], opposite[::-1][:PAIRS][order])) * inside
    place_draws = places.draw(_uniform(rng, places.mean.size))
    place_draws *= np.exp(uneven * _normal(rng, places.mean.size))
    place_draws *= (totals / place_draws.sum(axis=1))[:, None]
    slots, slot_draws = _slots(margins, total, calendar, rng)
    slot_draws *= (totals / slot_draws.sum(axis=1))[:, None]
    counted = np.maximum(margins.places * up, PLACE_FLOOR * total / margins.places.size)
    cleaned = places.mean * (total * inside / places.mean.sum())
    gathered = np.asarray(area @ counted)
    return Ground(
        activity=activity,
        counted=counted,
        places=cleaned,
        slots=slots * inside,
        spread=np.hypot(places.sd / np.maximum(places.mean, 1e-9), uneven),
        slots_sd=margins.slots_sd
        * (total / max(float(margins.slots.sum()), _LEAST_KEPT * total))
        * inside,
        place_draws=place_draws,
        slot_draws=slot_draws,
        dilution=np.asarray(area.power(2) @ counted) / np.maximum(gathered, 1e-9),
        calendar=calendar,
        centres=centres,
        area=area,
        place_limit=margins.place_limit,
    )


def _unevenness(activity: Activity, limit: float, taken: float, places: Vector) -> Vector:
    """Relative error of each place's total for not knowing what the bound took there."""
    square = np.square(_UNEVEN * taken) + of_few(activity, limit) / np.maximum(places, 1e-9)
    found: Vector = np.minimum(np.sqrt(square), _MOST_UNEVEN)
    return found


def of_few(activity: Activity, limit: float) -> float:
    """Variance of a place's total for the few from whom much was taken, over that total."""
    lost = np.square(np.maximum(activity.levels - limit, 0.0))
    return _OF_FEW * float(activity.shares @ lost) / activity.visits


def _uniform(rng: np.random.Generator, size: int) -> Table:
    """Numbers between 0 and 1 in opposite pairs, draws x size."""
    half = rng.uniform(size=(PAIRS, size))
    return np.concatenate((half, 1.0 - half))


def _normal(rng: np.random.Generator, size: int) -> Table:
    half = rng.standard_normal((PAIRS, size))
    return np.concatenate((half, -half))


def _slots(
    margins: Margins, total: float, calendar: HourCalendar, rng: np.random.Generator
) -> tuple[Vector, Table]:
    """Slot totals and draws of them: levels around those of the same time on like days, which are
    levels around their mean."""
    up = total / max(float(margins.slots.sum()), _LEAST_KEPT * total)
    noisy, variance = margins.slots * up, float(np.square(margins.slots_sd * up))
    floor = SLOT_FLOOR * total / noisy.size
    group = calendar.same_time_of_day
    first = np.unique(group, return_index=True)[1]
    size = np.bincount(group).astype(np.float64)
    usual = levels_of_day(
        np.bincount(group, noisy) / size,
        variance / size,
        calendar.hour[first],
        calendar.weekend[first].astype(np.float64),
    )
    expected = np.maximum(usual.mean, floor)[group]
    around = (usual.draw(_normal(rng, size.size)) / usual.mean)[:, group]
    levels = level_posterior(noisy, np.full(noisy.size, variance), expected)
    draws = levels.draw(_uniform(rng, noisy.size))
    # A slot that follows its time of day shares the error of that; one that was seen does not.
    own = levels.spread**2 / (levels.spread**2 + variance / np.square(expected))
    draws *= around ** (1.0 - own)
    scale = total / float(levels.mean.sum())
    return np.maximum(levels.mean * scale, floor), np.maximum(draws * scale, floor)


def matrix_weights(ground: Ground) -> Table:
    """b: the inverse square root of the margins' field, scaled so that a visit counts one.

    A cell's signal then has about the size of its own chance variation everywhere, and the
    budget is spent where there is something to see.
    """
    level = np.maximum(ground.slots / ground.slots.sum(), 1e-3 / ground.slots.size)
    # Where noise is all there is, no power of a total may explode.
    places = np.maximum(ground.places, PLACE_FLOOR * float(ground.places.mean()))
    weights = np.sqrt(places.mean() / places)[:, None] / np.sqrt(ground.slots.size * level)
    norms = np.sqrt(np.asarray(ground.area.power(2).T @ np.square(weights)))
    visits = ground.counted[:, None] * level[None, :]
    result: Table = weights / (float((visits * norms).sum()) / float(visits.sum()))
    return result
