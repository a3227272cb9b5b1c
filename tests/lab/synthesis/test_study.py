"""The study of synthetic data: how trips are cut, pairs, printed forms, and a small run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfumato.cli.command import built
from sfumato.cli.main import app
from sfumato.cli.synth import synth
from sfumato.model.extensions import offers
from sfumato.privacy.wall import Wall
from sfumato.synthesis.registry import METHODS
from sfumato.utility.mobility import common_part
from sfumato.utility.trips import Trips
from sfumato_lab.as_printed.synthesis import raw_classes, tree_loss, where
from sfumato_lab.as_printed.trips import in_box, prefix, raw_box
from sfumato_lab.studies.synthesis import ground, printed
from sfumato_lab.studies.synthesis.pairs import n_gram_pairs
from sfumato_lab.studies.synthesis.study import HTML, NUMBERS, PAGE


def test_a_ride_is_a_run_of_fixes_with_a_passenger(tmp_path: Path) -> None:
    """Cut where the passenger changes and at gaps; short ones and those outside are none."""
    rows = []

    def ride(cab: int, start: int, n: int, taken: int, lon: float = -122.4, step: int = 60) -> None:
        rows.extend(
            (cab, start + k * step, round((lon + k * 1e-3) * 1e5), 3775000, taken) for k in range(n)
        )

    ride(1, 0, 6, 1)
    ride(1, 1000, 6, 0)  # nobody inside
    ride(1, 2000, 3, 1)  # too short
    ride(2, 0, 5, 1, lon=-122.6)  # outside the box
    ride(2, 5000, 4, 1)
    ride(2, 5240 + 301, 4, 1)  # a gap ends the one before
    ride(3, 0, 61, 1, step=1)  # too long
    folder = tmp_path / "cabspotting_sf"
    folder.mkdir()
    names = ("cab", "t_utc_s", "lon_e5", "lat_e5", "occupied")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "cabspotting_sf_2008.parquet")
    found = ground.cabs(tmp_path)
    assert found.trips == 3
    assert np.diff(found.traces.starts).tolist() == [6, 4, 4]
    assert found.pick(np.array([0, 2])).trips == 2
    assert len(found.on_plane()) == 3


def test_grams_follow_the_pairs_where_the_budget_is_large() -> None:
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, 5, 4000) * 10 + rng.integers(5, 10, 4000)
    found = [
        common_part(pairs, n_gram_pairs(pairs, 10, epsilon, Wall.seeded(1), rng), 10)
        for epsilon in (5.0, 0.01)
    ]
    assert found[0] > 0.9 > found[1]


def test_printed_forms_lose_what_the_page_says() -> None:
    rng = np.random.default_rng(2)
    starts = np.arange(0, 201, 4)
    trips = Trips(rng.random(200), rng.random(200), starts)
    owner = int(np.argmax(trips.x)) // 4
    rest = trips.pick(np.setdiff1d(np.arange(50), [owner]))
    assert raw_box(rest) != raw_box(trips)
    assert 2 < tree_loss(trips, (4, 8, 16)) <= 3
    assert tree_loss(trips, (8,)) == 1
    # One person more moves another's class, and the class tables are published as they are.
    without = np.array([[0.0], [0.55], [1.0], [1.0], [1.0]])
    with_one = np.array([[0.0], [0.55], [0.45], [1.0], [1.0], [1.0]])
    assert raw_classes(without)[1] != raw_classes(with_one)[1]


def test_printed_forms_run_and_are_told_apart() -> None:
    found = printed.losses(ground.city(1_000, 3), 1, lambda *_: None, runs=8)
    shown = {one.method: one for one in found if one.with_one is not None}
    assert set(shown) == {"AdaTrace", "n-grams", "DPT"}
    for one in shown.values():
        assert one.without == 0
    assert shown["AdaTrace"].with_one == shown["n-grams"].with_one == 1
    moved = [one for one in found if one.with_one is None]
    assert {one.method for one in moved} == {"DPT", "prefix tree", "DP-WHERE"}
    assert min(one.loss for one in moved) > 1.5
    rng = np.random.default_rng(1)
    trips = Trips(rng.random(200), rng.random(200), np.arange(0, 201, 4))
    assert len(prefix(in_box(trips, trips.box), trips.box, 50.0, rng).made) == 50
    tables = where(printed.callers(1), 40, 10.0, rng)
    assert 0 <= tables["median"][0] <= tables["farthest"][0]


def test_a_small_study_writes_its_page(tmp_path: Path) -> None:
    arguments = ["reproduce", "synthesis", "--out", str(tmp_path), "--quiet", "--no-figures"]
    arguments += ["--ground", "crowd", "--method", "ngrams", "--trips", "300", "--people", "1000"]
    arguments += ["--epsilons", "1", "--part", "trips", "--part", "copying"]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.output
    page = (tmp_path / PAGE).read_text("utf-8")
    assert "internal" in page
    assert "another true sample" in page
    assert "a release that nobody charged" in page
    assert "INTERNAL" in (tmp_path / HTML).read_text("utf-8")
    assert (tmp_path / NUMBERS.format(part="trips")).exists()


@pytest.mark.parametrize("wrong", [["--method", "x"], ["--epsilons", "0"], ["--trips", "3"]])
def test_what_makes_no_sense_is_refused(wrong: list[str], tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["reproduce", "synthesis", "--out", str(tmp_path), *wrong])
    assert ran.exit_code != 0


def test_help_and_page_name_every_method_and_say_what_others_are_for() -> None:
    (option,) = (one for one in built(synth).params if one.name == "method")
    page = (Path(__file__).parents[3] / "docs" / "synthesis.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for name in METHODS:
        assert re.search(rf"\b{name}\b", str(option.help)), name
        (row,) = (line for line in rows if line.startswith(f"| `{name}` |") and "to " in line)
        assert ("| to publish" in row) == (name in METHODS.own)
    for name, offer in offers("synthesis method").items():
        assert offer.help.startswith("To compare "), name
