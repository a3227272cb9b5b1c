"""Intake: rows located and judged.

**Where a row is**: the row of `Places` that a batch's names or coordinates mean. Names are compared
as text, exactly. An integer column means the decimal text of its values, so it can only name places
whose id is such a text: `7` and never `07`. A tower that moved has several rows under one name; the
judgement of a row, a compiled loop, picks the one valid at its time.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.io.rows import Positions
from sfumato.io.values import numbers, validity
from sfumato.model.compiled import compiled
from sfumato.model.places import Places

Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""

MISSING_PLACE = -2
BAD_COORDINATES = -3
OUTSIDE_ZONES = -4

(
    NO_USER,
    NO_TIME,
    NOT_A_TIME,
    OUTSIDE_PERIOD,
    NO_PLACE,
    UNKNOWN_PLACE,
    NOT_VALID_THEN,
    BAD_POSITION,
    NO_ZONE,
) = range(9)
REASONS = 9


@compiled
def judge(
    t: Array,
    t_valid: Array,
    user_valid: Array,
    found: Array,
    names: Array,
    groups: Array,
    valid_from: Array,
    valid_to: Array,
    edges: Array,
    slot_at: Array,
    step: Int,
    bad_time: Int,
    place_bits: Int,
    first_row: Int,
    tally: Array,
    first: Array,
    cells: Array,
) -> None:
    """Cell of each row, `slot << place_bits | place`, or -1 with its reason counted.

    `found` is the group of places a row names (several rows of one tower that moved) or the
    negative reason why there is none; where `names` is not empty, it is the entry of a dictionary
    of which `names` says that. `step` is the distance of the edges where all are equal, else 0;
    `slot_at` is the slot behind each of them, or empty where that is their number.
    """
    last = edges.size - 1
    each = 1.0 / step if step > 0 else 0.0
    for i in range(t.size):
        reason = -1
        place = np.int64(names[found[i]] if names.size else found[i])
        slot = np.int64(0)
        if user_valid.size and not user_valid[i]:
            reason = NO_USER
        elif t_valid.size and not t_valid[i]:
            reason = NO_TIME
        elif t[i] == bad_time:
            reason = NOT_A_TIME
        elif t[i] < edges[0] or t[i] >= edges[last]:
            reason = OUTSIDE_PERIOD
        elif place < 0:
            if place == MISSING_PLACE:
                reason = NO_PLACE
            elif place == BAD_COORDINATES:
                reason = BAD_POSITION
            elif place == OUTSIDE_ZONES:
                reason = NO_ZONE
            else:
                reason = UNKNOWN_PLACE
        else:
            row = groups[place]
            end = groups[place + 1]
            while row < end and not (valid_from[row] <= t[i] < valid_to[row]):
                row += 1
            if row == end:
                reason = NOT_VALID_THEN
            place = np.int64(row)
        if reason >= 0:
            cells[i] = -1
            if tally[reason] == 0:
                first[reason] = first_row + i
            tally[reason] += 1
            continue
        if step > 0:
            # A product of doubles may be one off; a division of integers takes four times as long.
            since = t[i] - edges[0]
            slot = np.int64(np.float64(since) * each)
            rest = since - slot * step
            slot += np.int64(rest >= step) - np.int64(rest < 0)
        else:
            slot = np.searchsorted(edges, t[i], side="right") - 1
        if slot_at.size:
            slot = slot_at[slot]
        cells[i] = (slot << place_bits) | place


@compiled
def judge_plain(
    t: Array,
    found: Array,
    names: Array,
    edges: Array,
    step: Int,
    place_bits: Int,
    cells: Array,
) -> Int:
    """`judge` where nothing is missing, places are valid throughout, and edges equally far apart.

    Returns how many rows do not count; then all are to be judged, for their reasons.
    """
    first = edges[0]
    span = edges[edges.size - 1] - first
    each = 1.0 / step
    bad = 0
    for i in range(t.size):
        place = np.int64(names[np.uintp(found[i])]) if names.size else np.int64(found[i])
        since = t[i] - first
        good = since >= 0 and since < span and place >= 0
        slot = np.int64(np.float64(since) * each)
        rest = since - slot * step
        slot += np.int64(rest >= step) - np.int64(rest < 0)
        cells[i] = (slot << place_bits) | place if good else np.int64(-1)
        bad += not good
    return bad


@compiled
def keep_asked(cells: Array, bits: Int, asked: Array, one: Int) -> None:
    """Rows that lie in no question are none: their cell becomes -1.

    Where `one` is not negative, it is the cell of all others: that somebody was there is asked.
    """
    mask = (np.int64(1) << bits) - 1
    for i in range(cells.size):
        cell = np.int64(cells[i])
        if cell < 0:
            continue
        if not asked[cell & mask, cell >> bits]:
            cells[i] = -1
        elif one >= 0:
            cells[i] = one


class Locate(Protocol):
    """Points to rows of zones, -1 outside all of them."""

    def locate(self, lon: NDArray[np.float64], lat: NDArray[np.float64]) -> NDArray[np.int32]: ...


def in_range(lon: NDArray[np.float64], lat: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Coordinates that are finite and on the globe."""
    mask: NDArray[np.bool_] = (np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0)
    return mask


