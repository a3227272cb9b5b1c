"""A source whose random samples hang on the repetition alone, so that methods share them.

Sampling a large city takes a pass over its records. Within one repetition all methods and
every epsilon see the same sample of a bound, which also makes their comparison a paired one;
noise is drawn apart for each.
"""

from __future__ import annotations

import hashlib

from sfumato.model.bound import SampleBound
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.remembering import RememberingSource
from sfumato.model.source import Source


class SharedSamples(RememberingSource):
    """The questions of `source`, with the key of a sample replaced."""

    def __init__(self, source: Source, seed: int, repetition: int) -> None:
        super().__init__(source)
        self._name = f"frontier|{seed}|{repetition}"

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        del key
        shared = hashlib.sha256(f"{self._name}|{bound.slots}".encode()).digest()
        return super().sampled(bound, shared)
