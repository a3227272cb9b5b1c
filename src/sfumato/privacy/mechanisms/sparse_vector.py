"""Runs of questions to a stream: the sparse vector technique, and noisy distances.

*Sparse vector* (`SparseVector`), with one threshold noise and releases in between. A run asks,
slot after slot, whether a distance is at least a public threshold, and may publish a histogram at
the start and after each yes. Queries may depend on everything that the run has put out so far.
After `positives` yeses it ends.

Claim: pure epsilon-DP with epsilon = D/b_T + 2 k D/b_q + h l1/b_H: D the sensitivity of a query,
k the positives, b_T and b_q the scales of threshold and query noise, h histograms of L1
sensitivity l1 with scale b_H. The threshold noise is drawn once and not refreshed; the whole run
is charged before its first bit is drawn, wherever it stops. *Proof* (after Lyu, Su & Li 2017).
Fix an output. Given the threshold noise z its probability is a product over fresh noises. On the
neighbour take z + D. A no, q + v < T + z, implies q' + v < T + z + D. A yes needs v shifted by at
most 2 D, a factor exp(2 D/b_q), and there are at most k. A histogram costs exp(l1/b_H). Shifting
z costs exp(D/b_T). All shifts are integers, so discrete Laplace noise has these factors exactly.
Sum over z. QED

Distances are not monotone in the data, so the factor 2 cannot be saved.

A run can go on in another process (`used` yeses were given before). Its questions then have
numbers, and each takes its noise from a branch of the stream of its own: no question needs the
draws of those before it, and one that was interrupted finds its noise again.

*Noisy distances* (`NoisyDistances`): all distances of a stream with Gaussian noise, simpler than
sparse vector and often better. Claim: rho = S D^2 / (2 sigma2) zCDP for S distances of
sensitivity D, asked one after the other, each free to depend on the earlier answers. The answers
are numbers, so any rule (compare with a threshold, find change points) may be applied to them for
nothing. Unit and neighbours: those of the distances. Sensitivity: S integers that move by at most
D each, so D sqrt(S) in L2; adaptive composition adds up the same rho (Bun & Steinke 2016). For a
day of slots this needs less noise than sparse vector unless positives are very rare.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.door import open_private, public_facts
from sfumato.privacy.events import Charger, GaussianEvent, Measurement, PureEvent
from sfumato.privacy.exact import decimal_up, exact, rounded_up
from sfumato.privacy.mechanisms.additive import (
    LARGEST,
    add,
    bounded,
    gaussian_variance,
    laplace_variance,
)
from sfumato.privacy.noise import (
    BitStream,
    discrete_gaussian,
    discrete_laplace,
    representable_scale,
    representable_sigma2,
)


@dataclass(frozen=True, slots=True)
class Histograms:
    """What a run may publish: at most `most` arrays of L1 sensitivity `l1`, noise `scale`."""

    most: int
    l1: float
    scale: Fraction


class SparseVector:
    """One run. `above` answers yes or no; `publish` releases a histogram; both are counted."""

    def __init__(
        self,
        *,
        threshold: int,
        sensitivity: int,
        positives: int,
        threshold_scale: Fraction | int,
        query_scale: Fraction | int,
        label: str,
        stream: BitStream,
        charger: Charger,
        histograms: Histograms | None = None,
        used: int = 0,
    ) -> None:
        if not 0 <= used <= positives:
            raise UsageError("A run that goes on has given between none and all of its positives.")
        if sensitivity < 1 or positives < 1:
            raise UsageError("A run has a sensitivity and a number of positives of at least 1.")
        if abs(threshold) > LARGEST:
            raise UsageError("The threshold is too large.")
        if histograms is not None and histograms.most < 1:
            raise UsageError("A run that publishes histograms publishes at least one.")
        b_t, self._query_scale = (
            representable_scale(threshold_scale),
            representable_scale(query_scale),
        )
        loss = sensitivity / b_t + 2 * positives * sensitivity / self._query_scale
        self._histograms = histograms
        if histograms is not None:
            self._histogram_scale = representable_scale(histograms.scale)
            loss += histograms.most * exact(rounded_up(histograms.l1)) / self._histogram_scale
        self.label = label
        self.event = PureEvent(decimal_up(loss), "sparse vector")
        self.tainted = stream.tainted
        charger.charge(label, self.event)
        self._stream = stream
        self._left = positives - used
        self._numbers: set[int] = set()
        self._published = 0
        self._bar = threshold + int(discrete_laplace(1, b_t, stream)[0])

    @property
    def finished(self) -> bool:
        """Whether all positives are used up. Public: it follows from the answers."""
        return self._left == 0

    def above(self, box: Private[int], number: int | None = None, about: str = "") -> bool:
        """Whether the boxed distance, with noise, reaches the noisy threshold.

        A numbered question has noise of its own number; a number is for one question. `about`
        binds that noise to what is asked, too.
        """
        if self.finished:
            raise UsageError(
                f"The run {self.label!r} has given all its positive answers.",
                remedy="Ask `finished` before each question.",
            )
        value = bounded(np.array([open_private(box)], dtype=np.int64))
        stream = self._stream if number is None else self._branch(number)
        stream = stream.child(about) if about else stream
        noisy = int(value[0]) + int(discrete_laplace(1, self._query_scale, stream)[0])
        answer = noisy >= self._bar
        self._left -= answer
        return answer

    def _branch(self, number: int) -> BitStream:
        if number in self._numbers:
            raise UsageError(f"The run {self.label!r} has used number {number} for one question.")
        self._numbers.add(number)
        return self._stream.child(f"question {number}")

    def publish(self, box: Private[Counts]) -> Measurement:
        """A noisy histogram, already paid for by the run's own charge."""
        facts = public_facts(box)
        if self._histograms is None or self._published >= self._histograms.most:
            raise UsageError(f"The run {self.label!r} has no histogram left to publish.")
        if facts.l1 > self._histograms.l1:
            raise UsageError("One person can change this histogram by more than was paid for.")
        self._published += 1
        noise = discrete_laplace(facts.size, self._histogram_scale, self._stream)
        return Measurement(
            label=f"{self.label}/{self._published}",
            values=add(open_private(box).values, noise),
            variance=laplace_variance(self._histogram_scale),
            units_per_count=facts.units_per_count,
            event=self.event,
            tainted=self.tainted,
        )

    def __repr__(self) -> str:
        return f"<sparse vector run {self.label!r}>"


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
