"""Direct and threshold perturbation as printed (Chen et al., Algorithms 1 and 2).

NOT GUARANTEED: floating-point Laplace noise (its low bits give values away). Algorithm 1
is otherwise sound; its loop from 0 to S would release S + 1 histograms, here it is S.
Algorithm 2 is right by two errors that cancel: the distance to the *noisy* last histogram
has sensitivity 1 and not 2, and both scales are half of what a refreshed sparse vector needs.
Its experiments take the threshold from the day's own raw distances, which nothing pays for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.stream.contract import Values

Raw = NDArray[np.int64]
"""Slot x cell."""
DISTANCE_SENSITIVITY = 2.0


def direct(raw: Raw, epsilon: float, rng: np.random.Generator, slots: int | None = None) -> Values:
    """Laplace noise of scale S / epsilon on every count."""
    scale = (raw.shape[0] if slots is None else slots) / epsilon
    return np.asarray(raw + rng.laplace(0.0, scale, raw.shape), dtype=np.float64)


def threshold(
    raw: Raw,
    epsilon: float,
    limit: float,
    cutoff: int,
    rng: np.random.Generator,
    alpha: float = 0.5,
) -> tuple[Values, NDArray[np.bool_]]:
    """Algorithm 2 line by line; also which slots were published anew.

    Neither the share `alpha` nor the cut-off is printed. What is left at the last slot is
    taken as epsilon (1 - cnt/c): the open comparison is charged.
    """
    first, second = alpha * epsilon, (1 - alpha) * epsilon
    slots, cells = raw.shape
    if slots == 0:
        return np.empty((0, cells)), np.zeros(0, dtype=bool)
    spread = cutoff * DISTANCE_SENSITIVITY
    out, fresh = np.empty((slots, cells)), np.zeros(slots, dtype=bool)
    out[0] = raw[0] + rng.laplace(0.0, spread / second, cells)
    fresh[0] = True
    bar = limit + rng.laplace(0.0, spread / first)
    count = 1
    for i in range(1, slots):
        out[i] = out[i - 1]
        if count >= cutoff:
            continue
        if i == slots - 1:
            left = epsilon * (1 - count / cutoff)
            out[i] = raw[i] + rng.laplace(0.0, DISTANCE_SENSITIVITY / left, cells)
            fresh[i] = True
            continue
        apart = np.abs(out[i - 1] - raw[i]).sum() + rng.laplace(0.0, 2 * spread / first)
        if apart >= bar:
            out[i] = raw[i] + rng.laplace(0.0, spread / second, cells)
            fresh[i] = True
            count += 1
            bar = limit + rng.laplace(0.0, spread / first)
    return out, fresh


def distances(raw: Raw) -> Values:
    """L1 distances between successive slots: raw, and internal."""
    return np.asarray(np.abs(np.diff(raw, axis=0)).sum(axis=1), dtype=np.float64)
