"""Folders whose numbers and posterior are known, to be asked."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from tests.statements import write_counts

from sfumato.io.write import write_arrays
from sfumato.model.time_grid import TimeGrid
from sfumato.published.posterior import POSTERIOR, packed
from sfumato.published.release import Release, read_release

IDS = ["a", "b", "c", "d"]
MONDAY = date(2024, 3, 4)
PAIRS = 32


def hours(first: date, last: date) -> TimeGrid:
    return TimeGrid.between(first, last, "1h", "Europe/Paris")


def daily(grid: TimeGrid) -> np.ndarray:
    """A rhythm: few at night, most at noon; zone a twice as many as b, and so on."""
    clock = np.array([start.hour for start in grid.starts()])
    rhythm = 1.2 - np.cos(2 * np.pi * clock / 24)
    return np.round(400 * np.outer([1.0, 0.5, 0.25, 0.24], rhythm), 3)


def published(
    folder: Path,
    grid: TimeGrid,
    values: np.ndarray,
    sd: float | None = 20.0,
    seed: int = 1,
    **more: Any,
) -> Release:
    """A folder of these counts; cells have errors of that size, and a level that all share.

    Args:
        folder: To be made.
        grid: Its slots.
        values: Its counts.
        sd: Of each cell's own error; without it the folder keeps no posterior.
        seed: Of the draws.
        more: What differs in the manifest.
    """
    folder.mkdir(parents=True)
    places, slots = values.shape
    if sd is not None:
        rng = np.random.default_rng(seed)
        arrays = packed(
            level=0.02 * rng.standard_normal(PAIRS),
            places=np.zeros((PAIRS, places)),
            slots=np.zeros((PAIRS, slots)),
            strengths=np.zeros((PAIRS, places, 1), np.float32),
            rhythms=np.zeros((slots, 1)),
            chance=np.full(values.shape, sd**2),
            piece=np.ones(places),
            coverage=0.9,
        )
        write_arrays(folder / POSTERIOR, arrays)
    ids = IDS[:places]
    kind = {"released": {"kind": "zones", "count": places, "sha256": "a" * 64}}
    return read_release(write_counts(folder, ids, grid, values, **(kind | more)))
