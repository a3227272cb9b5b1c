"""Towers from every format, with and without validity; bad rows; the same part of the world."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely
from tests.io.planted import refused

from sfumato.errors import InputError, UsageError
from sfumato.io.towers import read_towers
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO, PlaceKind, Places

Written = Callable[..., Path]
CSV = "tower_id,lon,lat\n007,2.35,48.85\n08,2.36,48.86\n"


def micros(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp()) * 10**6  # type: ignore[misc, arg-type]


def frame(crs: str | None = "EPSG:4326") -> geopandas.GeoDataFrame:
    points = geopandas.points_from_xy([2.35, 2.36], [48.85, 48.86])
    towers = geopandas.GeoDataFrame({"bs": ["007", "08"]}, geometry=points, crs="EPSG:4326")
    return towers.to_crs(crs) if crs else towers.set_crs(None, allow_override=True)


def same(towers: Places) -> None:
    assert towers.kind is PlaceKind.TOWERS
    assert towers.ids.tolist() == ["007", "08"]
    points = shapely.get_coordinates(towers.geometry)
    assert np.allclose(points, [[2.35, 48.85], [2.36, 48.86]], atol=1e-6)


@pytest.mark.parametrize("ending", ["geojson", "gpkg", "shp", "parquet"])
@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:2154"])
def test_files_with_points(ending: str, crs: str, tmp_path: Path) -> None:
    path = tmp_path / f"towers.{ending}"
    if ending == "parquet":
        frame(crs).to_parquet(path)
    elif ending == "geojson":
        frame(crs).to_file(path, driver="GeoJSON")
    else:
        frame(crs).to_file(path)
    same(read_towers(path))


def test_csv_parquet_and_frames(csv_file: Written, parquet_file: Written) -> None:
    same(read_towers(csv_file(CSV)))
    same(read_towers(csv_file(CSV.replace(",", "\t"), "towers.tsv")))
    columns = {"BS": ["08", "007"], "Longitude": [2.36, 2.35], "Latitude": [48.86, 48.85]}
    same(read_towers(parquet_file(columns)))
    same(read_towers(pd.DataFrame(columns)))
    same(read_towers(pa.table(columns)))
    same(read_towers(frame("EPSG:3035")))
    whole = {"cell": ["007", "08"], "lon_e5": [235000, 236000], "lat_e5": [4885000, 4886000]}
    same(read_towers(pa.table(whole)))


def test_numbers_keep_their_text() -> None:
    def ids(column: object) -> list[str]:
        table = pa.table({"site": column, "lon": [1.0, 1.1], "lat": [1.0, 1.1]})
        return read_towers(table).ids.tolist()

    assert ids(pa.array([10, 2**63], pa.uint64())) == ["10", str(2**63)]
    assert ids(pa.array([10.0, 2.0])) == ["10", "2"]
    assert ids(pa.array(["b", "a"]).dictionary_encode()) == ["a", "b"]
    for bad, problem in (
        (pa.array([1.5, 2.0]), "row 1: the id is not a whole number"),
        (pa.array([1, None]), "row 2: the id is missing"),
        (pa.array(["a", " "]), "row 2: the id is missing"),
        (pa.array([True, False]), "type bool cannot be an id"),
    ):
        with pytest.raises(InputError, match=problem):
            ids(bad)


def test_a_file_without_ids_can_be_numbered(csv_file: Written) -> None:
    path = csv_file("operator,lon,lat\nA,2.35,48.85\nB,2.36,48.86\n")
    with pytest.raises(InputError, match="recognised as the tower"):
        read_towers(path)
    assert read_towers(path, number_rows=True).ids.tolist() == ["1", "2"]
    with pytest.raises(InputError, match="no such column"):
        read_towers(path, columns={"towers.id": "site"})
    with pytest.raises(UsageError, match=r"towers\.valid_from"):
        read_towers(path, columns={"tower": "operator"})


def test_validity_dates(csv_file: Written) -> None:
    path = csv_file(
        "cell_id,longitude,latitude,valid_date_start,valid_date_end\n"
        "a,2.0,48.0,2024-01-01,2024-07-01\n"
        "a,2.1,48.1,2024-07-01,\n"
        "b,2.2,48.2,,2024-02-01T00:00:00Z\n"
    )
    with pytest.raises(InputError, match="tz="):
        read_towers(path)
    towers = read_towers(path, tz="Europe/Paris")
    assert towers.ids.tolist() == ["a", "a", "b"]
    assert towers.valid_from.tolist() == [
        micros(2023, 12, 31, 23),
        micros(2024, 6, 30, 22),
        ALWAYS_FROM,
    ]
    assert towers.valid_to.tolist() == [micros(2024, 6, 30, 22), ALWAYS_TO, micros(2024, 2, 1)]


@pytest.mark.parametrize(
    "kind", [pa.timestamp("ns", "UTC"), pa.timestamp("s", "Asia/Tokyo"), pa.date32(), pa.string()]
)
def test_validity_of_any_type(kind: pa.DataType) -> None:
    days = ["2024-01-01", None]
    column = pa.array(days).cast(pa.date32()) if kind == pa.date32() else pa.array(days)
    if pa.types.is_timestamp(kind):
        column = pa.array([datetime(2024, 1, 1, tzinfo=UTC), None], kind)
    table = pa.table({"bs": ["a", "b"], "lon": [1.0, 2.0], "lat": [1.0, 2.0], "valid_from": column})
    assert read_towers(table, tz="UTC").valid_from.tolist() == [micros(2024, 1, 1), ALWAYS_FROM]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("a,1,1,2024-01-01,2024-03-01\na,2,2,2024-02-01,2024-05-01", "tower 'a' stands in two"),
        ("a,1,1,,\na,2,2,2024-02-01,", "tower 'a' stands in two"),
        ("a,1,1,2024-03-01,2024-01-01", "row 1: the tower's validity ends before it starts"),
        ("a,1,1,soon,", "column 'valid_from', row 1: the validity is not a date"),
        ("a,1,1,0001-01-01,", "outside the calendar"),
    ],
)
def test_validity_that_makes_no_sense(rows: str, problem: str, csv_file: Written) -> None:
    path = csv_file(f"tower,lon,lat,valid_from,valid_to\n{rows}\n")
    assert problem in refused(lambda: read_towers(path, tz="Asia/Tokyo"))


def test_repeated_rows_merge_and_contradictions_do_not(csv_file: Written) -> None:
    notes: list[str] = []
    towers = read_towers(csv_file(CSV + "007,2.35,48.85\n"), tell=notes.append)
    assert len(towers) == 2
    assert any("1 repeated rows of towers merged" in note for note in notes)
    path = csv_file(CSV + "007,2.4,48.85\n")
    assert f"{path}, row 3: tower '007' stands in two rows" in refused(lambda: read_towers(path))


@pytest.mark.parametrize("bad", ["", "nan", "inf", "190", "-1e9"])
def test_bad_coordinates_are_strict_unless_dropped(bad: str, csv_file: Written) -> None:
    path = csv_file(CSV + f"x,{bad},48.0\n")
    text = refused(lambda: read_towers(path))
    assert f"{path}, row 3: the tower has unusable coordinates" in text
    assert "1 of 3 towers" in text
    notes: list[str] = []
    same(read_towers(path, drop_bad=True, tell=notes.append))
    assert any("1 of 3 towers dropped" in note for note in notes)


def test_a_lonely_tower_far_away_is_a_mistake_unless_kept() -> None:
    lon, lat = np.linspace(120.0, 121.0, 200), np.linspace(30.0, 31.0, 200)
    lon[17], lat[17] = -145.0, 0.0
    table = pa.table({"bs": np.arange(200), "lon": lon, "lat": lat})
    with pytest.raises(InputError, match=r"row 18.*far from all others"):
        read_towers(table)
    assert len(read_towers(table, drop_bad=True)) == 199
    assert len(read_towers(table, keep_far=True)) == 200


def test_towers_across_the_date_line_are_no_mistake() -> None:
    lon = np.where(np.arange(200) < 199, 179.9, -179.9)
    table = pa.table({"bs": np.arange(200), "lon": lon, "lat": np.full(200, -17.0)})
    assert len(read_towers(table)) == 200


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tower,lon,lat\na,48.85,102.35\nb,48.86,102.36\n", "longitude and latitude look swapped"),
        ("tower,x,y\na,652000,6862000\n", "most coordinates are not degrees"),
        ("tower,lon\na,1\n", "recognised as the tower lat"),
        ("tower,lat\na,1\n", "recognised as the tower lon"),
        ("tower,lon,lat\na,1,1\nb,east,2\n", "column 'lon', row 2: the coordinate is not a number"),
        ("tower;lon;lat\na;2,35;48,85\n", "with a decimal point, 48.85, not a comma"),
        ("tower,lon,lat\na,,\n", "unusable coordinates"),
        ("tower,lon,lat\na,1,1,1\n", "row 1: the line has 4 fields"),
    ],
)
def test_bad_tables(text: str, problem: str, csv_file: Written) -> None:
    path = csv_file(text, "towers.csv")
    message = refused(lambda: read_towers(path))
    assert problem in message
    assert str(path) in message


def test_bad_shapes(tmp_path: Path) -> None:
    areas = frame("EPSG:2154")
    areas = areas.set_geometry(areas.buffer(100))
    assert "must be a point" in refused(lambda: read_towers(areas))
    assert "there are no towers" in refused(lambda: read_towers(frame().iloc[:0]))
    for nowhere in (None, shapely.Point()):
        gone = frame()
        gone.loc[1, "geometry"] = nowhere
        assert "row 2: the tower has unusable" in refused(lambda gone=gone: read_towers(gone))
    notes: list[str] = []
    same(read_towers(frame(None), tell=notes.append))
    assert any("states no coordinate system" in note for note in notes)
    metres = frame("EPSG:2154").set_crs(None, allow_override=True)
    assert "does not state its coordinate system" in refused(lambda: read_towers(metres))
    two = tmp_path / "two.gpkg"
    frame().to_file(two, layer="old")
    frame().to_file(two, layer="new")
    assert "several layers: old, new" in refused(lambda: read_towers(two))
    same(read_towers(two, layer="new"))
    with pytest.raises(UsageError, match="no layer"):
        read_towers(two, layer="none")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.geojson", b'{"type": "FeatureCollection", "features": [{"type": "Fea'),
        ("a.geojson", b"[1, 2, 3]"),
        ("a.gpkg", b"SQLite format 3\0" + b"\0" * 200),
        ("a.shp", b"\0\0\x27\x0a" + b"\0" * 96),
        ("a.parquet", b"PAR1" + b"junk" * 9 + b"PAR1"),
        ("a.parquet", b"tower,lon,lat\n"),
        ("a.zip", b"PK\x03\x04nothing"),
        ("a.json", b""),
    ],
)
def test_damaged_files(name: str, content: bytes, csv_file: Written) -> None:
    path = csv_file(content, name)
    assert str(path) in refused(lambda: read_towers(path))
