"""Crowds that make one person's say in a paid choice as large as its proof allows.

A noisy sum moves by what a person adds, whoever else is there. A choice does not: how far one
person moves its costs apart depends on everybody else, and on ordinary data it is far from the
bound, so that a bound that is too small by a constant goes unseen. Here the crowd is made for the
person.

*The choice of k in `paris`* (`density.paris.cut`). The cost of keeping k coefficients is the norm
of those that are dropped. Two costs, k1 < k2, move apart by at most sqrt(2) ||V||; the proof
says when that is reached: the coefficients between k1 and k2 are large and point where the
person's do, those beyond k2 are small against them and point the other way. Such a crowd is
L times the low part of the person's own series minus S times its high part, L >> S, plus a
constant (which lies in the first coefficient and is never dropped). What a person has in the
first coefficient is lost, so they come to every place at once in few slots, or to each place
seldom and without a rhythm.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.fourier import Transform, forward, inverse
from sfumato.model.bound import Bound, SampleBound
from sfumato.privacy.audit.pairs import TablePair, Trace, pair_of
from sfumato.privacy.audit.stage import Stage

_LARGE, _SMALL = 1_200.0, 40.0
"""L and S, in visits a slot: far apart, and both far above the rounding to whole people."""
_EVERYWHERE = 20
"""People in every cell, so that numbers are not cut at zero, which would hide a difference."""


def choice_pairs(
    stage: Stage, bound: Bound, large: float = _LARGE, small: float = _SMALL
) -> Iterator[TablePair]:
    """Neighbours on which a choice of k comes close to its stated sensitivity.

    A smaller `large` brings the costs themselves together, so that the best k changes.
    """
    ids, slots = stage.places.ids.tolist(), stage.grid.slots
    for (how, trace), transform in product(_traces(bound, len(ids), slots).items(), Transform):
        mine = np.zeros((len(ids), slots))
        np.add.at(mine, (trace[:, 0], trace[:, 1]), 1.0)
        crowd = opposed(mine, transform, large, small)
        visits = np.repeat(np.argwhere(np.ones_like(crowd)), crowd.ravel(), axis=0)
        others = np.column_stack((np.arange(1, len(visits) + 1), visits))
        name = f"against the choice of k ({transform}), {how}"
        yield pair_of(name, others, trace, ids, stage.grid)


def opposed(
    mine: NDArray[np.float64], transform: Transform, large: float, small: float
) -> NDArray[np.int64]:
    """Counts, place x slot, on which these visits of one person move two costs furthest apart."""
    coefficients = forward(mine, transform)
    energy = np.cumsum(np.square(coefficients[:, 1:]).sum(axis=0))
    middle = 2 + int(np.argmin(np.abs(energy / energy[-1] - 0.5)))
    wanted = coefficients.copy()
    wanted[:, 0] = 0.0
    wanted[:, 1:middle] *= large
    wanted[:, middle:] *= -small
    course = inverse(wanted, transform) / np.linalg.norm(mine)
    counts: NDArray[np.int64] = np.rint(course - course.min()).astype(np.int64) + _EVERYWHERE
    return counts


def _traces(bound: Bound, places: int, slots: int) -> dict[str, Trace]:
    """What the person does: as much as the bound lets through, and little that is constant.

    Where places are merged into one cluster a norm over slots is reached by being everywhere at
    once; where each is its own cluster, by being in one place at a time.
    """
    most = bound.slots if isinstance(bound, SampleBound) else round(bound.limit**2)
    when = np.random.default_rng(20140824).permutation(slots)[: max(1, most)]
    found = {"now and then": np.column_stack((np.arange(when.size) % places, when))}
    if not isinstance(bound, SampleBound):
        rows = max(1, round((bound.limit / places) ** 2))
        at = np.arange(rows) * 2 + slots // 3
        found["everywhere at once"] = np.column_stack(
            (np.repeat(np.arange(places), rows), np.tile(at, places))
        )
    return found
