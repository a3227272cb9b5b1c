"""What is found of people whom the attacked table does not count."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.attacks.trajectories import Ground, People, counts_of
from sfumato.city.crowd import CrowdPlan
from sfumato.model.time_grid import Clock
from sfumato_lab.studies.recovery.schemes import Attacked
from sfumato_lab.studies.recovery.study import leave_fold_out_accuracy, taking_part


class Exact(Attacked):
    """People who stay, published without any protection."""

    def __init__(self, homes: list[int]) -> None:
        cells = np.repeat(np.array(homes, dtype=np.int32)[:, None], 4, axis=1)
        x, y = np.meshgrid(np.arange(8.0), np.arange(8.0))
        ground = Ground(np.column_stack([x.ravel(), y.ravel()]))
        self.truth = People(cells, ground, Clock.plain(1, 4))

    def published(
        self,
        scheme: str,
        epsilon: float,
        seed: int,
        *,
        who: np.ndarray | None = None,
    ) -> np.ndarray:
        del scheme, epsilon, seed
        rows = self.truth.cells if who is None else self.truth.cells[who]
        return counts_of(rows, 64).astype(float)


def test_who_is_alone_is_not_found_without_taking_part() -> None:
    assert taking_part(Exact(list(range(40))), "exact", 1.0, 0) == 1.0
    assert leave_fold_out_accuracy(Exact(list(range(40))), "exact", 1.0, 0) == 0.0


def test_who_is_where_all_others_are_is_found_all_the_same() -> None:
    assert leave_fold_out_accuracy(Exact([9] * 40), "exact", 1.0, 0) == 1.0


def test_true_counts_tell_of_those_who_take_part_and_a_guarantee_does_not() -> None:
    """Nearly no noise against epsilon 1, the same town: only the former tells who took part."""
    town = Attacked(CrowdPlan(people=100, days=1, columns=10, rows=10, seed=78), 1e-6)
    gains = {}
    for epsilon in (1e6, 1.0):
        outside = leave_fold_out_accuracy(town, "profile", epsilon, 0, folds=5)
        inside = np.mean([taking_part(town, "profile", epsilon, seed) for seed in range(4)])
        gains[epsilon] = inside - outside
    assert gains[1e6] > 0.15
    assert gains[1.0] == pytest.approx(0, abs=0.08)
