"""`fit`, the default for trips: measure once, then fit a pool of candidates to everything at once.

One Gaussian measurement of all blocks of `blocks.Layout` (a vector of length at most one for each
trip) and one of the clock, neither of which hangs on the other's answer. Everything after it is
post-processing: smooth fields of visits, origins and destinations; candidate trips in three rounds,
each drawn from the fit before (`pool`); their weights by maximum entropy (`maxent`); systematic
resampling, which is controlled rounding of the weights; every point moved inside its cell of a
public lattice, so that no two trips are the same.

*Claim.* Unit: one trajectory. Neighbours: add or remove one. Sensitivity: L2 at most 2^20 lattice
units for the blocks together and 1 for the clock, in exact integers (`blocks`, `trajectories`).
Cost: one Gaussian event each; their rho are .99 and .01 of the method's. Box, shares, grids and the
expected number of trips are public; nothing else is read.

Shares of the blocks are a public function of x = n mu (expected trips times the sharpness of the
whole budget), interpolated on log x between four anchors: coarse tables where noise is loud, fine
ones and longer runs where it is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from sfumato.density.scheme import Plan, PlannedMeasurement
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.accounting import gaussian_mu
from sfumato.privacy.wall import Wall
from sfumato.synthesis.method import (
    Block as Measured,
)
from sfumato.synthesis.method import (
    Chunk,
    Declaration,
    Figures,
    Noisy,
    Reads,
    Setting,
    SynthFacts,
    TripTables,
    blocks_within,
    measured_blocks,
    people_stream,
)
from sfumato.synthesis.trips.blocks import UNITS, Block, Floats, Layout, Paths
from sfumato.synthesis.trips.maxent import Fitted, fit_weights, smooth_prior
from sfumato.synthesis.trips.maxent import Noisy as NoisyBlock
from sfumato.synthesis.trips.pool import (
    Ends,
    drawn_ends,
    field_of,
    jittered,
    moved_ends,
    pair_order,
    routed,
    spliced,
    systematic,
)
from sfumato.synthesis.trips.trajectories import (
    CLOCK,
    CLOCK_SHARE,
    TRAJECTORY,
    Timed,
    box_of,
    by_hour,
    chunks_of,
    clock_block,
    clock_counts,
    clock_of,
    expected,
    integer_counts,
    layout_tables,
    size_km,
    true_trips,
)

TRIPS = "trips"
"""Label of the one measurement of all blocks."""

Shares = Mapping[tuple[str, int], float]
ANCHORS: tuple[tuple[float, Shares], ...] = (
    # Loud noise (1,000 trips at epsilon 0.5): quarters of the town and where trips head.
    (80.0, {("visits", 8): 0.32, ("visits", 4): 0.16, ("ends", 8): 0.14, ("pair", 3): 0.12,
            ("shape", 1): 0.04, ("moves", 4): 0.22}),
    # 30,000 trips at epsilon 0.1. Visits 16 + 8 were best of five splits on other cab trips in rank
    # correlation and hot spots together; with turns at half of this, patterns lose 3 points of F1.
    (800.0, {("visits", 16): 0.30, ("visits", 8): 0.23, ("ends", 16): 0.09, ("pair", 6): 0.09,
             ("shape", 1): 0.01, ("moves", 8): 0.14, ("turns", 6): 0.14}),
    # 30,000 trips at epsilon 1.
    (7000.0, {("visits", 32): 0.17, ("visits", 16): 0.08, ("ends", 32): 0.10, ("pair", 6): 0.20,
              ("pair", 12): 0.15, ("shape", 1): 0.02, ("turns", 8): 0.08, ("runs", 6): 0.10,
              ("moves", 16): 0.10}),
    # The same at epsilon 2: a little more for pairs and runs (trip JSD .064, was .066).
    (14_000.0, {("visits", 32): 0.14, ("visits", 16): 0.06, ("ends", 32): 0.12, ("pair", 6): 0.16,
                ("pair", 12): 0.18, ("shape", 1): 0.02, ("turns", 8): 0.10, ("runs", 6): 0.12,
                ("moves", 16): 0.10}),
)  # fmt: skip
LEAST_SHARE = 0.01
"""A table with less of the budget says nothing and is left out."""
ROUNDS = ((0.3, 60), (0.6, 60), (1.0, 100))
"""Of the last pool's size, and L-BFGS steps. More steps change no figure by a point."""
LEAN, ROUGH = (0.0, 0.9), (0.1, 0.7)
"""How strongly a path keeps to busy cells, and how rough its random field is: wide enough that the
weights can choose (those of a trial on other cab trips)."""
FRESH, KEPT, TWO_LEGS = 0.15, 0.25, 0.1
"""Of a later round: endpoints from the fields again, trips of the round before, two legs."""
LEAST_POOL = 100_000
"""Candidates, however few trips are made: the fit is to all true trips."""
LATTICE = 192
"""Cells a side that a made-up point is anywhere in: a multiple of the grids of 3, 4, 6, 8, 12, 16
and 32 cells, so that moving it leaves its cells as they were fitted."""


