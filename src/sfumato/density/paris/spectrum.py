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
many clusters there are.

One k for each cluster, as printed, is charged once there as if clusters had different users.
They share users, so pure losses add up over clusters. In zCDP they add up to the same as for
one k: cluster e moves by v_e, its range is sqrt(2) ||v_e||, and the sum of squares is at most
2 C^2 (`privacy.mechanisms.selection` has the proof). Only rounding grows with the number of
clusters: r_e <= sqrt(2) ||v_e|| units + 3 where v_e is not zero, so by the triangle inequality
the norm of all r_e is at most sqrt(2) C units + 3 sqrt(m), m the most clusters one user is in.

Costs are put on a lattice, rounding paid.

The pure form: Laplace noise on the kept coefficients alone (EFPA), with the right sensitivity.

Acs, Chen & Castelluccia (2012) choose k by the exponential mechanism and add Laplace noise to
the first k coefficients; Acs & Castelluccia (2014) do so in every cluster and charge as if
each user were in one cluster only. Here k is one for all clusters and everything is charged.

**Claim.** Pure epsilon-DP for adding or removing one user's whole record: the histogram of one
visit a user (L1 = 1), the capped total (L1 = cap), the choice of k (a bounded range of
sqrt(2) times the L2 bound, see `cut`) and the coefficients each take a share of epsilon.

**Sensitivity of the coefficients.** Let p_j(t) be basis function j at slot t and
a_t = |p_1(t)| + … + |p_k(t)|. A user adds x_{e,t} >= 0 to cluster e in slot t, m_t in all of
slot t. The first k coefficients of all clusters move in L1 by

    sum_e sum_{j<=k} |sum_t x_{e,t} p_j(t)|  <=  sum_e sum_t x_{e,t} a_t  =  sum_t m_t a_t.

With one visit in each of at most l slots that is at most the sum of the l largest a_t; with
weights, ||m||_2 <= C, it is at most C ||a||_2 (Cauchy-Schwarz). The number of clusters does not
enter. The bound through norms, sqrt(k) ||v_e|| in each cluster, gives sqrt(k * clusters * l)
and is larger for all but a few clusters. QED

**Lattice.** Coefficients are real, so the *public* basis is cut towards zero to whole units
u_k = floor(LATTICE / S_k), S_k the bound above: every entry shrinks, so in units the L1
sensitivity is at most u_k S_k <= LATTICE for every k. The charge is therefore the same
whichever k was chosen, and known before it is.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.density.refine.fourier import Transform, forward
from sfumato.errors import UsageError
from sfumato.model.counts import Bound, Counts, SampleBound
from sfumato.model.private import Private
from sfumato.privacy.mechanisms.additive import LARGEST, bounded
from sfumato.privacy.mechanisms.selection import quantise

UNITS = 32
"""Cost units of one count, for one k."""
ROW_UNITS = 1 << 10
"""The same for a k in each cluster, where every cluster is rounded."""


def cut_costs(
    box: Private[Counts], sigma: float | NDArray[np.float64], transform: Transform
) -> Private[NDArray[np.int64]]:
    """Integer costs of k = 1 … slots for cluster x slot counts.

    `sigma` is the noise of a coefficient in counts: one number, or one for each k.
    """

    def costs(counts: Counts) -> NDArray[np.int64]:
        series = counts.values / np.float64(counts.units_per_count)
        tails = dropped_norms(forward(series, transform))
        k = np.arange(1, series.shape[1] + 1)
        utilities = -(tails + np.sqrt(k * series.shape[0]) * sigma)
        return quantise(utilities, units=UNITS, spread=0.0)[0]  # the range: see `cost_range`

    return box.map(costs, "costs of keeping the first coefficients")


