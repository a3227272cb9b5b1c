"""From noisy margins and a noisy matrix to a density and its intervals. Post-processing.

The matrix was weighted so that its noise is the same everywhere and an average visit counts
one. In that frame the density is read in layers, each estimated from what the one before
left over and each switched off where it is indistinguishable from noise:

1. the field of the margins (place total times slot total, shaped by earlier releases where
   there are any), the prior mean;
2. known rhythms of the calendar, each a field over places, filtered in space;
3. unknown rhythms that many places share, by singular values, filtered in space;
4. the rest of each place, filtered in time.

Then back: divide by the weights, keep it positive, temper one-off crowds, and agree with the
margins.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtri

from sfumato.density.bayes.clipping import Distortion, Weighting, find_distortion
from sfumato.density.refine.margins import PLACE_FLOOR, clean_places, clean_slots, rake
from sfumato.density.refine.spatial import SpatialFilter
from sfumato.density.refine.special_hours import pool_nights, temper_crowds
from sfumato.density.refine.temporal import components, effective_noise, rhythm_basis, wiener
from sfumato.model.time_grid import HourCalendar

_LEVEL_SPREAD, _LEAST_LEVEL = 0.3, 0.2
"""How far the weight that the bound leaves may lie from what was expected of it, and its least
value. With a few hundred people the least-squares level can come out near zero, and everything is
divided by it (docs/decisions/bayes.md, "Weak signals")."""

Table = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """Noisy totals of counted places and of slots, their noise, and the grand total if any."""

    places: Vector
    places_sd: float
    slots: Vector
    slots_sd: float
    total: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Cleaned margins of the released places, and what every later layer needs."""

    counted: Vector
    """Totals of the counted places, scaled to the grand total and floored."""
    places: Vector
    slots: Vector
    """Slot totals of what falls in the released places."""
    spread: Vector
    """Relative standard deviation of each place total after cleaning."""
    slots_sd: float
    """Standard deviation of the noise of a slot total."""
    dilution: Vector
    """Variance of a released count over its mean where visits are independent: 1 for whole
    places, less where a count is gathered from shares of several."""
    calendar: HourCalendar
    centres: NDArray[np.float64]
    expected: Table | None = None
    """What earlier releases say of each cell, up to a common factor."""

    @property
    def field(self) -> Table:
        """The product of the margins, or earlier releases brought to the margins."""
        columns = self.slots * (self.places.sum() / self.slots.sum())
        if self.expected is not None:
            level = self.places.sum() / self.expected.sum()
            return rake(self.expected * level, self.places, columns)
        result: Table = self.places[:, None] * (columns / columns.sum())[None, :]
        return result


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Estimated density, the standard deviation of its error, and what the bound distorted."""

    mean: Table
    sd: Table
    distortion: Distortion

    def interval(self, coverage: float) -> tuple[Table, Table]:
        """Central interval of that probability, cut at zero."""
        half = float(ndtri(0.5 + coverage / 2)) * self.sd
        return np.maximum(self.mean - half, 0.0), self.mean + half


def prepare(
    margins: Margins,
    area: csr_array,
    centres: NDArray[np.float64],
    starts: list[datetime],
    ends: list[datetime],
    expected: Table | None = None,
) -> Ground:
    """Clean the margins. `area` is released x counted."""
    calendar = HourCalendar.of(starts, ends)
    total = margins.total if margins.total is not None else _pooled_total(margins)
    total = max(total, 1.0)
    up = total / max(float(margins.places.sum()), 1.0)
    noisy = np.asarray(area @ margins.places) * up
    square = np.asarray(area.power(2).sum(axis=1)).ravel()
    variance = np.square(margins.places_sd * up) * square
    before: list[Vector | None] = [None, None]
    if expected is not None:
        before = [expected.sum(axis=axis) / expected.sum() for axis in (1, 0)]
    cleaned = clean_places(noisy, float(variance.mean()), SpatialFilter(centres), before[0])
    # Where noise is all there is, a mean near zero must not let a power of a total explode.
    cleaned = np.maximum(cleaned, PLACE_FLOOR * max(float(cleaned.mean()), total / cleaned.size))
    counted = np.maximum(margins.places * up, PLACE_FLOOR * total / margins.places.size)
    inside = float(cleaned.sum()) / total
    up_slots = total / max(float(margins.slots.sum()), 1.0)
    slots = clean_slots(
        margins.slots * up_slots,
        float(np.square(margins.slots_sd * up_slots)),
        calendar,
        before[1],
    )
    gathered = np.asarray(area @ counted)
    return Ground(
        counted=counted,
        places=cleaned,
        slots=slots * inside,
        spread=np.sqrt(variance) / np.maximum(cleaned, 1e-9),
        slots_sd=margins.slots_sd * up_slots * inside,
        dilution=np.asarray(area.power(2) @ counted) / np.maximum(gathered, 1e-9),
        calendar=calendar,
        centres=centres,
        expected=expected,
    )


def _pooled_total(margins: Margins) -> float:
    """The grand total from both margins' sums, weighted by their noise."""
    places = 1.0 / (margins.places.size * margins.places_sd**2 + 1e-9)
    slots = 1.0 / (margins.slots.size * margins.slots_sd**2 + 1e-9)
    both = float(margins.places.sum()) * places + float(margins.slots.sum()) * slots
    return both / (places + slots)


