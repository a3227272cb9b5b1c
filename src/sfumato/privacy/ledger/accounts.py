"""The account of a unit: every charge about the same people, as often as it counts there.

`nesting` says how often one charge counts for one step of the account's unit. The account is
the largest composition over all such steps: over all days of a clock, over all windows, over all
instants at which a record may lie. A cap holds for the account, so it holds for every one of them.

A name may leave the clock or the slots open. A cap for `user-day` then has one account for each
clock that a charge for days has (UTC if none has), and a cap for `w-event:48h` one for each row
of slots that a charge for windows has (windows that begin at any instant if none has).
A cap of the first version for `w-event:48` has one for each length of slot of which 48 were charged
(an hour if none were), and one for `point` is the loss within one metre.

What cannot be counted is said and not capped: charges for days and windows in an account of
`user-period`, where a person who is there every day bears all of them (`whole` shows it); charges
for `event` in accounts of larger units; charges for `point` in accounts of anything that is
removed and not moved.

*Ledgers of the first version*, made before version 2 of the schema, name a day without its clock
and a window without the length of its slots. Their reservations hold the SHA-256 of the time grid
(zone, step and edges) and the period, and a grid is decided by zone and step: trying the zones
and the usual steps finds the one that has this digest, which proves it. Where none has, the clock
stays unknown and every account counts the charge at its dearest. The radius of Gaussian noise on
locations stands in the text of its settings.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.time_grid import MICROSECONDS
from sfumato.privacy.events import PrivacyEvent, Unit, UnitKind, event_from_json, event_to_json
from sfumato.privacy.ledger.chain import canonical
from sfumato.privacy.ledger.nesting import (
    ALWAYS,
    Ints,
    Period,
    day_edges,
    scaled,
    steps,
    within_radius,
)

_DAY_S = 86_400
# Lengths that slots usually have: which of them a grid of the first version had, its digest shows.
_STEPS_S = (3600, 1800, 900, 600, 300, 60, 1200, 7200, 10800, 14400, 21600, 28800, 43200, _DAY_S)
_EARTH_RADIUS_M = 6_371_008.8
"""The mean radius, as in `model.sphere`: the step of a lattice is a part of it."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RADIUS = re.compile(r"radius_m=([0-9.e+-]+)")
Edges = NDArray[np.int64]


def unit_as_charged(unit: Unit, period: tuple[int, int], config: dict[str, Any]) -> Unit:
    """The unit with its clock, or with its window as a length of time."""
    open_day = unit.kind is UnitKind.USER_DAY and unit.clock is None
    open_window = unit.kind is UnitKind.W_EVENT and unit.span_s is None
    digest = config.get("time grid")
    if not (open_day or open_window) or not isinstance(digest, str):
        return unit
    found = _grid(digest, *period)
    if found is None:
        return unit
    clock, step_s, shortest = found
    if open_day:
        return Unit(unit.kind, clock=clock)
    assert unit.window is not None
    # Slots of unequal length (where the step does not divide a day) make shorter windows.
    span = unit.window * shortest
    if shortest < step_s and span % step_s == 0:
        span -= 1  # no whole number of slots: their edges do not lie a step apart
    return Unit(unit.kind, None, max(span, 1), step_s)


def clock_of(
    unit: Unit, period: tuple[int, int], config: Mapping[str, Any], likely: tuple[str, ...] = ()
) -> str | None:
    """The clock whose days a charge's period is made of, as far as its row proves it.

    A row names the clock of a unit of days; else the digest of its time grid shows it (`likely`
    clocks are tried first). Locations are charged for days of UTC.
    """
    if unit.clock is not None:
        return unit.clock
    digest = config.get("time grid")
    if isinstance(digest, str):
        found = _grid(digest, *period, likely)
        return None if found is None else found[0]
    return "UTC" if unit.kind is UnitKind.POINT else None


def distance_as_charged(config: dict[str, Any]) -> tuple[float | None, float]:
    """Radius of Gaussian noise on locations, where there is one, and the lattice step."""
    match = _RADIUS.search(str(config.get("gaussian") or ""))
    rows = config.get("lattice")
    step = math.radians(1.0 / rows) * _EARTH_RADIUS_M if isinstance(rows, int) and rows else 0.0
    return (None if match is None else float(match[1])), step


