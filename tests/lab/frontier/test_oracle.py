"""The oracle sees the clean side of what `bayes` measured, on the same noise."""

from __future__ import annotations

import numpy as np

from sfumato.density.bayes import Bayes
from sfumato.density.bayes.scheme import measure
from sfumato.privacy.wall import Wall
from sfumato.utility.density import mean_relative_error
from sfumato_lab.studies.frontier.oracle import BoxKeepingWall, Oracle, frame_of
from sfumato_lab.studies.paris.setup import Stage


def test_listening_changes_nothing(stage: Stage) -> None:
    facts = stage.facts(0.3, 2e-6)
    plain = Bayes().run(stage.source, Wall.seeded(4), facts)
    heard = Bayes().run(stage.source, BoxKeepingWall.seeded(4), facts)
    assert np.array_equal(plain.values, heard.values)


def test_the_frame_holds_one_matrix_with_and_without_its_noise(stage: Stage) -> None:
    facts = stage.facts(0.3, 2e-6)
    wall = BoxKeepingWall.seeded(5)
    measured, _, _ = measure(stage.source, wall, facts)
    frame = frame_of(measured, wall, facts)
    noise = frame.noisy - frame.clean
    assert abs(noise.std() / frame.sigma - 1) < 0.05
    assert abs(noise.mean()) < 4 * frame.sigma / noise.size**0.5


def test_the_oracle_is_better_than_bayes_where_noise_matters(stage: Stage) -> None:
    oracle = Oracle(stage.truth)
    scores = []
    for seed in range(3):
        density, table = oracle.with_bayes(
            stage.source, BoxKeepingWall.seeded(seed), stage.facts(1.0, 2e-6)
        )
        values = np.asarray(density.values, dtype=np.float64)
        scores.append([mean_relative_error(stage.truth, t).mean() for t in (values, table)])
    found = np.mean(scores, axis=0)
    assert found[1] < found[0]
