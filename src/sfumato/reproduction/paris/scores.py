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
    """NaN in the slots that were left out."""
    series: Table
    """The example zone in the first repetition."""

    def mean(self, figure: str) -> float:
        return float(np.mean(self.runs[figure]))

    def spread(self, figure: str) -> float:
        values = self.runs[figure]
        return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def score(stage: Stage, case: Case, epsilon: float, repetitions: int, emd_every: int = 0) -> Score:
    """Draw and judge; the earth mover's distance in every `emd_every`-th slot, 0 for never."""
    runs: dict[str, list[float]] = {figure: [] for figure in FIGURES}
    sums: dict[str, Table] = {}
    series = np.zeros(0)
    for repetition in range(repetitions):
        table = case.draw(stage, epsilon, repetition)
        relative = metrics.relative_error(stage.truth, table)
        pearson = metrics.pearson(stage.truth, table)
        moved = _moved(stage, table, emd_every)
        runs["mre"].append(float(relative.mean()))
        runs["pearson"].append(float(pearson.mean()))
        runs["emd"].append(float(np.nanmean(moved)) if emd_every else float("nan"))
        if repetition == 0:
            series = table[stage.example].copy()
        for name, values in (
            ("zone_mre", relative.mean(axis=1)),
            ("zone_pearson", pearson),
            ("slot_mre", relative.mean(axis=0)),
            ("slot_emd", moved),
        ):
            sums[name] = sums.get(name, 0.0) + values / repetitions
    return Score(case.label, epsilon, runs, series=series, **sums)


def _moved(stage: Stage, table: Table, every: int) -> Table:
    found: Table = np.full(table.shape[1], np.nan)
    for slot in range(0, table.shape[1], every) if every else ():
        found[slot] = earth_mover_distance(stage.truth[:, slot], table[:, slot], stage.metres)
    return found