def matrix_weights(ground: Ground, area: csr_array) -> Table:
    """b: the inverse square root of the margins' field, scaled so that a visit counts one.

    A cell's signal then has about the size of its own chance variation everywhere, and the
    budget is spent where there is something to see.
    """
    level = np.maximum(ground.slots / ground.slots.sum(), 1e-3 / ground.slots.size)
    weights = np.sqrt(ground.places.mean() / ground.places)[:, None] / np.sqrt(
        ground.slots.size * level
    )
    norms = np.sqrt(np.asarray(area.power(2).T @ np.square(weights)))
    visits = ground.counted[:, None] * level[None, :]
    result: Table = weights / (float((visits * norms).sum()) / float(visits.sum()))
    return result


def infer(
    ground: Ground,
    matrix: Table,
    weights: Table,
    weighting: Weighting,
    sigma: float,
    *,
    rich: bool,
    pooled: bool,
    clipping_error: float,
    caution: float,
) -> Posterior:
    """The density behind a noisy matrix. `rich` adds the layer that needs a strong signal,
    `pooled` mixes the maps of the small hours, which a weak one needs;
    `clipping_error` is the relative error the bound itself is expected to leave, `caution` the
    factor between posterior and actual deviation."""
    scale, field = weights * weighting.of_visits, ground.field
    prior = scale * field
    level = _level(matrix, prior, sigma)
    distortion = find_distortion(matrix, level * prior, sigma, ground.spread, weighting.leak)
    rest = matrix - level * prior
    size = np.sqrt(ground.places / ground.places.mean())
    places = SpatialFilter(ground.centres, size)
    envelope = np.sqrt(ground.slots / ground.slots.mean())
    layers, variance, basis = _rhythms(rest, sigma, places, ground.calendar, envelope)
    rest = rest - (rest @ basis) @ basis.T
    noise = max(sigma, effective_noise(rest, rest.shape[1] - basis.shape[1]))
    free = rest.shape[1] - basis.shape[1]
    left, values, right = components(rest, noise, free)
    for k in range(values.size):
        factor = places.apply(left[:, k] * values[k], _chosen(sigma, free, rest.shape[0]))
        layers += factor.mean[:, None] * right[:, k]
        variance += factor.variance[:, None] * np.square(right[:, k])
    rest = rest - (left * values) @ right.T
    white = 0.0
    if rich:
        removed = np.column_stack((basis, right))
        smoothed = wiener(rest, sigma**2, ground.calendar, removed, places.apply)
        layers += smoothed.mean
        variance += smoothed.variance
        white = float(smoothed.mixture[-1])
    scale = scale * level
    # Kept positive: raking and shares are of a positive table.
    table = np.maximum((level * prior + layers) / scale, 0.02 * field)
    table *= ground.places.sum() / table.sum()
    crowds = temper_crowds(
        table,
        _deviation(ground, table, scale, variance, sigma, white),
        (ground.places, ground.places * ground.spread),
        (ground.slots, np.full(ground.slots.size, ground.slots_sd)),
        ground.calendar,
        weighting.of_visits / weighting.of_people,
    )
    table = rake(
        crowds.table, ground.places, ground.slots * (ground.places.sum() / ground.slots.sum())
    )
    if pooled:
        table = pool_nights(table, ground.calendar)
    sd = caution * _deviation(ground, table, scale, variance, sigma, white)
    clipped = max(clipping_error, distortion.left) * table
    return Posterior(table, np.sqrt(sd**2 + clipped**2 + crowds.sd**2), distortion)


def _level(matrix: Table, prior: Table, sigma: float) -> float:
    """How much of the expected matrix is there: about one, and so far as noise lets it be seen.

    The posterior mean under a normal prior around one; never near zero or below, whatever the
    noise says of a handful of people.
    """
    power = float(np.square(prior).sum())
    seen, weight = float((matrix * prior).sum()), float(np.square(_LEVEL_SPREAD / sigma))
    return max((1.0 + weight * seen) / (1.0 + weight * power), _LEAST_LEVEL)


def _chosen(sigma: float, axes: int, places: int) -> float:
    """Noise variance along an axis that was chosen where noisy numbers are largest.

    Among that many axes the largest carries up to (1 + sqrt(axes / places))^2 of the noise
    (Marchenko & Pastur 1967). Taking it for signal made small cities a fifth worse.
    """
    return float((sigma * (1 + np.sqrt(axes / places))) ** 2)


def _rhythms(
    rest: Table, sigma: float, places: SpatialFilter, calendar: HourCalendar, envelope: Vector
) -> tuple[Table, Table, Table]:
    """Known rhythms on their principal axes: estimate, variance and the basis used.

    Axes are chosen where the noisy strengths are largest, so they carry more than their part of
    the noise.
    """
    basis = rhythm_basis(calendar, envelope)
    strength = rest @ basis
    noise = _chosen(sigma, basis.shape[1], rest.shape[0])
    if basis.shape[1]:
        axes = np.linalg.svd(strength, full_matrices=False)[2]
        basis = basis @ axes.T
        strength = rest @ basis
    layers, variance = np.zeros(rest.shape), np.zeros(rest.shape)
    for k in range(basis.shape[1]):
        field = places.apply(strength[:, k], noise)
        layers += field.mean[:, None] * basis[:, k]
        variance += field.variance[:, None] * np.square(basis[:, k])
    return layers, variance, basis


def _deviation(
    ground: Ground, table: Table, scale: Table, variance: Table, sigma: float, white: float
) -> Table:
    """Standard deviation of the error of each cell, in counts.

    The layers' posterior variance; the chance variation of a count that no smooth layer can
    know (independent visits), less the part that was seen; the margins' own error.
    """
    seen = white / (white + sigma**2)
    chance = table * ground.dilution[:, None]
    unseen = np.maximum(chance - white / np.square(scale), 0.0) * (1 - seen) ** 2
    margins = np.square(table) * np.square(ground.spread)[:, None]
    result: Table = np.sqrt(variance / np.square(scale) + unseen + margins)
    return result
