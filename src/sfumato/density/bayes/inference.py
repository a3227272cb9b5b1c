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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.density.bayes.clipping import Distortion, find_distortion
from sfumato.density.bayes.crowd_counts import set_apart
from sfumato.density.bayes.frame import Frame, frame_of, thinnest_again
from sfumato.density.bayes.ground import PAIRS, Ground, of_few
from sfumato.density.bayes.measured import Measured
from sfumato.density.bayes.rhythms import rhythm_axes
from sfumato.density.draws import Draws, Readable, mean_in, room_for
from sfumato.density.posterior import Posterior, Taken
from sfumato.density.refine.margins import rake
from sfumato.density.refine.spatial import Filtered, SpatialFilter
from sfumato.density.refine.special_hours import NIGHT_END, OWN, pool_nights, temper_crowds
from sfumato.density.refine.temporal import Spectrum, components, effective_noise, wiener
from sfumato.model.tiles import beside, is_large, tiles
from sfumato.model.time_grid import HourCalendar

if TYPE_CHECKING:
    from sfumato.density.bayes.memory import Memory

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
class Layers:
    """What was found in a table of leftovers, in counts, with the variance and draws of its error
    and the variance of chance among it."""

    mean: NDArray[np.floating[Any]]
    variance: NDArray[np.floating[Any]]
    errors: Readable
    white: NDArray[np.floating[Any]]
    seen: float
    """Share of a cell's own chance that was taken from its noisy number."""


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
        frame, weighting = frame_of(ground, measured, apart.matrix)
    apart = replace(apart, matrix=_NOTHING)
    thinnest: Callable[[NDArray[np.bool_]], Vector] = weighting.thinnest
    if is_large(frame.scale.shape):  # of use where crowds are found, which is hardly ever
        thinnest = thinnest_again(ground, measured)
    distortion = find_distortion(
        frame.matrix,
        lambda rows: frame.scale[rows] * ground.field_of(rows),
        frame.sd,
    )
    del weighting
    size = (ground.places / ground.places.mean()) ** _SIZE
    places = SpatialFilter(ground.centres, size / np.sqrt(np.square(size).mean()))
    found = _found(frame, ground, places, rng, rich, memory)
    shape = (frame.scale.shape[0], frame.scale.shape[1])
    parts, kind = tiles(shape), beside(shape)
    frame = replace(frame, matrix=_NOTHING, scale=_NOTHING)
    # Counts, from here on: the layers are used up.
    centre, table, least = found.mean, np.empty(shape, dtype=kind), np.empty(shape, dtype=kind)
    for rows in parts:
        field = ground.field_of(rows)
        centre[rows] += field
        least[rows] = _LEAST_SHARE * field
        # Kept positive: raking and shares are of a positive table.
        np.maximum(centre[rows], least[rows], out=table[rows])
    _to_level(table, ground.places)
    crowds = temper_crowds(
        table,
        _deviation(ground, table, found),
        (ground.places, ground.places * ground.spread),
        (ground.slots, np.full(ground.slots.size, ground.slots_sd)),
        ground.calendar,
        thinnest,
    )
    tempered = None
    if crowds.found.any():
        tempered = crowds.table / np.maximum(table, 1e-300)
    found = replace(found, mean=_NOTHING, variance=_NOTHING)
    draws = room_for(2 * PAIRS, shape)
    one = table  # every draw is made in the same place: a fresh table costs more than its numbers
    # Two of a pair share their error, and follow each other where no random numbers are asked for.
    order = sorted(range(2 * PAIRS), key=lambda k: k % PAIRS)
    pair, error = -1, _NOTHING.astype(np.float32)
    for k in order if tempered is None else range(2 * PAIRS):
        if k % PAIRS != pair:
            pair = k % PAIRS
            error = found.errors[pair]
        for rows in parts:
            (np.add if k < PAIRS else np.subtract)(centre[rows], error[rows], out=one[rows])
            np.maximum(one[rows], least[rows], out=one[rows])
        _to_level(one, ground.places)
        if tempered is not None:
            one *= tempered
            one[crowds.found] += (crowds.sd * rng.standard_normal(shape))[crowds.found]
            np.maximum(one, least, out=one)
        rake(one, ground.place_draws[k], ground.slot_draws[k], out=one)
        if pooled:
            pool_nights(one, ground.calendar, out=one)
        drawn = one.astype(np.float32, copy=apart.cells[0].size > 0)
        drawn[apart.cells] += apart.draws[k]
        draws[k] = drawn
    del table, one, centre, least
    chance = _unseen(ground, draws, found, pooled)
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
    """The layers of what the margins do not explain; with other weeks, of these and of this one.
    The frame's own table is used up."""
    if memory is None:
        power = 0.0
        for rows in tiles(frame.matrix.shape):
            expected = frame.scale[rows] * ground.field_of(rows)
            frame.matrix[rows] -= expected
            power += float(np.square(expected).sum())
        return _layers(frame, ground, places, rng, rich, power / frame.matrix.shape[0])
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
    free = rest.shape[1] - basis.shape[1]
    # Without vectors values of a small table come out a last bit different: two decompositions.
    parts = Spectrum(rest) if is_large(rest.shape) else None
    noise = max(sigma, effective_noise(rest, free, parts))
    left, values, right = components(rest, noise, free, parts)
    del parts
    chosen = _chosen(sigma, free, rest.shape[0])
    fields += [places.apply(left[:, k] * values[k], chosen) for k in range(values.size)]
    _take_off(rest, left * values, right)
    removed = np.column_stack((basis, right))
    kind = beside(rest.shape)
    layers, variance = np.zeros(rest.shape, dtype=kind), np.zeros(rest.shape, dtype=kind)
    if fields:
        means = np.column_stack([field.mean for field in fields])
        variances = np.column_stack([field.variance for field in fields])
        for rows in tiles(rest.shape):
            layers[rows] = means[rows] @ removed.T
            variance[rows] = variances[rows] @ np.square(removed).T
    drawn, white = _Errors(fields, removed, rng, scale), 0.0
    errors: Readable = drawn
    if rich:
        smoothed = wiener(
            rest, sigma**2, ground.calendar, removed, places.apply, _chance(frame, ground, power)
        )
        layers += smoothed.mean
        variance += smoothed.variance
        errors, white = drawn.with_more(smoothed.errors(rng, PAIRS)), float(smoothed.mixture[-1])
        del smoothed
    unseen = np.zeros(rest.shape, dtype=kind)
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
    errors = room_for(PAIRS, (common.mean.shape[0], common.mean.shape[1]))
    for pair in range(PAIRS):
        errors[pair] = common.errors[pair] + change.errors[pair]
    return Layers(
        common.mean + change.mean,
        common.variance + change.variance,
        errors,
        common.white + change.white,
        min(common.seen, change.seen),
    )


