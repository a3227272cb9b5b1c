"""The methods compared in the study of Paris, what the papers print of them, and their scores.

Methods: printed forms with their sample size, corrected schemes. What is printed is from Acs &
Castelluccia (2014), and from the chapter of 2018 where it differs: averages over all zones at
epsilon 0.3 and l = 30 unless a key says otherwise. Figures that the papers only draw are not here.

A score is the mean and spread of repeated draws of one method against the truth. It is kept in a
file, so that a study that was stopped goes on where it was and several
studies of one city can run side by side.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.fourier import Transform
from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Parameter
from sfumato.io.write import make_folder, write_atomically
from sfumato.privacy.wall import Wall
from sfumato.utility import density as metrics
from sfumato.utility.earth_mover import earth_mover_distance
from sfumato_lab.as_printed.baselines import (
    PublishedChapter,
    PublishedGaussian,
    PublishedLaplace,
    Route,
)
from sfumato_lab.as_printed.paris import CoverForm, Ground, Noise, OpenedCounts, PublishedParis
from sfumato_lab.studies.paris.setup import Stage

PRINTED: dict[str, dict[str, float]] = {
    "EFPAG(30)": {"mre": 0.17, "pearson": 0.96, "emd": 188.0},
    "EFPA(30)": {"emd": 258.0},
    "LPA(30)": {"mre": 1.01, "pearson": 0.47, "emd": 341.0},
    "GPA(30)": {"mre": 1.01, "pearson": 0.47},
    "chapter(30)": {"mre": 0.17, "pearson": 0.96},
}
"""Method to figures."""

DIFFERENCES: tuple[tuple[str, str, str, float, float], ...] = (
    ("EFPAG instead of EFPA", "EFPA(30)", "EFPAG(30)", -0.03, 0.02),
    ("improvements, and l 168 to 30", "EFPAG⁻(168)", "EFPAG(30)", -0.07, 0.01),
)
"""What, from, to, change of MRE, change of Pearson; averages over epsilon."""

ONE_ZONE: dict[str, tuple[float, float]] = {
    "LPA(30)": (0.73, 0.59),
    "EFPAG⁻(30)": (0.38, 0.98),
    "EFPAG(30)": (0.16, 0.99),
}
"""Method to MRE and Pearson of the zone that Figures 3 to 5 show."""

COVER = {"towers": 1303, "zones": 989, "cells": 826, "zone_mean": 91.0, "cell_mean": 120.0}
"""Sizes and mean counts of Figures 1 and 2."""

DAYLIGHT_GAIN = 4.0
"""By how much the improvements divide the error in daylight, at best (Figure 9)."""


Table = NDArray[np.float64]
DELTA = 2e-6


class Printed(Protocol):
    """A printed scheme: opened counts and a generator in, a table out."""

    def run(self, counts: OpenedCounts, ground: Ground, rng: np.random.Generator) -> Table: ...


@dataclass(frozen=True, slots=True)
class Case:
    """One method: its label and how to draw one table at an epsilon."""

    label: str
    holds: bool
    """Whether the promised epsilon holds."""
    draw: Callable[[Stage, float, int], Table]
    slow: bool = False
    """Whether every draw reads the records again."""


def printed(label: str, limit: int, make: Callable[[float], Printed]) -> Case:
    """A printed form on at most `limit` visits a user."""

    def draw(stage: Stage, epsilon: float, repetition: int) -> Table:
        rng = np.random.default_rng([stage.seed, zlib.crc32(label.encode()), repetition])
        return make(epsilon).run(stage.opened(limit, repetition), stage.ground, rng)

    return Case(label, False, draw)


def corrected(name: str, label: str | None = None, **parameters: Parameter) -> Case:
    """A scheme that `release` publishes, with its default settings but for what is given."""
    shown = label or name

    def draw(stage: Stage, epsilon: float, repetition: int) -> Table:
        scheme = scheme_named(name)
        wall = Wall.seeded(zlib.crc32(f"{shown}|{stage.seed}|{repetition}".encode()))
        facts = replace(stage.facts(epsilon, DELTA), parameters=parameters)
        density = scheme.run(stage.source, wall, facts)
        return np.asarray(density.values, dtype=np.float64)

    return Case(shown, True, draw, slow=name == "bayes")


MAIN = (
    printed("LPA(30)", 30, lambda e: PublishedLaplace(e)),
    printed("EFPA(30)", 30, lambda e: PublishedParis(e, DELTA, Noise.EFPA)),
    printed("EFPAG(30)", 30, lambda e: PublishedParis(e, DELTA)),
)
"""The papers' own comparison, at every epsilon and with the earth mover's distance."""

CORRECTED = tuple(corrected(name) for name in ("laplace", "gaussian", "paris", "bayes"))

OPTIONS = (
    corrected("paris", "paris, one k chosen", keep="exponential"),
    corrected("paris", "paris, a k for each cluster", keep="exponential", cut="each"),
    corrected("paris", "paris, pure ε", noise="laplace"),
    corrected("paris", "paris on the cover", space="cover"),
    corrected("grouping"),
)
"""The corrected release closer to the paper's, and its closest rival."""

SAMPLES = tuple(
    case
    for limit in (10, 168)
    for case in (
        printed(f"LPA({limit})", limit, lambda e: PublishedLaplace(e)),
        printed(f"EFPAG({limit})", limit, lambda e: PublishedParis(e, DELTA)),
    )
)
"""Figure 7, beside l = 30."""

VARIANTS = tuple(
    printed(f"EFPAG⁻({limit})", limit, lambda e: PublishedParis(e, DELTA, improved=False))
    for limit in (168, 30)
)
"""Figure 8, beside the methods above."""

READINGS = (
    printed(
        "EFPAG(30), DFT",
        30,
        lambda e: PublishedParis(e, DELTA, transform=Transform.DFT),
    ),
    printed(
        "EFPAG(30), all of ε",
        30,
        lambda e: PublishedParis(e, DELTA, share_of_series=1.0),
    ),
    printed("EFPAG(30), line 4", 30, lambda e: PublishedParis(e, DELTA, line_4=True)),
    printed("FPA(30), k 60", 30, lambda e: PublishedParis(e, DELTA, Noise.FPA)),
    printed(
        "EFPAG(30), cover as printed",
        30,
        lambda e: PublishedParis(e, DELTA, cover=CoverForm.PRINTED),
    ),
    printed("LPA(30), zones", 30, lambda e: PublishedLaplace(e, Route.ZONES)),
    printed("LPA(30), towers", 30, lambda e: PublishedLaplace(e, Route.TOWERS)),
)
"""Ablations and the other readings of the text, at the middle epsilon."""

CHAPTER = (
    printed("GPA(30)", 30, lambda e: PublishedGaussian(e, DELTA)),
    printed("chapter⁻(30)", 30, lambda e: PublishedChapter(e, DELTA, improved=False)),
    printed("chapter(30)", 30, lambda e: PublishedChapter(e, DELTA)),
    printed("chapter(30), k 30", 30, lambda e: PublishedChapter(e, DELTA, kept=30)),
)
"""The chapter's Figures 3 to 5."""


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
    name = repr((*made_of, len(stage.towers), len(stage.zones), stage.zone))
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

    make_folder(folder)
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
