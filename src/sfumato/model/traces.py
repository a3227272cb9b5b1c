"""`Traces`: who was where when, as arrays, and the checks that make them fit for use.

Rows are sorted by user, trip and time. What is wrong with a *single row* (nothing there,
not on the globe, no instant between 1980 and 2100, a second row of the same trip at the same
instant) removes the row and is counted; it is never an error, and no fix at all are empty
traces. What looks odd only in the light of *where the user was* (an impossible speed) is
counted and kept: a row that vanishes because of a location would tell something about it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.sphere import great_circle

MICROSECONDS = 1_000_000
_FIRST_US = 315_532_800 * MICROSECONDS  # 1980
_LAST_US = 4_102_444_800 * MICROSECONDS  # 2100
FASTEST_M_S = 100.0
"""Faster than any train: between two fixes this is a fault of the receiver, or a flight."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Box:
    """A public region: west, south, east, north in degrees, not across the date line.

    Given and never read from the data. `repr` is part of reservations: fields keep their names.
    """

    west: float
    south: float
    east: float
    north: float

    def __post_init__(self) -> None:
        inside = -180 <= self.west < self.east <= 180 and -90 <= self.south < self.north <= 90
        if not inside:
            raise UsageError(
                "A region is west,south,east,north in degrees.",
                remedy="Give `region`, for example 116.25,39.85,116.5,40.05.",
            )

    @classmethod
    def parse(cls, text: str | tuple[float, float, float, float]) -> Box:
        """West, south, east, north: four numbers, or a text of them with commas."""
        parts = text.split(",") if isinstance(text, str) else text
        try:
            west, south, east, north = (float(part) for part in parts)
        except ValueError:
            raise UsageError(
                f"{text!r} is not a region.", remedy="Write west,south,east,north in degrees."
            ) from None
        return cls(west, south, east, north)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        return self.west, self.south, self.east, self.north

    def inside(self, lon: Floats, lat: Floats) -> NDArray[np.bool_]:
        east_west = (lon >= self.west) & (lon <= self.east)
        return np.asarray(east_west & (lat >= self.south) & (lat <= self.north))

    def clamp(self, lon: Floats, lat: Floats) -> tuple[Floats, Floats]:
        return np.clip(lon, self.west, self.east), np.clip(lat, self.south, self.north)


@dataclass(frozen=True, slots=True)
class Found:
    """What the cleaning met, for the holder's eyes: counts and nothing else."""

    rows: int = 0
    missing: int = 0
    off_the_globe: int = 0
    far_times: int = 0
    repeated_times: int = 0
    impossible_speeds: int = 0
    unsorted: bool = False
    unreadable: int = 0
    """Lines that could not be cut into fields; they are no rows."""
    unfit: int = 0
    """Files of a folder that gave no rows."""

    @property
    def dropped(self) -> int:
        return self.missing + self.off_the_globe + self.far_times + self.repeated_times

    def lines(self) -> list[str]:
        """What to tell the holder."""
        told = [
            (self.unfit, "files of the folder are damaged or do not fit and gave no rows"),
            (self.unreadable, "lines could not be read and were left out"),
            (self.missing, "rows without user, time or coordinates were left out"),
            (self.off_the_globe, "rows with coordinates that are not on the globe were left out"),
            (self.far_times, "rows with a time outside the years 1980 to 2100 were left out"),
            (self.repeated_times, "rows repeat an instant of the same trip; the first counts"),
            (self.impossible_speeds, f"steps are faster than {FASTEST_M_S:g} m/s; they are kept"),
        ]
        return [f"{count:,} {text}." for count, text in told if count]


@dataclass(frozen=True, slots=True, eq=False)
class Traces:
    """Fixes of some users: `user` indexes `names`, `trip` separates outings, `row` the source."""

    names: NDArray[np.object_]
    user: Ints
    trip: Ints
    time: Ints
    """Epoch microseconds."""
    lon: Floats
    lat: Floats
    row: Ints

    def __len__(self) -> int:
        return int(self.user.size)

    @property
    def starts(self) -> Ints:
        """Index of the first fix of every trip, and the length of the whole at the end."""
        return run_starts(self.user, self.trip)

    def pick(self, which: NDArray[np.bool_] | Ints) -> Traces:
        """Some of the rows, in order."""
        names = ("user", "trip", "time", "lon", "lat", "row")
        return replace(self, **{name: getattr(self, name)[which] for name in names})

    def at(self, lon: Floats, lat: Floats) -> Traces:
        """The same fixes elsewhere."""
        return replace(self, lon=lon, lat=lat)

    def within(self, west: float, south: float, east: float, north: float) -> Traces:
        """Fixes inside a box; it tells who was inside, so never before a release."""
        inside = (self.lon >= west) & (self.lon <= east)
        return self.pick(inside & (self.lat >= south) & (self.lat <= north))

    def between(self, start_us: int, end_us: int) -> Traces:
        """Fixes in a public period, its end not included."""
        return self.pick((self.time >= start_us) & (self.time < end_us))


