"""Re-identification of traces: heat-map linkage, shared top places, unicity.

* *Heat-map linkage*, the AP-attack (Maouche, Ben Mokhtar & Bouchenak 2017). A user's profile is the
  share of fixes in cells of 800 m. An anonymous trace is linked to the profile at the smallest
  Topsøe divergence, sum p ln(2p/(p+q)) + q ln(2q/(p+q)). The first half of the period is what the
  adversary knows, the second half is attacked.
* *Top places* (Zang & Bolot 2011): how many users share somebody's N most visited cells.
* *Unicity* (de Montjoye et al. 2013): how often p points of somebody's trace fit nobody else.
  Points are (slot, cell) pairs; p of a user's own are drawn without replacement. Users with fewer
  than p points are left out and their share is reported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.traces.kernels import matching_users, topsoe
from sfumato.model.sphere import EARTH_RADIUS_M
from sfumato.model.traces import MICROSECONDS, Traces, run_starts
from sfumato.traces.cells import Cells

SIDE_M = 800.0


@dataclass(frozen=True, slots=True)
class Globe:
    """Cells of about `side_m` everywhere: for traces on several continents, which no plane holds.

    Belts of one height; each is divided into as many cells as its own circle of latitude holds, so
    that a cell is as wide in Oslo as in Singapore. Heat maps are sparse, so its size costs nothing.
    """

    side_m: float = SIDE_M

    @property
    def size(self) -> int:
        return self._belts * self._around

    @property
    def _belts(self) -> int:
        return math.ceil(math.pi * EARTH_RADIUS_M / self.side_m)

    @property
    def _around(self) -> int:
        return math.ceil(2 * math.pi * EARTH_RADIUS_M / self.side_m)

    def index(self, lon: NDArray[np.float64], lat: NDArray[np.float64]) -> NDArray[np.int64]:
        """Cell of each point; the date line is no border."""
        belts = self._belts
        belt = np.clip(np.floor((lat + 90.0) / 180.0 * belts), 0, belts - 1)
        middle = np.radians((belt + 0.5) / belts * 180.0 - 90.0)
        around = np.maximum(np.floor(np.cos(middle) * self._around), 1.0)
        column = np.minimum(np.floor((lon + 180.0) % 360.0 / 360.0 * around), around - 1)
        return np.asarray(belt * self._around + column, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Linkage:
    """For every attacked user, the profile it was linked to."""

    targets: NDArray[np.int64]
    linked_to: NDArray[np.int64]
    profiles: int

    @property
    def rate(self) -> float:
        """Share of traces linked to their own user."""
        return float((self.targets == self.linked_to).mean()) if self.targets.size else 0.0

    @property
    def chance(self) -> float:
        """What guessing gets."""
        return 1.0 / max(self.profiles, 1)


def link(known: Traces, attacked: Traces, cells: Cells | Globe) -> Linkage:
    """Link every user of `attacked` to the user of `known` with the most similar heat map."""
    mine, from_a, cell_a, share_a = _profiles(attacked, cells)
    theirs, from_b, cell_b, share_b = _profiles(known, cells)
    distances = topsoe(from_a, cell_a, share_a, from_b, cell_b, share_b)
    nearest = theirs[np.argmin(distances, axis=1)] if theirs.size else np.full(mine.size, -1)
    return Linkage(mine, nearest.astype(np.int64), int(theirs.size))


def halves(traces: Traces) -> tuple[Traces, Traces]:
    """What was seen before the middle of the period, and after."""
    middle = (int(traces.time.min()) + int(traces.time.max())) // 2
    return traces.pick(traces.time < middle), traces.pick(traces.time >= middle)


def _profiles(
    traces: Traces, cells: Cells | Globe
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Users, and their heat maps as sorted sparse rows."""
    cell = cells.index(traces.lon, traces.lat)
    inside = cell >= 0
    (user, where), counts = _distinct(traces.user[inside], cell[inside])
    offsets = run_starts(user)
    totals = np.add.reduceat(counts, offsets[:-1]) if user.size else np.empty(0)
    share = counts / np.repeat(totals, np.diff(offsets))
    return user[offsets[:-1]], offsets, where, share.astype(np.float64)


