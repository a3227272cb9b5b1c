"""Repeated draws of one method, scored against the truth: mean and spread.

A score is kept in a file, so that a study that was stopped goes on where it was and several
studies of one city can run side by side.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.io.writers import write_atomically
from sfumato.reproduction.paris.cases import Case
from sfumato.reproduction.paris.stage import Stage
from sfumato.utility import metrics
from sfumato.utility.earth_mover import earth_mover_distance

Table = NDArray[np.float64]
FIGURES = ("mre", "pearson", "emd")
_ARRAYS = ("zone_mre", "zone_pearson", "slot_mre", "slot_emd", "series")


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
        return _mean(np.array(self.runs[figure]))

    def spread(self, figure: str) -> float:
        """Standard deviation over the repetitions that have the figure."""
        values = np.array(self.runs[figure])
        values = values[np.isfinite(values)]
        return float(np.std(values, ddof=1)) if values.size > 1 else float("nan")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done for one score: draws, and in which of them distances are taken."""

    repetitions: int
    emd_every: int = 0
    """The earth mover's distance in every so many slots, 0 for never."""
    emd_repetitions: int = 1 << 30
    """In the first so many repetitions."""


def kept_score(stage: Stage, case: Case, epsilon: float, effort: Effort, folder: Path) -> Score:
    """The score from its file, or a new one that is then kept."""
    made_of = (version("sfumato"), case.label, epsilon, effort, stage.seed, stage.users)
    name = repr((*made_of, len(stage.towers), len(stage.zones)))
    path = folder / f"{zlib.crc32(name.encode()):08x}.internal.npz"
    if path.is_file():
        with np.load(path) as held:
            if str(held["name"]) == name:
                runs = {figure: held[figure].tolist() for figure in FIGURES}
                return Score(case.label, epsilon, runs, **{key: held[key] for key in _ARRAYS})
    found = score(stage, case, epsilon, effort)
    arrays: dict[str, Table] = {key: getattr(found, key) for key in _ARRAYS}
    arrays |= {figure: np.array(values) for figure, values in found.runs.items()}

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, name=np.array(name), **arrays)

    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, save)
    return found


def score(stage: Stage, case: Case, epsilon: float, effort: Effort) -> Score:
    """Draw and judge.

    Repetition r begins at slot r modulo `emd_every`, so that together they meet every slot.
    """
    repetitions, emd_every = effort.repetitions, effort.emd_every
    runs: dict[str, list[float]] = {figure: [] for figure in FIGURES}
    sums: dict[str, Table] = {}
    metres = np.full((repetitions, stage.grid.slots), np.nan)
    series = np.zeros(0)
    for repetition in range(repetitions):
        table = case.draw(stage, epsilon, repetition)
        relative = metrics.relative_error(stage.truth, table)
        pearson = metrics.pearson(stage.truth, table)
        if emd_every and repetition < effort.emd_repetitions:
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
