"""A source whose random samples hang on the repetition alone, so that methods share them.

Sampling a large city takes a pass over its records. Within one repetition all methods and
every epsilon see the same sample of a bound, which also makes their comparison a paired one;
noise is drawn apart for each.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from sfumato.model.bound import Counting, SampleBound, WeightBound
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.model.time_grid import TimeGrid


class SharedSamples:
    """The questions of `source`, with the key of a sample replaced."""

    def __init__(self, source: Source, seed: int, repetition: int) -> None:
        self._source = source
        self._name = f"frontier|{seed}|{repetition}"

    @property
    def grid(self) -> TimeGrid:
        return self._source.grid

    @property
    def place_ids(self) -> NDArray[np.str_]:
        return self._source.place_ids

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        del key
        shared = hashlib.sha256(f"{self._name}|{bound.slots}".encode()).digest()
        return self._source.sampled(bound, shared)

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        return self._source.weighted(bound, counting, event_norms)

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        return self._source.place_totals(bound, counting)

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        return self._source.slot_totals(bound, counting)

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        return self._source.capped_total(cap, counting)

    def exact(self, counting: Counting) -> Private[Counts]:
        return self._source.exact(counting)

    def fingerprint(self, key: bytes) -> str:
        return self._source.fingerprint(key)
