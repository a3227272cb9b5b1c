"""`RememberingSource`: a source in front of another one that asks each question once.

For whoever runs many schemes on one input: counting is the slow part, and most answers are
the same every time. The boxes stay closed; this class never opens one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sfumato.model.bound import Counting, SampleBound, WeightBound
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.model.time_grid import TimeGrid

_KEPT_NORMS = 1 << 12
"""Event norms come from noisy margins and seldom return: answers to larger ones are not kept."""


class RememberingSource:
    """The questions of `source`, each asked of it once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._answers: dict[object, Private[Counts]] = {}

    @property
    def grid(self) -> TimeGrid:
        return self._source.grid

    @property
    def place_ids(self) -> NDArray[np.str_]:
        return self._source.place_ids

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        return self._once(("sampled", bound, key), lambda: self._source.sampled(bound, key))

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        def ask() -> Private[Counts]:
            return self._source.weighted(bound, counting, event_norms)

        if event_norms is not None and event_norms.size > _KEPT_NORMS:
            return ask()
        norms = None if event_norms is None else event_norms.tobytes()
        return self._once(("weighted", bound, counting, norms), ask)

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        question = ("place totals", bound, counting)
        return self._once(question, lambda: self._source.place_totals(bound, counting))

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        question = ("slot totals", bound, counting)
        return self._once(question, lambda: self._source.slot_totals(bound, counting))

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        question = ("capped total", cap, counting)
        return self._once(question, lambda: self._source.capped_total(cap, counting))

    def exact(self, counting: Counting) -> Private[Counts]:
        return self._once(("exact", counting), lambda: self._source.exact(counting))

    def fingerprint(self, key: bytes) -> str:
        return self._source.fingerprint(key)

    def _once(self, question: object, ask: Callable[[], Private[Counts]]) -> Private[Counts]:
        if question not in self._answers:
            self._answers[question] = ask()
        return self._answers[question]
