"""From noisy margins and a noisy matrix to the posterior of a density. Post-processing.

The ladder gives the level, with its uncertainty. The matrix was weighted so that its noise is the
same everywhere and an average visit counts one. In that frame the density is read in layers, each
estimated from what the one before left over and each switched off where it is
indistinguishable from noise:

0. one-off crowds, found by a scan and set apart, from the margins too;
1. the field of the margins (place total times slot total), the prior mean;
2. rhythms that cities are known to have, each a field over places, filtered in space;
3. unknown rhythms that many places share, by singular values, filtered in space;
4. the rest of each place, filtered in time.

Then back: divide by the weights, keep it positive, temper what the layers took of crowds that the
scan left, agree with the margins, and put the crowds on top. Each draw of the posterior goes that
way: a draw of the level, of the totals of places and of slots, of every layer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.density.bayes.clipping import (
    Distortion,
    Weighting,
    expected_weighting,
    find_distortion,
    margin_leak,
)
from sfumato.density.bayes.crowd_counts import set_apart
from sfumato.density.bayes.ground import PAIRS, Ground, of_few
from sfumato.density.bayes.measured import Measured
from sfumato.density.bayes.rhythms import rhythm_axes
from sfumato.density.draws import Draws, mean_of, room_for
from sfumato.density.posterior import Posterior, Taken
from sfumato.density.refine.margins import rake
from sfumato.density.refine.spatial import Filtered, SpatialFilter
from sfumato.density.refine.special_hours import NIGHT_END, OWN, pool_nights, temper_crowds
from sfumato.density.refine.temporal import components, effective_noise, wiener
from sfumato.model.time_grid import HourCalendar

if TYPE_CHECKING:
    from sfumato.density.bayes.memory import Memory

_LEVEL_SPREAD, _LEAST_LEVEL = 0.3, 0.2
"""How far the weight that the bound leaves may lie from what was expected of it, and its least
value. With a few hundred people the least-squares level can come out near zero, and everything is
divided by it (docs/decisions/bayes.md, "Weak signals")."""
_SIZE = 0.8
"""Strength of a place's own rhythm grows with this power of its size. A half would be the same
relative strength everywhere; stations and centres differ more from the city than homes do."""
_SEED = 20170403

Table = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A noisy table: counts times `scale`, with noise of standard deviation `sd` everywhere."""

    matrix: Table
    scale: Table
    sd: float


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """What was found in a table of leftovers, in counts, with the variance and draws of its error
    and the variance of chance among it."""

    mean: Table
    variance: Table
    errors: Draws
    white: Table
    seen: float
    """Share of a cell's own chance that was taken from its noisy number."""


def frame_of(ground: Ground, measured: Measured) -> tuple[Frame, Weighting]:
    """The matrix on its scale: weights, what the bound leaves of a visit, and the level of that."""
    weighting = cell_weighting(ground, measured)
    scale = measured.weights * weighting.of_visits
    level = _level(measured.matrix, scale * ground.field, measured.matrix_sd)
    return Frame(measured.matrix, scale * level, measured.matrix_sd), weighting


