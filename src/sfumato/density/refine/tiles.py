"""Tables too large to work on at once: rows in tiles, singular values by way of the small side.

A table of a year of hours in a thousand places is 69 MB in double precision, and arithmetic on
whole tables holds a dozen of them. Above `WHOLE` cells, work goes from tile to tile of places, so
that what is between is a tile and not a table, and what must be kept beside the numbers themselves
is in single precision. Up to that size there is one tile, which is the whole table: the very same
operations in the same order, and the same bits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
Vector = NDArray[np.float64]

WHOLE = 1 << 21
"""Cells that are worked on at once, 16 MiB in double precision: a month of hours in 2,800 places, a
year in 239."""


def is_large(shape: tuple[int, ...]) -> bool:
    """Whether a table of that shape is cut into tiles."""
    return shape[0] * shape[1] > WHOLE


def tiles(shape: tuple[int, ...]) -> list[slice]:
    """Rows in equal parts of at most `WHOLE` cells; all of them, where there are no more."""
    parts = min(max(-(-shape[0] * shape[1] // WHOLE), 1), max(shape[0], 1))
    edges = [shape[0] * k // parts for k in range(parts + 1)]
    return [slice(low, high) for low, high in pairwise(edges)]


def beside(shape: tuple[int, ...]) -> type[np.floating[Any]]:
    """Precision of what is kept beside the numbers themselves: single where tables are large."""
    return np.float32 if is_large(shape) else np.float64


class Spectrum:
    """Singular values (falling) and left vectors of a table; right vectors when asked for.

    Of a large table with more columns than rows they come from the eigenbasis of its rows' products
    (the method of snapshots; Sirovich 1987), which takes a fifth of the time and no table beside.
    That squares the condition: values below 1e-8 of the largest would be rounding, and what is read
    here lies at the level of the noise or above.
    """

    def __init__(self, table: Table) -> None:
        self._table: Table | None = None
        if not is_large(table.shape) or table.shape[0] > table.shape[1]:
            self.left, self.values, self._right = np.linalg.svd(table, full_matrices=False)
            return
        power, left = np.linalg.eigh(table @ table.T)
        self.values = np.sqrt(np.maximum(power[::-1], 0.0))
        self.left, self._table = left[:, ::-1], table

    def right(self, which: NDArray[Any] | slice) -> Table:
        """Right vectors of these values, as rows."""
        if self._table is None:
            found: Table = self._right[which]
            return found
        some = np.maximum(self.values[which], 1e-300)[:, None]
        found = self.left[:, which].T @ self._table
        found /= some
        return found