def row_costs(
    box: Private[Counts], sigma: float, transform: Transform
) -> Private[NDArray[np.int64]]:
    """Integer costs of k = 1 … slots, for each cluster by itself."""

    def costs(counts: Counts) -> NDArray[np.int64]:
        series = counts.values / np.float64(counts.units_per_count)
        k = np.arange(1, series.shape[1] + 1)
        utilities = -(dropped_in_rows(forward(series, transform)) + np.sqrt(k) * sigma)
        return quantise(utilities, units=ROW_UNITS, spread=0.0)[0]

    return box.map(costs, "costs of keeping the first coefficients of each cluster")


def cost_range(spread: float) -> int:
    """How far one user moves two costs apart, in cost units, for utilities that move `spread`."""
    _, units = quantise(np.zeros(0), units=UNITS, spread=spread * (1 + 1e-12))
    return units


def row_range(spread: float, clusters: int) -> int:
    """The Euclidean norm of all clusters' ranges, `spread` being that of the utilities' moves."""
    return math.ceil(ROW_UNITS * spread * (1 + 1e-12)) + math.ceil(3 * math.sqrt(clusters))


def dropped_norms(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """||F_{>k}|| over all rows for k = 1 … n.

    Summed from the far end without differences: the error is some 1e-13 of the whole norm,
    far below a quarter of a cost unit for any number of people.
    """
    norms: NDArray[np.float64] = _beyond(np.square(coefficients).sum(axis=0)[None])[0]
    return norms


def dropped_in_rows(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """||F_{>k}|| of every row by itself."""
    return _beyond(np.square(coefficients))


def _beyond(energy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Roots of the sums over what follows each entry of a row."""
    sums = np.cumsum(energy[:, ::-1], axis=1)[:, ::-1]
    norms: NDArray[np.float64] = np.sqrt(np.pad(sums[:, 1:], ((0, 0), (0, 1))))
    return norms


LATTICE = 1 << 20
"""L1 sensitivity of the coefficients, in units of the counts' own lattice."""


def coefficient_sensitivity(bound: Bound, slots: int, transform: Transform) -> NDArray[np.float64]:
    """S_k in counts for k = 1 … slots: how far one user moves the first k coefficients in L1."""
    sums = np.cumsum(np.abs(_basis(slots, transform)), axis=1)  # slot x k
    if isinstance(bound, SampleBound):
        most = np.sort(sums, axis=0)[::-1][: min(bound.slots, slots)]
        found = most.sum(axis=0)
    else:
        found = bound.limit * np.linalg.norm(sums, axis=0)
    return np.asarray(found * (1 + 1e-12), dtype=np.float64)


def units_of(bound: Bound, slots: int, k: int, transform: Transform) -> int:
    """u_k: lattice units of one coefficient of one count."""
    units = math.floor(LATTICE / float(coefficient_sensitivity(bound, slots, transform)[k - 1]))
    if units < 64:
        raise UsageError(
            "The bound is too loose for the lattice of coefficients.",
            remedy="Take a smaller `bound`, or noise gaussian.",
        )
    return units


def coefficient_counts(
    box: Private[Counts], bound: Bound, k: int, transform: Transform
) -> Private[Counts]:
    """The first k coefficients of every row, in exact integers.

    The rows must be those of a bound on mass per slot, or sums of such rows.
    """

    def transformed(counts: Counts) -> Counts:
        slots = counts.shape[1]
        units = units_of(bound, slots, k, transform)
        whole = np.trunc(_basis(slots, transform)[:, :k] * units).astype(np.int64)
        # Cut where a sum could wrap: a public limit that moves no two neighbours apart.
        held = bounded(counts.values, LARGEST // (slots * max(int(np.abs(whole).max()), 1)))
        l1 = float(LATTICE * counts.units_per_count)
        return Counts(
            values=held @ whole,
            units_per_count=counts.units_per_count * units,
            l1=l1,
            l2=l1,
            counting=counts.counting,
            what="first coefficients of clusters",
        )

    return box.map(transformed, "first coefficients of clusters")


def _basis(slots: int, transform: Transform) -> NDArray[np.float64]:
    """Slot x coefficient: the transform of one visit in each slot."""
    return forward(np.eye(slots), transform)
