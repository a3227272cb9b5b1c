from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from sfumato.attacks.recovery.attack import assign_people
from sfumato.attacks.recovery.transport import deal, transport
from sfumato.attacks.trajectories import Ground


def instance(seed: int) -> tuple[Ground, np.ndarray, np.ndarray]:
    """A random map, people expected somewhere and counted elsewhere, some nowhere."""
    rng = np.random.default_rng(seed)
    cells, people = int(rng.integers(2, 60)), int(rng.integers(1, 120))
    grid = rng.integers(0, 8, (cells, 2)) * 500.0
    scattered = rng.uniform(0, 4_000, (cells, 2))
    ground = Ground(scattered if seed % 2 else np.unique(grid, axis=0))
    lost = int(seed % 3 == 0)
    expected = rng.integers(0, ground.cells + lost, people)
    counted = rng.integers(0, ground.cells + lost, people)
    counted = np.where(rng.random(people) < 0.6, expected, counted)
    return ground, expected, np.bincount(counted, minlength=ground.cells + 1)


def test_both_solvers_find_the_same_total_on_200_random_instances() -> None:
    for seed in range(200):
        ground, expected, demand = instance(seed)
        _, metres = assign_people(expected, demand, ground, np.random.default_rng(seed))
        plan = transport(np.bincount(expected, minlength=demand.size), demand, ground)
        assert plan.cost == pytest.approx(metres, rel=1e-9, abs=1e-6)
        assert plan.certified


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_a_plan_moves_everybody_and_its_deal_follows_it(seed: int) -> None:
    ground, expected, demand = instance(seed)
    supply = np.bincount(expected, minlength=demand.size)
    plan = transport(supply, demand, ground)
    np.testing.assert_array_equal(np.bincount(plan.source, plan.people, demand.size), supply)
    np.testing.assert_array_equal(np.bincount(plan.sink, plan.people, demand.size), demand)
    found = deal(expected, plan, np.random.default_rng(seed))
    np.testing.assert_array_equal(np.bincount(found, minlength=demand.size), demand)
    assert ground.metres(expected, found).sum() == pytest.approx(plan.cost)


def test_staying_first_by_hand() -> None:
    """Supplies 3, 2, 1 and demands 2, 1, 3 on a unit line: one person from each end, 2 + 1."""
    line = Ground(np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]))
    plan = transport(np.array([3, 2, 1, 0]), np.array([2, 1, 3, 0]), line)
    assert plan.cost == 3.0
    stayed = plan.people[plan.source == plan.sink]
    assert stayed.tolist() == [2, 1, 1]


def test_staying_first_loses_nothing() -> None:
    """Against the assignment of everybody, nobody told to stay."""
    for seed in range(20):
        ground, expected, demand = instance(3 * seed + 1)
        columns = np.repeat(np.arange(demand.size), demand)
        cost = ground.metres(expected[:, None], columns[None, :])
        full = cost[linear_sum_assignment(cost)].sum()
        plan = transport(np.bincount(expected, minlength=demand.size), demand, ground)
        assert plan.cost == pytest.approx(full, rel=1e-9, abs=1e-9)


def test_arcs_are_added_until_the_duals_hold_everywhere() -> None:
    """Everybody crosses the map: nearest neighbours alone cannot be the optimum."""
    rng = np.random.default_rng(4)
    ground = Ground(rng.uniform(0, 10_000, (1_000, 2)))
    west = ground.centres[:, 0] < 5_000
    supply = np.append(np.where(west, rng.integers(0, 5, 1_000), 0), 0)
    demand = np.append(np.where(~west, rng.integers(0, 5, 1_000), 0), 0)
    demand[-1] = max(0, supply.sum() - demand.sum())
    supply[-1] = max(0, demand.sum() - supply.sum())
    plan = transport(supply, demand, ground)
    assert plan.rounds > 1
    assert plan.certified
    assert plan.arcs < 0.5 * np.count_nonzero(supply) * np.count_nonzero(demand)


def test_the_bound_is_a_true_lower_bound() -> None:
    """A dual that is feasible on all pairs never exceeds the cost of any plan."""
    for seed in range(30):
        ground, expected, demand = instance(seed)
        plan = transport(np.bincount(expected, minlength=demand.size), demand, ground)
        shuffled = np.random.default_rng(seed).permutation(
            np.repeat(np.arange(demand.size), demand)
        )
        assert plan.bound <= ground.metres(expected, shuffled).sum() + 1e-6


def test_nobody_to_move_is_no_problem() -> None:
    ground = Ground(np.array([[0.0, 0.0], [1.0, 0.0]]))
    plan = transport(np.array([4, 0, 1]), np.array([4, 0, 1]), ground)
    assert (plan.cost, plan.rounds, plan.people.sum()) == (0.0, 0, 5)
