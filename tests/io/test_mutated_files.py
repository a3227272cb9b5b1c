"""Spoiled files give one of our errors or a sound description, never anything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import shapely
from tests.io.mutate import EVENTS, TOWERS, ZONES, good_files, mutate
from tests.io.planted import printed

from sfumato.errors import SfumatoError
from sfumato.io.events import read_events, resolved, rows_of
from sfumato.io.towers import read_towers
from sfumato.io.zones import read_zones
from sfumato.model.places import Places


def check_events(path: Path) -> None:
    events = read_events(path, tz="UTC")
    zones = not path.name.startswith("events")
    for part in events.parts:
        assert part.reading.columns.place is not None or part.reading.columns.lon is not None
    rows = sum(found.rows for found in rows_of(resolved(events, zones)))
    assert 0 <= rows <= 10_000


def check_places(places: Places) -> None:
    points = shapely.get_coordinates(places.geometry)
    assert np.isfinite(points).all()
    assert (np.abs(points) <= [180.0, 90.0]).all()
    assert shapely.is_valid(places.geometry).all()
    assert all(key.strip() for key in places.ids)
    assert (places.valid_from < places.valid_to).all()


def check_towers(path: Path) -> None:
    check_places(read_towers(path, tz="UTC"))


def check_zones(path: Path) -> None:
    zones = read_zones(path)
    check_places(zones)
    assert len(set(zones.ids.tolist())) == len(zones)
    assert (shapely.area(zones.geometry) > 0).all()


CHECKS: dict[str, Callable[[Path], None]] = (
    dict.fromkeys(EVENTS, check_events)
    | dict.fromkeys(TOWERS, check_towers)
    | dict.fromkeys(ZONES, check_zones)
)
SEEDS = 36


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return good_files(tmp_path_factory.mktemp("good"))


@pytest.mark.parametrize("name", CHECKS)
def test_the_good_files_are_good(name: str, good: dict[str, Path]) -> None:
    CHECKS[name](good[name])


@pytest.mark.parametrize("name", CHECKS)
def test_spoiled_files(name: str, good: dict[str, Path], tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(SEEDS):
        path, what = mutate(good[name], seed, tmp_path)
        try:
            CHECKS[name](path)
            outcomes["sound"] += 1
        except SfumatoError as error:
            outcomes["refused"] += 1
            shown = printed(error)
            assert "Traceback" not in shown, what
            assert not any(f"u{k:03}" in shown for k in range(30)), what
        except BaseException as error:
            raise AssertionError(f"{what}: {type(error).__name__}") from error
    # A fuzzer that is always refused, or never, would show nothing. Rows refuse no events.
    assert outcomes["refused"] >= (1 if name in EVENTS else SEEDS // 4)
    assert outcomes["sound"] >= 1


def test_the_same_seed_spoils_in_the_same_way(good: dict[str, Path], tmp_path: Path) -> None:
    for name in ("events.csv", "zones.geojson", "towers.parquet"):
        twice = [mutate(good[name], 5, tmp_path)[0].read_bytes() for _ in range(2)]
        assert twice[0] == twice[1]
