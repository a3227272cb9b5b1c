"""What the wall may hand over, and every publisher's reading of it, by the registries.

A `Hand` makes the noisy integers of one measurement from its noise and nothing else: noise itself
(nobody is there), numbers at the ends of what the wall can hand over, and drawn ones of any size. A
`Reading` takes all measurements of one publisher through a wall that is played by a hand, reads
them to the end, and gives every number that would be published.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import shapely
from numpy.typing import NDArray

from sfumato.density.registry import SCHEMES
from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.geography.overlay import Layout, Overlay, exact_shares
from sfumato.io.events import read_events
from sfumato.model.counts import Counting
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.events import Unit
from sfumato.privacy.mechanisms import additive
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, windows_to_show
from sfumato.streams.output import Consistency, consistent, line_bytes, table_bytes
from sfumato.streams.registry import NAMES, stream_scheme
from sfumato.streams.replay import boxed
from sfumato.streams.scheme import Finished, Keeping, Meter, Stating

Ints = NDArray[np.int64]
Hand = Callable[[Ints, np.random.Generator], Ints]
"""From the noise of a measurement and numbers to draw with to what the wall hands over."""
MOST = additive.LARGEST + (1 << 57)
"""Counts are cut to the first, and no noise is above the second."""


def _ends(noise: Ints, high: NDArray[np.bool_]) -> Ints:
    return np.where(high.reshape(noise.shape), MOST, -MOST)


def _sized(shape: NDArray[np.float64], rng: np.random.Generator) -> Ints:
    """Numbers of one size, which is any."""
    return np.clip(shape * 2.0 ** rng.uniform(0, 61), -MOST, MOST).astype(np.int64)


HANDS: Mapping[str, Hand] = {
    "noise": lambda noise, _: noise,
    "nothing": lambda noise, _: np.zeros_like(noise),
    "one everywhere": lambda noise, _: np.ones_like(noise),
    "the most": lambda noise, _: np.full_like(noise, MOST),
    "the least": lambda noise, _: np.full_like(noise, -MOST),
    "to and fro": lambda noise, _: _ends(noise, np.arange(noise.size) % 2 == 1),
    "all at one": lambda noise, _: np.where(_ends(noise, np.arange(noise.size) == 0) > 0, MOST, 0),
    "all at the last": lambda noise, _: _ends(noise, np.arange(noise.size) == noise.size - 1),
    "any": lambda noise, rng: (
        rng.choice((-1.0, 1.0), noise.shape) * 2.0 ** rng.uniform(0, 62, noise.shape)
    ).astype(np.int64),
    "of one size": lambda noise, rng: _sized(rng.standard_normal(noise.shape), rng),
    "people of one size": lambda noise, rng: _sized(rng.exponential(0.3, noise.shape), rng),
    "other noise": lambda noise, rng: np.clip(
        noise * 2.0 ** rng.uniform(-10, 20), -MOST, MOST
    ).astype(np.int64),
}
LIKELY: Mapping[str, Hand] = {
    "noise": HANDS["noise"],
    "people": lambda noise, rng: noise + rng.poisson(rng.gamma(0.3, 3e5, noise.shape)),
    "a crowd": lambda noise, rng: noise + (rng.random(noise.shape) < 0.1) * (1 << 30),
}
"""What can occur: noise on nobody, on people of any numbers, on a few full cells."""


@contextmanager
def handed(hand: Hand, seed: int) -> Iterator[None]:
    """Every sum with noise is what the hand makes of the noise."""
    rng, honest = np.random.default_rng(seed), additive.add
    additive.add = lambda values, noise: hand(noise.reshape(values.shape), rng)
    try:
        yield
    finally:
        additive.add = honest


@dataclass(frozen=True)
class Reading:
    """One publisher in one small world: takes a wall's seed, gives what would be published."""

    name: str
    read: Callable[[int], Iterator[Any]]

    def finite(self, hand: Hand, seed: int) -> None:
        """Read to the end under this hand; every number must be one."""
        with handed(hand, zlib.crc32(f"{self.name} {seed}".encode())):
            for part in self.read(seed):
                if part is not None:
                    assert np.isfinite(np.asarray(part, dtype=np.float64)).all(), self.name


# places, slots, their length, zones that towers are spread over (0: none)
TOWNS = (
    (1, 1, "1d", 0),
    (2, 1, "1d", 0),
    (30, 1, "1d", 40),
    (1, 24, "1h", 0),
    (5, 48, "1h", 3),
    (8, 168, "1h", 6),
    (20, 7, "1d", 15),
)
BUDGETS = ((0.01, 500_000), (0.3, 3_000), (1.0, 40), (10.0, 550_000), (60.0, 1), (60.0, 9_000_000))


@dataclass(frozen=True)
class Town:
    grid: TimeGrid
    towers: Places
    facts: Callable[..., PublicFacts]
    source: LocalSource


