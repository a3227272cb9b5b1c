"""Direct perturbation (Chen et al., Algorithm 1): every slot's histogram with its share of noise.

A unit touches at most W slots, by 1 each: Laplace noise of scale W/epsilon on every count is
epsilon-DP, and Gaussian noise of variance W/(2 rho) is rho-zCDP. From W of about ten on the
Gaussian form needs less noise (W = 48, epsilon 1, delta 1e-6: sd 31 instead of 68). Under
the w-event unit this is the baseline `uniform` of Kellaris et al. 2014, the same mechanism
under another name.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.wall import Wall
from sfumato.stream.contract import Publication, Publisher, StreamPlan
from sfumato.stream.facts import StreamFacts
from sfumato.stream.meter import Meter
from sfumato.stream.noise import NoiseKind, noise_of
from sfumato.stream.schemes.base import Repeating


@dataclass(frozen=True, slots=True)
class Direct:
    """Every slot anew, the budget divided evenly over a window."""

    noise: NoiseKind = NoiseKind.BEST
    name: str = "direct"
    finished: bool = False

    def plan(self, facts: StreamFacts) -> StreamPlan:
        noise = noise_of(facts, self.noise, facts.window)
        account = noise.account("histogram", facts.window, facts.l1, facts.l2)
        line = f"Every slot is measured with {noise.kind} noise, sd {noise.sd:.3g}."
        return StreamPlan(self.name, (account,), (line,))

    def publisher(self, facts: StreamFacts) -> Publisher:
        return _Direct(facts, self.noise)


class _Direct(Repeating):
    def __init__(self, facts: StreamFacts, kind: NoiseKind) -> None:
        super().__init__(facts)
        self._noise = noise_of(facts, kind, facts.window)

    def publish(self, slot: int, box: Private[Counts], wall: Wall, meter: Meter) -> Publication:
        del meter
        found = self._noise.measure(wall, box, f"histogram@{slot}")
        return self.renew(found.estimate(), self._noise.sd, found.tainted)
