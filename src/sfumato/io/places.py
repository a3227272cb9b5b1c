"""Any file or frame of places as an Arrow table of attributes and an array of shapes.

CSV and Parquet through DuckDB and Arrow, everything else (GeoJSON, GPKG, Shapefile, …) through
GDAL. Types are kept as stored, so that an id 075 or 123 never becomes 75 or 123.0.
"""

from __future__ import annotations

import io
import os
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio
import shapely
from numpy.typing import NDArray
from pyproj import CRS
from pyproj.exceptions import CRSError

from sfumato.errors import InputError, UsageError, parquet_error
from sfumato.io.files import head, is_folder, locate, numbered_columns, read_dialect
from sfumato.io.foreign import (
    check_places,
    column,
    contents,
    document,
    parquet_file,
    wkb_shapes,
)
from sfumato.io.names import Role, by_position
from sfumato.io.tables import as_table, read_public_table

_CSV_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")


@dataclass(frozen=True, slots=True, eq=False)
class PlaceTable:
    """Attributes, shapes if there are any, the shapes' coordinate system if it is known."""

    attributes: pa.Table
    shapes: NDArray[np.object_] | None
    crs: Any
    label: str

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.attributes.column_names]


def load_places(
    source: object,
    layer: str | None = None,
    columns: Mapping[str, str] | None = None,
    roles: Sequence[Role] = (),
) -> PlaceTable:
    """Read a file, or take a frame, of towers or zones.

    `columns` are the holder's choices for its `roles`: a header may be known by these names
    alone, and numbers among them say that there is none.
    """
    chosen = list((columns or {}).values())
    if not by_position(chosen):  # names of these roles make a first line a header, too
        chosen += sorted(name for role in roles for name in role.plain)
    table = _load(source, layer, chosen, [role.key for role in roles])
    for name in table.names:
        try:
            table.attributes[name].validate(full=True)
        except pa.ArrowException:
            raise InputError(
                "the text is not UTF-8, or the column is damaged.",
                file=table.label,
                column=name,
                remedy="Save the file as UTF-8.",
            ) from None
    return table


def _one_file(text: str) -> Path:
    files = locate(text)
    if not files:
        raise InputError("no file matches the pattern.", file=text)
    return files[0].path


def _load(source: object, layer: str | None, chosen: list[str], keys: list[str]) -> PlaceTable:
    if isinstance(source, pd.DataFrame):
        return _from_frame(source)
    if not isinstance(source, (str, os.PathLike)):
        return PlaceTable(as_table(source), None, None, "table")
    text = os.fspath(source)
    path = Path(text)
    if not is_folder(text):  # a folder may be a file geodatabase; GDAL says whether it is
        path = _one_file(text)
    label = str(path)
    if not path.is_dir():
        check_places(path)
    start = b"" if path.is_dir() else head(path, 4)
    if not path.is_dir() and not start:
        raise InputError("the file is empty.", file=label)
    if start == b"PAR1" or path.suffix.lower() in (".parquet", ".geoparquet", ".pq"):
        return _from_parquet(path)
    if path.name.lower().endswith(_CSV_ENDINGS):
        if by_position(chosen):
            dialect = numbered_columns(path)
        else:
            dialect = read_dialect(path, chosen, keys=keys)
        if dialect is None:
            raise InputError("the file is empty.", file=label)
        table = read_public_table(
            path, dialect.delimiter, dialect.columns, header=not dialect.headless
        )
        if not table.num_rows:
            raise InputError("the file has a header but no rows.", file=label)
        return PlaceTable(table, None, None, label)
    return _from_gdal(path, layer)


def _from_frame(frame: pd.DataFrame) -> PlaceTable:
    if not isinstance(frame, geopandas.GeoDataFrame) or not _has_geometry(frame):
        return PlaceTable(as_table(pd.DataFrame(frame)), None, None, "table")
    shapes = frame.geometry
    plain = pd.DataFrame(frame).drop(columns=[shapes.name])
    attributes = as_table(plain) if len(plain.columns) else pa.table({})
    return PlaceTable(attributes, _shapes(shapes.to_numpy()), shapes.crs, "table")


def _has_geometry(frame: geopandas.GeoDataFrame) -> bool:
    try:
        return frame.geometry is not None
    except AttributeError:
        return False


def _shapes(values: Any) -> NDArray[np.object_]:
    shapes = np.empty(len(values), dtype=object)
    shapes[:] = values
    return shapes


_ALONE: dict[str, Any] = {
    "page_checksum_verification": True,
    # Bytes that are Python's are for Python's threads alone (`sfumato.io.foreign.parquet_file`).
    "use_threads": False,
    "pre_buffer": False,
}


