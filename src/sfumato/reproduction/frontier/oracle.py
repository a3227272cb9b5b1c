"""The linear oracle: how well any linear filter could read the measurement that `bayes` takes.

A Wiener filter on the very same noisy matrix that is told what nobody may know: the temporal
eigenbasis of the clean residual, its spectrum, and for each component the likeliest spatial
kernel. The margins stay the noisy ones, and the way back (weights, level, raking) is that of
`bayes`, but for what it does about crowds, which is not linear. It protects nobody and exists
for made-up people only: the line of the possible.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.density.bayes import Bayes
from sfumato.density.bayes import scheme as recipe
from sfumato.density.bayes.inference import Ground, Margins, matrix_weights, prepare
from sfumato.density.bayes.settings import expected_visits, settings_for
from sfumato.density.refine.raking import rake
from sfumato.density.scheme import Density, PublicFacts
from sfumato.model.source import Source
from sfumato.privacy.door import open_private
from sfumato.reproduction.frontier.box_keeping import BoxKeepingWall
from sfumato.reproduction.frontier.kernels_of_space import Bank

Table = NDArray[np.float64]
_FLOOR = 0.02
"""Least count relative to the field of the margins, as in `bayes`."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One weighted matrix, clean and noisy, and what leads back from it."""

    ground: Ground
    scale: Table
    """What a visit counts in each cell: its weight, and how far heavy users are held down."""
    noisy: Table
    clean: Table
    sigma: float


@dataclass(slots=True, eq=False)
class Oracle:
    """The filter for one city; its kernels are made from true sizes, once."""

    truth: Table
    _bank: Bank | None = field(default=None, repr=False)

    def with_bayes(
        self, source: Source, wall: BoxKeepingWall, facts: PublicFacts
    ) -> tuple[Density, Table]:
        """One draw of `bayes`, and the oracle on the same noise."""
        density = Bayes().run(source, wall, facts)
        return density, self.read(frame_of(wall, facts))

    def read(self, frame: Frame) -> Table:
        """The filtered table."""
        ground, scale = frame.ground, frame.scale
        prior = scale * ground.field
        level = max(float((frame.noisy * prior).sum() / np.square(prior).sum()), 1e-9)
        clean, noisy = frame.clean - level * prior, frame.noisy - level * prior
        axes = np.linalg.svd(clean, full_matrices=True)[2].T
        found = self._kernels(ground).wiener(clean @ axes, noisy @ axes, frame.sigma**2) @ axes.T
        table = np.maximum((level * prior + found) / (scale * level), _FLOOR * ground.field)
        table *= ground.places.sum() / table.sum()
        slots = ground.slots * (ground.places.sum() / ground.slots.sum())
        return rake(table, ground.places, slots)

    def _kernels(self, ground: Ground) -> Bank:
        if self._bank is None:
            totals = np.maximum(self.truth.sum(axis=1), 1e-3 * self.truth.sum(axis=1).mean())
            self._bank = Bank.over(ground.centres, np.sqrt(totals / totals.mean()))
        return self._bank


def frame_of(wall: BoxKeepingWall, facts: PublicFacts) -> Frame:
    """The matrix that a run of `bayes` measured on this wall, opened."""
    taken, settings = wall.taken, settings_for(facts)
    area = recipe._area(facts)
    total = taken.get(recipe.TOTAL)
    ground = prepare(
        Margins(
            places=taken[recipe.PLACES].estimate(),
            places_sd=taken[recipe.PLACES].sd,
            slots=taken[recipe.SLOTS].estimate(),
            slots_sd=taken[recipe.SLOTS].sd,
            total=None if total is None else float(total.estimate()[0]),
        ),
        area,
        recipe._centres(facts),
        facts.grid.starts(),
        facts.grid.ends(),
    )
    weights = matrix_weights(ground, area)
    expected = recipe._weighting(ground, area, weights, settings, expected_visits(facts))
    box = open_private(wall.boxes[recipe.MATRIX])
    return Frame(
        ground=ground,
        scale=weights * expected.of_visits,
        noisy=taken[recipe.MATRIX].estimate(),
        clean=box.values / np.float64(box.units_per_count),
        sigma=taken[recipe.MATRIX].sd,
    )
