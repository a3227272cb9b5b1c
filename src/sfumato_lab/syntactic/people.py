"""Whose records are anonymised: everybody's distinct visits, and their positions on a public clock.

Read as every verb reads events, once, for places and slots that are given and never looked up.
What is held here is the holder's own and exact: `anonymise` never claims otherwise.

A *clock* is the grid of slots: Never Walk Alone needs a position of everybody at every instant.
Where a slot has no record (call records have few) the position is interpolated on the straight
line between the record before and the record after; before the first and after the last it is that
one. The share of such positions is stated wherever the paths go. Several records in a slot are
their mean. Somebody with records in a single slot stands still for the whole period, which is not
a trajectory: such people are left out of paths, and counted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray

from sfumato.engine.local import DropLog, read_events
from sfumato.errors import InputError, UsageError
from sfumato.geography.projection import Plane
from sfumato.io.events import read_events as described
from sfumato.io.events import resolved
from sfumato.model.compiled import compiled
from sfumato.model.places import PlaceKind, Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]
TRAJECTORIES = "people with records in two slots or more"
Metres = NDArray[np.float32]
"""People x slots x 2 on a plane. A float32 holds 100 km to 8 mm: finer than any fix."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Distinct visits: person i has `offsets[i]:offsets[i + 1]` of place and slot, by slot.

    Example:
        >>> held = Held.of([0, 0, 1], [2, 1, 1], [5, 3, 3])
        >>> held.offsets.tolist(), held.place.tolist(), held.slot.tolist()
        ([0, 2, 3], [1, 2, 1], [3, 5, 3])
    """

    offsets: Ints
    place: Numbers
    slot: Numbers
    users: Any = field(default=None, repr=False)
    """Their ids, as an Arrow array."""
    drops: DropLog | None = None

    @classmethod
    def of(cls, person: Any, place: Any, slot: Any) -> Held:
        """From rows in any order; people are numbers from 0 without gaps."""
        rows = np.unique(np.column_stack([person, slot, place]).astype(np.int64), axis=0)
        people = int(rows[:, 0].max(initial=-1)) + 1
        offsets = np.searchsorted(rows[:, 0], np.arange(people + 1)).astype(np.int64)
        columns = (rows[:, 2].astype(np.int32), rows[:, 1].astype(np.int32))
        return cls(offsets, *columns, pa.array(np.arange(people)))

    def __len__(self) -> int:
        return int(self.offsets.size) - 1

    @property
    def person(self) -> Ints:
        """The person of every visit."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def take(self, rows: Ints) -> Held:
        """Some of the people, in this order."""
        many = np.diff(self.offsets)[rows]
        offsets = np.r_[0, np.cumsum(many)].astype(np.int64)
        at = np.repeat(self.offsets[rows] - offsets[:-1], many) + np.arange(offsets[-1])
        users = None if self.users is None else self.users.take(pa.array(rows))
        return Held(offsets, self.place[at], self.slot[at], users, self.drops)

    def slots_seen(self) -> Ints:
        """How many different slots each person has a record in."""
        return _slots_seen(self.offsets, self.slot)


def read_people(
    events: object,
    places: Places,
    grid: TimeGrid,
    *,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    format: str | None = None,
    progress: Progress | None = None,
) -> Held:
    """Everybody's distinct visits, one read.

    Raises:
        InputError: The events cannot be read, nobody is in the period and places, or a place
            stands twice.
    """
    if np.unique(places.ids).size != len(places):
        raise InputError(
            "a tower that moved is two places here.",
            remedy="Give it an id for each of its positions, or a list that is valid throughout.",
        )
    bits = max(1, (len(places) - 1).bit_length())
    reading: dict[str, Any] = {"columns": columns, "tz": tz, "time_unit": time_unit}
    source = described(events, period=grid.period, format=format, progress=progress, **reading)
    try:
        grouping, drops = read_events(
            resolved(source, places.kind is PlaceKind.ZONES),
            places,
            grid,
            place_bits=bits,
            threads=os.cpu_count() or 1,
            memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4,
            progress=progress,
        )
        try:
            blocks = [
                (np.diff(block.offsets), block.cells[: block.offsets[-1]], _ids(block))
                for block in grouping.blocks()
            ]
        finally:
            grouping.close()
    finally:
        if source is not events:
            source.close()
    many = np.concatenate([np.empty(0, np.int64), *(one for one, _, _ in blocks)])
    cells = np.concatenate([np.empty(0, np.int64), *(one for _, one, _ in blocks)])
    users = pa.chunked_array([one for _, _, one in blocks]) if blocks else pa.chunked_array([[]])
    there = many > 0
    if not there.any():
        raise InputError(
            "no event lies in the period and places.",
            remedy="`sfumato inspect` shows how the rows could be read.",
        )
    offsets = np.r_[0, np.cumsum(many[there])].astype(np.int64)
    place, slot = (cells & ((1 << bits) - 1)).astype(np.int32), (cells >> bits).astype(np.int32)
    ids = users.combine_chunks().filter(pa.array(there))
    # By id: the order of reading differs from run to run, and a seed is to give the same result.
    order = pc.sort_indices(ids).to_numpy()
    return Held(offsets, place, slot, ids, drops).take(order.astype(np.int64))


