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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.time_grid import MICROSECONDS
from sfumato.privacy.events import PrivacyEvent, UnitKind
from sfumato.privacy.ledger.accounts import Account, Item, View, changes, fits, row_of, rows_of
from sfumato.privacy.ledger.nesting import Ints, day_edges, steps
from sfumato.privacy.ledger.records import Book, Charge
from sfumato.privacy.ledger.totals import Sum, Totals, sum_of

Big = NDArray[Any]
"""Whole numbers of any size."""
_FIELDS = ("rho_slack", "pure_slack", "impure", "other", "metric")
_NEAR = {"near_rho", "near_pure"}
"""What columns have worked out once is kept for those that did not change."""
CHARGES, COUNTS, SORT = 5, 6, 7
"""Columns of `small` after those fields: charges that count, how often they do in all, and the sum
of their sorts, which is the sort of the one charge where there is one."""
_AT_ONCE = 16
_SHARE = 8
"""More new charges than so many, and than this part of those there are, are added up together, as
when a ledger is opened: ten thousand at once take as long as about a thousand one by one."""
_TOGETHER = 256
"""Charges whose columns are looked at together: few enough that they meet few columns."""


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
        found = Columns(begin, end, rho, pure, small)
        for name in _NEAR & self.__dict__.keys():
            near = self.__dict__[name][at]
            near[nothing] = 0.0
            found.__dict__[name] = near
        return found

    def plus(self, losses: Iterator[tuple[Any, Sum, int, int]]) -> Columns:
        """With a charge: where it counts, what it loses there, how often it counts, its sort."""
        rho, pure, small = self.rho.copy(), self.pure.copy(), self.small.copy()
        changed = np.zeros(self.begin.size, np.bool_)
        for where, loss, n, sort in losses:
            rho[where] += loss.rho
            pure[where] += loss.pure
            small[where] += _small(loss, n, sort)
            changed[where] = True
        found = Columns(self.begin, self.end, rho, pure, small)
        for name, sums in (("near_rho", rho), ("near_pure", pure)):
            if name in self.__dict__:
                near = self.__dict__[name].copy()
                near[changed] = sums[changed].astype(np.float64)
                found.__dict__[name] = near
        return found


def _small(loss: Sum, n: int, sort: int) -> Ints:
    return np.array([*(getattr(loss, name) for name in _FIELDS), 1, n, sort], dtype=np.int64)


