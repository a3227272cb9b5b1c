"""The private choice of how many coefficients to keep: EFPAG's step, charged as it should be.

The cost of keeping the first k coefficients of all clusters is (Acs & Castelluccia 2014)

    u_k = ||F_{>k}||_2 + sqrt(k * clusters) * sigma,

F the orthonormal transforms of all clusters' series stacked into one vector. The second term
is public. **Lemma.** For k1 < k2 and any change V of F the two first terms move apart by at
most sqrt(2) ||V||_2. *Proof.* Let A be the coefficients in (k1, k2], B those beyond k2,
r = ||(A, B)||, g = r - ||B||. Its gradient is (A/r, B/r - B/||B||), of squared norm
(r^2 - ||B||^2)/r^2 + (1 - ||B||/r)^2 = 2 - 2 ||B||/r <= 2, so g is sqrt(2)-Lipschitz. QED

One user moves F by at most C or sqrt(l) over all clusters together. So one k for all clusters
has range sqrt(2) C in counts, and weights exp(-u_k / b) are one bounded-range choice however
many clusters there are. The printed form chooses k in each cluster and charges once, which
does not add up: a user is in many clusters. Costs are put on a lattice, rounding paid.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.fourier import Transform, forward
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.mechanisms.exponential import quantise

UNITS = 32
"""Cost units of one count."""


def cut_costs(
    box: Private[Counts], sigma: float, transform: Transform
) -> Private[NDArray[np.int64]]:
    """Integer costs of k = 1 … slots for cluster x slot counts; `sigma` in counts."""

    def costs(counts: Counts) -> NDArray[np.int64]:
        series = counts.values / np.float64(counts.units_per_count)
        tails = dropped_norms(forward(series, transform))
        k = np.arange(1, series.shape[1] + 1)
        utilities = -(tails + np.sqrt(k * series.shape[0]) * sigma)
        return quantise(utilities, units=UNITS, spread=0.0)[0]  # the range: see `cost_range`

    return box.map(costs, "costs of keeping the first coefficients")


def cost_range(spread: float) -> int:
    """How far one user moves two costs apart, in cost units, for utilities that move `spread`."""
    _, units = quantise(np.zeros(0), units=UNITS, spread=spread * (1 + 1e-12))
    return units


def dropped_norms(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """||F_{>k}|| over all rows for k = 1 … n.

    Summed from the far end without differences: the error is some 1e-13 of the whole norm,
    far below a quarter of a cost unit for any number of people.
    """
    energy = np.square(coefficients).sum(axis=0)
    beyond = np.cumsum(energy[::-1])[::-1]
    norms: NDArray[np.float64] = np.sqrt(np.append(beyond[1:], 0.0))
    return norms
