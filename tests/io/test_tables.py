"""Events that are in memory already."""

from __future__ import annotations

from typing import Any

import duckdb
import geopandas
import pandas as pd
import pyarrow as pa
import pytest
from tests.io.planted import SECRET, refused

from sfumato.errors import InputError, UsageError
from sfumato.io.events import read_events
from sfumato.io.tables import as_table
from sfumato.model.events import EventTable, TimeEncoding, UserEncoding

COLUMNS = {"user": ["007", "b"], "time_s": [1_600_000_000, 1_600_000_060], "bs": [1, 2]}


def only(source: object, **options: Any) -> EventTable:
    (part,) = read_events(source, **options).parts
    assert isinstance(part, EventTable)
    return part


class Stream:
    """Something that speaks the Arrow C stream interface, as a polars frame does."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def sources() -> dict[str, object]:
    table = pa.table(COLUMNS)
    return {
        "arrow": table,
        "batch": table.to_batches()[0],
        "reader": table.to_reader(),
        "pandas": pd.DataFrame(COLUMNS),
        "stream": Stream(table),
        "duckdb": duckdb.sql("SELECT '007' AS user, 1600000000 AS time_s, 1 AS bs"),
    }


@pytest.mark.parametrize("kind", list(sources()))
def test_tables_of_all_makers(kind: str) -> None:
    part = only(sources()[kind])
    assert part.table.column_names == ["user", "time_s", "bs"]
    assert part.table["user"].to_pylist()[0] == "007"
    assert (part.reading.user, part.reading.time) == (UserEncoding.TEXT, TimeEncoding.EPOCH_S)


def test_only_the_columns_that_play_a_part_are_kept() -> None:
    odd = pd.DataFrame(COLUMNS).assign(note=["a", "b"])
    assert only(odd).table.column_names == ["user", "time_s", "bs"]


def test_a_time_index_is_a_column() -> None:
    frame = pd.DataFrame(
        {"traj": ["a"], "lon": [2.0], "lat": [48.0]},
        index=pd.DatetimeIndex(["2020-01-01"], tz="UTC"),
    )
    reading = only(frame, columns={"user": "traj"}).reading
    assert (reading.columns.time, reading.time) == ("t", TimeEncoding.INSTANT)
    named = only(frame.rename_axis("datetime"), columns={"user": "traj"}).reading
    assert named.columns.time == "datetime"


def test_points_become_degrees() -> None:
    frame = geopandas.GeoDataFrame(
        {"user_id": [1], "tracked_at": pd.to_datetime(["2020-01-01T00:00:00Z"])},
        geometry=geopandas.points_from_xy([652_000.0], [6_862_000.0]),
        crs="EPSG:2154",
    )
    part = only(frame)
    assert (part.reading.columns.lon, part.reading.columns.lat) == ("lon", "lat")
    table = part.table
    assert 2.3 < table["lon"][0].as_py() < 2.4
    assert 48.8 < table["lat"][0].as_py() < 48.9
    with pytest.raises(InputError, match="coordinate system"):
        read_events(frame.set_crs(None, allow_override=True))
    areas = only(frame.set_geometry(frame.buffer(10))).table
    assert areas["lon"].null_count == 1  # no place: the row's own matter


@pytest.mark.privacy
def test_a_column_of_objects_is_text_whatever_is_in_it() -> None:
    frame = pd.DataFrame(COLUMNS).astype(object)
    for users in (["a", "b"], ["a", 7], [7, 7.5], [None, b"\xff"], [{}, object()]):
        frame["user"] = pd.Series(users, dtype=object)
        part = only(frame.astype({"time_s": int}))
        assert part.reading.user is UserEncoding.TEXT
        assert part.table["user"].type == pa.string()
    frame["user"] = pd.Series([7.0, True], dtype=object)
    assert only(frame.astype({"time_s": int})).table["user"].to_pylist() == ["7", None]


def test_a_relation_that_fails_keeps_its_values_to_itself() -> None:
    relation = duckdb.sql(f"SELECT CAST('{SECRET}' || range AS INTEGER) AS user FROM range(9)")
    assert "cannot be read to its end" in refused(lambda: read_events(relation))


def test_what_is_no_table() -> None:
    with pytest.raises(UsageError, match="from a dict"):
        as_table({"user": [1]})
    with pytest.raises(InputError, match="no columns"):
        as_table(pa.table({}))
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([1])], names=["user", "USER"])
    with pytest.raises(InputError, match="same name"):
        as_table(twice)
    assert only(pa.table(COLUMNS).slice(0, 0)).table.num_rows == 0  # zeros, not an error


@pytest.mark.privacy
def test_categories_are_text_whatever_one_of_them_is() -> None:
    """Whole numbers as categories are refused as times without a unit, or read, with and without
    one odd category alike."""
    for more in ([], ["n/a"]):
        times = pd.Series([1_704_067_200, 1_704_067_260, *more]).astype("category")
        frame = pd.DataFrame({"user": range(len(times)), "time": times, "tower": "a"})
        events = read_events(frame, tz="UTC")
        assert events.parts[0].reading.time is TimeEncoding.ISO
        assert read_events(frame, time_unit="s").parts[0].reading.time is TimeEncoding.EPOCH_S
