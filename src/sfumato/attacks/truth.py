"""The holder's own trajectories from events: what the attack is scored against. INTERNAL.

Somebody seen in several places within a slot is taken to be in one of them, by lot. A slot
without a record holds the last place before it, or the first after it; the share of such slots
is reported, because a filled trajectory is easier to recover than a lived one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.intake.reading import read_events
from sfumato.geography.overlay import Overlay
from sfumato.io.events import resolved
from sfumato.model.errors import InputError
from sfumato.model.events import Events
from sfumato.model.places import PlaceKind, Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

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
    grouping, _, _ = read_events(
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
