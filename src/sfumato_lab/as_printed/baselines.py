"""The printed baselines: noise on every count, and the chapter's own pipeline.

LPA is the Laplace mechanism of Acs & Castelluccia (2014, section 6), on the cover as they
have it or by the two naive routes of section 5.2. GPA and `Chapter` are the Gaussian
baseline and Algorithm 2 of Acs, Biczók & Castelluccia (2018, section 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.fourier import Transform, forward, inverse, keep_first
from sfumato.density.refine.spatial import merge_neighbours
from sfumato.density.refine.special_hours import smooth_nights
from sfumato_lab.as_printed import paris
from sfumato_lab.as_printed.paris import Ground, OpenedCounts

Table = NDArray[np.float64]


class Route(StrEnum):
    """Where noise is added on the way from towers to zones."""

    COVER = "cover"
    ZONES = "zones"
    TOWERS = "towers"


@dataclass(frozen=True, slots=True)
class PublishedLaplace:
    """Laplace noise of scale l / epsilon on every count."""

    epsilon: float
    route: Route = Route.COVER

    @property
    def name(self) -> str:
        return "lpa" if self.route is Route.COVER else f"lpa-{self.route.value}"

    @property
    def caveats(self) -> tuple[str, ...]:
        return (paris.FLOAT_NOISE,)

    def run(self, counts: OpenedCounts, ground: Ground, rng: np.random.Generator) -> Table:
        scale = counts.limit / self.epsilon
        return _noisy_by_route(counts, ground, self.route, lambda size: rng.laplace(0, scale, size))


@dataclass(frozen=True, slots=True)
class PublishedGaussian:
    """The chapter's baseline: Gaussian noise on every zone count, the 1.25 rule."""

    epsilon: float
    delta: float = 2e-6

    name = "gpa"

    @property
    def caveats(self) -> tuple[str, ...]:
        return (paris.FLOAT_NOISE,)

    def sigma(self, limit: int) -> float:
        return math.sqrt(2 * limit * math.log(1.25 / self.delta)) / self.epsilon

    def run(self, counts: OpenedCounts, ground: Ground, rng: np.random.Generator) -> Table:
        sigma = self.sigma(counts.limit)
        return _noisy_by_route(counts, ground, Route.ZONES, lambda size: rng.normal(0, sigma, size))


@dataclass(frozen=True, slots=True)
class PublishedChapter:
    """Algorithm 2 of the chapter: zones, totals with sensitivity sqrt(l), k low frequencies.

    "Low-frequency components (i.e., largest Fourier coefficients) are retained": how many is left
    to the paper of 2014, whose exponential mechanism chooses k for each cluster, and so it is here;
    a whole number in `kept` fixes k instead. Choosing the largest by magnitude would not be private
    at all. `improved` scales by one visit per user and the grand total, and smooths the nights.
    """

    epsilon: float
    delta: float = 2e-6
    kept: int | None = None
    improved: bool = True
    tolerated: float = 0.01

    @property
    def name(self) -> str:
        return f"chapter{'' if self.improved else '-'}"

    @property
    def caveats(self) -> tuple[str, ...]:
        found: tuple[str, ...] = (paris.FLOAT_NOISE, paris.TOTALS_ROOT_L)
        if self.kept is None:
            found += (paris.CHOICE_NOT_CHARGED,)
        return (*found, paris.TRUE_N, paris.TOTAL_ROOT_CAP) if self.improved else found

    def totals_sigma(self, limit: int) -> float:
        """As printed: 193.5 at epsilon 0.3 and l = 30; the true sensitivity wants 1059.8."""
        return 2 * math.sqrt(2 * limit * math.log(2.5 / self.delta)) / self.epsilon

    def series_sigma(self, limit: int) -> float:
        """The Fourier half at (epsilon/2, delta/2), as the proof says."""
        return 2 * math.sqrt(2 * limit * math.log(2.5 / self.delta)) / self.epsilon

    def run(self, counts: OpenedCounts, ground: Ground, rng: np.random.Generator) -> Table:
        zones = np.asarray(ground.overlay.shares.T @ counts.sampled)
        totals = self._totals(counts, zones, ground, rng)
        slots = zones.shape[1]
        sigma = self.series_sigma(counts.limit)
        threshold = math.sqrt(slots) * sigma / self.tolerated
        label = merge_neighbours(totals, ground.zones.centres, ground.zones.areas, threshold)
        together = np.zeros((label.max() + 1, slots))
        np.add.at(together, label, zones)
        series = np.maximum(self._perturb(together, sigma, counts.limit, rng), 0.0)
        weight = np.maximum(series.sum(axis=1, keepdims=True), 1e-9)
        table: Table = np.maximum(totals, 0.0)[:, None] * (series / weight)[label]
        return smooth_nights(table, ground.starts) if self.improved else table

    def _perturb(
        self, together: Table, sigma: float, limit: int, rng: np.random.Generator
    ) -> Table:
        if self.kept is None:  # half of the series' epsilon for the choice, as in 2014
            return paris.chosen(together, sigma, self.epsilon / 4, math.sqrt(limit), rng).series
        noisy = forward(together) + rng.normal(0, sigma, together.shape)
        k = np.full(noisy.shape[0], min(self.kept, together.shape[1]), dtype=np.int64)
        return np.asarray(inverse(keep_first(noisy, k), Transform.DCT))

    def _totals(
        self, counts: OpenedCounts, zones: Table, ground: Ground, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        if not self.improved:
            sigma = self.totals_sigma(counts.limit)
            return np.asarray(zones.sum(axis=1) + rng.normal(0, sigma, zones.shape[0]))
        # Half of the totals' budget each for the histogram and the grand total.
        quarter = self.epsilon / 4
        sigma_h = paris.gaussian_sigma(1.0, quarter, self.delta)
        sigma_k = paris.gaussian_sigma(math.sqrt(753), quarter, self.delta)
        histogram = counts.one_visit + rng.normal(0, sigma_h, counts.one_visit.size)
        visits = counts.visits + rng.normal(0, sigma_k)
        return np.asarray(ground.overlay.shares.T @ (histogram / counts.users * visits))


def _noisy_by_route(counts: OpenedCounts, ground: Ground, route: Route, draw: paris.Draw) -> Table:
    """Counts on the route's cells plus noise, mapped to zones, negative ones clipped."""
    shares = ground.overlay.shares
    if route is Route.ZONES:
        zones = np.asarray(shares.T @ counts.sampled)
        table = zones + draw(zones.shape)
    elif route is Route.TOWERS:
        table = np.asarray(shares.T @ (counts.sampled + draw(counts.sampled.shape)))
    else:
        cover = np.asarray(ground.cover.forward @ counts.sampled)
        table = np.asarray(ground.cover.back @ (cover + draw(cover.shape)))
    return np.maximum(table, 0.0)
