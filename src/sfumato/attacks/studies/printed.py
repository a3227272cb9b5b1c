"""The four schemes of Chen et al. as printed, attacked: accuracy against epsilon (Figure 6).

Thresholds and cut-offs are not printed; taken here: a quarter of the day's mean distance, as
their text has it for the dynamic scheme, and four publications. Their consistency step (non-
negative whole numbers that keep the noisy total) is applied to each, as in their experiments.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sfumato.stream.consistency import random_decrements
from sfumato.stream.published.basic import direct, distances, threshold
from sfumato.stream.published.hybrid import dynamic_hybrid, static_hybrid

CUTOFF = 4
Printed = Callable[[NDArray[np.int64], float, np.random.Generator], NDArray[np.float64]]


def printed_schemes(past: NDArray[np.int64]) -> dict[str, Printed]:
    """By the paper's names; `past` is day x slot x cell, for the dynamic scheme alone."""

    def limit(raw: NDArray[np.int64]) -> float:
        return float(distances(raw).mean()) / 4

    return {
        "dir-P": lambda raw, epsilon, rng: direct(raw, epsilon, rng),
        "th-P": lambda raw, epsilon, rng: threshold(raw, epsilon, limit(raw), CUTOFF, rng)[0],
        "sta-HP": lambda raw, epsilon, rng: static_hybrid(raw, epsilon, limit(raw), CUTOFF, rng)[0],
        "dy-HP": lambda raw, epsilon, rng: dynamic_hybrid(
            past, raw, epsilon, limit(raw), (CUTOFF, CUTOFF), rng
        )[0],
    }


def publish_printed(
    scheme: Printed,
    counts: NDArray[np.int64],
    epsilon: float,
    seed: int,
    *,
    consistent: bool = True,
) -> NDArray[np.float64]:
    """Cell x slot of one run, made consistent slot by slot unless it is to stay as it is."""
    rng = np.random.default_rng([seed, 0xC4])
    noisy = scheme(np.ascontiguousarray(counts.T), epsilon, rng)
    if not consistent:
        return np.ascontiguousarray(noisy.T)
    out = np.empty_like(noisy)
    for t, values in enumerate(noisy):
        # A histogram that is only repeated stays what it was made the first time.
        same = t > 0 and np.array_equal(values, noisy[t - 1])
        out[t] = out[t - 1] if same else random_decrements(values, rng)
    return np.ascontiguousarray(out.T)
