"""`paris`: hourly density per zone by clusters and Fourier shapes, with a guarantee that holds.

Acs & Castelluccia (2014), corrected: noisy totals of places (a histogram and a capped grand
total), neighbours merged until each cluster is large enough for the noise, one noisy series
per cluster, its shape cleaned of noise, totals times shapes, small hours smoothed, back to
zones. Claim: (epsilon, delta)-DP for adding or removing one user's whole record, pure
epsilon-DP with the parameter noise = laplace; `budget` and `spectrum` have the sensitivities.
Clusters are made from noisy totals and a public threshold tau = sqrt(slots) * sigma /
tolerance; all that follows a measurement is post-processing.

*Shapes.* With Gaussian noise all coefficients cost as much as some of them, and in an orthonormal
basis noise on the hours is noise on the coefficients. So integers get integer noise in time, and
which coefficients to believe is decided afterwards from noisy numbers, for free; the setting
`keep = exponential` pays for a choice before the noise instead, as the paper does. With Laplace
noise every coefficient costs, so only the kept ones get noise (`spectrum`).

*No intervals*: how far a place differs from the course that its cluster shares shows in none of
these measurements, and intervals with an assumed spread held 16 to 98 % of counts instead of 90,
depending on the kind of records (docs/decisions/intervals.md).

Cost: three passes over the events; everything after them takes seconds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.density.common import Table, bound_in_words, bounded_counts, rounded, user_period
from sfumato.density.paris.budget import (
    CHOICE,
    HISTOGRAM,
    SERIES,
    choice,
    coefficient_sd,
    divide,
    histogram_units,
    series_sd,
    take,
)
from sfumato.density.paris.settings import WORDS, Cut, Histogram, Keep, Noise, Settings
from sfumato.density.paris.spectrum import coefficient_counts, cut_costs, row_costs
from sfumato.density.paris.totals import WorkingSpace, measure_totals, working_space
from sfumato.density.refine.fourier import (
    cheapest_cut,
    first_shapes,
    forward,
    inverse,
    shrunk_shapes,
)
from sfumato.density.refine.spatial import merge_neighbours
from sfumato.density.refine.special_hours import smooth_nights
from sfumato.density.scheme import (
    Declaration,
    Density,
    Margin,
    Plan,
    PlannedMeasurement,
    PublicFacts,
)
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.model.rounding import rounded_up
from sfumato.model.source import Source
from sfumato.privacy.events import (
    BoundedRangeEvent,
    ConcentratedEvent,
    GaussianEvent,
    LaplaceEvent,
    Measurement,
    PrivacyEvent,
)
from sfumato.privacy.mechanisms.additive import laplace_variance
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
) -> tuple[Table, Measurement]:
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
        return first_shapes(noisy, kept, settings.transform), measured
    measured = take(wall, box, plan, SERIES)
    noisy, variance = measured.estimate(), measured.sd**2
    if settings.keep is Keep.SHRINK:
        return shrunk_shapes(noisy, scale, variance, settings.transform), measured
    if kept is None:
        kept = cheapest_cut(forward(noisy, settings.transform), variance)
    return first_shapes(noisy, kept, settings.transform), measured


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


NO_INTERVALS = (
    "No interval is stated: the places of a cluster share one course over time, and how far each "
    "of them is from it was not measured, nor what the limits on each person's share left out."
)


class Paris:
    """The recipe. Its parameters are those of `settings.WORDS`."""

    declares = Declaration(
        WORDS,
        margins={HISTOGRAM: Margin.PLACES},
        refines_zones=True,
        # One person reaches the cap in a day, the crowd suffices for several clusters, and
        # nothing that could betray somebody is smoothed away.
        audited_with={"total_cap": 40, "tolerance": 0.05, "nights": False},
        other_values={
            "space": {"space": "zones"},
            "histogram": {"histogram": "one-visit"},
            "histogram_limit": {"histogram_limit": 3.0},
            "histogram_share": {"histogram_share": 0.3},
            "total_share": {"total_share": 0.0},
            "total_cap": {"total_cap": 20},
            "choice_share": {"choice_share": 0.2, "keep": "exponential"},
            "cut": {"cut": "each", "keep": "exponential"},
            "noise": {"noise": "laplace"},
            "tolerance": {"tolerance": 0.5},
            "keep": {"keep": "exponential"},
            "k": {"k": 5, "keep": "first"},
            "transform": {"transform": "dft", "keep": "exponential"},
            "nights": {"nights": True},
        },
        no_posterior="The places of a cluster share one course over time, and how far each of "
        "them is from it was not measured, nor what the limits on each person's share left out.",
    )

    @property
    def name(self) -> str:
        return "paris"

    def plan(self, facts: PublicFacts) -> Plan:
        user_period(self.name, facts)
        settings = Settings.of(facts)
        events, reached = divide(facts, settings)
        sd = series_sd(events[SERIES], facts, settings)
        units = {"histogram": histogram_units(settings)}
        cells = {"histogram": facts.places, "total": 1, SERIES: facts.cells, "choice": 1}
        planned = tuple(
            PlannedMeasurement(
                label,
                event,
                cells[label],
                sd if label == SERIES else _sd(event, units.get(label, 1)),
            )
            for label, event in events.items()
        )
        law = "Laplace" if settings.noise is Noise.LAPLACE else "Gaussian"
        bar = threshold(sd, facts.grid.slots, settings.tolerance)
        lines = (
            f"{facts.places} places are merged into clusters of at least {bar:,.0f} "
            f"{facts.counting}; each cluster's {facts.grid.slots} slots get discrete {law} "
            f"noise of standard deviation {sd:.3g}, and its shape is shared by its places.",
            "Totals of places get noise of standard deviation "
            f"{planned[0].sd:.3g} before they are scaled to the noisy grand total.",
            f"It costs epsilon {rounded_up(reached.epsilon, 4)} outright; delta is not used."
            if settings.noise is Noise.LAPLACE
            else f"It costs epsilon {rounded_up(reached.epsilon, 4)} at delta {facts.delta:g} "
            f"(rho {rounded_up(reached.rho or 0, 4)}, by {reached.method}).",
        )
        return Plan(self.name, planned, sd, lines, _bound_in_words(facts, settings))

    def run(self, source: Source, wall: Wall, facts: PublicFacts) -> Density:
        settings, plan = Settings.of(facts), self.plan(facts)
        space = working_space(facts, settings.space)
        totals = measure_totals(source, wall, facts, settings, plan)
        sd = series_sd(plan.events[SERIES], facts, settings)
        cells = space.totals(totals.values)
        label = merge_neighbours(
            cells,
            space.layout.centres,
            space.layout.areas,
            threshold(sd, facts.grid.slots, settings.tolerance),
        )
        counts = bounded_counts(source, wall, facts, SERIES)
        shapes, measured = measure_shapes(
            cluster_counts(counts, space, label),
            wall,
            facts,
            settings,
            plan,
            np.asarray(np.bincount(label, weights=cells), dtype=np.float64),
        )
        table = cells[:, None] * _nights(shapes, facts, settings)[label]
        ids, values = space.released(facts, table)
        (values,) = rounded(values)
        taken = (*totals.measurements, measured)
        return Density(ids, values, None, None, None, taken, (NO_INTERVALS,))


def _bound_in_words(facts: PublicFacts, settings: Settings) -> str:
    """What one person may contribute to totals, grand total and series."""
    if settings.histogram is Histogram.CLIPPED:
        totals = (
            "each person's totals per place were weighted down to a Euclidean norm of at most "
            f"{settings.histogram_limit:g}"
        )
    else:
        totals = "one random visit of each person was kept"
    total = f" At most {settings.total_cap} visits of a person enter the grand total."
    return (
        f"For the totals of places {totals}."
        + (total if settings.total_share else "")
        + " For the course over time: "
        + bound_in_words(facts.bound, facts.counting)
    )


def threshold(sd: float, slots: int, tolerance: float) -> float:
    """tau: the total at which a series' expected error is the tolerated share of it."""
    return math.sqrt(slots) * sd / tolerance


def _sd(event: PrivacyEvent, units: int) -> float:
    """Standard deviation in counts; a choice has none."""
    if isinstance(event, BoundedRangeEvent | ConcentratedEvent):
        return 0.0
    if isinstance(event, LaplaceEvent):
        return math.sqrt(laplace_variance(event.scale)) / units
    assert isinstance(event, GaussianEvent)
    return math.sqrt(event.sigma2) / units


def _nights(shapes: Table, facts: PublicFacts, settings: Settings) -> Table:
    """Shapes with smooth small hours. A fit scales with its series, so clusters suffice."""
    if not settings.nights:
        return shapes
    return np.maximum(smooth_nights(shapes, facts.grid.starts()), 0.0)