def _distinct(
    first: NDArray[np.int64], second: NDArray[np.int64]
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]:
    """Distinct pairs, sorted, and how often each occurs.

    A sort of each column: `np.unique` of rows compares them byte by byte, twenty times as slowly.
    """
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    starts = run_starts(first, second)
    return (first[starts[:-1]], second[starts[:-1]]), np.diff(starts)


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Fixes inside of a map as visits, a row each: who, in which cell, at which point.

    A point is a cell in a slot.
    """

    user: NDArray[np.int64]
    cell: NDArray[np.int64]
    point: NDArray[np.int64]

    @classmethod
    def of(cls, traces: Traces, cells: Cells | Globe, slot_s: int = 3600) -> Visits:
        cell = cells.index(traces.lon, traces.lat)
        inside = cell >= 0
        slot = traces.time[inside] // (slot_s * MICROSECONDS)
        point = (slot - slot.min(initial=0)) * cells.size + cell[inside]
        return cls(traces.user[inside], cell[inside], point)


@dataclass(frozen=True, slots=True, eq=False)
class TopPlaces:
    """`sizes[u]`: how many users, u included, have the same top cells."""

    number: int
    sizes: NDArray[np.int64]

    def share_below(self, k: int) -> float:
        """Share of users with fewer than k users like them; k = 2 is the unique ones."""
        return float((self.sizes < k).mean()) if self.sizes.size else 0.0


def top_places(
    user: NDArray[np.int64], place: NDArray[np.int64], number: int, *, ordered: bool = True
) -> TopPlaces:
    """Anonymity sets of the N most visited places, of visits with a row for each.

    Users with fewer places count as they are. Ties go to the place with the smaller number, which
    is public.
    """
    (user, place), counts = _distinct(user, place)
    order = np.lexsort((place, -counts, user))
    user, place = user[order], place[order]
    users, first = np.unique(user, return_index=True)
    rank = np.arange(user.size) - first[np.searchsorted(users, user)]
    top = np.full((users.size, number), -1, np.int64)
    kept = rank < number
    top[np.searchsorted(users, user[kept]), rank[kept]] = place[kept]
    if not ordered:
        top = np.sort(top, axis=1)
    _, which, sizes = np.unique(top, axis=0, return_inverse=True, return_counts=True)
    return TopPlaces(number, sizes[which.ravel()].astype(np.int64))


@dataclass(frozen=True, slots=True)
class Unicity:
    """Share of trials with a single match, a 95 % Wilson interval, and who was left out."""

    points: int
    share: float
    low: float
    high: float
    trials: int
    users_left_out: float


def unicity(
    user: NDArray[np.int64],
    point: NDArray[np.int64],
    points: int,
    *,
    trials: int = 2000,
    seed: int,
) -> Unicity:
    """Unicity of visits: a row for each, of who was at which point; the seed draws the trials."""
    (point, visitor), _ = _distinct(point, user)
    offsets = run_starts(point)
    number = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    order = np.argsort(visitor, kind="stable")
    own, where = visitor[order], number[order]
    users, first, counts = np.unique(own, return_index=True, return_counts=True)
    able = np.flatnonzero(counts >= points)
    left_out = 1.0 - able.size / max(users.size, 1)
    if able.size == 0:
        return Unicity(points, math.nan, 0.0, 1.0, 0, left_out)
    rng = np.random.default_rng(seed)
    who = rng.choice(able, trials)
    # p distinct points: the p smallest of as many random keys as the user has points, in chunks.
    drawn = np.empty((trials, points), np.int64)
    for k in range(points):
        drawn[:, k] = (rng.random(trials) * (counts[who] - k)).astype(np.int64)
        for j in _ranked(drawn[:, :k]):
            drawn[:, k] += drawn[:, k] >= j
    matches = matching_users(where[first[who][:, None] + drawn], offsets, visitor, 2)
    single = int((matches == 1).sum())
    low, high = wilson(single, trials)
    return Unicity(points, single / trials, low, high, trials, left_out)


def _ranked(earlier: np.ndarray) -> np.ndarray:
    """Earlier draws of each trial in ascending order, one column at a time."""
    return np.sort(earlier, axis=1).T


def wilson(successes: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's interval for a proportion."""
    if trials == 0:
        return 0.0, 1.0
    p = successes / trials
    middle = p + z * z / (2 * trials)
    half = z * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials**2))
    scale = 1 + z * z / trials
    return (middle - half) / scale, (middle + half) / scale
