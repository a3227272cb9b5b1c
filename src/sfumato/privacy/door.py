"""The one place that opens private boxes.

Two callers are legitimate: a mechanism that has just been charged, and the holder's own
internal comparison with the truth (`evaluate`, `attack`), whose results are marked
internal. The import rules name them; nothing else may import this module.

`public_facts` may be read before anything is charged: shape, lattice and sensitivities are
fixed by the public keys and the bound, never by the records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.model.counts import Counts
from sfumato.model.private import Private

T = TypeVar("T")


def open_private(box: Private[T]) -> T:
    """The content. Whoever calls this answers for where the numbers go."""
    return box._through_the_door()


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """What the bound and the public keys say about an array, whoever is in it."""

    shape: tuple[int, ...]
    units_per_count: int
    l1: float
    l2: float

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def public_facts(box: Private[Counts]) -> PublicFacts:
    """Shape, lattice and sensitivities of boxed counts; none of their numbers.

    Counts that were weighted for event norms are bounded after their map only: as they are,
    their sensitivity is infinite, and nothing measures them.
    """
    counts = box._through_the_door()
    if counts.norms:  # its sensitivities are about another array
        return PublicFacts(counts.shape, counts.units_per_count, math.inf, math.inf)
    return PublicFacts(counts.shape, counts.units_per_count, counts.l1, counts.l2)


def candidates(box: Private[NDArray[np.int64]]) -> int:
    """How many candidates a boxed vector of costs has: a public number."""
    return int(box._through_the_door().size)
