"""Full disclosure held against all data sets, one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import johnson

from sfumato.errors import InputError
from sfumato_lab.syntactic.disclosure import (
    EVERYBODY,
    FREE,
    NOBODY,
    System,
    disclosed_bits,
    disclosure,
    forced,
    forced_ranges,
    reconstruct,
)

Ints = NDArray[np.int64]
EVERY = {bits: np.array(list(itertools.product((0, 1), repeat=bits)), np.int64) for bits in (8, 12)}
"""All data sets of so many bits."""


def brute_force(columns: Ints, truth: Ints) -> NDArray[np.int8]:
    """Definition 5 by enumeration: questions x bits, and the bits that are the truth."""
    every = EVERY[truth.size]
    same = every[((every @ columns.T) == columns @ truth).all(axis=1)]
    state = np.full(truth.size, FREE, np.int8)
    state[same.max(axis=0) == 0] = NOBODY
    state[same.min(axis=0) == 1] = EVERYBODY
    return state


def by_blocks(columns: Ints, truth: Ints) -> tuple[System, Ints, Ints]:
    """The same with identical columns merged: the system, its totals, and each bit's block."""
    found, block = np.unique(columns, axis=1, return_inverse=True)
    sizes, totals = np.bincount(block), np.bincount(block, truth).astype(np.int64)
    return System.of(sizes, csr_array(found), columns @ truth), totals, block


def chapter(rng: np.random.Generator) -> tuple[Ints, Ints]:
    """D_(i,L,t): 2 or 3 people, 2 x 2 or 2 x 3 places and slots; a question sums over people."""
    people, places, slots = (3, 2, 2) if rng.random() < 0.5 else (2, 2, 3)
    rows = []
    for _ in range(rng.integers(1, 5)):
        where, when = rng.random(places) < 0.6, rng.random(slots) < 0.6
        rows.append(np.tile(np.outer(where, when).ravel(), people))
    truth = (rng.random(people * places * slots) < rng.choice([0.15, 0.5, 0.85])).astype(np.int64)
    return np.array(rows, np.int64), truth


