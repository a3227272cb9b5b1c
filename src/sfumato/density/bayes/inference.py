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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.density.bayes.clipping import (
    Distortion,
    Weighting,
    expected_weighting,
    find_distortion,
    margin_leak,
    typical_square,
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
from sfumato.model.tiles import beside, tiles
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
_NOTHING = np.zeros((0, 0))
_LEAST_SHARE = 0.02
"""Of the field of the margins that a cell keeps at least."""

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
    white: NDArray[np.floating[Any]]
    seen: float
    """Share of a cell's own chance that was taken from its noisy number."""


def frame_of(ground: Ground, measured: Measured) -> tuple[Frame, Weighting]:
    """The matrix on its scale: weights, what the bound leaves of a visit, and the level of that."""
    weighting = cell_weighting(ground, measured)
    scale = measured.weights * weighting.of_visits
    scale *= _level(measured.matrix, scale, ground, measured.matrix_sd)
    return Frame(measured.matrix, scale, measured.matrix_sd), weighting


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
    distortion = find_distortion(
        frame.matrix, frame.scale * ground.field, frame.sd, ground.spread, weighting.leak
    )
    size = (ground.places / ground.places.mean()) ** _SIZE
    places = SpatialFilter(ground.centres, size / np.sqrt(np.square(size).mean()))
    found = _found(frame, ground, places, rng, rich, memory)
    shape, parts = frame.scale.shape, tiles(frame.scale.shape)
    del frame
    centre, table = found.mean, np.empty(shape)  # counts, from here on: the layers are used up
    for rows in parts:
        field = ground.field_of(rows)
        centre[rows] += field
        # Kept positive: raking and shares are of a positive table.
        np.maximum(centre[rows], _LEAST_SHARE * field, out=table[rows])
    _to_level(table, ground.places)
    crowds = temper_crowds(
        table,
        _deviation(ground, table, found),
        (ground.places, ground.places * ground.spread),
        (ground.slots, np.full(ground.slots.size, ground.slots_sd)),
        ground.calendar,
        weighting.thinnest,
    )
    tempered = None
    if crowds.found.any():
        tempered = crowds.table / np.maximum(table, 1e-300)
    found = replace(found, mean=_NOTHING, variance=_NOTHING)
    del weighting
    draws = room_for(2 * PAIRS, (shape[0], shape[1]))
    one = table  # every draw is made in the same place: a fresh table costs more than its numbers
    for k in range(2 * PAIRS):
        error = found.errors[k % PAIRS]
        for rows in parts:
            (np.add if k < PAIRS else np.subtract)(centre[rows], error[rows], out=one[rows])
            np.maximum(one[rows], _LEAST_SHARE * ground.field_of(rows), out=one[rows])
        _to_level(one, ground.places)
        if tempered is not None:
            one *= tempered
            one[crowds.found] += (crowds.sd * rng.standard_normal(shape))[crowds.found]
            np.maximum(one, _LEAST_SHARE * ground.field, out=one)
        rake(one, ground.place_draws[k], ground.slot_draws[k], out=one)
        if pooled:
            pool_nights(one, ground.calendar, out=one)
        drawn = one.astype(np.float32)
        drawn[apart.cells] += apart.draws[k]
        draws[k] = drawn
    del table, one, centre
    chance = _unseen(ground, mean_of(draws), found, pooled)
    posterior = Posterior(draws, chance, ground.dilution, ground.area, _taken(ground, measured))
    return posterior, distortion


def _found(
    frame: Frame,
    ground: Ground,
    places: SpatialFilter,
    rng: np.random.Generator,
    rich: bool,
    memory: Memory | None,
) -> Layers:
    """The layers of what the margins do not explain; with other weeks, of these and of this one."""
    if memory is None:
        rest, power = np.empty(frame.matrix.shape), 0.0
        for rows in tiles(rest.shape):
            expected = frame.scale[rows] * ground.field_of(rows)
            np.subtract(frame.matrix[rows], expected, out=rest[rows])
            power += float(np.square(expected).sum())
        common = Frame(rest, frame.scale, frame.sd)
        del rest
        return _layers(common, ground, places, rng, rich, power / frame.matrix.shape[0])
    field = ground.field
    common, change = memory.split(frame, field)
    power = float(np.square(common.scale * field).sum()) / field.shape[0]
    found = _layers(common, ground, places, rng, rich, power)
    return _both(found, _layers(change, ground, places, rng, rich, None))


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
    """Rhythms, components and what time shares, each from what the ones before left over; the
    frame's own table is used up.

    `power` is that of a place in the table that these are leftovers of; none where nothing is
    expected of them.
    """
    rest, sigma, scale = frame.matrix, frame.sd, frame.scale
    envelope = np.sqrt(ground.slots / ground.slots.mean())
    fields, basis = _rhythms(rest, sigma, places, ground.calendar, envelope, power)
    _take_off(rest, rest @ basis, basis)
    noise = max(sigma, effective_noise(rest, rest.shape[1] - basis.shape[1]))
    free = rest.shape[1] - basis.shape[1]
    left, values, right = components(rest, noise, free)
    chosen = _chosen(sigma, free, rest.shape[0])
    fields += [places.apply(left[:, k] * values[k], chosen) for k in range(values.size)]
    _take_off(rest, left * values, right)
    removed = np.column_stack((basis, right))
    layers, variance = np.zeros(rest.shape), np.zeros(rest.shape)
    if fields:
        layers = np.column_stack([field.mean for field in fields]) @ removed.T
        variance = np.column_stack([field.variance for field in fields]) @ np.square(removed).T
    drawn, more = _errors_of(fields, removed, rng, rest.shape), None
    errors, white = room_for(PAIRS, (rest.shape[0], rest.shape[1])), 0.0
    if rich:
        smoothed = wiener(
            rest, sigma**2, ground.calendar, removed, places.apply, _chance(frame, ground, power)
        )
        layers += smoothed.mean
        variance += smoothed.variance
        more, white = smoothed.errors(rng, PAIRS), float(smoothed.mixture[-1])
        del smoothed
    low = scale.astype(np.float32)
    for pair in range(PAIRS):
        one = drawn(pair)
        if more is not None:
            one += next(more).astype(np.float32)
        one /= low
        errors[pair] = one
    unseen = np.zeros(rest.shape, dtype=beside(rest.shape))
    for rows in tiles(rest.shape):
        square = np.square(scale[rows])
        layers[rows] /= scale[rows]
        variance[rows] /= square
        if rich:
            unseen[rows] = white / square
    return Layers(layers, variance, errors, unseen, white / (white + sigma**2))


def _take_off(rest: Table, strengths: Table, axes: Table) -> None:
    """Take strengths (places x axes) along axes (slots x axes) off the table itself."""
    for rows in tiles(rest.shape):
        rest[rows] -= strengths[rows] @ axes.T


def _chance(frame: Frame, ground: Ground, power: float | None) -> float:
    """Mean variance of independent visits in the frame; none where nothing is expected."""
    if power is None:
        return 0.0
    total = 0.0
    for rows in tiles(frame.scale.shape):
        counted = np.square(frame.scale[rows]) * ground.field_of(rows)
        total += float((counted * ground.dilution[rows][:, None]).sum())
    return total / frame.scale.size


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
    area, activity, shape = ground.area, ground.activity, measured.weights.shape
    squares, share = area.power(2).T, ground.slots / ground.slots.sum()
    # In spans of slots, where there are many: there are more counted places than released ones.
    spans = tiles((shape[1], area.shape[1]))

    def norms(some: slice) -> Table:
        found: Table = np.sqrt(np.asarray(squares @ np.square(measured.weights[:, some])))
        return found

    def rough(some: slice) -> Table:
        visits: Table = ground.counted[:, None] * share[None, some]
        return visits

    typical = typical_square((norms(some), rough(some)) for some in spans)
    gathered = np.maximum(np.asarray(area @ ground.counted), 1e-9)[:, None]

    def released(weight: Table) -> tuple[Table, float]:
        found: Table = np.asarray(area @ (ground.counted[:, None] * weight)) / gathered
        mean = float(weight.mean())
        return np.where(found > 0, found, mean), mean

    kind, means = beside(shape), []
    of_visits, of_people = np.empty(shape, dtype=kind), np.empty(shape, dtype=kind)
    for some in spans:
        counted = expected_weighting(norms(some), typical, measured.matrix_limit, activity)
        of_visits[:, some], mean = released(counted.of_visits)
        of_people[:, some], _ = released(counted.of_people)
        means.append(mean * ((some.stop - some.start) / shape[1]))
    leak = margin_leak(ground.place_limit, activity, sum(means))
    return Weighting(of_visits, of_people, leak)


def _errors_of(
    fields: list[Filtered], basis: Table, rng: np.random.Generator, shape: tuple[int, ...]
) -> Callable[[int], NDArray[np.float32]]:
    """Draws of what is not known of the fields, places x slots, by their number."""
    if not fields:
        return lambda _pair: np.zeros(shape, dtype=np.float32)
    each = np.stack([field.errors(rng, PAIRS) for field in fields], axis=2).astype(np.float32)
    low = basis.T.astype(np.float32)
    return lambda pair: each[:, pair] @ low


def _to_level(table: Table, places: Vector) -> None:
    """Scale the table itself to the sum of the places."""
    total = sum(float(table[rows].sum()) for rows in tiles(table.shape))
    table *= float(places.sum()) / total


def _level(matrix: Table, scale: Table, ground: Ground, sigma: float) -> float:
    """How much of the expected matrix is there: about one, and so far as noise lets it be seen.

    The posterior mean under a normal prior around one; never near zero or below, whatever the
    noise says of a handful of people.
    """
    power, seen, weight = 0.0, 0.0, float(np.square(_LEVEL_SPREAD / sigma))
    for rows in tiles(matrix.shape):
        prior = scale[rows] * ground.field_of(rows)
        power += float(np.square(prior).sum())
        seen += float((matrix[rows] * prior).sum())
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
    """Variance of chance (independent visits) that no layer can know, less what was seen of it; it
    takes the place of the table.

    Where small hours were pooled over days, each of them was seen only as far as it kept its own
    map.
    """
    night = ground.calendar.hour < NIGHT_END
    for rows in tiles(table.shape):
        chance = table[rows] * ground.dilution[rows][:, None]
        result = np.maximum(chance - found.white[rows], 0.0) * (1 - found.seen) ** 2
        if pooled:
            result[:, night] = chance[:, night] * (1 - OWN * found.seen) ** 2
        table[rows] = result
    return table


def _deviation(ground: Ground, table: Table, found: Layers) -> Table:
    """Rough standard deviation of the error of each cell, in counts, before there are draws; it
    takes the place of the layers' variance."""
    for rows in tiles(table.shape):
        margins = np.square(table[rows]) * np.square(ground.spread[rows])[:, None]
        chance = table[rows] * ground.dilution[rows][:, None]
        chance = np.maximum(chance - found.white[rows], 0.0) * (1 - found.seen) ** 2
        found.variance[rows] += chance
        found.variance[rows] += margins
        np.sqrt(found.variance[rows], out=found.variance[rows])
    return found.variance
