"""Measurements that a release keeps: what is in the file, and that reading it again is free."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.density.conftest import Town

import sfumato
from sfumato.density import folder as folder_module
from sfumato.density.bayes import Bayes
from sfumato.density.bayes.measured import FINENESS, Kept, keep, kept
from sfumato.density.bayes.scheme import read
from sfumato.density.reanalysis import measurements_of
from sfumato.density.scheme import PublicFacts
from sfumato.errors import InputError, UsageError
from sfumato.model.counts import Counting
from sfumato.model.ladder import step_sums
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.privacy.wall import Wall
from sfumato.published.release import read_release

pytestmark = pytest.mark.privacy
TABLES = ("density.parquet", "density.csv", "density-districts.parquet", "density-city.parquet")


def facts_of(town: Town) -> PublicFacts:
    return replace(town.facts(1.0), expected_users=3_000, parameters={"visits": 6.0})


def test_the_file_holds_what_passed_the_wall_and_public_settings_and_nothing_else(
    town: Town,
) -> None:
    """Every array is recomputed here from the noisy integers of the wall and from public facts."""
    facts = facts_of(town)
    made = Bayes().run(town.source, Wall.seeded(4), facts)
    arrays = dict(made.kept or {})
    ladder, places, slots, matrix = made.measurements
    steps = tuple(arrays.pop("ladder_steps").tolist())
    sums, sds = step_sums(ladder.values, ladder.variance, steps)
    np.testing.assert_array_equal(arrays.pop("ladder_sd"), sds)
    np.testing.assert_array_equal(arrays.pop("ladder"), np.rint(sums / (sds / FINENESS)))
    for name, limit, taken in (
        ("places", "place_limit", places),
        ("slots", "slot_limit", slots),
        ("matrix", "matrix_limit", matrix),
    ):
        whole, sd = arrays.pop(name), float(arrays.pop(f"{name}_sd"))
        # The factor that fits a planned limit to people: a power of 2^(1/4), from the ladder.
        most = taken.sd / sd
        assert round(4 * np.log2(most)) == pytest.approx(4 * np.log2(most), abs=1e-3)
        assert taken.event.l2 / taken.units_per_count / most == pytest.approx(
            float(arrays.pop(limit)),
            rel=1e-4,  # weights are whole units
        )
        np.testing.assert_array_equal(
            whole, np.rint(taken.estimate() / most / (sd / FINENESS)).astype(np.int64)
        )
    # Weights follow from the margins before the matrix was measured: another matrix, the same ones.
    other = Bayes().run(town.source, _Other(4), facts)  # type: ignore[arg-type]
    assert not np.array_equal((other.kept or {})["matrix"], (made.kept or {})["matrix"])
    for name in ("place_weights", "slot_weights"):
        np.testing.assert_array_equal(arrays.pop(name), (other.kept or {})[name])
    shares = town.overlay.shares
    np.testing.assert_array_equal(arrays.pop("share_of"), shares.data)
    np.testing.assert_array_equal(arrays.pop("share_in"), shares.indices)
    np.testing.assert_array_equal(arrays.pop("share_from"), shares.indptr)
    assert facts.zone_layout is not None
    np.testing.assert_array_equal(arrays.pop("centres"), facts.zone_layout.centres)
    assert float(arrays.pop("epsilon")) == facts.epsilon
    assert float(arrays.pop("delta")) == facts.delta
    assert int(arrays.pop("expected_users")) == facts.expected_users
    assert not arrays


class _Other:
    """The same noise on margins, other noise on the matrix."""

    def __init__(self, seed: int) -> None:
        self._walls = Wall.seeded(seed), Wall.seeded(seed + 1)

    def gaussian(self, box: Any, *, label: str, **how: Any) -> Any:
        return self._walls[label == "matrix"].gaussian(box, label=label, **how)


def test_what_is_read_back_gives_the_same_table(town: Town) -> None:
    facts = facts_of(town)
    made = Bayes().run(town.source, Wall.seeded(4), facts)
    assert made.kept is not None
    measured, again = kept(
        made.kept, facts.released_ids, facts.grid, Counting.VISITS, facts.parameters
    )
    assert made.posterior is not None
    assert (read(measured, again)[0].draws == made.posterior.draws).all()
    assert {name: array.tobytes() for name, array in keep(measured, again).items()} == {
        name: array.tobytes() for name, array in made.kept.items()
    }


class Shop:
    """A town with a ledger, and releases of its two days with everything asked for."""

    def __init__(self, home: Path) -> None:
        self.home = home
        rng = np.random.default_rng(7)
        days = pa.array(
            1_709_510_400 + 86_400 * rng.integers(0, 2, 4000) + 3600 * rng.integers(6, 22, 4000),
            pa.timestamp("s", tz="UTC"),
        )
        self.events = pa.table(
            {
                "user": rng.integers(0, 600, 4000),
                "time": days,
                "tower": np.array(["a", "b", "c"])[rng.integers(0, 3, 4000)],
            }
        )
        (home / "towers.csv").write_text(
            "tower_id,lon,lat\na,2.30,48.8\nb,2.34,48.8\nc,2.32,48.84\n"
        )
        boxes = ((2.28, 48.78, 2.32, 48.86), (2.32, 48.78, 2.36, 48.86))
        features = [
            {
                "type": "Feature",
                "properties": {"zone_id": name, "name": name, "quarter": quarter},
                "geometry": {
                    "type": "Polygon",
                    "coordinates": [[(w, s), (e, s), (e, n), (w, n), (w, s)]],
                },
            }
            for name, quarter, (w, s, e, n) in zip("xy", "pq", boxes, strict=True)
        ]
        (home / "zones.geojson").write_text(
            json.dumps({"type": "FeatureCollection", "features": features})
        )
        self.ledger = Ledger(home / "ledger.sqlite")
        self.ledger.initialise()
        self.ledger.add_dataset("town", Cap(epsilon=9, delta=1e-4))

    def release(self, name: str, first: str = "2024-03-04", **more: object) -> sfumato.Release:
        last = {"2024-03-04": "2024-03-05", "2024-03-05": "2024-03-06"}[first]
        asked = {"scheme": "bayes", "expected_users": 600, "hierarchy_column": "quarter"} | more
        return sfumato.release(
            self.events,
            anyway=True,
            towers=self.home / "towers.csv",
            zones=self.home / "zones.geojson",
            start=first,
            end=last,
            tz="UTC",
            slot="1h",
            dataset="town",
            epsilon=1.0,
            delta=1e-6,
            ledger=self.ledger,
            out=self.home / name,
            **asked,  # type: ignore[arg-type]
        )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    found = Shop(tmp_path_factory.mktemp("shop"))
    found.release("monday", integers=True)
    found.release("plain", scheme="gaussian")
    found.release("tuesday", "2024-03-05", earlier=[found.home / "monday"])
    return found


def test_the_sum_of_everything_is_published_with_an_interval(shop: Shop, tmp_path: Path) -> None:
    made = read_release(shop.home / "monday")
    total = made.manifest.total
    assert total is not None
    assert total.coverage == made.manifest.scheme.interval_coverage
    assert total.value == pytest.approx(
        made.values.sum(), abs=12
    )  # totals of 24 slots were made whole
    assert total.lower < total.value < total.upper
    assert total.words() in " ".join((made.folder / "README.txt").read_text().split())
    assert total.words() in (made.folder / "index.html").read_text()
    assert sfumato.refine(made, out=tmp_path / "again").manifest.total == total
    assert read_release(shop.home / "plain").manifest.total is None


@pytest.mark.parametrize(("name", "earlier"), [("monday", []), ("tuesday", ["monday"])])
def test_refined_by_the_same_version_the_tables_are_the_same_to_the_byte(
    shop: Shop, tmp_path: Path, name: str, earlier: list[str]
) -> None:
    before = (shop.home / "ledger.sqlite").read_bytes()
    first = shop.home / name
    made = sfumato.refine(
        first, out=tmp_path / "again", earlier=[shop.home / one for one in earlier]
    )
    assert made.how == "refined"
    for table in (*TABLES, "measurements.npz", "zones.geojson", "zones.parquet"):
        assert (tmp_path / "again" / table).read_bytes() == (first / table).read_bytes()
    assert (shop.home / "ledger.sqlite").read_bytes() == before
    old, new = read_release(first).manifest, read_release(tmp_path / "again").manifest
    assert new.privacy == old.privacy
    assert new.ledger == old.ledger
    assert (new.release.id, new.release.name) == (old.release.id, "again")
    assert len(str(new.public_inputs["refined_from"])) == 64
    assert "second reading" in new.caveats[-1]
    assert new.public_inputs.get("earlier") == old.public_inputs.get("earlier")


def test_the_same_measurements_do_not_count_twice(shop: Shop, tmp_path: Path) -> None:
    monday = shop.home / "monday"
    sfumato.refine(monday, out=tmp_path / "again")
    for release, earlier in (
        (monday, [tmp_path / "again"]),
        (shop.home / "tuesday", [monday, tmp_path / "again"]),
    ):
        with pytest.raises(UsageError, match="count as two"):
            sfumato.refine(release, out=tmp_path / "third", earlier=earlier)
    assert not (tmp_path / "third").exists()


def test_a_release_without_measurements_is_not_read_again(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="keeps no measurements"):
        sfumato.refine(shop.home / "plain", out=tmp_path / "again")
    with pytest.raises(InputError, match="keeps no measurements"):
        shop.release("next", "2024-03-05", earlier=[shop.home / "plain"])
    assert len(shop.ledger.book().charges) == 3


def test_arrays_that_do_not_fit_are_refused_whoever_vouches_for_them(
    shop: Shop, tmp_path: Path
) -> None:
    found = measurements_of(read_release(shop.home / "monday"))
    assert isinstance(found, Kept)
    arrays = keep(found.measured, found.facts)
    facts = found.facts
    for name, value in (
        ("matrix", arrays["matrix"][:, 1:]),
        ("places_sd", np.array(0.0)),
        ("slots_sd", np.array(np.nan)),
        ("share_in", arrays["share_in"] + 7),
        ("places", arrays["places"][1:]),
        ("centres", arrays["centres"][:1]),
        ("ladder", arrays["ladder"][:-1]),
    ):
        with pytest.raises(ValueError, match="arrays"):
            kept(arrays | {name: value}, facts.released_ids, facts.grid, facts.counting, {})
        rest = {key: array for key, array in arrays.items() if key != name}
        with pytest.raises(ValueError, match="arrays"):
            kept(rest, facts.released_ids, facts.grid, facts.counting, {})
    folder = shutil.copytree(shop.home / "monday", tmp_path / "monday")
    (folder / "measurements.npz").write_bytes(b"PK no arrays")
    manifest = json.loads((folder / "manifest.json").read_text())
    digest = folder_module.digests(folder)["measurements.npz"]
    manifest["files"]["measurements.npz"] = digest
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="cannot be read as arrays"):
        sfumato.refine(folder, out=tmp_path / "again")


def test_a_release_that_was_stopped_keeps_the_same_measurements(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after the file was written: the next run draws the same noise and writes the same."""
    written: list[bytes] = []

    def stopped(folder: Path, _: object) -> None:
        written.append((folder / "measurements.npz").read_bytes())
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "seal", stopped)
        with pytest.raises(KeyboardInterrupt):
            shop.release("stopped")
    made = shop.release("stopped")
    assert made.how == "resumed"
    assert (made.folder / "measurements.npz").read_bytes() == written[0]
