"""The account of a unit: every charge about the same people, as often as it counts there.

`nesting` says how often one charge counts for one step of the account's unit. The account is
the largest composition over all such steps: over all days of a clock, over all windows, over all
instants at which a record may lie. A cap holds for the account, so it holds for every one of them.

A name may leave the clock or the slots open. A cap for `user-day` then has one account for each
clock that a charge for days has (UTC if none has), and a cap for `w-event:48h` one for each row
of slots that a charge for windows has (windows that begin at any instant if none has).

What cannot be counted is said and not capped: charges for days and windows in an account of
`user-period`, where a person who is there every day bears all of them (`whole` shows it); charges
for `event` in accounts of larger units; charges for `point` in accounts of anything that is
removed and not moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

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


def clock_of(unit: Unit, config: Mapping[str, Any]) -> str | None:
    """The clock whose days a charge's period is made of, as far as its row says it.

    Locations are charged for days of UTC.
    """
    clock = unit.clock or config.get("clock") or ("UTC" if unit.kind is UnitKind.POINT else None)
    return None if clock is None else str(clock)


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
