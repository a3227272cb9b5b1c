"""Which columns of an account bear most, and which can bind, without composing all of them.

Composing is dear (a minimiser for each), columns are many, and sums say which cannot matter:

* where something has no pure epsilon, epsilon grows with rho alone;
* where everything has one, epsilon is the smaller of the pure sum and what rho says, so a column
  that is below another in both is below it in epsilon;
* one release of Gaussian noise alone has the exact curve, never above what its rho says.

Sums are ordered by their nearest doubles. Columns that differ by less than `CLOSE` are taken to be
equally large and are composed, so rounding never decides which column is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy.ledger.accounts import Account
from sfumato.privacy.ledger.claims import Cap
from sfumato.privacy.ledger.tally import CHARGES, COUNTS, SORT, Columns, Tally
from sfumato.privacy.ledger.totals import GRAIN, Spend, Totals, epsilon_of_rho

CLOSE = 1e-9
Mask = NDArray[np.bool_]
Order = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""Puts columns first that are preferred where several bear the same."""
_IMPURE, _OTHER, _METRIC = 2, 3, 4
_PART = slice(0, CHARGES + 1)
"""What two columns share that compose alike, beside rho and pure epsilon."""


class Choice:
    """The columns of one account, in the order in which ties are decided."""

    def __init__(self, tally: Tally, account: Account, columns: Columns) -> None:
        self.columns = columns
        self._totals: Callable[[int], Totals] = lambda k: tally.totals(account, columns, k)
        small = columns.small
        one = (small[:, CHARGES] <= 1) & (small[:, _OTHER] == 0)
        self.single: Mask = one & (small[:, CHARGES] == 1)
        self.odd: Mask = small[:, _METRIC] > 0
        self.empty: Mask = small[:, CHARGES] == 0
        rest = ~(self.single | self.odd | self.empty)
        self.mixed: Mask = rest & (small[:, _IMPURE] > 0)
        self.pure: Mask = rest & (small[:, _IMPURE] == 0)

    def totals(self, k: int) -> Totals:
        return self._totals(k)

    def worst(self, delta: float, *, earliest: bool = False) -> tuple[int, Spend] | None:
        """The column with the largest epsilon: of several the one with most counts, then the first.

        `earliest`: of several always the first.
        """
        order: Order = (lambda at: at) if earliest else self._by_counts
        found: tuple[tuple[float, int, int], int, Spend] | None = None
        for k in self._candidates(delta, order):
            spend = self.totals(k).spend(delta)
            counts = 0 if earliest else int(self.columns.small[k, COUNTS])
            rank = (spend.epsilon, counts, -k)
            if found is None or rank > found[0]:
                found = rank, k, spend
        if found is None:
            return None
        _, k, spend = found
        if spend.epsilon == 0.0:  # so little that it is nothing everywhere
            k = int(order(np.arange(self.empty.size))[0])
            spend = self.totals(k).spend(delta)
        return k, spend

    def _candidates(self, delta: float, order: Order) -> Iterator[int]:
        """One column of every state that may be the worst."""
        best = 0.0
        for at in (self.empty, self.odd):
            yield from self._states(order(np.flatnonzero(at)))
        if delta == 0.0 and (self.mixed | self.single).any():
            # Without a pure epsilon nothing is finite at delta 0: all of these are alike.
            yield int(order(np.flatnonzero(self.mixed | self.single))[0])
            return
        rho, pure = self.columns.near_rho, self.columns.near_pure
        mixed = np.flatnonzero(self.mixed)
        if mixed.size:
            top = mixed[rho[mixed] >= rho[mixed].max() * (1 - CLOSE)]
            for k in self._states(order(top)):
                yield k
                best = max(best, self.totals(k).spend(delta).epsilon)
        for k in self.frontier(order(np.flatnonzero(self.pure))):
            if pure[k] / GRAIN < best * (1 - CLOSE):
                break
            yield k
            best = max(best, self.totals(k).spend(delta).epsilon)
        single = order(np.flatnonzero(self.single))
        while single.size:
            k = int(single[np.argmax(rho[single])])
            if epsilon_of_rho(float(rho[k]) / GRAIN, delta) < best * (1 - CLOSE):
                return
            yield k
            best = max(best, self.totals(k).spend(delta).epsilon)
            single = single[~self._alike(single, k)]

    def _by_counts(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        return at[np.argsort(-self.columns.small[at, COUNTS], kind="stable")]

    def _alike(self, at: NDArray[np.int64], k: int) -> Mask:
        """Which columns compose as column k does."""
        cols = self.columns
        same = np.asarray(cols.rho[at] == cols.rho[k], np.bool_)
        same &= np.asarray(cols.pure[at] == cols.pure[k], np.bool_)
        same &= (cols.small[at][:, _PART] == cols.small[k, _PART]).all(axis=1)
        if cols.small[k, CHARGES] == 1:
            same &= (cols.small[at][:, [COUNTS, SORT]] == cols.small[k, [COUNTS, SORT]]).all(axis=1)
        return same

    def _states(self, at: NDArray[np.int64]) -> Iterator[int]:
        """The first column of every state."""
        while at.size:
            k = int(at[0])
            yield k
            at = at[~self._alike(at, k)]

    def frontier(self, at: NDArray[np.int64]) -> Iterator[int]:
        """The first column of every state that none exceeds both in rho and in pure epsilon."""
        rho, pure = self.columns.near_rho, self.columns.near_pure
        while at.size:
            k = int(at[np.argmax(pure[at])])
            yield k
            below = (rho[at] < rho[k] * (1 - CLOSE)) & (pure[at] < pure[k] * (1 - CLOSE))
            at = at[~(below | self._alike(at, k))]

    def binding(self, cap: Cap, n: NDArray[np.int64]) -> list[int]:
        """Columns that pass the cap if any does, whatever is added n times to each of them."""
        found: list[int] = []
        rho = self.columns.near_rho
        for times in np.flatnonzero(np.bincount(n)).tolist() if n.size else []:
            here = n == times
            if times:
                found += [int(k) for k in np.flatnonzero(here & self.empty)[:1]]
            # With more added, one release of Gaussian noise is judged by rho as the others are.
            mixed = np.flatnonzero(here & (self.mixed | self.single if times else self.mixed))
            if mixed.size:
                top = mixed[rho[mixed] >= rho[mixed].max() * (1 - CLOSE)]
                found += self._states(self._by_counts(top))
            found += self.frontier(self._by_counts(np.flatnonzero(here & self.pure)))
            found += self._states(self._by_counts(np.flatnonzero(here & self.odd)))
            found += self.passing(cap, here & self.single)
        place = {k: (-int(self.columns.small[k, COUNTS] + n[k]), k) for k in found}
        return sorted(place, key=lambda k: place[k])

    def passing(self, cap: Cap, single: Mask) -> list[int]:
        """Of columns with one release of Gaussian noise alone, those that pass the cap already."""
        rho, at, found = self.columns.near_rho, np.flatnonzero(single), []
        while at.size:
            k = int(at[np.argmax(rho[at])])
            near = float(rho[k]) / GRAIN * (1 + CLOSE)
            by_rho = cap.rho is None or near <= cap.rho
            if by_rho and (
                cap.epsilon is None
                or cap.delta is None
                or epsilon_of_rho(near, cap.delta) <= cap.epsilon
            ):
                break
            if not self.totals(k).fits(cap):
                found.append(k)
            at = at[~self._alike(at, k)]
        return found
