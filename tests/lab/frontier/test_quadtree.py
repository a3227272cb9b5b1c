"""The quadtree baseline: a public tree, sums that agree, a budget that is kept."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sfumato.geography.overlay import Layout
from sfumato_lab.studies.frontier.baselines import consistent, gather, tree


def square(n: int) -> Layout:
    rng = np.random.default_rng(1)
    return Layout(rng.uniform(0, 1000, (n, 2)), np.ones(n))


def test_the_tree_begins_with_all_places_and_ends_with_each_alone() -> None:
    levels = tree(square(60))
    assert levels[0].max() == 0
    assert np.unique(levels[-1]).size == 60
    for above, below in itertools.pairwise(levels):
        for node in np.unique(below):  # no node has two parents
            assert np.unique(above[below == node]).size == 1


def test_places_at_one_spot_do_not_make_the_tree_endless() -> None:
    levels = tree(Layout(np.zeros((5, 2)), np.ones(5)))
    assert levels[-1].max() == 0


def test_consistent_levels_add_up_and_lose_no_mass_without_noise() -> None:
    levels = tree(square(40))
    rng = np.random.default_rng(2)
    counts = rng.poisson(30, (40, 6)).astype(float)
    exact = [gather(label) @ counts for label in levels]
    noisy = [table + rng.normal(0, 5, table.shape) for table in exact]
    found = consistent(levels, noisy, [25.0] * len(levels))
    for label, table, above, upper in zip(
        levels[1:], found[1:], levels[:-1], found[:-1], strict=True
    ):
        parent = np.zeros(table.shape[0], dtype=int)
        parent[label] = above
        sums = np.zeros_like(upper)
        np.add.at(sums, parent, table)
        assert sums == pytest.approx(upper)
    same = consistent(levels, exact, [25.0] * len(levels))
    assert same[-1] == pytest.approx(exact[-1])


def test_consistency_is_least_squares_over_all_nodes() -> None:
    levels = [np.zeros(3, int), np.array([0, 0, 1]), np.array([0, 1, 2])]
    rng = np.random.default_rng(3)
    variance = [4.0, 2.0, 1.0]
    noisy = [rng.normal(10, 1, (int(label.max()) + 1, 2)) for label in levels]
    design = np.vstack(
        [gather(label).toarray() / v**0.5 for label, v in zip(levels, variance, strict=True)]
    )
    seen = np.vstack([y / v**0.5 for y, v in zip(noisy, variance, strict=True)])
    best = np.linalg.lstsq(design, seen, rcond=None)[0]
    assert consistent(levels, noisy, variance)[-1] == pytest.approx(best)