def shares_at(x: float) -> dict[tuple[str, int], float]:
    """Shares of the blocks for expected trips times mu; they sum to one."""
    at = [math.log(anchor) for anchor, _ in ANCHORS]
    where = min(max(math.log(max(x, 1e-9)), at[0]), at[-1])
    k = max(i for i in range(len(at) - 1) if at[i] <= where)
    part = (where - at[k]) / (at[k + 1] - at[k])
    mixed: dict[tuple[str, int], float] = {}
    for weight, (_, shares) in ((1 - part, ANCHORS[k]), (part, ANCHORS[k + 1])):
        for key, share in shares.items():
            mixed[key] = mixed.get(key, 0.0) + weight * share
    kept = {key: share for key, share in mixed.items() if share >= LEAST_SHARE}
    whole = math.fsum(kept.values()) * (1 + 1e-12)
    return {key: share / whole for key, share in kept.items()}


def layout_of(facts: SynthFacts) -> Layout:
    """The blocks that these facts ask for."""
    wide, high = size_km(box_of(facts))
    x = expected(facts) * gaussian_mu(facts.public.epsilon, facts.public.delta)
    shares = shares_at(x).items()
    aspect = min(max(wide / high, 0.01), 100.0)
    return Layout(tuple(Block(kind, side, share) for (kind, side), share in shares), aspect)


class Fit:
    """Trips of a pool of candidates, weighted to explain one noisy measurement of everything."""

    name = "fit"
    declares: ClassVar[Declaration] = Declaration(
        Reads.TRACES,
        TRAJECTORY,
        MappingProxyType(
            {"candidates": Setting("Candidate trips of the last round", 200_000, 1_000, 5_000_000)}
        ),
        least=24.0,
    )

    def plan(self, facts: SynthFacts) -> Plan:
        planned = _planned(facts)
        told = ", ".join(f"{b.label} {b.share:.2f}" for b in layout_of(facts).blocks)
        return Plan(
            scheme=self.name,
            measurements=tuple(planned.values()),
            sd=planned[TRIPS].sd,
            lines=(f"One measurement of all trips; tables and shares: {told}.",),
            bound="each trip one vector of length at most 1",
        )

    def measure(self, source: Any, wall: Wall, facts: SynthFacts) -> Noisy:
        trips = true_trips(source, facts)
        boxes = {
            TRIPS: partial(feature_counts, trips, layout_of(facts)),
            CLOCK: partial(clock_counts, trips),
        }
        return measured_blocks(_planned(facts), lambda label: boxes[label](), wall)

    def generate(self, noisy: Noisy, facts: SynthFacts) -> Iterator[Chunk]:
        layout, sd = layout_of(facts), _planned(facts)[TRIPS].sd
        rng = people_stream(facts.seed, TRIPS)
        made = made_trips(
            layout, noisy[TRIPS], sd, facts.people, rng, int(facts.number("candidates"))
        )
        yield from chunks_of(made, facts, noisy[CLOCK], rng)

    def counted(self, made: Timed, noisy: Noisy, facts: SynthFacts) -> Noisy:
        del noisy
        return {TRIPS: layout_of(facts).tally(made.paths) / UNITS, CLOCK: clock_of(made)}

    def shown(self, tables: Noisy, noisy: Noisy, facts: SynthFacts) -> TripTables:
        del noisy
        return layout_tables(layout_of(facts), tables[TRIPS], by_hour(tables), box_of(facts))

    def released(self, noisy: Noisy, facts: SynthFacts) -> Figures:
        return Figures(trips=self.shown(noisy, noisy, facts))


