"""What a recovery attack is given: the map, the holder's true trajectories, and whole people.

**The map** (`Ground`): where the cells are, how far apart, and a place for people who are not
counted. Cell `cells` (one past the last) is *nowhere*: people that a table does not show in a slot
wait there. It is half the map's diameter from every cell, the least distance that keeps the
triangle inequality, on which the stay-first reduction of `recovery.transport` rests.

**The truth** (`People`) that an attack is scored against: the holder's own trajectories from
events, INTERNAL and held by the holder alone. Somebody seen in several places within a slot is
taken to be in one of them, by lot. A slot without a record holds the last place before it, or the
first after it; the share of such slots is reported, because a filled trajectory is easier to
recover than a lived one.

**Whole people** from any table of counts: the stated rule for what noise and rounding did. The
attack of Xu et al. (2017) needs every slot to hold the same whole number of people. A
published table may not: totals move, counts are negative or fractional, small ones are missing.

* *nowhere*: counts are rounded to whole numbers (halves up) and negative ones are zero. The
  fullest slot sets the number of people; in other slots the missing ones are nowhere. This
  keeps exact and suppressed counts as they are.
* *scale*: the number of people is the median of the slots' own sums (noise of both signs
  cancels there, and would not after clipping). Negative counts become zero, each slot is scaled
  to that number and rounded by largest remainder, ties by lot. A slot without a positive
  count repeats the one before it, the first is then spread evenly.

*auto* takes *nowhere* for whole non-negative tables and *scale* for all others.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from sfumato.engine.local import read_events
from sfumato.errors import InputError, UsageError
from sfumato.geography.overlay import Overlay
from sfumato.io.events import resolved
from sfumato.model.events import Events
from sfumato.model.places import PlaceKind, Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import Clock, TimeGrid

Cells = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Centres of the cells in metres, n x 2."""

    centres: NDArray[np.float64]
    far: float = field(init=False)
    """Metres from nowhere to anywhere."""
    _tree: cKDTree = field(init=False, repr=False)

    def __post_init__(self) -> None:
        at = np.ascontiguousarray(self.centres, dtype=np.float64)
        if at.ndim != 2 or at.shape[1] != 2 or not len(at) or not np.isfinite(at).all():
            raise UsageError("The attack needs the centre of every cell, in metres.")
        at.setflags(write=False)
        object.__setattr__(self, "centres", at)
        # The box's diagonal is at least the diameter, and a stated value needs no more.
        object.__setattr__(self, "far", max(float(np.hypot(*np.ptp(at, axis=0))) / 2, 1.0))
        object.__setattr__(self, "_tree", cKDTree(at))

    @property
    def cells(self) -> int:
        return len(self.centres)

    @property
    def nowhere(self) -> int:
        """Index of the cell that is none."""
        return len(self.centres)

    def metres(self, one: Cells, other: Cells) -> NDArray[np.float64]:
        """Distance of cells, element by element (arrays broadcast)."""
        lost, also = one == self.nowhere, other == self.nowhere
        a, b = self.centres[np.where(lost, 0, one)], self.centres[np.where(also, 0, other)]
        apart = np.hypot(a[..., 0] - b[..., 0], a[..., 1] - b[..., 1])
        return np.where(lost & also, 0.0, np.where(lost | also, self.far, apart))

    def predicted(self, before: Cells, now: Cells) -> Cells:
        """Where the last step, taken once more, leads: the nearest cell, inside the map.

        Xu et al. (2017) add the last displacement to the position and snap to a cell. Who
        stayed is predicted to stay, and so is who was or is nowhere.
        """
        guess = now.copy()
        moved = np.flatnonzero((before != now) & (before != self.nowhere) & (now != self.nowhere))
        if moved.size:
            pair = before[moved] * np.int64(self.cells) + now[moved]
            steps, which = np.unique(pair, return_inverse=True)
            was, is_ = self.centres[steps // self.cells], self.centres[steps % self.cells]
            guess[moved] = np.asarray(self._tree.query(2 * is_ - was)[1], dtype=np.int64)[which]
        return guess


MAX_PEOPLE = 2_000_000
_WHOLE = 1e-9


class Fill(StrEnum):
    AUTO = "auto"
    NOWHERE = "nowhere"
    SCALE = "scale"


def whole_people(
    table: NDArray[np.float64] | NDArray[np.int64],
    rng: np.random.Generator,
    *,
    fill: Fill = Fill.AUTO,
    people: int | None = None,
) -> NDArray[np.int64]:
    """(places + 1) x slots, every column with the same sum; the last row is nowhere.

    `people` sets the number where the adversary knows it.
    """
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or 0 in values.shape or not np.isfinite(values).all():
        raise UsageError("A table of finite numbers, place x slot, is needed.")
    if fill is Fill.AUTO:
        whole = bool((values >= 0).all() and (np.abs(values - np.rint(values)) < _WHOLE).all())
        fill = Fill.NOWHERE if whole else Fill.SCALE
    if fill is Fill.NOWHERE:
        counts = np.maximum(np.floor(values + 0.5), 0)
        total = _checked(people, float(counts.sum(axis=0).max()))
        over = np.flatnonzero(counts.sum(axis=0) > total)
        for t in over.tolist():  # only where fewer people are known than the table shows
            counts[:, t] = _rounded(counts[:, t], total, rng)
    else:
        total = _checked(people, float(np.median(values.sum(axis=0))))
        shown = np.maximum(values, 0.0)
        counts = np.zeros_like(shown)
        last = _rounded(np.ones(len(values)), total, rng)
        for t in range(values.shape[1]):
            if shown[:, t].sum() > 0:
                last = _rounded(shown[:, t], total, rng)
            counts[:, t] = last
    nowhere = total - counts.sum(axis=0)
    return np.vstack([counts, nowhere]).astype(np.int64)


def suppressed(counts: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Counts below k become zero: what suppression publishes."""
    return np.where(counts < k, 0, counts)


def counts_of(trajectories: NDArray[np.int32], cells: int) -> NDArray[np.int64]:
    """Cell x slot counts of people x slot cells; negative cells are nobody's."""
    slots = trajectories.shape[1]
    seen = trajectories >= 0
    key = trajectories.astype(np.int64) * slots + np.arange(slots)
    return np.bincount(key[seen], minlength=cells * slots).reshape(cells, slots).astype(np.int64)


def _checked(people: int | None, shown: float) -> int:
    total = people if people is not None else max(1, round(shown))
    if not 1 <= total <= MAX_PEOPLE:
        raise UsageError(
            f"The attack handles 1 to {MAX_PEOPLE} people.", remedy="Take a smaller region."
        )
    return total


def _rounded(
    values: NDArray[np.float64], total: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Whole numbers in proportion to `values` that sum to `total`: largest remainder."""
    share = values / values.max()  # first, so that tiny values do not overflow below
    exact: NDArray[np.float64] = share * (total / share.sum())
    down: NDArray[np.float64] = np.floor(exact)
    short = round(total - down.sum())
    order = np.lexsort((rng.random(values.size), -(exact - down)))
    down[order[:short]] += 1
    return down


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Whom the tables are about: person x slot cells, the map and the clock."""

    cells: NDArray[np.int32]
    ground: Ground
    clock: Clock
    filled: float = 0.0
    """Share of slots without a record of the person, filled with the last known place."""
    others: NDArray[np.int32] | None = None
    """Other people of the same town whom no table counts: what a census would tell. A study has
    them, a holder has not."""

    @property
    def counts(self) -> NDArray[np.int64]:
        return counts_of(self.cells, self.ground.cells)


MAX_CELLS = 1 << 29
"""Person-slots that are held at once: 2 GiB."""


@dataclass(frozen=True, slots=True, eq=False)
class Trajectories:
    """Person x slot places, every slot filled, and the share that had to be."""

    cells: NDArray[np.int32]
    filled: float


def trajectories(
    events: Events,
    places: Places,
    grid: TimeGrid,
    *,
    zones: Overlay | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Trajectories:
    """Everybody's place in every slot; with `zones` the zone with most of the tower's cell."""
    bits = max(1, (len(places) - 1).bit_length())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    grouping, _ = read_events(
        resolved(events, places.kind is PlaceKind.ZONES),
        places,
        grid,
        place_bits=bits,
        threads=os.cpu_count() or 1,
        memory=memory,
        progress=progress,
    )
    rng = np.random.default_rng([seed, 0x7A])
    parts = []
    try:
        for block in grouping.blocks():
            if block.users * grid.slots > MAX_CELLS:
                raise InputError(
                    "there are too many people and slots to attack at once.",
                    remedy="Take a shorter period or a coarser slot.",
                )
            person = np.repeat(np.arange(block.users), np.diff(block.offsets))
            packed = block.cells[: person.size].astype(np.int64)
            parts.append(
                _rows(
                    person, packed >> bits, packed & ((1 << bits) - 1), block.users, grid.slots, rng
                )
            )
    finally:
        grouping.close()
    rows = np.concatenate(parts) if parts else np.empty((0, grid.slots), np.int32)
    if zones is not None:
        to = np.asarray(zones.shares.tocsr().argmax(axis=1)).ravel().astype(np.int32)
        inside = np.asarray(zones.shares.sum(axis=1)).ravel() > 0
        rows = np.where((rows >= 0) & inside[rows], to[rows], -1).astype(np.int32)
    rows = rows[(rows >= 0).any(axis=1)]
    if not len(rows):
        raise InputError("no event lies in the release's period and places.")
    return Trajectories(fill(rows), float((rows < 0).mean()))


def _rows(
    person: NDArray[np.int64],
    slot: NDArray[np.int64],
    place: NDArray[np.int64],
    people: int,
    slots: int,
    rng: np.random.Generator,
) -> NDArray[np.int32]:
    order = rng.permutation(person.size)  # whoever is written last wins: one place by lot
    rows = np.full((people, slots), -1, np.int32)
    rows[person[order], slot[order]] = place[order]
    return rows


def fill(rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Hold the last known place; before the first known one, that one."""
    slots = rows.shape[1]
    known = np.where(rows >= 0, np.arange(slots), -1)
    last = np.maximum.accumulate(known, axis=1)
    first = np.argmax(rows >= 0, axis=1)
    at = np.where(last >= 0, last, first[:, None])
    return np.take_along_axis(rows, at, axis=1)