@dataclass(frozen=True)
class Tally:
    """Charges in the order of the ledger, and the accounts that were asked for."""

    charges: Ints = field(default_factory=lambda: np.empty((0, 3), np.int64))
    """Sort, begin and end of every charge."""
    sorts: dict[str, int] = field(default_factory=dict)
    """Charges that lose the same wherever they count are of one sort, numbered from 1."""
    kinds: dict[tuple[Any, int], Item] = field(default_factory=dict)
    """The period of one charge of every unit and row of slots: all that decides which accounts
    there are."""
    periods: dict[Any, Ints] = field(default_factory=dict)
    """Unit to place in `charges`, begin and end of those for it."""
    accounts: dict[Account, Columns] = field(default_factory=dict)
    seen: int = 0
    """Charges of the book that were looked at, those about other people included."""
    least_delta: float = 0.0
    """The smallest positive delta of a charge; 0 where none has one."""
    _ahead: dict[Account, tuple[Item, Columns, Ints]] = field(default_factory=dict)
    """Accounts with the charge that was weighed last, which is most often the next to be added."""
    _items: dict[int, Item] = field(default_factory=dict)
    """One charge of each of the newest sorts: many where many were added up together."""

    def __len__(self) -> int:
        return len(self.charges)

    @cached_property
    def texts(self) -> list[str]:
        """The sorts by their number, less one."""
        return list(self.sorts)

    def of_sort(self, sort: int) -> Item:
        """A charge of this sort, in whatever period."""
        return self._items.get(sort) or Item.of_sort(self.texts[sort - 1])

    def item(self, place: int) -> Item:
        """One charge."""
        sort, begin, end = self.charges[place].tolist()
        return replace(self.of_sort(sort), period=(begin, end))

    def unbounded(self, account: Account) -> int:
        """How many charges say nothing about this unit, however often they are counted."""
        kind, small = account.unit.kind, (UnitKind.EVENT, UnitKind.POINT)
        silent = {k for k in small if kind is not k and (k is UnitKind.POINT or kind not in small)}
        if kind not in (UnitKind.TRAJECTORY, *small):
            silent.add(UnitKind.TRAJECTORY)
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
            found = []
            for place in range(len(self)):
                item = self.item(place)
                n = int(row_of(account, item, begin, end)[0])
                found += item.counted(account.unit, n)
            return found

        if small[CHARGES] == 0:
            return Totals.of((), 0)
        if small[CHARGES] == 1:
            only, count = self.of_sort(small[SORT]), small[COUNTS]
            return Totals(losses, 1, lambda: only.counted(account.unit, count))
        return Totals(losses, small[CHARGES], events)

    def ahead(self, account: Account, item: Item) -> tuple[Columns, Ints]:
        """The account before a charge, on the columns it has after it, and how often it counts."""
        known = self._ahead.get(account)
        if known is None or known[0] != item:
            columns = _refined(account, self, item)
            known = item, columns, row_of(account, item, columns.begin, columns.end)
            self._ahead[account] = known
        return known[1:]

    def plus(self, item: Item, delta: float) -> Tally:
        """With one more charge."""
        after = self.noted([item], [delta])
        sort = int(after.charges[-1, 0])
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
        sorts, periods = dict(self.sorts), dict(self.periods)
        rows, some = [], {}
        new: dict[Any, list[tuple[int, int, int]]] = {}
        for place, item in enumerate(items, start=len(self)):
            sort = sorts.setdefault(item.sort(), len(sorts) + 1)
            rows.append((sort, *item.period))
            some[sort] = item
            new.setdefault(item.unit, []).append((place, *item.period))
        for unit, found in new.items():
            periods[unit] = _joined(periods.get(unit), found)
        added = kinds_of({unit: np.array(found, np.int64) for unit, found in new.items()})
        given = [d for d in (self.least_delta, *deltas) if d > 0]
        return Tally(
            _joined(self.charges, rows),
            sorts,
            added | self.kinds,
            periods,
            seen=self.seen,
            least_delta=min(given, default=0.0),
            _items=some,
        )


def kinds_of(periods: dict[Any, Ints]) -> dict[tuple[Any, int], Item]:
    """The first charge of every unit and row of slots, without its events."""
    kinds = {}
    for unit, found in periods.items():
        slot = (unit.slot_s or 0) * MICROSECONDS
        phases = found[:, 1] % slot if slot else np.zeros(len(found), np.int64)
        for phase, at in zip(*np.unique(phases, return_index=True), strict=True):
            kinds[unit, int(phase)] = Item(unit, (int(found[at, 1]), int(found[at, 2])), ())
    return kinds


def _joined(before: Ints | None, rows: Sequence[tuple[int, int, int]]) -> Ints:
    new = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return new if before is None else np.concatenate([before, new])


