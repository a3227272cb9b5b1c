"""`Places`: towers, zones or grid cells, with geometry and validity dates. Frozen, hashed.

Coordinates are WGS84 longitude and latitude. The order of the places is the order of the
rows of every count, and it is fixed here: sorted by id, so that the same places in another
file order give the same release.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, is_printable, printable

ALWAYS_FROM = np.iinfo(np.int64).min
ALWAYS_TO = np.iinfo(np.int64).max


class PlaceKind(StrEnum):
    TOWERS = "towers"
    """Points that serve events; ids are what the events name."""
    ZONES = "zones"
    """Polygons: statistical areas, squares, hexagons."""


_TYPES = {
    PlaceKind.TOWERS: (shapely.GeometryType.POINT,),
    PlaceKind.ZONES: (shapely.GeometryType.POLYGON, shapely.GeometryType.MULTIPOLYGON),
}


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Ids, geometry, names and, for towers, the instants between which each is valid.

    A tower that moved has several rows with one id and disjoint validity; every other id
    stands once. `valid_from` and `valid_to` are epoch microseconds, start included.
    """

    kind: PlaceKind
    ids: NDArray[np.str_]
    geometry: NDArray[np.object_]
    names: NDArray[np.str_]
    valid_from: NDArray[np.int64]
    valid_to: NDArray[np.int64]

    def __post_init__(self) -> None:
        n = self.ids.size
        fields = (self.geometry, self.names, self.valid_from, self.valid_to)
        if any(field.shape != (n,) for field in fields):
            raise InputError(f"The {self.kind} have columns of different lengths.")
        if n == 0:
            raise InputError(f"There are no {self.kind}.", remedy="Check the file.")
        order = np.lexsort((self.valid_from, self.ids))
        for name in ("ids", "geometry", "names", "valid_from", "valid_to"):
            column = getattr(self, name)[order]
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        if not all(map(is_printable, self.names.tolist())):
            names = np.array(list(map(printable, self.names.tolist())), dtype=np.str_)
            object.__setattr__(self, "names", names)
        self._check_ids_and_dates()
        self._check_geometry()

    def _check_ids_and_dates(self) -> None:
        if (self.ids == "").any():
            raise InputError(f"Some {self.kind} have no id.", remedy="Give every one an id.")
        if not all(map(is_printable, self.ids.tolist())):
            raise InputError(
                f"An id of the {self.kind} holds characters that cannot be shown: controls, or "
                "marks that turn a line around.",
                remedy="Give them plain ids; names may stay, and lose such characters.",
            )
        if not (self.valid_from < self.valid_to).all():
            key = self.ids[np.argmax(self.valid_from >= self.valid_to)]
            raise InputError(
                f"{str(key)!r} of the {self.kind} is valid until a moment that is not after "
                "its start.",
                remedy="Correct its validity dates.",
            )
        again = self.ids[1:] == self.ids[:-1]
        if self.kind is PlaceKind.TOWERS:  # rows of one id follow each other in time
            again &= self.valid_from[1:] < self.valid_to[:-1]
        if again.any():
            raise InputError(
                f"{str(self.ids[1:][again][0])!r} stands more than once among the {self.kind}"
                + (" at the same time." if self.kind is PlaceKind.TOWERS else "."),
                remedy="Keep one row an id"
                + (", or give them validity dates." if self.kind is PlaceKind.TOWERS else "."),
            )

    def _check_geometry(self) -> None:
        right = np.isin(shapely.get_type_id(self.geometry), _TYPES[self.kind])
        right &= ~shapely.is_empty(self.geometry)
        if not right.all():
            raise InputError(
                f"{str(self.ids[np.argmin(right)])!r} of the {self.kind} has no "
                + ("point." if self.kind is PlaceKind.TOWERS else "polygon."),
                remedy="Towers are points, zones are polygons.",
            )
        corners, which = shapely.get_coordinates(self.geometry, return_index=True)
        on_globe = (np.abs(corners) <= (180.0, 90.0)).all(axis=1)  # also NaN and infinity
        if not on_globe.all():
            raise InputError(
                f"{str(self.ids[which[np.argmin(on_globe)]])!r} of the {self.kind} lies outside "
                "the globe.",
                remedy="Coordinates are longitude and latitude in degrees (WGS84).",
            )

    @classmethod
    def of(
        cls,
        kind: PlaceKind,
        ids: NDArray[np.str_] | list[str],
        geometry: NDArray[np.object_] | list[shapely.Geometry],
        names: NDArray[np.str_] | list[str] | None = None,
        valid_from: NDArray[np.int64] | None = None,
        valid_to: NDArray[np.int64] | None = None,
    ) -> Places:
        """Places from plain lists: always valid and named by their ids unless said otherwise."""
        keys = np.asarray(ids, dtype=np.str_)
        shapes = np.empty(len(geometry), dtype=object)
        shapes[:] = list(geometry)
        return cls(
            kind,
            keys,
            shapes,
            keys.copy() if names is None else np.asarray(names, dtype=np.str_),
            np.full(keys.size, ALWAYS_FROM, np.int64) if valid_from is None else valid_from,
            np.full(keys.size, ALWAYS_TO, np.int64) if valid_to is None else valid_to,
        )

    def __len__(self) -> int:
        return int(self.ids.size)

    def take(self, rows: NDArray[np.bool_]) -> Places:
        """Some of the places."""
        return Places(
            self.kind,
            self.ids[rows],
            self.geometry[rows],
            self.names[rows],
            self.valid_from[rows],
            self.valid_to[rows],
        )

    def fingerprint(self) -> str:
        """SHA-256 of ids, validity and normalised geometry (7 decimals, about a centimetre)."""
        digest = hashlib.sha256(f"places/1|{self.kind}|{len(self)}|".encode())
        rounded = shapely.transform(self.geometry, lambda xy: np.round(xy, 7) + 0.0)  # no -0.0
        shapes = shapely.normalize(rounded)
        for key, shape in zip(self.ids, shapely.to_wkb(shapes, byte_order=1), strict=True):
            encoded = str(key).encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
            digest.update(len(shape).to_bytes(8, "little") + shape)
        digest.update(self.valid_from.astype("<i8").tobytes())
        digest.update(self.valid_to.astype("<i8").tobytes())
        return digest.hexdigest()