def run_starts(*columns: Ints) -> Ints:
    """Where a run of equal rows begins, and the number of rows at the end."""
    size = columns[0].size
    if size == 0:
        return np.zeros(1, np.int64)
    new = np.zeros(size, np.bool_)
    new[0] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.append(np.flatnonzero(new), size).astype(np.int64)


NO_TRIP = -1


@dataclass(frozen=True, slots=True, eq=False)
class Fixes:
    """Rows as a format gives them, in its order, not judged.

    `user` indexes `names`, -1 where there is none. `trip` is `NO_TRIP` where the format has none.
    """

    names: NDArray[np.object_]
    user: Ints
    trip: Ints
    time: Ints
    lon: Floats
    lat: Floats
    unreadable: int = 0
    unfit: int = 0


def traces_of(fixes: Fixes, *, gap_s: float | None = None) -> tuple[Traces, Found]:
    """Sorted, checked traces of rows as read; rows without a trip are cut at gaps."""
    own = fixes.trip != NO_TRIP
    made, found = make_traces(
        fixes.user,
        fixes.names,
        fixes.time,
        fixes.lon,
        fixes.lat,
        trip=fixes.trip if own.any() else None,
        gap_s=None if own.all() and own.size else gap_s,
    )
    return made, replace(found, unreadable=fixes.unreadable, unfit=fixes.unfit)


def make_traces(
    users: Ints,
    names: NDArray[np.object_],
    time: Ints,
    lon: Floats,
    lat: Floats,
    *,
    trip: Ints | None = None,
    gap_s: float | None = None,
) -> tuple[Traces, Found]:
    """Sorted, checked traces. A user code of -1 or a NaN coordinate is missing.

    Without trips of their own (`NO_TRIP`), traces are cut wherever `gap_s` seconds pass without a
    fix.
    """
    columns = (users, time, lon, lat) if trip is None else (users, time, lon, lat, trip)
    if len({column.size for column in columns}) != 1:
        raise UsageError("The columns of traces have different lengths.")
    rows = np.arange(users.size, dtype=np.int64)
    there = (users >= 0) & np.isfinite(lon) & np.isfinite(lat)
    globe = there & (np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0)
    dated = globe & (time >= _FIRST_US) & (time < _LAST_US)
    outings = np.full(users.size, NO_TRIP if gap_s is not None else 0) if trip is None else trip
    kept = rows[dated]
    order = kept[np.lexsort((kept, time[kept], outings[kept], users[kept]))]
    # Within a trip: a trip must not decide how another one is read, since it may be the unit.
    again = np.ones(max(order.size - 1, 0), np.bool_)
    for column in (users, outings, time):
        again &= np.diff(column[order]) == 0
    if again.any():
        order = order[np.concatenate([[True], ~again])]
    made = Traces(names, users[order], outings[order], time[order], lon[order], lat[order], order)
    if gap_s is not None:
        made = replace(made, trip=_cut(made, gap_s))
    found = Found(
        rows=int(users.size),
        missing=int((~there).sum()),
        off_the_globe=int((there & ~globe).sum()),
        far_times=int((globe & ~dated).sum()),
        repeated_times=int(again.sum()),
        impossible_speeds=_impossible(made),
        unsorted=bool((np.diff(order) < 0).any()),
    )
    return made, found


def _cut(traces: Traces, gap_s: float) -> Ints:
    """Trips numbered from zero: those of the format, and the others cut at gaps."""
    new = np.diff(traces.time, prepend=traces.time[:1]) > gap_s * MICROSECONDS
    new &= traces.trip == NO_TRIP
    new[1:] |= traces.user[1:] != traces.user[:-1]
    new[1:] |= traces.trip[1:] != traces.trip[:-1]
    new[:1] = True
    return (np.cumsum(new) - 1).astype(np.int64)


def _impossible(traces: Traces) -> int:
    if len(traces) < 2:
        return 0
    metres = great_circle(traces.lon[:-1], traces.lat[:-1], traces.lon[1:], traces.lat[1:])
    seconds = np.diff(traces.time) / MICROSECONDS
    same = (np.diff(traces.user) == 0) & (np.diff(traces.trip) == 0)
    return int((same & (metres > FASTEST_M_S * np.maximum(seconds, 1e-6))).sum())
