"""The pure form: Laplace noise on the kept coefficients alone (EFPA), with the right sensitivity.

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
from sfumato.model.bound import Bound, SampleBound
from sfumato.model.counts import Counts
from sfumato.model.errors import UsageError
from sfumato.model.private import Private
from sfumato.privacy.mechanisms.addition import LARGEST, bounded

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
            remedy="Take a smaller --bound, or noise gaussian.",
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
