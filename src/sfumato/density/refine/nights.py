"""Smooth the small hours with exponential curves (Acs & Castelluccia 2014, section 5.4.2).

Every day, counts fall from midnight to about four and rise until six. Where they are
small, noise dominates, so each fall and each rise is replaced by the curve a * exp(b x)
that fits it best in least squares. All zones and days are fitted at once by a damped
Gauss-Newton iteration on 2 x 2 systems. Post-processing: reads noisy counts only.
"""

from __future__ import annotations

from datetime import datetime

import numpy as np
from numpy.typing import NDArray

FALL = (0.0, 4.0)
RISE = (4.0, 6.0)
"""Local hours of slot starts, both ends included; where both claim a slot their mean counts."""
_STEEPEST = 4.0


def fit_exponentials(
    x: NDArray[np.float64], y: NDArray[np.float64], rounds: int = 40
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """a and b of the best a * exp(b x) for each row of y, in least squares.

    Starts from the log-linear fit weighted by squared counts and never ends worse than
    it. Rows without a positive value get a = 0.
    """
    top = y.max(axis=1, initial=0.0)
    usable = top > 0
    scale = np.where(usable, top, 1.0)
    target = y / scale[:, None]
    floor = np.maximum(target, 1e-3)
    weight = np.square(floor)
    mean_x = (weight * x).sum(axis=1) / weight.sum(axis=1)
    log_y = np.log(floor)
    mean_y = (weight * log_y).sum(axis=1) / weight.sum(axis=1)
    away = x - mean_x[:, None]
    slope_below = np.maximum((weight * away * away).sum(axis=1), 1e-300)
    b = (weight * away * (log_y - mean_y[:, None])).sum(axis=1) / slope_below
    b = np.clip(b, -_STEEPEST, _STEEPEST)
    a = np.exp(mean_y - b * mean_x)
    damping = np.full(a.size, 1e-2)

    def loss(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        fitted = a[:, None] * np.exp(b[:, None] * x)
        result: NDArray[np.float64] = np.square(target - fitted).sum(axis=1)
        return result

    best = loss(a, b)
    for _ in range(rounds):
        curve = np.exp(b[:, None] * x)
        rest = target - a[:, None] * curve
        da, db = curve, a[:, None] * x * curve
        aa = (da * da).sum(axis=1) * (1 + damping)
        bb = (db * db).sum(axis=1) * (1 + damping) + 1e-12
        ab = (da * db).sum(axis=1)
        ra, rb = (da * rest).sum(axis=1), (db * rest).sum(axis=1)
        determinant = np.maximum(aa * bb - ab * ab, 1e-30)
        next_a = a + (bb * ra - ab * rb) / determinant
        next_b = np.clip(b + (aa * rb - ab * ra) / determinant, -_STEEPEST, _STEEPEST)
        next_a = np.clip(next_a, 0.0, 1e6)
        trial = loss(next_a, next_b)
        better = trial < best
        a, b = np.where(better, next_a, a), np.where(better, next_b, b)
        best = np.where(better, trial, best)
        damping = np.where(better, damping / 3, np.minimum(damping * 4, 1e8))
    return np.where(usable, a * scale, 0.0), np.where(usable, b, 0.0)


def smooth_nights(table: NDArray[np.float64], starts: list[datetime]) -> NDArray[np.float64]:
    """The table with each night's fall and rise replaced by fitted curves.

    `starts` are the local starts of the slots. A segment with fewer than three slots (a
    grid of long slots, or a night cut by the period) has nothing to smooth and stays.
    """
    hours = np.array([s.hour + s.minute / 60 + s.second / 3600 for s in starts])
    days = np.array([s.toordinal() for s in starts])
    replaced = np.zeros(table.shape)
    claims = np.zeros(table.shape[1])
    for low, high in (FALL, RISE):
        inside = (hours >= low) & (hours <= high)
        for columns in _segments(inside, days):
            x = hours[columns[0]] - low
            y = np.concatenate([table[:, c] for c in columns])
            a, b = fit_exponentials(x, y)
            fitted = a[:, None] * np.exp(b[:, None] * x)
            for piece, c in zip(np.split(fitted, len(columns)), columns, strict=True):
                replaced[:, c] += piece
                claims[c] += 1
    result: NDArray[np.float64] = np.where(claims > 0, replaced / np.maximum(claims, 1), table)
    return result


def _segments(inside: NDArray[np.bool_], days: NDArray[np.int64]) -> list[list[NDArray[np.int64]]]:
    """Slots of each day's segment, grouped so that days of one length are fitted together."""
    by_length: dict[int, list[NDArray[np.int64]]] = {}
    for day in np.unique(days[inside]):
        columns = np.flatnonzero(inside & (days == day))
        if columns.size >= 3:
            by_length.setdefault(columns.size, []).append(columns)
    return list(by_length.values())
