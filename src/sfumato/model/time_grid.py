"""Time slots and calendars: `TimeGrid`, the public slots of a release, and what follows from it.

**Slots.** A slot is a range of instants. Local days are cut at local midnights, so a week with a
clock change has 167 or 169 hours and every event falls in the right one. Steps below a day start
afresh at each local midnight; where a day's length is no multiple of the step, its last slot is
shorter. A last slot of several days ends with the period. A local day that a change of the date
line skips has no slots; where the clock passes midnight twice, the day begins at the first one.

**From a wall clock to an instant**, the same on every engine. A clock that is set back shows an
hour twice, one that is set forward skips an hour. The rule here is that of PEP 495 with fold 0: a
repeated reading is its *first* instant, a skipped one is read with the offset before the change.
Engines disagree on the first case, so they are given the offsets as a short table
(`clock_offsets`) instead of the zone's name.

**Calendars**, all public, since they follow from the grid alone:

* `Calendar`: which day each slot belongs to, where in the day it is, and whether that day is free,
  by its weekday or by a calendar of holidays that was given;
* `HourCalendar`: hour of day, day and kind of day of every slot. Everything known about rhythms
  before any data is seen hangs on these: what repeats from day to day, from weekday to weekday,
  from weekend to weekend;
* `Clock`: to which day each slot belongs, and whether it is night, which is midnight to six by the
  local clock (Xu et al. 2017): people stay then, and a step is judged by its distance alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError

MICROSECONDS = 1_000_000
_DAY = 86_400
_MAX_SLOTS = 1 << 21
"""Ten years of five minutes, which an endless stream is planned for, are 1.05 million."""
_NUMBERED = np.empty(0, np.int64)
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": _DAY, "w": 7 * _DAY}


def parse_step(text: str) -> timedelta:
    """`15min`, `1h`, `1d` as a duration."""
    match = re.fullmatch(r"\s*(\d{1,6})\s*([a-z]+)\s*", text.lower())
    if not match or match.group(2) not in _UNITS or int(match.group(1)) == 0:
        raise UsageError(f"{text!r} is not a slot length.", remedy="Write it as 15min, 1h or 1d.")
    return timedelta(seconds=int(match.group(1)) * _UNITS[match.group(2)])


def step_text(step: timedelta) -> str:
    """A duration as `parse_step` reads it: `15min`, `1h`, `1d`."""
    seconds = int(step.total_seconds())
    unit = next(name for name in ("d", "h", "min", "s") if seconds % _UNITS[name] == 0)
    return f"{seconds // _UNITS[unit]}{unit}"


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
                remedy="Check `start`, `end` and `slot`.",
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
                remedy="Write `start='2007-09-10', end='2007-09-17'`.",
            )
        length = parse_step(step) if isinstance(step, str) else step
        seconds = length.total_seconds()
        if seconds < 1 or seconds != int(seconds):
            raise UsageError("A slot lasts a whole number of seconds, at least one.")
        days = (end - start).days
        if days < 1:
            raise UsageError(
                "The period is empty: its end is not after its start.",
                remedy="`end` is the first day that is no longer part of the period.",
            )
        if days * _DAY / seconds > 2 * _MAX_SLOTS:
            raise UsageError(
                f"That makes more than {_MAX_SLOTS} slots.",
                remedy="Take a longer `slot` or a shorter period.",
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
                "The period is outside the years that clocks know.",
                remedy="Check `start` and `end`.",
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

    @property
    def fold(self) -> str | None:
        """`week` or `day` where the period is folded (`sfumato.model.folded`)."""
        return None

    @property
    def cuts(self) -> NDArray[np.int64]:
        """Instants between which rows fall in one slot: the edges, unless the period is folded."""
        return self.edges

    @property
    def slot_of_cut(self) -> NDArray[np.int64]:
        """The slot between two cuts, by their number; empty where that is the number itself."""
        return _NUMBERED

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

    def start(self, slot: int) -> datetime:
        """Start of one slot; -1 is the last."""
        return self._local(self.edges[:-1][slot])

    def end(self, slot: int) -> datetime:
        """End of one slot (excluded); -1 is the last."""
        return self._local(self.edges[1:][slot])

    def fingerprint(self) -> str:
        """SHA-256 of everything that makes the grid what it is."""
        digest = hashlib.sha256(f"time-grid/1|{self.tz}|{self.step.total_seconds()}|".encode())
        digest.update(self.edges.astype("<i8").tobytes())
        return digest.hexdigest()

    def _local(self, edge: np.int64) -> datetime:
        instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(edge))
        return instant.astimezone(zone(self.tz))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEP = 6 * 3600
_MARGIN = 3 * 86_400  # more than any clock was ever moved at once (Samoa skipped a day)
_FIRST = -62_135_596_800 + 2 * _MARGIN  # what `datetime` can hold, years 1 to 9999
_LAST = 253_402_300_799 - 2 * _MARGIN


def _offset(second: int, tz: tzinfo) -> int:
    """Seconds east of UTC at an instant."""
    local = (_EPOCH + timedelta(seconds=second)).astimezone(tz)
    shift = local.utcoffset()
    return 0 if shift is None else int(shift.total_seconds())


def clock_offsets(
    tz: str, first_us: int, last_us: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Table of offsets that holds for every reading of an instant in [first_us, last_us].

    Returns `(breaks, offsets)` in microseconds with one more offset than breaks: a reading r
    (its digits taken as if they were UTC) is the instant r - offsets[k], k the number of breaks
    at or before r. Readings outside the range stay outside it.
    """
    local = zone(tz)
    second = max(_FIRST, first_us // MICROSECONDS - _MARGIN)
    stop = min(_LAST, last_us // MICROSECONDS + _MARGIN)
    offset = _offset(second, local)
    breaks: list[int] = []
    offsets = [offset]
    while second < stop:
        ahead = second + _STEP
        if _offset(ahead, local) != offset:
            low, high = second, ahead
            while high - low > 1:
                middle = (low + high) // 2
                if _offset(middle, local) == offset:
                    low = middle
                else:
                    high = middle
            # The change happens at `high`. Until its later reading the old offset holds.
            after = _offset(high, local)
            breaks.append(high + max(offset, after))
            offsets.append(after)
            second, offset = high, after
        else:
            second = ahead
    return (
        np.array(breaks, np.int64) * MICROSECONDS,
        np.array(offsets, np.int64) * MICROSECONDS,
    )


def apply_offsets(
    readings: NDArray[np.int64], breaks: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Instants of readings by a table of `clock_offsets`: the definition engines agree with."""
    return (readings - offsets[np.searchsorted(breaks, readings, side="right")]).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Calendar:
    """For every slot: `day` (0, 1, …), `phase` (slot of the day) and `free` (weekend or holiday).

    `holidays` are the numbers of the days that a public calendar names.
    """

    day: NDArray[np.int64]
    phase: NDArray[np.int64]
    free: NDArray[np.bool_]
    holidays: frozenset[int] = frozenset()
    longest_day: int = field(init=False)
    """The most slots of any day."""

    def __post_init__(self) -> None:
        if not self.day.size or not (self.day.shape == self.phase.shape == self.free.shape):
            raise UsageError("A calendar needs at least one slot.")
        # Asked for in every slot: looked up once, however long the stream.
        object.__setattr__(self, "longest_day", int(self.phase.max()) + 1)
        for array in (self.day, self.phase, self.free):
            array.setflags(write=False)

    @classmethod
    def of(cls, grid: TimeGrid, holidays: Iterable[date] = ()) -> Calendar:
        """The local days of a grid. Steps of a day or more are phase 0 throughout.

        Days of the public calendar `holidays` are free whatever their weekday.

        Where a clock is set back over midnight, the grid's new day has begun at the first one
        and goes on: a day that came back would have its budget twice.
        """
        dates: list[date] = [start.date() for start in grid.starts()]
        read = np.array([(when - dates[0]).days for when in dates], dtype=np.int64)
        day = np.maximum.accumulate(read)
        first = np.searchsorted(day, day)
        free = (day + dates[0].weekday()) % 7 >= 5
        named = [(when - dates[0]).days for when in holidays]
        free |= np.isin(day, named)
        return cls(day, np.arange(day.size) - first, free, frozenset(named))

    @classmethod
    def regular(cls, slots: int, per_day: int, first_weekday: int = 0) -> Calendar:
        """Days of equally many slots, the first one a Monday (0) unless said otherwise."""
        slot = np.arange(slots)
        day = slot // per_day
        return cls(day, slot % per_day, (day + first_weekday) % 7 >= 5)

    @property
    def slots(self) -> int:
        return int(self.day.size)


@dataclass(frozen=True, slots=True, eq=False)
class HourCalendar:
    """Arrays over slots. `hour` is the local hour of the slot's middle, 0 to 24."""

    hour: NDArray[np.float64]
    length: NDArray[np.float64]
    """Length of each slot in hours."""
    day: NDArray[np.int64]
    """Day of the period, from 0."""
    weekday: NDArray[np.int64]
    """Monday is 0."""
    at: NDArray[np.float64]
    """Hours since the start of the period, of the slot's middle."""

    @classmethod
    def of(cls, starts: list[datetime], ends: list[datetime]) -> HourCalendar:
        """From the local starts and ends of the slots."""
        first = starts[0]
        length = np.array(
            [(e - s).total_seconds() / 3600 for s, e in zip(starts, ends, strict=True)]
        )
        clock = np.array([s.hour + s.minute / 60 + s.second / 3600 for s in starts])
        return cls(
            hour=np.mod(clock + length / 2, 24.0),
            length=length,
            day=np.array([(s.date() - first.date()).days for s in starts]),
            weekday=np.array([s.weekday() for s in starts]),
            at=np.array([(s - first).total_seconds() / 3600 for s in starts]) + length / 2,
        )

    @property
    def weekend(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.weekday >= 5
        return found

    @property
    def slots_per_day(self) -> float:
        return float(24.0 / np.median(self.length))

    @property
    def same_time_of_day(self) -> NDArray[np.int64]:
        """A number for each slot, equal where the time of day and the kind of day are equal."""
        clock = np.rint(self.hour * 12).astype(np.int64)
        _, group = np.unique(clock + 10_000 * self.weekend, return_inverse=True)
        return np.asarray(group, dtype=np.int64)


NIGHT_ENDS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """`day[t]` counts up from 0; `night[t]` says whether slot t begins before six."""

    day: NDArray[np.int64]
    night: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.day.shape != self.night.shape or not self.day.size:
            raise UsageError("A clock has a day and a night flag for every slot.")
        if self.day[0] != 0 or not np.isin(np.diff(self.day), (0, 1)).all():
            raise UsageError("Days count up from the first slot, without gaps.")

    @classmethod
    def of(cls, grid: TimeGrid) -> Clock:
        """The clock of a grid, by its own time zone."""
        starts = grid.starts()
        _, day = np.unique([start.toordinal() for start in starts], return_inverse=True)
        hours = np.array([start.hour for start in starts])
        return cls(day.astype(np.int64), hours < NIGHT_ENDS)

    @classmethod
    def plain(cls, days: int, slots: int, first_hour: float = 0.0, step: float = 1.0) -> Clock:
        """`days` days of `slots` readings each, `step` hours apart from `first_hour` on."""
        hours = np.tile(first_hour + step * np.arange(slots), days) % 24
        return cls(np.repeat(np.arange(days), slots), hours < NIGHT_ENDS)

    @property
    def slots(self) -> int:
        return int(self.day.size)

    @property
    def days(self) -> list[NDArray[np.int64]]:
        """The slots of each day."""
        return np.split(np.arange(self.slots), np.flatnonzero(np.diff(self.day)) + 1)

    def first(self, slots: int) -> Clock:
        """The clock of the first slots only."""
        return Clock(self.day[:slots], self.night[:slots])


def period_of(
    start: date | str, end: date | str, slot: str, tz: str, fold: str | None = None
) -> TimeGrid:
    """The slots of the days from `start` (included) to `end` (excluded): a public choice.

    With `fold` those of a typical week or day (`sfumato.model.folded`).
    """
    if fold is not None:
        from sfumato.model.folded import folded_period  # which is made of grids

        return folded_period(day_of(start), day_of(end), slot, tz, fold)
    return TimeGrid.between(day_of(start), day_of(end), slot, tz)


def day_of(day: date | str) -> date:
    """A date, or one written as 2007-09-10; a time of day is taken where it is midnight.

    Between 1900 and 2199: a ledger counts days on both sides of a period, and the first and last
    years of a calendar have none there.
    """
    try:
        if isinstance(day, datetime):  # pandas' NaT is one, and raises here
            day = day.date() if day.time() == time.min else str(day)
        found = day if isinstance(day, date) else date.fromisoformat(day)
    except ValueError:
        raise UsageError(f"{day!r} is not a date.", remedy="Write it as 2007-09-10.") from None
    if not 1900 <= found.year < 2200:
        raise UsageError(
            "The period is outside the years that clocks know.", remedy="Check `start` and `end`."
        )
    return found
