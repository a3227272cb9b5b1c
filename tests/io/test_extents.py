"""What `inspect` says about sizes and units, and about towers that change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import shapely

import sfumato
from sfumato.geography.extent import Box, extent
from sfumato.io.inspection import field_kinds
from sfumato.model.places import PlaceKind, Places

KM = 1 / 111.2  # degrees of latitude


def test_zones_of_one_size_are_said_once() -> None:
    squares = [shapely.box(k / 100, 0, (k + 1) / 100, 0.01) for k in range(3)]
    words, _ = extent(Places.of(PlaceKind.ZONES, ["a", "b", "c"], squares))
    assert "km² in all, 1.2 km² each" in words
    assert "half of them" not in words


def test_a_box_in_kilometres_with_and_without_what_lies_far_off() -> None:
    rng = np.random.default_rng(1)
    lon, lat = rng.uniform(2.0, 2.2, 1000), rng.uniform(48.0, 48.1, 1000)
    box = Box.of(lon, lat)
    assert box.all_km == pytest.approx((14.9, 11.1), rel=0.02)
    lost = Box.of(np.append(lon, 0.0), np.append(lat, 0.0))  # a position at 0, 0
    assert lost.all_km[1] > 5000
    assert lost.most_km == pytest.approx(box.most_km, rel=0.05)
    assert "longitude 2.10, latitude 48.05" in box.words()


def test_spacing_of_towers_and_areas_of_zones() -> None:
    points = [shapely.Point(2 + k * KM * 2, 48 + j * KM) for k in range(5) for j in range(6)]
    towers = Places.of(PlaceKind.TOWERS, [f"t{k}" for k in range(30)], points)
    words, numbers = extent(towers)
    assert numbers["median_spacing_km"] == pytest.approx(1.0, rel=0.01)
    assert "30 towers" in words
    assert "another within 1 km" in words
    boxes = [shapely.box(2, 48 + k, 2 + 0.01, 48 + k + 0.01) for k in range(3)]
    words, numbers = extent(Places.of(PlaceKind.ZONES, ["a", "b", "c"], boxes))
    assert numbers["median_km2"] == pytest.approx(0.82, rel=0.03)
    assert "km² in all" in words
    one_box = Places.of(PlaceKind.ZONES, ["a"], [shapely.box(2, 48, 2 + KM * 3, 48 + KM * 2)])
    assert "1 zones: 2 x 2 km" in extent(one_box)[0]  # outlines, not centres
    one = extent(Places.of(PlaceKind.TOWERS, ["t"], [shapely.Point(2, 48)]))
    assert "median_spacing_km" not in one[1]


def test_inspect_says_how_large_and_how_long_things_are() -> None:
    events = pa.table(
        {
            "user": [1, 2] * 50,
            "t_ms": [1_700_000_000_000 + 3_600_000 * k for k in range(100)],
            "lon_e5": [235_000 + 10 * k for k in range(100)],
            "lat_e5": [4_885_000] * 100,
        }
    )
    zones = Places.of(PlaceKind.ZONES, ["z"], [shapely.box(2.3, 48.8, 2.4, 48.9)])
    found = sfumato.inspect(events, zones=zones)
    said = "\n".join(found.lines())
    assert "4.12 days, with 12.1 rows per person and day" in said
    assert "1 zones: " in said
    assert "the first 100 positions: " in said
    assert "lon (degrees x 100,000)" in said
    assert "time (epoch_ms)" in said
    assert found.numbers()["extents"]["positions"]["middle"] == [2.355, 48.85]


def test_towers_that_move_are_looked_at_without_a_period(tmp_path: Path) -> None:
    """Rows at a tower that does not stand then are counted by that reason."""
    towers = tmp_path / "towers.csv"
    towers.write_text(
        "tower_id,lon,lat,valid_from,valid_to\n"
        "a,2.31,48.85,,2024-03-12\na,2.33,48.86,2024-03-12,\nb,2.35,48.84,2024-03-10,2024-03-11\n"
    )
    zones = Places.of(PlaceKind.ZONES, ["z"], [shapely.box(2.3, 48.8, 2.4, 48.9)])
    rows = [(1, "2024-03-01T00:00Z", "a"), (2, "2024-03-20T00:00Z", "a"),
            (3, "2024-03-20T00:00Z", "b"), (4, "2024-03-20T00:00Z", "c"),
            (None, "2024-03-20T00:00Z", "a"), (5, None, "a"), (6, "soon", "a")]  # fmt: skip
    table = pa.table({name: [row[k] for row in rows] for k, name in
                      enumerate(("user", "time", "tower"))})  # fmt: skip
    found = sfumato.inspect(table, towers=towers, zones=zones)
    counts = {why: number for why, number in found.rows.items() if number}
    assert counts == {
        "read": 7, "no user": 1, "no time": 1, "not a time": 1, "of known places": 6,
        "unknown tower or zone": 1, "tower not valid at that time": 1,
    }  # fmt: skip


def test_fields_of_a_file_without_a_header_are_described_and_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("17;2024-03-04 10:00:00;Muster;2.35;\n")
    kinds = field_kinds(path)
    assert kinds.startswith("1 a whole number, 2 a time, 3 a text, 4 a number, 5 nothing")
    assert "ssv" in kinds
    said = " ".join(sfumato.inspect(path).lines())
    assert kinds in said
    assert "Muster" not in said


def test_forms_that_are_not_read_are_named_before_anything_is_released(tmp_path: Path) -> None:
    """Days first and decimal commas: every row would be dropped, so `inspect` says what to do."""
    path = tmp_path / "events.csv"
    path.write_text("17;04/03/2024 10:00;2,35;48,85\n18;05.03.2024 11:00;2,36;48,86\n")
    kinds = field_kinds(path)
    assert kinds.count("a number with a decimal comma, which is not read") == 2
    assert "2 a date that is not ISO 8601" in kinds
    column = {"user": "1", "time": "2", "lon": "3", "lat": "4"}
    found = sfumato.inspect(path, column=column, format="ssv")
    said = " ".join(found.remarks)
    assert "write them as 2007-09-10 08:05:00" in said
    assert "with a point, not a comma" in said
    assert "2024" not in said
