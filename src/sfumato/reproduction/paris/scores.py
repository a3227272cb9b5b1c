"""Repeated draws of one method, scored against the truth: mean and spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.reproduction.paris.cases import Case
from sfumato.reproduction.paris.stage import Stage
from sfumato.utility import metrics
from sfumato.utility.earth_mover import earth_mover_distance

Table = NDArray[np.float64]
FIGURES = ("mre", "pearson", "emd")


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """A method at an epsilon: figures of each repetition, and their means by zone and slot."""

    label: str
    epsilon: float
    runs: dict[str, list[float]]
    zone_mre: Table
    zone_pearson: Table
    slot_mre: Table
    slot_emd: Table
    """Mean of the repetitions that took the slot; NaN where none did."""
    series: Table
    """The example zone in the first repetition."""

    def mean(self, figure: str) -> float:
        return float(np.mean(self.runs[figure]))

    def spread(self, figure: str) -> float:
        values = self.runs[figure]
        return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def score(stage: Stage, case: Case, epsilon: float, repetitions: int, emd_every: int = 0) -> Score:
    """Draw and judge; the earth mover's distance in every `emd_every`-th slot, 0 for never.

    Repetition r begins at slot r modulo `emd_every`, so that together they meet every slot.
    """
    runs: dict[str, list[float]] = {figure: [] for figure in FIGURES}
    sums: dict[str, Table] = {}
    metres = np.full((repetitions, stage.grid.slots), np.nan)
    series = np.zeros(0)
    for repetition in range(repetitions):
        table = case.draw(stage, epsilon, repetition)
        relative = metrics.relative_error(stage.truth, table)
        pearson = metrics.pearson(stage.truth, table)
        if emd_every:
            metres[repetition] = _moved(stage, table, repetition % emd_every, emd_every)
        runs["mre"].append(float(relative.mean()))
        runs["pearson"].append(float(pearson.mean()))
        runs["emd"].append(_mean(metres[repetition]))
        if repetition == 0:
            series = table[stage.example].copy()
        for name, values in (
            ("zone_mre", relative.mean(axis=1)),
            ("zone_pearson", pearson),
            ("slot_mre", relative.mean(axis=0)),
        ):
            sums[name] = sums.get(name, 0.0) + values / repetitions
    by_slot = np.array([_mean(column) for column in metres.T])
    return Score(case.label, epsilon, runs, series=series, slot_emd=by_slot, **sums)


def _moved(stage: Stage, table: Table, first: int, every: int) -> Table:
    found: Table = np.full(table.shape[1], np.nan)
    for slot in range(first, table.shape[1], every):
        found[slot] = earth_mover_distance(stage.truth[:, slot], table[:, slot], stage.metres)
    return found


def _mean(values: Table) -> float:
    """Mean of what is there; NaN where nothing is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else float("nan")
