"""The Paris release as printed (Acs & Castelluccia 2014), with every reading as an option.

Two passages can be read in two ways, and the defaults are argued here:

* *Budget of EFPAG.* Algorithm 2 calls EFPAG with epsilon/2, which EFPAG halves again for
  the choice of k: sigma = 393 at epsilon 0.3. The figures' captions can be read as giving
  EFPAG the whole epsilon (sigma = 197). Default: as the algorithm is written.
* *Cover.* The text subtracts overlapping zones' counts from a tower's count, which makes a
  fifth of them negative; what is meant is the part of the tower that no chosen zone covers.
  Default: what is meant; `CoverForm.PRINTED` follows the text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sfumato.density.published import caveats, perturbation
from sfumato.density.published.inputs import Ground, OpenedCounts
from sfumato.density.refine.clusters import merge_neighbours
from sfumato.density.refine.fourier import Transform
from sfumato.density.refine.nights import smooth_nights

Table = NDArray[np.float64]
VISIT_CAP = 732
"""The paper's largest number of visits of one user, which it takes for a universal cap."""


class Noise(StrEnum):
    EFPAG = "efpag"
    EFPA = "efpa"


class CoverForm(StrEnum):
    MEANT = "meant"
    PRINTED = "printed"


@dataclass(frozen=True, slots=True)
class PublishedParis:
    """Algorithm 1 with its options; `improved=False` is the variant without section 5.4."""

    epsilon: float
    delta: float = 2e-6
    noise: Noise = Noise.EFPAG
    improved: bool = True
    cover: CoverForm = CoverForm.MEANT
    transform: Transform = Transform.DCT
    share_of_series: float = 0.5
    """Part of epsilon that EFPA(G) gets; 1.0 is the other reading (sigma = 197)."""
    tolerated: float = 0.01
    """The expected error of a cluster's series relative to its total, which sets tau."""

    @property
    def name(self) -> str:
        return f"{self.noise.value}{'' if self.improved else '-'}"

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the printed claim does not deliver."""
        found = [caveats.FLOAT_NOISE, caveats.CHOICE_COUNTED_ONCE]
        if self.noise is Noise.EFPA:
            found.append(caveats.CLUSTERS_SHARE_USERS)
        else:
            found.append(caveats.PROBABILISTIC_DP)
        if self.cover is CoverForm.PRINTED:
            found.append(caveats.COVER_SUBTRACTS_COUNTS)
        if self.improved:
            found += [caveats.TRUE_N, caveats.K_UNCAPPED]
        return tuple(found)

    def series_sigma(self, limit: int, slots: int) -> float:
        """Standard deviation of the noise on one coefficient when all are kept."""
        half = self.epsilon * self.share_of_series / 2
        if self.noise is Noise.EFPAG:
            return perturbation.gaussian_sigma(math.sqrt(limit), half, self.delta)
        return math.sqrt(2) * math.sqrt(slots) * math.sqrt(limit) / half

    def threshold(self, limit: int, slots: int) -> float:
        """tau: the total at which the expected error is the tolerated share of it."""
        return math.sqrt(slots) * self.series_sigma(limit, slots) / self.tolerated

    def run(self, counts: OpenedCounts, ground: Ground, rng: np.random.Generator) -> Table:
        """The noisy zone x slot table."""
        series = cover_counts(counts.sampled, ground, self.cover)
        totals = self._totals(counts, series, ground, rng)
        cells = ground.cover_cells
        slots = series.shape[1]
        label = merge_neighbours(
            totals, cells.centres, cells.areas, self.threshold(counts.limit, slots)
        )
        together = np.zeros((label.max() + 1, slots))
        np.add.at(together, label, series)
        noisy = np.maximum(self._perturb(together, counts.limit, rng), 0.0)
        weight = noisy.sum(axis=1, keepdims=True)
        shape = np.where(weight > 0, noisy / np.where(weight > 0, weight, 1.0), 1 / slots)
        table = np.maximum(totals, 0.0)[:, None] * shape[label]
        if self.improved:
            table = smooth_nights(table, ground.starts)
        return np.asarray(ground.cover.back @ table)

    def _totals(
        self, counts: OpenedCounts, series: Table, ground: Ground, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        if not self.improved:
            scale = 2 * counts.limit / self.epsilon
            return np.asarray(series.sum(axis=1) + rng.laplace(0, scale, series.shape[0]))
        budget = self.epsilon * (1 - self.share_of_series) or self.epsilon / 2
        histogram = counts.one_visit + rng.laplace(0, 2 / budget, counts.one_visit.size)
        visits = counts.visits + rng.laplace(0, 2 * VISIT_CAP / budget)
        return np.asarray(ground.cover.forward @ (histogram / counts.users * visits))

    def _perturb(self, together: Table, limit: int, rng: np.random.Generator) -> Table:
        budget, l2 = self.epsilon * self.share_of_series, math.sqrt(limit)
        if self.noise is Noise.EFPA:
            return perturbation.efpa(together, budget, l2, rng, self.transform).series
        return perturbation.efpag(together, budget, self.delta, l2, rng, self.transform).series


def cover_counts(sampled: NDArray[np.int64], ground: Ground, form: CoverForm) -> Table:
    """Counts of the cover's cells, with the overlap resolved as meant or as printed."""
    if form is CoverForm.MEANT:
        return np.asarray(ground.cover.forward @ sampled)
    shares, cover = ground.overlay.shares, ground.cover
    zones = shares.T @ sampled
    covered = shares @ (zones * cover.zones[:, None])
    return np.concatenate((zones[cover.zones], (sampled - covered)[cover.towers]))
