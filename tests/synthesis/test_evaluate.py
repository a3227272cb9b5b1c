"""Synthetic folders beside the truth: internal figures, files and refusals."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.city import CityPlan, write_city
from sfumato.errors import UsageError
from sfumato.geography.places import PlaceOptions
from sfumato.io.write import marked
from sfumato.model.time_grid import period_of
from sfumato.published.manifest import GridFacts
from sfumato.synthesis.evaluate import PAGE, SUMMARY, evaluate_synthetic

GRID = period_of("2007-09-10", "2007-09-17", "1h", "Europe/Paris")


def folder_of(table: pa.Table, folder: Path, released: SimpleNamespace, **inputs: str) -> object:
    """A stand-in for a synthetic release: what the evaluation asks of one."""
    folder.mkdir()
    pq.write_table(table.cast(marked(table.schema)), folder / "events.parquet")
    privacy = SimpleNamespace(epsilon=1.0, delta=1e-6)
    manifest = SimpleNamespace(
        released=released,
        public_inputs=inputs,
        privacy=privacy,
        differential_privacy=True,
        grid=GridFacts.of(GRID),
    )
    files = SimpleNamespace(path=folder, read=lambda name: (folder / name).read_bytes())
    about = {"kind": "synthetic", "grid": GRID, "folder": folder, "label": folder.name}
    return SimpleNamespace(**about, manifest=manifest, files=files)


def halves(path: Path, column: str) -> tuple[pa.Table, pa.Table]:
    """Records of people with an even and with an odd number."""
    table = pq.read_table(path)
    codes = np.asarray(table[column].combine_chunks().dictionary_encode().indices)
    return table.filter(pa.array(codes % 2 == 0)), table.filter(pa.array(codes % 2 == 1))


@pytest.mark.privacy
def test_people_are_judged_and_copies_are_found(tmp_path: Path) -> None:
    write_city(CityPlan(users=600, towers=25, zones=20, area_km2=20), tmp_path / "city")
    column = next(
        name
        for name in pq.read_schema(tmp_path / "city" / "events.parquet").names
        if "user" in name
    )
    inside, outside = halves(tmp_path / "city" / "events.parquet", column)
    places = PlaceOptions(towers=tmp_path / "city" / "towers.csv")
    opened = places.open(period=GRID, tz=GRID.tz)
    released = SimpleNamespace(kind="towers", sha256=opened.released.fingerprint())
    copied = folder_of(inside, tmp_path / "copied", released)
    fresh = folder_of(outside, tmp_path / "fresh", released)
    found = evaluate_synthetic(
        [copied, fresh],  # type: ignore[list-item]
        inside,
        held_back=outside,
        places=places,
        out=tmp_path / "internal",
    )
    same, other = (one.overall for one in found.evaluations)
    assert same["hourly_mre"] == same["gyration_jsd"] == same["activity_jsd"] == 0
    assert same["home_work_cpc"] == same["copies"] == 1
    assert same["membership_advantage_low"] > same["membership_bound"]
    assert other["membership_advantage"] < 0  # whoever was held back is copied here
    assert other["home_work_cpc"] < 1
    assert "not a gate" in found.remarks[0]
    page, summary = tmp_path / "internal" / PAGE, tmp_path / "internal" / SUMMARY
    assert stat.S_IMODE(page.stat().st_mode) == stat.S_IMODE(summary.stat().st_mode) == 0o600
    assert "INTERNAL" in page.read_text()
    assert "a release that nobody charged" in page.read_text()
    assert json.loads(summary.read_text())["releases"][0]["name"] == "copied"
    released.sha256 = "of other places"
    with pytest.raises(UsageError, match="not the places"):
        evaluate_synthetic([copied], inside, places=places)  # type: ignore[list-item]


def made_trips(people: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    at = rng.normal((2.35, 48.85), 0.02, (people, 1, 2)) + np.cumsum(
        rng.normal(0, 0.003, (people, 6, 2)), axis=1
    )
    minute = np.tile(np.arange(6) * 60, people) + np.repeat(rng.integers(0, 80_000, people), 6)
    start = int(GRID.period[0]) // 1_000_000
    return pa.table(
        {
            "user_id": np.repeat(np.arange(people), 6),
            "timestamp": pa.array((start + minute) * 1_000_000, pa.timestamp("us", tz="UTC")),
            "lon": at[..., 0].ravel(),
            "lat": at[..., 1].ravel(),
        }
    )


def test_trips_are_judged(tmp_path: Path) -> None:
    region = SimpleNamespace(kind="region", sha256="")
    true, held_back = made_trips(200, 1), made_trips(200, 2)
    same = folder_of(true, tmp_path / "same", region, region="2.2,48.7,2.5,49.0")
    other = folder_of(made_trips(300, 3), tmp_path / "other", region, region="2.2,48.7,2.5,49.0")
    found = evaluate_synthetic(
        [same, other],  # type: ignore[list-item]
        true,
        held_back=held_back,
        places=PlaceOptions(),
    )
    one, two = (each.overall for each in found.evaluations)
    assert one["trip_jsd"] == one["query_R/10"] == 0
    assert one["pattern_f1"] == one["copies"] == 1
    assert two["query_R/10"] > 0
    assert two["copies"] == 0
    assert two["membership_advantage_low"] < two["membership_bound"]


def test_tables_of_counts_are_not_judged_with_people(tmp_path: Path) -> None:
    region = SimpleNamespace(kind="region", sha256="")
    made = folder_of(made_trips(9, 1), tmp_path / "made", region, region="2.2,48.7,2.5,49.0")
    counts = SimpleNamespace(kind="density", manifest=made.manifest)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="one at a time"):
        evaluate_synthetic([made, counts], made_trips(9, 2), places=PlaceOptions())  # type: ignore[list-item]