def known(rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Known people, one bit each; a question is any set of them."""
    rows = rng.random((rng.integers(1, 6), 8)) < rng.choice([0.3, 0.6])
    return rows.astype(np.int64), (rng.random(8) < 0.5).astype(np.int64)


@pytest.mark.parametrize("universe", [chapter, known])
def test_any_questions_equal_brute_force_on_a_thousand_instances(universe: object) -> None:
    rng = np.random.default_rng(61)
    assert callable(universe)
    disclosed = 0
    for _ in range(1000):
        columns, truth = universe(rng)
        system, totals, block = by_blocks(columns, truth)
        state, decided = forced(system, totals)
        expected = brute_force(columns, truth)
        assert decided
        assert np.array_equal(state[block], expected), (columns, truth)
        disclosed += bool((expected != FREE).any())
    assert 200 < disclosed < 900  # neither of the two answers is the rule


def ranges(rng: np.random.Generator, bits: int) -> tuple[Ints, Ints]:
    cut = np.sort(rng.integers(0, bits + 1, size=(rng.integers(1, 7), 2)), axis=1)
    cut[cut[:, 0] == cut[:, 1]] = (0, bits)
    return cut[:, 0], cut[:, 1]


def test_ranges_of_known_people_equal_brute_force_on_a_thousand_instances() -> None:
    rng = np.random.default_rng(62)
    disclosed = 0
    for _ in range(1000):
        start, end = ranges(rng, 12)
        truth = rng.random(12) < rng.choice([0.2, 0.5, 0.8])
        state, sizes, _ = disclosed_bits(truth, start, end)
        at = np.arange(12)
        columns = ((at >= start[:, None]) & (at < end[:, None])).astype(np.int64)
        expected = brute_force(columns, truth.astype(np.int64))
        assert np.array_equal(np.repeat(state, sizes), expected)
        disclosed += bool((expected != FREE).any())
    assert 200 < disclosed < 900


def test_ranges_of_the_chapters_universe_equal_brute_force() -> None:
    """Three exchangeable people in each of four cells: blocks of three bits."""
    rng = np.random.default_rng(63)
    for _ in range(1000):
        start, end = ranges(rng, 4)
        truth = (rng.random(12) < rng.choice([0.1, 0.5, 0.9])).astype(np.int64)
        at = np.repeat(np.arange(4), 3)
        columns = ((at >= start[:, None]) & (at < end[:, None])).astype(np.int64)
        three, totals = np.full(4, 3), np.bincount(at, truth).astype(np.int64)
        state = forced_ranges(three, start, end, columns @ truth, totals)
        assert np.array_equal(state[at], brute_force(columns, truth))


def test_whoever_has_the_answers_alone_finds_the_same() -> None:
    rng = np.random.default_rng(64)
    for _ in range(300):
        sizes = rng.integers(0, 4, 9)
        totals = rng.binomial(sizes, rng.choice([0.1, 0.5, 0.9]))
        start, end = ranges(rng, 9)
        sums = np.concatenate([[0], np.cumsum(totals)])
        told = (sizes, start, end, sums[end] - sums[start])
        assert np.array_equal(forced_ranges(*told), forced_ranges(*told, totals))


def test_components_of_tight_arcs_say_what_all_shortest_paths_say() -> None:
    rng = np.random.default_rng(65)
    for _ in range(100):
        sizes = rng.integers(1, 4, 12)
        totals = rng.binomial(sizes, 0.4)
        start, end = ranges(rng, 12)
        sums = np.concatenate([[0], np.cumsum(totals)])
        arcs = np.full((13, 13), np.inf)
        for a, b in zip(start.tolist(), end.tolist(), strict=True):
            arcs[a, b], arcs[b, a] = sums[b] - sums[a], sums[a] - sums[b]
        for j, size in enumerate(sizes.tolist()):
            arcs[j, j + 1] = min(arcs[j, j + 1], size)
            arcs[j + 1, j] = min(arcs[j + 1, j], 0)
        start_of, end_of = np.nonzero(np.isfinite(arcs))
        graph = csr_array((arcs[start_of, end_of], (start_of, end_of)), shape=(13, 13))
        far = johnson(graph)
        at = np.arange(12)
        most, least = far[at, at + 1], -far[at + 1, at]
        state = forced_ranges(sizes, start, end, sums[end] - sums[start], totals)
        assert np.array_equal(state == NOBODY, most == 0)
        assert np.array_equal(state == EVERYBODY, least == sizes)


def test_answers_that_contradict_each_other_and_data_that_has_changed_are_refused() -> None:
    sizes, left, right = np.array([2, 2]), np.array([0, 1]), np.array([2, 2])
    with pytest.raises(InputError, match="no data gives them"):
        forced_ranges(sizes, left, right, np.array([1, 2]))
    with pytest.raises(InputError, match="does not give"):
        forced_ranges(sizes, left, right, np.array([3, 1]), np.array([1, 1]))
    system = System.of(sizes, csr_array(np.array([[1, 1]])), np.array([3]))
    with pytest.raises(InputError, match="has changed"):
        forced(system, np.array([1, 1]))


def test_eq_2_gives_one_value_to_merged_columns_and_finds_what_random_questions_tell() -> None:
    rng = np.random.default_rng(66)
    columns = (rng.random((48, 24)) < 0.5).astype(np.int64)
    truth = (rng.random(24) < 0.5).astype(np.int64)
    found = reconstruct(System.of(np.ones(24, np.int64), csr_array(columns), columns @ truth))
    assert found is not None
    assert np.array_equal(found > 0.5, truth == 1)
    pair = System.of(np.array([4, 3]), csr_array(np.array([[1, 0]])), np.array([3]))
    shares = reconstruct(pair)
    assert shares is not None
    assert np.allclose(shares, [0.75, 0.5])


def test_success_is_a_forced_bit_or_a_share_above_guessing_by_the_margin() -> None:
    """Counts 4 of 5 and 1 of 5 force nothing; rounded they give 8 bits of 10, guessing gives 5."""
    system = System.of(np.array([5, 5]), csr_array(np.eye(2, dtype=np.int64)), np.array([4, 1]))
    told = disclosure(system, np.array([4, 1]))
    assert not told.any_forced
    assert (told.recovered, told.guessed) == (0.8, 0.5)
    assert told.successful(0.25)
    assert not told.successful(0.35)
    assert not disclosure(system, np.array([4, 1]), margin=None).successful()
