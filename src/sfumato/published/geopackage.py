"""A release as a GeoPackage with its style: what a map program opens, coloured as on the page.

`density.gpkg` holds the places with their mean over all slots (layer `zones` or `towers`), the
table (`density`) and both together (`density_by_slot`), a view with a row for every place and slot:
outlines are stored once, and the time slider of QGIS runs over it. Tables that no spreadsheet opens
are left out, and then only the places and their means are there: a year of them would be a
gigabyte.

**Style.** Classes of equal number among all published counts, per square kilometre where places
have an area, in the page's colours. It is in the file's own `layer_styles`, where QGIS looks first
and from where GDAL hands it on, and beside it as `density.qml`, which QGIS reads by its name.

The layers are written by GDAL, and the view and the styles added with SQLite. GDAL is told the
time of the reservation, so the same release gives the same bytes.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import geopandas
import numpy as np
import pandas as pd
import pyogrio
import pyproj
import shapely
from numpy.typing import NDArray

from sfumato.published.about import SPREADSHEET_ROWS
from sfumato.published.release import Release

GEOPACKAGE, STYLE = "density.gpkg", "density.qml"
TABLE, BY_SLOT = "density", "density_by_slot"
COLOURS = ("#f7f5d7", "#cbe8a4", "#82d0a5", "#2fa9b5", "#2f78b5", "#41429a", "#2b1d63")
"""From few to many: the page's scale on paper, whose lightness falls steadily."""
_WGS84 = 4326
_VERSION = "1.2"
"""Of GeoPackage: 1.4, GDAL's choice, makes programs of 2022 warn (QGIS 3.22)."""


def write_geopackage(found: Release, path: Path) -> str | None:
    """Write the release at `path`, a file that is not there yet.

    Args:
        found: The release.
        path: Of the file.

    Returns:
        The style for the file beside it; `None` where no outlines were published, and no file is
        written.
    """
    shapes = found.geometry
    if shapes is None:
        return None
    kind = found.manifest.released.kind
    areas = _square_kilometres(shapes)
    by_area = bool((areas > 0).all())
    places = _places(found, shapes, areas if by_area else None)
    whole = found.values.size <= SPREADSHEET_ROWS
    when = datetime.fromisoformat(found.manifest.release.reserved_at).astimezone(UTC)
    before = pyogrio.get_gdal_config_option("OGR_CURRENT_DATE")
    options = {"OGR_CURRENT_DATE": f"{when:%Y-%m-%dT%H:%M:%S}.000Z"}
    pyogrio.set_gdal_config_options(options)
    try:
        pyogrio.write_dataframe(places, path, layer=kind, driver="GPKG", VERSION=_VERSION)
        if whole:
            to_table = {"append": True, "DATETIME_PRECISION": "MILLISECOND"}  # as the format asks
            pyogrio.write_dataframe(_table(found), path, layer=TABLE, driver="GPKG", **to_table)
    finally:
        pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": before})
    per_area = found.values / (areas[:, None] if by_area else 1.0)
    breaks = class_breaks(per_area)
    points = bool((shapely.get_dimensions(shapes[~shapely.is_missing(shapes)]) == 0).all())
    unit = found.manifest.privacy.counting + (" per km²" if by_area else "")
    shown = '"count" / "km2"' if by_area else '"count"'
    still = style(breaks, shown, unit, points=points)
    moving = style(breaks, shown, unit, points=points, step=found.manifest.grid.step_seconds)
    with closing(sqlite3.connect(path)) as file, file:
        if whole:
            _add_view(file, found, kind, by_area, shapes)
        _add_styles(file, {kind: still} | ({BY_SLOT: moving} if whole else {}), options)
    return still


