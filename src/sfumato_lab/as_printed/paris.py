"""The Paris release as printed (Acs & Castelluccia 2014), with every reading as an option.

Two passages can be read in two ways, and the defaults are argued here:

* *Noise of EFPAG.* Algorithm 2 calls EFPAG with epsilon/2, and the text has EFPAG halve that again
  for the choice of k: a variance of 8 l2^2 ln(4/delta) / epsilon^2, sigma = 393 at epsilon 0.3.
  Line 4 of Algorithm 4, taken literally, spends all that EFPAG was given on the noise
  (sigma = 197) and has the choice of k on top. Default: the text; `line_4=True` is the line. The
  figures' captions can also be read as giving EFPAG the whole epsilon, choice and all:
  `share_of_series=1.0` (sigma = 197 again, and a choice that is twice as sharp).
* *Cover.* The text subtracts overlapping zones' counts from a tower's count, which makes a
  fifth of them negative; what is meant is the part of the tower that no chosen zone covers.
  Default: what is meant; `CoverForm.PRINTED` follows the text.

*Fourier perturbation as printed*, for many series at once: FPA is Rastogi & Nath (2010); EFPA is
Acs, Chen & Castelluccia (2012); EFPAG is Acs & Castelluccia (2014, Alg. 4). k counts real
coefficients, so it means the same for both transforms. Reproduction only: floating-point noise,
per-cluster accounting. The schemes work on opened counts and public geometry.

What the printed calibrations do not guarantee stands below in plain words, for manifests and
tables; the arguments and counterexamples are in docs/guarantees.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.fourier import Transform, forward, inverse, keep_first, tail_norms
from sfumato.density.refine.spatial import merge_neighbours
from sfumato.density.refine.special_hours import smooth_nights
from sfumato.geography.cover import Cover
from sfumato.geography.overlay import Layout, Overlay

FLOAT_NOISE = "Noise is drawn in floating point, whose low bits can give a count away."
CLUSTERS_SHARE_USERS = (
    "Clusters hold different cells but the same users, so losses add over clusters; with "
    "Laplace noise the claimed epsilon is passed by up to a factor of about five."
)
CHOICE_NOT_CHARGED = (
    "The choice of k is made on top of noise that has used the whole budget of the series up."
)
CHOICE_COUNTED_ONCE = (
    "The choice of k is made in every cluster and charged once; the claimed number survives "
    "only because the Gaussian part is noisier than it needs to be."
)
PROBABILISTIC_DP = (
    "The claim is probabilistic differential privacy, which post-processing does not preserve."
)
COVER_SUBTRACTS_COUNTS = (
    "The cover correction subtracts other people's counts; one visit then moves the vector by "
    "more than one."
)
TRUE_N = "The histogram is divided by the true number of users, which no finite epsilon allows."
K_UNCAPPED = (
    "The total is scaled to the largest contribution in the sample, which was never enforced."
)
TOTALS_ROOT_L = (
    "The totals' sensitivity is taken as the square root of l; it is l. A claimed epsilon of "
    "0.15 is in truth 0.63."
)
TOTAL_ROOT_CAP = (
    "The grand total's sensitivity is taken as a square root; it is the cap itself. A claimed "
    "epsilon of 0.075 is in truth 1.7."
)


@dataclass(frozen=True, slots=True, eq=False)
class OpenedCounts:
    """True numbers that never leave the holder: pre-sampled counts and two totals.

    `sampled` is tower x slot with at most `limit` visits a user, `one_visit` counts one
    random visit of each user, `users` and `visits` are the true N and K.
    """

    sampled: NDArray[np.int64]
    limit: int
    one_visit: NDArray[np.int64]
    users: int
    visits: int


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """The public side: overlay, cover, where cells are, and the local starts of the slots."""

    overlay: Overlay
    cover: Cover
    zones: Layout
    towers: Layout
    starts: list[datetime]

    @property
    def cover_cells(self) -> Layout:
        """Layout of the cover's cells: its zones first, then its towers."""
        return self.zones.take(self.cover.zones).then(self.towers.take(self.cover.towers))


Series = NDArray[np.float64]
Draw = Callable[[tuple[int, ...]], Series]
"""Noise of a given shape."""


@dataclass(frozen=True, slots=True, eq=False)
class Perturbed:
    """Noisy series, one row a cluster, and how many coefficients each kept."""

    series: Series
    kept: NDArray[np.int64]


def gaussian_sigma(l2: float, epsilon: float, delta: float) -> float:
    """sqrt(2 ln(4/delta)) * l2 / epsilon, the calibration of the paper's Theorem 3."""
    return l2 * math.sqrt(2 * math.log(4 / delta)) / epsilon


def fpa(
    series: Series,
    k: int,
    epsilon: float,
    l2: float,
    rng: np.random.Generator,
    transform: Transform = Transform.DCT,
) -> Perturbed:
    """Keep the first k coefficients and add Laplace noise of scale sqrt(k) * l2 / epsilon."""
    kept = np.full(series.shape[0], k, dtype=np.int64)
    noise = rng.laplace(0.0, math.sqrt(k) * l2 / epsilon, series.shape)
    return _rebuilt(forward(series, transform) + noise, kept, transform)


def efpa(
    series: Series,
    epsilon: float,
    l2: float,
    rng: np.random.Generator,
    transform: Transform = Transform.DCT,
) -> Perturbed:
    """Choose k with half of epsilon, then Laplace noise with the other half."""
    half = epsilon / 2
    coefficients = forward(series, transform)
    k = np.arange(1, series.shape[1] + 1)
    cost = efpa_utility(coefficients, half, l2)
    kept = _choose(cost, half / (2 * l2), rng)
    scale = np.sqrt(k)[kept - 1] * l2 / half
    noise = rng.laplace(0.0, 1.0, series.shape) * scale[:, None]
    return _rebuilt(coefficients + noise, kept, transform)


