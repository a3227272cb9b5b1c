"""500 spoiled files through reading *and counting*: an error of ours, or the right count.

The right count comes from a slow and simple reading with pandas, for the event files that
still have their three columns; for the rest the count must at least be possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.io.mutate import EVENTS, TOWERS, ZONES, good_files, mutate
from tests.io.planted import printed

from sfumato.engine.local import LocalSource
from sfumato.errors import SfumatoError
from sfumato.io.events import read_events
from sfumato.io.towers import read_towers
from sfumato.io.zones import read_zones
from sfumato.model.counts import Counting
from sfumato.model.events import Events
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid

GRID = TimeGrid.between(date(2024, 3, 25), date(2024, 4, 1), "1h", "UTC")
SEEDS = 50  # times ten names: 500 files


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return good_files(tmp_path_factory.mktemp("good"))


@dataclass(frozen=True)
class Read:
    """The good files, read once."""

    events: Events
    fixes: Events
    towers: Places
    zones: Places


@pytest.fixture(scope="module")
def read(good: dict[str, Path]) -> Read:
    return Read(
        read_events(good["events.parquet"], tz="UTC"),
        read_events(good["fixes.parquet"], tz="UTC"),
        read_towers(good["towers.csv"], tz="UTC"),
        read_zones(good["zones.geojson"]),
    )


def counted(spoiled: Path, name: str, read: Read) -> np.ndarray:
    """Exact visits, with the spoiled file in the place of the good one."""
    fixes = name.startswith("fixes")
    if name in TOWERS:
        events, places = read.events, read_towers(spoiled, tz="UTC")
    elif name in ZONES:
        events, places = read.fixes, read_zones(spoiled)
    else:
        events = read_events(spoiled, tz="UTC")
        places = read.zones if fixes else read.towers
    source = LocalSource(events, places, GRID, threads=1)
    try:
        return source.exact(Counting.VISITS)._through_the_door().values
    finally:
        source.close()


def simple_count(path: Path) -> int | None:
    """Distinct (user, tower, hour) of a file of tower events; None if it is not that simple."""
    try:
        if path.suffix == ".csv":
            frame = pd.read_csv(path, dtype=str, keep_default_na=False, on_bad_lines="error")
        else:
            frame = pd.read_parquet(path)
            if not pd.api.types.is_string_dtype(frame["user_id"]):
                return None
    except Exception:  # whatever pandas cannot read, it cannot judge
        return None
    if list(frame.columns) != ["user_id", "timestamp", "tower_id"] or frame.empty:
        return None
    time = pd.to_datetime(frame["timestamp"], utc=True, errors="coerce", format="ISO8601")
    if not pd.api.types.is_string_dtype(frame["timestamp"]) and time.isna().all():
        return None  # epoch numbers, which this simple reading does not know
    known = frame["tower_id"].isin([f"T{k:02}" for k in range(9)])
    start, end = (pd.Timestamp(int(edge), unit="us", tz="UTC") for edge in GRID.edges[[0, -1]])
    user = frame["user_id"]
    keep = known & time.notna() & (time >= start) & (time < end) & user.notna() & (user != "")
    hour = time.dt.floor("h")
    return len(pd.DataFrame({"u": user, "t": hour, "p": frame["tower_id"]})[keep].drop_duplicates())


@pytest.mark.parametrize("name", [*EVENTS, *TOWERS, *ZONES])
def test_a_spoiled_file_is_refused_or_counted_right(
    name: str, good: dict[str, Path], read: Read, tmp_path: Path
) -> None:
    rows = len(pd.read_parquet(good["events.parquet"]))
    judged, messages = 0, []
    for seed in range(SEEDS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        spoiled, what = mutate(good[name], seed, folder)
        try:
            found = counted(spoiled, name, read)
        except SfumatoError as error:
            messages.append(printed(error))
            continue
        assert found.min() >= 0, what
        assert found.sum() <= 2 * rows, what
        wanted = simple_count(spoiled) if name.startswith("events") else None
        if wanted is not None:
            judged += 1
            assert found.sum() == wanted, what
    assert messages
    assert not any("Traceback" in message for message in messages)
    assert judged > 0 or not name.startswith("events")
