"""Workloads: sums, shared cells and common refinements, against plain sets."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.queries.workload import Row, Workload

SHAPE = (5, 7)


def some_rows(seed: int, many: int) -> list[Row]:
    rng = np.random.default_rng(seed)

    def members(size: int) -> tuple[int, ...]:
        chosen = np.flatnonzero(rng.random(size) < 0.4)
        return tuple(chosen.tolist()) or (int(rng.integers(size)),)

    return [Row(members(SHAPE[0]), members(SHAPE[1])) for _ in range(many)]


def cells(row: Row) -> set[tuple[int, int]]:
    return {(place, slot) for place in row.places for slot in row.slots}


@pytest.mark.parametrize("seed", range(20))
def test_sums_and_shared_cells_are_those_of_the_sets(seed: int) -> None:
    rows = some_rows(seed, 6)
    work, table = Workload.of(SHAPE, rows), np.random.default_rng(seed).integers(0, 99, SHAPE)
    assert work.sums(table).tolist() == [sum(table[cell] for cell in cells(row)) for row in rows]
    shared = [[len(cells(one) & cells(two)) for two in rows] for one in rows]
    assert work.shared(work).tolist() == shared
    assert [table[work.cells(k)].sum() for k in range(6)] == work.sums(table).tolist()
    assert work.sets == tuple((row.places, row.slots) for row in rows)


@pytest.mark.parametrize("seed", range(20))
def test_atoms_are_disjoint_and_every_row_is_made_of_them(seed: int) -> None:
    rows = some_rows(seed, 4)
    work = Workload.of(SHAPE, rows)
    atoms = [cells(Row(*sets)) for sets in work.atoms().sets]
    assert work.atom_count() == len(atoms)
    assert sum(map(len, atoms)) == len(set().union(*atoms))
    for row in rows:
        inside = [atom for atom in atoms if atom & cells(row)]
        assert set().union(*inside) == cells(row)
    for one in atoms:  # no two cells of an atom are told apart by a row
        assert all(not one & cells(row) or one <= cells(row) for row in rows)


def test_sums_of_integers_are_exact() -> None:
    huge = np.full(SHAPE, (1 << 53) + 1, np.int64)
    whole = Workload.of(SHAPE, [Row(tuple(range(5)), tuple(range(7)))])
    assert whole.sums(huge).tolist() == [35 * ((1 << 53) + 1)]


@pytest.mark.parametrize(
    "rows", [[], [Row((), (0,))], [Row((0,), ())], [Row((5,), (0,))], [Row((0,), (-1,))]]
)
def test_what_is_no_workload_is_refused(rows: list[Row]) -> None:
    with pytest.raises(UsageError):
        Workload.of(SHAPE, rows)


def test_a_table_of_another_shape_is_refused() -> None:
    with pytest.raises(UsageError, match="other places"):
        Workload.of(SHAPE, some_rows(1, 2)).sums(np.zeros((7, 5)))
