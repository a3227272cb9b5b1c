"""Real people that levels are judged on, from the public data that SFUMATO_DATA points to.

One week of hours each, released where counted:

* `cabs-41`, `cabs-195`: 537 cabs of San Francisco (Cabspotting), the week from Monday 19 May 2008,
  in neighbourhoods and in census tracts. A fix a minute is thinned to one visit for each hour and
  zone, so that a cab has some hundreds of visits.
* `hangzhou`: call records, the week from Thursday 16 August 2012 (most of 976 people are seen
  on its first day only), squares of 10 km.
* `saopaulo`: 25 phones, fixes of 100 m or better, the week from Monday 24 July 2017, squares of
  5 km. Far too few people; what is judged is whether the release says so.
* `c2tm`: hourly users of the clusters of a Chinese city, a tenth of them, with people made up
  around the counts (`lab.frontier.cities`).
"""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import shapely
from benchmarks._levels_people import Population, Whole, in_zones
from numpy.typing import NDArray

from sfumato.geography.grids import square_grid
from sfumato.geography.locate import Locator
from sfumato.geography.overlay import Layout
from sfumato.io.zones import read_zones
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
from sfumato_lab.studies.frontier.cities import FILE as C2TM_FILE
from sfumato_lab.studies.frontier.cities import ONE_IN, START, ZONE, populate, read_counts

CABS = "cabspotting_sf/cabspotting_sf_2008.parquet"
TRACTS = "cabspotting_sf/sf_tracts_2010.geojson"
QUARTERS = "cabspotting_sf/sf_neighborhoods_analysis.geojson"
HANGZHOU = "hangzhou_cdr/hangzhou_movement_976users.parquet"
SAO_PAULO = "saopaulo_gps/saopaulo_emission_2017.parquet"
_FILES = {
    "cabs-41": (CABS, QUARTERS),
    "cabs-195": (CABS, TRACTS),
    "hangzhou": (HANGZHOU,),
    "saopaulo": (SAO_PAULO,),
    "c2tm": (C2TM_FILE,),
}
REAL = tuple(_FILES)
_GOOD_FIX_M = 100.0


def missing(name: str) -> str | None:
    """Why a data set cannot be judged here; `None` where it can."""
    data = os.environ.get("SFUMATO_DATA")
    if data is None:
        return f"{name}: SFUMATO_DATA is not set"
    gone = [file for file in _FILES[name] if not (Path(data) / file).is_file()]
    return f"{name}: there is no {gone[0]} in SFUMATO_DATA" if gone else None


def real_population(name: str, seed: int) -> Population:
    """The people of that name; `seed` is for those made up around aggregates."""
    data = Path(os.environ["SFUMATO_DATA"])
    if name == "c2tm":
        return _aggregates(data, seed)
    if name.startswith("cabs"):
        zones = read_zones(data / _FILES[name][1])
        table = pq.read_table(data / CABS, columns=["cab", "t_utc_s", "lon_e5", "lat_e5"])
        return _located(
            name,
            zones,
            _week(date(2008, 5, 19), "America/Los_Angeles"),
            table["cab"].to_numpy(),
            table["t_utc_s"].to_numpy().astype(np.int64) * 1_000_000,
            table["lon_e5"].to_numpy() / 1e5,
            table["lat_e5"].to_numpy() / 1e5,
        )
    file, start, tz, box, metres = {
        "hangzhou": (HANGZHOU, date(2012, 8, 16), "Asia/Shanghai", (119.9, 30.0, 120.5, 30.5), 10),
        "saopaulo": (
            SAO_PAULO,
            date(2017, 7, 24),
            "America/Sao_Paulo",
            (-46.85, -23.75, -46.35, -23.40),
            5,
        ),
    }[name]
    table = pq.read_table(data / file)
    if "accuracy" in table.column_names:
        table = table.filter(table["accuracy"].to_numpy() <= _GOOD_FIX_M)
    return _located(
        name,
        square_grid(shapely.box(*box), metres * 1_000),
        _week(start, tz),
        table["user"].to_numpy(),
        table["time_utc"].cast("timestamp[us]").to_numpy().astype(np.int64),
        *(table[c].to_numpy(zero_copy_only=False).astype(np.float64) for c in ("lon", "lat")),
    )


def _week(start: date, tz: str) -> TimeGrid:
    return TimeGrid.between(start, start + timedelta(days=7), "1h", tz)


def _located(
    name: str,
    zones: Places,
    grid: TimeGrid,
    user: NDArray[np.integer],
    time: Whole,
    lon: NDArray[np.float64],
    lat: NDArray[np.float64],
) -> Population:
    """Fixes of the week that lie in a zone."""
    slot = grid.slot_of(time).astype(np.int64)
    chosen = (slot >= 0) & np.isfinite(lon) & np.isfinite(lat)
    place = np.full(slot.size, -1, np.int64)
    place[chosen] = Locator(zones).locate(lon[chosen], lat[chosen])
    chosen &= place >= 0
    return in_zones(name, zones, grid, user[chosen].astype(np.int64), slot[chosen], place[chosen])


def _aggregates(data: Path, seed: int) -> Population:
    """Each counted visit is kept with a chance of one in ten, as if a tenth of the people had been
    counted: a rounded tenth of the counts would hardly vary by chance."""
    ids, counts = read_counts(data)
    rng = np.random.default_rng(seed)
    user, place, slot = populate(rng.binomial(counts, 1 / ONE_IN), rng)
    points = np.array([shapely.Point(0.01 * k, 0.0) for k in range(ids.size)], dtype=object)
    line = np.column_stack((1000.0 * np.arange(ids.size), np.zeros(ids.size)))
    return in_zones(
        "c2tm",
        Places.of(PlaceKind.TOWERS, ids, points),
        _week(START, ZONE),
        user,
        slot,
        place,
        Layout(line, np.full(ids.size, 1e6)),
    )
