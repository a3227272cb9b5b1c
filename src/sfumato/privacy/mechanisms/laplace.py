"""Discrete Laplace noise on a bounded integer array.

Claim: pure (l1 / scale)-DP (Ghosh, Roughgarden & Sundararajan 2009). Unit and neighbours:
those of the counts' bound. Sensitivity: the counts carry their own L1 bound, joint over the
whole array; the log-ratio of one cell is at most its change / scale, and the changes sum
to at most l1.
"""

from __future__ import annotations

from fractions import Fraction

from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.charging import Charger
from sfumato.privacy.door import open_private, public_facts
from sfumato.privacy.events import LaplaceEvent
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.measurement import Measurement
from sfumato.privacy.mechanisms.addition import add, laplace_variance
from sfumato.privacy.noise import BitStream, discrete_laplace, representable_scale


def measure_laplace(
    box: Private[Counts],
    *,
    scale: Fraction | int,
    label: str,
    stream: BitStream,
    charger: Charger,
) -> Measurement:
    """The array plus noise of scale `scale` (lattice units)."""
    facts = public_facts(box)
    drawn = representable_scale(scale)
    event = LaplaceEvent(rounded_up(facts.l1), drawn)
    charger.charge(label, event)
    values = open_private(box).values
    return Measurement(
        label=label,
        values=add(values, discrete_laplace(facts.size, drawn, stream)),
        variance=laplace_variance(drawn),
        units_per_count=facts.units_per_count,
        event=event,
        tainted=stream.tainted,
    )
