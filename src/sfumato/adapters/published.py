"""A release folder, checked against its manifest, as arrays that another form is written from."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from sfumato.model.errors import InputError
from sfumato.model.places import PlaceKind
from sfumato.privacy.manifest import MANIFEST_NAME, Manifest
from sfumato.released import read_release

_TABLE = "density.parquet"


@dataclass(frozen=True, slots=True, eq=False)
class PublishedCounts:
    """Counts, place x slot, with the public keys of both."""

    folder: Path
    manifest: Manifest
    ids: NDArray[np.str_]
    starts: NDArray[np.int64]
    """First instant of each slot, in epoch microseconds."""
    counts: NDArray[np.float64]

    @property
    def kind(self) -> PlaceKind:
        return PlaceKind(self.manifest.released.kind)

    def shapes(self) -> NDArray[np.object_]:
        """The shape of each place, WGS84, in the order of `ids`."""
        name = f"{self.kind}.parquet"
        table = pq.read_table(_intact(self.folder, self.manifest, name))
        key = "zone_id" if self.kind is PlaceKind.ZONES else "tower_id"
        found = dict(zip(table[key].to_pylist(), table["geometry"].to_pylist(), strict=True))
        shapes = np.empty(self.ids.size, dtype=object)
        shapes[:] = shapely.from_wkb([found[str(key)] for key in self.ids])
        return shapes

    def statement(self) -> bytes:
        """The manifest as it was published, to travel with every other form of the numbers."""
        return (self.folder / MANIFEST_NAME).read_bytes()


def open_published(folder: str | os.PathLike[str]) -> PublishedCounts:
    """Read a release's table, refused if it is not what its manifest says."""
    release = read_release(folder)
    manifest = release.manifest
    table = pq.read_table(_intact(release.folder, manifest, _TABLE))
    slots = manifest.grid.slots
    ids = np.asarray(table["zone_id"].to_pylist(), dtype=np.str_)
    if not ids.size or ids.size % slots:
        raise InputError("the table does not hold every place and slot.", file=str(folder))
    counts = table["count"].to_numpy().astype(np.float64).reshape(-1, slots)
    starts = table["time_start"].cast("int64").to_numpy()[:slots]
    return PublishedCounts(release.folder, manifest, ids[::slots], starts, counts)


def _intact(folder: Path, manifest: Manifest, name: str) -> Path:
    path = folder / name
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        digest = ""
    if manifest.files.get(name) != digest:
        raise InputError(
            "the file is not the one that was published.",
            file=str(path),
            remedy="Take the release folder as sfumato release made it.",
        )
    return path
