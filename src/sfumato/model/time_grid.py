"""`TimeGrid`: the public slots of a release. A slot is a range of instants.

Local days are cut at local midnights, so a week with a clock change has 167 or 169 hours
and every event falls in the right one. Steps below a day start afresh at each local
midnight; where a day's length is no multiple of the step, its last slot is shorter. A last
slot of several days ends with the period. A local day that a change of the date line skips
has no slots; where the clock passes midnight twice, the day begins at the first one.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError

MICROSECONDS = 1_000_000
_DAY = 86_400
_MAX_SLOTS = 1 << 20
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": _DAY, "w": 7 * _DAY}


def parse_step(text: str) -> timedelta:
    """`15min`, `1h`, `1d` as a duration."""
    match = re.fullmatch(r"\s*(\d{1,6})\s*([a-z]+)\s*", text.lower())
    if not match or match.group(2) not in _UNITS or int(match.group(1)) == 0:
        raise UsageError(f"{text!r} is not a slot length.", remedy="Write it as 15min, 1h or 1d.")
    return timedelta(seconds=int(match.group(1)) * _UNITS[match.group(2)])


def zone(name: str) -> ZoneInfo:
    """The named time zone, or an error that says how names look."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"{name!r} is not a known time zone.", remedy="Write it as Europe/Paris or UTC."
        ) from None


def _first_instant(day: date, tz: ZoneInfo) -> int:
    """Epoch seconds of the first instant of a local day, also where midnight does not exist.

    The day's first instant is the earliest one whose local date is `day`. At a gap over
    midnight the wall clock jumps from 23:59 to 01:00, and that jump is the instant.
    """
    midnight = datetime(day.year, day.month, day.day)
    readings = [midnight.replace(tzinfo=tz, fold=fold).timestamp() for fold in (0, 1)]
    low, high = int(min(readings)), int(max(readings))
    if datetime.fromtimestamp(low, tz).date() == day:
        return low
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, tz).date() >= day:
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True, slots=True, eq=False)
class TimeGrid:
    """Slot edges as epoch microseconds (n + 1 of them), the step and the zone of the labels."""

    edges: NDArray[np.int64]
    step: timedelta
    tz: str

    def __post_init__(self) -> None:
        zone(self.tz)
        edges = np.array(self.edges, dtype=np.int64)
        if edges.ndim != 1 or not 2 <= edges.size <= _MAX_SLOTS + 1:
            raise UsageError(
                f"A period needs between 1 and {_MAX_SLOTS} slots.",
                remedy="Check --from, --to and --slot.",
            )
        if not (np.diff(edges) > 0).all():
            raise UsageError("Slot edges must increase.")
        edges.setflags(write=False)
        object.__setattr__(self, "edges", edges)

    @classmethod
    def between(cls, start: date, end: date, step: str | timedelta, tz: str) -> TimeGrid:
        """All slots of the local days from `start` (included) to `end` (excluded)."""
        if isinstance(start, datetime) or isinstance(end, datetime):
            raise UsageError(
                "The period starts and ends at local midnights: give dates.",
                remedy="Write --from 2007-09-10 --to 2007-09-17.",
            )
        length = parse_step(step) if isinstance(step, str) else step
        seconds = length.total_seconds()
        if seconds < 1 or seconds != int(seconds):
            raise UsageError("A slot lasts a whole number of seconds, at least one.")
        days = (end - start).days
        if days < 1:
            raise UsageError(
                "The period is empty: its end is not after its start.",
                remedy="--to names the first day that is no longer part of the period.",
            )
        if days * _DAY / seconds > 2 * _MAX_SLOTS:
            raise UsageError(
                f"That makes more than {_MAX_SLOTS} slots.",
                remedy="Take a longer --slot or a shorter period.",
            )
        local = zone(tz)
        whole_days, rest = divmod(int(seconds), _DAY)
        if whole_days and rest:
            raise UsageError(
                "A slot longer than a day must be a whole number of days.",
                remedy="Write 1d, 2d or 1w.",
            )
        jump = max(whole_days, 1)
        try:
            marks = [_first_instant(start + timedelta(days=k), local) for k in range(0, days, jump)]
            last = _first_instant(end, local)
        except (OverflowError, ValueError):
            raise UsageError(
                "The period is outside the years that clocks know.", remedy="Check --from and --to."
            ) from None
        if whole_days:
            edges = sorted({*marks, last})
        else:
            edges = []
            for begin, finish in zip(marks, [*marks[1:], last], strict=True):
                edges.extend(range(begin, finish, int(seconds)))
            edges.append(last)
        return cls(np.array(edges, dtype=np.int64) * MICROSECONDS, length, tz)

    @property
    def slots(self) -> int:
        return int(self.edges.size) - 1

    @property
    def period(self) -> tuple[int, int]:
        """First instant and first instant after, in epoch microseconds."""
        return int(self.edges[0]), int(self.edges[-1])

    def slot_of(self, instants: NDArray[np.int64]) -> NDArray[np.int32]:
        """Slot index of each instant (epoch microseconds), -1 outside the period."""
        found = np.searchsorted(self.edges, instants, side="right") - 1
        return np.where((found >= 0) & (found < self.slots), found, -1).astype(np.int32)

    def starts(self) -> list[datetime]:
        """Start of each slot, in the grid's zone."""
        return [self._local(edge) for edge in self.edges[:-1]]

    def ends(self) -> list[datetime]:
        """End of each slot (excluded), in the grid's zone."""
        return [self._local(edge) for edge in self.edges[1:]]

    def fingerprint(self) -> str:
        """SHA-256 of everything that makes the grid what it is."""
        digest = hashlib.sha256(f"time-grid/1|{self.tz}|{self.step.total_seconds()}|".encode())
        digest.update(self.edges.astype("<i8").tobytes())
        return digest.hexdigest()

    def _local(self, edge: np.int64) -> datetime:
        instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(edge))
        return instant.astimezone(zone(self.tz))
