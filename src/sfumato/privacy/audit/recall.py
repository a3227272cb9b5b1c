"""`RecallingSource`: asks an engine once and remembers its private answers.

An audit runs one scheme many thousand times on the same tiny input. Counting depends on the
release key only through the sample of the sampling bound, so every other answer is the same
in each run; of the samples a fixed number is kept and served in turn.

The kept samples are drawn with keys of their own, the same for every source: on two
neighbouring inputs everybody else's visits are then sampled alike. A promise that holds for
each fixed sample holds for their mixture; two different handfuls of samples would lie apart
whoever is in the data, and an honest scheme could be accused.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from sfumato.model.bound import Counting, SampleBound, WeightBound
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.remembering import RememberingSource
from sfumato.model.source import Source

SAMPLES = 16
"""Samples of a sampling bound that are kept and served in turn."""


class RecallingSource(RememberingSource):
    """A remembering source that also remembers samples, whatever their keys."""

    def __init__(self, source: Source, samples: int = SAMPLES) -> None:
        super().__init__(source)
        self._samples = samples

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        """One of a few samples, picked by the key: fresh keys give all of them in turn."""
        turn = int.from_bytes(hashlib.sha256(key).digest()[:8], "little") % self._samples
        kept = hashlib.sha256(f"sfumato/recalled sample/{turn}".encode()).digest()
        return self._once(("sampled", bound, turn), lambda: self._source.sampled(bound, kept))

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        """Norms come from noisy margins and are new in every run: nothing to remember."""
        if event_norms is not None:
            return self._source.weighted(bound, counting, event_norms)
        return super().weighted(bound, counting)


def recalling(source: Source, samples: int = SAMPLES) -> RecallingSource:
    """The source behind a memory; one that has it already stays as it is."""
    return source if isinstance(source, RecallingSource) else RecallingSource(source, samples)
