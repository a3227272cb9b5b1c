"""The made-up people that levels are judged on: call records, hourly GPS, check-ins.

A `Population` is a source of counts, what is public about it, and the truth. Everything is drawn
by arrays from one seed; the laws are stated in docs/benchmarks/levels.md ("The people").

*Call records* are `sfumato.city`'s own city: towers, an overlay, 13.55 tower-hours a week with
standard deviation 18.33. *Hourly GPS* and *check-ins* live on the zones of such a city and are
counted where they are released, without an overlay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.city import CityPlan, build_city, generate_events
from sfumato.density.scheme import Parameter, PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.geography.overlay import (
    Layout,
    Overlay,
    layout_of_cells,
    layout_of_zones,
    overlay,
)
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.events import read_events
from sfumato.model.counts import Counting
from sfumato.model.events import EventColumns, Events, TimeEncoding, UserEncoding
from sfumato.model.places import Places
from sfumato.model.source import RememberingSource
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.door import open_private

Table = NDArray[np.float64]
Whole = NDArray[np.int64]

CALLS, GPS, CHECK_INS = "calls", "gps", "check-ins"
KINDS = (CALLS, GPS, CHECK_INS)
GRID = TimeGrid.between(date(2007, 9, 10), date(2007, 9, 17), "1h", "Europe/Paris")
_TOWERS_PER_ZONE = 1_303 / 989
_KM2_PER_ZONE = 105 / 989

CAB_HOURS = (
    2, 68, 94, 106, 113, 120, 124, 128, 131, 133, 135, 137, 139, 141, 143, 145, 146, 148, 151, 154,
    165,
)  # fmt: skip
"""Hours of a week with a fix, quantiles at 0, 5, … 100 % over 1,544 cab-weeks.

Cabspotting (CRAWDAD epfl/mobility, CC BY 4.0), the three whole weeks from Monday 19 May 2008, San
Francisco's clock; mean 127.2, standard deviation 27.8.
"""
CAB_DAY = (
    1.01, 0.87, 0.71, 0.53, 0.55, 0.67, 0.83, 0.95, 1.03, 1.08, 1.10, 1.11, 1.13, 1.13, 1.14, 1.13,
    1.10, 1.10, 1.14, 1.16, 1.17, 1.16, 1.14, 1.09,
)  # fmt: skip
"""How often a cab has a fix by hour of day, relative to the mean; the same weeks."""

CHECK_IN_TAIL, CHECK_IN_TOP = 1.25, 400
"""P(at least k check-ins) = k^-1.25, cut at 400: mean 3.8, three in a thousand above 100."""


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Counted people, what is public about them, and the truth of the released table."""

    name: str
    source: RememberingSource
    truth: Table
    people: int
    grid: TimeGrid
    place_ids: NDArray[np.str_]
    layout: Layout
    overlay: Overlay | None = None
    zone_layout: Layout | None = None

    def facts(
        self, epsilon: float, parameters: Mapping[str, Parameter] = MappingProxyType({})
    ) -> PublicFacts:
        """What a release is told: people to one digit, delta a tenth of one over them."""
        rough = round(self.people, 1 - len(str(self.people)))
        return PublicFacts(
            self.place_ids,
            self.grid,
            epsilon,
            0.1 / rough,
            rough,
            overlay=self.overlay,
            layout=self.layout,
            zone_layout=self.zone_layout,
            parameters=parameters,
        )


def population(kind: str, zones: int, people: int, seed: int) -> Population:
    """People of a kind in a city of its own; the same arguments give the same people."""
    plan = CityPlan(
        users=people if kind == CALLS else 10,
        towers=max(4, round(zones * _TOWERS_PER_ZONE)),
        zones=zones,
        seed=seed,
        start=date(2007, 9, 10),
        area_km2=zones * _KM2_PER_ZONE,
    )
    if kind == CALLS:
        return calls(plan)
    city = build_city(plan)
    rng = np.random.default_rng([seed, KINDS.index(kind), zones, people])
    live = _hourly_gps if kind == GPS else _check_ins
    return in_zones(kind, city.zones, GRID, *live(layout_of_zones(city.zones), people, rng))


