"""What the page shows of made-up people, beside what was released about true ones.

Made-up people are counted as true ones were: by the same pass over the same blocks
(`sfumato.model.lives`) where a method measured these, else by plain moves from one record to the
next. Nothing here reads a true record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.lives import lives
from sfumato.model.lives import EXTENT, LifeQuestion, life_question
from sfumato.model.traces import Traces
from sfumato.synthesis.fit import life_figures
from sfumato.synthesis.method import LENGTHS_KM, Chunk, Figures, Noisy, SynthFacts, TripTables
from sfumato.synthesis.regions import Ground, cell_in_box, ground_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FIGURES = "figures.json"
_ROWS = 12
"""Of the table of pairs of regions."""
_SQUARES = 16
"""Of the small maps, a side."""


class Tally:
    """Counts chunks as they are written.

    `trips` counts made-up trips on the tables of a method for traces; of others it is none.
    """

    def __init__(
        self,
        facts: SynthFacts,
        as_lives: bool,
        trips: Callable[[Traces], Noisy] | None = None,
    ) -> None:
        self._trips = trips
        self.tables: dict[str, Floats] = {}
        grid = facts.public.grid
        self._facts, self._edges = facts, grid.edges
        self.ids = np.unique(facts.public.released_ids)
        self._density = np.zeros((self.ids.size, grid.slots), np.int64)
        self._ground = ground_of(facts)
        self._metres = self._ground.at * (self._ground.span[2] / EXTENT)
        self._question = question_of_made(facts, self._ground) if as_lives else None
        self._vector = np.zeros(0 if self._question is None else self._question.cells, np.int64)
        size = self._ground.regions
        self._flows = np.zeros((size, size), np.int64)
        self._lengths = np.zeros(len(LENGTHS_KM) + 1, np.int64)

    def add(self, chunk: Chunk) -> None:
        """Distinct (person, place, slot), and what follows from them."""
        slot = np.searchsorted(self._edges, chunk.time, side="right") - 1
        place = chunk.place
        if place is None:
            assert self._facts.box is not None
            assert chunk.lon is not None
            assert chunk.lat is not None
            place = cell_in_box(self._facts.box, chunk.lon, chunk.lat)
        inside = (slot >= 0) & (slot < self._density.shape[1])
        user, slot, place = chunk.user[inside], slot[inside], place[inside]
        places, slots = self._density.shape
        once = np.unique((user * slots + slot) * places + place)
        np.add.at(self._density, (once % places, once // places % slots), 1)
        if self._question is not None:
            self._live(once, places, slots)
            return
        if self._trips is not None:
            assert chunk.lon is not None
            assert chunk.lat is not None
            trip = np.zeros_like(chunk.user) if chunk.trip is None else chunk.trip
            rows, none = np.arange(chunk.user.size), np.empty(0, object)
            given = Traces(none, chunk.user, trip, chunk.time, chunk.lon, chunk.lat, rows)
            for label, table in self._trips(given).items():
                self.tables[label] = self.tables.get(label, 0.0) + np.asarray(table, np.float64)
            return
        moves = np.flatnonzero((np.diff(user) == 0) & (np.diff(place) != 0))
        start, end = place[moves], place[moves + 1]
        size = self._flows.shape[0]
        pairs = self._ground.region[start] * size + self._ground.region[end]
        self._flows += np.bincount(pairs, minlength=size * size).reshape(size, size)
        far = np.hypot(*(self._metres[start] - self._metres[end]).T)
        which = np.searchsorted(np.array(LENGTHS_KM) * 1000.0, far, side="left")
        self._lengths += np.bincount(which, minlength=self._lengths.size)

    def _live(self, once: Ints, places: int, slots: int) -> None:
        """The pass over true users, over made-up ones."""
        assert self._question is not None
        bits = max(1, (places - 1).bit_length())
        who, starts = np.unique(once // (places * slots), return_index=True)
        cells = (once // places % slots << bits) | once % places
        offsets = np.append(starts, once.size).astype(np.int64)
        rows = (cells.astype(np.int64), offsets, np.int64(bits))
        arguments: tuple[Any, ...] = (*self._question.arguments(), self._vector)
        lives(rows, 0, who.size, *arguments)

    def made(self) -> Figures:
        """What was counted."""
        density = self._density.astype(np.float64)
        if self._question is not None:
            return life_figures(
                self._vector.astype(np.float64), self._question, self._ground, density
            )
        return Figures(
            density, self._lengths.astype(np.float64), self._flows.astype(np.float64), LENGTHS_KM
        )


def question_of_made(facts: SynthFacts, ground: Ground) -> LifeQuestion:
    """The question about the places that made-up people are put at."""
    metres = ground.at * (ground.span[2] / (EXTENT - 1)) + np.array(ground.span[:2])
    return life_question(
        facts.public.grid, metres, ground.region, ground.part, ground.span, ground.regions
    )


def figures_text(made: Figures, released: Figures, facts: SynthFacts) -> bytes:
    """The file that the page reads: shares, made-up and released side by side."""
    ground = ground_of(facts)
    found: dict[str, Any] = {"ends_km": list(made.ends_km)}
    found["lengths"] = {"made": _shares(made.lengths), "released": _shares(released.lengths)}
    if released.lengths is None or made.ends_km != released.ends_km:
        found["lengths"]["released"] = None
    totals = [None if one.density is None else one.density.sum(axis=0) for one in (made, released)]
    found["slots"] = {
        name: None if one is None else np.round(one, 1).tolist()
        for name, one in zip(("made", "released"), totals, strict=True)
    }
    found["flows"] = [] if made.flows is None else _flows(made.flows, released.flows, ground, facts)
    if made.trips is not None:
        found |= _trips(made.trips, released.trips or TripTables())
    return (json.dumps(found, sort_keys=True, allow_nan=False) + "\n").encode()


def _trips(made: TripTables, true: TripTables) -> dict[str, Any]:
    """Whole trips: their hours, the squares they pass or begin in, their ends and lengths."""
    pairs = made.pairs
    names = [] if pairs is None else _squares(math.isqrt(pairs.shape[0]))
    return {
        "trips": True,
        "ends_km": list(made.ends),
        "unit": made.unit,
        "lengths": {"made": _shares(made.lengths), "released": _shares(true.lengths)},
        "slots": {"made": _shares(made.hours), "released": _shares(true.hours)},
        "begin": made.begin,
        "cells": {"made": _map(made.cells), "released": _map(true.cells)},
        "flows": [] if pairs is None else _largest(pairs, true.pairs, names),
    }


def _map(cells: Floats | None) -> list[float] | None:
    """Shares of squares, at most `_SQUARES` a side: finer ones are joined."""
    if cells is None:
        return None
    side = math.isqrt(cells.size)
    join = next(k for k in range(1, side + 1) if side % k == 0 and side // k <= _SQUARES)
    small = side // join
    return _shares(cells.reshape(small, join, small, join).sum(axis=(1, 3)).ravel())


def _squares(side: int) -> list[str]:
    return [f"column {x + 1}, row {y + 1} of {side}" for x in range(side) for y in range(side)]


def _shares(values: Floats | None) -> list[float] | None:
    """Not negative. Of the sum with its negative noise, which has no bias, unless noise is most of
    it."""
    if values is None:
        return None
    kept = np.maximum(values, 0.0)
    whole = max(float(values.sum()), float(kept.sum()) / 2)
    return None if whole <= 0 else [round(float(share), 5) for share in kept / whole]


def _flows(
    made: Floats, released: Floats | None, ground: Ground, facts: SynthFacts
) -> list[dict[str, Any]]:
    """The largest flows between different regions; a region is called after its middle place."""
    assert facts.places is not None
    _, first = np.unique(facts.places.ids, return_index=True)
    names = facts.places.names[first]
    middle = []
    for region in range(ground.regions):
        members = np.flatnonzero(ground.region == region)
        apart = np.square(ground.at[members] - ground.at[members].mean(axis=0)).sum(axis=1)
        middle.append(str(names[members[apart.argmin()]]))
    return _largest(made, released, middle)


def _largest(made: Floats, released: Floats | None, names: list[str]) -> list[dict[str, Any]]:
    """Pairs of different places that most made-up people or trips have."""
    size = len(names)
    apart = np.where(np.eye(size, dtype=np.bool_), -1.0, made)
    whole = max(float(made.sum()), 1e-9)
    rows: list[dict[str, Any]] = []
    for cell in np.argsort(-apart, axis=None, kind="stable")[:_ROWS].tolist():
        start, end = divmod(cell, size)
        if made[start, end] <= 0 or start == end:
            continue
        known = None
        if released is not None:
            known = max(float(released[start, end]), 0.0) / max(float(released.sum()), 1.0)
            known = round(known, 5)
        share = round(float(made[start, end]) / whole, 5)
        rows.append({"from": names[start], "to": names[end], "made": share, "released": known})
    return rows