class _Errors:
    """Draws of what is not known of the fields, in counts, by their number: each is worked out when
    it is asked for, in the place of the one before."""

    def __init__(
        self,
        fields: list[Filtered],
        basis: Table,
        rng: np.random.Generator,
        scale: NDArray[np.floating[Any]],
    ) -> None:
        self.shape: tuple[int, ...] = (PAIRS, *scale.shape)
        drawn = [field.errors(rng, PAIRS).astype(np.float32) for field in fields]
        self._each = np.stack(drawn, axis=2) if drawn else None  # places x pairs x fields
        self._axes, self._one = basis.T.astype(np.float32), np.zeros(scale.shape, np.float32)
        self._scale = scale.astype(np.float32, copy=False)

    def __getitem__(self, pair: int, /) -> NDArray[np.float32]:
        if self._each is not None:
            np.matmul(self._each[:, pair], self._axes, out=self._one)
            self._one /= self._scale
        return self._one

    def with_more(self, more: Iterator[Table]) -> Draws:
        """With others on top, which come in their order and are kept."""
        found = room_for(PAIRS, (self.shape[1], self.shape[2]))
        for pair, other in enumerate(more):
            if self._each is None:
                self._one[:] = 0.0
            else:
                np.matmul(self._each[:, pair], self._axes, out=self._one)
            self._one += other.astype(np.float32)
            self._one /= self._scale
            found[pair] = self._one
        return found


def _to_level(table: NDArray[np.floating[Any]], places: Vector) -> None:
    """Scale the table itself to the sum of the places."""
    total = sum(float(table[rows].sum()) for rows in tiles(table.shape))
    table *= float(places.sum()) / total


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


def _unseen(ground: Ground, draws: Draws, found: Layers, pooled: bool) -> NDArray[np.floating[Any]]:
    """Variance of chance (independent visits) that no layer can know, less what was seen of it.

    Where small hours were pooled over days, each of them was seen only as far as it kept its own
    map.
    """
    night = ground.calendar.hour < NIGHT_END
    shape = draws.shape[1:]
    table = np.empty(shape, dtype=beside(shape))
    for rows in tiles(shape):
        chance = mean_in(draws, rows) * ground.dilution[rows][:, None]
        result = np.maximum(chance - found.white[rows], 0.0) * (1 - found.seen) ** 2
        if pooled:
            result[:, night] = chance[:, night] * (1 - OWN * found.seen) ** 2
        table[rows] = result
    return table


def _deviation(
    ground: Ground, table: NDArray[np.floating[Any]], found: Layers
) -> NDArray[np.floating[Any]]:
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