def infer(
    ground: Ground,
    measured: Measured,
    *,
    rich: bool,
    pooled: bool,
    memory: Memory | None = None,
) -> tuple[Posterior, Distortion]:
    """The density behind a noisy matrix. `rich` adds the layer that needs a strong signal,
    `pooled` mixes the maps of the small hours, which a weak one needs; `memory` are other weeks."""
    rng = np.random.default_rng(_SEED + 1)
    frame, weighting = frame_of(ground, measured)
    apart = set_apart(ground, frame.matrix, frame.scale, frame.sd, weighting)
    if apart.cells[0].size:
        ground = apart.ground
        frame, weighting = frame_of(ground, replace(measured, matrix=apart.matrix))
    field, scale = ground.field, frame.scale
    distortion = find_distortion(
        frame.matrix, scale * field, frame.sd, ground.spread, weighting.leak
    )
    size = (ground.places / ground.places.mean()) ** _SIZE
    places = SpatialFilter(ground.centres, size / np.sqrt(np.square(size).mean()))
    common, change = Frame(frame.matrix - scale * field, scale, frame.sd), None
    if memory is not None:
        common, change = memory.split(frame, field)
    power = float(np.square(common.scale * field).sum()) / field.shape[0]
    found = _layers(common, ground, places, rng, rich, power)
    if change is not None:
        found = _both(found, _layers(change, ground, places, rng, rich, None))
    centre = field + found.mean
    # Kept positive: raking and shares are of a positive table.
    table = _at_level(np.maximum(centre, 0.02 * field), ground.places)
    crowds = temper_crowds(
        table,
        _deviation(ground, table, found),
        (ground.places, ground.places * ground.spread),
        (ground.slots, np.full(ground.slots.size, ground.slots_sd)),
        ground.calendar,
        weighting.of_visits / weighting.of_people,
    )
    tempered = crowds.table / np.maximum(table, 1e-300)
    draws = room_for(2 * PAIRS, (field.shape[0], field.shape[1]))
    for k in range(2 * PAIRS):
        error = found.errors[k % PAIRS]
        one = np.maximum(centre + (error if k < PAIRS else -error), 0.02 * field)
        one = _at_level(one, ground.places) * tempered
        if crowds.found.any():
            one[crowds.found] += (crowds.sd * rng.standard_normal(field.shape))[crowds.found]
            one = np.maximum(one, 0.02 * field)
        one = rake(one, ground.place_draws[k], ground.slot_draws[k])
        one = (pool_nights(one, ground.calendar) if pooled else one).astype(np.float32)
        one[apart.cells] += apart.draws[k]
        draws[k] = one
    chance = _unseen(ground, mean_of(draws), found, pooled)
    posterior = Posterior(draws, chance, ground.dilution, ground.area, _taken(ground, measured))
    return posterior, distortion


def _taken(ground: Ground, measured: Measured) -> Taken:
    """Shares of all visits that are missing from the bounded margins."""
    total, margins = max(ground.activity.total, 1.0), measured.margins
    missing = [1.0 - float(bounded.sum()) / total for bounded in (margins.places, margins.slots)]
    places, slots = (min(max(share, 0.0), 1.0) for share in missing)
    people = ground.activity.total / max(ground.activity.visits, 1e-9)
    few = of_few(ground.activity, margins.place_limit)
    hour, day = ground.calendar.hour, ground.calendar.day
    return Taken(places, slots, people, ground.centres, hour, few, total, day)


def _layers(
    frame: Frame,
    ground: Ground,
    places: SpatialFilter,
    rng: np.random.Generator,
    rich: bool,
    power: float | None,
) -> Layers:
    """Rhythms, components and what time shares, each from what the ones before left over.

    `power` is that of a place in the table that these are leftovers of; none where nothing is
    expected of them.
    """
    rest, sigma = frame.matrix, frame.sd
    envelope = np.sqrt(ground.slots / ground.slots.mean())
    fields, basis = _rhythms(rest, sigma, places, ground.calendar, envelope, power)
    rest = rest - (rest @ basis) @ basis.T
    noise = max(sigma, effective_noise(rest, rest.shape[1] - basis.shape[1]))
    free = rest.shape[1] - basis.shape[1]
    left, values, right = components(rest, noise, free)
    chosen = _chosen(sigma, free, rest.shape[0])
    fields += [places.apply(left[:, k] * values[k], chosen) for k in range(values.size)]
    rest = rest - (left * values) @ right.T
    removed = np.column_stack((basis, right))
    layers = np.column_stack([field.mean for field in fields]) @ removed.T if fields else 0.0 * rest
    variance = (
        np.column_stack([field.variance for field in fields]) @ np.square(removed).T
        if fields
        else 0.0 * rest
    )
    errors = _errors_of(fields, removed, rng, (rest.shape[0], rest.shape[1]))
    scale, white = frame.scale.astype(np.float32), 0.0
    if rich:
        counted = np.square(frame.scale) * ground.field * ground.dilution[:, None]
        chance = float(counted.mean()) if power is not None else 0.0
        smoothed = wiener(rest, sigma**2, ground.calendar, removed, places.apply, chance)
        layers += smoothed.mean
        variance += smoothed.variance
        for pair, error in enumerate(smoothed.errors(rng, PAIRS)):
            errors[pair] = errors[pair] + error.astype(np.float32)
        white = float(smoothed.mixture[-1])
    square = np.square(frame.scale)
    for pair in range(PAIRS):
        errors[pair] = errors[pair] / scale
    return Layers(
        layers / frame.scale, variance / square, errors, white / square, white / (white + sigma**2)
    )


