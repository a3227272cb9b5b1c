"""How far a published stream is from the truth, where it counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.stream.contract import Values

BUSIEST = 200
PRINTED_BOUND = 0.001


@dataclass(frozen=True, slots=True)
class Score:
    """Means over slots and seeds. `busiest` is over the 200 cells with most people."""

    all_cells: float
    busiest: float
    relative: float
    """|error| / max(truth, 0.1 % of the slot's total), over the busiest cells."""
    printed_relative: float
    """Chen et al.: |error| / max(0.001, published), over all cells; empty cells decide it."""


def score(truth: NDArray[np.int64], published: Values) -> Score:
    """Both are slot x cell."""
    error = np.abs(published - truth)
    busy = np.argsort(-truth.sum(axis=0), kind="stable")[:BUSIEST]
    sane = np.maximum(truth[:, busy], 0.001 * truth.sum(axis=1, keepdims=True))
    sane = np.maximum(sane, 1.0)
    return Score(
        float(error.mean()),
        float(error[:, busy].mean()),
        float((error[:, busy] / sane).mean()),
        float((error / np.maximum(PRINTED_BOUND, published)).mean()),
    )


def mean_score(scores: list[Score]) -> Score:
    """The mean of several seeds."""
    fields = zip(
        *((s.all_cells, s.busiest, s.relative, s.printed_relative) for s in scores), strict=True
    )
    return Score(*(float(np.mean(values)) for values in fields))
