"""Names of columns that other tools use, and what happens where two of them meet."""

from __future__ import annotations

import pytest

from sfumato.errors import InputError, UsageError
from sfumato.io import names as aliases
from sfumato.io.names import TimeName, degrees_scale, find, named, pick, plain_name

FAMILIES = {
    "scikit-mobility": ["uid", "datetime", "tile_ID", "lng", "lat"],
    "trackintel": ["user_id", "tracked_at", None, "longitude", "latitude"],
    "movingpandas": ["id", "t", None, "x", "y"],
    "multimno": ["user_id", "timestamp", "cell_id", "longitude", "latitude"],
    "FlowKit": ["msisdn", "datetime", "location_id", None, None],
    "call records": ["user", "time_utc", "bs", "lon", "lat"],
    "cabs": ["cab", "t_utc_s", None, "lon_e5", "lat_e5"],
    "shouting": ["IMSI", "TIMESTAMP", "TOWER_ID", "LON", "LAT"],
    "hours": ["uid", "hour_local", "tower", None, None],
}
ROLES = (aliases.USER, aliases.TIME, aliases.PLACE, aliases.LON, aliases.LAT)


@pytest.mark.parametrize("family", FAMILIES)
def test_families_of_names_are_recognised(family: str) -> None:
    expected = FAMILIES[family]
    names = [name for name in expected if name] + ["duration", "occupied", "mcc"]
    assert [find(names, role, None) for role in ROLES] == expected


def test_two_candidates_are_an_error_that_lists_them_and_says_how_to_choose() -> None:
    with pytest.raises(InputError) as caught:
        find(["imsi", "time", "MSISDN"], aliases.USER, "calls.csv")
    assert "calls.csv: the columns 'imsi', 'MSISDN' could all be the user" in str(caught.value)
    assert "`column={'user': NAME}`" in caught.value.remedy


def test_a_choice_overrides_and_is_compared_without_case() -> None:
    names = ["imsi", "msisdn", "time"]
    assert pick(names, aliases.USER, {"user": "msisdn"}, None) == "msisdn"
    assert pick(names, aliases.USER, {"user": "MSISDN"}, None) == "msisdn"
    with pytest.raises(InputError, match="'imsi', 'msisdn', 'time'"):
        named("customer", names, aliases.USER, None)
    with pytest.raises(InputError, match="no such column"):
        named("A", ["a", "b"][1:], aliases.USER, None)


def test_weak_names_count_only_alone() -> None:
    assert find(["id", "uid"], aliases.USER, None) == "uid"
    assert find(["x", "longitude"], aliases.LON, None) == "longitude"
    assert find(["hour", "timestamp", "date"], aliases.TIME, None) == "timestamp"


def test_a_part_that_does_not_exist_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="user, time, place, lon, lat"):
        aliases.check_keys({"who": "uid"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t_utc_s", TimeName("t", True, "s")),
        ("Timestamp_ms", TimeName("timestamp", False, "ms")),
        ("time_local", TimeName("time", False, None)),
        ("time_gmt", TimeName("time", True, None)),
        ("epoch_seconds", TimeName("epoch", False, "s")),
        ("event_time", TimeName("event_time", False, None)),
        ("s", TimeName("s", False, None)),
        ("___", TimeName("", False, None)),
    ],
)
def test_what_the_name_of_a_time_tells(name: str, expected: TimeName) -> None:
    assert TimeName.of(name) == expected


def test_scales_and_plain_names() -> None:
    assert [degrees_scale(n) for n in ("lon_e5", "LAT_E7", "lon", "e5")] == [1e5, 1e7, 1.0, 1.0]
    assert plain_name(" Tile-ID ") == "tile_id"


def test_long_lists_of_columns_are_cut() -> None:
    assert aliases.listed([f"c{k}" for k in range(25)]).endswith("and 5 more")
