"""Trips that the study is about: where they come from, how they are cut, what is public about them.

*What a trip is* is fixed here, before any method sees one:

============  ==================================================================================
`cabs`        Cabspotting, San Francisco 2008: a run of fixes with a passenger, cut where the
              passenger changes or 300 s pass, of 4 to 60 fixes, all inside the box
`phones`      25 phones in São Paulo 2017: fixes of 100 m accuracy or better, cut where 300 s pass,
              of at least 4 fixes inside the box that lie 500 m apart
`city`        a made-up city: a person's fixes of one day, at least 3
`crowd`       a made-up crowd on 90 x 89 cells, read by the hour: a person's day, the cell's middle
              wherever it is another than an hour before, at least 3
============  ==================================================================================

A fix within 0.1 m of the one before is left out. The *unit* of the study is a trip: every trip is
taken for a person of its own. Boxes are given, never read from the trips.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.city import CityPlan, write_city
from sfumato.city.crowd import CrowdPlan, generate
from sfumato.city.plan import Fixes
from sfumato.geography.projection import Plane
from sfumato.model.time_grid import MICROSECONDS, TimeGrid, period_of
from sfumato.model.traces import Box, Traces, run_starts
from sfumato.synthesis.evaluate import trips_on_plane
from sfumato.utility.trips import Trips

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SAN_FRANCISCO = Box(-122.515, 37.70, -122.3594, 37.8105)
"""13.7 x 12.3 km."""
SAO_PAULO = Box(-46.80, -23.70, -46.50, -23.48)
PARIS = Box(2.24, 48.79, 2.46, 48.93)
BEIJING = Box(116.137, 39.710, 116.664, 40.110)
_GAP_S = 300
_DAY_US = 86_400 * MICROSECONDS


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Trips in a public box and a public period; each is a person of its own."""

    name: str
    words: str
    box: Box
    grid: TimeGrid
    traces: Traces

    @property
    def trips(self) -> int:
        return int(self.traces.starts.size - 1)

    @property
    def plane(self) -> Plane:
        box = self.box
        return Plane((box.west + box.east) / 2, (box.south + box.north) / 2)

    def on_plane(self) -> Trips:
        """All trips in kilometres."""
        return trips_on_plane(self.traces, self.plane)

    def pick(self, which: Ints) -> Ground:
        """Some of the trips."""
        chosen = np.zeros(self.trips, np.bool_)
        chosen[which] = True
        kept = self.traces.pick(chosen[self.traces.user])
        _, user = np.unique(kept.user, return_inverse=True)
        traces = Traces(kept.names, user, kept.trip, kept.time, kept.lon, kept.lat, kept.row)
        return Ground(self.name, self.words, self.box, self.grid, traces)


def _ground(
    name: str,
    words: str,
    box: Box,
    grid: TimeGrid,
    run: Ints,
    time: Ints,
    lon: Floats,
    lat: Floats,
    least: int,
    most: int = 1 << 30,
) -> Ground:
    """Runs of fixes that lie in the box and have between `least` and `most`; each is a trip."""
    begins = run_starts(run)
    inside = np.minimum.reduceat(box.inside(lon, lat).astype(np.int64), begins[:-1]) == 1
    size = np.diff(begins)
    good = np.repeat(inside & (size >= least) & (size <= most), size)
    run, time, lon, lat = run[good], time[good], lon[good], lat[good]
    x, y = (
        Plane((box.west + box.east) / 2, (box.south + box.north) / 2)
        .to_metres(np.column_stack((lon, lat)))
        .T
    )
    still = np.abs(np.diff(x, prepend=np.inf)) + np.abs(np.diff(y, prepend=np.inf)) <= 0.1
    still[run_starts(run)[:-1]] = False
    run, time, lon, lat = run[~still], time[~still], lon[~still], lat[~still]
    begins = run_starts(run)
    long = np.repeat(np.diff(begins) >= 3, np.diff(begins))
    run, time, lon, lat = run[long], time[long], lon[long], lat[long]
    _, user = np.unique(run, return_inverse=True)
    rows, count = np.arange(run.size), int(user.max(initial=-1)) + 1
    names = np.arange(count).astype(str).astype(object)
    traces = Traces(names, user, np.zeros(run.size, np.int64), time, lon, lat, rows)
    return Ground(name, words, box, grid, traces)


