"""Time division of hybrid perturbation: where the day begins and ends, from noisy distances.

**Distances** are L1, between private histograms, inside their boxes. One person is in one place a
slot, so taking them away moves the distance between two slots'
histograms by at most 2 l1 (l1 in each). Slots that a unit does not touch do not matter: both
histograms of a distance must lie in one window, or the unit would be charged for slots
outside it. The schemes see to that by starting anew with every window.

**The division.** The choice that Chen et al. print draws the window (i, j) by the exponential
mechanism on

    U(i, j) = log_a(j - i + 1) * aveDis / simVar

with a claimed sensitivity of 2 log_a S; it is far larger (with S = 19 and a = 12 one more
person can move U from 0 to 22.5 where 2.4 is claimed). Here:

* `from_distances`: the distances between successive slots are measured (sensitivity 2 each),
  and any choice made from them is free; the choice is the largest *sum of (distance - theta)*,
  theta a level between the quiet and the busy distances: long, evenly busy windows win.
* `window_costs`: the same sum, theta being public, as the cost of an exponential mechanism. Two
  windows' sums move apart by at most the sum of |change of a distance| <= 2 l1 (S - 1), so the
  choice is of bounded range with no factor 2 to pay.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.streams.scheme import Values
from sfumato.streams.schemes.counters import PrivateHistogram


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


Window = tuple[int, int]
"""First and last slot of the daytime, counted from the window's first slot."""


def candidates(slots: int, single: bool = False) -> list[Window]:
    """Every daytime from i to j, i < j; also those of a `single` slot, as the paper prints it."""
    return [(i, j) for i in range(slots) for j in range(i + (not single), slots)]


def level(distances: Values) -> float:
    """A level between quiet and busy: half way between the means of the two halves."""
    ordered = np.sort(distances)
    half = max(ordered.size // 2, 1)
    return float((ordered[:half].mean() + ordered[-half:].mean()) / 2)


def window_scores(distances: Values, theta: float, windows: list[Window]) -> Values:
    """Sum over a window of (distance - theta); distance t lies between slots t and t + 1."""
    sums = np.concatenate(([0.0], np.cumsum(distances - theta)))
    pairs: NDArray[np.int64] = np.array(windows, dtype=np.int64)
    return np.asarray(sums[pairs[:, 1]] - sums[pairs[:, 0]], dtype=np.float64)


def window_costs(
    distances: NDArray[np.int64], theta: int, windows: list[Window]
) -> NDArray[np.int64]:
    """Minus the sums over windows, as integers: the costs that the mechanism chooses by."""
    sums = np.concatenate(([0], np.cumsum(distances - theta)))
    pairs = np.array(windows, dtype=np.int64)
    return np.asarray(sums[pairs[:, 0]] - sums[pairs[:, 1]], dtype=np.int64)


def from_distances(distances: Values) -> Window:
    """The best daytime by noisy distances."""
    windows = candidates(distances.size + 1)
    scores = window_scores(distances, level(distances), windows)
    return windows[int(np.argmax(scores))]


def printed_utility(distances: Values, alpha: float, windows: list[Window]) -> Values:
    """U of equation 7 for every window, both means over j - i + 1 as printed.

    Where simVar is not positive it is set to 1, as the text says, and so it is for i = j, where U
    is log 1 = 0.
    """
    pairs = np.array(windows, dtype=np.int64)
    slot = np.arange(distances.size)
    inside = (slot >= pairs[:, :1]) & (slot < pairs[:, 1:])
    length = pairs[:, 1] - pairs[:, 0] + 1
    average = inside @ distances / length
    spread = (np.abs(average[:, None] - distances) * inside).sum(axis=1) / length
    spread = np.where(spread > 0, spread, 1.0)
    return np.asarray(np.log(length) / np.log(alpha) * average / spread, dtype=np.float64)


def predicted(past: list[Window], slots: int, single: bool = False) -> Window:
    """Today's daytime by a line through the past days' ends, each end on its own.

    Least squares in closed form instead of the printed gradient descent. One day is repeated;
    none gives the working hours that everybody knows of: from a third to three quarters. `single`
    lets a day be one slot, as the paper does.
    """
    least = 0 if single else 1
    if not past:
        return slots // 3, max(slots // 3 + 1, 3 * slots // 4)
    ends = np.array(past, dtype=np.float64)
    if len(past) == 1:
        ahead = ends[0]
    else:
        day = np.arange(len(past), dtype=np.float64)
        slope = ((day - day.mean()) @ (ends - ends.mean(axis=0))) / np.square(
            day - day.mean()
        ).sum()
        ahead = ends.mean(axis=0) + slope * (len(past) - day.mean())
    first = int(np.clip(np.rint(ahead[0]), 0, slots - 1 - least))
    return first, int(np.clip(np.rint(ahead[1]), first + least, slots - 1))
