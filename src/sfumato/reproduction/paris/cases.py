"""The methods that are compared: printed forms with their sample size, corrected schemes."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.density.published.baselines import (
    PublishedChapter,
    PublishedGaussian,
    PublishedLaplace,
    Route,
)
from sfumato.density.published.inputs import Ground, OpenedCounts
from sfumato.density.published.paris import CoverForm, Noise, PublishedParis
from sfumato.density.refine.fourier import Transform
from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Parameter
from sfumato.privacy.wall import Wall
from sfumato.reproduction.paris.stage import Stage

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
)
"""The chapter's Figures 3 to 5."""
