"""What the page shows of made-up people, beside what was released about true ones.

Made-up people are counted as true ones were: by the same pass over the same blocks
(`sfumato.model.lives`) where a method measured these, else by plain moves from one record to the
next. Nothing here reads a true record.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.lives import lives
from sfumato.model.lives import EXTENT, LifeQuestion, life_question
from sfumato.synthesis.fit import life_figures
from sfumato.synthesis.method import LENGTHS_KM, Chunk, Figures, SynthFacts
from sfumato.synthesis.regions import Ground, cell_in_box, ground_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FIGURES = "figures.json"
_ROWS = 12
"""Of the table of pairs of regions."""


class Tally:
    """Counts chunks as they are written."""

    def __init__(self, facts: SynthFacts, as_lives: bool) -> None:
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
    return (json.dumps(found, sort_keys=True, allow_nan=False) + "\n").encode()


def _shares(values: Floats | None) -> list[float] | None:
    if values is None or values.sum() <= 0:
        return None
    return [round(float(share), 5) for share in np.maximum(values, 0.0) / values.sum()]


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
    apart_of = np.where(np.eye(ground.regions, dtype=np.bool_), -1.0, made)
    order = np.argsort(-apart_of, axis=None, kind="stable")[:_ROWS]
    whole = max(float(made.sum()), 1.0)
    true = released
    rows: list[dict[str, Any]] = []
    for cell in order.tolist():
        start, end = divmod(cell, ground.regions)
        if made[start, end] <= 0 or start == end:
            continue
        known = None
        if true is not None:
            known = round(max(float(true[start, end]), 0.0) / max(float(true.sum()), 1.0), 5)
        share = round(float(made[start, end]) / whole, 5)
        rows.append({"from": middle[start], "to": middle[end], "made": share, "released": known})
    return rows
