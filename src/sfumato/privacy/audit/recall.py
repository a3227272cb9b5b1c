"""`RecallingSource`: asks an engine once and remembers its private answers.

An audit runs one scheme many thousand times on the same tiny input. Counting depends on the
release key only through the sample of the sampling bound, so every other answer is the same
in each run; of the samples a fixed number of fresh ones is kept and served in turn. The boxes
stay closed: this class never opens one.
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

SAMPLES = 16
"""Fresh samples of a sampling bound that are kept and served in turn."""


class RecallingSource:
    """A `Source` in front of another one."""

    def __init__(self, source: Source, samples: int = SAMPLES) -> None:
        self._source = source
        self._samples = samples
        self._answers: dict[object, Private[Counts]] = {}

    @property
    def grid(self) -> TimeGrid:
        return self._source.grid

    @property
    def place_ids(self) -> NDArray[np.str_]:
        return self._source.place_ids

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        """One of a few samples, picked by the key: fresh keys give all of them in turn."""
        slot = int.from_bytes(hashlib.sha256(key).digest()[:8], "little") % self._samples
        question = ("sampled", bound, slot)
        if question not in self._answers:
            self._answers[question] = self._source.sampled(bound, key)
        return self._answers[question]

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        norms = None if event_norms is None else event_norms.tobytes()
        question = ("weighted", bound, counting, norms)
        if question not in self._answers:
            self._answers[question] = self._source.weighted(bound, counting, event_norms)
        return self._answers[question]

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        question = ("place totals", bound, counting)
        if question not in self._answers:
            self._answers[question] = self._source.place_totals(bound, counting)
        return self._answers[question]

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        question = ("slot totals", bound, counting)
        if question not in self._answers:
            self._answers[question] = self._source.slot_totals(bound, counting)
        return self._answers[question]

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        question = ("capped total", cap, counting)
        if question not in self._answers:
            self._answers[question] = self._source.capped_total(cap, counting)
        return self._answers[question]

    def fingerprint(self, key: bytes) -> str:
        return self._source.fingerprint(key)

    def exact(self, counting: Counting) -> Private[Counts]:
        return self._source.exact(counting)
