"""The noisy hours of clusters, and the shape each cluster keeps after the noise.

With Gaussian noise all coefficients cost as much as some of them, and in an orthonormal basis
noise on the hours is noise on the coefficients. So integers get integer noise in time, and
which coefficients to believe is decided afterwards from noisy numbers, for free; `exponential`
pays for a choice before the noise instead, as the paper does.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.density.paris.budget import CHOICE, SERIES, choice, gaussian_event, series_units
from sfumato.density.paris.cut import cut_costs
from sfumato.density.paris.settings import Keep, Settings
from sfumato.density.paris.space import WorkingSpace
from sfumato.density.refine.fourier import cheapest_cut, forward
from sfumato.density.refine.shapes import Shapes, first_shapes, shrunk_shapes
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
) -> tuple[Shapes, Measurement]:
    """One measurement of all clusters' series, and the shape of each.

    `scale` are the clusters' noisy totals.
    """
    event = gaussian_event(plan, SERIES)
    kept: int | None = settings.k if settings.keep is Keep.FIRST else None
    if settings.keep is Keep.EXPONENTIAL:
        soft = choice(facts, settings)
        sigma = math.sqrt(event.sigma2) / series_units(facts, settings)
        costs = cut_costs(box, sigma, settings.transform)
        chosen = wall.select(
            costs, softness=soft.softness, range_units=soft.range_units, label=CHOICE
        )
        kept = chosen.index + 1
    measured = wall.gaussian(box, sigma2=event.sigma2, touched=event.touched, label=SERIES)
    noisy, variance = measured.estimate(), measured.sd**2
    if settings.keep is Keep.SHRINK:
        return shrunk_shapes(noisy, scale, variance, settings.transform), measured
    if settings.keep is Keep.CUT:
        k = cheapest_cut(forward(noisy, settings.transform), variance)
    else:
        assert kept is not None
        k = np.full(noisy.shape[0], kept, dtype=np.int64)
    return first_shapes(noisy, k, variance, settings.transform), measured