@lru_cache(maxsize=64)
def _grid(
    digest: str, begin: int, end: int, likely: tuple[str, ...] = ()
) -> tuple[str, int, int] | None:
    """Zone, step and shortest slot (seconds) of the grid that has this digest."""
    if begin % MICROSECONDS or end % MICROSECONDS or not 0 < end - begin < 40_000 * 86400 * 10**6:
        return None
    seen: dict[bytes, list[tuple[int, Edges]]] = {}
    for name in (*likely, *sorted(available_timezones())):
        if not (_midnight(name, begin) and _midnight(name, end)):
            continue
        try:
            days = day_edges(name, begin, end)
        except UsageError:
            continue
        if days[0] != begin or days[-1] != end:
            continue
        if days.tobytes() not in seen:
            seen[days.tobytes()] = [(step, _slots(days, step)) for step in _STEPS_S]
        for step, edges in seen[days.tobytes()]:
            text = f"time-grid/1|{name}|{float(step)}|".encode()
            if hashlib.sha256(text + edges.tobytes()).hexdigest() == digest:
                return name, step, int(np.diff(edges).min()) // MICROSECONDS
    return None


def _midnight(name: str, instant: int) -> bool:
    """Whether a local day may begin there: at midnight, or at one where midnight is skipped."""
    try:
        local = (_EPOCH + timedelta(microseconds=instant)).astimezone(ZoneInfo(name))
    except (OSError, ValueError):
        return False
    return local.hour <= 1 and local.second == 0


def _slots(days: Edges, step: int) -> Edges:
    """The edges of slots of this step, begun afresh at every midnight."""
    if step == _DAY_S:
        return days.astype("<i8")
    pieces = [np.arange(a, b, step * MICROSECONDS) for a, b in pairwise(days)]
    return np.concatenate([*pieces, days[-1:]]).astype("<i8")


_HOUR_S = 3600
_ONE_METRE = 1.0


@dataclass(frozen=True, slots=True)
class Item:
    """A charge as the accounts see it: its unit, fully said, its period and its events."""

    unit: Unit
    period: tuple[int, int]
    events: tuple[PrivacyEvent, ...]
    sums: tuple[bool, ...] = ()
    """Which of the events are noise on sums of clipped, non-negative contributions."""
    radius_m: float | None = None
    """Locations: the radius that Gaussian noise was charged for."""
    least_m: float = 0.0
    """Locations: the lattice step, below which a distance costs no less."""

    def sort(self) -> str:
        """All of it but the period, as canonical JSON: charges alike in this lose alike."""
        events = [event_to_json(event) for event in self.events]
        flags, distance = [int(flag) for flag in self.sums], [self.radius_m, self.least_m]
        return canonical([str(self.unit), events, flags, distance])

    @staticmethod
    @lru_cache(maxsize=8192)
    def of_sort(text: str, period: tuple[int, int] = (0, 1)) -> Item:
        """The item of a sort, in a period."""
        unit, events, flags, distance = json.loads(text)
        return Item(
            Unit.parse(unit),
            period,
            tuple(event_from_json(event) for event in events),
            tuple(bool(flag) for flag in flags),
            *distance,
        )

    def counted(self, account: Unit, n: int) -> list[PrivacyEvent]:
        """The events as they count in the account."""
        if n <= 0:
            return []
        if self.unit.kind is UnitKind.POINT:
            radius = account.radius_m or _ONE_METRE
            return [
                within_radius(event, radius, self.radius_m, self.least_m) for event in self.events
            ]
        one = self.unit.kind is UnitKind.USER_PERIOD
        flags = self.sums if one and self.sums else (False,) * len(self.events)
        return [scaled(e, n, sums=flag) for e, flag in zip(self.events, flags, strict=True)]


class View(Enum):
    """Which charges an account holds, where its unit does not say it."""

    CAPPED = "capped"
    """Those that a cap holds."""
    WHOLE = "whole"
    """A person's whole record, with the days and windows that no cap holds."""
    PERIOD = "period"
    """Charges for whole records, at the instants that their periods cover."""


@dataclass(frozen=True, slots=True)
class Account:
    """A unit with nothing left open. `phase_us` is where rows of slots begin."""

    unit: Unit
    phase_us: int = 0
    view: View = View.CAPPED