def _from_parquet(path: Path) -> PlaceTable:
    try:
        content = contents(path, links=True)
        file = parquet_file(content)
        schema, whole = file.schema_arrow, partial(io.BytesIO, content)
        if b"geo" in (schema.metadata or {}):
            for name in _wkb_columns(schema):
                wkb_shapes(column(file, name).to_pylist())
            frame = geopandas.read_parquet(whole(), **_ALONE)
            shapes = frame.geometry
            others = [name for name in schema.names if name != shapes.name]
            table = pq.read_table(whole(), columns=others, **_ALONE)
            return PlaceTable(table, _shapes(shapes.to_numpy()), shapes.crs, str(path))
        table = pq.read_table(whole(), **_ALONE)
        return PlaceTable(as_table(table, str(path)), None, None, str(path))
    except InputError:
        raise
    except PermissionError:
        raise InputError("no permission to read it.", file=str(path)) from None
    except Exception as error:
        # Arrow and GEOS raise many kinds for damaged bytes; all mean the same to the user.
        raise parquet_error(error, [str(path)]) from None


def _wkb_columns(schema: pa.Schema) -> list[str]:
    """Columns that GEOS would read as shapes."""
    stated = document(schema.metadata[b"geo"])["columns"]
    return [name for name in schema.names if stated.get(name, {}).get("encoding") == "WKB"]


def _from_gdal(path: Path, layer: str | None) -> PlaceTable:
    label = str(path)
    if path.suffix.lower() == ".zip" and not zipfile.is_zipfile(path):
        raise InputError("the archive is damaged.", file=label)
    try:
        with warnings.catch_warnings(action="ignore"):  # GDAL's words may quote the content
            layers = [str(row[0]) for row in pyogrio.list_layers(path)]
        if layer is not None and layer not in layers:
            raise UsageError(f"{label} has no layer {layer!r}.", remedy=f"It has {layers}.")
        if layer is None and len(layers) > 1:
            raise InputError(
                f"the file has several layers: {', '.join(layers)}.",
                file=label,
                remedy="Say which one with `layer=NAME`.",
            )
        if not layers:
            raise InputError("the file holds no layer of places.", file=label)
        about, table = _read_arrow(path, layer or layers[0])
        named = about["geometry_name"] or "wkb_geometry"
        shapes = None
        if named in table.column_names:
            shapes = _shapes(shapely.from_wkb(table[named].to_numpy(zero_copy_only=False)))
            table = table.drop_columns([named])
        crs = CRS.from_user_input(about["crs"]) if about["crs"] else None
    except (InputError, UsageError):
        raise
    except CRSError:
        raise InputError("its coordinate system is not known.", file=label) from None
    except Exception:
        # GDAL raises many kinds for damaged files.
        raise InputError(
            "it cannot be read as a file of places.",
            file=label,
            remedy="CSV, Parquet, GeoParquet, GeoJSON, GPKG and Shapefile are read. Check that "
            "the file is complete.",
        ) from None
    return PlaceTable(table, shapes, crs, label)


def _read_arrow(path: Path, layer: str) -> tuple[dict[str, Any], pa.Table]:
    """A layer as Arrow. Whole-number ids of GeoJSON features, which GDAL hides, become `id`."""
    with warnings.catch_warnings(action="ignore"):
        about, table = pyogrio.read_arrow(path, layer=layer, return_fids=True)
    hidden = about["fid_column"] or "OGC_FID"
    if hidden in table.column_names:
        keys = table[hidden]
        table = table.drop_columns([hidden])
        stated = keys.to_pylist() != list(range(len(keys)))  # GDAL counts where nothing is said
        if path.suffix.lower() in (".geojson", ".json") and stated:
            names = [str(name).lower() for name in table.column_names]
            table = table if "id" in names else table.append_column("id", keys)
    return about, table


def id_texts(column: pa.ChunkedArray, name: str, label: str) -> list[str]:
    """Ids as text, exactly as stored; whole floating-point numbers without their `.0`."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    values = column.to_pylist()
    number = pa.types.is_floating(kind)
    whole = number or pa.types.is_integer(kind)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_view(kind)
    if not (whole or text):
        raise InputError(
            f"the type {kind} cannot be an id.",
            file=label,
            column=name,
            remedy="Store ids as integers or text.",
        )
    ids: list[str] = []
    for row, value in enumerate(values, start=1):
        if value is None or (text and not value.strip()) or (number and value != value):
            raise InputError("the id is missing.", file=label, column=name, row=row)
        if number and (not float(value).is_integer() or abs(value) >= 2**53):
            raise InputError(
                "the id is not a whole number.",
                file=label,
                column=name,
                row=row,
                remedy="Store ids as integers or text.",
            )
        ids.append(str(int(value)) if number else str(value))
    return ids


def _is_view(kind: Any) -> bool:
    return bool(getattr(pa.types, "is_string_view", lambda _: False)(kind))
