"""Arrow tables: of frames in memory and small public files; column types, and coordinates in them.

**Schema.** Column names and types decide how a source's rows are read. Types go by DuckDB's names
on every path (Arrow's, PostgreSQL's and Spark's are translated), so that one set of rules judges
them. Only footers and headers are read for it.

**Frames.** pandas, geopandas, polars, DuckDB and Arrow itself are taken as Arrow. Anything that
speaks the Arrow C stream interface (polars, a DuckDB relation) is taken through it, so none of
these packages need be imported for its frames but pandas, which geopandas brings anyway. A pandas
column of Python objects has no type: it is text, and each object becomes the text of itself. If
Arrow guessed, one person's odd value would change the type of everybody's column.

**Longitude and latitude** are read, reprojected and judged here. Everything in memory is WGS84
degrees. A coordinate system that is not stated is taken for WGS84 only where the numbers can be
degrees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray
from pyproj import CRS, Transformer

from sfumato.errors import InputError, UsageError, csv_error, parquet_error

Floats = NDArray[np.float64]
Tell = Callable[[str], None]


def no_one(note: str) -> None:
    """The listener where nobody listens."""


def numbers(column: pa.ChunkedArray, name: str, label: str) -> Floats:
    """A column of coordinates as doubles, missing ones as NaN."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    try:
        cast = column if pa.types.is_floating(column.type) else column.cast(pa.float64())
    except pa.ArrowException:
        row = _first_non_number(column)
        raise InputError(
            "the coordinate is not a number.",
            file=label,
            column=name,
            row=row,
            remedy="Write degrees as digits with a decimal point, 48.85, not a comma, and leave "
            "the field empty where there is none.",
        ) from None
    filled = pc.fill_null(cast.cast(pa.float64()), float("nan"))
    return np.asarray(filled.to_numpy(), dtype=np.float64)


def _first_non_number(column: pa.ChunkedArray) -> int | None:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    for row, value in enumerate(column.to_pylist(), start=1):
        try:
            float(value if value is not None else 0)
        except ValueError:
            return row
    return None


def point_degrees(points: NDArray[np.object_]) -> tuple[Floats, Floats]:
    """x and y of points, NaN where a point is missing or empty (GEOS refuses to look there)."""
    x, y = np.full(points.size, np.nan), np.full(points.size, np.nan)
    there = np.asarray(~(shapely.is_missing(points) | shapely.is_empty(points)))
    x[there], y[there] = shapely.get_x(points[there]), shapely.get_y(points[there])
    return x, y


def in_range(lon: Floats, lat: Floats) -> NDArray[np.bool_]:
    """Which pairs can be degrees at all. NaN cannot."""
    with np.errstate(invalid="ignore"):
        return (np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0)


def to_wgs84(shapes: NDArray[np.object_], crs: Any, label: str, tell: Tell) -> NDArray[np.object_]:
    """Shapes in two dimensions and WGS84."""
    flat = shapely.force_2d(shapes)
    if crs is None:
        points = shapely.get_coordinates(flat)
        finite = points[np.isfinite(points).all(axis=1)]
        if finite.size and not in_range(finite[:, 0], finite[:, 1]).all():
            if in_range(finite[:, 1], finite[:, 0]).all():
                raise swapped(label)
            raise InputError(
                "it does not state its coordinate system and its numbers are not degrees.",
                file=label,
                remedy="Store it with its coordinate system (EPSG code).",
            )
        tell(f"{label} states no coordinate system; its numbers are read as WGS84 degrees")
        return np.asarray(flat, dtype=object)
    system = CRS.from_user_input(crs)
    if system.equals(CRS.from_epsg(4326), ignore_axis_order=True):
        return np.asarray(flat, dtype=object)
    change = Transformer.from_crs(system, CRS.from_epsg(4326), always_xy=True)

    def project(points: Floats) -> Floats:
        return np.column_stack(change.transform(points[:, 0], points[:, 1]))

    tell(f"{label} is reprojected from {system.name} to WGS84")
    return np.asarray(shapely.transform(flat, project), dtype=object)


def swapped(label: str) -> InputError:
    """The error for coordinates that only make sense the other way round."""
    return InputError(
        "longitude and latitude look swapped.",
        file=label,
        remedy="Longitude is x (east), latitude is y (north): exchange the two.",
    )


