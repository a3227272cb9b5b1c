"""Suppression, noise and chance, on a small crowd."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from sfumato.attacks.plot import save_study
from sfumato.attacks.recovery import Method, Solver, suppressed
from sfumato.attacks.recovery.identify import identify
from sfumato.attacks.recovery.study import People, Study, attack_tables, average_baseline
from sfumato.attacks.report import INTERNAL, as_json, as_markdown
from sfumato.attacks.studies.points import first_points, truth_of
from sfumato.city.crowd import CrowdPlan
from sfumato.privacy.noise import SeededStream, discrete_gaussian

METHOD = Method(solver=Solver.CELLS)


@pytest.fixture(scope="module")
def people() -> People:
    """A busy little town: 2,000 people on 100 cells, so that counts pass a threshold."""
    plan = CrowdPlan(people=2_000, days=1, columns=10, rows=10)
    return first_points(truth_of(plan), 12)


@pytest.fixture(scope="module")
def study(people: People) -> Study:
    counts = people.counts
    tables: dict[str, np.ndarray] = {"no protection": counts, "k = 5": suppressed(counts, 5)}
    slots, cells = counts.shape[1], counts.size
    for epsilon, sigma in ((10.0, 0.6), (1.0, 4.22468), (0.1, 36.3047)):
        variance = round(slots * sigma**2)
        noise = discrete_gaussian(cells, variance, SeededStream(int(1 / epsilon)))
        tables[f"epsilon {epsilon:g}"] = counts + noise.reshape(counts.shape)
    return attack_tables(people, tables, METHOD, seeds=2, assignment_limit=0)


def greedy(study: Study) -> dict[str, float]:
    return {one.name: one.scores["greedy"].mean for one in study.outcomes}


def test_suppression_alone_hardly_protects(study: Study) -> None:
    found = greedy(study)
    assert found["k = 5"] > 0.9 * found["no protection"]


def test_accuracy_does_not_rise_as_noise_grows(study: Study) -> None:
    found = [greedy(study)[f"epsilon {e}"] for e in ("10", "1", "0.1")]
    assert found[0] >= found[1] - 0.01
    assert found[1] >= found[2] - 0.01


def test_user_level_noise_brings_it_to_what_knows_nothing() -> None:
    """1,000 people on the paper's 8,000 cells, discrete Gaussian at epsilon 1, delta 1e-6."""
    crowd = first_points(truth_of(CrowdPlan(people=1_000, days=1)), 10)
    counts = crowd.counts
    noise = discrete_gaussian(counts.size, round(10 * 4.22468**2), SeededStream(3))
    tables = {"noisy": counts + noise.reshape(counts.shape)}
    one = attack_tables(crowd, tables, METHOD, seeds=1, assignment_limit=0).outcomes[0]
    assert one.scores["greedy"].mean <= one.baselines["average"]["greedy"] + 0.03


def test_every_table_stands_beside_its_baselines(study: Study) -> None:
    for one in study.outcomes:
        assert set(one.baselines) == {"random", "stay", "average"}
        spread = one.scores["greedy"]
        assert spread.low <= spread.mean <= spread.high
        assert one.gap < 1e-8
    true = study.outcomes[0]
    assert true.scores["greedy"].mean > true.baselines["random"]["greedy"] + 0.1


def test_the_baseline_that_knows_nothing_does_not_know_the_people(people: People) -> None:
    """People who are all alone in their cells cannot be guessed from others."""
    from dataclasses import replace

    alone = np.repeat(np.arange(100)[:, None], 12, axis=1).astype(np.int32)
    found, _ = average_baseline(replace(people, cells=alone), np.random.default_rng(0))
    assert found["greedy"] == 0.0


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
