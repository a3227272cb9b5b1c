"""Towers over zones, before and after the noise: sensitivity, formula (1), intervals, resuming."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import sfumato
from sfumato.geography.overlay import Overlay, exact_shares
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.published.estimate import Estimate
from sfumato.streams.scheme import Publication
from sfumato.streams.spreading import split_over_zones, splits, spread_over_zones


def overlay(table: NDArray[np.float64]) -> Overlay:
    towers, zones = (np.arange(n).astype(np.str_) for n in table.shape)
    return Overlay(towers, zones, exact_shares(sp.csr_array(table)))


@pytest.fixture
def random_shares() -> Overlay:
    """Towers in one zone, in several, partly and wholly beyond the border."""
    rng = np.random.default_rng(2)
    table = rng.dirichlet(np.full(5, 0.4), 40) * rng.choice([1.0, 1.0, 0.6, 0.0], (40, 1))
    table[:5] = np.eye(5)
    return overlay(np.where(table < 1e-3, 0.0, table))


@pytest.mark.privacy
def test_one_person_more_changes_one_zone_by_one(random_shares: Overlay) -> None:
    """The bound that the noise is calibrated to, for every tower, many crowds and many coins."""
    rng, beyond = np.random.default_rng(4), 0
    for run in range(60):
        key, counts = rng.bytes(32), rng.integers(0, 1 + run, 40)
        before = split_over_zones(counts, random_shares, key)
        assert before.sum() <= counts.sum()
        for tower in range(40):
            more = counts.copy()
            more[tower] += 1
            change = split_over_zones(more, random_shares, key) - before
            assert change.min() >= 0
            assert change.sum() <= 1
            beyond += change.sum() == 0
    assert beyond > 0


def test_people_are_split_by_their_shares(random_shares: Overlay) -> None:
    rng = np.random.default_rng(4)
    counts = rng.integers(0, 60, 40)
    wanted = random_shares.to_zones(counts)
    draws = np.array([split_over_zones(counts, random_shares, rng.bytes(32)) for _ in range(400)])
    error = draws.std(axis=0)
    assert (np.abs(draws.mean(axis=0) - wanted) < 4 * error / 20 + 0.02).all(), "formula (1)"
    multinomial = np.sqrt(random_shares.to_zones(counts))
    assert error.max() < 0.5 * multinomial.max(), "evener than people who go by chance alone"
    many = overlay(np.full((5000, 2), 0.5))  # sums of shares beyond 64 bits
    assert abs(split_over_zones(np.full(5000, 2), many, b"k")[0] - 5000) < 200


def test_which_side_of_the_noise_is_a_matter_of_geometry() -> None:
    assert not splits(overlay(np.eye(4)))
    assert not splits(overlay(np.full((2, 4), 0.25)))
    assert splits(overlay(np.repeat(np.eye(2), 5, axis=0)))


def grouped(towers: int) -> tuple[str, dict[str, Any]]:
    """Towers in two squares, so many in each."""
    rows = [
        f"t{k},{2.0 + 0.1 * (k % 2) + 0.09 * (k // 2 + 1) / (towers + 1)},48.05"
        for k in range(2 * towers)
    ]
    zones = [
        {"type": "Feature", "properties": {"zone_id": name},
         "geometry": {"type": "Polygon", "coordinates": [
             [[x, 48], [x + 0.1, 48], [x + 0.1, 48.1], [x, 48.1], [x, 48]]]}}
        for name, x in (("west", 2.0), ("east", 2.1))
    ]  # fmt: skip
    return "tower_id,lon,lat\n" + "\n".join(rows), {"type": "FeatureCollection", "features": zones}


def test_a_stream_of_many_towers_has_the_noise_of_its_zones(tmp_path: Path) -> None:
    towers, zones = grouped(8)
    (tmp_path / "towers.csv").write_text(towers)
    (tmp_path / "zones.geojson").write_text(json.dumps(zones))
    book = Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    book.add_dataset("town", Cap(epsilon=40, delta=0.0), Unit.parse("user-day"))
    start = datetime(2024, 3, 4, tzinfo=UTC)
    crowd = [
        {"user": k, "time": start + timedelta(hours=6 * slot), "place": f"t{k % 16}"}
        for slot in range(4)
        for k in range(320)
    ]
    given: dict[str, Any] = {
        "towers": tmp_path / "towers.csv", "zones": tmp_path / "zones.geojson", "slot": "6h",
        "start": "2024-03-04", "end": "2024-03-05", "tz": "UTC", "dataset": "town", "epsilon": 4.0,
        "scheme": "direct", "out": tmp_path / "out", "ledger": book, "border": "0",
    }  # fmt: skip
    with sfumato.stream(**given) as publisher:
        publisher.add(crowd)
        told = publisher.close(0)
        assert publisher.request.facts.cells == 2
        assert told.noise_of_sum == pytest.approx(told.made.sd * 2**0.5)
    with sfumato.stream(resume=True, **given) as publisher:
        assert publisher.request.split
        publisher.add(crowd)
        for slot in (1, 2, 3):
            publisher.close(slot)
    found = publisher.release()
    assert np.abs(found.values - 160).max() < 25, "scale 1 a zone"
    text = " ".join(found.manifest.caveats)
    assert "each counts as one person in one of its zones, before the noise" in text
    assert "16 towers stand in the zones" in text
    assert found.manifest.counted.count == 16
    judged = sfumato.evaluate(
        found, frame(crowd), towers=given["towers"],
        zones=given["zones"], earth_mover=False, out=tmp_path / "internal",
    )  # fmt: skip
    assert np.abs(judged.truth.sum(axis=0) - 320).max() < 1e-6
    assert (tmp_path / "internal" / "internal.html").exists()
    attacked = sfumato.attack(
        found, frame(crowd), towers=given["towers"], zones=given["zones"], seeds=1, group=0
    )
    assert "INTERNAL" in repr(attacked)


def frame(rows: list[dict[str, Any]]) -> Any:
    import pandas as pd

    return pd.DataFrame(rows)


def spread(made: Publication, shares: list[list[float]]) -> Publication:
    table = np.array(shares)
    names = [
        np.array([f"{kind}{k}" for k in range(n)])
        for kind, n in zip("tz", table.shape, strict=True)
    ]
    return spread_over_zones(made, Overlay(*names, exact_shares(sp.csr_array(table))))


def test_zones_that_are_towers_keep_median_and_interval() -> None:
    values = np.array([8.0, 4.0, 12.0])
    total = Estimate(24.0, 15.0, 35.0, 0.9)
    made = Publication(values, True, 2.0, False, values - 0.5, values - 3, values + 4, total)
    found = spread_over_zones(made, overlay(np.eye(3)))
    for name in ("values", "median", "lower", "upper"):
        assert getattr(found, name) == pytest.approx(getattr(made, name))
    assert found.total is not None
    assert (found.total.lower, found.total.upper) == (15.0, pytest.approx(35.0))
    half = spread_over_zones(made, overlay(np.eye(3) / 2))
    assert half.lower == pytest.approx(made.lower / 2)
    assert half.median == pytest.approx(made.median / 2)
    assert half.total is not None
    assert half.total.upper == pytest.approx(17.5), "what lies beyond the border is not in it"


def test_before_anybody_is_seen_the_sum_keeps_its_interval() -> None:
    none = np.zeros(3)
    made = Publication(none, False, 2.0, False, none, none, none, Estimate(0.0, 0.0, 40.0, 0.9))
    found = spread_over_zones(made, overlay(np.eye(3)))
    assert found.total is not None
    assert (found.total.lower, found.total.upper) == (0.0, 40.0)


def test_intervals_of_zones_hold_what_they_promise() -> None:
    """Towers whose errors share a level, spread over zones: nine of ten zones lie within."""
    rng = np.random.default_rng(5)
    towers, zones = 60, 20
    shares = rng.dirichlet(np.full(zones, 0.15), towers)
    mean, held, within = rng.gamma(2.0, 10.0, towers), [], []
    level, own = 0.08, 0.3
    draws = mean * (1 + level * rng.normal(size=(4000, 1)) + own * rng.normal(size=(4000, towers)))
    ends = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
    low, high = np.quantile(draws.sum(axis=1), [0.05, 0.95])
    made = Publication(
        mean, True, 1.0, False, ends[1], ends[0], ends[2], Estimate(mean.sum(), low, high, 0.9)
    )
    found = spread_over_zones(made, overlay(shares))
    for truth in draws[:500] @ shares:
        assert found.lower is not None
        assert found.upper is not None
        held.append(np.mean((found.lower <= truth) & (truth <= found.upper)))
        assert found.total is not None
        within.append(found.total.lower <= truth.sum() <= found.total.upper)
    assert 0.86 < np.mean(held) < 0.94
    assert 0.86 < np.mean(within) < 0.94
