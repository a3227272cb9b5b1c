"""How well a one-off crowd is told: the cells that a match fills, released over true."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.city.write import STATEMENT
from sfumato.model.time_grid import TimeGrid

Table = NDArray[np.float64]
TIMES_USUAL = 3.0
"""A cell belongs to the crowd where it holds this many times what it does on other days."""


def crowd_cells(folder: Path, grid: TimeGrid, truth: Table) -> NDArray[np.bool_] | None:
    """Zone x slot: where and when the match was; None for a city without one."""
    match = json.loads((folder / STATEMENT).read_text("utf-8"))["plan"]["match"]
    if match is None:
        return None
    starts = grid.starts()
    day = np.array([(s.date() - starts[0].date()).days for s in starts])
    hour = np.array([s.hour for s in starts])
    within = (hour >= match["hour"]) & (hour < match["hour"] + match["hours"])
    found = np.zeros(truth.shape, dtype=np.bool_)
    usual = np.array(
        [truth[:, (hour == h) & (day != match["day"])].mean(axis=1) for h in range(24)]
    )
    for slot in np.flatnonzero(within & (day == match["day"])):
        base = usual[hour[slot]]
        found[:, slot] = truth[:, slot] > TIMES_USUAL * np.maximum(base, 1.0)
    return found


def crowd_bias(truth: Table, released: Table, cells: NDArray[np.bool_] | None) -> float | None:
    """Relative error of the crowd's total."""
    if cells is None or not cells.any():
        return None
    return float(released[cells].sum() / truth[cells].sum() - 1.0)
