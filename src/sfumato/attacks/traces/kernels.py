"""Compiled: moving averages, unicity and heat-map distances."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled
def recursive_mean(vectors: Floats, starts: Ints, k: int) -> Floats:
    """Every value from the (k+1)-th of a run on is the mean of the k *outputs* before it."""
    out = vectors.copy()
    for run in range(starts.size - 1):
        for i in range(starts[run] + k, starts[run + 1]):
            for c in range(3):
                total = 0.0
                for j in range(i - k, i):
                    total += out[j, c]
                out[i, c] = total / k
    return out


@compiled
def centred_mean(vectors: Floats, starts: Ints, k: int) -> Floats:
    """Mean of the k inputs around each value, fewer at the ends of a run."""
    out = np.empty_like(vectors)
    for run in range(starts.size - 1):
        first, last = starts[run], starts[run + 1]
        for i in range(first, last):
            low, high = max(first, i - k // 2), min(last, i - k // 2 + k)
            for c in range(3):
                total = 0.0
                for j in range(low, high):
                    total += vectors[j, c]
                out[i, c] = total / (high - low)
    return out


@compiled
def matching_users(points: Ints, offsets: Ints, users: Ints, most: int) -> Ints:
    """For every row of point numbers: how many users have been at all of them (up to `most`).

    `users[offsets[p] : offsets[p + 1]]` are the users of point p, ascending.
    """
    matches = np.zeros(points.shape[0], np.int64)
    for row in range(points.shape[0]):
        shortest, size = 0, np.int64(1 << 62)
        for k in range(points.shape[1]):
            here = offsets[points[row, k] + 1] - offsets[points[row, k]]
            if here < size:
                shortest, size = k, here
        p = points[row, shortest]
        for at in range(offsets[p], offsets[p + 1]):
            user, everywhere = users[at], True
            for k in range(points.shape[1]):
                low, high = offsets[points[row, k]], offsets[points[row, k] + 1]
                while low < high:
                    middle = (low + high) // 2
                    if users[middle] < user:
                        low = middle + 1
                    else:
                        high = middle
                if low >= offsets[points[row, k] + 1] or users[low] != user:
                    everywhere = False
                    break
            if everywhere:
                matches[row] += 1
                if matches[row] >= most:
                    break
    return matches


@compiled
def topsoe(
    from_a: Ints, cell_a: Ints, share_a: Floats, from_b: Ints, cell_b: Ints, share_b: Floats
) -> Floats:
    """Topsoe divergence of every heat map of a from every one of b (sorted sparse rows)."""
    out = np.empty((from_a.size - 1, from_b.size - 1))
    for i in range(from_a.size - 1):
        for j in range(from_b.size - 1):
            x, y = from_a[i], from_b[j]
            total = 2.0 * math.log(2.0)
            while x < from_a[i + 1] and y < from_b[j + 1]:
                if cell_a[x] < cell_b[y]:
                    x += 1
                elif cell_a[x] > cell_b[y]:
                    y += 1
                else:
                    p, q = share_a[x], share_b[y]
                    total += p * math.log(p / (p + q)) + q * math.log(q / (p + q))
                    x += 1
                    y += 1
            out[i, j] = total
    return out