def cabs(data: Path) -> Ground:
    """Taxi trips with a passenger."""
    table = pq.read_table(data / "cabspotting_sf" / "cabspotting_sf_2008.parquet")
    cab, t, taken = (table[name].to_numpy() for name in ("cab", "t_utc_s", "occupied"))
    order = np.lexsort((t, cab))
    cab, t, taken = cab[order], t[order].astype(np.int64), taken[order]
    lon, lat = (table[name].to_numpy()[order] / 1e5 for name in ("lon_e5", "lat_e5"))
    new = (np.diff(cab, prepend=-1) != 0) | (np.diff(taken.astype(np.int64), prepend=-1) != 0)
    new |= np.diff(t, prepend=0) > _GAP_S
    run, ride = np.cumsum(new), taken == 1
    return _ground(
        "cabs",
        "taxi rides in San Francisco (Cabspotting)",
        SAN_FRANCISCO,
        period_of("2008-05-17", "2008-06-11", "1h", "UTC"),
        *(run[ride], t[ride] * MICROSECONDS, lon[ride], lat[ride], 4, 60),
    )


def phones(data: Path) -> Ground:
    """Trips of phones."""
    table = pq.read_table(data / "saopaulo_gps" / "saopaulo_emission_2017.parquet")
    table = table.filter(pc.less_equal(table["accuracy"], 100.0))
    user = np.asarray(table["user"].combine_chunks().dictionary_encode().indices)
    time = table["time_utc"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    order = np.lexsort((time, user))
    lon, lat = (table[name].to_numpy()[order] for name in ("lon", "lat"))
    user, time = user[order], time[order]
    keep = SAO_PAULO.inside(lon, lat)
    user, time, lon, lat = user[keep], time[keep], lon[keep], lat[keep]
    new = (np.diff(user, prepend=-1) != 0) | (np.diff(time, prepend=0) > _GAP_S * MICROSECONDS)
    run = np.cumsum(new)
    begins = run_starts(run)[:-1]
    wide = [np.maximum.reduceat(a, begins) - np.minimum.reduceat(a, begins) for a in (lon, lat)]
    far = np.maximum(wide[0] * 102.1, wide[1] * 111.3) > 0.5
    keep = far[run - 1]
    return _ground(
        "phones",
        "phones in São Paulo",
        SAO_PAULO,
        period_of("2017-07-01", "2017-09-01", "1h", "UTC"),
        *(run[keep], time[keep], lon[keep], lat[keep], 4),
    )


def city(people: int, seed: int) -> Ground:
    """Days of people in a made-up city."""
    with TemporaryDirectory() as home:
        plan = CityPlan(users=people, towers=60, zones=40, seed=seed, fixes=Fixes.GPS)
        write_city(plan, Path(home) / "city")
        table = pq.read_table(Path(home) / "city" / "events.parquet")
    user = np.asarray(table["user_id"].combine_chunks().dictionary_encode().indices)
    time = table["timestamp"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
    order = np.lexsort((time, user))
    user, time = user[order].astype(np.int64), time[order]
    lon, lat = (table[name].to_numpy()[order] for name in ("lon", "lat"))
    run = np.cumsum((np.diff(user, prepend=-1) != 0) | (np.diff(time // _DAY_US, prepend=0) != 0))
    grid = period_of("2007-09-10", "2007-09-17", "1h", "Europe/Paris")
    return _ground("city", "days of people in a made-up city", PARIS, grid, run, time, lon, lat, 3)


def crowd(people: int, seed: int) -> Ground:
    """Days of people in a made-up crowd."""
    made = generate(CrowdPlan(people=people, days=2, seed=seed))
    days, slots = made.cells.shape[1:]
    cells = made.cells.reshape(-1, slots)
    moved = np.concatenate([np.ones((len(cells), 1), np.bool_), np.diff(cells, axis=1) != 0], 1)
    run, slot = np.nonzero(moved)
    at = made.centres[cells[moved]]
    grid = period_of("2008-02-04", "2008-02-06", "1h", "Asia/Shanghai")
    time = grid.period[0] + (run % days) * _DAY_US + (slot + 3) * 3600 * MICROSECONDS
    return _ground(
        "crowd",
        "days of a made-up crowd",
        BEIJING,
        grid,
        *(run.astype(np.int64), time.astype(np.int64), at[:, 0].copy(), at[:, 1].copy(), 3),
    )
