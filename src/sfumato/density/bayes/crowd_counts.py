"""How many people a crowd is, and what the totals are without it. Post-processing.

The matrix and the totals of places all weight heavy users down, each by its own limit. A crowd of
ordinary people is weighted down less than the visits around it, and so comes out too large, in
the matrix nearly twofold where limits are tight. How much follows from how far people and
visits differ in weight, and what the totals of its places leave room for has its say.

The totals of places and slots without the crowd are what the other layers start from and are raked
to; the crowd is put on top. So neither can raking take it away, nor does it lift the other hours of
its places: in made cities with a match of 1.5 % of all people, these came out twofold before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.density.bayes.clipping import Weighting
from sfumato.density.bayes.crowds import Crowd, estimate_again, find_crowds
from sfumato.model.tiles import beside, tiles

if TYPE_CHECKING:
    from sfumato.density.bayes.ground import Ground

_UNSURE = 0.15
"""Deviation of the power of the matrix's overstatement that place totals show."""
_ORDINARY_PLACE = 0.1
"""Relative error of a place's ordinary total as the matrix tells it, from bounding alone."""
_LIKE_PEOPLE = (1.2, 0.3)
"""Prior mean and deviation of how far a crowd's weights are those of people (1), not visits (0), on
a scale of logarithms. More than 1: who is in a crowd for several slots has spent visits of small
norm. Made cities of seeds 1 to 4 had 0.9 to 1.5 (docs/decisions/bayes.md, "Crowds set apart")."""
_LARGEST = 0.5
"""Of all that was counted, at most this much is taken for crowds."""

_LEAST_ORDINARY = 0.05
"""Least share of a total that is left for ordinary life."""
_SEED = 20170404

Table = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SetApart:
    """Crowds in counts, and what is left for the other layers."""

    ground: Ground
    """With the totals of ordinary life, draws too: the margins without the crowds."""
    matrix: Table
    """The noisy matrix without the crowds."""
    cells: tuple[NDArray[np.int64], ...]
    """Places and slots of the crowds' cells."""
    mean: Vector
    """Counts that the crowds add to these cells."""
    draws: Table
    """Draws x cells, in the order of the ground's draws; never negative."""
    crowds: tuple[Crowd, ...]
    factor: float
    """People for each ordinary visit's worth of the matrix in a crowd."""
    factor_sd: float


def set_apart(
    ground: Ground, matrix: Table, unit: NDArray[Any], sigma: float, weighting: Weighting
) -> SetApart:
    """Find crowds, and take them out of the matrix and of the margins.

    Args:
        ground: margins of all that was counted.
        matrix: the noisy weighted matrix, released places x slots.
        unit: what an ordinary visit counts in each cell.
        sigma: standard deviation of the matrix's noise.
        weighting: mean weights of visits and of people.

    Returns:
        The crowds, and ground and matrix without them; the very ones given where there is none.
    """
    field = np.empty(matrix.shape, dtype=beside(matrix.shape))
    for rows in tiles(matrix.shape):
        field[rows] = unit[rows] * ground.field_of(rows)
    crowds = find_crowds(matrix - field, sigma, field, unit, ground.centres, ground.calendar)
    none = np.zeros(0, dtype=np.int64)
    draws = np.zeros((ground.place_draws.shape[0], 0))
    apart = SetApart(ground, matrix, (none, none), np.zeros(0), draws, (), 1.0, 0.0)
    if crowds:
        apart = _believed(ground, matrix, unit, crowds, sigma, weighting) or apart
    if apart.crowds:
        # Totals contain the crowd, so the first estimate was measured from too high a ground.
        field = unit * apart.ground.field
        layer = matrix - apart.matrix
        crowds = estimate_again(matrix - field, layer, sigma, field, crowds, ground.centres)
        apart = _believed(ground, matrix, unit, crowds, sigma, weighting) or apart
    return apart


