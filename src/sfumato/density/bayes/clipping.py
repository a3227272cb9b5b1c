"""What weighting heavy users down does to a count, from public assumptions alone.

A user whose visits have norm above C counts C / norm. In a cell, that is felt as a factor: the
mean weight of those who were there. Two things move it. A visit in a quiet place or hour has a
large norm of its own, so it alone uses up much of the limit; and a visit picked at random is
likely to be a heavy user's, while a person picked at random is not.

Both follow from how much people differ in activity, which the noisy ladder says (`ladder`). Nothing
here reads the data: norms come from noisy margins, so all of it is public or post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from sfumato.density.bayes.ladder import Activity
from sfumato.model.tiles import tiles

CONCENTRATION = 0.55
"""Norm of a user's totals per place over their number of visits: most are at home or work."""
NOTABLE_SLOT = 0.2
"""Relative distortion from which a slot is named to the readers. Its total is measured apart: only
how it is spread can be off."""
_SURE = 4.0
"""Standard deviations from which a distortion is taken for real."""
_NAMED = 20
"""Slots that are named at most; a list of all would be no remark."""
Table = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Weighting:
    """Mean weights, for each cell: of its visits, and of people who are there by chance."""

    of_visits: Table
    of_people: Table
    leak: float = 1.0
    """How much of what the matrix distorts the place totals distort too."""

    def thinnest(self, cells: NDArray[np.bool_]) -> Vector:
        """Factor of a crowd that came regardless of how active its members are, in these cells."""
        found: Vector = self.of_visits[cells] / self.of_people[cells]
        return found


def typical_square(parts: Iterable[tuple[Table, Table]]) -> float:
    """How large the squared norm of somebody's other visits is, by the norms and rough visits of
    every cell, which may come in parts."""
    whole, visited = 0.0, 0.0
    for norms, visits in parts:
        whole += float((visits * np.square(norms)).sum())
        visited += float(visits.sum())
    return whole / max(visited, 1e-300)


def expected_weighting(norms: Table, typical: float, limit: float, activity: Activity) -> Weighting:
    """Mean weight by the norm of the visit that is counted; `typical` is the square of others'."""
    reach = np.concatenate(([0.0], np.geomspace(1e-3, 1e3, 240)))
    tables = []
    # A visit picked at random is an active person's: people count in proportion to activity.
    for shares, present in ((_of_visits(activity), 1.0), (activity.shares, 0.0)):
        others = (activity.levels - present) * typical
        norm = np.sqrt(np.square(reach)[:, None] + others[None, :])
        weight = np.minimum(1.0, limit / np.maximum(norm, 1e-300)) @ shares
        tables.append(np.interp(norms, reach, weight))
    return Weighting(tables[0], tables[1])


def _of_visits(activity: Activity) -> Vector:
    """Shares of visits, by the activity of who made them."""
    found = activity.shares * activity.levels
    return np.asarray(found / found.sum())


def margin_leak(place_limit: float, activity: Activity, matrix_weight: float) -> float:
    """Weight lost in the place totals over weight lost in the matrix, by the law of activity."""
    norm = CONCENTRATION * activity.levels
    kept = float(np.minimum(1.0, place_limit / norm) @ _of_visits(activity))
    return float(np.clip((1.0 - kept) / max(1.0 - matrix_weight, 1e-6), 0.0, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Distortion:
    """How far slots differ in the weight that bounding left them.

    Read from the ratio of the bounded matrix to margins that are bounded less. That of places is in
    the posterior of their totals, and said by it (`Factors.places_known`).
    """

    slots: Vector
    slots_sure: NDArray[np.bool_]

    def remarks(self, starts: list[datetime]) -> tuple[str, ...]:
        """For holders and readers, in words; nothing where there is nothing notable."""
        late = self.slots_sure & (np.abs(self.slots) > NOTABLE_SLOT)
        if not late.any():
            return ()
        return (
            "In some hours people are more or less active callers than in others. Totals of "
            "those hours were measured apart; how they are spread over places may be off."
            + _hours(starts, _by_size(self.slots, late)),
        )


def find_distortion(
    matrix: Table, expected_of: Callable[[slice], Table], sigma: float
) -> Distortion:
    """Compare the columns of the noisy matrix with what the margins expect of them, which
    `expected_of` gives for some of the places."""
    squares, products = np.zeros(matrix.shape[1]), np.zeros(matrix.shape[1])
    for rows in tiles(matrix.shape):
        expected = expected_of(rows)
        squares += np.square(expected).sum(axis=0)
        products += (matrix[rows] * expected).sum(axis=0)
    power = np.maximum(squares, 1e-300)
    ratio = products / power - 1.0
    return Distortion(ratio, np.abs(ratio) > _SURE * sigma / np.sqrt(power))


def _by_size(values: Vector, chosen: NDArray[np.bool_]) -> list[int]:
    order = np.argsort(-np.abs(values), kind="stable")
    return [int(k) for k in order if chosen[k]]


def _hours(starts: list[datetime], slots: list[int]) -> str:
    """The first of these slots, in the order of time."""
    more = f" and {len(slots) - _NAMED} more" if len(slots) > _NAMED else ""
    names = [f"{starts[k]:%a %H:%M}" for k in sorted(slots[:_NAMED])]
    return f" Hours: {', '.join(names)}{more}."