def _planned(facts: SynthFacts) -> dict[str, PlannedMeasurement]:
    layout = layout_of(facts)
    blocks = (
        Measured(TRIPS, layout.size, float(UNITS), 1 - CLOCK_SHARE, UNITS, layout.most),
        clock_block(),
    )
    return blocks_within(facts.public.epsilon, facts.public.delta, blocks)


def feature_counts(trips: Private[Timed], layout: Layout) -> Private[Counts]:
    """All blocks of all trips as one vector on the lattice."""

    def counted(found: Timed) -> Counts:
        l1 = math.fsum(math.sqrt(b.most * b.share) for b in layout.blocks) * UNITS
        return integer_counts(layout.tally(found.paths), l1, float(UNITS), TRIPS, UNITS)

    return trips.map(counted, TRIPS)


def made_trips(
    layout: Layout,
    noisy: Floats,
    sd: float,
    people: int,
    rng: np.random.Generator,
    candidates: int,
) -> Paths:
    """Trips that fit noisy feature sums (`Layout.tally` in counts, noise `sd`)."""
    tables: dict[str, list[tuple[int, Floats, float]]] = {}
    blocks = []
    for block, where in zip(layout.blocks, layout.slices(), strict=True):
        scale = math.sqrt(block.share)
        values = np.asarray(noisy[where], np.float64) / scale
        blocks.append(NoisyBlock(values, sd / scale, smooth_prior(block)))
        halves = {"visits": ("visits",), "ends": ("origin", "goal")}.get(block.kind, ())
        for name, half in zip(halves, np.split(values, len(halves) or 1), strict=False):
            tables.setdefault(name, []).append((block.side, half, sd / scale))
    visits, origin, goal = (field_of(tables[name]) for name in ("visits", "origin", "goal"))
    pool: Paths | None = None
    fitted: Fitted | None = None
    last = min(candidates, max(LEAST_POOL, 20 * people))
    for part, steps in ROUNDS:
        pool = _round(int(part * last), pool, fitted, (visits, origin, goal), layout, rng)
        start = None if fitted is None else fitted.z
        fitted = fit_weights(*layout.features(pool), blocks, steps, start)
    assert pool is not None
    assert fitted is not None
    # In this order a systematic sample is stratified by origin and destination on every scale.
    order = np.argsort(pair_order(pool), kind="stable")
    drawn = order[systematic(fitted.weights[order], people, rng)]
    return jittered(pool.pick(rng.permutation(drawn)), LATTICE, rng)


def _round(
    count: int,
    pool: Paths | None,
    fitted: Fitted | None,
    fields: tuple[Floats, Floats, Floats],
    layout: Layout,
    rng: np.random.Generator,
) -> Paths:
    """A pool of candidates: from the fields, later from the fit before it."""
    visits, origin, goal = fields
    if pool is None or fitted is None:
        ends = drawn_ends(count, origin, goal, rng)
    else:
        fresh = int(FRESH * count)
        moved = moved_ends(pool, fitted.weights, count - fresh, rng)
        ends = Ends.joined(moved, drawn_ends(fresh, origin, goal, rng))
    parts = [routed(ends, visits, layout.aspect, rng, LEAN, ROUGH)]
    if pool is not None and fitted is not None:
        parts.append(pool.pick(np.unique(systematic(fitted.weights, int(KEPT * count), rng))))
    both = Paths.joined(parts)
    even = np.full(len(both), 1 / len(both))
    parts.append(spliced(both, even, int(TWO_LEGS * count), rng))
    return jittered(Paths.joined(parts), LATTICE, rng)
