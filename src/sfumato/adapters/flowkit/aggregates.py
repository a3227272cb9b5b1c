"""A release as FlowKit's aggregates: `pcod,date,hour,value`, and GeoJSON for each slot.

The columns are those of its counts by location and interval: `date`, then `hour` for slots below a
day and `min` for slots below an hour, on the clock of the release. Every region and interval has a
row; none was dropped for being 15 or fewer. An hour that the clock repeats is one row, the sum of
both, as FlowKit's grouping by hour has it. Antennas are `location_id` instead of `pcod`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import shapely
from numpy.typing import NDArray

from sfumato.adapters.published import PublishedCounts
from sfumato.io.writers import write_bytes, write_csv
from sfumato.model.errors import InputError
from sfumato.model.places import PlaceKind
from sfumato.model.time_grid import zone

COUNTS, MAPS, STATEMENT = "counts.csv", "geojson", "sfumato-manifest.json"
_PROJ4 = "+proj=longlat +datum=WGS84 +no_defs"
_HOUR, _DAY = 3600, 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_aggregates(found: PublishedCounts, out: Path, *, geojson: bool = False) -> list[Path]:
    """Write `counts.csv`, the manifest and, if asked, `geojson/2016-01-01T05-00.geojson`, …"""
    if out.exists() and any(out.iterdir()):
        raise InputError("the folder is not empty.", file=str(out), remedy="Choose another.")
    out.mkdir(parents=True, exist_ok=True)
    columns, slot_of = _intervals(found)
    counts = np.zeros((found.ids.size, len(columns["date"])))
    for k, interval in enumerate(slot_of):
        counts[:, interval] += found.counts[:, k]
    written = [out / COUNTS, out / STATEMENT]
    write_csv(out / COUNTS, _table(found, columns, counts))
    write_bytes(out / STATEMENT, found.statement())
    if geojson:
        (out / MAPS).mkdir()
        shapes = found.shapes()
        for k in range(counts.shape[1]):
            parts = [str(columns["date"][k])]
            parts += [f"{columns[name][k]:02d}" for name in ("hour", "min") if name in columns]
            path = out / MAPS / f"{parts[0]}{'T' if parts[1:] else ''}{'-'.join(parts[1:])}.geojson"
            write_bytes(path, _feature_collection(found, shapes, counts[:, k]))
            written.append(path)
    return written


def read_aggregates(folder: Path) -> pa.Table:
    """`counts.csv` as a table: ids as text, dates as text, hours as whole numbers."""
    texts = dict.fromkeys(("pcod", "location_id", "date"), pa.string())
    options = pa_csv.ConvertOptions(column_types=texts | {"value": pa.float64()})
    return pa_csv.read_csv(folder / COUNTS, convert_options=options)


def _key(found: PublishedCounts) -> str:
    return "pcod" if found.kind is PlaceKind.ZONES else "location_id"


def _intervals(found: PublishedCounts) -> tuple[dict[str, list[object]], NDArray[np.int64]]:
    """Columns of the intervals, and which of them each slot falls in."""
    step, tz = found.manifest.grid.step_seconds, zone(found.manifest.grid.tz)
    names = ("date", *(["hour"] if step < _DAY else []), *(["min"] if step < _HOUR else []))
    known: dict[tuple[object, ...], int] = {}
    slot_of = np.empty(found.starts.size, np.int64)
    for k, start in enumerate(found.starts):
        local = (_EPOCH + timedelta(microseconds=int(start))).astimezone(tz)
        key = (local.date().isoformat(), local.hour, local.minute)[: len(names)]
        slot_of[k] = known.setdefault(key, len(known))
    return {name: [key[i] for key in known] for i, name in enumerate(names)}, slot_of


def _table(
    found: PublishedCounts, columns: dict[str, list[object]], counts: NDArray[np.float64]
) -> pa.Table:
    places, intervals = counts.shape
    rows = {_key(found): np.repeat(found.ids, intervals).tolist()}
    rows |= {name: values * places for name, values in columns.items()}
    whole = bool((counts == np.rint(counts)).all())
    values = np.round(counts.ravel(), 3)
    return pa.table({**rows, "value": values.astype(np.int64) if whole else values})


def _feature_collection(
    found: PublishedCounts, shapes: NDArray[np.object_], values: NDArray[np.float64]
) -> bytes:
    middles = shapely.to_geojson(shapely.centroid(shapes))
    outlines = shapely.to_geojson(shapes)
    features = [
        {
            "type": "Feature",
            "id": k + 1,
            "geometry": json.loads(outlines[k]),
            "properties": {
                _key(found): str(found.ids[k]),
                "value": round(float(values[k]), 3),
                "centroid": json.loads(middles[k]),
            },
        }
        for k in range(found.ids.size)
    ]
    whole = {"properties": {"crs": _PROJ4}, "type": "FeatureCollection", "features": features}
    return json.dumps(whole, ensure_ascii=False).encode()
