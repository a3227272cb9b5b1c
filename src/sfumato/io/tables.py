"""Tables that are already in memory, as Arrow: pandas, geopandas, polars, DuckDB, Arrow itself.

Anything that speaks the Arrow C stream interface (polars, a DuckDB relation) is taken through
it, so none of these packages is imported here but pandas, which geopandas brings anyway.

A pandas column of Python objects has no type: it is text, and each object becomes the text of
itself. If Arrow guessed, one person's odd value would change the type of everybody's column.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import shapely

from sfumato.io.coordinates import point_degrees
from sfumato.io.schema import refuse_repeated
from sfumato.model.errors import InputError, UsageError

LABEL = "table"


def as_table(source: object, label: str = LABEL) -> Any:
    """The table as Arrow, without a copy where the maker allows it."""
    table = _arrow(source)
    names = list(table.column_names)
    if not names:
        raise InputError("there are no columns.", file=label)
    refuse_repeated(names, label)
    return table


def _arrow(source: object) -> Any:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pd.DataFrame):
        return _from_pandas(source)
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    try:
        if isinstance(source, pa.RecordBatchReader):
            return source.read_all()
        if hasattr(source, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(source).read_all()
    except Exception:
        # The maker's error may quote a value of the table.
        raise InputError("the table cannot be read to its end.", file=LABEL) from None
    raise UsageError(
        f"Events cannot be read from a {type(source).__name__}.",
        remedy="Give a path, an Arrow table, a DataFrame or a DuckDB relation.",
    )


def _from_pandas(frame: pd.DataFrame) -> Any:
    """Column by column, so that an error can name the column and nothing else."""
    if isinstance(frame.index, pd.DatetimeIndex) or any(n is not None for n in frame.index.names):
        kept = [n for n in frame.index.names if n not in frame.columns]
        if isinstance(frame.index, pd.DatetimeIndex) and frame.index.name is None:
            frame = frame.rename_axis(index="t")
            kept = ["t"] if "t" not in frame.columns else []
        if kept:
            frame = frame.reset_index()
    frame = _with_coordinates(frame)
    arrays, names = [], []
    for position, name in enumerate(frame.columns):
        try:
            arrays.append(_array(frame.iloc[:, position]))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise InputError(
                "the values have several types.",
                file=LABEL,
                column=str(name),
                remedy="Make the column one type, for example text.",
            ) from None
        names.append(str(name))
    return pa.Table.from_arrays(arrays, names=names)


def _array(column: Any) -> Any:
    """One column by its dtype; what has no other type than object is text."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = column.cat.codes.to_numpy()
        # Always text: one odd category changes the type that pandas gives all of them.
        kinds = _texts(column.cat.categories.to_series().astype(object))
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), kinds)
    if column.dtype == object:
        return _texts(column)
    try:
        return pa.array(column, from_pandas=True)
    except UnicodeEncodeError:  # half of a surrogate pair: that value alone is missing
        return _texts(column.astype(object))


def _texts(column: Any) -> Any:
    """Python objects as text, each by itself; what has no text is missing."""
    if pd.api.types.infer_dtype(column, skipna=True) == "string":
        try:
            return pa.array(column, pa.string(), from_pandas=True)
        except (pa.ArrowException, UnicodeEncodeError, ValueError, TypeError):
            pass  # half of a surrogate pair, say: that value alone is missing
    return pa.array([_text(value) for value in column.to_numpy(dtype=object)], pa.binary()).cast(
        pa.string(), safe=False
    )


def _text(value: object) -> bytes | None:
    """The text of one object; whole numbers without a fraction."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        if value != value:
            return None
        return (
            str(int(value)).encode()
            if abs(value) < 2**53 and value == int(value)
            else (repr(value).encode())
        )
    if value is pd.NaT:
        return None
    if isinstance(value, datetime):
        return value.isoformat().encode()
    if isinstance(value, int | str | Decimal):
        try:
            return str(value).encode()
        except ValueError:  # a surrogate, or more digits than Python writes
            return None
    return None


def _with_coordinates(frame: pd.DataFrame) -> pd.DataFrame:
    """Points of a GeoDataFrame as columns `lon` and `lat` in WGS84; the geometry goes."""
    if not hasattr(frame, "geom_type"):
        return frame
    try:
        points = frame.geometry
    except AttributeError:
        return pd.DataFrame(frame)
    if points.crs is None:
        raise InputError(
            "the geometry has no coordinate system.",
            file=LABEL,
            remedy="Set it, for example with frame.set_crs('EPSG:4326').",
        )
    places = np.array(points.to_crs("EPSG:4326").to_numpy(), dtype=object)
    places[shapely.get_type_id(places) != shapely.GeometryType.POINT] = None  # no place for a row
    plain = pd.DataFrame(frame).drop(columns=[str(points.name)])
    if not {"lon", "lat"} & set(plain.columns):
        lon, lat = point_degrees(places)
        plain = plain.assign(lon=lon, lat=lat)
    return plain