def calls(plan: CityPlan) -> Population:
    """Call records of a made-up city, spread from its towers over its zones."""
    city, grid = build_city(plan), plan.grid
    table = pa.Table.from_batches(list(generate_events(city)))
    source = RememberingSource(LocalSource(read_events(table), city.towers, grid, threads=1))
    cells = voronoi_cells(city.towers, city.zones, period=grid)
    shares = overlay(cells, city.zones)
    return Population(
        CALLS,
        source,
        shares.to_zones(open_private(source.exact(Counting.VISITS)).values),
        plan.users,
        grid,
        city.towers.ids,
        layout_of_cells(cells),
        shares,
        layout_of_zones(city.zones),
    )


def in_zones(
    name: str,
    zones: Places,
    grid: TimeGrid,
    user: Whole,
    slot: Whole,
    place: Whole,
    layout: Layout | None = None,
) -> Population:
    """Visits by number of user, slot and zone as a population that is released as counted."""
    key = np.unique((user * grid.slots + slot) * len(zones) + place)
    moment, place = np.divmod(key, len(zones))
    user, slot = np.divmod(moment, grid.slots)
    middle = np.asarray(grid.edges)[:-1] // 1_000_000 + 1
    names = pa.array(zones.ids.tolist(), pa.string())
    table = pa.table(
        {
            "user": user,
            "time": middle[slot],
            "place": pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32)), names),
        }
    )
    events = Events.of_table(
        table,
        EventColumns("user", "time", place="place", chosen=frozenset({"place"})),
        TimeEncoding.EPOCH_S,
        UserEncoding.INTEGER,
    )
    flat = np.bincount(place * grid.slots + slot, minlength=len(zones) * grid.slots)
    return Population(
        name,
        RememberingSource(LocalSource(events, zones, grid, threads=1)),
        flat.reshape(len(zones), grid.slots).astype(np.float64),
        int(np.unique(user).size),
        grid,
        zones.ids,
        layout or layout_of_zones(zones),
    )


_HOME, _WORK, _OUT = range(3)


def _sizes(layout: Layout, rng: np.random.Generator, spread: float) -> Table:
    """How much goes on in each zone: thinning from a centre, and a character of its own."""
    at = layout.centres - layout.centres.mean(axis=0)
    away = np.linalg.norm(at - rng.normal(0, 0.2, 2) * at.std(axis=0), axis=1)
    weight = np.exp(-1.5 * away / away.max() + spread * rng.normal(size=away.size))
    return np.asarray(weight / weight.sum(), dtype=np.float64)


def _near(layout: Layout, weight: Table, reach: float) -> Table:
    """Cumulative chances, zone x zone, of going from one to another (gravity)."""
    away = np.linalg.norm(layout.centres[:, None] - layout.centres[None], axis=2)
    flow = weight[None, :] * np.exp(-away / (reach * away.max()))
    return np.asarray(np.cumsum(flow / flow.sum(axis=1, keepdims=True), axis=1))


def _picked(cumulative: Table, rows: Whole, rng: np.random.Generator) -> Whole:
    """A column for each row number, by that row's cumulative chances."""
    offset = np.arange(cumulative.shape[0])[:, None]
    flat = np.minimum(cumulative, 1.0) + offset
    flat[:, -1] = offset[:, 0] + 1.0
    found = np.searchsorted(flat.ravel(), rows + rng.random(rows.shape), side="right")
    return np.minimum(found - rows * cumulative.shape[1], cumulative.shape[1] - 1).astype(np.int64)


