"""A release folder as the page sees it: a full table, the zones' shapes, the manifest as JSON.

Only `density.parquet`, `zones.geojson` and `manifest.json` are read. The manifest is taken as
plain JSON, so that an older or a newer one still gives a page; of the zones' properties only
`zone_id`, `name` and `district` are used, as text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError

TABLE, ZONES, MANIFEST = "density.parquet", "zones.geojson", "manifest.json"
Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ZoneShapes:
    """Names and outlines in the order of the table's zones; `None` where a zone has no shape."""

    names: tuple[str, ...]
    districts: tuple[str, ...]
    """Empty where the zones have none."""
    geometry: NDArray[np.object_] | None


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseFolder:
    """Zone x slot tables with NaN where a number is missing, and what they are about."""

    zone_ids: tuple[str, ...]
    shapes: ZoneShapes
    edges: NDArray[np.int64]
    """Starts of the slots and the end of the last, epoch microseconds."""
    ends: NDArray[np.int64]
    tz: str
    count: Table
    lower: Table
    upper: Table
    manifest: dict[str, Any]


def read_folder(folder: str | Path) -> ReleaseFolder:
    """Read a release, or say which of its files is missing or damaged."""
    home = Path(folder)
    manifest = _json(home / MANIFEST)
    path = home / TABLE
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise InputError(
            "there is no such file.", file=str(path), remedy="Give the folder of a release."
        ) from None
    except (OSError, pa.ArrowException):
        raise InputError("it cannot be read as Parquet.", file=str(path)) from None
    for name in ("zone_id", "time_start", "time_end", "count", "lower", "upper"):
        if name not in table.column_names:
            raise InputError("the column is missing.", file=str(path), column=name)
    if table.num_rows == 0:
        raise InputError("the table is empty.", file=str(path))
    tz = str((manifest.get("grid") or {}).get("tz") or table.schema.field("time_start").type.tz)
    starts, slot = np.unique(_micros(table["time_start"], path), return_inverse=True)
    ends = np.zeros(starts.size, np.int64)
    ends[slot] = _micros(table["time_end"], path)
    ids, zone = _in_order(table["zone_id"])
    shape = (len(ids), starts.size)
    if np.unique(zone * starts.size + slot).size != table.num_rows:
        raise InputError("a zone and slot stand in it twice.", file=str(path))

    def layer(name: str) -> Table:
        full = np.full(shape, np.nan)
        values = pc.cast(table[name], pa.float64()).to_numpy()
        full[zone, slot] = np.where(np.isfinite(values), values, np.nan)
        return full

    return ReleaseFolder(
        zone_ids=ids,
        shapes=read_shapes(home / ZONES, ids),
        edges=np.append(starts, ends[-1]),
        ends=ends,
        tz="UTC" if tz == "None" else tz,
        count=layer("count"),
        lower=layer("lower"),
        upper=layer("upper"),
        manifest=manifest,
    )


def read_shapes(path: Path, ids: tuple[str, ...]) -> ZoneShapes:
    """The zones' names and outlines, by id; a release without the file has neither."""
    if not path.exists():
        return ZoneShapes(ids, tuple("" for _ in ids), None)
    found: dict[str, tuple[str, str, Any]] = {}
    for feature in _json(path).get("features") or []:
        properties = feature.get("properties") or {}
        key = properties.get("zone_id", properties.get("tower_id", feature.get("id")))
        if key is not None:
            name = properties.get("name")
            found[str(key)] = (
                str(key) if name in (None, "") else str(name),
                str(properties.get("district") or ""),
                feature.get("geometry"),
            )
    texts = [json.dumps(found[key][2]) if key in found else None for key in ids]
    geometry = shapely.from_geojson(np.array(texts, dtype=object), on_invalid="ignore")
    return ZoneShapes(
        tuple(found[key][0] if key in found else key for key in ids),
        tuple(found[key][1] if key in found else "" for key in ids),
        geometry,
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(
            "there is no such file.", file=str(path), remedy="Give the folder of a release."
        ) from None
    except (OSError, ValueError):
        raise InputError("it cannot be read as JSON.", file=str(path)) from None
    if not isinstance(data, dict):
        raise InputError("it holds no JSON object.", file=str(path))
    return data


def _micros(column: pa.ChunkedArray, path: Path) -> NDArray[np.int64]:
    if not pa.types.is_timestamp(column.type):
        raise InputError("its times are no timestamps.", file=str(path))
    unit = pa.timestamp("us", tz=column.type.tz)
    result: NDArray[np.int64] = pc.cast(pc.cast(column, unit), pa.int64()).to_numpy()
    return result


def _in_order(column: pa.ChunkedArray) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Zones in the table's own order of first appearance, and each row's zone."""
    coded = pc.cast(column, pa.string()).combine_chunks().dictionary_encode()
    indices: NDArray[np.int64] = coded.indices.to_numpy().astype(np.int64)
    return tuple(coded.dictionary.to_pylist()), indices