def _both(common: Layers, change: Layers) -> Layers:
    """What weeks share and what this one differs by: errors of the two are independent."""
    for pair in range(PAIRS):
        common.errors[pair] = common.errors[pair] + change.errors[pair]
    return Layers(
        common.mean + change.mean,
        common.variance + change.variance,
        common.errors,
        common.white + change.white,
        min(common.seen, change.seen),
    )


def cell_weighting(ground: Ground, measured: Measured) -> Weighting:
    """What the limit of the matrix is expected to do in each released cell."""
    area, activity = ground.area, ground.activity
    norms = np.sqrt(np.asarray(area.power(2).T @ np.square(measured.weights)))
    rough = ground.counted[:, None] * (ground.slots / ground.slots.sum())[None, :]
    counted = expected_weighting(norms, rough, measured.matrix_limit, activity)
    gathered = np.maximum(np.asarray(area @ ground.counted), 1e-9)[:, None]

    def released(weight: Table) -> Table:
        found: Table = np.asarray(area @ (ground.counted[:, None] * weight)) / gathered
        return np.where(found > 0, found, float(weight.mean()))

    return Weighting(
        released(counted.of_visits),
        released(counted.of_people),
        margin_leak(ground.place_limit, activity, float(counted.of_visits.mean())),
    )


def _errors_of(
    fields: list[Filtered], basis: Table, rng: np.random.Generator, shape: tuple[int, int]
) -> Draws:
    """Draws of what is not known of the fields: pairs x places x slots."""
    found = room_for(PAIRS, shape)
    drawn = [field.errors(rng, PAIRS) for field in fields]
    each = np.stack(drawn, axis=2).astype(np.float32) if drawn else np.zeros((shape[0], PAIRS, 0))
    low = basis.T.astype(np.float32)
    for pair in range(PAIRS):
        found[pair] = each[:, pair] @ low if drawn else np.zeros(shape)
    return found


def _at_level(table: Table, places: Vector) -> Table:
    result: Table = table * (float(places.sum()) / float(table.sum()))
    return result


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
    rest: Table,
    sigma: float,
    places: SpatialFilter,
    calendar: HourCalendar,
    envelope: Vector,
    power: float | None,
) -> tuple[list[Filtered], Table]:
    """Rhythms on their axes: a field each, and the basis used.

    Where none are expected, nothing but the field itself says how strong it is, and axes between
    which nothing decides lie where the noise is largest: they are then held for chosen by it.
    """
    axes = rhythm_axes(rest, sigma, calendar, envelope, power)
    chosen = _chosen(sigma, axes.basis.shape[1], rest.shape[0])
    fields = [
        places.apply(strength, chosen)
        if power is None
        else places.apply(strength, float(noise), float(signal))
        for strength, noise, signal in zip(
            (rest @ axes.basis).T, axes.noise, axes.expected, strict=True
        )
    ]
    return fields, axes.basis


def _unseen(ground: Ground, table: Table, found: Layers, pooled: bool) -> Table:
    """Variance of chance (independent visits) that no layer can know, less what was seen of it.

    Where small hours were pooled over days, each of them was seen only as far as it kept its own
    map.
    """
    chance = table * ground.dilution[:, None]
    result: Table = np.maximum(chance - found.white, 0.0) * (1 - found.seen) ** 2
    if pooled:
        night = ground.calendar.hour < NIGHT_END
        result[:, night] = chance[:, night] * (1 - OWN * found.seen) ** 2
    return result


def _deviation(ground: Ground, table: Table, found: Layers) -> Table:
    """Rough standard deviation of the error of each cell, in counts, before there are draws."""
    margins = np.square(table) * np.square(ground.spread)[:, None]
    result: Table = np.sqrt(found.variance + _unseen(ground, table, found, pooled=False) + margins)
    return result