class NamedPlaces:
    """Places by the name in the events. `groups` are the rows of each name."""

    def __init__(self, places: Places) -> None:
        names, first = np.unique(places.ids, return_index=True)
        self.groups = np.append(first, len(places)).astype(np.int64)
        texts = pa.array([str(name) for name in names], pa.string())
        self._texts = _Names(texts, np.arange(names.size))
        keep = np.array([k for k, name in enumerate(names) if _is_decimal(str(name))], np.int64)
        integers = pa.array([int(names[k]) for k in keep], pa.int64())
        self._integers = _Names(integers, keep)

    def find(self, column: Any) -> NDArray[np.int32]:
        """Name of each row, or a negative reason."""
        return (self._integers if column.type == pa.int64() else self._texts).find(column)


class _Names:
    """Names, and which rows of all names they are. Arrow compares them whole."""

    def __init__(self, names: Any, keep: NDArray[Any]) -> None:
        self._names = names
        self._keep = np.append(keep.astype(np.int32), np.int32(-1))

    def find(self, column: Any) -> NDArray[np.int32]:
        at = pc.index_in(column, value_set=self._names.cast(column.type)).fill_null(-1)
        found = self._keep[at.to_numpy()]
        there = validity(column)
        return np.where(there, found, np.int32(MISSING_PLACE)) if there.size else found


class LocatedPlaces:
    """Zones by the events' coordinates, in vectorised batches."""

    def __init__(self, places: Places, locator: Locate) -> None:
        self._locator = locator
        self.groups = np.arange(len(places) + 1, dtype=np.int64)

    def find(self, lon: NDArray[np.float64], lat: NDArray[np.float64]) -> NDArray[np.int32]:
        """Zone of each row, or a negative reason."""
        good = in_range(lon, lat)
        found = np.full(lon.size, BAD_COORDINATES, np.int32)
        if good.all():
            inside = self._locator.locate(lon, lat)
        else:
            inside = self._locator.locate(lon[good], lat[good])
        found[good] = np.where(inside >= 0, inside, OUTSIDE_ZONES)
        return found


_NO_NAMES = np.empty(0, np.int32)


class PlaceFinder:
    """Each batch by what it carries: names or coordinates. One for each reading."""

    def __init__(self, named: NamedPlaces, located: LocatedPlaces | None) -> None:
        self._named = named
        self._located = located
        self._dictionary: Any = None
        self._names = _NO_NAMES

    def find(self, rows: Positions) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Name or zone of each row, or a negative reason; and the rows of `Places` of each."""
        found, names, groups = self.entries(rows)
        return (names[found] if names.size else found), groups

    def entries(
        self, rows: Positions
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """The same in two steps, for a compiled loop.

        A dictionary's entries are looked up once for as long as it stays the same: the second
        array says what they are, and the first which of them each row names.
        """
        if rows.lon is not None and rows.lat is not None:
            assert self._located is not None  # only zones are found by coordinates
            return self._located.find(rows.lon, rows.lat), _NO_NAMES, self._located.groups
        column = rows.place
        if not isinstance(column, pa.DictionaryArray):
            return self._named.find(column), _NO_NAMES, self._named.groups
        dictionary = column.dictionary
        if self._dictionary is None or not dictionary.equals(self._dictionary):
            found = self._named.find(dictionary)
            self._names = np.append(found, np.int32(MISSING_PLACE)).astype(np.int32)
            self._dictionary = dictionary
        there, at = validity(column), numbers(column.indices, np.int32)
        missing = np.int32(self._names.size - 1)
        return (np.where(there, at, missing) if there.size else at), self._names, self._named.groups


def _is_decimal(text: str) -> bool:
    """True for the decimal text of a 64-bit integer, as a cast to text writes it."""
    body = text.removeprefix("-")
    if not (body.isascii() and body.isdigit()) or len(body) > 19:
        return False
    return str(int(text)) == text and -(1 << 63) <= int(text) < 1 << 63
