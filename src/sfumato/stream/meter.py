"""`Meter`: what every window of a stream has spent. It refuses before noise is drawn.

A plan opens *accounts*; each is one event that the ledger has charged for the whole stream
(for the stream's unit), such as "19 histograms with Laplace noise of scale 19". Measurements
draw on an account slot by slot, and choose their size in the light of what was published; the
meter adds up exactly and keeps every window's sum within the account. That is a privacy
filter: sums of pure epsilons and of rho may be spent adaptively (Feldman & Zrnic 2021;
Whitehouse et al. 2023). A unit touches the slots of one window only, so what the slots
outside it spend costs that unit nothing.

Labels are `account@slot` or `account@slot/part`. Only the current window is remembered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.model.errors import BudgetRefused, UsageError
from sfumato.privacy.accounting import event_epsilon, event_rho
from sfumato.privacy.events import PrivacyEvent
from sfumato.stream.facts import StreamFacts


@dataclass(frozen=True, slots=True)
class Account:
    """A named event of the ledger on which many measurements draw."""

    label: str
    event: PrivacyEvent
    run: bool = False
    """One measurement that goes on over several slots, and may be taken up again after a stop."""

    @property
    def pure(self) -> bool:
        return event_epsilon(self.event) is not None

    @property
    def whole(self) -> Fraction:
        """All there is, in epsilon for a pure event and in rho for a Gaussian one."""
        return self.cost(self.event)

    def cost(self, event: PrivacyEvent) -> Fraction:
        """What an event takes from this account."""
        if not self.pure:
            return event_rho(event)
        epsilon = event_epsilon(event)
        if epsilon is None:
            raise UsageError(f"The account {self.label!r} is pure; Gaussian noise is not.")
        return epsilon


class Meter:
    """A `Charger` over the accounts of a plan, for slots in increasing order."""

    def __init__(self, accounts: Iterable[Account], facts: StreamFacts) -> None:
        self._facts = facts
        self._accounts = {account.label: account for account in accounts}
        self._spent: dict[str, deque[tuple[int, Fraction]]] = {
            label: deque() for label in self._accounts
        }
        self._last: dict[str, tuple[int, set[str]]] = {}
        self._open: set[str] = set()

    def charge(self, label: str, event: PrivacyEvent) -> None:
        name, _, rest = label.partition("@")
        if name not in self._accounts or not rest.split("/")[0].isdigit():
            raise UsageError(f"The measurement {label!r} was not planned.")
        slot = int(rest.split("/")[0])
        at, used = self._last.get(name, (-1, set()))
        if label in self._open:
            self._open.remove(label)
            return
        if slot < at or (slot == at and label in used):
            raise UsageError(f"The measurement {label!r} was already taken.")
        account = self._accounts[name]
        cost = account.cost(event)
        if self.spent(name, slot) + cost > account.whole:
            raise BudgetRefused(
                f"The measurement {label!r} would spend more than its window has.",
                remedy="This is a fault of the scheme: it must ask what is left.",
            )
        self._spent[name].append((slot, cost))
        self._last[name] = (slot, used | {label} if slot == at else {label})

    def spent(self, account: str, slot: int) -> Fraction:
        """What the account has spent in the part of the window that ends at `slot`."""
        kept = self._spent[account]
        while kept and not self._facts.same_window(kept[0][0], slot):
            kept.popleft()
        return sum((cost for _, cost in kept), Fraction(0))

    def left(self, account: str, slot: int) -> Fraction:
        """What a measurement at `slot` may still cost."""
        return self._accounts[account].whole - self.spent(account, slot)

    def affords(self, account: str, slot: int, event: PrivacyEvent) -> bool:
        """Whether such a measurement at `slot` stays within every window."""
        return self._accounts[account].cost(event) <= self.left(account, slot)

    def share_spent(self, slot: int) -> float:
        """The largest share of any account that the current window has spent."""
        shares = [self.spent(a.label, slot) / a.whole for a in self._accounts.values()]
        return float(max(shares, default=Fraction(0)))

    def state(self) -> dict[str, Any]:
        return {
            "spent": {
                name: [[slot, str(cost)] for slot, cost in kept]
                for name, kept in self._spent.items()
            },
            "last": {name: [slot, sorted(used)] for name, (slot, used) in self._last.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        for name, kept in state["spent"].items():
            self._spent[name] = deque((int(slot), Fraction(cost)) for slot, cost in kept)
        self._last = {name: (int(s), set(used)) for name, (s, used) in state["last"].items()}
        self._open = {
            label
            for name, (_, used) in self._last.items()
            for label in used
            if self._accounts[name].run
        }
