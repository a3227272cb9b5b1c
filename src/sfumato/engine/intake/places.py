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

from sfumato.engine.columns import numbers, validity
from sfumato.engine.ids.tables import ByteIds, Ids, IntegerIds
from sfumato.engine.intake import kernels
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

    def __init__(self, places: Places, integer: bool) -> None:
        names, first = np.unique(places.ids, return_index=True)
        bounds = np.append(first, len(places)).astype(np.int64)
        table: Ids
        if integer:
            keep = [k for k, name in enumerate(names) if _is_decimal(str(name))]
            column = pa.array([int(names[k]) for k in keep], pa.int64())
            table = IntegerIds()
        else:
            keep = list(range(names.size))
            column = pa.array([str(name) for name in names], pa.string())
            table = ByteIds(UserEncoding.TEXT)
        self._table = table
        # Codes are in order of arrival: code c is the c-th name kept.
        cells = np.zeros(len(keep), np.int64)
        table.encode(column, cells, np.empty(len(keep), np.int64))
        self._name_of_code = np.append(np.array(keep, np.int32), np.int32(-1))
        self.groups = bounds

    def find(self, batch: Any) -> NDArray[np.int32]:
        """Name of each row of the batch, or a negative reason."""
        column = batch.column("place")
        found = self._table.lookup(column, validity(column))
        return np.where(found >= 0, self._name_of_code[np.maximum(found, 0)], found).astype(
            np.int32
        )


class LocatedPlaces:
    """Zones by the events' coordinates, in vectorised batches."""

    def __init__(self, places: Places, locator: Locate) -> None:
        self._locator = locator
        self.groups = np.arange(len(places) + 1, dtype=np.int64)

    def find(self, batch: Any) -> NDArray[np.int32]:
        """Zone of each row of the batch, or a negative reason."""
        lon = numbers(batch.column("lon"), np.float64)
        lat = numbers(batch.column("lat"), np.float64)
        good = in_range(lon, lat)
        found = np.full(lon.size, kernels.BAD_COORDINATES, np.int32)
        if good.all():
            inside = self._locator.locate(lon, lat)
        else:
            inside = self._locator.locate(lon[good], lat[good])
        found[good] = np.where(inside >= 0, inside, kernels.OUTSIDE_ZONES)
        return found


def _is_decimal(text: str) -> bool:
    """True for the decimal text of a 64-bit integer, as a cast to text writes it."""
    body = text.removeprefix("-")
    if not (body.isascii() and body.isdigit()) or len(body) > 19:
        return False
    return str(int(text)) == text and -(1 << 63) <= int(text) < 1 << 63
