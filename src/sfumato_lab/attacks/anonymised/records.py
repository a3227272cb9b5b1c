"""Published records of generalised items: who fits what is known of a target.

An item is an area (a set of places) and a run of slots, or no time at all; a record is a list of
items. k^m-anonymity promises that whoever knows up to m items of a person finds nobody or at least
k records. What it does not speak of, and an adversary may have (Acs, Biczók & Castelluccia 2018,
section 3.2.1):

* *more than m points* of the target;
* *how often* the target was at m places: a record then has to show each at least as often;
* what all records that fit have in common (`from_items`, the question of `visited`).

A record fits a point where one of its items covers place and slot. Generalising covers more, so a
target's own record always fits, unless items were suppressed; sizes are counted without regard to
whether it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled
from sfumato_lab.attacks.anonymised.visited import Floats, Ints, Questions, Visited

ANY_TIME = -1


class Covering(Protocol):
    """Area i covers `places[offsets[i]:offsets[i + 1]]`, by number."""

    @property
    def offsets(self) -> Ints: ...

    @property
    def places(self) -> Ints: ...


class Records(Protocol):
    """Record i is `offsets[i]:offsets[i + 1]` of areas with first and last slot, -1 for no time."""

    @property
    def offsets(self) -> Ints: ...

    @property
    def area(self) -> NDArray[np.int32]: ...

    @property
    def first(self) -> NDArray[np.int32]: ...

    @property
    def last(self) -> NDArray[np.int32]: ...

    @property
    def areas(self) -> Covering: ...


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Items by area and areas by place, so that a question meets only what may cover it."""

    records: int
    by_area: Ints
    """Items of area a are `by_area[a]:by_area[a + 1]` of the next three."""
    record: Ints
    first: Ints
    last: Ints
    by_place: Ints
    """Areas over place p are `by_place[p]:by_place[p + 1]` of the next."""
    area: Ints

    @classmethod
    def of(cls, held: Records, places: int) -> Index:
        """Of a published table of items."""
        many = int(held.areas.offsets.size) - 1
        record = np.repeat(np.arange(held.offsets.size - 1), np.diff(held.offsets))
        order = np.argsort(held.area, kind="stable")
        by_area = np.searchsorted(held.area[order], np.arange(many + 1))
        over = np.repeat(np.arange(many), np.diff(held.areas.offsets))
        of_place = np.argsort(held.areas.places, kind="stable")
        by_place = np.searchsorted(held.areas.places[of_place], np.arange(places + 1))
        whole = [
            np.asarray(one, np.int64)
            for one in (
                *(by_area, record[order], held.first[order], held.last[order]),
                *(by_place, over[of_place]),
            )
        ]
        return cls(int(held.offsets.size) - 1, *whole)

    def fitting(self, place: Ints, slot: Ints, need: Ints, at: Ints, when: Ints) -> Ints:
        """For each question how many records fit all points, most points, and the pair as well.

        Rows of `place`, `slot` and `need` are what is known: so many items over the place in the
        slot, or in any slot where that is -1. Columns of the result: records that fit every point;
        records that fit as many points as any does; of those, records that cover the pair
        (`at`, `when`); and all records that cover it.
        """
        return _fitting(
            *(self.by_area, self.record, self.first, self.last, self.by_place, self.area),
            *(place, slot, need, at, when, self.records),
        )