@cache
def town(places: int, slots: int, length: str, zones: int) -> Town:
    rng, start = np.random.default_rng(7), date(2024, 3, 4)
    days = -(-slots // {"1h": 24, "1d": 1}[length])
    grid = TimeGrid.between(start, start + timedelta(days=days), length, "Europe/Paris")
    points = [shapely.Point(2 + k / 1000, 48) for k in range(places)]
    towers = Places.of(PlaceKind.TOWERS, [f"t{k:02d}" for k in range(places)], points)
    overlay = None
    if zones:
        shares = rng.dirichlet(np.full(zones, 0.3), places)
        shares = np.where(shares < 0.05, 0.0, shares)
        ids = np.array([f"z{k:02d}" for k in range(zones)])
        overlay = Overlay(towers.ids, ids, exact_shares(sp.csr_array(0.9 * shares)))
    rows = pa.table(
        {
            "user_id": ["one"],
            "timestamp": pa.array(grid.edges[:1], pa.timestamp("us", tz="UTC")),
            "cell_id": ["t00"],
        }
    )
    source = LocalSource(read_events(rows), towers, grid, threads=1)
    layout = Layout(rng.uniform(0, 1e4, (places, 2)), rng.uniform(1e4, 1e6, places))
    around = Layout(rng.uniform(0, 1e4, (zones, 2)), np.ones(zones)) if zones else None

    def facts(epsilon: float, users: int, **more: Any) -> PublicFacts:
        return PublicFacts(
            *(towers.ids, grid, epsilon, 1e-8, users),
            overlay=overlay,
            layout=layout,
            zone_layout=around,
            **more,
        )

    return Town(grid, towers, facts, source)


def densities(rng: np.random.Generator) -> Iterator[Reading]:
    """Every scheme of releases, in a town and under a budget that are drawn."""
    for name, scheme in SCHEMES.items():
        which = TOWNS[rng.integers(len(TOWNS))]
        epsilon, users = BUDGETS[rng.integers(len(BUDGETS))]
        given = scheme.declares.audited_with
        at, counting = town(*which), rng.choice(list(Counting))
        facts = at.facts(epsilon, users, counting=Counting(counting), parameters=given)

        def read(
            seed: int, at: Town = at, facts: PublicFacts = facts, name: str = name
        ) -> Iterator[Any]:
            made = SCHEMES[name].run(at.source, Wall.seeded(seed), facts)
            yield from (made.values, made.lower, made.upper, made.median)
            if made.posterior is not None:
                yield from made.posterior.total(0.9).ends
                yield from made.posterior.factors(np.asarray(made.values, float), 0.9).values()

        words = f"{name}, {which}, epsilon {epsilon:g}, {users} people, {counting}"
        yield Reading(f"release {words}", read)


STREETS = ((1, 1, 1, None), (1, 3, 4, None), (2, 2, 1, None), (12, 3, 8, 4), (20, 2, 6, None))
"""Cells, days, slots a day, cells in a row of a grid."""
UNITS = ("user-day", "user-period", "w-event:5", "event")


def streams(rng: np.random.Generator) -> Iterator[Reading]:
    """Every scheme of streams."""
    for name in NAMES:
        cells, days, per_day, columns = STREETS[rng.integers(len(STREETS))]
        epsilon, users = BUDGETS[rng.integers(len(BUDGETS))]
        unit, calendar = UNITS[rng.integers(4)], Calendar.regular(days * per_day, per_day)
        try:
            facts = StreamFacts(cells, calendar, epsilon, 1e-8, Unit.parse(unit), users, columns)
            stream_scheme(name).plan(facts)
        except UsageError:
            continue  # not for this unit, or not under this budget: refused before it is charged

        def read(seed: int, facts: StreamFacts = facts, name: str = name) -> Iterator[Any]:
            return _streamed(name, facts, seed)

        words = f"{name}, {cells} cells, {days} x {per_day}, {unit}, epsilon {epsilon:g}, {users}"
        yield Reading(f"stream {words}", read)


def _streamed(name: str, facts: StreamFacts, seed: int) -> Iterator[Any]:
    scheme = stream_scheme(name)
    plan = scheme.plan(facts)
    meter = Meter(plan.accounts, facts)
    wall, publisher = Wall.seeded(seed, meter), scheme.publisher(facts)
    rng, ids = np.random.default_rng(seed), np.array([f"{k}" for k in range(facts.cells)])
    people = rng.poisson(10.0 ** rng.uniform(-1, 6, (facts.slots, facts.cells)))
    for slot in range(facts.slots):
        if scheme.finished:
            assert isinstance(publisher, Finished)
            for first, stop in windows_to_show(facts, slot, publisher.ahead):
                publisher.prepare(boxed(people[first:stop].T, facts, "window"), first, wall)
        made = publisher.publish(slot, boxed(people[slot], facts), wall, meter)
        yield from (made.values, made.median, made.lower, made.upper)
        if made.total is not None:
            yield from (made.total.value, *made.total.ends)
        for how in Consistency:
            yield consistent(made.values, how, b"coins")
        line_bytes(slot, "", "", made)
        table_bytes(ids, made)
        publisher.state()
    if isinstance(publisher, Keeping):
        publisher.kept().arrays()
    if isinstance(publisher, Stating) and plan.joint:
        yield from publisher.joint().arrays(plan.coverage).values()


FAMILIES: Mapping[str, Callable[[np.random.Generator], Iterator[Reading]]] = {
    "releases": densities,
    "streams": streams,
}
