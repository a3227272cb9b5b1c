"""Weights of candidates by maximum entropy, fitted to noisy sums of their features.

Candidate i has weight w_i proportional to exp(a_i . lambda). With N trips in all the expected
feature sums are N E_w[a]; lambda minimises

    sum_j (N E_w[a_j] - y_j)^2 / (2 v_j) + |z|^2 / 2,      lambda = K z,

where y are noisy sums of variance s^2, v = s^2 + (0.03 y)^2 allows for what no candidate can do,
and K says how smooth lambda is over the grid: it sums blurs of several widths, and z is white a
priori. N is the least-squares one at every step, one for all blocks that count the same things.
L-BFGS on a diagonally preconditioned z. Reads noisy numbers and public candidates only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sfumato.model.compiled import compiled
from sfumato.synthesis.trips.blocks import LENGTHS, RATIOS, Block, Floats, Ints

MODEL_ERROR = 0.03
"""Relative error of a feature sum that candidates are forgiven (tuned on other cab trips)."""


@dataclass(frozen=True, slots=True, eq=False)
class Smooth:
    """Prior of one block's lambda: sum over levels of scale x blur over the first axes."""

    shape: tuple[int, ...]
    levels: tuple[tuple[float, tuple[Floats | None, ...]], ...]
    """Scale, and for every axis a matrix or nothing."""

    @property
    def size(self) -> int:
        return int(np.prod(self.shape)) * len(self.levels)

    def apply(self, z: Floats, transposed: bool = False) -> Floats:
        """K z; with `transposed` K' lambda."""
        count = int(np.prod(self.shape))
        parts = []
        for level, (scale, axes) in enumerate(self.levels):
            field = z if transposed else z[level * count : (level + 1) * count]
            field = field.reshape(self.shape)
            for axis, matrix in enumerate(axes):
                if matrix is not None:
                    turned = matrix.T if transposed else matrix
                    field = np.moveaxis(np.tensordot(turned, field, (1, axis)), 0, axis)
            parts.append(scale * field.ravel())
        return np.concatenate(parts) if transposed else np.sum(parts, axis=0)

    def squares(self, weight: Floats) -> Floats:
        """diag(K' diag(weight) K)."""
        parts = []
        for scale, axes in self.levels:
            field = weight.reshape(self.shape)
            for axis, matrix in enumerate(axes):
                if matrix is not None:
                    field = np.moveaxis(np.tensordot((matrix**2).T, field, (1, axis)), 0, axis)
            parts.append(scale**2 * field.ravel())
        return np.concatenate(parts)


def blur(side: int, width: float) -> Floats:
    """A Gaussian of `width` (share of the side) between cells, rows of unit length."""
    at = (np.arange(side) + 0.5) / side
    matrix = np.exp(-((at[:, None] - at[None]) ** 2) / (2 * width**2))
    unit: Floats = matrix / np.sqrt((matrix**2).sum(1, keepdims=True))
    return unit


def smooth_prior(block: Block) -> Smooth:
    """How smooth a block's lambda is: fields on four scales, and every feature by itself."""
    g = block.side
    if block.kind == "shape":
        one = (blur(LENGTHS, 0.08), blur(RATIOS, 0.2))
        return Smooth((LENGTHS, RATIOS), ((1.0, one), (0.5, (None, None))))
    if block.kind == "pair":
        coarse = blur(g, 0.2)
        return Smooth((g, g, g, g), ((1.0, (coarse,) * 4), (1.0, (None,) * 4)))
    tail = {"visits": (), "ends": (2,), "moves": (8,), "turns": (64,), "runs": (512,)}[block.kind]
    shape = (*tail, g, g) if block.kind == "ends" else (g, g, *tail)
    free = (None,) * len(tail)
    widths = (0.25, 0.12, 0.06, 0.03) if block.kind in ("visits", "ends") else (0.15,)
    levels: list[tuple[float, tuple[Floats | None, ...]]] = []
    for width in widths:
        if width * g >= 0.4:
            one = (blur(g, width),) * 2
            levels.append((1.0, (*free, *one) if block.kind == "ends" else (*one, *free)))
    levels.append((0.7, (None,) * len(shape)))
    return Smooth(shape, tuple(levels))


