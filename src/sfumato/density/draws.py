"""Draws of a posterior: many tables of one shape, in memory or, where they are large, in a file.

Sixty-four draws of a week of hours are nothing; of a year of hours in a thousand zones they are two
gigabytes. Then they lie in a temporary file without a name, owned by nobody but this process, and
what is read of one is mapped for as long as somebody looks at it: a copy took as long as what was
done with it. They are made from noisy numbers alone: post-processing. Every cell goes through them
in their order, so that both ways give the same bits.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.model.tiles import tiles

Table = NDArray[np.float64]
Vector = NDArray[np.float64]
_IN_MEMORY = 1 << 26
"""Bytes of draws that are kept in memory: of 64 draws, a week of hours in 1,560 places."""


class Readable(Protocol):
    """Tables by number, in single precision, to be read."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, number: int, /) -> NDArray[np.float32]: ...


class Draws(Readable, Protocol):
    """The same with room to put them; an array of three dimensions is one."""

    def __setitem__(self, number: int, table: NDArray[Any], /) -> None: ...


class DrawsOnDisk:
    """Draws in a temporary file that has no name and goes with the process."""

    def __init__(self, count: int, shape: tuple[int, int]) -> None:
        self.shape: tuple[int, ...] = (count, *shape)
        self._file = tempfile.TemporaryFile(prefix="sfumato-")  # noqa: SIM115 - lives as long as this

    def __getitem__(self, number: int, /) -> NDArray[np.float32]:
        # Of one only, never of the file: pages that were looked at count as memory in use.
        held = np.memmap(self._file, np.float32, "r", self._at(number), self.shape[1:])
        return held.view(np.ndarray)

    def __setitem__(self, number: int, table: NDArray[Any], /) -> None:
        self._file.seek(self._at(number))
        np.asarray(table, dtype=np.float32).tofile(self._file)

    def _at(self, number: int) -> int:
        return 4 * self.shape[1] * self.shape[2] * number


def room_for(count: int, shape: tuple[int, int]) -> Draws:
    """Where so many tables go."""
    if 4 * count * shape[0] * shape[1] > _IN_MEMORY:
        return DrawsOnDisk(count, shape)
    return np.empty((count, *shape), dtype=np.float32)


def each(draws: Draws) -> Iterator[NDArray[np.float32]]:
    """One after the other."""
    return (draws[k] for k in range(draws.shape[0]))


def sums_of(draws: Draws) -> Vector:
    """The sum of every draw."""
    return np.array([one.sum(dtype=np.float64) for one in each(draws)])


def mean_of(draws: Draws, factors: Sequence[float] | Vector | None = None) -> Table:
    """Of every cell; the draws times `factors`, if there are some."""
    found = np.empty(draws.shape[1:])
    for rows in tiles(found.shape):
        found[rows] = mean_in(draws, rows, factors)
    return found


def mean_in(draws: Draws, rows: slice, factors: Sequence[float] | Vector | None = None) -> Table:
    """The same of some rows."""
    found = np.zeros((len(range(draws.shape[1])[rows]), draws.shape[2]))
    for k, one in enumerate(each(draws)):
        found += one[rows] if factors is None else one[rows] * factors[k]
    found /= draws.shape[0]
    return found


def variance_of(
    draws: Draws, mean: Table, factors: Sequence[float] | Vector | None = None
) -> Table:
    """Of every cell, around that mean, with one draw less than there are."""
    found = np.empty(draws.shape[1:])
    for rows in tiles(found.shape):
        found[rows] = variance_in(draws, rows, mean[rows], factors)
    return found


def variance_in(
    draws: Draws, rows: slice, mean: Table, factors: Sequence[float] | Vector | None = None
) -> Table:
    """The same of some rows, whose mean it is."""
    found, away = np.zeros(mean.shape), np.empty(mean.shape)
    for k, one in enumerate(each(draws)):
        np.subtract(one[rows] if factors is None else one[rows] * factors[k], mean, out=away)
        found += np.square(away, out=away)
    found /= draws.shape[0] - 1
    return found
