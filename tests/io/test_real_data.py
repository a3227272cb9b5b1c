"""The public data sets are understood without a word from the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.errors import InputError
from sfumato.io.events import read_events
from sfumato.io.towers import check_same_region, read_towers
from sfumato.io.zones import read_zones
from sfumato.model.events import EventColumns, Reading, TimeEncoding, UserEncoding

pytestmark = pytest.mark.real_data


def reading(path: Path) -> Reading:
    (part,) = read_events(path).parts
    return part.reading


@pytest.mark.parametrize("people", ["movr_100", "hcl_130", "movement_976"])
def test_hangzhou_calls(people: str, real_data: Path) -> None:
    found = reading(real_data / "hangzhou_cdr" / f"hangzhou_{people}users.parquet")
    assert found.columns == EventColumns("user", "time_utc", "bs", "lon", "lat")
    assert (found.time, found.tz, found.user) == (TimeEncoding.NAIVE, "UTC", "integer")


def test_all_hangzhou_calls_at_once(real_data: Path) -> None:
    events = read_events(str(real_data / "hangzhou_cdr" / "hangzhou_*users.parquet"))
    assert (len(events.parts), events.unfit) == (3, ())


def test_hangzhou_stations_have_a_junk_coordinate(real_data: Path) -> None:
    path = real_data / "hangzhou_cdr" / "hangzhou_basestations.parquet"
    with pytest.raises(InputError, match="1 of 36,633 towers"):
        read_towers(path)
    notes: list[str] = []
    assert len(read_towers(path, drop_bad=True, tell=notes.append)) == 36_632
    assert len(notes) == 1


def test_cabs(real_data: Path) -> None:
    found = reading(real_data / "cabspotting_sf" / "cabspotting_sf_2008.parquet")
    assert found.columns == EventColumns(
        "cab", "t_utc_s", None, "lon_e5", "lat_e5", degrees_scale=1e5
    )
    assert (found.time, found.user) == (TimeEncoding.EPOCH_S, UserEncoding.INTEGER)


def test_phones_of_sao_paulo(real_data: Path) -> None:
    found = reading(real_data / "saopaulo_gps" / "saopaulo_emission_2017.parquet")
    assert found.columns == EventColumns("user", "time_utc", None, "lon", "lat")


@pytest.mark.parametrize(
    ("name", "count", "first"),
    [
        ("paris/iris_paris_2013_992.geojson", 992, "751010101"),
        ("paris/iris_paris_graphseg_987.geojson", 987, "751010101"),
        ("paris/quartier_paris.geojson", 80, "7510101"),
        ("paris/arrondissements.geojson", 20, "75101"),
        ("cabspotting_sf/sf_tracts_2010.geojson", 195, "010100"),
        ("cabspotting_sf/sf_neighborhoods_analysis.geojson", 41, "Bayview Hunters Point"),
    ],
)
def test_zones(name: str, count: int, first: str, real_data: Path) -> None:
    zones = read_zones(real_data / name)
    assert (len(zones), zones.ids[0]) == (count, first)


def test_towers_of_paris(real_data: Path) -> None:
    zones = read_zones(real_data / "paris" / "iris_paris_2013_992.geojson")
    path = real_data / "paris" / "towers_arcep_2018-01_paris_3km.csv"
    assert len(read_towers(path, number_rows=True, zones=zones)) == 5_899
    with pytest.raises(InputError, match="look swapped"):
        read_towers(
            path, number_rows=True, zones=zones, columns={"towers.lon": "lat", "towers.lat": "lon"}
        )
    tracts = read_zones(real_data / "cabspotting_sf" / "sf_tracts_2010.geojson")
    with pytest.raises(InputError, match="50 km"):
        check_same_region(read_towers(path, number_rows=True), tracts)
