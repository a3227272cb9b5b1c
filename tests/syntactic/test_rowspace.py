"""The simulatable auditor's regions, held against all regions, one by one."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from sfumato_lab.syntactic.rowspace import PRIME, RowSpace

Cells = tuple[list[int], list[int]]


def random_question(rng: np.random.Generator, places: int, slots: int) -> Cells:
    where, when = (np.flatnonzero(rng.random(n) < 0.6).tolist() for n in (places, slots))
    return where or [0], when or [0]


def follows(rows: NDArray[np.int64], region: NDArray[np.int64]) -> bool:
    """Whether the region's count is a rational combination of the rows."""
    rank = np.linalg.matrix_rank(rows)
    return bool(np.linalg.matrix_rank(np.vstack([rows, region])) == rank)


def test_a_region_is_found_exactly_if_one_of_all_small_regions_follows() -> None:
    rng = np.random.default_rng(71)
    found = 0
    for _ in range(400):
        places, slots = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        least = int(rng.integers(2, 5))
        space, rows = RowSpace.empty(places, slots), np.zeros((0, places * slots), np.int64)
        for _ in range(int(rng.integers(1, 6))):
            where, when = random_question(rng, places, slots)
            mask = np.zeros((places, slots), np.int64)
            mask[np.ix_(where, when)] = 1
            rows = np.vstack([rows, mask.ravel()])
            before, (space, changed) = space, space.plus(where, when)
            small = [
                np.isin(np.arange(places * slots), chosen).astype(np.int64)
                for size in range(1, least)
                for chosen in itertools.combinations(range(places * slots), size)
            ]
            expected = any(follows(rows, region) for region in small)
            assert space.isolates(least) == expected
            if not before.isolates(least):  # then rows that did not change add nothing
                assert space.isolates(least, changed) == expected
            found += expected
    assert 200 < found < 1200


def test_the_basis_is_reduced_and_spans_the_questions() -> None:
    rng = np.random.default_rng(72)
    space, asked = RowSpace.empty(6, 8), []
    for _ in range(12):
        where, when = random_question(rng, 6, 8)
        mask = np.zeros((6, 8), np.int64)
        mask[np.ix_(where, when)] = 1
        asked.append(mask.ravel())
        space, _ = space.plus(where, when)
    assert np.array_equal(space.basis[:, space.pivots], np.eye(len(space.pivots)))
    assert len(space.basis) == np.linalg.matrix_rank(np.array(asked))
    spread = space.basis[:, space.blocks.of.ravel()]  # back to atoms
    for row in asked:
        left = (row - row[_first(space)] @ spread) % PRIME
        assert not left.any()


def _first(space: RowSpace) -> NDArray[np.int64]:
    """An atom of each pivot's block."""
    flat = space.blocks.of.ravel()
    return np.array([int(np.flatnonzero(flat == pivot)[0]) for pivot in space.pivots])


def test_blocks_hold_exactly_the_atoms_that_no_question_separates() -> None:
    rng = np.random.default_rng(73)
    blocks, columns = RowSpace.empty(5, 7).blocks, []
    for _ in range(6):
        where, when = random_question(rng, 5, 7)
        mask = np.zeros((5, 7), bool)
        mask[np.ix_(where, when)] = True
        columns.append(mask.ravel())
        blocks, _, covered = blocks.cut(where, when)
        assert np.array_equal(covered[blocks.of], mask)
    same = np.unique(np.array(columns), axis=1, return_inverse=True)[1]
    pairs = {(int(a), int(b)) for a, b in zip(same, blocks.of.ravel(), strict=True)}
    assert len(pairs) == len(np.unique(same)) == blocks.cells.size
    assert np.array_equal(np.bincount(blocks.of.ravel()), blocks.cells)
