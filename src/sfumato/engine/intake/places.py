"""Where a row is: the row of `Places` that a batch's names or coordinates mean.

Names are compared as text, exactly. An integer column means the decimal text of its values, so
it can only name places whose id is such a text: `7` and never `07`. A tower that moved has
several rows under one name; the judgement of a row picks the one valid at its time.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.ids.tables import ByteIds, Ids, IntegerIds
from sfumato.engine.intake import kernels
from sfumato.io.arrow import numbers, validity
from sfumato.io.rows import Positions
from sfumato.model.events import UserEncoding
from sfumato.model.places import Places


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
        self._texts = _Names(
            ByteIds(UserEncoding.TEXT),
            pa.array([str(name) for name in names], pa.string()),
            np.arange(names.size),
        )
        keep = np.array([k for k, name in enumerate(names) if _is_decimal(str(name))], np.int64)
        integers = pa.array([int(names[k]) for k in keep], pa.int64())
        self._integers = _Names(IntegerIds(), integers, keep)

    def find(self, column: Any) -> NDArray[np.int32]:
        """Name of each row, or a negative reason."""
        if isinstance(column, pa.DictionaryArray):
            names = np.append(self.find(column.dictionary), np.int32(kernels.MISSING_PLACE))
            there, at = validity(column), numbers(column.indices, np.int32)
            return names[np.where(there, at, -1) if there.size else at]
        return (self._integers if column.type == pa.int64() else self._texts).find(column)


class _Names:
    """A table of names and which name each of its codes is."""

    def __init__(self, table: Ids, names: Any, keep: NDArray[Any]) -> None:
        # Codes are in order of arrival: code c is the c-th name kept.
        table.encode(names, np.zeros(keep.size, np.int64), np.empty(keep.size, np.int64))
        self._table = table
        self._name_of_code = np.append(keep.astype(np.int32), np.int32(-1))

    def find(self, column: Any) -> NDArray[np.int32]:
        found = self._table.lookup(column, validity(column))
        return np.where(found >= 0, self._name_of_code[np.maximum(found, 0)], found).astype(
            np.int32
        )


class LocatedPlaces:
    """Zones by the events' coordinates, in vectorised batches."""

    def __init__(self, places: Places, locator: Locate) -> None:
        self._locator = locator
        self.groups = np.arange(len(places) + 1, dtype=np.int64)

    def find(self, lon: NDArray[np.float64], lat: NDArray[np.float64]) -> NDArray[np.int32]:
        """Zone of each row, or a negative reason."""
        good = in_range(lon, lat)
        found = np.full(lon.size, kernels.BAD_COORDINATES, np.int32)
        if good.all():
            inside = self._locator.locate(lon, lat)
        else:
            inside = self._locator.locate(lon[good], lat[good])
        found[good] = np.where(inside >= 0, inside, kernels.OUTSIDE_ZONES)
        return found


class PlaceFinder:
    """Each batch by what it carries: names or coordinates."""

    def __init__(self, named: NamedPlaces, located: LocatedPlaces | None) -> None:
        self._named = named
        self._located = located

    def find(self, rows: Positions) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Name or zone of each row, or a negative reason; and the rows of `Places` of each."""
        if rows.lon is None or rows.lat is None:
            return self._named.find(rows.place), self._named.groups
        assert self._located is not None  # only zones are found by coordinates
        return self._located.find(rows.lon, rows.lat), self._located.groups


def _is_decimal(text: str) -> bool:
    """True for the decimal text of a 64-bit integer, as a cast to text writes it."""
    body = text.removeprefix("-")
    if not (body.isascii() and body.isdigit()) or len(body) > 19:
        return False
    return str(int(text)) == text and -(1 << 63) <= int(text) < 1 << 63