@dataclass(frozen=True, slots=True, eq=False)
class Noisy:
    """Noisy feature sums of one block, in trips, and the noise's standard deviation."""

    values: Floats
    sd: float
    prior: Smooth
    group: int = 0
    """Blocks of one group share the number of trips."""


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Weights of the candidates, and the number of trips of each group."""

    weights: Floats
    totals: Floats
    z: Floats
    misfit: float
    """Mean of the squared standardised residuals."""


def fit_weights(
    pointer: Ints,
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    noisy: Sequence[Noisy],
    steps: int,
    start: Floats | None = None,
    model_error: float = MODEL_ERROR,
) -> Fitted:
    """The weights that explain the noisy sums best; `start` is the z of an earlier pool."""
    y = np.concatenate([part.values for part in noisy])
    sizes = [part.values.size for part in noisy]
    edges = np.concatenate([[0], np.cumsum(sizes)])
    bends = np.concatenate([[0], np.cumsum([part.prior.size for part in noisy])])
    sd = np.repeat([part.sd for part in noisy], sizes)
    group = np.repeat([part.group for part in noisy], sizes)
    precision = 1 / (sd**2 + (model_error * np.maximum(y, 0)) ** 2)
    groups = int(group.max()) + 1
    count = pointer.size - 1

    def spread(z: Floats) -> Floats:
        return np.concatenate(
            [p.prior.apply(z[a:b]) for p, a, b in zip(noisy, bends[:-1], bends[1:], strict=True)]
        )

    def gather(field: Floats) -> Floats:
        parts = zip(noisy, edges[:-1], edges[1:], strict=True)
        return np.concatenate([p.prior.apply(field[a:b], True) for p, a, b in parts])

    def weigh(z: Floats) -> tuple[Floats, Floats, Floats]:
        score = _rows(pointer, columns, values, spread(z).astype(np.float32))
        weights = np.exp(score - score.max())
        weights /= weights.sum()
        mean = _sums(pointer, columns, values, weights, y.size)
        above = np.bincount(group, weights=y * mean * precision, minlength=groups)
        below = np.bincount(group, weights=mean * mean * precision, minlength=groups)
        return weights, mean, np.maximum(above / np.maximum(below, 1e-300), 1.0)

    first = np.full(count, 1 / count)
    mean = _sums(pointer, columns, values, first, y.size)
    square = _sums(pointer, columns, values * values, first, y.size)
    above = np.bincount(group, weights=y * mean * precision, minlength=groups)
    below = np.bincount(group, weights=mean * mean * precision, minlength=groups)
    total = np.maximum(above / np.maximum(below, 1e-300), 1.0)[group]
    # Rare features of the pool may be common in the fit: the variance is at least that of the sum.
    variance = np.maximum(square - mean**2, np.maximum(y, 0) / total * 0.3)
    curvature = (total * variance) ** 2 * precision
    parts = zip(noisy, edges[:-1], edges[1:], strict=True)
    scale = 1 / np.sqrt(1 + np.concatenate([p.prior.squares(curvature[a:b]) for p, a, b in parts]))

    def loss(u: Floats) -> tuple[float, Floats]:
        z = u * scale
        weights, mean, totals = weigh(z)
        n = totals[group]
        residual = n * mean - y
        pull = (n * residual * precision).astype(np.float32)
        felt = _rows(pointer, columns, values, pull)
        slope = weights * (felt - weights @ felt)
        gradient = gather(_sums(pointer, columns, values, slope, y.size)) + z
        return float(0.5 * (residual**2 * precision).sum() + 0.5 * z @ z), gradient * scale

    begin = np.zeros(scale.size) if start is None else start / scale
    found = minimize(
        loss, begin, jac=True, method="L-BFGS-B", options={"maxiter": steps, "maxcor": 12}
    )
    z = found.x * scale
    weights, mean, totals = weigh(z)
    misfit = float(np.mean((totals[group] * mean - y) ** 2 * precision))
    return Fitted(weights, totals, z, misfit)


@compiled
def _rows(
    pointer: Ints,
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    field: NDArray[np.float32],
) -> Floats:
    """A field: the sum of every candidate's features times the field."""
    out = np.empty(pointer.size - 1, np.float64)
    for i in range(out.size):
        total = 0.0
        for k in range(pointer[i], pointer[i + 1]):
            total += values[k] * field[columns[k]]
        out[i] = total
    return out


@compiled
def _sums(
    pointer: Ints,
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    weights: Floats,
    size: int,
) -> Floats:
    """A' weights."""
    out = np.zeros(size, np.float64)
    for i in range(weights.size):
        for k in range(pointer[i], pointer[i + 1]):
            out[columns[k]] += values[k] * weights[i]
    return out
