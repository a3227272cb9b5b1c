"""Hand-made cases where the right answer is known, and the crowd of Chen et al."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.attacks.recovery import Link, Method, Solver, accuracy, recover
from sfumato.attacks.trajectories import Fill, Ground, counts_of
from sfumato.city import crowd
from sfumato.errors import UsageError
from sfumato.model.time_grid import Clock

SOLVERS = (Solver.PEOPLE, Solver.CELLS)


def found(truth: list[list[int]], ground: Ground, clock: Clock, **how: object) -> list[list[int]]:
    cells = np.array(truth, dtype=np.int32)
    method = Method(**how)  # type: ignore[arg-type]
    rows = recover(counts_of(cells, ground.cells), ground, clock, method).cells
    return sorted(rows.tolist())


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_still_and_one_moving(line: Ground, solver: Solver) -> None:
    truth = [[2, 2, 2, 2, 2], [5, 6, 7, 8, 9]]
    day = Clock.plain(1, 5, first_hour=8)
    assert found(truth, line, day, solver=solver) == truth
    assert found(truth, line, day, solver=solver, predict=False) == truth


@pytest.mark.parametrize("solver", SOLVERS)
def test_two_people_crossing_are_told_apart_by_their_velocity(line: Ground, solver: Solver) -> None:
    """They meet in the middle. Distance alone lets them bounce off; prediction lets them pass."""
    truth = [[0, 2, 4, 6, 8], [8, 6, 4, 2, 0]]
    day = Clock.plain(1, 5, first_hour=8)
    assert found(truth, line, day, solver=solver) == truth


def test_by_night_there_is_no_prediction(line: Ground) -> None:
    """The same crossing at night: what was expected to pass is a coin's throw."""
    truth = [[0, 2, 4, 6, 8], [8, 6, 4, 2, 0]]
    night = Clock.plain(1, 5, first_hour=0)
    cells = np.array(truth, dtype=np.int32)
    runs = {
        str(sorted(recover(counts_of(cells, 10), line, night, seed=s).cells.tolist()))
        for s in range(12)
    }
    assert runs == {str(truth), str([[0, 2, 4, 2, 0], [8, 6, 4, 6, 8]])}


def test_who_arrives_is_expected_to_go_on(line: Ground) -> None:
    """The prediction's known weakness: one who stops is swapped with one who stands ahead."""
    truth = [[0, 3, 3], [7, 7, 5]]
    day = Clock.plain(1, 3, first_hour=8)
    assert found(truth, line, day, predict=False) == truth
    assert line.predicted(np.array([0, 7]), np.array([3, 7])).tolist() == [6, 7]


def test_predictions_stay_on_the_map_and_nowhere_stays_nowhere(line: Ground) -> None:
    before, now = np.array([5, 10, 4, 10]), np.array([8, 3, 10, 10])
    assert line.predicted(before, now).tolist() == [9, 3, 10, 10]


def test_identical_people_are_found_whoever_is_who(line: Ground) -> None:
    truth = [[1, 1, 4, 4]] * 5
    assert found(truth, line, Clock.plain(1, 4, first_hour=5)) == truth


@pytest.mark.parametrize("link", list(Link))
def test_days_are_linked_by_habit(line: Ground, link: Link) -> None:
    """Three people, three days, far apart at home: the fragments belong together."""
    one, two, three = [0, 0, 1, 0], [4, 4, 5, 4], [8, 8, 9, 8]
    truth = [one * 3, two * 3, three * 3]
    assert found(truth, line, Clock.plain(3, 4, first_hour=5), link=link) == truth


def test_people_that_a_table_does_not_show_are_nowhere(line: Ground) -> None:
    table = np.zeros((10, 3), dtype=np.int64)
    table[2] = [1, 1, 1]
    table[7] = [1, 0, 1]
    rows = recover(table, line, Clock.plain(1, 3, first_hour=8)).cells
    assert sorted(rows.tolist()) == [[2, 2, 2], [7, -1, 7]]


def test_the_same_seed_gives_the_same_people(square: Ground) -> None:
    rng = np.random.default_rng(0)
    table = counts_of(rng.integers(0, 144, (50, 6)).astype(np.int32), 144)
    clock = Clock.plain(1, 6, first_hour=7)
    one, two, other = (recover(table, square, clock, seed=s).cells for s in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_is_recovered_has_the_counts_that_were_published(
    square: Ground, solver: Solver
) -> None:
    rng = np.random.default_rng(1)
    table = counts_of(rng.integers(0, 144, (80, 8)).astype(np.int32), 144)
    got = recover(table, square, Clock.plain(2, 4, first_hour=5), Method(solver=solver))
    np.testing.assert_array_equal(counts_of(got.cells, 144), table)


def test_a_noisy_table_of_any_kind_can_be_attacked(square: Ground) -> None:
    rng = np.random.default_rng(2)
    table = rng.normal(0.5, 3.0, (144, 6))
    got = recover(table, square, Clock.plain(1, 6), Method(fill=Fill.AUTO, people=70))
    assert got.cells.shape == (70, 6)
    assert (got.cells >= 0).all()


def test_a_table_of_another_map_is_refused(square: Ground) -> None:
    with pytest.raises(UsageError):
        recover(np.zeros((3, 6), dtype=np.int64), square, Clock.plain(1, 6))


@pytest.mark.parametrize(("points", "published"), [(10, 0.7886), (19, 0.6102)])
def test_the_crowd_is_recovered_as_chen_et_al_report(points: int, published: float) -> None:
    plan = crowd.CrowdPlan(people=1_000, days=1)
    truth = crowd.generate(plan).cells[:, 0, :points]
    cell = np.arange(plan.cells)
    ground = Ground(np.column_stack([cell % plan.columns, cell // plan.columns]) * plan.cell_m)
    clock = Clock.plain(1, points, plan.first_hour)
    for solver in SOLVERS:
        got = recover(counts_of(truth, plan.cells), ground, clock, Method(solver=solver))
        score = accuracy(truth, got.cells, ground, clock, assignment_limit=0)
        assert score.greedy == pytest.approx(published, abs=0.10)
