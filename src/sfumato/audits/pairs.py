"""Neighbouring inputs: made-up event tables with and without one user, as bad as they come.

Every pair differs in one user's whole record. What the user does is chosen to strain one
argument each: the bound per slot (every place in every slot, which also reaches every cap), the
bound over slots (one place all the time, whether it is split over zones or lies in one; a new
place in every slot), totals (many visits in one place), shapes (there for half of the time),
the smallest trace (one visit), and how users are told apart (ids at the ends of their range,
beside ids of others). Under it lies a small public: nobody, one person, some, or a crowd that
keeps counts away from zero, where clipping would hide a difference.

They live in a small made-up world (`Stage`): three towers and one day. Small on purpose: the
promise does not depend on the size of the city, and a test on few
numbers needs few runs. The day has enough slots that a user who is always there reaches the
contribution bound: twice l slots for a sample, twice C^2 for weights, so that a bound which is
set too high shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.counts import Bound, SampleBound
from sfumato.model.events import EventColumns, Events, TimeEncoding, UserEncoding
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

Visits = NDArray[np.int64]
"""Rows of (user, place index, slot)."""
Trace = NDArray[np.int64]
"""Rows of (place index, slot)."""

TARGET = np.iinfo(np.int64).max
CROWD = "a crowd"
EXTREME_IDS = (TARGET, np.iinfo(np.int64).min, 0, -1)


@dataclass(frozen=True, slots=True, eq=False)
class TablePair:
    """Two event tables that differ in one user."""

    name: str
    with_user: Events
    without_user: Events


@dataclass(frozen=True, slots=True, eq=False)
class ArrayPair:
    """Two count arrays, place x slot, that differ in one user's unit visits."""

    name: str
    with_user: NDArray[np.int64]
    without_user: NDArray[np.int64]


