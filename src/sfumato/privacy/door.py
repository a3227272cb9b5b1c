"""The one place that opens private boxes.

Few callers are legitimate, and `OPENERS` names them: a mechanism that has just been charged,
the sealed state of a stream, the audit (whose data are made up), and the holder's own internal
comparison with the truth (`evaluate`, `attack`, studies), whose results are marked internal. One
more stands beside the wall and not behind it: the exact answers of syntactic methods (`anonymise`),
which carry *not differential privacy* wherever they go.
A call from any other module of the package, of `sfumato_lab` or of a package that came in by an
entry point is refused when it happens; for our own the import rules and a test over the source
refuse it before. Other code is the holder's own and answers for itself.

`public_facts` may be read before anything is charged: shape, lattice and sensitivities are
fixed by the public keys and the bound, never by the records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import PrivateNumbers
from sfumato.model.counts import Counts
from sfumato.model.private import Private, calling_module, is_bound

T = TypeVar("T")

OPENERS = (
    "sfumato.privacy.mechanisms",
    "sfumato.audits.transcript",
    "sfumato.audits.streams",
    "sfumato.streams.vault",
    "sfumato.density.evaluate",
    "sfumato_lab.studies.frontier",
    "sfumato_lab.studies.paris",
    "sfumato_lab.studies.queries",
    "sfumato_lab.syntactic.truth",
)
"""Modules, with what lies below them, that may open a box."""


def may_open(module: str) -> bool:
    """Whether code of this module may open boxes; the holder's own code is not judged."""
    if not is_bound(module):
        return True
    return any(module == name or module.startswith(f"{name}.") for name in OPENERS)


def open_private(box: Private[T]) -> T:
    """The content. Whoever calls this answers for where the numbers go."""
    caller = calling_module()
    if not caller or not may_open(caller):
        raise PrivateNumbers(
            f"{caller} may not open {box!r}.",
            remedy="Take a measurement of it; the few that may open a box are named in "
            "sfumato.privacy.door.",
        )
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
