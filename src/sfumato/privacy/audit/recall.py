"""`RecallingSource`: asks an engine once and remembers its private answers.

An audit runs one scheme many thousand times on the same tiny input. Counting depends on the
release key only through the sample of the sampling bound, so every other answer is the same
in each run; of the samples a fixed number of fresh ones is kept and served in turn.
"""

from __future__ import annotations

import hashlib

from sfumato.model.bound import SampleBound
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.remembering import RememberingSource
from sfumato.model.source import Source

SAMPLES = 16
"""Fresh samples of a sampling bound that are kept and served in turn."""


class RecallingSource(RememberingSource):
    """A remembering source that also remembers samples, whatever their keys."""

    def __init__(self, source: Source, samples: int = SAMPLES) -> None:
        super().__init__(source)
        self._samples = samples

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        """One of a few samples, picked by the key: fresh keys give all of them in turn."""
        turn = int.from_bytes(hashlib.sha256(key).digest()[:8], "little") % self._samples
        return self._once(("sampled", bound, turn), lambda: self._source.sampled(bound, key))
