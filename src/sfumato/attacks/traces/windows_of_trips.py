"""Trips as sequences of numbers: what the recurrent classifier reads.

Ten users are drawn as targets, all others are class 0. A trip is cut into windows of equal
length; the split into training and test is by *trip*, so that no test window has neighbours
that were trained on. Features of a fix: east and north of the middle of all reports and the
step from the fix before, in units of their spread, hour of the day as sine and cosine,
whether it is a weekend, and the place once more as sines and cosines of four wavelengths from
four spreads down to half of one. Without these a network has to bend a plane around every home,
and a few hundred trips do not teach it to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.traces.cells import Cells
from sfumato.traces.model import MICROSECONDS, Traces

TARGETS = 10
LENGTH = 30
WAVES = (1, 2, 4, 8)
FEATURES = 7 + 4 * len(WAVES)
_HOUR_US = 3600 * MICROSECONDS
_DAY_US = 24 * _HOUR_US
_TRAINED = 0.7


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Sequences (n x length x features), their classes, and which of them are for training."""

    values: NDArray[np.float32]
    classes: NDArray[np.int64]
    training: NDArray[np.bool_]
    targets: NDArray[np.int64]


def choose_targets(traces: Traces, seed: int, targets: int = TARGETS) -> NDArray[np.int64]:
    """Users to recognise, drawn among those with at least two trips."""
    starts = traces.starts[:-1]
    users, trips = np.unique(traces.user[starts], return_counts=True)
    able = users[trips >= 2]
    if able.size < 2:
        raise UsageError("Recognising people needs at least two users with two trips each.")
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(able, min(targets, able.size), replace=False)).astype(np.int64)


def windows_of(
    reports: Traces, targets: NDArray[np.int64], seed: int, length: int = LENGTH
) -> Windows:
    """Whole windows of every trip; the rest of a trip is left out, short trips are padded."""
    starts = reports.starts
    sizes = np.diff(starts)
    counts = np.maximum(sizes // length, 1)
    trip = np.repeat(np.arange(sizes.size), counts)
    number = np.arange(trip.size) - np.repeat(np.cumsum(counts) - counts, counts)
    at = starts[:-1][trip][:, None] + number[:, None] * length + np.arange(length)[None, :]
    at = np.minimum(at, starts[1:][trip][:, None] - 1)  # a short trip repeats its last fix
    user = reports.user[starts[:-1]][trip]
    found = np.searchsorted(targets, user)
    known = (found < targets.size) & (targets[np.minimum(found, targets.size - 1)] == user)
    training = np.random.default_rng(seed + 1).random(sizes.size) < _TRAINED
    return Windows(
        _features(reports)[at],
        np.where(known, found + 1, 0).astype(np.int64),
        training[trip],
        targets,
    )


def _features(reports: Traces) -> NDArray[np.float32]:
    middle = float(np.median(reports.lon)), float(np.median(reports.lat))
    plane = Cells(*middle, 1, 1, 1.0, float(np.clip(middle[1], -89.0, 89.0)))
    place = np.column_stack(plane.metres(reports.lon, reports.lat))
    step = np.diff(place, axis=0, prepend=place[:1])
    step[reports.starts[:-1]] = 0.0
    hour = (reports.time % _DAY_US) / _DAY_US * 2 * np.pi
    weekend = ((reports.time // _DAY_US + 3) % 7) >= 5
    scaled = place / max(float(place.std()), 1.0)
    turns = [scaled * (wave * np.pi / 2) for wave in WAVES]
    columns = [
        scaled,
        step / max(float(step.std()), 1.0),
        np.column_stack((np.sin(hour), np.cos(hour), weekend)),
        *(function(turn) for turn in turns for function in (np.sin, np.cos)),
    ]
    return np.concatenate(columns, axis=1).astype(np.float32)
