"""The noisy hours of clusters, and the shape each cluster keeps after the noise.

With Gaussian noise all coefficients cost as much as some of them, and in an orthonormal basis
noise on the hours is noise on the coefficients. So integers get integer noise in time, and
which coefficients to believe is decided afterwards from noisy numbers, for free; `exponential`
pays for a choice before the noise instead, as the paper does. With Laplace noise every
coefficient costs, so only the kept ones get noise (`pure`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.density.paris.budget import CHOICE, SERIES, choice, coefficient_sd, take
from sfumato.density.paris.cut import cut_costs, row_costs
from sfumato.density.paris.intervals import Course
from sfumato.density.paris.pure import coefficient_counts
from sfumato.density.paris.settings import Cut, Keep, Noise, Settings
from sfumato.density.paris.space import WorkingSpace
from sfumato.density.refine.fourier import cheapest_cut, forward, inverse
from sfumato.density.refine.shapes import first_shapes, shrunk_shapes
from sfumato.density.scheme import Plan, PublicFacts
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.measurement import Measurement
from sfumato.privacy.mechanisms.linear import apply_map
from sfumato.privacy.wall import Wall


def cluster_counts(
    counts: Private[Counts], space: WorkingSpace, label: NDArray[np.int64]
) -> Private[Counts]:
    """Cluster x slot: the working cells of each cluster added up, in exact integers.

    Clusters are a partition of the cells, so the columns of the joint map still sum to at most
    the map's units and the bound on mass per slot goes through.
    """
    cells = np.arange(label.size)
    gather = csr_array(
        (np.ones(label.size, np.int64), (label, cells)), shape=(int(label.max()) + 1, label.size)
    )
    whole = csr_array(gather @ space.forward)
    return apply_map(counts, whole, space.units, "cluster x slot", mass_per_slot=True)


def measure_shapes(
    box: Private[Counts],
    wall: Wall,
    facts: PublicFacts,
    settings: Settings,
    plan: Plan,
    scale: NDArray[np.float64],
) -> tuple[Course, Measurement]:
    """One measurement of all clusters' series, and the shape of each.

    `scale` are the clusters' noisy totals.
    """
    kept = _chosen_before(box, wall, facts, settings, plan, scale.size)
    if settings.noise is Noise.LAPLACE:
        assert kept is not None
        first = coefficient_counts(box, facts.bound, int(kept[0]), settings.transform)
        measured = take(wall, first, plan, SERIES)
        found = measured.estimate()
        padded = np.pad(found, ((0, 0), (0, facts.grid.slots - found.shape[1])))
        noisy = inverse(padded, settings.transform)
        shapes = first_shapes(noisy, kept, measured.sd**2, settings.transform)
        return Course(shapes, noisy, measured.sd**2 * found.shape[1] / noisy.shape[1]), measured
    measured = take(wall, box, plan, SERIES)
    noisy, variance = measured.estimate(), measured.sd**2
    if settings.keep is Keep.SHRINK:
        shapes = shrunk_shapes(noisy, scale, variance, settings.transform)
        return Course(shapes, noisy, variance), measured
    if kept is None:
        kept = cheapest_cut(forward(noisy, settings.transform), variance)
    return Course(
        first_shapes(noisy, kept, variance, settings.transform), noisy, variance
    ), measured


def _chosen_before(
    box: Private[Counts],
    wall: Wall,
    facts: PublicFacts,
    settings: Settings,
    plan: Plan,
    clusters: int,
) -> NDArray[np.int64] | None:
    """How many coefficients each cluster keeps, where that is settled before the noise."""
    if settings.keep is Keep.FIRST:
        return np.full(clusters, settings.k, dtype=np.int64)
    if settings.keep is not Keep.EXPONENTIAL:
        return None
    soft = choice(facts, settings)
    sd = coefficient_sd(plan.events[SERIES], facts, settings)
    if settings.cut is Cut.EACH:
        chosen = wall.select_in_rows(
            row_costs(box, float(sd[0]), settings.transform),
            softness=soft.softness,
            range_units=soft.range_units,
            label=CHOICE,
        )
        return chosen.indices + 1
    one = wall.select(
        cut_costs(box, sd, settings.transform),
        softness=soft.softness,
        range_units=soft.range_units,
        label=CHOICE,
    )
    return np.full(clusters, one.index + 1, dtype=np.int64)
