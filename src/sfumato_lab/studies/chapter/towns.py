"""The people of the thesis: a made city, and the days of San Francisco's cabs.

Some people of each are held out: nothing that is published knows them, and they are asked about as
the others are (`sfumato_lab.attacks.anonymised.visited`).

*Cabspotting* has 537 cabs, too few for a thousand targets. A *cab-day* is taken as a person: one
local day of one cab, all days laid over each other, 24 hours. So epsilon is for one day of one cab.
A fix a minute becomes one visit for each hour and census tract.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.city import CityPlan, build_city, generate_events
from sfumato.engine.local import LocalSource
from sfumato.errors import InputError
from sfumato.geography.locate import Locator
from sfumato.geography.overlay import Layout, layout_of_cells, layout_of_zones
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.events import read_events
from sfumato.io.zones import read_zones
from sfumato.model.places import Places
from sfumato.model.source import RememberingSource
from sfumato.model.time_grid import TimeGrid
from sfumato_lab.attacks.anonymised.visited import Visited
from sfumato_lab.studies.queries.ground import Ground
from sfumato_lab.syntactic.people import Held, plane_of, read_people

CABS = "cabspotting_sf/cabspotting_sf_2008.parquet"
TRACTS = "cabspotting_sf/sf_tracts_2010.geojson"
_DAY = date(2008, 5, 19)
_ZONE = "America/Los_Angeles"
OUTSIDE = 1_500
"""People held out."""


@dataclass(frozen=True, slots=True, eq=False)
class Town:
    """People who are published about, people who are not, and what is public."""

    name: str
    ground: Ground
    source: LocalSource
    held: Held
    """Who is published about."""
    inside: Visited
    outside: Visited
    places: Places
    centres: NDArray[np.float64]

    @property
    def slots(self) -> int:
        return self.ground.grid.slots


def made_town(users: int, seed: int, *, towers: int, zones: int, outside: int = OUTSIDE) -> Town:
    """A week of call records by tower and hour."""
    plan = CityPlan(
        users=users + outside, towers=towers, zones=zones, seed=seed, start=date(2007, 9, 10)
    )
    city = build_city(plan)
    table = pa.Table.from_batches(list(generate_events(city)))
    layout = layout_of_cells(voronoi_cells(city.towers, city.zones, period=plan.grid))
    return _town("made city", table, city.towers, plan.grid, layout, outside, seed)


def cab_town(data: Path | None, seed: int, *, outside: int = OUTSIDE) -> Town:
    """Cab-days by census tract and hour of the day.

    Raises:
        InputError: The data are not there.
    """
    if data is None or not (data / CABS).is_file() or not (data / TRACTS).is_file():
        raise InputError(
            "Cabspotting is not there.",
            file=str(data or "SFUMATO_DATA"),
            remedy="Give `data`, a folder with cabspotting_sf/, or leave the part out.",
        )
    zones = read_zones(data / TRACTS)
    fixes = pq.read_table(data / CABS, columns=["cab", "t_utc_s", "lon_e5", "lat_e5"])
    seconds = fixes["t_utc_s"].to_numpy().astype(np.int64)
    # One clock for all: San Francisco was seven hours behind throughout those weeks.
    local = seconds + _offset(seconds.min())
    lon, lat = (fixes[name].to_numpy() / 1e5 for name in ("lon_e5", "lat_e5"))
    place = Locator(zones).locate(lon, lat)
    cab = np.unique(fixes["cab"].to_numpy(), return_inverse=True)[1]
    rows = np.unique(
        np.column_stack((cab, local // 86_400, local % 86_400 // 3_600, place))[place >= 0], axis=0
    )
    days = int(rows[:, 1].max()) + 1
    grid = TimeGrid.between(_DAY, date(2008, 5, 20), "1h", _ZONE)
    start = np.asarray(grid.edges)[:-1]
    at = zones.ids[rows[:, 3]]
    table = pa.table(
        {
            "user_id": pa.array(rows[:, 0] * days + rows[:, 1]),
            "timestamp": pa.array(start[rows[:, 2]], pa.timestamp("us", tz="UTC")),
            "zone": pa.array(at.tolist()),
        }
    )
    return _town("cab-days", table, zones, grid, layout_of_zones(zones), outside, seed)


def _offset(seconds: int) -> int:
    from datetime import datetime

    found = datetime.fromtimestamp(seconds, ZoneInfo(_ZONE)).utcoffset()
    assert found is not None
    return int(found.total_seconds())


def _town(
    name: str,
    table: pa.Table,
    places: Places,
    grid: TimeGrid,
    layout: Layout,
    outside: int,
    seed: int,
) -> Town:
    everybody = read_people(table, places, grid)
    rng = np.random.default_rng([seed, 0x0D])
    drawn = rng.permutation(len(everybody))
    out, kept = np.sort(drawn[:outside]), np.sort(drawn[outside:])
    held, left = everybody.take(kept), everybody.take(out)
    mask = pc.is_in(table["user_id"], value_set=left.users.cast(table["user_id"].type))
    source = LocalSource(read_events(table.filter(pc.invert(mask))), places, grid, threads=1)
    ground = Ground(len(kept), RememberingSource(source), grid, layout, seed)
    centres = plane_of(places)[1]
    shape = len(places), grid.slots
    people = visited(held, *shape), visited(left, *shape)
    return Town(name, ground, source, held, *people, places, centres)


def visited(held: Held, places: int, slots: int) -> Visited:
    """The same people as the attacks have them."""
    pairs = held.slot.astype(np.int64) * places + held.place
    return Visited(held.offsets, pairs, places, slots)
