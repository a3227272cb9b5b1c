"""Suppression, noise and chance, on a small crowd."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from sfumato.attacks.recovery import Method, Solver
from sfumato.attacks.recovery.baselines import census, halves, others
from sfumato.attacks.recovery.linking import identify
from sfumato.attacks.recovery.study import Spread, Study, attack_tables
from sfumato.attacks.report import INTERNAL, as_json, as_markdown, save_study
from sfumato.attacks.trajectories import People, suppressed
from sfumato.city.crowd import CrowdPlan
from sfumato_lab.studies.recovery.points import first_points, truth_of

METHOD = Method(solver=Solver.CELLS)


@pytest.fixture(scope="module")
def people() -> People:
    """A busy little town: 2,000 people on 64 cells, so that counts pass a threshold."""
    plan = CrowdPlan(people=2_000, days=1, columns=8, rows=8)
    return first_points(truth_of(plan), 12)


@pytest.fixture(scope="module")
def study(people: People) -> Study:
    counts = people.counts
    tables = {"no protection": counts, "k = 5": suppressed(counts, 5)}
    tables["k = 15"] = suppressed(counts, 15)
    return attack_tables(people, tables, METHOD, seeds=2, assignment_limit=0)


def greedy(study: Study) -> dict[str, float]:
    return {one.name: one.scores["greedy"].mean for one in study.outcomes}


def test_suppression_alone_hardly_protects(study: Study) -> None:
    found = greedy(study)
    assert found["k = 5"] > 0.9 * found["no protection"]
    assert found["k = 15"] > 0.8 * found["no protection"]


def test_every_table_stands_beside_its_baselines(study: Study) -> None:
    for one in study.outcomes:
        assert set(one.baselines) == {"random", "stay", "map", "others", "census", "halves"}
        spread = one.scores["greedy"]
        assert spread.low <= spread.mean <= spread.high
        assert one.gap < 1e-8
    true = study.outcomes[0]
    assert true.scores["greedy"].mean > true.baselines["random"]["greedy"] + 0.1


def test_the_judge_is_about_as_good_as_a_census_and_better_than_halves(people: People) -> None:
    """The same for a holder without other people as for a study that has them."""
    rng = np.random.default_rng(0)
    mine, by_slot = others(people, rng)
    assert mine["greedy"] == pytest.approx(by_slot.mean())
    assert mine["greedy"] == pytest.approx(census(people, rng)["greedy"], abs=0.03)
    assert mine["greedy"] > halves(people, rng)["greedy"] - 0.02


def test_known_places_single_a_person_out() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 50, (60, 10)).astype(np.int32)
    right = identify(truth, truth[::-1], rng, points=3)
    assert right.singled_out > 0.95
    assert right.learned > 0.95
    wrong = identify(truth, rng.permuted(truth, axis=0), rng, points=3)
    assert wrong.learned < 0.2


def test_the_report_is_marked_and_says_what_it_means(study: Study, tmp_path: Path) -> None:
    plain = json.dumps(as_json(study), allow_nan=False)
    text = as_markdown(study)
    assert INTERNAL in plain
    assert INTERNAL in text
    assert "no guarantee" in text
    assert not math.isnan(json.loads(plain)["tables"][0]["scores"]["greedy"]["mean"])
    save_study(study, tmp_path / "study.png")
    assert (tmp_path / "study.png").stat().st_size > 10_000


def test_a_mean_lies_in_its_range_whatever_rounding_does() -> None:
    """The mean of equal numbers may come out below them, and no bar has an error below zero."""
    for value in np.random.default_rng(0).random(200).tolist():
        same = Spread.of([value] * 5)
        assert same.low <= same.mean <= same.high


def test_what_does_not_look_at_a_table_is_the_same_beside_every_table(study: Study) -> None:
    for name in ("map", "others", "census", "halves"):
        assert len({one.baselines[name]["greedy"] for one in study.outcomes}) == 1, name
    assert len({one.baselines["stay"]["greedy"] for one in study.outcomes}) > 1
