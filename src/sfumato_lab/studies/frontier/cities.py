"""The cities that schemes are compared on: made-up kinds, and a population of real aggregates.

Each has a seed that tuned nothing. Defaults of the schemes were settled on the cities of seeds 1 to
4 (`bayes` on 1), so these begin at 11. The second is larger and cut into more zones than it has
towers; in the third how much people use their phones hangs on where they live; in the fourth one
crowd gathers for a match and most commuters stay at home for a day. A fifth is tiny.

*Real aggregates*: a population whose visits add up to counts that an operator measured. The C2TM
set (Chen et al. 2015) holds the active users of the zones of a Chinese city by hour.
Nobody's record is in it, so a population is made up around it: users with the heavy-tailed
activity of Acs & Castelluccia (2014), each with a favourite zone, get the real visits of a week
dealt out among them. Rhythms, sizes and surprises are the city's own; who went where is not.
The zones come without a map, so places stand in a line, a kilometre apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from sfumato.city import CityPlan, Match
from sfumato.city.rhythm import WEEK_MEAN, tower_hour_law
from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.errors import InputError
from sfumato.geography.overlay import Layout
from sfumato.model.counts import Counting
from sfumato.model.events import EventColumns, Events, TimeEncoding, UserEncoding
from sfumato.model.places import PlaceKind, Places
from sfumato.model.source import Source
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.door import open_private


class Kind(StrEnum):
    """What is special about a city."""

    ORDINARY = "ordinary"
    OTHER = "other city"
    PLACE = "place-dependent activity"
    EVENTS = "match and strike"
    SMALL = "one day"
    """Few people, few places, 24 hours: not a comparison but a check that nothing is absurd."""

    @property
    def folder(self) -> str:
        """The name as part of a path."""
        return self.value.replace(" ", "-")


SEEDS = {Kind.ORDINARY: 11, Kind.OTHER: 12, Kind.PLACE: 13, Kind.EVENTS: 14, Kind.SMALL: 15}
SMALL_USERS = 2_000
CROWD_SHARE = 0.015
"""People at the match, as a share of all users."""


def plan_of(kind: Kind, users: int, *, towers: int = 1_303, zones: int = 989) -> CityPlan:
    """The plan of a city of that kind; `towers` and `zones` are those of the ordinary one."""
    seed = SEEDS[kind]
    if kind is Kind.OTHER:
        return CityPlan(
            users=users,
            seed=seed,
            towers=max(4, round(0.62 * towers)),
            zones=max(4, round(1.2 * zones)),
            area_km2=300.0,
            lon=4.84,
            lat=45.76,
        )
    if kind is Kind.PLACE:
        return CityPlan(users=users, seed=seed, towers=towers, zones=zones, place_activity=0.7)
    if kind is Kind.EVENTS:
        return CityPlan(
            users=users,
            seed=seed,
            towers=towers,
            zones=zones,
            match=Match(people=max(1, round(CROWD_SHARE * users))),
            strike_day=2,
        )
    if kind is Kind.ORDINARY:
        return CityPlan(users=users, seed=seed, towers=towers, zones=zones)
    return CityPlan(
        users=users,
        seed=seed,
        towers=max(4, towers // 10),
        zones=max(4, zones // 10),
        area_km2=10.5,
        days=1,
    )


FILE = "c2tm/c2tm_clustered_hourly_users.parquet"
START = date(2012, 8, 19)
ZONE = "Asia/Shanghai"
ONE_IN = 10
"""The real counts are taken one in ten: cells then hold what cells of a city map do."""
_AT_HOME = 0.7
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Aggregates:
    """The made-up population behind real counts."""

    source: Source
    truth: NDArray[np.float64]
    facts: PublicFacts


def read_counts(folder: Path) -> tuple[NDArray[np.str_], Counts]:
    """Zones of one level and their active users by hour of the one unbroken week."""
    path = folder / FILE
    if not path.is_file():
        raise InputError(
            "there is no such file.", file=str(path), remedy="Point SFUMATO_DATA at the data."
        )
    table = pq.read_table(path, columns=["cluster", "hour_local", "users"])
    table = table.filter(pc.starts_with(table["cluster"], "rrh_"))
    since = table["hour_local"].to_numpy().astype("datetime64[h]") - np.datetime64(START, "h")
    slot = since.astype(np.int64)
    within = (slot >= 0) & (slot < 168)
    ids, row = np.unique(np.asarray(table["cluster"].to_pylist())[within], return_inverse=True)
    counts = np.zeros((ids.size, 168), dtype=np.int64)
    np.add.at(counts, (row, slot[within]), table["users"].to_numpy()[within])
    return ids.astype(np.str_), counts


def populate(counts: Counts, rng: np.random.Generator) -> tuple[Counts, Counts, Counts]:
    """User, place and slot of every visit; visits of a place and slot are as many as counted.

    Users ask for places (mostly their own) and are matched to the visits in the order of
    places, so that nearly everybody gets what they asked for and every visit is dealt once.
    """
    visits = int(counts.sum())
    law = tower_hour_law(WEEK_MEAN, counts.shape[1], max(counts.shape[0], 16))
    many = np.searchsorted(law, rng.random(round(1.3 * visits / WEEK_MEAN) + 100)) + 1
    user = np.repeat(np.arange(many.size), many)[:visits]
    share = counts.sum(axis=1) / visits
    home = rng.choice(share.size, size=many.size, p=share)
    wish = np.where(
        rng.random(visits) < _AT_HOME, home[user], rng.choice(share.size, size=visits, p=share)
    )
    user = user[np.lexsort((rng.random(visits), wish))]
    place, slot = (np.repeat(a, counts.ravel()) for a in np.indices(counts.shape).reshape(2, -1))
    mixed = np.lexsort((rng.random(visits), place))
    return user, place[mixed], slot[mixed]


def real_aggregates(folder: Path, seed: int, epsilon: float, delta: float) -> Aggregates:
    """A source over the made-up population of the real week."""
    ids, counts = read_counts(folder)
    counts = (counts + ONE_IN // 2) // ONE_IN
    user, place, slot = populate(counts, np.random.default_rng(seed))
    grid = TimeGrid.between(START, START + timedelta(days=7), "1h", ZONE)
    middle = (np.asarray(grid.edges)[:-1] // 1_000_000) + 1_800
    table = pa.table({"user": user, "time": middle[slot], "place": pa.array(ids[place].tolist())})
    events = Events.of_table(
        table,
        EventColumns("user", "time", place="place"),
        TimeEncoding.EPOCH_S,
        UserEncoding.INTEGER,
    )
    points = np.array([shapely.Point(0.01 * k, 0.0) for k in range(ids.size)], dtype=object)
    source = LocalSource(events, Places.of(PlaceKind.TOWERS, ids, points), grid)
    line = np.column_stack((1000.0 * np.arange(ids.size), np.zeros(ids.size)))
    people = int(user.max()) + 1
    rough = round(people, 1 - len(str(people)))
    facts = PublicFacts(
        ids, grid, epsilon, delta, rough, layout=Layout(line, np.full(ids.size, 1e6))
    )
    truth = open_private(source.exact(Counting.VISITS)).values.astype(np.float64)
    return Aggregates(source, truth, facts)