def _ids(block: Any) -> Any:
    return block.ids(np.arange(block.users))


def drawn_by(seed: int | None, held: Held) -> np.random.Generator:
    """Lots: fresh ones, or by a seed together with all that is held.

    A seed alone could be tried, and whoever knows everybody's ids would read from the order of the
    records whose each is; nobody but the holder has the records that it is mixed with.
    """
    if seed is None:
        return np.random.default_rng()
    digest = hashlib.sha256(repr((seed, pa.array(held.users).to_pylist())).encode())
    for part in (held.offsets, held.place, held.slot):
        digest.update(np.ascontiguousarray(part).tobytes())
    return np.random.default_rng(np.frombuffer(digest.digest(), np.uint32))


def enough_people(people: int, k: int, who: str = "people") -> None:
    """Whether k people can be alike at all.

    Raises:
        UsageError: k is no number of people, or there are fewer.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 2:
        raise UsageError("`k` is a whole number, at least 2.")
    if people < k:
        raise UsageError(
            f"k = {k:,} {who} cannot be alike where there are fewer.",
            remedy="Lower `k`, or take a longer period or more places.",
        )


def plane_of(places: Places) -> tuple[Plane, NDArray[np.float64]]:
    """A plane of metres around the places, and their centres on it. Public."""
    west, south, east, north = shapely.total_bounds(places.geometry)
    plane = Plane(float((west + east) / 2), float((south + north) / 2))
    return plane, plane.to_metres(shapely.get_coordinates(shapely.centroid(places.geometry)))


@dataclass(frozen=True, slots=True, eq=False)
class OnClock:
    """Positions of everybody who has a trajectory at every slot, and who these are."""

    at: Metres
    who: Ints
    seen: Ints
    """How many of the slots each has a record in; their other positions are interpolated."""


def on_clock(held: Held, centre: NDArray[np.float64], slots: int) -> OnClock:
    """Positions at every slot, interpolated between records."""
    seen = held.slots_seen()
    who = np.flatnonzero(seen > 1)
    at = np.empty((who.size, slots, 2), np.float32)
    centre = np.ascontiguousarray(centre, np.float64)
    _interpolate(held.offsets, held.place, held.slot, centre, who, at)
    return OnClock(at, who, seen[who])


@compiled
def _slots_seen(offsets: Ints, slot: Numbers) -> Ints:
    out = np.zeros(offsets.size - 1, np.int64)
    for i in range(offsets.size - 1):
        last = -1
        for j in range(offsets[i], offsets[i + 1]):
            if slot[j] != last:
                out[i] += 1
                last = slot[j]
    return out


@compiled
def _interpolate(
    offsets: Ints,
    place: Numbers,
    slot: Numbers,
    centre: NDArray[np.float64],
    who: Ints,
    out: Metres,
) -> None:
    slots = out.shape[1]
    for row in range(who.size):
        low, high = offsets[who[row]], offsets[who[row] + 1]
        before = -1
        x0, y0 = 0.0, 0.0
        j = low
        while j < high:
            now = slot[j]
            x, y, many = 0.0, 0.0, 0
            while j < high and slot[j] == now:
                x += centre[place[j], 0]
                y += centre[place[j], 1]
                many += 1
                j += 1
            x, y = x / many, y / many
            if before < 0:
                for t in range(now):
                    out[row, t, 0], out[row, t, 1] = x, y
            else:
                for t in range(before + 1, now):
                    part = (t - before) / (now - before)
                    out[row, t, 0], out[row, t, 1] = x0 + part * (x - x0), y0 + part * (y - y0)
            out[row, now, 0], out[row, now, 1] = x, y
            before, x0, y0 = now, x, y
        for t in range(before + 1, slots):
            out[row, t, 0], out[row, t, 1] = x0, y0
