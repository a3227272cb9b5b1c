"""Linking fragments of days into trajectories, and identifying a person among them.

**Phase two**: which fragment of the next day is the same person, by information gain. The gain of
merging two sets of visits is H(both) - (n1 H(one) + n2 H(other)) / (n1 + n2), small
where the same places are visited as often; with equal lengths it is the Jensen-Shannon
divergence. Only common cells have to be looked at:

    n * gain = n ln n - n1 ln n1 - n2 ln n2 - sum over common cells of
               (w+f) ln(w+f) - w ln w - f ln f

Linking is to everything recovered so far (*accumulate*, as Xu et al. 2017 did it) or to the day
before (*adjacent*). Above `DENSE_LIMIT` people the problem is split by home, the most visited
cell, as its authors did; who finds no partner at home is matched with the others in blocks of
neighbours. The split is a heuristic: it may miss the least total gain.

**Phase three**: whose trajectory is it? A few known places single a person out. The adversary knows
a few of somebody's slots and cells (a post, a receipt, a glance) and looks
for the recovered trajectory that agrees with most of them. Two figures say what that is worth:
how often one trajectory agrees best (*singled out*), and how many of the person's *other* slots
it then tells (*learned*), beside what the most popular cell of each slot would tell anybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from sfumato.attacks.recovery import kernels
from sfumato.errors import UsageError

DENSE_LIMIT = 3_000
_BLOCK = 1_500


class Link(StrEnum):
    ACCUMULATE = "accumulate"
    ADJACENT = "adjacent"


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Each person's distinct cells and how often: rows `starts[i]:starts[i + 1]`."""

    cells: NDArray[np.int64]
    often: NDArray[np.int64]
    starts: NDArray[np.int64]
    slots: int
    home: NDArray[np.int64]

    @classmethod
    def of(cls, rows: NDArray[np.int32]) -> Visits:
        slots = rows.shape[1]
        order = np.sort(rows.astype(np.int64), axis=1)
        first = np.ones_like(order, dtype=bool)
        first[:, 1:] = order[:, 1:] != order[:, :-1]
        at = np.flatnonzero(first)
        often = np.diff(np.append(at, order.size))
        starts = np.concatenate([[0], np.cumsum(first.sum(axis=1))])
        cells = order.ravel()[at]
        home = kernels.top_cells(rows, 1)[:, 0].astype(np.int64)
        return cls(cells, often.astype(np.int64), starts.astype(np.int64), slots, home)

    @property
    def everybody(self) -> NDArray[np.int64]:
        return np.arange(self.starts.size - 1)


def information_gain(
    one: Visits,
    other: Visits,
    rows: NDArray[np.int64] | None = None,
    columns: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Gain of merging each of `rows` with each of `columns`, in nats."""
    rows = one.everybody if rows is None else rows
    columns = other.everybody if columns is None else columns
    shared = kernels.common_mass(
        one.cells, one.often, one.starts, rows, other.cells, other.often, other.starts, columns
    )
    n1, n2 = one.slots, other.slots
    n = n1 + n2
    whole = n * np.log(n) - n1 * np.log(n1) - n2 * np.log(n2)
    return np.asarray((whole - shared) / n, dtype=np.float64)


def match_fragments(one: Visits, other: Visits) -> NDArray[np.int64]:
    """For each person of `one` the fragment of `other`: least total gain."""
    people = one.starts.size - 1
    if people <= DENSE_LIMIT:
        return np.asarray(linear_sum_assignment(information_gain(one, other))[1], dtype=np.int64)
    partner = np.full(people, -1, np.int64)
    by_home = np.argsort(other.home, kind="stable")
    mine = np.argsort(one.home, kind="stable")
    homes = np.intersect1d(one.home, other.home)
    edges = [
        np.searchsorted(keys, homes, side=side)
        for keys in (one.home[mine], other.home[by_home])
        for side in ("left", "right")
    ]
    for low, high, start, end in zip(*edges, strict=True):
        _match_block(one, other, mine[low:high], by_home[start:end], partner)
    # The rest, neighbours together: homes are numbered row by row on a grid.
    rows = mine[partner[mine] < 0]
    taken = np.zeros(people, dtype=bool)
    taken[partner[partner >= 0]] = True
    columns = by_home[~taken[by_home]]
    for low in range(0, rows.size, _BLOCK):
        _match_block(one, other, rows[low : low + _BLOCK], columns[low : low + _BLOCK], partner)
    return partner


def _match_block(
    one: Visits,
    other: Visits,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    partner: NDArray[np.int64],
) -> None:
    """Match as many as possible in blocks; whoever is surplus stays unmatched."""
    for low in range(0, min(rows.size, columns.size), _BLOCK):
        r, c = rows[low : low + _BLOCK], columns[low : low + _BLOCK]
        i, j = linear_sum_assignment(information_gain(one, other, r, c))
        partner[r[i]] = c[j]


def link_days(days: list[NDArray[np.int32]], link: Link = Link.ACCUMULATE) -> NDArray[np.int32]:
    """Whole trajectories from the fragments of each day, person x slot."""
    whole = days[0]
    for day, last in zip(days[1:], days[:-1], strict=True):
        base = whole if link is Link.ACCUMULATE else whole[:, -last.shape[1] :]
        partner = match_fragments(Visits.of(base), Visits.of(day))
        whole = np.concatenate([whole, day[partner]], axis=1)
    return whole


SAMPLE = 1_000


@dataclass(frozen=True, slots=True)
class Identified:
    """Shares of 0 to 1, over `people` sampled persons."""

    points: int
    people: int
    singled_out: float
    learned: float
    chance: float
    """What the most popular cell of each slot tells of the same slots."""


def identify(
    truth: NDArray[np.int32],
    recovered: NDArray[np.int32],
    rng: np.random.Generator,
    *,
    points: int = 4,
    sample: int = SAMPLE,
) -> Identified:
    """Look sampled people up among the recovered by `points` of their true places."""
    slots = truth.shape[1]
    if not 0 < points < slots:
        raise UsageError(
            "Known places must leave some slots to learn.", remedy=f"Take 1 to {slots - 1} points."
        )
    people = rng.choice(len(truth), size=min(sample, len(truth)), replace=False)
    popular = np.array([_most_common(column) for column in truth.T], dtype=np.int32)
    singled = learned = chance = 0.0
    for person in people:
        known = rng.choice(slots, size=points, replace=False)
        agree = (recovered[:, known] == truth[person, known]).sum(axis=1)
        best = np.flatnonzero(agree == agree.max())
        other = np.setdiff1d(np.arange(slots), known)
        singled += best.size == 1
        learned += float((recovered[rng.choice(best), other] == truth[person, other]).mean())
        chance += float((popular[other] == truth[person, other]).mean())
    n = people.size
    return Identified(points, n, singled / n, learned / n, chance / n)


def _most_common(column: NDArray[np.int32]) -> int:
    cells, often = np.unique(column, return_counts=True)
    return int(cells[np.argmax(often)])