INT96 = "INT96"
"""Parquet's old timestamp, an instant by the custom of its writers; Arrow calls it a clock's."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name and DuckDB type, or `INT96`."""

    name: str
    type: str

    @property
    def is_text(self) -> bool:
        return self.type in ("VARCHAR", "UUID", "JSON") or self.type.startswith("ENUM")


_ARROW = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float16(): "FLOAT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
    pa.null(): "VARCHAR",
}
_STAMPS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}


def type_name(kind: Any) -> str:
    """The name by which the rules know an Arrow type."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return "UUID" if kind.extension_name == "arrow.uuid" else type_name(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return type_name(kind.value_type)
    if types.is_timestamp(kind):
        return _STAMPS[kind.unit] if kind.tz is None else "TIMESTAMP WITH TIME ZONE"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "VARCHAR"
    if (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    ):
        return "BLOB"
    if types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _ARROW.get(kind) or str(kind).upper()


def arrow_columns(schema: Any) -> list[Column]:
    """Columns of an Arrow schema."""
    return [Column(str(field.name), type_name(field.type)) for field in schema]


PRIVATE_ENGINE: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""Settings of a DuckDB that fetches no extensions and uses one thread."""


@contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with these settings. Opening takes a while."""
    with duckdb.connect(":memory:", config=PRIVATE_ENGINE) as opened:
        yield opened


def quoted(name: str, mark: str = '"') -> str:
    """A name as an identifier of SQL; Spark's mark is the backtick."""
    return mark + name.replace(mark, 2 * mark) + mark


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def refuse_repeated(names: list[str], label: str) -> None:
    """Two columns of one name, as SQL compares names, cannot be told apart."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InputError(
                "two columns have the same name (upper and lower case are the same here).",
                file=label,
                column=name,
                remedy="Rename one of them.",
            )
        seen.add(name.lower())


def read_public_table(
    path: Path, delimiter: str | None, names: tuple[str, ...] = (), header: bool = True
) -> Any:
    """A whole small file of public facts (towers, zones) as an Arrow table; CSV as text.

    Public files may be refused for a bad row: nobody's record is in them.
    """
    file = literal(str(path))
    scan = f"read_parquet({file}, hive_partitioning=false)"
    if delimiter is not None:
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
        scan = (
            f"read_csv({file}, auto_detect=false, header={header}, strict_mode=true, "
            f"delim={literal(delimiter)}, quote='\"', escape='\"', columns={{{columns}}}, "
            "hive_partitioning=false)"
        )
    with connection() as db:
        try:
            return db.sql(f"SELECT * FROM {scan}").to_arrow_table()
        except duckdb.Error as error:
            made = csv_error if delimiter is not None else parquet_error
            raise made(error, [str(path)]) from None
        except Exception as error:
            raise parquet_error(error, [str(path)]) from None


LABEL = "table"


def is_spark_frame(value: object) -> bool:
    """True for a Spark DataFrame, classic or Connect; pyspark is not imported to tell."""
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame"
        for kind in type(value).__mro__
    )


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


def without_fractions(source: object, table: Any, names: Collection[str | None]) -> Any:
    """The table where numbers with a fraction name nobody and nothing in columns of objects.

    In a column of numbers they do not (`sfumato.io.rows`). One person's text makes a column of
    numbers one of objects, and nobody else may be read otherwise because of it.
    """
    if not isinstance(source, pd.DataFrame):
        return table
    columns: dict[str, Any] = {
        str(name): source.index.get_level_values(level)
        for level, name in enumerate(source.index.names)
        if name is not None and name not in source.columns
    }
    columns |= {str(name): source[name] for name in source.columns}
    for name, column in columns.items():
        if name not in names or column.dtype != object:
            continue
        gone = np.array([_has_fraction(value) for value in column.to_numpy(dtype=object)], np.bool_)
        if gone.any():
            kept = pc.if_else(pa.array(gone), None, table.column(name))
            table = table.set_column(table.column_names.index(name), name, kept)
    return table


def _has_fraction(value: object) -> bool:
    """Whether a number is none that `_text` writes without a fraction."""
    number = value.item() if isinstance(value, np.generic) else value
    if not isinstance(number, float):
        return False
    return not (abs(number) < 2**53 and number == int(number))


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
