"""A source that counts once: answers that no key and no noise decides are kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.model.bound import Counting, SampleBound, WeightBound
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.model.time_grid import TimeGrid


class CachedSource:
    """The questions of `source`, each asked of it once; the boxes stay closed."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: dict[object, Private[Counts]] = {}

    @property
    def grid(self) -> TimeGrid:
        return self._source.grid

    @property
    def place_ids(self) -> NDArray[np.str_]:
        return self._source.place_ids

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        question = ("sampled", bound, key)
        if question not in self._known:
            self._known[question] = self._source.sampled(bound, key)
        return self._known[question]

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        if event_norms is not None:  # norms come from noisy margins and differ every time
            return self._source.weighted(bound, counting, event_norms)
        question = ("weighted", bound, counting)
        if question not in self._known:
            self._known[question] = self._source.weighted(bound, counting)
        return self._known[question]

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        question = ("place totals", bound, counting)
        if question not in self._known:
            self._known[question] = self._source.place_totals(bound, counting)
        return self._known[question]

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        question = ("slot totals", bound, counting)
        if question not in self._known:
            self._known[question] = self._source.slot_totals(bound, counting)
        return self._known[question]

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        question = ("capped total", cap, counting)
        if question not in self._known:
            self._known[question] = self._source.capped_total(cap, counting)
        return self._known[question]

    def exact(self, counting: Counting) -> Private[Counts]:
        question = ("exact", counting)
        if question not in self._known:
            self._known[question] = self._source.exact(counting)
        return self._known[question]

    def fingerprint(self, key: bytes) -> str:
        return self._source.fingerprint(key)