def traces(places: int, slots: int, limit: int) -> dict[str, Trace]:
    """What the one user does. `limit` is the number of slots that a sampling bound keeps."""
    every = np.arange(slots)
    some = np.arange(min(limit, slots))
    return {
        "one place all the time": _trace(np.zeros(slots), every),
        "a new place in every slot": _trace(every % places, every),
        "one visit": _trace([0], [0]),
        "every place in every slot": _trace(
            np.repeat(np.arange(places), slots), np.tile(every, places)
        ),
        "the last place all the time": _trace(np.full(slots, places - 1), every),
        "one place half of the time": _trace(np.zeros((slots + 1) // 2), every[: (slots + 1) // 2]),
        f"{some.size} visits to one place": _trace(np.zeros(some.size), some),
        f"{some.size} visits to different places": _trace(some % places, some),
    }


def publics(places: int, slots: int, crowd: int) -> dict[str, Visits]:
    """Who else is there. The crowd puts `crowd` people with one visit each in every cell."""
    rng = np.random.default_rng(20140824)
    some = [
        (user, int(place), int(slot))
        for user in range(1, 13)
        for slot, place in enumerate(rng.integers(0, places, slots))
        if rng.random() < 0.5
    ]
    cells = _trace(np.repeat(np.arange(places), slots), np.tile(np.arange(slots), places))
    visits = np.tile(cells, (crowd, 1))
    return {
        "nobody else": np.empty((0, 3), np.int64),
        "one other person": np.array([(1, 0, slot) for slot in range(slots)], np.int64),
        "some others": np.array(some, np.int64).reshape(-1, 3),
        CROWD: np.column_stack((np.arange(1, len(visits) + 1), visits)),
    }


def table_pairs(
    place_ids: Sequence[str], grid: TimeGrid, *, limit: int = 30, crowd: int = 40
) -> Iterator[TablePair]:
    """All traces on all publics, then the extreme ids, as integers and as text."""
    places, slots = len(place_ids), grid.slots
    for where, others in publics(places, slots, crowd).items():
        alone = events_of(others, place_ids, grid)
        for what, trace in traces(places, slots, limit).items():
            pair = _pair(f"{what}, {where}", others, trace, TARGET, place_ids, grid)
            yield replace(pair, without_user=alone)  # one table for all: it is counted once
    beside = np.array([(e, 0, 0) for e in EXTREME_IDS], np.int64)
    first = traces(places, slots, limit)["one place all the time"]
    for target in EXTREME_IDS:
        others = beside[beside[:, 0] != target]
        name = f"id {target} beside extreme ids"
        yield _pair(name, others, first, target, place_ids, grid)
    spelled: dict[int, str] = {0: "", 1: "0", 2: "00", 3: "é" * 200}
    text = np.array([(u, 0, 0) for u in (1, 2, 3)], np.int64)
    name = "an empty text id beside ids that look alike"
    yield _pair(name, text, first, 0, place_ids, grid, spelled.__getitem__)


def array_pairs(places: int, slots: int, *, limit: int = 30) -> Iterator[ArrayPair]:
    """The traces of one visit a slot and at most `limit` slots, as counts."""
    base = np.random.default_rng(20190913).integers(0, 9, (places, slots))
    for where, counts in (("zeros", np.zeros_like(base)), ("small counts", base)):
        for what, trace in traces(places, slots, limit).items():
            if len(trace) > limit:
                continue
            more = counts.copy()
            np.add.at(more, (trace[:, 0], trace[:, 1]), 1)
            yield ArrayPair(f"{what}, on {where}", more, counts)


def pair_of(
    name: str, others: Visits, trace: Trace, place_ids: Sequence[str], grid: TimeGrid
) -> TablePair:
    """These others, with and without one user who leaves this trace."""
    return _pair(name, others, trace, TARGET, place_ids, grid)


def _trace(places: object, slots: object) -> Trace:
    return np.column_stack((np.asarray(places), np.asarray(slots))).astype(np.int64)


def _pair(
    name: str,
    others: Visits,
    trace: Trace,
    target: int,
    place_ids: Sequence[str],
    grid: TimeGrid,
    spell: Callable[[int], str] | None = None,
) -> TablePair:
    mine = np.column_stack((np.full(len(trace), target, np.int64), trace))
    everyone = np.concatenate((others, mine))
    return TablePair(
        name,
        events_of(everyone, place_ids, grid, spell),
        events_of(others, place_ids, grid, spell),
    )


def events_of(
    visits: Visits,
    place_ids: Sequence[str],
    grid: TimeGrid,
    spell: Callable[[int], str] | None = None,
) -> Events:
    """The visits as an in-memory Arrow table, each in the middle of its slot."""
    middle = (grid.edges[:-1] + grid.edges[1:]) // 2
    users = visits[:, 0]
    table = pa.table(
        {
            "user": pa.array(
                users if spell is None else [spell(int(u)) for u in users],
                pa.int64() if spell is None else pa.string(),
            ),
            "time": pa.array(middle[visits[:, 2]], pa.int64()),
            "place": pa.array(np.asarray(place_ids, dtype=object)[visits[:, 1]], pa.string()),
        }
    )
    return Events.of_table(
        table,
        EventColumns("user", "time", "place"),
        TimeEncoding.EPOCH_US,
        UserEncoding.INTEGER if spell is None else UserEncoding.TEXT,
        label="made-up neighbours",
    )


_STEPS = (120, 60, 30, 15, 10, 5)  # minutes
_DAY = 24 * 60


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Public towers, zones and slots, and how many slots a sampling bound keeps."""

    places: Places
    grid: TimeGrid
    limit: int
    zones: Places

    @classmethod
    def for_bound(cls, bound: Bound) -> Stage:
        """A day in which the bound bites."""
        wanted = 2 * bound.slots if isinstance(bound, SampleBound) else 2 * bound.limit**2
        step = next((m for m in _STEPS if _DAY // m >= wanted), None)
        if step is None:
            raise UsageError(
                "The contribution bound is too large for the audit's one day.",
                remedy=f"Audit with at most sample:{_DAY // _STEPS[-1] // 2} or weight:12.",
            )
        day = date(2024, 1, 15)
        grid = TimeGrid.between(day, day + timedelta(days=1), timedelta(minutes=step), "UTC")
        ids = ["north", "south", "west"]
        points: list[shapely.Geometry] = [shapely.Point(2.35 + 0.01 * i, 48.85) for i in range(3)]
        limit = bound.slots if isinstance(bound, SampleBound) else grid.slots
        zones: list[shapely.Geometry] = [
            shapely.box(2.34 + 0.01 * i, 48.84, 2.35 + 0.01 * i, 48.86) for i in range(3)
        ]
        return cls(
            Places.of(PlaceKind.TOWERS, ids, points),
            grid,
            limit,
            Places.of(PlaceKind.ZONES, ["inner", "middle", "outer"], zones),
        )

    def pairs(self, crowd: int) -> list[TablePair]:
        """All neighbouring tables on this stage; `crowd` people in every cell at most."""
        return list(table_pairs(self.places.ids.tolist(), self.grid, limit=self.limit, crowd=crowd))
