"""Places as GeoJSON and GeoParquet: seven decimals, outer rings counter-clockwise, ids in order.

The same places give the same bytes. GeoJSON follows RFC 7946; reading it back gives the same
ids and names, the same validity to a millisecond (GDAL keeps no more) and the same shapes to a
centimetre.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.io.writers import write_atomically, write_bytes
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO, PlaceKind, Places

DECIMALS = 7
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


Extra = Mapping[str, Sequence[str]]
"""Further public properties, one text for each place in the order of the places."""


def write_places(
    path: str | Path, places: Places, mode: int = 0o644, extra: Extra | None = None
) -> None:
    """Write towers or zones as a GeoJSON file, atomically."""
    write_bytes(path, geojson(places, extra), mode)


def write_places_parquet(
    path: str | Path, places: Places, mode: int = 0o644, extra: Extra | None = None
) -> None:
    """Write towers or zones as a GeoParquet file (WGS84, zstd), atomically."""
    columns: dict[str, Any] = {
        _key(places): places.ids.astype(object),
        "name": places.names.astype(object),
        **{name: list(values) for name, values in (extra or {}).items()},
    }
    frame = geopandas.GeoDataFrame(columns, geometry=_outlines(places), crs="OGC:CRS84")
    write_atomically(
        path, lambda temporary: frame.to_parquet(temporary, index=False, compression="zstd"), mode
    )


def _key(places: Places) -> str:
    return "tower_id" if places.kind is PlaceKind.TOWERS else "zone_id"


def _outlines(places: Places) -> NDArray[np.object_]:
    rounded = shapely.transform(places.geometry, lambda points: np.round(points, DECIMALS))
    return np.asarray(shapely.orient_polygons(rounded), dtype=object)


def geojson(places: Places, extra: Extra | None = None) -> bytes:
    """Towers or zones as the bytes of a GeoJSON file."""
    shapes = shapely.to_geojson(_outlines(places))
    key = _key(places)
    lines = []
    for k, shape in enumerate(shapes):
        properties: dict[str, Any] = {key: str(places.ids[k])}
        if places.names[k] != places.ids[k]:
            properties["name"] = str(places.names[k])
        for name, value, always in (
            ("valid_from", int(places.valid_from[k]), ALWAYS_FROM),
            ("valid_to", int(places.valid_to[k]), ALWAYS_TO),
        ):
            if value != always:
                properties[name] = (_EPOCH + timedelta(microseconds=value)).isoformat()
        properties |= {name: values[k] for name, values in (extra or {}).items()}
        text = json.dumps(properties, ensure_ascii=False, separators=(",", ":"))
        lines.append(f'{{"type":"Feature","properties":{text},"geometry":{shape}}}')
    body = ",\n".join(lines)
    return f'{{"type":"FeatureCollection","features":[\n{body}\n]}}\n'.encode()
