"""The linear oracle of the frontier, and what all outside methods share.

**The oracle**: how well any linear filter could read the measurement that `bayes` takes. A Wiener
filter on the very same noisy matrix that is told what nobody may know: the temporal
eigenbasis of the clean residual, its spectrum, and for each component the likeliest spatial
kernel. The margins stay the noisy ones, and the way back (weights, level, raking) is that of
`bayes`, but for what it does about crowds, which is not linear. It protects nobody and exists
for made-up people only: the line of the possible. It sees the clean side of a measurement through
a wall that remembers what it measured (`BoxKeepingWall`); the boxes stay closed there, and whoever
opens them answers for it. Its bank of spatial kernels is fitted, in their eigenbases, to clean
fields and used on noisy ones: each kernel is D (r exp(-distance / L) + (1 - r) I) D with D the size
of a place or one, the family that `density.refine.spatial` chooses from, on a finer grid, fitted by
likelihood to a field without noise, which only an oracle has.

**What all outside baselines share** (`Purse`): one budget, a weight bound, and a level that is paid
for. Weighting busy users down keeps the shape of the counts and loses their level, so every
baseline spends a small share on a capped grand total and scales to it, as `paris` does.
Without it each would be worse by a third. The rest goes to the baseline's own measurements.
Claim: (epsilon, delta)-DP for one user's whole record; `GaussianPart.l2` of each is argued
where it is made. The limit C is a constant tuned on other cities (docs/frontier.md).

**Shared samples**: a source whose random samples hang on the repetition alone. Sampling a large
city takes a pass over its records. Within one repetition all methods and
every epsilon see the same sample of a bound, which also makes their comparison a paired one;
noise is drawn apart for each.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sfumato.density.bayes import scheme as recipe
from sfumato.density.bayes.frame import cell_weighting
from sfumato.density.bayes.ground import Ground
from sfumato.density.bayes.measured import Measured
from sfumato.density.refine.margins import project_to_simplex, rake
from sfumato.density.scheme import Density, PublicFacts
from sfumato.model.counts import Counts, SampleBound, WeightBound
from sfumato.model.private import Private
from sfumato.model.source import RememberingSource, Source
from sfumato.privacy.calibration import GaussianPart, calibrate_gaussians
from sfumato.privacy.door import open_private
from sfumato.privacy.events import Charger, Measurement
from sfumato.privacy.noise import BitStream
from sfumato.privacy.wall import Wall


class SharedSamples(RememberingSource):
    """The questions of `source`, with the key of a sample replaced."""

    def __init__(self, source: Source, seed: int, repetition: int) -> None:
        super().__init__(source)
        self._name = f"frontier|{seed}|{repetition}"

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        del key
        shared = hashlib.sha256(f"{self._name}|{bound.slots}".encode()).digest()
        return super().sampled(bound, shared)


Table = NDArray[np.float64]
TOTAL = "grand total"
TOTAL_SHARE = 0.02
TOTAL_CAP = 250


@dataclass(frozen=True, slots=True, eq=False)
class Purse:
    """The calibrated parts of one baseline; `measure` takes them one by one."""

    wall: Wall
    parts: Mapping[str, GaussianPart]
    sigma2: Mapping[str, Fraction]

    def measure(self, label: str, box: Private[Counts]) -> Measurement:
        """The planned measurement of that label."""
        part = self.parts[label]
        return self.wall.gaussian(box, sigma2=self.sigma2[label], touched=part.touched, label=label)

    def sd(self, label: str) -> float:
        """Standard deviation of its noise, in lattice units."""
        return math.sqrt(self.sigma2[label])


def purse(wall: Wall, facts: PublicFacts, parts: Mapping[str, GaussianPart]) -> Purse:
    """The grand total and a baseline's own parts, whose shares sum to at most one."""
    scaled = {
        label: GaussianPart(part.l2, part.touched, round(part.share * (1 - TOTAL_SHARE), 12))
        for label, part in parts.items()
    }
    whole = {TOTAL: GaussianPart(float(TOTAL_CAP), 1, TOTAL_SHARE), **scaled}
    found = calibrate_gaussians(facts.epsilon, facts.delta, list(whole.values()))
    return Purse(wall, whole, dict(zip(whole, found.sigma2, strict=True)))


def bounded(source: Source, facts: PublicFacts, limit: float) -> Private[Counts]:
    """Place x slot with weights min(1, C / norm)."""
    return source.weighted(WeightBound(limit), facts.counting)