def tally_of(book: Book, dataset: str, analyst: str | None = None) -> Tally:
    """Everything ever charged about these people, linked data sets too; kept with the book.

    With `analyst` only what was charged for that one.
    """
    group = book.linked[dataset]
    known: Tally = book.tallies.get((group, analyst), Tally())
    own = None if analyst is None else book.asked.get(analyst, [])
    size = len(book.charges) if own is None else len(own)
    if known.seen < size:
        since: Iterable[Charge] = book.charges.since(known.seen)
        if own is not None:
            since = (book.charges[release] for release in own[known.seen :])
        new = book.items(since, group)
        if len(new) > max(_AT_ONCE, len(known) // _SHARE):
            known = known.noted(*zip(*new, strict=True))
        else:
            for item, delta in new:
                known = known.plus(item, delta)
        known = replace(known, seen=size)
    book.tallies[group, analyst] = known
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
        marks = _with(np.append(old.begin, old.end[-1]), np.array(item.period))
        if marks.size == old.begin.size + 1:
            return old
        begin, end = marks[:-1], marks[1:]
        at = np.searchsorted(old.begin, begin, side="right") - 1
        outside = (at < 0) | (begin >= old.end[-1])
        found = old.taken(np.where(outside, -1, at), begin, end)
        return _asked(account, tally, found, outside) if kind is UnitKind.POINT else found
    if kind in (UnitKind.USER_PERIOD, UnitKind.TRAJECTORY):
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
        begin = _with(old.begin, changes(account, [item])[0])
        if begin.size == old.begin.size:
            return old
        end = begin + (old.end[0] - old.begin[0])
    at = np.minimum(np.searchsorted(old.begin, begin), old.begin.size - 1)
    new = old.begin[at] != begin
    found = old.taken(np.where(new, -1, at), begin, end)
    return found if kind is UnitKind.USER_DAY else _asked(account, tally, found, new)


def _with(marks: Ints, more: Ints) -> Ints:
    """Both in order, each once; `marks` are many and in order, `more` are few."""
    more = np.unique(more)
    at = np.searchsorted(marks, more)
    new = marks[np.minimum(at, marks.size - 1)] != more
    return np.insert(marks, at[new], more[new])


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
                    sort = int(tally.charges[place, 0])
                    loss = sum_of(tally.of_sort(sort).counted(account.unit, count))
                    yield places[k], loss, count, sort

    return columns.plus(losses())


def _built(account: Account, tally: Tally) -> Columns:
    """The account of all charges at once: where each begins and ceases to count, then one sweep."""
    spans = [
        Item(unit, (first, last), ())
        for unit, found in tally.periods.items()
        for first, last in np.unique(found[:, 1:], axis=0).tolist()
    ]
    begin, end = changes(account, spans)
    size = begin.size
    rho, pure = [0] * (size + 1), [0] * (size + 1)
    small = np.zeros((size + 1, 8), np.int64)
    losses: dict[tuple[int, int], tuple[Sum, Ints]] = {}
    for sort, k, before, after in _turns(account, tally, begin, end):
        for n, sign in ((before, -1), (after, 1)):
            if n == 0:
                continue
            if (sort, n) not in losses:
                loss = sum_of(tally.of_sort(sort).counted(account.unit, n))
                losses[sort, n] = loss, _small(loss, n, sort)
            loss, more = losses[sort, n]
            rho[k] += sign * loss.rho
            pure[k] += sign * loss.pure
            small[k] += sign * more
    rho_sums, pure_sums = (
        np.array([*accumulate(parts)][:size], dtype=object) for parts in (rho, pure)
    )
    return Columns(begin, end, rho_sums, pure_sums, np.cumsum(small, axis=0)[:size])


def _turns(
    account: Account, tally: Tally, begin: Ints, end: Ints
) -> Iterator[tuple[int, int, int, int]]:
    """Where a charge counts otherwise than in the column before: sort, column, n before, n there.

    Charges of one unit are looked at together, those that begin near each other at a time, in the
    columns that they meet. A place is met again whenever it was charged, so location noise
    counts in all of them.
    """
    for unit, found in tally.periods.items():
        found = found[np.argsort(found[:, 1], kind="stable")]
        everywhere = unit.kind is UnitKind.POINT
        at = 0
        while at < len(found):
            rows = found[at : at + _TOGETHER]
            at += _TOGETHER
            low, high = 0, begin.size
            if not everywhere:
                low = int(np.searchsorted(end, rows[0, 1], side="right"))
                high = int(np.searchsorted(begin, rows[:, 2].max(), side="left"))
            if low >= high:
                continue
            fit = np.ones(len(rows), np.bool_)
            if account.unit.kind is UnitKind.W_EVENT and unit.kind is UnitKind.W_EVENT:
                fit = np.array([fits(account, unit, a) for a in rows[:, 1].tolist()], np.bool_)
            for some in (rows[fit], rows[~fit]):
                if not len(some):
                    continue
                first = Item(unit, (int(some[0, 1]), int(some[0, 2])), ())
                n = rows_of(
                    account, first, (some[:, 1:2], some[:, 2:3]), begin[low:high], end[low:high]
                )
                n = np.pad(n, ((0, 0), (1, 1)))
                one, k = np.nonzero(np.diff(n, axis=1))
                sorts = tally.charges[some[one, 0], 0]
                yield from zip(
                    sorts.tolist(),
                    (low + k).tolist(),
                    n[one, k].tolist(),
                    n[one, k + 1].tolist(),
                    strict=True,
                )
