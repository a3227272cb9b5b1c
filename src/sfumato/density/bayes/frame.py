"""The noisy matrix on its scale: what an ordinary visit counts in each cell. Post-processing.

The matrix was measured with weights, and of people who are weighted down. What the bound is
expected to leave of a visit follows from the norms of visits and the law of activity (`clipping`),
and how much of the expected matrix is there from the matrix itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.density.bayes.clipping import (
    Weighting,
    expected_weighting,
    margin_leak,
    typical_square,
)
from sfumato.density.bayes.ground import Ground
from sfumato.density.bayes.measured import Measured
from sfumato.model.tiles import beside, tiles

_LEVEL_SPREAD, _LEAST_LEVEL = 0.3, 0.2
"""How far the weight that the bound leaves may lie from what was expected of it, and its least
value. With a few hundred people the least-squares level can come out near zero, and everything is
divided by it (docs/decisions/bayes.md, "Weak signals")."""

Table = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A noisy table: counts times `scale`, with noise of standard deviation `sd` everywhere."""

    matrix: Table
    scale: NDArray[np.floating[Any]]
    sd: float


def frame_of(
    ground: Ground, measured: Measured, matrix: Table | None = None
) -> tuple[Frame, Weighting]:
    """The matrix on its scale: weights, what the bound leaves of a visit, and the level of that.

    The table is the frame's own; `matrix` is another than what was measured.
    """
    weighting = cell_weighting(ground, measured)
    table = measured.matrix if matrix is None else matrix
    scale = np.empty(table.shape, dtype=beside(table.shape))
    for rows in tiles(table.shape):
        scale[rows] = measured.weights(rows) * weighting.of_visits[rows]
    scale *= _level(table, scale, ground, measured.matrix_sd)
    return Frame(table, scale, measured.matrix_sd), weighting


def _level(matrix: Table, scale: NDArray[np.floating[Any]], ground: Ground, sigma: float) -> float:
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


def cell_weighting(ground: Ground, measured: Measured) -> Weighting:
    """What the limit of the matrix is expected to do in each released cell."""
    area, activity, shape = ground.area, ground.activity, measured.steps.shape
    squares, share = area.power(2).T, ground.slots / ground.slots.sum()
    # In spans of slots, where there are many: there are more counted places than released ones.
    spans = tiles((shape[1], area.shape[1]))

    def norms(some: slice) -> Table:
        weights = measured.weights(slots=some)
        found: Table = np.sqrt(np.asarray(squares @ np.square(weights)))
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


def thinnest_again(ground: Ground, measured: Measured) -> Callable[[NDArray[np.bool_]], Vector]:
    """`Weighting.thinnest`, worked out anew when it is asked for: its tables are let go."""
    return lambda cells: cell_weighting(ground, measured).thinnest(cells)
