from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from sfumato.city import crowd


@pytest.fixture(scope="module")
def made() -> crowd.Crowd:
    return crowd.generate(crowd.CrowdPlan(people=20_000, days=8))


def metres(made: crowd.Crowd) -> np.ndarray:
    cells = made.cells
    place = np.stack([cells % made.plan.columns, cells // made.plan.columns], axis=-1)
    return place * made.plan.cell_m


def test_the_scale_of_chen_et_al() -> None:
    plan = crowd.CrowdPlan()
    assert (plan.people, plan.days, plan.slots) == (130_000, 8, 19)
    assert plan.cells == pytest.approx(8_000, rel=0.01)
    assert len(np.unique(np.round(plan.centres(), 6), axis=0)) == plan.cells


def test_stays_are_as_chen_et_al_state_them(made: crowd.Crowd) -> None:
    stays = crowd.count_stays(made.cells)
    assert stays.mean() == pytest.approx(2.1, abs=0.03)
    assert (stays <= 4).mean() == pytest.approx(0.977, abs=0.004)
    assert stays.min() >= 1
    assert (crowd.count_stays(made.cells[:, 0]) <= 4).mean() == pytest.approx(0.977, abs=0.006)


def test_stays_are_counted_as_distinct_cells_held_twice() -> None:
    day = np.array([[5, 5, 9, 7, 7, 5, 5, 8], [1, 1, 1, 1, 1, 1, 1, 1], [1, 2, 3, 4, 5, 6, 7, 0]])
    assert crowd.count_stays(day.astype(np.int32)).tolist() == [2, 1, 0]


def test_movement_is_continuous(made: crowd.Crowd) -> None:
    step = np.hypot(*np.moveaxis(np.diff(metres(made), axis=2), -1, 0))
    diagonal = np.sqrt(2) * made.plan.cell_m
    assert step.max() <= made.plan.speed_kmh * 1_000 + diagonal


def test_nights_are_quiet_and_stays_longer_than_by_day(made: crowd.Crowd) -> None:
    moved = (np.diff(made.cells, axis=2) != 0).mean(axis=(0, 1))
    assert moved[:3].max() < 0.01
    assert moved[-1] < 0.1
    assert moved[4:7].max() > 0.15


def test_movement_is_regular(made: crowd.Crowd) -> None:
    first = made.cells[:, :, 0]
    assert (first == first[:, :1]).all(), "everybody wakes up at home"
    noon = made.cells[:, [0, 1, 2, 3, 4], 9]
    same = (noon[:, 1:] == noon[:, :1]).mean()
    assert same > 0.6, "working days resemble each other"
    strangers = (noon[1:] == noon[:-1]).mean()
    assert strangers < 0.02


def test_movement_is_unique(made: crowd.Crowd) -> None:
    """The two most visited cells tell nearly everybody who leaves home apart (Xu et al. 2017)."""
    top = set()
    for week in made.cells[:1_000].reshape(1_000, -1):
        cells, often = np.unique(week, return_counts=True)
        top.add(tuple(np.sort(cells[np.argsort(-often, kind="stable")][:2])))
    assert len(top) > 0.95 * 1_000


def recovered(truth: np.ndarray, columns: int) -> float:
    """Share of positions that linking neighbouring readings by least distance gets right."""
    found = np.sort(truth, axis=0)
    for t in range(1, truth.shape[1]):
        here = np.stack([found[:, t - 1] % columns, found[:, t - 1] // columns], axis=1)
        there = np.stack([found[:, t] % columns, found[:, t] // columns], axis=1)
        cost = np.hypot(*np.moveaxis(here[:, None] - there[None], -1, 0))
        found[:, t] = found[linear_sum_assignment(cost)[1], t]
    equal = (truth[:, None] == found[None]).sum(axis=2, dtype=np.int16)
    total, free = 0, np.ones(len(truth), dtype=bool)
    for row in equal:
        best = int(np.argmax(np.where(free, row, -1)))
        free[best] = False
        total += int(row[best])
    return total / truth.size


def test_trajectories_can_be_recovered_about_as_chen_et_al_report() -> None:
    """They recover 78.86 % of 10 points and 61.02 % of 19, for 1,000 people."""
    made = crowd.generate(crowd.CrowdPlan(people=1_000, days=1))
    day = made.cells[:, 0].astype(np.int64)
    ten, all_day = recovered(day[:, :10], made.plan.columns), recovered(day, made.plan.columns)
    assert ten == pytest.approx(0.7886, abs=0.10)
    assert all_day == pytest.approx(0.6102, abs=0.12), (
        "the attack's own prediction by day gives less"
    )


def test_the_same_plan_gives_the_same_crowd() -> None:
    plan = crowd.CrowdPlan(people=500, days=2, seed=9)
    np.testing.assert_array_equal(crowd.generate(plan).cells, crowd.generate(plan).cells)
    other = crowd.generate(crowd.CrowdPlan(people=500, days=2, seed=10)).cells
    assert (other != crowd.generate(plan).cells).mean() > 0.9