@compiled
def _fitting(
    by_area: Ints,
    record: Ints,
    first: Ints,
    last: Ints,
    by_place: Ints,
    area: Ints,
    place: Ints,
    slot: Ints,
    need: Ints,
    at: Ints,
    when: Ints,
    records: int,
) -> Ints:
    found = np.zeros((at.size, 4), np.int64)
    seen, met = np.zeros(records, np.int64), np.zeros(records, np.int64)
    for q in range(at.size):
        met[:] = 0
        points = place.shape[1]
        for k in range(points + 1):
            # The pair asked about comes last: its count is not one of the points.
            here = place[q, k] if k < points else at[q]
            then = slot[q, k] if k < points else when[q]
            wanted = need[q, k] if k < points else 1
            seen[:] = 0
            for a in range(by_place[here], by_place[here + 1]):
                for i in range(by_area[area[a]], by_area[area[a] + 1]):
                    if then < 0 or first[i] < 0 or (first[i] <= then and then <= last[i]):
                        seen[record[i]] += 1
            if k < points:
                for r in range(records):
                    met[r] += seen[r] >= wanted
        most = met.max() if records else 0
        for r in range(records):
            found[q, 0] += met[r] == points
            found[q, 1] += met[r] == most
            found[q, 2] += met[r] == most and seen[r] > 0
            found[q, 3] += seen[r] > 0
    return found


def from_items(held: Records, places: int, asked: Questions) -> Floats:
    """Knows a few points: the share of the records that fit best which cover (L, t).

    Over the share of all records that cover it: an area that everybody is in tells nothing.
    """
    index = Index.of(held, places)
    known, pair = asked.known, asked.pair
    ones = np.ones_like(known)
    found = index.fitting(known % places, known // places, ones, pair % places, pair // places)
    share = found[:, 3] / max(index.records, 1)
    return np.asarray(found[:, 2] / np.maximum(found[:, 1], 1) / np.maximum(share, 1e-9))


@dataclass(frozen=True, slots=True)
class Narrowed:
    """How many records are left for who knows so much of a person."""

    points: int
    often: bool
    """Whether how often is known, of places, instead of when."""
    targets: int
    median: float
    unique: float
    """Share of targets with a single record left."""
    below: float
    """Share of targets with fewer than k records left, one at least."""
    none: float
    """Share that no record fits: something of theirs was suppressed."""


def narrowed(
    held: Records,
    truth: Visited,
    k: int,
    *,
    points: int,
    often: bool = False,
    targets: int = 1_000,
    seed: int = 1,
) -> Narrowed:
    """Random points of random people, or random places with how often they were there."""
    rng = np.random.default_rng([seed, points, often])
    rows = []
    for who in rng.permutation(truth.people).tolist():
        own = truth.pairs[truth.starts[who] : truth.starts[who + 1]]
        if often:
            own, times = np.unique(own % truth.places, return_counts=True)
        if own.size < points:
            continue
        drawn = rng.choice(own.size, points, replace=False)
        need = times[drawn] if often else np.ones(points, np.int64)
        rows.append((own[drawn], need))
        if len(rows) == targets:
            break
    if not rows:
        return Narrowed(points, often, 0, float("nan"), 0.0, 0.0, 0.0)
    known = np.array([one for one, _ in rows])
    need = np.array([one for _, one in rows])
    slot = np.full_like(known, ANY_TIME) if often else known // truth.places
    place = known if often else known % truth.places
    found = Index.of(held, truth.places).fitting(place, slot, need, place[:, 0], slot[:, 0])[:, 0]
    there = found > 0
    return Narrowed(
        points,
        often,
        len(rows),
        float(np.median(found[there])) if there.any() else 0.0,
        float((found == 1).mean()),
        float((there & (found < k)).mean()),
        float((~there).mean()),
    )


def density_of_items(held: Records, places: int, slots: int) -> Floats:
    """Visits by place and slot, every item spread evenly over what it covers."""
    size = np.diff(held.areas.offsets)
    timed = np.asarray(held.first) >= 0
    first = np.where(timed, held.first, 0).astype(np.int64)
    last = np.where(timed, held.last, slots - 1).astype(np.int64)
    weight = 1.0 / (size[held.area] * (last - first + 1))
    steps = np.zeros((size.size, slots + 1))
    np.add.at(steps, (held.area, first), weight)
    np.add.at(steps, (held.area, last + 1), -weight)
    of_area = np.cumsum(steps, axis=1)[:, :slots]
    table = np.zeros((places, slots))
    np.add.at(table, held.areas.places, of_area[np.repeat(np.arange(size.size), size)])
    return np.maximum(table, 0.0)
