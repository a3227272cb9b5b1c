"""The best strategy of a workload: columns of norm one, and nothing simple beats it."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.privacy.door import open_private
from sfumato_lab.studies.frontier.baselines import UNITS, apply_strategy, best_strategy


def workload(zones: int, towers: int) -> np.ndarray:
    rng = np.random.default_rng(4)
    shares = rng.dirichlet(np.full(zones, 0.2), towers)
    return shares.T


def error(asked: np.ndarray, strategy: np.ndarray) -> float:
    """Total squared error of the answers under unit noise."""
    return float(np.square(asked @ np.linalg.pinv(strategy)).sum())


def test_the_best_strategy_beats_the_places_and_a_hierarchy() -> None:
    asked = workload(12, 20)
    best = error(asked, best_strategy(asked).whole / UNITS)
    tree = np.vstack([np.eye(20), np.ones((1, 20))]) / 2**0.5
    assert best < error(asked, np.eye(20))
    assert best < error(asked, tree)


def test_for_prefix_sums_it_comes_close_to_the_known_optimum() -> None:
    asked = np.tril(np.ones((16, 16)))
    found = best_strategy(asked, rounds=40)
    values = np.linalg.svd(asked, compute_uv=False)
    lower = values.sum() ** 2 / 16  # no strategy with unit columns has less (Li & Miklau 2013)
    assert lower <= error(asked, found.whole / UNITS) < 1.1 * lower


def test_columns_are_never_longer_than_one_and_the_way_back_is_exact() -> None:
    found = best_strategy(workload(12, 20))
    assert np.square(found.whole).sum(axis=0).max() <= UNITS * UNITS
    assert found.back @ (found.whole / UNITS) == pytest.approx(np.eye(20))


def box(values: np.ndarray) -> Private[Counts]:
    return Private(Counts(values, 4, 30.0, 12.0, Counting.VISITS, "made up"), "made up")


def test_sensitivity_grows_by_the_lattice_and_no_more() -> None:
    whole = best_strategy(workload(6, 8)).whole
    rng = np.random.default_rng(5)
    person = rng.integers(0, 3, (8, 4))
    mapped = open_private(apply_strategy(box(person), whole))
    assert mapped.l2 == 12.0 * UNITS
    mass = np.sqrt(np.square(person.sum(axis=0)).sum())
    assert np.linalg.norm(mapped.values) <= mass * UNITS


def test_a_strategy_with_a_long_column_is_refused() -> None:
    with pytest.raises(InputError, match="longer than one"):
        apply_strategy(box(np.ones((2, 3), np.int64)), UNITS * np.ones((2, 2), np.int64))
