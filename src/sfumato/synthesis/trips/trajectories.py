"""Trips on both sides of the wall: true ones in a box, made-up ones with a clock.

Unit: one trajectory, a person's fixes between two pauses of more than 20 minutes. What a trip
gives hangs on that trip alone: its fixes inside the public period and the public box, in order of
time; a trip without any gives nothing. So adding or removing a trip adds or removes its own
vector in every sum, and nothing else.

The clock is measured as one table, hour of the day of a trip's first fix x class of its speed, one
cell a trip: L1 and L2 sensitivity 1. Made-up trips take hour and speed from it, and a day of the
period at random.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.compiled import compiled
from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.model.sphere import EARTH_RADIUS_M
from sfumato.model.traces import MICROSECONDS, Box, Traces, run_starts
from sfumato.privacy.events import Unit, UnitKind
from sfumato.synthesis.method import Block as Measured
from sfumato.synthesis.method import Chunk, Noisy, SynthFacts, TripTables
from sfumato.synthesis.trips.blocks import (
    LENGTHS,
    RATIOS,
    Block,
    Floats,
    Ints,
    Layout,
    Paths,
    length_ends,
)
from sfumato.traces.bounds import TraceSource

TRAJECTORY = Unit(UnitKind.TRAJECTORY)
HOURS = 24
SPEEDS_KMH = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Upper ends of the classes of a trip's mean speed; faster ones are the last class."""
CLOCK = "clock"
CLOCK_SHARE = 0.01
"""Of the budget: 240 cells that nothing else leans on; at 30,000 trips and epsilon 0.1 the noise is
1 % of the trips a cell."""
_HOUR = 3600 * MICROSECONDS
_CHUNK = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """True trips: polylines in the unit square, and the hour x speed class of each."""

    paths: Paths
    clock: Ints


def box_of(facts: SynthFacts) -> Box:
    """The public region, which every method for trips needs."""
    if facts.box is None:
        raise UsageError(
            "Synthetic trips need a public region.",
            remedy="Give `region`: west,south,east,north in degrees.",
        )
    return facts.box


def size_km(box: Box) -> tuple[float, float]:
    """Width and height of a region at its middle latitude."""
    scale = EARTH_RADIUS_M / 1000 * math.pi / 180
    middle = math.cos(math.radians((box.south + box.north) / 2))
    return (box.east - box.west) * scale * max(middle, 1e-3), (box.north - box.south) * scale


def expected(facts: SynthFacts) -> int:
    """How many trips are expected, from public knowledge."""
    return facts.public.expected_users or facts.people


def true_trips(source: TraceSource, facts: SynthFacts) -> Private[Timed]:
    """The trips of the public period and region."""
    box, period = box_of(facts), facts.public.grid.period
    inside = source.bounded(lambda traces: traces.between(*period))
    return inside.map(lambda traces: timed_trips(traces, box, period[0]), "true trips")


def timed_trips(traces: Traces, box: Box, begin: int) -> Timed:
    """Polylines and clock classes of traces; `begin` is the first instant of the period."""
    kept = traces.pick(box.inside(traces.lon, traces.lat))
    starts = run_starts(kept.user, kept.trip)
    x = np.clip((kept.lon - box.west) / (box.east - box.west), 0.0, 1 - 1e-9)
    y = np.clip((kept.lat - box.south) / (box.north - box.south), 0.0, 1 - 1e-9)
    paths = Paths(x, y, starts)
    first, last = starts[:-1], starts[1:] - 1
    hour = (kept.time[first] - begin) // _HOUR % HOURS
    hours = np.maximum(kept.time[last] - kept.time[first], MICROSECONDS) / _HOUR
    speed = np.searchsorted(SPEEDS_KMH, lengths_km(paths, box) / hours)
    return Timed(paths, hour * (len(SPEEDS_KMH) + 1) + speed)


def lengths_km(paths: Paths, box: Box) -> Floats:
    """Length of every polyline."""
    _, total = _along(paths, box)
    return total


def _along(paths: Paths, box: Box) -> tuple[Floats, Floats]:
    """How far along its trip each point is, and the length of every trip, in kilometres."""
    wide, high = size_km(box)
    along = _summed(paths.x, paths.y, paths.starts, wide, high)
    return along, along[paths.starts[1:] - 1]


@compiled
def _summed(x: Floats, y: Floats, starts: Ints, wide: float, high: float) -> Floats:
    """Every trip is summed from zero by itself.

    One running sum over all trips would round the length of a trip by what lies before it, so
    that one trip more could move the class of every later one.
    """
    along = np.empty(x.size)
    for trip in range(starts.size - 1):
        run = 0.0
        for i in range(starts[trip], starts[trip + 1]):
            if i > starts[trip]:
                run += math.hypot((x[i] - x[i - 1]) * wide, (y[i] - y[i - 1]) * high)
            along[i] = run
    return along


