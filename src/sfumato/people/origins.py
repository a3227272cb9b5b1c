"""Where the people in a zone live: a doubly constrained gravity model on released numbers.

A market share belongs to where people live, and a count to where they are. At noon half of the
people in an office district live elsewhere, and the share among them is a mean of the shares of
their homes. Weights by the zone in which somebody is seen can then be worse than one factor for all
(docs/decisions/people.md has figures), so a zone's weight in a slot is the mean of the weights of
the homes of those who are there.

Who lives where in the release is taken from its nights. Between the night and a slot the sums of
zones show at least how many have moved; those who exchange places do not show. The model has this:

* a share of everybody is at home, `1 - HIDDEN x` the movement that sums show;
* the others are spread from their homes to where they are seen so that both sums are kept, in
  proportion to exp(-distance / reach) (Wilson 1967), by iterative proportional fitting.

Only released numbers and public geometry are used: post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.geography.projection import Projection
from sfumato.model.time_grid import TimeGrid

Table = NDArray[np.float64]
Vector = NDArray[np.float64]

HIDDEN = 2.5
"""How many are away for each one whom the sums show to be. In made-up crowds it is 3 to 5; a value
below it cannot mix too much. On those of seeds 101 to 103, 1 gave errors of .27 of a constant
factor's, 2.5 of .20."""
_MORE = 4.0
"""The same, for how wrong it may be: what changes from the one to the other is an error that all
zones share."""
REACH_KM = 2.0
"""Distance at which a zone draws a third of what it draws next door. Between .7 and 2.8 the same
crowds' errors differ by a seventh."""
_ROUNDS = 30
"""Of fitting: sums are then kept to a hundredth."""
_INSIDE = 0.4
"""Mean distance inside a zone, over the square root of its area (a square has .52 between any two
points; people go to what is near)."""
_LEAST = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """The mean of something over the homes of those who are in a zone."""

    mean: Table
    """Zones x slots."""
    error: Table
    """What a wrong model of homes may do to it, up to a factor: its standard deviation over the
    homes times the root of the share of people from other zones. Those at home are known, and
    errors among the others grow with their number."""
    common: Table
    """What more people away from home than expected would do to it: an error of all zones alike."""
    over_time: Table
    """Zones x home zones: shares of those present, over all slots."""


def at_home(values: Vector, slots: int) -> Origins:
    """As if everybody always were where they live."""
    table = np.repeat(values[:, None], slots, axis=1)
    return Origins(table, np.zeros_like(table), np.zeros_like(table), np.eye(values.size))


def by_origin(
    values: Vector,
    homes: Vector,
    counts: Table,
    grid: TimeGrid,
    distances: Table,
    reach: float = REACH_KM,
) -> Origins:
    """The mean of `values` over the homes of those who are counted in a zone and slot.

    Slots of the same time of day share their origins, those of weekends apart: their sums are less
    noisy, and a year costs no more than a week.

    Args:
        values: One number for each zone, a weight say, of the people who live there.
        homes: How many live in each zone.
        counts: Who is where, zones x slots.
        grid: The slots.
        distances: Between zones, in kilometres (`zone_distances`).
        reach: Scale of the distance that people go, in kilometres.
    """
    kinds, which = _kinds(grid)
    pull = np.exp(-distances / reach)
    mean, error, common = (np.empty((values.size, kinds)) for _ in range(3))
    over_time: Table = np.zeros_like(distances)
    live = np.maximum(homes, _LEAST)
    for kind in range(kinds):
        there = np.maximum(counts[:, which == kind].sum(axis=1), _LEAST)
        scaled = there * (live.sum() / there.sum())
        shares = _flows(live, scaled, pull, HIDDEN)
        mean[:, kind] = shares @ values
        apart = shares @ np.square(values) - np.square(mean[:, kind])
        away = 1.0 - np.diag(shares)
        error[:, kind] = np.sqrt(np.maximum(apart * away, 0.0))
        common[:, kind] = _flows(live, scaled, pull, _MORE) @ values - mean[:, kind]
        over_time += there[:, None] * shares
    over_time /= over_time.sum(axis=1, keepdims=True)
    return Origins(mean[:, which], error[:, which], common[:, which], over_time)


def _flows(homes: Vector, there: Vector, pull: Table, hidden: float) -> Table:
    """Zones x home zones: of those who are in a zone, the share of each home."""
    moved = 0.5 * float(np.abs(there - homes).sum() / homes.sum())
    stay = np.minimum(max(0.0, 1.0 - hidden * moved) * homes, there)
    away, come = np.maximum(homes - stay, _LEAST), np.maximum(there - stay, _LEAST)
    to: Vector = np.ones_like(there)
    for _ in range(_ROUNDS):
        fro = away / (pull @ to)
        to = come / (pull.T @ fro)
    flows = (fro[:, None] * pull * to[None, :]).T + np.diag(stay)
    found: Table = flows / flows.sum(axis=1, keepdims=True)
    return found


def _kinds(grid: TimeGrid) -> tuple[int, NDArray[np.int64]]:
    """Number of kinds of slots, and the kind of each: time of day, weekend or not."""
    keys = [(one.weekday() >= 5, one.hour, one.minute) for one in grid.starts()]
    known = {key: k for k, key in enumerate(sorted(set(keys)))}
    return len(known), np.array([known[key] for key in keys], dtype=np.int64)


def zone_distances(shapes: NDArray[np.object_]) -> Table:
    """Kilometres between centres of places, and the mean way inside each on the diagonal."""
    plane = Projection.around(shapes)
    flat = plane.shapes(shapes)
    at = shapely.get_coordinates(shapely.centroid(flat))
    found: Table = np.hypot(*(at[:, None, :] - at[None, :, :]).transpose(2, 0, 1)) / 1_000
    areas = shapely.area(flat)
    inside = np.sqrt(np.where(areas > 0, areas, 0.0)) / 1_000
    if not areas.all():  # towers: half the way to the next
        apart = np.where(np.eye(at.shape[0], dtype=bool), np.inf, found)
        inside = np.where(areas > 0, inside, np.minimum(apart.min(axis=1), 10.0))
    np.fill_diagonal(found, _INSIDE * inside)
    return found