def _believed(
    ground: Ground,
    matrix: Table,
    unit: Table,
    crowds: tuple[Crowd, ...],
    sigma: float,
    weighting: Weighting,
) -> SetApart | None:
    """How many people the crowds are, and the ordinary totals beside them.

    Over a grid of how far the crowd is overstated: what its places' totals then have left for
    ordinary life, against what the rest of their rows in the matrix says of that. None where no
    cell of the crowds is clear.
    """
    layer, variance = np.zeros(matrix.shape), np.zeros(matrix.shape)
    for crowd in crowds:
        layer[crowd.cells] += crowd.mean.reshape(crowd.places.size, -1)
        variance[crowd.cells] += np.square(crowd.root).sum(axis=1).reshape(crowd.places.size, -1)
    found = layer > np.sqrt(variance)
    if not found.any():
        return None
    layer = np.where(found, layer, 0.0)
    naive = layer / unit
    in_rows, size = naive.sum(axis=1), float(naive.sum())
    rows = in_rows > 0
    ratio = weighting.of_people / weighting.of_visits
    over = max(float(np.average(ratio[found], weights=naive[found])), 1.001)
    # Margins are bounded less than the matrix, and their crowds overstated less: by a power.
    kept = 1.0 - weighting.leak * (1.0 - float(weighting.of_visits.mean()))
    milder = float(np.log(kept) / np.log(min(float(weighting.of_visits.mean()), 0.999)))
    expected = np.where(found, 0.0, unit * ground.field)
    power = np.maximum(np.square(expected).sum(axis=1), 1e-300)
    told = (np.where(found, 0.0, matrix) * expected).sum(axis=1) / power * ground.places
    told_sd = np.hypot(sigma / np.sqrt(power), _ORDINARY_PLACE) * ground.places
    places_sd = ground.places * ground.spread
    excess = float((ground.places - told)[rows].sum())
    excess_sd = float(np.sqrt(np.square(np.hypot(told_sd, places_sd)[rows]).sum()))
    share = np.linspace(0.0, 2.0, 81)
    overstated = over**share
    logs = -0.5 * np.square((share - _LIKE_PEOPLE[0]) / _LIKE_PEOPLE[1])
    seen = size * overstated ** (milder - 1.0)
    deviation = np.hypot(excess_sd, _UNSURE * np.log(over) * size * over ** (milder - 1.0))
    logs -= 0.5 * np.square((excess - seen) / deviation)
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    factor = float(weight @ (1.0 / overstated))
    factor_sd = float(np.sqrt(weight @ np.square(1.0 / overstated - factor)))
    factor = min(factor, _LARGEST * float(ground.places.sum()) / size)
    in_places = in_rows * factor * float(weight @ overstated**milder)
    unsure = in_places * (_UNSURE * np.log(over) + factor_sd / factor)
    seen_var = np.square(np.sqrt(variance) / unit * factor).sum(axis=1)
    both = 1.0 / (places_sd**2 + unsure**2 + seen_var + 1e-9), 1.0 / np.square(told_sd)
    ordinary = ((ground.places - in_places) * both[0] + told * both[1]) / (both[0] + both[1])
    ordinary = np.clip(ordinary, _LEAST_ORDINARY * ground.places, ground.places)
    spread = np.where(rows, 1.0 / np.sqrt(both[0] + both[1]) / ordinary, ground.spread)
    cells = np.nonzero(found)
    mean = naive[cells] * factor
    draws = _draws(crowds, found, unit, (factor, factor_sd), ground.place_draws.shape[0])
    calm = _without(
        ground, np.where(rows, ordinary / ground.places, 1.0), spread, cells, mean, draws
    )
    return SetApart(calm, matrix - layer, cells, mean, draws, crowds, factor, factor_sd)


def _draws(
    crowds: tuple[Crowd, ...],
    found: NDArray[np.bool_],
    unit: Table,
    factor: tuple[float, float],
    count: int,
) -> Table:
    """Draws of the crowds' counts, in opposite pairs k and k + count / 2."""
    rng = np.random.default_rng(_SEED)
    result = np.empty((count, int(found.sum())))
    for k in range(count // 2):
        normal = [rng.standard_normal(crowd.root.shape[1]) for crowd in crowds]
        of_factor = float(rng.standard_normal())
        for sign, row in ((1.0, k), (-1.0, k + count // 2)):
            layer = np.zeros(found.shape)
            for crowd, z in zip(crowds, normal, strict=True):
                drawn = crowd.mean + crowd.root @ (sign * z)
                layer[crowd.cells] += drawn.reshape(crowd.places.size, -1)
            people = max(factor[0] + factor[1] * sign * of_factor, 0.0)
            result[row] = np.maximum(layer[found], 0.0) / unit[found] * people
    return result


def _without(
    ground: Ground,
    ratio: Vector,
    spread: Vector,
    cells: tuple[NDArray[np.int64], ...],
    mean: Vector,
    draws: Table,
) -> Ground:
    """The ground of ordinary life: places at `ratio` of their totals, slots less the crowds, and
    the level such that the crowds on top of it make up the whole."""
    rng = np.random.default_rng(_SEED + 1)
    changed = ratio < 1.0
    places = ground.places * ratio
    places *= (float(ground.places.sum()) - float(mean.sum())) / float(places.sum())
    in_slots = np.bincount(cells[1], mean, minlength=ground.slots.size)
    slots = np.maximum(ground.slots - in_slots, _LEAST_ORDINARY * ground.slots)
    half = rng.standard_normal((draws.shape[0] // 2, ratio.size))
    normal = np.concatenate((half, -half))
    own = np.exp(np.minimum(spread, 1.0) * normal - np.minimum(spread, 1.0) ** 2 / 2)
    place_draws = np.where(changed, places * own, ground.place_draws * ratio)
    slot_draws = ground.slot_draws.copy()
    for k, one in enumerate(draws):
        left = max(float(ground.place_draws[k].sum()) - float(one.sum()), 1.0)
        place_draws[k] *= left / float(place_draws[k].sum())
        taken = np.bincount(cells[1], one, minlength=slots.size)
        slot_draws[k] = np.maximum(slot_draws[k] - taken, _LEAST_ORDINARY * slot_draws[k])
        slot_draws[k] *= left / float(slot_draws[k].sum())
    return replace(
        ground,
        places=places,
        slots=slots,
        spread=spread,
        place_draws=place_draws,
        slot_draws=slot_draws,
    )