def efpag(
    series: Series,
    epsilon: float,
    delta: float,
    l2: float,
    rng: np.random.Generator,
    transform: Transform = Transform.DCT,
    *,
    line_4: bool = False,
) -> Perturbed:
    """Choose k with half of epsilon, then Gaussian noise with the other half and delta.

    `line_4`: noise with all of epsilon, as line 4 of Algorithm 4 has it; the choice is not charged.
    """
    sigma = gaussian_sigma(l2, epsilon if line_4 else epsilon / 2, delta)
    return chosen(series, sigma, epsilon / 2, l2, rng, transform)


def chosen(
    series: Series,
    sigma: float,
    epsilon: float,
    l2: float,
    rng: np.random.Generator,
    transform: Transform = Transform.DCT,
) -> Perturbed:
    """Choose k by the exponential mechanism with epsilon; Gaussian noise of a given sigma."""
    coefficients = forward(series, transform)
    kept = _choose(efpag_utility(coefficients, sigma), epsilon / (2 * l2), rng)
    return _rebuilt(coefficients + rng.normal(0.0, sigma, series.shape), kept, transform)


def efpa_utility(coefficients: Series, epsilon: float, l2: float) -> Series:
    """Expected root squared error if the first k are kept, k = 1 … n; smaller is better."""
    k = np.arange(1, coefficients.shape[-1] + 1)
    result: Series = tail_norms(coefficients) + math.sqrt(2) * k * l2 / epsilon
    return result


def efpag_utility(coefficients: Series, sigma: float) -> Series:
    """The same for Gaussian noise of the given standard deviation."""
    k = np.arange(1, coefficients.shape[-1] + 1)
    result: Series = tail_norms(coefficients) + np.sqrt(k) * sigma
    return result


def _choose(cost: Series, factor: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """k with probability proportional to exp(-factor * cost), by the Gumbel trick."""
    return np.asarray(np.argmax(-factor * cost + rng.gumbel(size=cost.shape), axis=1) + 1)


def _rebuilt(noisy: Series, kept: NDArray[np.int64], transform: Transform) -> Perturbed:
    return Perturbed(inverse(keep_first(noisy, kept), transform), kept)


Table = NDArray[np.float64]
VISIT_CAP = 732
"""The paper's largest number of visits of one user, which it takes for a universal cap."""


class Noise(StrEnum):
    EFPAG = "efpag"
    EFPA = "efpa"
    FPA = "fpa"


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
    """Part of epsilon that EFPA(G) gets; 1.0 is a reading of the captions (sigma = 197)."""
    line_4: bool = False
    """EFPAG's noise as line 4 of Algorithm 4 has it (sigma = 197), not as the text (393)."""
    kept: int = 60
    """Coefficients that FPA keeps, which has no way to choose them. In the city of seed 8 (300,000
    people, epsilon 0.3) the chapter's form has an MRE of .259 with 30, .179 with 60, .178 with
    100; Laplace noise grows with their root, so the least that is enough."""
    tolerated: float = 0.01
    """The expected error of a cluster's series relative to its total, which sets tau."""

    @property
    def name(self) -> str:
        return f"{self.noise.value}{'' if self.improved else '-'}"

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the printed claim does not deliver."""
        found = [FLOAT_NOISE, CHOICE_COUNTED_ONCE]
        if self.noise is Noise.FPA:
            found = [FLOAT_NOISE]
        if self.noise is Noise.EFPAG:
            found.append(PROBABILISTIC_DP)
        else:
            found.append(CLUSTERS_SHARE_USERS)
        if self.line_4:
            found.append(CHOICE_NOT_CHARGED)
        if self.cover is CoverForm.PRINTED:
            found.append(COVER_SUBTRACTS_COUNTS)
        if self.improved:
            found += [TRUE_N, K_UNCAPPED]
        return tuple(found)

    def series_sigma(self, limit: int, slots: int) -> float:
        """Standard deviation of the noise on one coefficient when all are kept."""
        budget = self.epsilon * self.share_of_series
        if self.noise is Noise.EFPAG:
            spent = budget if self.line_4 else budget / 2
            return gaussian_sigma(math.sqrt(limit), spent, self.delta)
        if self.noise is Noise.FPA:
            return math.sqrt(2 * min(self.kept, slots) * limit) / budget
        return math.sqrt(2 * slots * limit) / (budget / 2)

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
            return efpa(together, budget, l2, rng, self.transform).series
        if self.noise is Noise.FPA:
            kept = min(self.kept, together.shape[1])
            return fpa(together, kept, budget, l2, rng, self.transform).series
        line_4, transform = self.line_4, self.transform
        found = efpag(together, budget, self.delta, l2, rng, transform, line_4=line_4)
        return found.series


def cover_counts(sampled: NDArray[np.int64], ground: Ground, form: CoverForm) -> Table:
    """Counts of the cover's cells, with the overlap resolved as meant or as printed."""
    if form is CoverForm.MEANT:
        return np.asarray(ground.cover.forward @ sampled)
    shares, cover = ground.overlay.shares, ground.cover
    zones = shares.T @ sampled
    covered = shares @ (zones * cover.zones[:, None])
    return np.concatenate((zones[cover.zones], (sampled - covered)[cover.towers]))
