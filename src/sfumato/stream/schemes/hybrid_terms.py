"""What a day of hybrid perturbation may spend, and on what (see `hybrid`).

Shares of a day's budget: division 1/20, night distances 1/20, day 1/2, night 4/10. Each part
is an account of its own that holds an amount of epsilon or of rho, however it is divided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sfumato.privacy.calibration import gaussian_sigma2, laplace_scale
from sfumato.privacy.events import GaussianEvent, LaplaceEvent
from sfumato.privacy.exact import exact
from sfumato.privacy.units import UnitKind
from sfumato.stream.facts import StreamFacts
from sfumato.stream.meter import Account
from sfumato.stream.noise import Noise, NoiseKind, noise_of
from sfumato.stream.schemes.threshold import within_one_window
from sfumato.stream.schemes.thresholding import Test

SHARES = {
    "division": Fraction(1, 20),
    "distance": Fraction(1, 20),
    "day": Fraction(1, 2),
    "night": Fraction(2, 5),
}
_A_LITTLE_LESS = 1 - Fraction(1, 1 << 40)
"""What is charged for a choice or a run is rounded up; all days' must fit into the account."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a day may spend, and on what. `days` share one budget under `user-period`."""

    facts: StreamFacts
    kind: NoiseKind
    days: int
    length: int
    cutoff: int
    test: Test

    @classmethod
    def of(
        cls,
        facts: StreamFacts,
        name: str,
        finished: bool,
        cutoff: int | None = None,
        noise: NoiseKind = NoiseKind.BEST,
    ) -> Terms:
        within_one_window(facts, name)
        whole = facts.unit.kind is UnitKind.USER_PERIOD and not finished
        days = int(facts.calendar.day.max()) + 1 if whole else 1
        length = facts.calendar.longest_day if whole else facts.window
        cutoff = cutoff or max(2, math.ceil(length / 8))
        # Half of the slots are by day, on every day that shares the budget.
        kind = noise_of(facts, noise, max(days * length // 2, 1), SHARES["day"]).kind
        share = cls._amount(facts, kind) * SHARES["distance"] / days * _A_LITTLE_LESS
        make = Test.gaussian if kind is NoiseKind.GAUSSIAN else Test.pure
        test = make(facts, max(length - 1, 1), cutoff, share)
        return cls(facts, kind, days, length, cutoff, test)

    @staticmethod
    def _amount(facts: StreamFacts, kind: NoiseKind) -> Fraction:
        return Fraction(repr(facts.rho if kind is NoiseKind.GAUSSIAN else facts.epsilon))

    def part(self, name: str) -> Fraction:
        """One day's epsilon or rho for a part."""
        return self._amount(self.facts, self.kind) * SHARES[name] / self.days

    def division_noise(self) -> Noise:
        """On each of a day's distances, sensitivity 2 l1 apiece."""
        most = max(self.length - 1, 1)
        if self.kind is NoiseKind.LAPLACE:
            scale = laplace_scale(2.0 * self.facts.l1 * most, self.part("division"))
            return Noise(self.kind, scale)
        l2 = 2.0 * self.facts.l1 * most**0.5
        return Noise(self.kind, gaussian_sigma2(l2, self.part("division")))

    def division_range(self) -> Fraction:
        """The bounded range of one choice of a window: eta-DP, or eta^2/8 in rho."""
        if self.kind is NoiseKind.LAPLACE:
            return self.part("division") * _A_LITTLE_LESS
        return exact(math.sqrt(8 * float(self.part("division")))) * _A_LITTLE_LESS

    def histogram_noise(self, name: str, times: int) -> Noise:
        share = self.part(name) / max(times, 1)
        if self.kind is NoiseKind.LAPLACE:
            return Noise(self.kind, laplace_scale(self.facts.l1, share))
        return Noise(self.kind, gaussian_sigma2(self.facts.l2, share))

    def accounts(self) -> tuple[Account, ...]:
        whole = [
            _lump(name, self.part(name) * self.days, self.kind)
            for name in ("division", "day", "night")
        ]
        if self.kind is NoiseKind.GAUSSIAN:
            return (*whole, _lump("distance", self.part("distance") * self.days, self.kind))
        return (*whole, _lump("distance", self.part("distance") * self.days, self.kind, run=True))


def _lump(name: str, amount: Fraction, kind: NoiseKind, run: bool = False) -> Account:
    """An account that holds an amount of epsilon or rho, however it is divided."""
    if kind is NoiseKind.LAPLACE:
        return Account(name, LaplaceEvent(1.0, 1 / amount), run)
    return Account(name, GaussianEvent(1.0, 1 / (2 * amount), 1 << 20), run)
