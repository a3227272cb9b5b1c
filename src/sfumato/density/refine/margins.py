"""Margins and raking: tables brought into line with totals of places and slots.

Everything here reads noisy or released numbers only: post-processing. How the totals
themselves are cleaned is in `refine.levels`.

* *Raking* (Deming & Stephan 1940): scale a table until its row and column sums agree with margins
  measured apart. The ratios are what is applied, so they can be smoothed or shrunk by the caller;
  rows or columns without mass take theirs from the margins evenly.
* *Consistency*: make noisy numbers look like counts, non-negative, whole, adding up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.tiles import tiles

Table = NDArray[np.float64]


def ratios(target: Table, current: Table, largest: float = 4.0) -> Table:
    """target / current, kept within 1/largest … largest; 1 where there is nothing to scale."""
    usable = (current > 0) & (target > 0)
    raw = np.where(usable, target / np.where(usable, current, 1.0), 1.0)
    result: Table = np.clip(raw, 1 / largest, largest)
    return result


def rake(
    table: NDArray[Any], rows: Table, columns: Table, rounds: int = 2, out: Table | None = None
) -> NDArray[Any]:
    """Columns first, then rows, `rounds` times; `out` may be the table itself.

    Rows of a tile are scaled, and summed for the next round, while they are at hand.
    """
    result = np.empty_like(table) if out is None else out
    parts = tiles(table.shape)
    sums = sum((table[some].sum(axis=0) for some in parts[1:]), table[parts[0]].sum(axis=0))
    for turn in range(rounds):
        current = result if turn else table
        by_column = ratios(columns, sums).astype(table.dtype)[None, :]
        sums = np.zeros(table.shape[1])
        for some in parts:
            part = np.multiply(current[some], by_column, out=result[some])
            part *= ratios(rows[some], part.sum(axis=1)).astype(table.dtype)[:, None]
            if turn + 1 < rounds:
                sums += part.sum(axis=0)
    return result if rounds else table


def project_to_simplex(
    values: NDArray[np.float64], total: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The closest non-negative columns (Euclidean) whose sums are `total`.

    A negative total counts as zero. Exact, by sorting each column once.
    """
    y = np.asarray(values, dtype=np.float64)
    mass = np.maximum(np.asarray(total, dtype=np.float64), 0.0)
    ordered = -np.sort(-y, axis=0)
    surplus = np.cumsum(ordered, axis=0) - mass
    count = np.arange(1, y.shape[0] + 1)[:, None]
    active = np.maximum((ordered * count > surplus).sum(axis=0), 1)
    shift = np.take_along_axis(surplus, active[None] - 1, axis=0) / active
    result: NDArray[np.float64] = np.where(mass > 0, np.maximum(y - shift, 0.0), 0.0)
    return result


_LARGEST = 2.0**62
"""A count beyond it is no whole number of 64 bits."""


def round_keeping_totals(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers whose column sums are the rounded column sums (largest remainders).

    Ties in the remainders go to the earlier row, so the result is reproducible.
    """
    if (values < 0).any():
        raise UsageError("Only non-negative counts are rounded; clip or project them first.")
    values = np.minimum(values, _LARGEST)
    floor = np.floor(values)
    missing = np.rint(values.sum(axis=0)) - floor.sum(axis=0)
    rank = np.argsort(np.argsort(-(values - floor), axis=0, kind="stable"), axis=0, kind="stable")
    return np.asarray(floor.astype(np.int64) + (rank < missing))


def add_up(table: NDArray[np.float64], parents: NDArray[np.int64]) -> NDArray[np.float64]:
    """Rows of the level above: each parent is the sum of its children, so levels agree."""
    result = np.zeros((int(parents.max()) + 1, table.shape[1]), dtype=table.dtype)
    np.add.at(result, parents, table)
    return result


PLACE_FLOOR = 0.02
SLOT_FLOOR = 0.001
"""Least total of a place and of a slot, as a share of the mean: powers of these totals are taken.
The price is that nearly empty places are lifted (docs/decisions/bayes.md, "Left")."""