def class_breaks(values: NDArray[np.float64]) -> list[float]:
    """Ends of the classes: quantiles of all finite values, each once, from zero or below."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return [0.0, 1.0]
    inner = np.quantile(finite, np.linspace(0, 1, len(COLOURS) + 1))
    ends = np.unique([min(0.0, float(inner[0])), *_rounded(inner[1:-1]), float(inner[-1])])
    return [float(end) for end in ends] if ends.size > 1 else [float(ends[0]), float(ends[0]) + 1]


def style(
    breaks: list[float], shown: str, unit: str, *, points: bool, step: float | None = None
) -> str:
    """A style of QGIS: graduated colours for fills or points.

    Args:
        breaks: Ends of the classes.
        shown: The expression whose value is coloured.
        unit: For the legend.
        points: Whether places are points.
        step: Seconds of a slot, where the layer has one row for each and the time slider runs.
    """
    classes = len(breaks) - 1
    picked = [COLOURS[round(k * (len(COLOURS) - 1) / max(classes - 1, 1))] for k in range(classes)]
    ranges, symbols = [], []
    for k, (low, high, colour) in enumerate(zip(breaks, breaks[1:], picked, strict=False)):
        label = quoteattr(f"{low:g} – {high:g} {unit}")
        ranges.append(
            f'<range lower="{low!r}" upper="{high!r}" symbol="{k}" label={label} render="true"/>'
        )
        symbols.append(_symbol(k, colour, points))
    time = "" if step is None else _temporal(step)
    return (
        "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"
        '<qgis version="3.16" styleCategories="Symbology|Temporal">\n'
        f'{time}<renderer-v2 type="graduatedSymbol" attr={quoteattr(shown)} '
        'graduatedMethod="GraduatedColor" symbollevels="0" enableorderby="0" forceraster="0">\n'
        f"<ranges>\n{chr(10).join(ranges)}\n</ranges>\n"
        f"<symbols>\n{chr(10).join(symbols)}\n</symbols>\n"
        '<classificationMethod id="Custom"/>\n</renderer-v2>\n'
        "<layerOpacity>1</layerOpacity>\n</qgis>\n"
    )


def _symbol(name: int, colour: str, points: bool) -> str:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    line = "80,80,90,255"
    if points:
        kind, layer = "marker", "SimpleMarker"
        facts = {"name": "circle", "size": "3.2", "size_unit": "MM", "outline_width": "0.15"}
    else:
        kind, layer = "fill", "SimpleFill"
        facts = {"style": "solid", "outline_width": "0.1", "outline_width_unit": "MM"}
    facts |= {"color": f"{red},{green},{blue},255", "outline_color": line, "outline_style": "solid"}
    given = "".join(f'<prop k="{key}" v="{value}"/>' for key, value in facts.items())
    return (
        f'<symbol name="{name}" type="{kind}" alpha="1" clip_to_extent="1" force_rhr="0">'
        f'<layer class="{layer}" enabled="1" locked="0" pass="0">{given}</layer></symbol>'
    )


def _temporal(step: float) -> str:
    """Rows hold from `time_start` to just before `time_end` (mode 2: two fields)."""
    return (
        '<temporal enabled="1" mode="2" startField="time_start" endField="time_end" '
        f'fixedDuration="0" durationUnit="s" durationField="" accumulate="0" limitMode="0" '
        f'startExpression="" endExpression=""><!-- slots of {step:g} seconds --></temporal>\n'
    )


def _rounded(values: NDArray[np.float64]) -> list[float]:
    """Three figures: a legend is read."""
    return [float(f"{value:.3g}") for value in values]


def _square_kilometres(shapes: NDArray[np.object_]) -> NDArray[np.float64]:
    earth = pyproj.Geod(ellps="WGS84")
    return np.array(
        [0.0 if s is None else abs(earth.geometry_area_perimeter(s)[0]) / 1e6 for s in shapes]
    )


def _places(
    found: Release, shapes: NDArray[np.object_], areas: NDArray[np.float64] | None
) -> geopandas.GeoDataFrame:
    columns: dict[str, Any] = {
        "zone_id": found.ids.astype(object),
        "name": np.asarray(found.names, dtype=object),
    }
    if any(found.districts):
        columns["district"] = np.asarray(found.districts, dtype=object)
    columns["count"] = np.round(found.values.mean(axis=1), 3)
    if areas is not None:
        columns["km2"] = np.round(areas, 6)
    return geopandas.GeoDataFrame(columns, geometry=shapes, crs=f"EPSG:{_WGS84}")


def _table(found: Release) -> pd.DataFrame:
    """The long table; times as UTC, which GeoPackage's date-times are."""
    slots, places = found.grid.slots, found.ids.size
    starts, ends = (
        pd.to_datetime(np.tile(edges, places), unit="us", utc=True)
        for edges in (found.grid.edges[:-1], found.grid.edges[1:])
    )
    columns: dict[str, Any] = {
        "zone_id": np.repeat(found.ids.astype(object), slots),
        "time_start": starts,
        "time_end": ends,
        "count": found.values.ravel(),
    }
    for name in ("median", "lower", "upper"):
        layer = getattr(found, name)
        if layer is not None:
            columns[name] = layer.ravel()
    return pd.DataFrame(columns)


