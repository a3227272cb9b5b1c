"""Unicity (de Montjoye et al. 2013): how often p points of somebody's trace fit nobody else.

Points are (slot, cell) pairs; p of a user's own are drawn without replacement. Users with
fewer than p points are left out and their share is reported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.attacks.traces.kernels import matching_users
from sfumato.traces.cells import Cells
from sfumato.traces.model import MICROSECONDS, Traces


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
    traces: Traces, cells: Cells, points: int, *, slot_s: int = 3600, trials: int = 2000, seed: int
) -> Unicity:
    """Unicity at the resolution of the cells and slots; the seed draws the trials."""
    cell = cells.index(traces.lon, traces.lat)
    inside = cell >= 0
    slot = traces.time[inside] // (slot_s * MICROSECONDS)
    key = (slot - slot.min(initial=0)) * cells.size + cell[inside]
    _, number = np.unique(key, return_inverse=True)
    visits = np.unique(np.column_stack((number, traces.user[inside])), axis=0)
    offsets = np.searchsorted(visits[:, 0], np.arange(visits[:, 0].max(initial=-1) + 2))
    order = np.argsort(visits[:, 1], kind="stable")
    own, where = visits[order, 1], visits[order, 0]
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
    matches = matching_users(
        where[first[who][:, None] + drawn], offsets.astype(np.int64), visits[:, 1].copy(), 2
    )
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