def accounts_of(unit: Unit, items: Iterable[Item]) -> list[Account]:
    """The accounts that a unit stands for where its name leaves something open."""
    items = list(items)
    if unit.kind is UnitKind.USER_DAY and unit.clock is None:
        clocks = {i.unit.clock for i in items if i.unit.clock is not None} or {"UTC"}
        return [Account(replace(unit, clock=clock)) for clock in sorted(clocks)]
    if unit.kind is UnitKind.POINT and unit.radius_m is None:
        return [Account(replace(unit, radius_m=_ONE_METRE))]
    if unit.kind is not UnitKind.W_EVENT:
        return [Account(unit)]
    rows = {
        (item.unit.slot_s, item.period[0] % (item.unit.slot_s * MICROSECONDS))
        for item in items
        if item.unit.slot_s is not None and unit.slot_s in (None, item.unit.slot_s)
    }
    if not rows and unit.slot_s is not None:
        rows = {(unit.slot_s, 0)}
    if unit.span_s is None:
        assert unit.window is not None
        named = {
            (i.unit.slot_s, i.period[0] % (i.unit.slot_s * MICROSECONDS))
            for i in items
            if i.unit.slot_s is not None and i.unit.span_s == unit.window * i.unit.slot_s
        }
        of = sorted(named) or [(_HOUR_S, 0)]
        return [
            Account(Unit(unit.kind, None, unit.window * slot, slot), phase) for slot, phase in of
        ]
    if not rows:
        return [Account(unit)]
    return [Account(replace(unit, slot_s=slot), phase) for slot, phase in sorted(rows)]


def row_of(account: Account, item: Item, begin: Ints, end: Ints) -> Ints:
    """How often a charge counts in each stretch, what is only said and not counted being 0."""
    return rows_of(account, item, item.period, begin, end)


def rows_of(account: Account, first: Item, period: Period, begin: Ints, end: Ints) -> Ints:
    """The same for charges of one unit that fit the account's windows as the first of them does.

    `period` has their edges as columns, and the answer one row for each.
    """
    kind = account.unit.kind
    if account.view is View.PERIOD:
        covers = (period[0] <= begin) & (end <= period[1]) & (first.unit.kind is kind)
        return np.asarray(covers).astype(np.int64)
    if kind is UnitKind.USER_PERIOD and first.unit.kind is not kind and account.view is View.CAPPED:
        return np.zeros(np.broadcast(period[0], begin).shape, dtype=np.int64)
    windows = kind is UnitKind.W_EVENT and first.unit.kind is UnitKind.W_EVENT
    anywhere = windows and not fits(account, first.unit, first.period[0])
    return np.maximum(steps(first.unit, period, kind, begin, end, anywhere=anywhere), 0)


def fits(account: Account, charge: Unit, begin: int) -> bool:
    """Whether all windows of the account begin and end on slot edges of a charge from then on."""
    own, slot = account.unit, charge.slot_s
    if slot is None or own.slot_s is None or own.span_s is None:
        return False
    phase = (account.phase_us - begin) % (slot * MICROSECONDS)
    return phase == 0 and own.slot_s % slot == 0 and own.span_s % slot == 0


def changes(account: Account, items: Sequence[Item]) -> tuple[Ints, Ints]:
    """Stretches that stand for all that one step of the account's unit can remove.

    Between two of the marks that a row of n can change at, it does not; so one stretch on each
    side of every mark is enough.
    """
    kind = account.unit.kind
    instants = account.view is View.PERIOD or kind in (UnitKind.EVENT, UnitKind.POINT)
    if account.view is View.PERIOD:
        items = [item for item in items if item.unit.kind is kind]
    elif kind in (UnitKind.USER_PERIOD, UnitKind.TRAJECTORY):
        return np.array([ALWAYS[0]]), np.array([ALWAYS[1]])
    if not items:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    marks = np.unique([edge for item in items for edge in item.period])
    if instants:
        return marks[:-1], marks[1:]
    if kind is UnitKind.USER_DAY:
        assert account.unit.clock is not None
        edges = day_edges(account.unit.clock, int(marks[0]), int(marks[-1]))
        return edges[:-1], edges[1:]
    assert account.unit.span_s is not None
    span = account.unit.span_s * MICROSECONDS
    slot = 1 if account.unit.slot_s is None else account.unit.slot_s * MICROSECONDS
    days = [day_edges(i.unit.clock, *i.period) for i in items if i.unit.clock is not None]
    marks = np.unique(np.concatenate([marks, *days]))
    marks = np.concatenate([marks, marks - span])
    floor = (marks - account.phase_us) // slot * slot + account.phase_us
    begin = np.unique(np.concatenate([floor + k * slot for k in (-1, 0, 1, 2)]))
    return begin, begin + span
