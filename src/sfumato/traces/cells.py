"""`Cells`: a public grid of square cells over a box, and planar Laplace noise seen through it.

The plane is the equirectangular one at the box's middle latitude: over 25 km its distances are
right to 0.2 %, far below the noise. Cells are numbered row by row from the south-west. The noise
on cells is a convolution (`Convolution`, `noise_kernel`), and `posterior_centres` gives where a
report most likely came from under a prior over cells. All of it reads public things: grids,
reports and priors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.compiled import compiled
from sfumato.model.sphere import EARTH_RADIUS_M
from sfumato.model.traces import Box

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
HOTSPOT_SIDE_M = 50.0 * math.sqrt(math.pi)
"""A square with the area of a circle of 50 m: one wireless hot spot's reach."""
_NEAR = 3
_SUB = 8
"""Cells within `_NEAR` of the cusp are averaged over `_SUB` x `_SUB` points inside them."""


@dataclass(frozen=True, slots=True)
class Cells:
    """`rows` x `columns` squares of `side_m`, their south-west corner at (west, south)."""

    west: float
    south: float
    rows: int
    columns: int
    side_m: float
    middle: float
    """Latitude at which east-west distances are right."""

    def __post_init__(self) -> None:
        if self.rows < 1 or self.columns < 1 or not self.side_m > 0:
            raise UsageError("A grid has at least one cell with a positive side.")

    @classmethod
    def over(cls, box: Box, side_m: float = HOTSPOT_SIDE_M) -> Cells:
        """The grid that covers a box."""
        middle = (box.south + box.north) / 2
        high = math.radians(box.north - box.south) * EARTH_RADIUS_M
        wide = math.radians(box.east - box.west) * EARTH_RADIUS_M * math.cos(math.radians(middle))
        rows, columns = math.ceil(high / side_m), math.ceil(wide / side_m)
        return cls(box.west, box.south, rows, columns, side_m, middle)

    @property
    def size(self) -> int:
        return self.rows * self.columns

    def metres(self, lon: Floats, lat: Floats) -> tuple[Floats, Floats]:
        """East and north of the corner, in metres."""
        x = np.radians(lon - self.west) * (EARTH_RADIUS_M * math.cos(math.radians(self.middle)))
        return x, np.radians(lat - self.south) * EARTH_RADIUS_M

    def degrees(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Back from metres."""
        wide = EARTH_RADIUS_M * math.cos(math.radians(self.middle))
        return self.west + np.degrees(x / wide), self.south + np.degrees(y / EARTH_RADIUS_M)

    def index(self, lon: Floats, lat: Floats, margin: int = 0) -> Ints:
        """Cell of each point on the grid widened by `margin` cells; -1 outside."""
        x, y = self.metres(lon, lat)
        column = np.floor(x / self.side_m).astype(np.int64) + margin
        row = np.floor(y / self.side_m).astype(np.int64) + margin
        columns, rows = self.columns + 2 * margin, self.rows + 2 * margin
        inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
        return np.where(inside, row * columns + column, -1)

    def count(self, lon: Floats, lat: Floats, margin: int = 0) -> Floats:
        """Points in each cell of the widened grid, rows x columns; those outside are dropped."""
        index = self.index(lon, lat, margin)
        rows, columns = self.rows + 2 * margin, self.columns + 2 * margin
        counts = np.bincount(index[index >= 0], minlength=rows * columns)
        return counts.reshape(rows, columns).astype(np.float64)


def noise_kernel(cells: Cells, per_metre: float, reach: tuple[int, int]) -> Floats:
    """P(a report is d cells away) for |d| <= reach, from the centre of a cell.

    Far cells by the density at their centre, near ones, where it has its cusp, by the mean
    over points inside.
    """
    rows, columns = (np.arange(-r, r + 1) * cells.side_m for r in reach)
    density = per_metre**2 / (2 * math.pi) * cells.side_m**2
    kernel = np.exp(-per_metre * np.hypot(rows[:, None], columns[None, :])) * density
    inner = (np.arange(_SUB) + 0.5) / _SUB - 0.5
    for i in range(max(reach[0] - _NEAR, 0), min(reach[0] + _NEAR, 2 * reach[0]) + 1):
        for j in range(max(reach[1] - _NEAR, 0), min(reach[1] + _NEAR, 2 * reach[1]) + 1):
            y = rows[i] + inner * cells.side_m
            x = columns[j] + inner * cells.side_m
            kernel[i, j] = np.exp(-per_metre * np.hypot(y[:, None], x[None, :])).mean() * density
    return np.asarray(kernel, np.float64)


@dataclass(frozen=True, eq=False)
class Convolution:
    """Linear (not periodic) convolution of inner grids with a kernel, onto a wider grid."""

    inner: tuple[int, int]
    margin: int
    spectrum: NDArray[np.complex128]
    shape: tuple[int, int]

    @classmethod
    def of(cls, inner: tuple[int, int], margin: int, kernel: Floats) -> Convolution:
        """`kernel` must be symmetric and reach inner - 1 + margin cells each way."""
        reach = (inner[0] - 1 + margin, inner[1] - 1 + margin)
        if kernel.shape != (2 * reach[0] + 1, 2 * reach[1] + 1):
            raise UsageError("The kernel does not reach across the grid.")
        # A circle long enough that the reach of a cell never meets itself.
        shape = tuple(
            int(scipy.fft.next_fast_len(r + n + margin, real=True))
            for r, n in zip(reach, inner, strict=True)
        )
        wrapped = np.zeros(shape)
        rows = np.arange(-reach[0], reach[0] + 1) % shape[0]
        columns = np.arange(-reach[1], reach[1] + 1) % shape[1]
        wrapped[np.ix_(rows, columns)] = kernel
        return cls(inner, margin, scipy.fft.rfft2(wrapped), (shape[0], shape[1]))

    @property
    def outer(self) -> tuple[int, int]:
        return self.inner[0] + 2 * self.margin, self.inner[1] + 2 * self.margin

    def forward(self, field: Floats) -> Floats:
        """From the inner to the outer grid."""
        return self._apply(field, -self.margin, self.outer)

    def backward(self, field: Floats) -> Floats:
        """From the outer to the inner grid: the transpose of `forward`."""
        return self._apply(field, self.margin, self.inner)

    def _apply(self, field: Floats, shift: int, out: tuple[int, int]) -> Floats:
        product = scipy.fft.rfft2(field, self.shape) * self.spectrum
        whole = scipy.fft.irfft2(product, self.shape, overwrite_x=True)
        rows = np.arange(shift, shift + out[0]) % self.shape[0]
        columns = np.arange(shift, shift + out[1]) % self.shape[1]
        return np.asarray(whole[np.ix_(rows, columns)], np.float64)


_ITERATIONS = 60
_CLOSE_M = 0.01
"""Weiszfeld's iteration ends when it moves by less than a centimetre, far below a lattice step."""


@compiled
def posterior_centres(
    reports: Floats, places: Floats, prior: Floats, per_metre: float, median: bool
) -> Floats:
    """Mean or geometric median of the posterior of every report (metres)."""
    found = np.empty_like(reports)
    weight = np.empty(prior.size)
    for i in range(reports.shape[0]):
        nearest = np.inf
        for j in range(prior.size):
            d = math.hypot(places[j, 0] - reports[i, 0], places[j, 1] - reports[i, 1])
            weight[j] = d
            nearest = min(nearest, d)
        total, x, y = 0.0, 0.0, 0.0
        for j in range(prior.size):
            # The nearest place has weight one, so that far reports do not underflow to nothing.
            weight[j] = prior[j] * math.exp(-per_metre * (weight[j] - nearest))
            total += weight[j]
            x += weight[j] * places[j, 0]
            y += weight[j] * places[j, 1]
        x, y = x / total, y / total
        if median:
            for _ in range(_ITERATIONS):
                pull, px, py = 0.0, 0.0, 0.0
                for j in range(prior.size):
                    d = math.hypot(places[j, 0] - x, places[j, 1] - y)
                    w = weight[j] / max(d, _CLOSE_M)
                    pull += w
                    px += w * places[j, 0]
                    py += w * places[j, 1]
                px, py = px / pull, py / pull
                moved = math.hypot(px - x, py - y)
                x, y = px, py
                if moved < _CLOSE_M:
                    break
        found[i, 0], found[i, 1] = x, y
    return found
