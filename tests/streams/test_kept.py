"""What a stream measured, kept for the streams after it (`--earlier` of `comb`)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely

import sfumato
from sfumato.audits.streams import stream_rows
from sfumato.errors import InputError, ReservationRefused, UsageError
from sfumato.io.write import write_arrays
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import Calendar, TimeGrid, day_of
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.published.folder import MEASUREMENTS, read_arrays
from sfumato.streams.facts import StreamFacts
from sfumato.streams.kept import Vectors, earlier_vectors, recalled, vectors_in
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import run_scheme

SIDE = 0.01
BOXES = [
    shapely.box(2.3 + SIDE * i, 48.8 + SIDE * j, 2.3 + SIDE * (i + 1), 48.8 + SIDE * (j + 1))
    for j in range(3)
    for i in range(4)
]
IDS = [f"z{k:02d}" for k in range(12)]
ZONES = geopandas.GeoDataFrame({"zone_id": IDS}, geometry=BOXES, crs="EPSG:4326")
PLACES = Places.of(PlaceKind.ZONES, IDS, np.array(BOXES, dtype=object))
CROWD = np.array([400, 10, 250, 10, 10, 30, 10, 10, 120, 10, 10, 10])


def slots(first: str, stop: str, step: str = "2h") -> TimeGrid:
    return TimeGrid.between(day_of(first), day_of(stop), step, "UTC")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """880 people who stay where they are on four days; the first two are published."""
    home = tmp_path_factory.mktemp("kept")
    zone = np.repeat(np.arange(12), CROWD)
    xy = shapely.get_coordinates(shapely.centroid(np.array(BOXES)))[zone]
    days = [
        pd.DataFrame(
            {
                "user": np.arange(zone.size),
                "time": f"2024-03-{day:02d}T{hour:02d}:30:00Z",
                "lon": xy[:, 0],
                "lat": xy[:, 1],
            }
        )
        for day in (4, 5, 6, 7)
        for hour in range(0, 24, 2)
    ]
    pd.concat(days).to_parquet(home / "e.parquet", index=False)
    book = Ledger(home / "ledger.sqlite")
    book.initialise()
    book.add_dataset("town", Cap(epsilon=10_000, delta=1e-3), Unit.parse("user-day"))
    run(home, "past", "2024-03-04", "2024-03-06")
    return home


def run(home: Path, name: str, start: str, end: str, **more: Any) -> dict[str, Any]:
    """A stream of those days; what its manifest says."""
    said = {"epsilon": 1, "expected_users": 900, "scheme": "comb", "slot": "2h", **more}
    sfumato.stream(
        home / "e.parquet", zones=ZONES, start=start, end=end, tz="UTC", dataset="town",
        out=home / name, ledger=home / "ledger.sqlite", **said,
    )  # fmt: skip
    found: dict[str, Any] = json.loads((home / name / "manifest.json").read_text())
    return found


def test_a_complete_stream_keeps_its_vectors_under_its_digest(home: Path) -> None:
    release = sfumato.read_release(home / "past")
    assert MEASUREMENTS in release.manifest.files
    assert "measurements.npz: the last noisy vectors" in (home / "past" / "README.txt").read_text()
    kept, digest = earlier_vectors([home / "past"], PLACES, slots("2024-03-06", "2024-03-07"), 42)
    assert kept is not None
    assert len(digest) == 64
    assert kept.laplace
    assert (kept.at >= -2).all()
    assert (kept.at < 0).all(), "days before the stream"
    assert kept.seen.shape == (len(kept), 12)
    lines = (home / "past" / "stream.ndjson").read_text().splitlines()
    assert len(kept) == sum(json.loads(line)["fresh"] for line in lines)
    precise = 1 / kept.variance
    mean = precise @ kept.seen / precise.sum()
    assert np.abs(mean - CROWD).max() < 6 * precise.sum() ** -0.5, "unbiased"
    few, _ = earlier_vectors([home / "past"], PLACES, slots("2024-03-06", "2024-03-07"), 2)
    assert few is not None
    assert few.at.tolist() == kept.at[-2:].tolist(), "the last ones, as many as are remembered"


@pytest.mark.privacy
def test_earlier_vectors_are_bound_to_the_reservation_and_not_paid_again(home: Path) -> None:
    today, past = ("today", "2024-03-06", "2024-03-07"), {"earlier": [home / "past"]}
    said = run(home, *today, **past)
    assert said["privacy"]["epsilon"] <= 1 + 1e-9
    assert [row["label"] for row in said["privacy"]["measurements"]] == ["vector"]
    assert len(said["public_inputs"]["earlier"]) == 64
    run(home, *today, earlier=home / "past", resume=True)  # found finished; one may stand alone
    with pytest.raises(ReservationRefused, match="reading"):
        run(home, *today, resume=True)
    run(home, "other", "2024-03-05", "2024-03-06")
    with pytest.raises(ReservationRefused, match="reading"):
        run(home, *today, earlier=[home / "other"], resume=True)
    # The day after begins with what both remember, the older vectors through the younger folder.
    grid = slots("2024-03-07", "2024-03-08")
    both, _ = earlier_vectors([home / "today"], PLACES, grid, 42)
    first, _ = earlier_vectors([home / "past"], PLACES, grid, 42)
    assert both is not None
    assert first is not None
    assert len(both) > len(first)
    assert np.allclose(both.at[: len(first)], first.at)


@pytest.mark.privacy
def test_folders_that_nobody_vouches_for_or_that_do_not_fit_are_refused(
    home: Path, tmp_path: Path
) -> None:
    grid = slots("2024-03-06", "2024-03-07")
    with pytest.raises(InputError, match="ends after this one begins"):
        earlier_vectors([home / "past"], PLACES, slots("2024-03-05", "2024-03-06"), 42)
    with pytest.raises(UsageError, match="overlap in time"):
        earlier_vectors([home / "past", home / "past"], PLACES, grid, 42)
    others = Places.of(PlaceKind.ZONES, IDS[::-1], PLACES.geometry)
    with pytest.raises(InputError, match="other places"):
        earlier_vectors([home / "past"], others, grid, 42)
    with pytest.raises(InputError, match="other time slots"):
        earlier_vectors([home / "past"], PLACES, slots("2024-03-06", "2024-03-07", "1h"), 42)
    shutil.copytree(home / "past", tmp_path / "altered")
    arrays = read_arrays(sfumato.read_release(home / "past").files)
    arrays["vectors"] = arrays["vectors"] + 1
    write_arrays(tmp_path / "altered" / MEASUREMENTS, arrays)
    with pytest.raises(InputError, match="published"):
        earlier_vectors([tmp_path / "altered"], PLACES, grid, 42)
    run(home, "plain", "2024-03-04", "2024-03-05", scheme="rhythm")
    with pytest.raises(InputError, match="keeps no vectors"):
        earlier_vectors([home / "plain"], PLACES, grid, 42)
    noisy = {"earlier": [home / "past"], "delta": 1e-6, "parameter": {"noise": "gaussian"}}
    with pytest.raises(UsageError, match="another kind of noise"):
        run(home, "g", "2024-03-06", "2024-03-07", **noisy)
    with pytest.raises((InputError, UsageError)):  # a release reads other measurements
        sfumato.refine(home / "past", out=tmp_path / "refined")
    unsealed = tmp_path / "unsealed"
    shutil.copytree(home / "past", unsealed)
    (unsealed / "manifest.json").unlink()
    with pytest.raises(InputError, match="no digest vouches"):
        earlier_vectors([unsealed], PLACES, grid, 42)


def damaged(arrays: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    found = dict(arrays)
    if value is None:
        found.pop(name)
    else:
        found[name] = np.asarray(value)
    return found


def test_damaged_arrays_are_no_vectors() -> None:
    good = PAST.arrays()
    assert len(vectors_in(good, 12, 3)) == 3
    assert vectors_in(good, 12, 3).at.tolist() == (PAST.at - 3).tolist()
    for name, value in (
        ("kind", "other"), ("at", None), ("phase", [0.1, 0.2]), ("variance", [1.0, 0.0, 1.0]),
        ("variance", [1.0, np.nan, 1.0]), ("vectors", np.zeros((3, 12))), ("at", [2.0, 1.0, 0.5]),
        ("vectors", np.zeros((2, 12), dtype=np.int16)), ("laplace", [True, False]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"arrays|times|form|steps|truth value|broadcast"):
            vectors_in(damaged(good, name, value), 12, 3)


DAYS = np.array([-2.5, -1.5, -0.5])
PAST = Vectors(
    DAYS, np.full(3, 0.5), np.zeros(3, dtype=bool), np.ones(3), np.full(3, 2.0),
    np.tile(CROWD.astype(np.float64), (3, 1)), True,
)  # fmt: skip
KNOWN = StreamFacts(12, Calendar.regular(12, 12), 1.0, 0.0, Unit.parse("user-day"), 900, 4)


def first_day_error(past: Vectors | None, truth: np.ndarray) -> float:
    scheme, counts = stream_scheme("comb"), np.tile(truth, (12, 1))
    made = [
        run_scheme(scheme, replace(KNOWN, epsilon=0.1, past=past), counts, seed).median
        for seed in range(4)
    ]
    return float(np.abs(np.array(made) - counts).mean())


def test_the_first_day_is_better_and_another_city_does_not_hurt() -> None:
    nothing = first_day_error(None, CROWD)
    assert first_day_error(PAST, CROWD) < 0.7 * nothing
    elsewhere = CROWD[np.random.default_rng(3).permutation(12)]
    alone = first_day_error(None, elsewhere)
    assert first_day_error(PAST, elsewhere) < 1.15 * alone
    more = 3 * CROWD
    assert first_day_error(PAST, more) < first_day_error(None, more)


def test_a_city_is_recalled_by_its_busy_places_and_its_level() -> None:
    rng, forecast = np.random.default_rng(5), np.tile(CROWD, 40).astype(np.float64)
    noisy = forecast + rng.laplace(0, 3, forecast.size)
    assert recalled(forecast, noisy, 18.0) == 1.0
    level = recalled(forecast, 3 * forecast + rng.laplace(0, 3, forecast.size), 18.0)
    assert level == pytest.approx(3, rel=0.05)
    moved = rng.permutation(forecast) + rng.laplace(0, 3, forecast.size)
    assert recalled(forecast, moved, 18.0) is None
    assert recalled(np.zeros(480), noisy, 18.0) is None, "nothing was foretold"
    assert recalled(forecast, -forecast, 18.0) is None


@pytest.mark.privacy
@pytest.mark.parametrize("unit", ["user-day", "w-event:5"])
def test_no_unit_loses_more_with_vectors_of_earlier_streams(unit: str) -> None:
    known = StreamFacts(6, Calendar.regular(12, 6), 1.0, 0.0, Unit.parse(unit), 60, 3)
    past = replace(PAST, seen=np.tile([30.0, 2, 2, 20, 2, 2], (3, 1)))
    rows = stream_rows(stream_scheme("comb"), replace(known, past=past), seed=2)
    assert not [row for row in rows if row.violated]
    assert rows[0].measured > 0
