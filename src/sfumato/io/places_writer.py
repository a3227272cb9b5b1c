"""Places as GeoJSON: RFC 7946, seven decimals, outer rings counter-clockwise, ids in order.

The same places give the same bytes. Reading the file back gives the same ids and names, the
same validity to a millisecond (GDAL keeps no more) and the same shapes to a centimetre.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from sfumato.io.writers import write_bytes
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO, PlaceKind, Places

DECIMALS = 7
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_places(path: str | Path, places: Places, mode: int = 0o644) -> None:
    """Write towers or zones as a GeoJSON file, atomically."""
    write_bytes(path, geojson(places), mode)


def geojson(places: Places) -> bytes:
    """Towers or zones as the bytes of a GeoJSON file."""
    rounded = shapely.transform(places.geometry, lambda points: np.round(points, DECIMALS))
    shapes = shapely.to_geojson(shapely.orient_polygons(rounded))
    key = "tower_id" if places.kind is PlaceKind.TOWERS else "zone_id"
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
        text = json.dumps(properties, ensure_ascii=False, separators=(",", ":"))
        lines.append(f'{{"type":"Feature","properties":{text},"geometry":{shape}}}')
    body = ",\n".join(lines)
    return f'{{"type":"FeatureCollection","features":[\n{body}\n]}}\n'.encode()
