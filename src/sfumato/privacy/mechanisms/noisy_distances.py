"""All distances of a stream with Gaussian noise: simpler than sparse vector, often better.

Claim: rho = S D^2 / (2 sigma2) zCDP for S distances of sensitivity D, asked one after the
other, each free to depend on the earlier answers. The answers are numbers, so any rule
(compare with a threshold, find change points) may be applied to them for nothing. Unit and
neighbours: those of the distances. Sensitivity: S integers that move by at most D each, so
D sqrt(S) in L2; adaptive composition adds up the same rho (Bun & Steinke 2016).
For a day of slots this needs less noise than sparse vector unless positives are very rare.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.model.errors import UsageError
from sfumato.model.private import Private
from sfumato.privacy.charging import Charger
from sfumato.privacy.door import open_private
from sfumato.privacy.events import GaussianEvent
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.mechanisms.addition import add, gaussian_variance
from sfumato.privacy.noise import BitStream, discrete_gaussian, representable_sigma2


class NoisyDistances:
    """At most `most` noisy distances, charged together before the first."""

    def __init__(
        self,
        *,
        most: int,
        sensitivity: int,
        sigma2: Fraction | int,
        label: str,
        stream: BitStream,
        charger: Charger,
    ) -> None:
        if most < 1 or sensitivity < 1:
            raise UsageError("Distances need a number and a sensitivity of at least 1.")
        self._sigma2 = representable_sigma2(sigma2)
        self.label = label
        self.event = GaussianEvent(rounded_up(sensitivity * most**0.5), self._sigma2, most)
        self.variance = gaussian_variance(self._sigma2)
        self.tainted = stream.tainted
        charger.charge(label, self.event)
        self._stream = stream
        self._left = most

    @property
    def finished(self) -> bool:
        """Whether every distance that was paid for has been asked."""
        return self._left == 0

    def measure(self, box: Private[int]) -> int:
        """The boxed distance plus noise. It may be negative; the noise is not hidden."""
        if self.finished:
            raise UsageError(
                f"The run {self.label!r} has measured all its distances.",
                remedy="Plan for as many distances as there are slots.",
            )
        self._left -= 1
        value = np.array([open_private(box)], dtype=np.int64)
        return int(add(value, discrete_gaussian(1, self._sigma2, self._stream))[0])

    def __repr__(self) -> str:
        return f"<noisy distances {self.label!r}>"
