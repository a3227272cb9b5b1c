"""L1 distances between private histograms, inside their boxes.

One person is in one place a slot, so taking them away moves the distance between two slots'
histograms by at most 2 l1 (l1 in each). Slots that a unit does not touch do not matter: both
histograms of a distance must lie in one window, or the unit would be charged for slots
outside it. The schemes see to that by starting anew with every window.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.model.counts import Counts
from sfumato.model.private import Private

PrivateHistogram = Private[NDArray[np.int64]]


def histogram(box: Private[Counts]) -> PrivateHistogram:
    """The bare numbers of a slot, still private: what a later slot is compared with."""
    return box.map(lambda counts: counts.values, "histogram of an earlier slot")


def distance(box: Private[Counts], reference: PrivateHistogram) -> Private[int]:
    """L1 distance of a slot's histogram to an earlier one."""
    return box.map_with(
        reference, lambda now, then: int(np.abs(now.values - then).sum()), "distance"
    )


def successive(whole: Private[Counts], l1: int) -> Private[Counts]:
    """Distances between successive slots of a window (cell x slot), as counts to be measured.

    A unit in n slots moves each of the n - 1 distances by at most 2 l1.
    """

    def between(counts: Counts) -> Counts:
        moved = np.abs(np.diff(counts.values, axis=1)).sum(axis=0)
        return Counts(
            values=moved.astype(np.int64),
            units_per_count=1,
            l1=2.0 * l1 * moved.size,
            l2=2.0 * l1 * float(moved.size) ** 0.5,
            counting=counts.counting,
            what="distances between successive slots",
        )

    return whole.map(between, "distances between successive slots")
