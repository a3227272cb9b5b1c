"""Copies of a made-up district, side by side, and noise for a part of a city. For made-up people
only.

The copies (`TiledSource`) are there because a scheme that learns from many places at once (a
rhythm they share, a grand total) would look worse on a district than it is on a city; copies of the
district are a city of the right size for the price of one district.

A part of a city is measured so that what is summed over all places (`TiledSource.slot_totals`,
`capped_total`, `ladder`) is known to the same share of its value as in the whole (`PartWall`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato.geography.overlay import Layout, Overlay
from sfumato.model.counts import Counting, Counts, SampleBound, WeightBound, norms_digest
from sfumato.model.masks import Masks, Measure
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.events import Measurement
from sfumato.privacy.wall import Wall

_GAP = 1.05
"""Distance of two copies in widths of the district: neighbours across the gap may merge."""


@dataclass(frozen=True, slots=True, eq=False)
class TiledSource:
    """`copies` of a source, one below the other. A copy's people are people of their own."""

    source: Source
    copies: int

    @property
    def grid(self) -> TimeGrid:
        return self.source.grid

    @property
    def place_ids(self) -> NDArray[np.str_]:
        return tiled_ids(self.source.place_ids, self.copies)

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        return self._stacked(self.source.sampled(bound, key))

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        """With event norms, which differ between copies, every copy is counted by itself."""
        if event_norms is None:
            return self._stacked(self.source.weighted(bound, counting))
        each = event_norms.reshape(self.copies, -1, event_norms.shape[1])
        boxes = [
            self.source.weighted(bound, counting, np.ascontiguousarray(norms)) for norms in each
        ]
        whole = reduce(lambda above, below: above.map_with(below, _below, below.label), boxes)
        return whole.map(lambda counts: replace(counts, norms=norms_digest(event_norms)))

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        return self._stacked(self.source.place_totals(bound, counting))

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        return self._multiplied(self.source.slot_totals(bound, counting))

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        return self._multiplied(self.source.capped_total(cap, counting))

    def ladder(self, steps: tuple[int, ...], counting: Counting) -> Private[Counts]:
        return self._multiplied(self.source.ladder(steps, counting))

    def answers(self, masks: Masks, measure: Measure, bound: int | WeightBound) -> Private[Counts]:
        """Nobody is in two copies, so their answers add up."""
        each = masks.places.reshape(self.copies, -1, masks.places.shape[1])
        parts = [replace(masks, places=places) for places in each]
        boxes = [self.source.answers(part, measure, bound) for part in parts]
        return reduce(lambda one, other: one.map_with(other, _added, other.label), boxes)

    def exact(self, counting: Counting) -> Private[Counts]:
        return self._stacked(self.source.exact(counting))

    def fingerprint(self, key: bytes) -> str:
        return self.source.fingerprint(key)

    def _stacked(self, box: Private[Counts]) -> Private[Counts]:
        return _with_values(box, lambda values: tiled(values, self.copies))

    def _multiplied(self, box: Private[Counts]) -> Private[Counts]:
        return _with_values(box, lambda values: values * self.copies, _SUM)


def _added(one: Counts, other: Counts) -> Counts:
    return replace(other, values=one.values + other.values)


def _below(above: Counts, below: Counts) -> Counts:
    return replace(below, values=np.concatenate((above.values, below.values)))


def tiled(values: NDArray[np.int64], copies: int) -> NDArray[np.int64]:
    """Rows `copies` times, one block below the other."""
    return np.concatenate([values] * copies)


def tiled_ids(ids: NDArray[np.str_], copies: int) -> NDArray[np.str_]:
    """Ids that say which copy they are of, sorted within and between copies as before."""
    return np.array([f"{copy:04d}/{key}" for copy in range(copies) for key in ids.tolist()])


def tiled_layout(layout: Layout, copies: int) -> Layout:
    """Copies on a square grid of districts."""
    across = math.ceil(math.sqrt(copies))
    step = _GAP * np.ptp(layout.centres, axis=0)
    shifts = [(copy % across, copy // across) * step for copy in range(copies)]
    return Layout(
        np.concatenate([layout.centres + shift for shift in shifts]),
        np.tile(layout.areas, copies),
    )


def tiled_overlay(one: Overlay, copies: int) -> Overlay:
    """Each copy's towers over its own zones."""
    shares = sp.csr_array(sp.block_diag([one.shares] * copies, format="csr"))
    return Overlay(tiled_ids(one.place_ids, copies), tiled_ids(one.zone_ids, copies), shares)


def _with_values(
    box: Private[Counts],
    change: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    label: str | None = None,
) -> Private[Counts]:
    return box.map(lambda counts: replace(counts, values=change(counts.values)), label)


_SUM = "sum over all places"
_LEAST_NOISE = Fraction(1, 2)
"""In lattice units; below a quarter no noise is drawn."""


class PartWall(Wall):
    """Predictable noise for a part of a city: as much less on sums over all places as the part has
    fewer people, so that they are known as well as those of the city. For made-up people only."""

    part: float = 1.0

    def gaussian(
        self,
        box: Private[Counts],
        *,
        sigma2: Fraction | int,
        label: str,
        touched: int | None = None,
    ) -> Measurement:
        if box.label == _SUM:
            square = Fraction(self.part).limit_denominator(1 << 20) ** 2
            sigma2 = max(sigma2 * square, _LEAST_NOISE**2)
        return super().gaussian(box, sigma2=sigma2, label=label, touched=touched)

    def laplace(
        self, box: Private[Counts], *, scale: Fraction | int, label: str, about: str = ""
    ) -> Measurement:
        if box.label == _SUM:
            share = Fraction(self.part).limit_denominator(1 << 20)
            scale = max(scale * share, _LEAST_NOISE)
        return super().laplace(box, scale=scale, label=label, about=about)
