"""What one question costs, and how wide its answer will be: from public facts alone.

One question is measured by one number. A person counts in it at most C times (`Want.clip`, public;
the slots of the question where none is given; 1 for `unique_people`), so its sensitivity is C.

*Gaussian* (the default): rho = C^2 / (2 s^2) in zero-concentrated DP, and the exact Gaussian curve
for the question alone. Questions that are asked one after the other, each in the light of the
answers before, add up in rho: a hundred of them cost ten times the epsilon of one, not a hundred
times. *Laplace*: pure epsilon = C / b. A single question is answered with less noise; many of them
add up in epsilon, or in rho at twice the variance of Gaussian noise.

Counts are whole numbers, noise is drawn on a lattice 2^16 times as fine, where the exact curve may
be claimed (`privacy.accounting.gaussian`) and where any half-width can be met.

`plus_minus` is a half-width in visits or people, fixed beforehand. A width relative to the answer
would have to know the answer first; asking again until an interval is narrow would choose by the
answer. Neither exists.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.masks import Masks, Measure
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.privacy.calibration import gaussian_sigma2_for, laplace_scale
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, Measurement
from sfumato.privacy.exact import exact, rounded_up
from sfumato.privacy.ledger.totals import Spend, compose
from sfumato.privacy.mechanisms.additive import LARGEST, gaussian_variance, laplace_variance
from sfumato.privacy.noise import representable_scale, representable_sigma2
from sfumato.privacy.wall import Wall
from sfumato.queries.question import Frame, Question, Want

COVERAGE = 0.9
HALF_WIDTH = 1.6448536269514722
"""Standard deviations on either side that hold 90 in 100 draws of a Gaussian."""
LAPLACE_HALF_WIDTH = math.log(10)
"""Scales on either side that hold 90 in 100 draws of Laplace noise."""
FINE = 1 << 16
"""Lattice units of a count."""
WIDEST = 1e7
"""Half-widths up to this many are answered: more than any city has people."""
LABEL = "answer"


class Mechanism(StrEnum):
    """The noise of one answer."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


@dataclass(frozen=True, slots=True)
class Price:
    """One measurement of one question: its bound, its noise, what it is charged."""

    question: Question
    clip: int
    mechanism: Mechanism
    event: GaussianEvent | LaplaceEvent
    delta: float

    @property
    def variance(self) -> float:
        """Of the noise, in counts squared."""
        if isinstance(self.event, GaussianEvent):
            return gaussian_variance(self.event.sigma2) / FINE**2
        return laplace_variance(self.event.scale) / FINE**2

    @property
    def plus_minus(self) -> float:
        """90 % half-width of the noise."""
        if isinstance(self.event, GaussianEvent):
            return HALF_WIDTH * math.sqrt(self.variance)
        return LAPLACE_HALF_WIDTH * float(self.event.scale) / FINE

    @property
    def settings(self) -> dict[str, Any]:
        """What the ledger is told of it, beside its event."""
        return {
            "question": self.question.stated(),
            "clip": self.clip,
            "mechanism": self.mechanism.value,
        }

    @property
    def spend(self) -> Spend:
        """What the question costs by itself; what is left of a cap is for the ledger to say."""
        return compose([self.event], self.delta)

    def measure(self, source: Source, frame: Frame, wall: Wall) -> Measurement:
        """Count the question and add the noise, charged first.

        Claim: unit and neighbours are a user's whole record, added or removed. The count is a sum
        over users of min(visits inside, C), or of one for each user seen inside: it moves by at
        most C, on the lattice by C times 2^16, and the noise is that of `event`.
        """
        masks = Masks.of(frame.places, frame.slots, [(self.question.places, self.question.slots)])
        box = finer(source.answers(masks, self.question.measure, self.clip))
        if isinstance(self.event, GaussianEvent):
            return wall.gaussian(box, sigma2=self.event.sigma2, label=LABEL)
        return wall.laplace(box, scale=self.event.scale, label=LABEL)


def finer(box: Private[Counts], factor: int = FINE) -> Private[Counts]:
    """The same counts on a lattice so many times as fine, with sensitivities in its units."""
    most = LARGEST // factor  # cut where a product could wrap: public, and no two move apart

    def scaled(counts: Counts) -> Counts:
        return replace(
            counts,
            values=np.clip(counts.values, -most, most) * factor,
            units_per_count=counts.units_per_count * factor,
            l1=counts.l1 * factor,
            l2=counts.l2 * factor,
        )

    return box.map(scaled, "an answer")


def clip_of(question: Question, want: Want) -> int:
    """C: the most that one person counts in the answer."""
    if question.measure is Measure.UNIQUE_PEOPLE:
        return 1
    return len(question.slots) if want.clip is None else want.clip


def price(
    question: Question,
    want: Want,
    *,
    delta: float,
    mechanism: Mechanism | str = Mechanism.GAUSSIAN,
) -> Price:
    """What a question is measured with and charged, as it is wanted.

    Args:
        question: What is asked.
        want: An epsilon, or a 90 % half-width; and the clip.
        delta: Of the question by itself; Laplace noise needs none.
        mechanism: The noise.

    Returns:
        The measurement, planned to the bit.

    Raises:
        UsageError: Nothing is wanted, or what cannot be had.

    Example:
        >>> from sfumato.model.masks import Measure
        >>> people = Question(Measure.UNIQUE_PEOPLE, (0,), (0, 1))
        >>> round(price(people, Want(epsilon=1.0), delta=1e-7).plus_minus, 1)
        7.8
        >>> round(price(people, Want(plus_minus=50), delta=1e-7).spend.epsilon, 2)
        0.15
    """
    kind = mechanism_of(mechanism)
    clip = clip_of(question, want)
    l1 = rounded_up(float(clip * FINE))
    if kind is Mechanism.GAUSSIAN and not 0 < delta < 1:
        raise UsageError(
            "Gaussian noise needs a delta, well below one over the number of people.",
            remedy="Give `delta`, or take `mechanism='laplace'`, which is pure.",
        )
    if want.plus_minus is not None:
        wide = Fraction(want.plus_minus) * FINE
        if not 0.001 <= want.plus_minus <= WIDEST:
            raise UsageError(
                f"A half-width of {want.plus_minus:g} cannot be drawn.",
                remedy=f"Ask for one between 0.001 and {WIDEST:,.0f}.",
            )
        if kind is Mechanism.GAUSSIAN:
            sigma2 = representable_sigma2((wide / exact(HALF_WIDTH)) ** 2)
            return Price(question, clip, kind, GaussianEvent(l1, sigma2, 1), delta)
        scale = representable_scale(wide / exact(LAPLACE_HALF_WIDTH))
        return Price(question, clip, kind, LaplaceEvent(l1, scale), delta)
    if want.epsilon is None:
        raise UsageError(
            "The precision of the answer is not given, and no stored answer fits.",
            remedy='Add `want` to the question: {"plus_minus": 50}, or {"epsilon": 0.1}.',
        )
    if kind is Mechanism.GAUSSIAN:
        found = gaussian_sigma2_for(want.epsilon, delta, l1, 1).sigma2[0]
        return Price(question, clip, kind, GaussianEvent(l1, found, 1), delta)
    scale = laplace_scale(l1, want.epsilon)
    return Price(question, clip, kind, LaplaceEvent(l1, scale), delta)


def mechanism_of(given: Mechanism | str) -> Mechanism:
    """A mechanism by its name."""
    try:
        return Mechanism(given)
    except ValueError:
        raise UsageError(
            f"There is no mechanism {given!r}.", remedy=f"Choose from {', '.join(Mechanism)}."
        ) from None
