"""Estimation over space: leaves follow what each of them gets every slot, so budget helps."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from sfumato.audits.streams import stream_rows
from sfumato.errors import UsageError
from sfumato.streams.facts import StreamFacts
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import run_scheme
from sfumato_lab.streams.fan import graph_blocks, pruned, square_blocks

Facts = Callable[..., StreamFacts]
SIDE = 16


def town(facts: StreamFacts, seed: int = 0) -> np.ndarray:
    """A centre, a few busy squares and empty land; the same for all slots, but for chance."""
    rng = np.random.default_rng(seed)
    row, column = np.divmod(np.arange(SIDE * SIDE), SIDE)
    level = 30 * np.exp(-(np.square(row - 5) + np.square(column - 6)) / 12)
    level[rng.choice(level.size, 6, replace=False)] += 60
    return rng.poisson(level, (facts.slots, level.size))


def error(name: str, known: StreamFacts, counts: np.ndarray) -> float:
    runs = [run_scheme(stream_scheme(name), known, counts, seed).values for seed in range(3)]
    return float(np.mean([np.square(values - counts).mean() for values in runs]) ** 0.5)


@pytest.mark.parametrize("name", ["fan-spatial", "fan-combined"])
def test_the_error_falls_with_the_budget(name: str, facts: Facts) -> None:
    """It rose: single cells were measured as soon as the tree told them apart."""
    plain = facts("user-day", delta=1e-6, days=3, per_day=12, cells=256, people=2600, columns=SIDE)
    counts = town(plain)
    errors = [error(name, replace(plain, epsilon=e), counts) for e in (0.2, 0.5, 1, 2, 5, 20)]
    assert all(after < before for before, after in itertools.pairwise(errors)), errors
    assert errors[-1] < errors[0] / 4


def test_both_together_are_better_than_each(facts: Facts) -> None:
    for epsilon in (0.5, 2.0):
        known = facts(
            "user-day", delta=1e-6, days=3, per_day=12, cells=256, people=2600, columns=SIDE,
            epsilon=epsilon,
        )  # fmt: skip
        counts = town(known)
        both = error("fan-combined", known, counts)
        assert both < error("fan-spatial", known, counts)
        assert both < error("fan-temporal", known, counts)
        assert both < error("direct", known, counts) / 2


def test_a_block_is_split_where_its_parts_have_less_error() -> None:
    """One busy cell of sixteen: alone if its noise is less than what it differs by."""
    seen = np.zeros(16)
    seen[5] = 20.0
    levels = square_blocks(16, 4)
    quiet = pruned(levels, seen, 0.0, 0.0, lambda size: 10.0 / size)
    assert np.bincount(quiet)[quiet[5]] == 1
    assert np.bincount(quiet).size == 7, "its three neighbours, and the other squares"
    loud = pruned(levels, seen, 0.0, 0.0, lambda size: 1000.0 / size)
    assert np.unique(loud).size == 1


def test_leaves_are_the_best_of_all_prunings() -> None:
    """Against every pruning of a tree of sixteen cells, tried one by one."""
    rng, levels = np.random.default_rng(3), square_blocks(16, 4)

    def cost(leaf: np.ndarray, seen: np.ndarray, noise: float) -> float:
        parts = [seen[leaf == one] for one in np.unique(leaf)]
        return sum(float(np.square(p - p.mean()).sum()) + noise / p.size for p in parts)

    for _ in range(20):
        seen, noise = rng.integers(0, 30, 16).astype(float), float(rng.integers(1, 400))
        found = pruned(levels, seen, 0.0, 0.0, lambda size, noise=noise: noise / size)  # type: ignore[misc]
        tried = [np.zeros(16, dtype=int)]
        for split in range(16):  # each of the four squares whole, or cell by cell
            whole = np.array([split >> square & 1 for square in levels[1]])
            tried.append(np.where(whole == 1, 100 + levels[1], np.arange(16)))
        assert cost(found, seen, noise) == pytest.approx(
            min(cost(leaf, seen, noise) for leaf in tried)
        )


def test_a_tree_grows_along_a_graph() -> None:
    edges = np.array([[0, 1], [1, 2], [2, 3], [4, 5]])
    *_, last = graph_blocks(6, edges)
    assert len({*last[:4]}) == 1
    assert len({*last[4:]}) == 1
    assert last[0] != last[4], "what no edge joins stays apart"


def test_places_that_are_no_grid_need_a_graph(facts: Facts) -> None:
    known = facts("user-day", days=2, per_day=6, cells=6, people=60, columns=None)
    with pytest.raises(UsageError, match="not a full rectangular grid") as refused:
        stream_scheme("fan-spatial").plan(known)
    assert "`adjacency`" in str(refused.value.remedy)
    joined = replace(known, adjacent=np.array([[0, 1], [1, 2], [3, 4]]))
    counts = np.full((known.slots, 6), 9)
    assert run_scheme(stream_scheme("fan-spatial"), joined, counts, 0).values.shape == (12, 6)


@pytest.mark.privacy
@pytest.mark.parametrize("name", ["fan-temporal", "fan-spatial", "fan-combined"])
def test_roads_and_graphs_are_public_and_cost_nothing(name: str, facts: Facts) -> None:
    known = facts("user-day", days=2, per_day=6, cells=6, people=60, columns=3)
    given = replace(
        known,
        roads=np.array([0.0, 0, 500, 900, 20, 0]),
        adjacent=np.array([[0, 1], [1, 2], [3, 4], [2, 5]]),
    )
    assert [account.label for account in stream_scheme(name).plan(given).accounts][1:] == []
    rows = stream_rows(stream_scheme(name), given, seed=5)
    assert not [row for row in rows if row.violated]
