"""The accounts as they are defined: every column of every charge, composed from its events.

This is how the ledger itself reckoned before it kept sums. It takes time and memory with the square
of the number of charges, and is here to be compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sfumato.privacy.events import PrivacyEvent, Unit, UnitKind
from sfumato.privacy.ledger.accounts import Account, Item, View, accounts_of, changes, row_of
from sfumato.privacy.ledger.claims import Cap
from sfumato.privacy.ledger.totals import Spend, compose, fits_caps


@dataclass(frozen=True, slots=True)
class Column:
    """One step of the account's unit that no other outdoes: where, and the n of every charge."""

    where: tuple[int, int]
    counts: tuple[int, ...]

    def events(self, account: Account, items: Sequence[Item]) -> list[PrivacyEvent]:
        """All that this step loses."""
        return [
            event
            for item, n in zip(items, self.counts, strict=False)
            for event in item.counted(account.unit, n)
        ]

    @property
    def charges(self) -> int:
        return sum(n > 0 for n in self.counts)


def columns(account: Account, items: Sequence[Item]) -> list[Column]:
    """The steps of the account's unit that may be the worst."""
    if not items:
        return []
    begin, end = changes(account, items)
    rows = np.stack([row_of(account, item, begin, end) for item in items])
    first: dict[bytes, int] = {}
    for k, column in enumerate(np.ascontiguousarray(rows.T)):
        first.setdefault(column.tobytes(), k)
    at = np.fromiter(first.values(), dtype=np.int64)
    at = at[np.argsort(-rows[:, at].sum(axis=0), kind="stable")]
    kept: list[int] = []
    for k in at:
        if not kept or not (rows[:, kept] >= rows[:, [k]]).all(axis=0).any():
            kept.append(int(k))
    return [Column((int(begin[k]), int(end[k])), tuple(int(n) for n in rows[:, k])) for k in kept]


def loss_of(
    unit: Unit, items: Sequence[Item], delta: float
) -> tuple[Unit, Spend, tuple[int, int] | None, Spend | None]:
    """Unit, spend, where, and a whole record with its days and windows."""
    found: tuple[Unit, Spend, tuple[int, int] | None, Spend | None] | None = None
    for account in accounts_of(unit, items):
        for column in columns(account, items):
            spend = compose(column.events(account, items), delta, column.charges)
            if found is None or spend.epsilon > found[1].epsilon:
                where = None if unit.kind is UnitKind.USER_PERIOD else column.where
                found = (account.unit, spend, where, _whole(account, items, delta))
    return (unit, compose([], delta, 0), None, None) if found is None else found


def _whole(account: Account, items: Sequence[Item], delta: float) -> Spend | None:
    if account.unit.kind is not UnitKind.USER_PERIOD:
        return None
    if not any(i.unit.kind in (UnitKind.USER_DAY, UnitKind.W_EVENT) for i in items):
        return None
    everything = Account(account.unit, view=View.WHOLE)
    (column,) = columns(everything, items)
    return compose(column.events(everything, items), delta, column.charges)


def worst_period(
    periods: Sequence[tuple[int, int]], events: Sequence[Sequence[PrivacyEvent]], delta: float
) -> tuple[tuple[int, int] | None, Spend]:
    """The stretch of time about which most was released, by epsilon, and what it bears."""
    marks = sorted({instant for period in periods for instant in period})
    where, worst = None, compose([], delta, 0)
    seen: set[tuple[int, ...]] = set()
    for start, end in pairwise(marks):
        over = tuple(k for k, (a, b) in enumerate(periods) if a <= start and end <= b)
        if over in seen:
            continue
        seen.add(over)
        borne = compose([event for k in over for event in events[k]], delta, len(over))
        if over and (where is None or borne.epsilon > worst.epsilon):
            where, worst = (start, end), borne
    return where, worst


def fits(items: Sequence[Item], caps: Sequence[tuple[Unit, Cap]]) -> bool:
    """Whether all charges together keep every cap, at every day, window and instant."""
    return all(
        fits_caps(column.events(account, items), [cap], column.charges)
        for unit, cap in caps
        for account in accounts_of(unit, items)
        for column in columns(account, items)
    )
