"""A bank of spatial kernels in their eigenbases, fitted to clean fields and used on noisy ones.

Each kernel is D (r exp(-distance / L) + (1 - r) I) D with D the size of a place or one, the
family that `density.refine.spatial` chooses from, on a finer grid. Fitted by likelihood to a
field without noise, which only an oracle has.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Field = NDArray[np.float64]
SHARES = (0.4, 0.8, 0.95)
LENGTHS = (400.0, 1200.0, 3000.0, 8000.0)


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """Eigenvalues, their logarithms' sum, and the basis (None: the places themselves)."""

    values: Field
    basis: Field | None

    def rotated(self, fields: Field) -> Field:
        return fields if self.basis is None else np.asarray(self.basis.T @ fields)

    def back(self, fields: Field) -> Field:
        return fields if self.basis is None else np.asarray(self.basis @ fields)


@dataclass(frozen=True, slots=True, eq=False)
class Bank:
    """All kernels over one set of places."""

    kernels: tuple[Kernel, ...]

    @classmethod
    def over(cls, centres: Field, size: Field) -> Bank:
        """Kernels for places at `centres`; `size` is relative, with mean about one."""
        away = np.linalg.norm(centres[:, None] - centres[None], axis=2)
        found = []
        for scale in (size, np.ones_like(size)):
            found.append(Kernel(np.square(scale), None))
            for share, length in itertools.product(SHARES, LENGTHS):
                prior = share * np.exp(-away / length)
                prior[np.diag_indices_from(prior)] = 1.0
                prior *= np.outer(scale, scale)
                values, basis = scipy.linalg.eigh(prior, driver="evd", overwrite_a=True)
                found.append(Kernel(np.maximum(values, 1e-12), basis))
        return cls(tuple(found))

    def wiener(self, clean: Field, noisy: Field, noise_variance: float) -> Field:
        """Posterior mean of each noisy column under the kernel likeliest for its clean one."""
        n, columns = clean.shape
        best = np.full(columns, -np.inf)
        chosen, strength = np.zeros(columns, dtype=np.int64), np.zeros(columns)
        for k, kernel in enumerate(self.kernels):
            squares = np.square(kernel.rotated(clean)) / kernel.values[:, None]
            scale = np.maximum(squares.mean(axis=0), 1e-300)
            score = -0.5 * (n * np.log(scale) + np.log(kernel.values).sum())
            better = score > best
            best[better], chosen[better], strength[better] = score[better], k, scale[better]
        result = np.zeros(clean.shape)
        for k in np.unique(chosen):
            of, kernel = chosen == k, self.kernels[k]
            signal = strength[of] * kernel.values[:, None]
            gain = signal / (signal + noise_variance)
            result[:, of] = kernel.back(gain * kernel.rotated(noisy[:, of]))
        return result