def finished(spent: Purse, source: Source, facts: PublicFacts, table: Table) -> Table:
    """Counted places to zones: at the level of the paid grand total, and not negative.

    The sums of the table are still unbiased when the level is taken, so it is taken first;
    then each slot is projected on the non-negative maps with its own sum. Where the grand
    total drowns in its noise the sum of the table stands.
    """
    total = spent.measure(TOTAL, source.capped_total(TOTAL_CAP, facts.counting))
    level, mass = float(total.estimate()[0]), float(table.sum())
    factor = level / mass if mass > 0 and level > 3 * total.sd else 1.0
    zones = table if facts.overlay is None else facts.overlay.to_zones(table)
    return project_to_simplex(factor * zones, factor * zones.sum(axis=0))


def touched_everywhere(facts: PublicFacts, rows: int) -> int:
    """Most cells that one user moves: all of them, since a weight bound limits no number."""
    return max(rows * facts.grid.slots, 1)


class BoxKeepingWall(Wall):
    """The same noise and charges as any wall; `boxes` and `taken` by label."""

    boxes: dict[str, Private[Counts]]
    taken: dict[str, Measurement]

    def _set_up(
        self, charger: Charger, root: BitStream, bits: Mapping[str, str] | None = None
    ) -> None:
        super()._set_up(charger, root, bits)
        self.boxes, self.taken = {}, {}

    def gaussian(
        self,
        box: Private[Counts],
        *,
        sigma2: Fraction | int,
        label: str,
        touched: int | None = None,
    ) -> Measurement:
        found = super().gaussian(box, sigma2=sigma2, label=label, touched=touched)
        self.boxes[label], self.taken[label] = box, found
        return found


Field = NDArray[np.float64]
SHARES = (0.4, 0.8, 0.95)
LENGTHS = (400.0, 1200.0, 3000.0, 8000.0)


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """Eigenvalues, their logarithms' sum, and the basis (None: the places themselves)."""

    values: Field
    basis: Field | None

    def rotated(self, fields: Field) -> Field:
        return fields if self.basis is None else np.asarray(self.basis.T @ fields)

    def back(self, fields: Field) -> Field:
        return fields if self.basis is None else np.asarray(self.basis @ fields)


@dataclass(frozen=True, slots=True, eq=False)
class Bank:
    """All kernels over one set of places."""

    kernels: tuple[Kernel, ...]

    @classmethod
    def over(cls, centres: Field, size: Field) -> Bank:
        """Kernels for places at `centres`; `size` is relative, with mean about one."""
        away = np.linalg.norm(centres[:, None] - centres[None], axis=2)
        found = []
        for scale in (size, np.ones_like(size)):
            found.append(Kernel(np.square(scale), None))
            for share, length in itertools.product(SHARES, LENGTHS):
                prior = share * np.exp(-away / length)
                prior[np.diag_indices_from(prior)] = 1.0
                prior *= np.outer(scale, scale)
                values, basis = scipy.linalg.eigh(prior, driver="evd", overwrite_a=True)
                found.append(Kernel(np.maximum(values, 1e-12), basis))
        return cls(tuple(found))

    def wiener(self, clean: Field, noisy: Field, noise_variance: float) -> Field:
        """Posterior mean of each noisy column under the kernel likeliest for its clean one."""
        n, columns = clean.shape
        best = np.full(columns, -np.inf)
        chosen, strength = np.zeros(columns, dtype=np.int64), np.zeros(columns)
        for k, kernel in enumerate(self.kernels):
            squares = np.square(kernel.rotated(clean)) / kernel.values[:, None]
            scale = np.maximum(squares.mean(axis=0), 1e-300)
            score = -0.5 * (n * np.log(scale) + np.log(kernel.values).sum())
            better = score > best
            best[better], chosen[better], strength[better] = score[better], k, scale[better]
        result = np.zeros(clean.shape)
        for k in np.unique(chosen):
            of, kernel = chosen == k, self.kernels[k]
            signal = strength[of] * kernel.values[:, None]
            gain = signal / (signal + noise_variance)
            result[:, of] = kernel.back(gain * kernel.rotated(noisy[:, of]))
        return result


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
        measured, taken, start = recipe.measure(source, wall, facts)
        density = recipe.reread(measured, facts, taken, start)
        return density, self.read(frame_of(measured, wall, facts))

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


def frame_of(measured: Measured, wall: BoxKeepingWall, facts: PublicFacts) -> Frame:
    """The matrix that a run of `bayes` measured on this wall, opened."""
    ground = recipe.ground_of(measured.margins, facts)
    box = open_private(wall.boxes[recipe.MATRIX])
    # The limit was fitted to the people by a factor on everybody; the noise says which.
    factor = wall.taken[recipe.MATRIX].sd / measured.matrix_sd
    return Frame(
        ground=ground,
        scale=measured.weights() * cell_weighting(ground, measured).of_visits,
        noisy=measured.matrix,
        clean=box.values / np.float64(box.units_per_count) / factor,
        sigma=measured.matrix_sd,
    )
