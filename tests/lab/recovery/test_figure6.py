"""The readings of a published figure: what is accuracy there, and what is chance."""

from __future__ import annotations

import numpy as np

from sfumato.attacks.recovery import accuracy
from sfumato.attacks.recovery.baselines import reusing
from sfumato.attacks.trajectories import Ground
from sfumato.city.crowd import CrowdPlan
from sfumato_lab.studies.recovery.figure6 import only_seen, readings, with_past

PLAN = CrowdPlan(people=80, days=1, columns=18, rows=18, seed=78)


def test_the_map_of_seen_cells_keeps_everybody_where_they_were() -> None:
    people, past = with_past(PLAN)
    few, few_past = only_seen(people, past)
    assert few.ground.cells < people.ground.cells
    back = few.ground.centres[few.cells]
    np.testing.assert_array_equal(back, people.ground.centres[people.cells])
    assert few_past.shape == (7, 19, few.ground.cells)
    assert few.counts.sum() == people.counts.sum()


def test_after_printed_schemes_people_are_found_no_better_than_on_an_empty_map() -> None:
    found = readings(PLAN, [0.1], 1, only=("dir-P", "th-P"))
    assert {(row.cells, row.whole) for row in found} == {
        (cells, whole) for cells in ("all", "seen") for whole in ("decrements", "clipped")
    }
    for row in found:
        assert abs(row.greedy - row.nobody) < 0.06, row
        assert row.reusing >= row.greedy
    by = {(row.cells, row.whole, row.scheme): row.greedy for row in found}
    for scheme in ("dir-P", "th-P"):
        assert by["seen", "clipped", scheme] > by["all", "decrements", scheme]


def test_a_trajectory_may_be_used_again() -> None:
    ground = Ground(np.arange(10.0).reshape(5, 2))
    truth = np.array([[0, 1], [0, 1]], dtype=np.int32)
    found = np.array([[0, 1], [3, 3]], dtype=np.int32)
    assert accuracy(truth, found, ground).greedy == 0.5
    assert reusing(truth, found, ground) == 1.0
