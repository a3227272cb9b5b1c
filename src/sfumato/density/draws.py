"""Draws of a posterior: many tables of one shape, in memory or, where they are large, in a file.

Sixty-four draws of a week of hours are nothing; of a year of hours in a thousand zones they are two
gigabytes. Then they lie in a temporary file without a name, owned by nobody but this process, and
one at a time is read. They are made from noisy numbers alone: post-processing. Everything here goes
through them one by one, in their order, so that both ways give the same bits.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
Vector = NDArray[np.float64]
_IN_MEMORY = 1 << 26
"""Bytes of draws that are kept in memory: of 64 draws, a week of hours in 1,560 places."""


class Draws(Protocol):
    """Tables by number, in single precision; an array of three dimensions is one."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, number: int, /) -> NDArray[np.float32]: ...

    def __setitem__(self, number: int, table: NDArray[Any], /) -> None: ...


class DrawsOnDisk:
    """Draws in a temporary file that has no name and goes with the process."""

    def __init__(self, count: int, shape: tuple[int, int]) -> None:
        self.shape: tuple[int, ...] = (count, *shape)
        self._file = tempfile.TemporaryFile(prefix="sfumato-")  # noqa: SIM115 - lives as long as this

    def __getitem__(self, number: int, /) -> NDArray[np.float32]:
        size = self._seek(number)
        return np.fromfile(self._file, np.float32, size).reshape(self.shape[1:])

    def __setitem__(self, number: int, table: NDArray[Any], /) -> None:
        self._seek(number)
        np.asarray(table, dtype=np.float32).tofile(self._file)

    def _seek(self, number: int) -> int:
        size = self.shape[1] * self.shape[2]
        self._file.seek(4 * size * number)
        return size


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
    found = np.zeros(draws.shape[1:])
    for k, one in enumerate(each(draws)):
        found += one if factors is None else one * factors[k]
    found /= draws.shape[0]
    return found


def variance_of(
    draws: Draws, mean: Table, factors: Sequence[float] | Vector | None = None
) -> Table:
    """Of every cell, around that mean, with one draw less than there are."""
    found, away = np.zeros(draws.shape[1:]), np.empty(draws.shape[1:])
    for k, one in enumerate(each(draws)):
        np.subtract(one if factors is None else one * factors[k], mean, out=away)
        found += np.square(away, out=away)
    found /= draws.shape[0] - 1
    return found
