"""`CityPlan`: every choice behind a synthetic city and its week of records, checked.

Users' pseudonyms are a keyed permutation of their numbers, so that ids are distinct and tell no
order.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.time_grid import TimeGrid, zone

MAX_ZONES = 5_000
MAX_TOWERS = 20_000


class Geometry(StrEnum):
    GENERATED = "generated"
    PARIS = "paris"
    """The IRIS zones, Orange sites and census of Paris, read from a folder the user has."""


class Fixes(StrEnum):
    """What a record says about the place."""

    TOWERS = "towers"
    GPS = "gps"


class IdKind(StrEnum):
    INTEGER = "integer"
    TEXT = "text"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class Match:
    """A one-off crowd: ordinary people in one place for some hours of one evening."""

    people: int
    day: int = 4
    """Day of the period, counted from 0."""
    hour: int = 20
    hours: int = 3


@dataclass(frozen=True, slots=True)
class CityPlan:
    """Options of a city. The defaults are the week and the scale of Acs & Castelluccia 2014."""

    users: int = 200_000
    """Users who appear in the records: each has at least one event."""
    towers: int = 1_303
    zones: int = 989
    seed: int = 1
    start: date = date(2007, 9, 10)
    days: int = 7
    tz: str = "Europe/Paris"
    lon: float = 2.35
    lat: float = 48.86
    area_km2: float = 105.0
    residents: int | None = None
    """Census population of the region; 1.1 times the users where not given."""
    geometry: Geometry = Geometry.GENERATED
    data: Path | None = None
    """Folder with `paris/` in it, for `Geometry.PARIS`."""
    fixes: Fixes = Fixes.TOWERS
    id_kind: IdKind = IdKind.INTEGER
    repeats: float = 0.0
    """Mean number of further records in a tower-hour that has one (calls come in bursts)."""
    match: Match | None = None
    strike_day: int | None = None
    """Day of the period, from 0, on which most commuters stay at home."""
    place_activity: float = 0.0
    """Correlation in [0, 1) between a user's activity and the neighbourhood they live in."""
    mean_tower_hours: float | None = None
    """Mean distinct (tower, hour) pairs of a user; 13.55 a week, pro rata, if not given."""
    chunk_users: int = 200_000
    """Users generated at a time: sets the memory needed and the order of rows, nothing else."""

    def __post_init__(self) -> None:
        _within("users", self.users, 1, 1 << 31)
        _within("towers", self.towers, 4, MAX_TOWERS)
        _within("zones", self.zones, 4, MAX_ZONES)
        _within("seed", self.seed, 0, (1 << 63) - 1)
        _within("days", self.days, 1, 366)
        _within("lon", self.lon, -179, 179)
        _within("lat", self.lat, -75, 75)
        _within("area_km2", self.area_km2, 0.5, 20_000)
        _within("repeats", self.repeats, 0, 50)
        _within("place_activity", self.place_activity, 0, 0.95)
        _within("chunk_users", self.chunk_users, 1, 5_000_000)
        _within("mean_tower_hours", self.tower_hours, 1.5, 80.0 * self.days)
        if self.residents is not None:
            _within("residents", self.residents, self.zones, 1 << 40)
        zone(self.tz)
        if self.strike_day is not None:
            _within("strike_day", self.strike_day, 0, self.days - 1)
        if self.match is not None:
            _within("match people", self.match.people, 1, self.users)
            _within("match day", self.match.day, 0, self.days - 1)
            _within("match hour", self.match.hour, 0, 23)
            _within("match hours", self.match.hours, 1, 24 - self.match.hour)
        if self.geometry is Geometry.PARIS and self.data is None:
            raise UsageError(
                "The geometry of Paris needs the folder it is in.",
                remedy="Give `data`, a folder, or set SFUMATO_DATA.",
            )

    @property
    def grid(self) -> TimeGrid:
        """The local hours of the period; 167 or 169 in a week with a clock change."""
        return TimeGrid.between(self.start, self.start + timedelta(days=self.days), "1h", self.tz)

    @property
    def tower_hours(self) -> float:
        """Mean tower-hours of a user over the whole period."""
        if self.mean_tower_hours is not None:
            return self.mean_tower_hours
        return max(1.5, 13.55 * self.days / 7)

    @property
    def population(self) -> int:
        return (
            max(self.zones, round(1.1 * self.users)) if self.residents is None else self.residents
        )


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        flag = name.replace("_", "-")
        raise UsageError(
            f"{flag} is outside what a city can have.",
            remedy=f"Take a value from {low:g} to {high:g}.",
        )


_HALF = np.uint64((1 << 31) - 1)
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


def mix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: a bijection of 64-bit words that scatters them."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def integer_ids(users: NDArray[np.int64], key: int) -> NDArray[np.int64]:
    """A keyed Feistel permutation of the 62-bit integers: distinct, positive, unordered."""
    word = users.astype(np.uint64)
    left, right = word >> np.uint64(31), word & _HALF
    for turn in range(4):
        subkey = mix64(mix64(np.array([key], dtype=np.uint64)) + np.uint64(turn))
        left, right = right, left ^ (mix64(right ^ subkey) & _HALF)
    return ((left << np.uint64(31)) | right).astype(np.int64)


def id_array(users: NDArray[np.int64], key: int, kind: IdKind) -> pa.Array:
    """Ids of the users with these numbers: integers, 16 bytes, or their 32 hex digits."""
    whole = integer_ids(users, key)
    if kind is IdKind.INTEGER:
        return pa.array(whole, pa.int64())
    # The first word is a bijection of the integer id, so 128-bit ids are distinct as well.
    first = mix64(whole.astype(np.uint64))
    second = mix64(first + np.uint64(0x9E3779B97F4A7C15))
    raw = np.column_stack([first, second]).astype(">u8").view(np.uint8).reshape(-1, 16)
    if kind is IdKind.BINARY:
        return _fixed(raw, pa.binary())
    digits = np.empty((len(raw), 32), dtype=np.uint8)
    digits[:, 0::2] = _HEX[raw >> 4]
    digits[:, 1::2] = _HEX[raw & 15]
    return _fixed(digits, pa.string())


def _fixed(content: NDArray[np.uint8], kind: pa.DataType) -> pa.Array:
    n, width = content.shape
    offsets = np.arange(0, (n + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    return pa.Array.from_buffers(kind, n, buffers)
