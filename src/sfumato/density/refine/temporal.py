"""The rest in time: a Wiener filter whose kernel is a likely mixture of known kernels.

Rows (places) are independent draws of a Gaussian process over slots plus white noise of
known variance. Its covariance is a non-negative mixture of kernels a city may have: daily
periodic, periodic within weekdays and weekends, the day as a whole, slow and fast changes,
and white variation of the counts themselves. The mixture is found by maximum likelihood (a
multiplicative fixed point that never leaves the positive orthant); the filter is then the
posterior mean, direction by direction of its own basis. Directions that were explained before
are taken out of the model. Where a direction stands out of the white variation, neighbours may
be asked too: a filter in space can be given for those.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.calendar import Calendar
from sfumato.density.refine.spatial import Filtered

Matrix = NDArray[np.float64]
_ROUNDS = 120
_LARGEST = 400
"""Slots above which the filter works on equal spans of at most this length, one by one."""
_SHARED = 0.05
"""Variance beyond the white one, in units of the noise, from which neighbours are asked."""

FieldFilter = Callable[[NDArray[np.float64], float], Filtered]
"""From a noisy field over places and its noise variance to its posterior."""


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed:
    """Posterior mean and variance (rows x slots), and the mixture found."""

    mean: Matrix
    variance: Matrix
    mixture: NDArray[np.float64]


def kernels(calendar: Calendar) -> list[Matrix]:
    """The kernels of the mixture, each with a unit diagonal; the last one is white."""
    at, hour = calendar.at, calendar.hour
    apart = np.abs(at[:, None] - at[None])
    on_clock = np.abs(hour[:, None] - hour[None])
    on_clock = np.minimum(on_clock, 24 - on_clock)
    daily = np.exp(-np.square(on_clock) / (2 * 1.5**2))
    same_kind = calendar.weekend[:, None] == calendar.weekend[None]
    same_day = calendar.day[:, None] == calendar.day[None]
    return [
        daily,
        daily * same_kind,
        same_day.astype(np.float64),
        np.exp(-np.square(apart) / (2 * 2.5**2)),
        np.exp(-apart / 36.0),
        np.eye(at.size),
    ]


def wiener(
    rows: Matrix,
    noise_variance: float,
    calendar: Calendar,
    removed: Matrix,
    in_space: FieldFilter | None = None,
) -> Smoothed:
    """Filter every row; `removed` (slots x k, orthonormal) spans what the rows lack."""
    slots = rows.shape[1]
    count = -(-slots // _LARGEST)
    edges = [slots * k // count for k in range(count + 1)]
    spans = [slice(a, b) for a, b in itertools.pairwise(edges)]
    if len(spans) == 1:
        return _wiener(rows, noise_variance, kernels(calendar), removed, in_space)
    parts = []
    for span in spans:
        piece = Calendar(*(getattr(calendar, name)[span] for name in calendar.__slots__))
        nothing = np.zeros((piece.at.size, 0))
        parts.append(_wiener(rows[:, span], noise_variance, kernels(piece), nothing, in_space))
    return Smoothed(
        np.concatenate([part.mean for part in parts], axis=1),
        np.concatenate([part.variance for part in parts], axis=1),
        parts[0].mixture,
    )


def _wiener(
    rows: Matrix,
    noise: float,
    shapes: list[Matrix],
    removed: Matrix,
    in_space: FieldFilter | None,
) -> Smoothed:
    slots = rows.shape[1]
    if noise <= 0.0 or removed.shape[1] >= slots:
        return Smoothed(rows.copy(), np.zeros(rows.shape), np.zeros(len(shapes)))
    whole = np.linalg.qr(np.column_stack((removed, np.eye(slots))))[0]
    rest = whole[:, removed.shape[1] : slots]
    inner = [rest.T @ shape @ rest for shape in shapes]
    seen = rows @ rest
    moments = seen.T @ seen / max(rows.shape[0], 1)
    mixture = _likeliest(moments, inner, noise)
    signal = sum((w * k for w, k in zip(mixture, inner, strict=True)), np.zeros_like(moments))
    power, directions = np.linalg.eigh(signal)
    power = np.maximum(power, 0.0)
    lifted = rest @ directions
    along = rows @ lifted
    mean = along * (power / (power + noise))
    variance = np.broadcast_to(power * noise / (power + noise), along.shape).copy()
    if in_space is not None:
        for k in np.flatnonzero(power - mixture[-1] > _SHARED * noise):
            field = in_space(along[:, k], noise)
            mean[:, k], variance[:, k] = field.mean, field.variance
    return Smoothed(mean @ lifted.T, variance @ np.square(lifted).T, mixture)


def _likeliest(moments: Matrix, shapes: list[Matrix], noise: float) -> NDArray[np.float64]:
    """Weights of the kernels, by w <- w * sqrt(evidence / expectation) until they rest."""
    size = moments.shape[0]
    excess = max(float(np.trace(moments)) / size - noise, 1e-3 * noise)
    weights = np.full(len(shapes), excess / len(shapes))
    white = noise * np.eye(size)
    for _ in range(_ROUNDS):
        total = sum((w * k for w, k in zip(weights, shapes, strict=True)), white)
        inverse = np.linalg.inv(total)
        evidence = inverse @ moments @ inverse
        ratio = [
            max(float(np.sum(evidence * k)), 0.0) / max(float(np.sum(inverse * k)), 1e-300)
            for k in shapes
        ]
        update = weights * np.sqrt(ratio)
        still = float(np.max(np.abs(update - weights))) < 1e-3 * float(update.max() + 1e-9 * noise)
        weights = update
        if still:
            break
    return weights
