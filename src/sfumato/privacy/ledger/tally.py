"""Accounts that are kept added up: what every day, window or instant bears, charge after charge.

A `Tally` holds all charges about people who are linked. For every account that was asked for it has
`Columns`: the stretches of time that may be the worst (`accounts.changes`), and for each the sum
of all that counts there. One more charge adds its own losses to the columns it meets, and the
columns that its own edges make necessary:

* instants (`event`, `point`): an edge parts a stretch in two, and both parts bear what it bore;
* days: no charge lies outside of the days there are, so a new one bears nothing;
* windows: what they bear is asked of the charges that they meet, all at once.

Nothing is changed in place: a tally with one more charge is another tally, so that a charge that
is refused, or whose transaction fails, leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.time_grid import MICROSECONDS
from sfumato.privacy.events import PrivacyEvent, UnitKind
from sfumato.privacy.ledger.accounts import Account, Item, View, changes, fits, row_of
from sfumato.privacy.ledger.nesting import Ints, day_edges, steps
from sfumato.privacy.ledger.records import Book
from sfumato.privacy.ledger.totals import Sum, Totals, sum_of

Big = NDArray[Any]
"""Whole numbers of any size."""
_FIELDS = ("rho_slack", "pure_slack", "impure", "other", "metric")
CHARGES, COUNTS, SORT = 5, 6, 7
"""Columns of `small` after those fields: charges that count, how often they do in all, and the sum
of their sorts, which is the sort of the one charge where there is one."""
_MOST_AHEAD = 64
"""Accounts of one charge that is being weighed: enough for its check and its standing."""
_AT_ONCE = 16
"""More new charges than this are added up together, as when a ledger is opened."""


@dataclass(frozen=True)
class Columns:
    """Stretches [begin, end), in order, and what each of them bears."""

    begin: Ints
    end: Ints
    rho: Big
    pure: Big
    small: Ints

    @classmethod
    def empty(cls, begin: Ints, end: Ints) -> Columns:
        zeros = np.array([0] * begin.size, dtype=object)
        return cls(begin, end, zeros, zeros, np.zeros((begin.size, 8), np.int64))

    @cached_property
    def near_rho(self) -> NDArray[np.float64]:
        """Rho to the nearest double: orders sums, except those that differ in the last digit."""
        return self.rho.astype(np.float64)

    @cached_property
    def near_pure(self) -> NDArray[np.float64]:
        return self.pure.astype(np.float64)

    def taken(self, at: Ints, begin: Ints, end: Ints) -> Columns:
        """Other stretches that bear what those at these places do; nothing where it is -1."""
        if not self.begin.size:
            return Columns.empty(begin, end)
        rho, pure, small = self.rho[at], self.pure[at], self.small[at]
        nothing = at < 0
        rho[nothing], pure[nothing], small[nothing] = 0, 0, 0
        return Columns(begin, end, rho, pure, small)

    def plus(self, losses: Iterator[tuple[Any, Sum, int, int]]) -> Columns:
        """With a charge: where it counts, what it loses there, how often it counts, its sort."""
        rho, pure, small = self.rho.copy(), self.pure.copy(), self.small.copy()
        for where, loss, n, sort in losses:
            rho[where] += loss.rho
            pure[where] += loss.pure
            small[where] += _small(loss, n, sort)
        return Columns(self.begin, self.end, rho, pure, small)


def _small(loss: Sum, n: int, sort: int) -> Ints:
    return np.array([*(getattr(loss, name) for name in _FIELDS), 1, n, sort], dtype=np.int64)


@dataclass(frozen=True)
class Tally:
    """Charges in the order of the ledger, and the accounts that were asked for."""

    items: list[Item] = field(default_factory=list)
    kinds: dict[tuple[Any, int], Item] = field(default_factory=dict)
    """One charge of every unit and row of slots: all that decides which accounts there are."""
    sorts: dict[Item, int] = field(default_factory=dict)
    """Charges that lose the same wherever they count are of one sort, numbered from 1."""
    sort_of: list[int] = field(default_factory=list)
    """The sort of every charge."""
    periods: dict[Any, Ints] = field(default_factory=dict)
    """Unit to place in `items`, begin and end of its charges."""
    accounts: dict[Account, Columns] = field(default_factory=dict)
    seen: int = 0
    """Charges of the book that were looked at, those about other people included."""
    least_delta: float = 0.0
    """The smallest positive delta of a charge; 0 where none has one."""
    _ahead: dict[tuple[Account, Item], tuple[Columns, Ints]] = field(default_factory=dict)

    def unbounded(self, account: Account) -> int:
        """How many charges say nothing about this unit, however often they are counted."""
        kind, small = account.unit.kind, (UnitKind.EVENT, UnitKind.POINT)
        silent = {k for k in small if kind is not k and (k is UnitKind.POINT or kind not in small)}
        sizes = (
            int((found[:, 1] < found[:, 2]).sum())
            for unit, found in self.periods.items()
            if unit.kind in silent
        )
        return sum(sizes)

    def columns(self, account: Account) -> Columns:
        """The account, added up now if it was not before."""
        if account not in self.accounts:
            self.accounts[account] = _built(account, self)
        return self.accounts[account]

    def totals(self, account: Account, columns: Columns, k: int) -> Totals:
        """What one column bears."""
        small = columns.small[k].tolist()
        losses = Sum(columns.rho[k], columns.pure[k], *small[: len(_FIELDS)])
        begin, end = columns.begin[k : k + 1], columns.end[k : k + 1]

        def events() -> list[PrivacyEvent]:
            return [
                event
                for item in self.items
                for event in item.counted(account.unit, int(row_of(account, item, begin, end)[0]))
            ]

        if small[CHARGES] == 0:
            return Totals.of((), 0)
        if small[CHARGES] == 1:
            only = next(islice(self.sorts, small[SORT] - 1, None))
            return Totals(losses, 1, lambda: only.counted(account.unit, small[COUNTS]))
        return Totals(losses, small[CHARGES], events)

    def ahead(self, account: Account, item: Item) -> tuple[Columns, Ints]:
        """The account before a charge, on the columns it has after it, and how often it counts."""
        if (account, item) not in self._ahead:
            columns = _refined(account, self, item)
            row = row_of(account, item, columns.begin, columns.end)
            if len(self._ahead) >= _MOST_AHEAD:
                self._ahead.clear()
            self._ahead[account, item] = columns, row
        return self._ahead[account, item]

    def plus(self, item: Item, delta: float) -> Tally:
        """With one more charge."""
        after = self.noted([item], [delta])
        sort = after.sort_of[-1]
        for account in self.accounts:
            columns, row = self.ahead(account, item)
            after.accounts[account] = columns.plus(
                (row == n, sum_of(item.counted(account.unit, n)), n, sort)
                for n in np.flatnonzero(np.bincount(row)).tolist()
                if n > 0
            )
        return after

    def noted(self, items: Sequence[Item], deltas: Sequence[float]) -> Tally:
        """With more charges, and no account yet."""
        kinds, sorts, periods = dict(self.kinds), dict(self.sorts), dict(self.periods)
        numbers = []
        new: dict[Any, list[tuple[int, int, int]]] = {}
        for place, item in enumerate(items, start=len(self.items)):
            slot = (item.unit.slot_s or 0) * MICROSECONDS
            kinds.setdefault((item.unit, item.period[0] % slot if slot else 0), item)
            numbers.append(sorts.setdefault(replace(item, period=(0, 1)), len(sorts) + 1))
            new.setdefault(item.unit, []).append((place, *item.period))
        for unit, rows in new.items():
            before = periods.get(unit, np.empty((0, 3), np.int64))
            periods[unit] = np.concatenate([before, np.array(rows, dtype=np.int64)])
        given = [d for d in (self.least_delta, *deltas) if d > 0]
        return Tally(
            [*self.items, *items],
            kinds,
            sorts,
            [*self.sort_of, *numbers],
            periods,
            seen=self.seen,
            least_delta=min(given, default=0.0),
        )


def tally_of(book: Book, dataset: str) -> Tally:
    """Everything ever charged about these people, linked data sets too; kept with the book."""
    group = book.linked[dataset]
    known: Tally = book.tallies.get(group) or Tally()
    if known.seen < len(book.charges):
        since = islice(book.charges.values(), known.seen, None)
        new = [charge for charge in since if charge.claim.dataset in group]
        items = [charge.claim.item(book.unit_of(charge)) for charge in new]
        deltas = [charge.claim.delta for charge in new]
        if len(new) > _AT_ONCE:
            known = known.noted(items, deltas)
        else:
            for item, delta in zip(items, deltas, strict=True):
                known = known.plus(item, delta)
        known = replace(known, seen=len(book.charges))
    book.tallies[group] = known
    return known


def tally_of_items(items: Sequence[Item]) -> Tally:
    """Charges that stand in no book."""
    return Tally().noted(items, [])


def _refined(account: Account, tally: Tally, item: Item) -> Columns:
    """The account on the columns that it has with one more charge, which is not added yet."""
    old, kind = tally.columns(account), account.unit.kind
    if not old.begin.size:
        return Columns.empty(*changes(account, [item]))
    if account.view is View.PERIOD and item.unit.kind is not kind:
        return old
    if account.view is View.PERIOD or kind in (UnitKind.EVENT, UnitKind.POINT):
        marks = np.union1d(np.append(old.begin, old.end[-1]), item.period)
        if marks.size == old.begin.size + 1:
            return old
        begin, end = marks[:-1], marks[1:]
        at = np.searchsorted(old.begin, begin, side="right") - 1
        outside = (at < 0) | (begin >= old.end[-1])
        found = old.taken(np.where(outside, -1, at), begin, end)
        return _asked(account, tally, found, outside) if kind is UnitKind.POINT else found
    if kind is UnitKind.USER_PERIOD:
        return old
    if kind is UnitKind.USER_DAY:
        clock = account.unit.clock
        assert clock is not None
        low, high = int(old.begin[0]), int(old.end[-1])
        if low <= item.period[0] and item.period[1] <= high:
            return old
        edges = day_edges(clock, min(low, item.period[0]), max(high, item.period[1]))
        begin, end = edges[:-1], edges[1:]
    else:
        begin = np.union1d(old.begin, changes(account, [item])[0])
        if begin.size == old.begin.size:
            return old
        end = begin + (old.end[0] - old.begin[0])
    at = np.minimum(np.searchsorted(old.begin, begin), old.begin.size - 1)
    new = old.begin[at] != begin
    found = old.taken(np.where(new, -1, at), begin, end)
    return found if kind is UnitKind.USER_DAY else _asked(account, tally, found, new)


def _asked(account: Account, tally: Tally, columns: Columns, which: NDArray[np.bool_]) -> Columns:
    """With what all charges amount to in these columns, where nothing was added up yet."""
    places = np.flatnonzero(which)
    begin, end = columns.begin[places], columns.end[places]
    if not places.size:
        return columns

    def losses() -> Iterator[tuple[Any, Sum, int, int]]:
        for unit, found in tally.periods.items():
            near = found
            if unit.kind is not UnitKind.POINT:
                near = found[(found[:, 1] < end.max()) & (found[:, 2] > begin.min())]
            fit = np.ones(len(near), np.bool_)
            if unit.kind is UnitKind.W_EVENT:
                fit = np.array([fits(account, unit, a) for a in near[:, 1].tolist()], np.bool_)
            for anywhere in (False, True):
                rows = near[fit != anywhere]
                if not rows.size:
                    continue
                period = rows[:, 1:2], rows[:, 2:3]
                n = steps(unit, period, account.unit.kind, begin, end, anywhere=anywhere)
                for one, k in np.argwhere(n > 0).tolist():
                    place, count = int(rows[one, 0]), int(n[one, k])
                    loss = sum_of(tally.items[place].counted(account.unit, count))
                    yield places[k], loss, count, tally.sort_of[place]

    return columns.plus(losses())


def _built(account: Account, tally: Tally) -> Columns:
    """The account of all charges at once: where each begins and ceases to count, then one sweep."""
    items = tally.items
    begin, end = changes(account, items)
    size = begin.size
    rho, pure = [0] * (size + 1), [0] * (size + 1)
    small = np.zeros((size + 1, 8), np.int64)
    for item, sort in zip(items, tally.sort_of, strict=True):
        for low, high, n in _pieces(account, item, begin, end):
            loss = sum_of(item.counted(account.unit, n))
            rho[low] += loss.rho
            rho[high] -= loss.rho
            pure[low] += loss.pure
            pure[high] -= loss.pure
            more = _small(loss, n, sort)
            small[low] += more
            small[high] -= more
    rho_sums, pure_sums = (
        np.array([*accumulate(parts)][:size], dtype=object) for parts in (rho, pure)
    )
    return Columns(begin, end, rho_sums, pure_sums, np.cumsum(small, axis=0)[:size])


def _pieces(account: Account, item: Item, begin: Ints, end: Ints) -> Iterator[tuple[int, int, int]]:
    """Runs of columns on which a charge counts alike, and how often: from, to, n."""
    low, high = 0, begin.size
    if item.unit.kind is not UnitKind.POINT:  # a place is met again whenever it was charged
        low = int(np.searchsorted(end, item.period[0], side="right"))
        high = int(np.searchsorted(begin, item.period[1], side="left"))
    if low >= high:
        return
    row = row_of(account, item, begin[low:high], end[low:high])
    edges = [0, *(np.flatnonzero(np.diff(row)) + 1).tolist(), row.size]
    for first, last in pairwise(edges):
        if row[first] > 0:
            yield low + first, low + last, int(row[first])
