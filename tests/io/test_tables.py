"""Events that are in memory already."""

from __future__ import annotations

import duckdb
import geopandas
import pandas as pd
import pyarrow as pa
import pytest
from tests.io.planted import SECRET, refused

from sfumato.io.events import read_events
from sfumato.io.tables import as_table
from sfumato.model.errors import InputError, UsageError
from sfumato.model.events import TableSource, TimeEncoding, UserEncoding

COLUMNS = {"user": ["007", "b"], "time_s": [1_600_000_000, 1_600_000_060], "bs": [1, 2]}


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
    events = read_events(sources()[kind])
    assert isinstance(events.source, TableSource)
    assert events.source.table.column_names == ["user", "time_s", "bs"]
    assert events.source.table["user"].to_pylist()[0] == "007"
    assert (events.user, events.time) == (UserEncoding.TEXT, TimeEncoding.EPOCH_S)


def test_only_the_columns_that_play_a_part_are_kept() -> None:
    odd = pd.DataFrame(COLUMNS).assign(note=["a", "b"])
    assert read_events(odd).source.table.column_names == ["user", "time_s", "bs"]  # type: ignore[union-attr]


def test_a_time_index_is_a_column() -> None:
    frame = pd.DataFrame(
        {"traj": ["a"], "lon": [2.0], "lat": [48.0]},
        index=pd.DatetimeIndex(["2020-01-01"], tz="UTC"),
    )
    events = read_events(frame, columns={"user": "traj"})
    assert (events.columns.time, events.time) == ("t", TimeEncoding.INSTANT)
    assert read_events(frame.rename_axis("datetime"), columns={"user": "traj"}).columns.time == (
        "datetime"
    )


def test_points_become_degrees() -> None:
    frame = geopandas.GeoDataFrame(
        {"user_id": [1], "tracked_at": pd.to_datetime(["2020-01-01T00:00:00Z"])},
        geometry=geopandas.points_from_xy([652_000.0], [6_862_000.0]),
        crs="EPSG:2154",
    )
    events = read_events(frame)
    assert (events.columns.lon, events.columns.lat) == ("lon", "lat")
    table = events.source.table  # type: ignore[union-attr]
    assert 2.3 < table["lon"][0].as_py() < 2.4
    assert 48.8 < table["lat"][0].as_py() < 48.9
    with pytest.raises(InputError, match="coordinate system"):
        read_events(frame.set_crs(None, allow_override=True))
    with pytest.raises(InputError, match="must be points"):
        read_events(frame.set_geometry(frame.buffer(10)))


def test_a_column_of_several_types_is_named_and_not_shown() -> None:
    frame = pd.DataFrame(COLUMNS).astype(object)
    frame["user"] = [SECRET, 7]
    assert "column 'user': the values have several types" in refused(lambda: read_events(frame))


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
    with pytest.raises(InputError, match="no rows"):
        read_events(pa.table(COLUMNS).slice(0, 0))
