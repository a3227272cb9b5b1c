"""Tables too large to work on at once: their rows in tiles.

A table of a year of hours in a thousand places is 69 MB in double precision, and arithmetic on
whole tables holds a dozen of them. Above `WHOLE` cells, work goes from tile to tile of places, so
that what is between is a tile and not a table, and what must be kept beside the numbers themselves
is in single precision. Up to that size there is one tile, which is the whole table: the very same
operations in the same order, and the same bits.
"""

from __future__ import annotations

import ctypes
import sys
from itertools import pairwise
from typing import Any

import numpy as np

WHOLE = 1 << 21
"""Cells that are worked on at once, 16 MiB in double precision: a month of hours in 2,800 places, a
year in 239."""


def is_large(shape: tuple[int, ...]) -> bool:
    """Whether a table of that shape is cut into tiles."""
    return shape[0] * shape[1] > WHOLE


def tiles(shape: tuple[int, ...]) -> list[slice]:
    """All rows, where there are no more than `WHOLE` cells; else equal parts of a quarter of it at
    most, so that what is between is small beside the tables, and lies in the processor's cache."""
    parts = min(-(-4 * shape[0] * shape[1] // WHOLE), shape[0]) if is_large(shape) else 1
    edges = [shape[0] * k // parts for k in range(parts + 1)]
    return [slice(low, high) for low, high in pairwise(edges)]


def give_back(shape: tuple[int, ...]) -> None:
    """What allocators hold in reserve goes back to the system, where such tables are large.

    After a year of hours in 989 places was read from Parquet, Arrow held 0.4 GiB that nobody used,
    and the C library 0.06 GiB of tiles.
    """
    if not is_large(shape):
        return
    from pyarrow import default_memory_pool  # loaded already, where its pool holds anything

    default_memory_pool().release_unused()
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)  # glibc's; other libraries have no such reserve


def beside(shape: tuple[int, ...]) -> type[np.floating[Any]]:
    """Precision of what is kept beside the numbers themselves: single where tables are large."""
    return np.float32 if is_large(shape) else np.float64