def _add_view(
    file: sqlite3.Connection,
    found: Release,
    kind: str,
    by_area: bool,
    shapes: NDArray[np.object_],
) -> None:
    """Places and table in one: a layer without a second copy of any outline."""
    file.execute(f"CREATE INDEX of_zone ON {TABLE} (zone_id)")
    area = ", p.km2" if by_area else ""
    numbers = [row[1] for row in file.execute(f"PRAGMA table_info({TABLE})")][2:]
    listed = ", ".join(f't."{name}"' for name in numbers)
    file.execute(
        f"CREATE VIEW {BY_SLOT} AS SELECT t.fid AS OGC_FID, p.geom, t.zone_id, p.name, {listed}"
        f"{area} FROM {TABLE} t JOIN {kind} p ON p.zone_id = t.zone_id"
    )
    bounds = shapely.total_bounds(shapes).tolist()
    when = file.execute("SELECT last_change FROM gpkg_contents LIMIT 1").fetchone()[0]
    file.execute(
        "INSERT INTO gpkg_contents (table_name, data_type, identifier, description, last_change, "
        "min_x, min_y, max_x, max_y, srs_id) VALUES (?, 'features', ?, ?, ?, ?, ?, ?, ?, ?)",
        (BY_SLOT, BY_SLOT, found.manifest.title, when, *bounds, _WGS84),
    )
    file.execute(
        "INSERT INTO gpkg_geometry_columns SELECT ?, column_name, geometry_type_name, srs_id, z, m "
        "FROM gpkg_geometry_columns WHERE table_name = ?",
        (BY_SLOT, kind),
    )


def _add_styles(file: sqlite3.Connection, styles: dict[str, str], options: dict[str, str]) -> None:
    """`layer_styles` as QGIS makes it, one default style a layer."""
    file.execute(
        "CREATE TABLE layer_styles (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, "
        "f_table_catalog TEXT(256), f_table_schema TEXT(256), f_table_name TEXT(256), "
        "f_geometry_column TEXT(256), styleName TEXT(30), styleQML TEXT, styleSLD TEXT, "
        "useAsDefault BOOLEAN, description TEXT, owner TEXT(30), ui TEXT(30), "
        "update_time DATETIME DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')))"
    )
    when = options["OGR_CURRENT_DATE"]
    for table, text in styles.items():
        file.execute(
            "INSERT INTO layer_styles (f_table_catalog, f_table_schema, f_table_name, "
            "f_geometry_column, styleName, styleQML, styleSLD, useAsDefault, description, owner, "
            "update_time) VALUES ('', '', ?, 'geom', ?, ?, '', 1, ?, '', ?)",
            (table, f"{table} (sfumato)", text, "Classes of equal number, from few to many.", when),
        )
    file.execute(
        "INSERT INTO gpkg_contents (table_name, data_type, identifier, description, last_change, "
        "srs_id) VALUES ('layer_styles', 'attributes', 'layer_styles', '', ?, 0)",
        (when,),
    )
