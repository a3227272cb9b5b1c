"""Run a scheme over an array of counts, for tests, audits and studies. Publishes nothing.

The noise is the real one, drawn from a seed, so everything that comes out is tainted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, windows_to_show
from sfumato.streams.output import Consistency, Steady
from sfumato.streams.scheme import Finished, Meter, StreamScheme, Values


def boxed(values: NDArray[np.int64], facts: StreamFacts, what: str = "slot") -> Private[Counts]:
    """Counts of one slot (a vector) or of several (cell x slot), in their box.

    For several slots the sensitivities are those of all of them together.
    """
    slots = values.shape[1] if values.ndim == 2 else 1
    counts = Counts(
        values=np.ascontiguousarray(values, dtype=np.int64),
        units_per_count=1,
        l1=float(facts.l1 * slots),
        l2=float(facts.l2 * slots**0.5),
        counting=Counting.PEOPLE,
        what=what,
    )
    return Private(counts, what)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Slot x cell of what was published, whether it was fresh, and the largest share spent."""

    values: Values
    fresh: NDArray[np.bool_]
    share: float
    sd: Values
    """Of the noise in each slot, as the stream states it."""
    median: Values
    """What has the least absolute error: `values`, where a scheme publishes one number."""


def run_scheme(
    scheme: StreamScheme,
    facts: StreamFacts,
    counts: NDArray[np.int64],
    seed: int,
    how: Consistency = Consistency.NONE,
) -> Run:
    """All slots of `counts` (slot x cell) through the scheme, with predictable noise."""
    meter = Meter(scheme.plan(facts).accounts, facts)
    return run_on(Wall.seeded(seed, meter), meter, scheme, facts, counts, how)


def run_on(
    wall: Wall,
    meter: Meter,
    scheme: StreamScheme,
    facts: StreamFacts,
    counts: NDArray[np.int64],
    how: Consistency = Consistency.NONE,
) -> Run:
    """The same on a given wall, which charges to the meter."""
    publisher = scheme.publisher(facts)
    out = np.empty(counts.shape, dtype=np.float64)
    fresh = np.zeros(counts.shape[0], dtype=bool)
    sd = np.empty(counts.shape[0], dtype=np.float64)
    share, steady = 0.0, Steady(how)
    median = out.copy()
    for slot in range(counts.shape[0]):
        if scheme.finished:
            assert isinstance(publisher, Finished)
            for first, stop in windows_to_show(facts, slot, publisher.ahead):
                publisher.prepare(boxed(counts[first:stop].T, facts, "window"), first, wall)
        made = publisher.publish(slot, boxed(counts[slot], facts), wall, meter)
        made = steady.made(made, wall.sampling_key(f"consistency@{slot}"))
        out[slot], fresh[slot], sd[slot] = made.values, made.fresh, made.sd
        median[slot] = made.values if made.median is None else made.median
        share = max(share, meter.share_spent(slot))
    return Run(out, fresh, share, sd, median)
