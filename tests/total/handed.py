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
from sfumato.model.masks import Masks, Measure
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.model.traces import Box, make_traces
from sfumato.privacy.events import Unit
from sfumato.privacy.mechanisms import additive
from sfumato.privacy.wall import Wall
from sfumato.queries.batch import plan_batch, run_batch
from sfumato.queries.workload import Workload
from sfumato.streams.facts import StreamFacts, windows_to_show
from sfumato.streams.output import Consistency, consistent, line_bytes, table_bytes
from sfumato.streams.registry import SCHEMES as STREAMS
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import boxed
from sfumato.streams.scheme import Finished, Keeping, Meter, Stating
from sfumato.synthesis.method import Reads, SynthFacts, settings_of
from sfumato.synthesis.regions import with_cells
from sfumato.synthesis.registry import METHODS, method_named
from sfumato.traces.bounds import TraceSource
from sfumato_lab.queries.mwem import plan_mwem, run_mwem
from sfumato_lab.queries.online import Session, plan_session

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
    for name in STREAMS:
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


CELLS = ((2, 1), (3, 3), (5, 4))
"""Zones across and up."""


@cache
def quarters(across: int, up: int, towers: bool) -> Places:
    boxes = [
        shapely.box(2 + x / 50, 48 + y / 50, 2 + (x + 1) / 50, 48 + (y + 1) / 50)
        for x in range(across)
        for y in range(up)
    ]
    if towers:
        points = [shapely.centroid(one) for one in boxes]
        return Places.of(PlaceKind.TOWERS, [f"t{k:02d}" for k in range(len(boxes))], points)
    return Places.of(PlaceKind.ZONES, [f"z{k:02d}" for k in range(len(boxes))], boxes)


REGION, STAY = (
    Box(2.2, 48.8, 2.5, 49.0),
    TimeGrid.between(date(2024, 3, 4), date(2024, 3, 6), "1h", "Europe/Paris"),
)


def people(rng: np.random.Generator) -> Iterator[Reading]:
    """Every method of synthesis."""
    for name in METHODS:
        method = method_named(name)
        epsilon, users = BUDGETS[rng.integers(len(BUDGETS))]
        traces = method.declares.reads is Reads.TRACES
        places = quarters(*CELLS[rng.integers(len(CELLS))], towers=bool(rng.integers(2)))
        public = PublicFacts(
            *(np.empty(0, np.str_) if traces else places.ids, STAY, epsilon, 1e-8, users),
            unit=method.declares.unit,
            layout=None if traces else Layout.in_order(len(places)),
        )
        given = settings_of(method, {"candidates": 1000} if name == "fit" else {})
        where = {"box": REGION} if traces else {"places": places, "counted": places}
        facts = with_cells(SynthFacts(public, 30, 3, given, **where))
        try:
            method.plan(facts)
        except UsageError:
            continue

        def read(seed: int, facts: SynthFacts = facts, name: str = name) -> Iterator[Any]:
            return _made_up(name, facts, seed)

        yield Reading(f"synth {name}, {len(places)} places, epsilon {epsilon:g}, {users}", read)


def _made_up(name: str, facts: SynthFacts, seed: int) -> Iterator[Any]:
    method, source = method_named(name), _lived(facts)
    noisy = method.measure(source, Wall.seeded(seed), facts)
    records = 0
    for chunk in method.generate(noisy, facts):
        yield from (chunk.user, chunk.time, chunk.place, chunk.lon, chunk.lat)
        records += chunk.user.size
        assert records < 1_000_000, "people live a life, whatever was handed over"
    shown = method.released(noisy, facts)
    yield from (shown.density, shown.lengths, shown.flows)


def _lived(facts: SynthFacts) -> Any:
    if facts.box is not None:
        lon, lat = np.array([2.3, 2.31, 2.4]), np.array([48.85, 48.86, 48.9])
        time = STAY.period[0] + np.array([0, 60, 120]) * 1_000_000
        user, names = np.zeros(3, np.int64), np.array(["one"], dtype=object)
        rows, _ = make_traces(user, names, time, lon, lat, trip=np.zeros(3, np.int64))
        return TraceSource(rows)
    assert facts.counted is not None
    return _lived_at(facts.counted)


@cache
def _lived_at(places: Places) -> LocalSource:
    at = shapely.get_coordinates(shapely.centroid(places.geometry))[:1]
    rows: dict[str, Any] = {
        "user_id": ["one"],
        "timestamp": pa.array(STAY.edges[:1], pa.timestamp("us", tz="UTC")),
    }
    if places.kind is PlaceKind.TOWERS:
        rows["cell_id"] = [places.ids[0]]
    else:
        rows |= {"lon": at[:, 0], "lat": at[:, 1]}
    return LocalSource(read_events(pa.table(rows)), places, STAY, threads=1)


@dataclass(frozen=True)
class Cells:
    """A question: its places and slots."""

    places: tuple[int, ...]
    slots: tuple[int, ...]


def answers(rng: np.random.Generator) -> Iterator[Reading]:
    """Questions asked together, both ways, and one after the other in a session."""
    which = TOWNS[rng.integers(len(TOWNS))]
    at, (epsilon, _) = town(*which), BUDGETS[rng.integers(len(BUDGETS))]
    shape = (len(at.towers), at.grid.slots)
    asked = [Cells(*(tuple(range(rng.integers(1, size + 1))) for size in shape)) for _ in range(6)]
    asked = list(dict.fromkeys(asked))
    masks = [(one.places, one.slots) for one in asked]

    try:
        together = plan_batch(asked, shape, epsilon=epsilon, delta=1e-8)
        rounds = plan_mwem(asked, shape, epsilon=epsilon, delta=1e-8, rounds=4)
        terms = plan_session(epsilon=epsilon, clip=2, updates=4, threshold=1)
    except UsageError:
        return  # no such noise can be drawn: refused before it is charged

    def batch(seed: int) -> Iterator[Any]:
        found = run_batch(at.source, Wall.seeded(seed), together)
        yield from (found.values, found.plus_minus)

    def mwem(seed: int) -> Iterator[Any]:
        found = run_mwem(at.source, Wall.seeded(seed), rounds)
        yield found.answers(Workload.of(shape, asked))

    def session(seed: int) -> Iterator[Any]:
        held = Session(terms, np.ones(shape), Wall.seeded(seed))
        for one, mask in zip(asked, masks, strict=True):
            box = at.source.answers(Masks.of(*shape, [mask]), Measure.VISITS, 2)
            yield held.ask(one, lambda box=box: box).answer

    for name, read in (("batch", batch), ("mwem", mwem), ("session", session)):
        yield Reading(f"query {name}, {which}, epsilon {epsilon:g}", read)


FAMILIES: Mapping[str, Callable[[np.random.Generator], Iterator[Reading]]] = {
    "releases": densities,
    "streams": streams,
    "people": people,
    "answers": answers,
}
