"""The small form of `sfumato reproduce queries --part error`: everything runs, and what it says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.model.masks import Measure
from sfumato.queries.workload import Workload
from sfumato_lab.studies.queries.error_page import Means, error_section
from sfumato_lab.studies.queries.errors import (
    BATCH,
    CUBE_BAYES,
    DESK_STORED,
    INDEPENDENT,
    METHODS,
    PRODUCT,
    Answers,
    Row,
    Setting,
    error_rows,
    judged,
)
from sfumato_lab.studies.queries.ground import Ground, made_city, relative_error


@pytest.fixture(scope="module")
def ground() -> Ground:
    return made_city(1_500, 5, towers=40, zones=30)


def test_questions_are_discs_times_hours(ground: Ground) -> None:
    asked = ground.ranges(30, 1)
    assert asked[:10] == ground.ranges(10, 1)
    assert asked != ground.ranges(30, 2)
    for question in asked:
        assert question.measure is Measure.VISITS
        assert question.slots == tuple(range(question.slots[0], question.slots[-1] + 1))
        at = ground.layout.centres[list(question.places)]
        assert np.hypot(*(at[:, None] - at[None]).transpose(2, 0, 1)).max() <= 6_000


def test_clipped_answers_lie_below_the_truth(ground: Ground) -> None:
    rows = Workload.of(ground.shape, ground.ranges(8, 1))
    truth = rows.sums(ground.truth)
    some, most = ground.bounded(rows, 1), ground.bounded(rows, 168)
    assert (some <= most).all()
    assert (most <= truth).all()
    assert most.sum() > 0.95 * truth.sum()


def test_every_method_answers_and_intervals_are_stated_where_noise_is_drawn(ground: Ground) -> None:
    rows = list(error_rows(ground, questions=[12], epsilons=[1.0], draws=1))
    assert len(rows) == len(METHODS)
    for row in rows:
        assert np.isfinite([row.mre, row.off, row.worst]).all()
        sure = row.method.startswith(("independent", "batch", "desk")) or row.method.startswith(
            CUBE_BAYES
        )
        assert (row.held is not None) == sure
    text = error_section(rows).markdown()
    assert all(method in text for method in METHODS)
    assert len({row.key for row in rows}) == len(rows)


def test_intervals_hold_nine_times_in_ten(ground: Ground) -> None:
    asked = ground.ranges(40, 3)
    known = Answers(ground, asked)
    held: dict[str, list[float]] = {INDEPENDENT: [], BATCH: [], DESK_STORED: []}
    for draw in range(12):
        setting = Setting(ground, asked, 1.0, draw)
        for method, shares in held.items():
            found = judged(setting, known, method, 40).held
            assert found is not None
            shares.append(found)
    assert all(0.86 < np.mean(shares) < 0.94 for shares in held.values())


def test_more_questions_cost_independent_answers_more(ground: Ground) -> None:
    chosen = [INDEPENDENT, PRODUCT]
    rows = list(
        error_rows(ground, questions=[2, 60], epsilons=[1.0], draws=4, methods=chosen, seed=4)
    )
    means = Means(rows)

    def off(method: str, many: int) -> float:
        return means.of(1_500, 1.0, method, many, "off")

    assert off(INDEPENDENT, 60) > 2 * off(INDEPENDENT, 2)
    assert means.of(1_500, 1.0, PRODUCT, 60, "mre") < 0.5


def test_relative_errors_are_of_questions_with_some_visits() -> None:
    truth = np.array([0.0, 9.0, 10.0, 100.0])
    assert relative_error(np.array([50.0, 50.0, 11.0, 90.0]), truth) == pytest.approx(0.1)


def test_the_command(tmp_path: Path) -> None:
    words = ["--users", "400", "--towers", "12", "--zones", "9", "--questions", "2,5", "--draws"]
    given = ["reproduce", "queries", "--out", str(tmp_path), "--epsilons", "1", *words, "1"]
    found = CliRunner().invoke(app, [*given, "--part", "error", "--method", BATCH])
    assert found.exit_code == 0, found.output
    assert "internal" in found.output
    rows = [
        Row(**row) for row in json.loads((tmp_path / "queries-error.internal.json").read_text())
    ]
    assert {row.method for row in rows} == {BATCH}
    assert (tmp_path / "queries-error.internal.png").stat().st_size > 1_000
    wrong = CliRunner().invoke(app, [*given, "--method", "guessing"])
    assert wrong.exit_code != 0