def clock_block() -> Measured:
    """The clock as it is planned."""
    return Measured(CLOCK, HOURS * (len(SPEEDS_KMH) + 1), 1.0, CLOCK_SHARE, touched=1)


def clock_counts(trips: Private[Timed]) -> Private[Counts]:
    """Trips by hour and speed, one cell a trip."""
    size = clock_block().cells

    def counted(found: Timed) -> Counts:
        return integer_counts(np.bincount(found.clock, minlength=size), 1.0, 1.0, CLOCK)

    return trips.map(counted, CLOCK)


def clock_of(trips: Timed) -> Floats:
    """Trips by hour and speed, as they are measured."""
    return np.bincount(trips.clock, minlength=clock_block().cells).astype(np.float64)


def by_hour(tables: Noisy) -> Floats:
    """Trips by hour, of a table of the clock."""
    table = np.asarray(tables[CLOCK], dtype=np.float64).reshape(HOURS, -1)
    return np.asarray(table.sum(axis=1), dtype=np.float64)


def layout_tables(layout: Layout, vector: Floats, hours: Floats, box: Box) -> TripTables:
    """What a page shows of a vector of blocks: the finest table of visits, the best paid one of
    pairs, and lengths."""
    found: dict[str, tuple[Block, Floats]] = {}
    for block, part in zip(layout.blocks, layout.slices(), strict=True):
        kept = found.get(block.kind)
        fine = block.kind == "visits"
        rank = block.side if fine else block.share
        if kept is None or rank > (kept[0].side if fine else kept[0].share):
            found[block.kind] = (block, vector[part])
    cells = found["pair"][0].side ** 2
    return TripTables(
        hours=hours,
        cells=found["visits"][1],
        pairs=found["pair"][1].reshape(cells, cells),
        lengths=found["shape"][1].reshape(LENGTHS, RATIOS).sum(axis=1),
        ends=tuple(length_ends(math.hypot(*size_km(box))).round(3).tolist()),
    )


def integer_counts(
    values: NDArray[np.int64], l1: float, l2: float, what: str, units: int = 1
) -> Counts:
    """Counts of trips on a lattice, with what one trip can add."""
    return Counts(values.astype(np.int64), units, l1, l2, Counting.VISITS, what)


def chunks_of(
    paths: Paths, facts: SynthFacts, clock: Floats, rng: np.random.Generator
) -> Iterator[Chunk]:
    """Made-up trips as records, every trip a person of its own, with times from a noisy clock."""
    box = box_of(facts)
    size = max(1, _CHUNK // max(1, int(paths.points.max(initial=1))))
    law = np.maximum(clock, 0.0)
    law = np.cumsum(law if law.sum() > 0 else np.ones_like(law))
    begin, end = facts.public.grid.period
    days = max((end - begin) // (HOURS * _HOUR), 1)
    edges = np.array([SPEEDS_KMH[0] / 2, *SPEEDS_KMH, SPEEDS_KMH[-1] * 1.5])
    for a in range(0, len(paths), size):
        part = paths.pick(np.arange(a, min(a + size, len(paths)), dtype=np.int64))
        count = len(part)
        cell = np.searchsorted(law, rng.random(count) * law[-1], side="right")
        hour, fast = np.divmod(np.minimum(cell, law.size - 1), len(SPEEDS_KMH) + 1)
        speed = edges[fast] * (edges[fast + 1] / edges[fast]) ** rng.random(count)
        start = (rng.integers(0, days, count) * HOURS + hour + rng.random(count)) * _HOUR
        along, _ = _along(part, box)
        rank = np.arange(part.x.size) - np.repeat(part.starts[:-1], part.points)
        # a second apart at least, so that no two records of a trip share an instant
        passed = (along / np.repeat(speed, part.points) * 3600 + rank) * MICROSECONDS
        # A trip longer than the period at its speed is that much faster.
        total = passed[part.starts[1:] - 1]
        passed *= np.repeat(
            np.minimum(1.0, 0.9 * (end - begin) / np.maximum(total, 1.0)), part.points
        )
        latest = np.maximum(end - begin - 1 - passed[part.starts[1:] - 1], 0.0)
        time = begin + (np.repeat(np.minimum(start, latest), part.points) + passed).astype(np.int64)
        yield Chunk(
            user=np.repeat(np.arange(a, a + count, dtype=np.int64), part.points),
            time=np.minimum(time, end - 1),
            lon=box.west + part.x * (box.east - box.west),
            lat=box.south + part.y * (box.north - box.south),
            trip=np.zeros(part.x.size, np.int64),
        )