def _hourly_gps(layout: Layout, people: int, rng: np.random.Generator) -> tuple[Whole, ...]:
    """One zone an hour, in as many hours as a cab has: home, work or school, and elsewhere.

    Three in five commute, one in four is mostly at home, the others roam like the cabs. A person's
    day is shifted by an hour or two; whereabouts outside change every two hours.
    """
    hours = GRID.slots
    chosen = np.interp(rng.random(people), np.linspace(0, 1, len(CAB_HOURS)), CAB_HOURS)
    wanted = np.maximum(np.rint(chosen), 1).astype(np.int64)
    homes = rng.choice(layout.areas.size, people, p=_sizes(layout, rng, 0.6))
    jobs = _picked(_near(layout, _sizes(layout, rng, 1.2), 0.4), homes, rng)
    outings = _near(layout, _sizes(layout, rng, 0.9), 0.25)
    own = _picked(outings, np.repeat(homes, 6).reshape(people, 6), rng)
    kind = rng.choice(3, people, p=(0.6, 0.25, 0.15))
    likely = np.log(np.tile(CAB_DAY, 7))
    # The largest of log-chance plus Gumbel noise are a sample without replacement.
    key = (likely + rng.gumbel(size=(people, hours))).astype(np.float32)
    least = np.take_along_axis(np.sort(key, axis=1), hours - wanted[:, None], axis=1)
    user, slot = np.nonzero(key >= least)
    doing = _doing(rng, kind[user], slot - rng.integers(-2, 3, people)[user])
    block = rng.integers(0, 6, (people, hours // 2 + 1))
    out = own[user, block[user, slot // 2]]
    place = np.select((doing == _HOME, doing == _WORK), (homes[user], jobs[user]), out)
    return user, slot, place.astype(np.int64)


def _doing(rng: np.random.Generator, kind: Whole, slot: Whole) -> Whole:
    """At home, at work or out, by hour, kind of day and kind of person."""
    hour, day = slot % 24, (slot // 24) % 7
    work = np.zeros((3, 2, 24))
    work[0, 0, 9:18] = 0.8
    work[0, 1, 9:18] = 0.08
    work[1, 0, 9:16] = 0.08
    out = np.zeros((3, 2, 24)) + 0.02
    out[0, 0, 7:23], out[0, 1, 10:24] = 0.15, 0.45
    out[1, :, 9:22] = 0.30
    out[2] = 0.85
    at = (kind, (day >= 5).astype(np.int64), hour)
    luck = rng.random(kind.size)
    working = luck < work[at]
    return np.where(working, _WORK, np.where(luck > 1.0 - out[at], _OUT, _HOME)).astype(np.int64)


def _check_ins(layout: Layout, people: int, rng: np.random.Generator) -> tuple[Whole, ...]:
    """Heavy-tailed numbers of check-ins, at zones whose draw follows Zipf's law.

    Three in five are at one of a person's own three places, drawn by the same law near a first
    one. Evenings and the weekend are full, nights empty.
    """
    law = np.arange(1, CHECK_IN_TOP + 1, dtype=np.float64) ** -CHECK_IN_TAIL
    many = np.searchsorted(-law, -(1.0 - rng.random(people)), side="right").clip(1)
    zipf = np.empty(layout.areas.size)
    zipf[np.argsort(-_sizes(layout, rng, 1.0))] = 1.0 / np.arange(1, zipf.size + 1)
    zipf /= zipf.sum()
    first = rng.choice(zipf.size, people, p=zipf)
    near = _picked(_near(layout, zipf, 0.15), np.repeat(first, 2).reshape(people, 2), rng)
    own = np.column_stack((first, near))
    user = np.repeat(np.arange(people), many)
    any_place = rng.choice(zipf.size, user.size, p=zipf)
    habit = own[user, rng.integers(0, 3, user.size)]
    place = np.where(rng.random(user.size) < 0.6, habit, any_place)
    hour = np.arange(24)
    day = 0.03 + np.exp(-np.square((hour - 13) / 2.5)) + 1.5 * np.exp(-np.square((hour - 19) / 3.0))
    week = np.concatenate([day * f for f in (0.8, 0.8, 0.9, 1.0, 1.4, 1.6, 1.2)])
    slot = rng.choice(GRID.slots, user.size, p=week / week.sum())
    return user, slot.astype(np.int64), place.astype(np.int64)
