"""Discrete Gaussian noise on a bounded integer array.

Claim: rho = l2^2 / (2 sigma2) zCDP (Canonne, Kamath & Steinke 2020, product over
cells), and the exact Gaussian curve where `accounting.discrete` allows it. Unit and
neighbours: those of the counts' bound. Sensitivity: the counts carry their own L2 bound; it
is joint over the whole array, so the array is one measurement however many cells it has.
"""

from __future__ import annotations

from fractions import Fraction

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.charging import Charger
from sfumato.privacy.door import open_private, public_facts
from sfumato.privacy.events import GaussianEvent
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.measurement import Measurement
from sfumato.privacy.mechanisms.addition import add, gaussian_variance
from sfumato.privacy.noise import BitStream, discrete_gaussian, representable_sigma2


def measure_gaussian(
    box: Private[Counts],
    *,
    sigma2: Fraction | int,
    label: str,
    stream: BitStream,
    charger: Charger,
    touched: int | None = None,
) -> Measurement:
    """The array plus noise of variance parameter `sigma2` (lattice units squared).

    `touched` is the most cells that one unit can move, where that is known to be fewer than
    all of them.
    """
    facts = public_facts(box)
    cells = max(facts.size, 1)
    drawn = representable_sigma2(sigma2)
    event = GaussianEvent(rounded_up(facts.l2), drawn, cells if touched is None else touched)
    charger.charge(label, event)
    values = open_private(box).values
    return Measurement(
        label=label,
        values=add(values, discrete_gaussian(facts.size, drawn, stream)),
        variance=gaussian_variance(drawn),
        units_per_count=facts.units_per_count,
        event=event,
        tainted=stream.tainted,
    )
