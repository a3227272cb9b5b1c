"""`Budget`: how much may be lost, a frozen value with arithmetic.

Inside it is one exact number of one notion: rho of zero-concentrated DP, or epsilon of pure
DP. At the door it is (epsilon, delta): `from_epsilon_delta` takes the largest rho that the
tight conversion allows, and `epsilon` converts back. Amounts are fractions, so a budget that
is split adds up again to exactly itself. Budgets of different units or notions are never
added or compared; a pure budget becomes a zCDP one only where that is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from sfumato.model.errors import UsageError
from sfumato.privacy.accounting import guarantee, total_epsilon, total_per_metre, total_rho
from sfumato.privacy.accounting.zcdp import zcdp_epsilon, zcdp_rho
from sfumato.privacy.events import PrivacyEvent
from sfumato.privacy.exact import Number, decimal_down, exact
from sfumato.privacy.units import USER_PERIOD, Unit, UnitKind


class Notion(StrEnum):
    """What the amount of a budget counts."""

    ZCDP = "zcdp"
    PURE = "pure"


@dataclass(frozen=True, slots=True)
class Budget:
    """`amount` of rho or epsilon for `unit`; None is infinite, which no release may have."""

    notion: Notion
    amount: Fraction | None
    unit: Unit = USER_PERIOD
    delta: float | None = None
    """The delta at which a zCDP budget is shown; the loss itself does not depend on it."""

    def __post_init__(self) -> None:
        if self.amount is not None and self.amount < 0:
            raise UsageError("A budget cannot be negative.")
        if self.delta is not None and not 0 < self.delta < 1:
            raise UsageError(
                "delta lies strictly between 0 and 1.", remedy="For delta 0 ask for a pure budget."
            )
        if self.notion is Notion.PURE and self.delta is not None:
            raise UsageError("A pure budget has no delta.")
        if self.unit.kind is UnitKind.POINT and self.notion is not Notion.PURE:
            raise UsageError("A budget for points is an epsilon per metre, which is pure.")

    @classmethod
    def zcdp(cls, rho: Number, unit: Unit = USER_PERIOD, delta: float | None = None) -> Budget:
        """rho-zCDP, shown at `delta` where one is given."""
        return cls(Notion.ZCDP, _amount(rho), unit, delta)

    @classmethod
    def pure(cls, epsilon: Number, unit: Unit = USER_PERIOD) -> Budget:
        """Pure epsilon-DP; per metre where the unit is a point."""
        return cls(Notion.PURE, _amount(epsilon), unit)

    @classmethod
    def from_epsilon_delta(cls, epsilon: float, delta: float, unit: Unit = USER_PERIOD) -> Budget:
        """The largest zCDP budget within (epsilon, delta); delta 0 is a pure budget."""
        if not epsilon >= 0:
            raise UsageError("epsilon must be a number that is not negative.")
        if delta == 0:
            return cls.pure(epsilon, unit)
        rho = 0.0 if epsilon == 0 else zcdp_rho(epsilon, delta) if 0 < delta < 1 else math.nan
        return cls(Notion.ZCDP, _amount(rho), unit, delta)

    @property
    def rho(self) -> float:
        """The zCDP budget that this is, or implies (pure epsilon: epsilon^2 / 2)."""
        if self.amount is None:
            return math.inf
        amount = self.amount if self.notion is Notion.ZCDP else self.amount**2 / 2
        return decimal_down(amount)

    @property
    def epsilon(self) -> float:
        """Epsilon at the door, at the budget's own delta."""
        if self.amount is None:
            return math.inf
        if self.notion is Notion.PURE:
            return decimal_down(self.amount)
        if self.delta is None:
            raise UsageError("This budget has no delta to show an epsilon at.")
        return zcdp_epsilon(self.rho, self.delta)

    @property
    def is_zero(self) -> bool:
        """Nothing may be measured."""
        return self.amount == 0

    @property
    def is_infinite(self) -> bool:
        """No limit: for experiments that are never published."""
        return self.amount is None

    def at(self, delta: float) -> Budget:
        """The same zCDP budget, shown at another delta."""
        return replace(self, delta=delta)

    def as_zcdp(self, delta: float | None = None) -> Budget:
        """What a pure budget implies in zCDP (Bun & Steinke 2016): epsilon^2 / 2."""
        if self.notion is Notion.ZCDP:
            return self if delta is None else self.at(delta)
        amount = None if self.amount is None else self.amount**2 / 2
        return Budget(Notion.ZCDP, amount, self.unit, delta)

    def for_release(self) -> Budget:
        """This budget, if a release may have it: neither zero nor infinite."""
        if self.is_zero:
            raise UsageError("With a budget of zero nothing may be measured.")
        if self.is_infinite:
            raise UsageError(
                "An infinite budget protects nobody and cannot be released.",
                remedy="Give a finite --epsilon.",
            )
        return self

    def permits(self, events: Iterable[PrivacyEvent]) -> bool:
        """Whether all events together stay within this budget, by the smallest valid answer.

        For a plan, whose events are fixed beforehand. A filter over events that are chosen in
        the light of earlier answers keeps to one statement (see `accounting.guarantee`).
        """
        if self.amount is None:
            return True
        listed = list(events)
        if self.is_zero:
            return not listed
        if self.unit.kind is UnitKind.POINT:
            return total_per_metre(listed) <= self.amount
        if self.notion is Notion.PURE:
            spent = total_epsilon(listed)
            return spent is not None and spent <= self.amount
        if total_rho(listed) <= self.amount:
            return True
        return self.delta is not None and guarantee(listed, self.delta).epsilon <= self.epsilon

    def split(self, shares: Sequence[Number]) -> tuple[Budget, ...]:
        """One part per share. The shares, as written, sum to at most one, exactly."""
        fractions = [exact(share) for share in shares]
        if any(share < 0 for share in fractions) or sum(fractions) > 1:
            raise UsageError("Shares of a budget are not negative and sum to at most 1.")
        return tuple(self * share for share in fractions)

    def __add__(self, other: Budget) -> Budget:
        delta = self._compatible(other)
        if self.amount is None or other.amount is None:
            return replace(self, amount=None, delta=delta)
        return replace(self, amount=self.amount + other.amount, delta=delta)

    def __sub__(self, other: Budget) -> Budget:
        delta = self._compatible(other)
        if other.amount is None:
            raise UsageError("An infinite budget cannot be taken away.")
        if self.amount is None:
            return replace(self, delta=delta)
        if other.amount > self.amount:
            raise UsageError("That is more than there is.")
        return replace(self, amount=self.amount - other.amount, delta=delta)

    def __mul__(self, share: Number) -> Budget:
        factor = exact(share)
        if factor < 0:
            raise UsageError("A share is not negative.")
        if self.amount is None:
            return replace(self, amount=Fraction(0)) if factor == 0 else self
        return replace(self, amount=self.amount * factor)

    __rmul__ = __mul__

    def __lt__(self, other: Budget) -> bool:
        return self._order(other) < 0

    def __le__(self, other: Budget) -> bool:
        return self._order(other) <= 0

    def __gt__(self, other: Budget) -> bool:
        return self._order(other) > 0

    def __ge__(self, other: Budget) -> bool:
        return self._order(other) >= 0

    def __str__(self) -> str:
        shown = "∞" if self.amount is None else f"{float(self.amount):.6g}"
        door = ""
        if self.notion is Notion.ZCDP and self.delta is not None:
            door = f" (ε = {self.epsilon:.4g} at δ = {self.delta:g})"
        per = " per metre" if self.unit.kind is UnitKind.POINT else ""
        letter = "ρ" if self.notion is Notion.ZCDP else "ε"
        return f"{letter} = {shown}{per}{door} per {self.unit}"

    def _compatible(self, other: Budget) -> float | None:
        """The common delta of two budgets of one unit and notion; anything else is refused."""
        if self.unit != other.unit:
            raise UsageError(
                f"Budgets of different units ({self.unit} and {other.unit}) cannot be combined."
            )
        if self.notion is not other.notion:
            raise UsageError(
                "A pure and a zCDP budget cannot be combined as they are.",
                remedy="Convert the pure one with as_zcdp().",
            )
        if self.delta is not None and other.delta is not None and self.delta != other.delta:
            raise UsageError(
                "The budgets are shown at different deltas.", remedy="Move one with at(delta)."
            )
        return other.delta if self.delta is None else self.delta

    def _order(self, other: Budget) -> int:
        self._compatible(other)
        if self.amount is None or other.amount is None:
            return (self.amount is None) - (other.amount is None)
        return (self.amount > other.amount) - (self.amount < other.amount)


def _amount(value: Number) -> Fraction | None:
    if isinstance(value, float):
        if math.isnan(value):
            raise UsageError("A budget is a number that is not negative, at a delta below 1.")
        if value == math.inf:
            return None
    return exact(value)
