"""Which noise a stream adds, and the account that pays for it.

A window holds at most `most` measurements of a slot's counts. Laplace noise then has scale
most * l1 / epsilon (pure), Gaussian noise variance most * l2^2 / (2 rho). For few measurements
Laplace is the smaller, for many Gaussian: its variance grows with `most`, not its square.
`best_noise` takes the smaller variance; delta 0 leaves only Laplace.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from sfumato.model.counts import Counts
from sfumato.model.errors import UsageError
from sfumato.model.private import Private
from sfumato.privacy.calibration import gaussian_sigma2, laplace_scale
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, PrivacyEvent
from sfumato.privacy.exact import Number, exact, rounded_up
from sfumato.privacy.measurement import Measurement
from sfumato.privacy.mechanisms.addition import gaussian_variance, laplace_variance
from sfumato.privacy.wall import Wall
from sfumato.stream.facts import StreamFacts
from sfumato.stream.meter import Account


class NoiseKind(StrEnum):
    BEST = "best"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, slots=True)
class Noise:
    """Laplace of a scale, or Gaussian of a variance parameter, in people."""

    kind: NoiseKind
    parameter: Fraction

    @property
    def variance(self) -> float:
        if self.kind is NoiseKind.LAPLACE:
            return laplace_variance(self.parameter)
        return gaussian_variance(self.parameter)

    @property
    def sd(self) -> float:
        return float(self.variance**0.5)

    def measure(
        self, wall: Wall, box: Private[Counts], label: str, touched: int = 2
    ) -> Measurement:
        """`touched` is the most cells that one unit moves: of a slot's counts no more than two."""
        if self.kind is NoiseKind.LAPLACE:
            return wall.laplace(box, scale=self.parameter, label=label)
        return wall.gaussian(box, sigma2=self.parameter, label=label, touched=touched)

    def event(self, l1: float, l2: float) -> PrivacyEvent:
        """What one such measurement is charged as."""
        if self.kind is NoiseKind.LAPLACE:
            return LaplaceEvent(rounded_up(l1), self.parameter)
        return GaussianEvent(rounded_up(l2), self.parameter, 2)

    def account(self, label: str, most: int, l1: float, l2: float, touched: int = 2) -> Account:
        """The event of `most` such measurements in one window, each of `touched` cells."""
        if self.kind is NoiseKind.LAPLACE:
            return Account(label, LaplaceEvent(rounded_up(l1 * most), self.parameter))
        whole = rounded_up(most**0.5 * rounded_up(l2))
        return Account(label, GaussianEvent(whole, self.parameter, touched * most))


def noise_of(
    facts: StreamFacts,
    kind: NoiseKind,
    most: int,
    share: Number = 1,
    l1: float | None = None,
    l2: float | None = None,
) -> Noise:
    """The least noise of a kind for `most` measurements of `share` of a window's budget."""
    one, two = facts.l1 if l1 is None else l1, facts.l2 if l2 is None else l2
    if kind is NoiseKind.LAPLACE:
        return Noise(kind, laplace_scale(one * most, exact(facts.epsilon) * exact(share)))
    if kind is NoiseKind.GAUSSIAN:
        if facts.delta == 0:
            raise UsageError("Gaussian noise needs a delta.", remedy="Give --delta, say 1e-6.")
        # The account's sensitivity is rounded up twice, so the noise covers the rounded one.
        whole = rounded_up(most**0.5 * rounded_up(two))
        return Noise(kind, gaussian_sigma2(whole, exact(facts.rho) * exact(share)))
    candidates = [noise_of(facts, NoiseKind.LAPLACE, most, share, l1, l2)]
    if facts.delta > 0:
        candidates.append(noise_of(facts, NoiseKind.GAUSSIAN, most, share, l1, l2))
    return min(candidates, key=lambda noise: noise.variance)
