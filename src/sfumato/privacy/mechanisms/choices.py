"""Many private choices at once, paid for together: the exponential mechanism in every row.

Row e of a table of integer costs has candidates of its own; candidate i is chosen with
probability proportional to exp(-cost_ei / b), the rows independently of each other.

Claim: R^2 / (8 b^2)-zCDP, however many rows there are. Unit and neighbours: those of the
costs. Sensitivity: neighbours move any two costs of row e apart by at most r_e, and R bounds
the Euclidean norm of (r_e) over all rows. *Proof.* Fix two neighbours. The log-ratio of row e's
choice lies in an interval of length r_e / b, so its Renyi divergence of order alpha is at most
alpha r_e^2 / (8 b^2) (Hoeffding's lemma; Dong, Durfee & Rogers 2020; Cesar & Rogers 2021). The
rows are independent, so divergences add up to alpha * sum of r_e^2 / (8 b^2). QED

The number of rows is public here: it comes from noisy totals that were paid for. There is no
pure epsilon worth stating: losses of rows add up to the *sum* of r_e / b, which for a person in
m rows is larger by up to the square root of m.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import InputError
from sfumato.model.private import Private
from sfumato.privacy.charging import Charger
from sfumato.privacy.door import open_private
from sfumato.privacy.events import ConcentratedEvent
from sfumato.privacy.exact import decimal_up
from sfumato.privacy.measurement import Selections
from sfumato.privacy.mechanisms.exponential import above_least, at_least_one
from sfumato.privacy.noise import BitStream, choose, representable_softness

MECHANISM = "exponential mechanism in every row"


def exponential_choices(
    box: Private[NDArray[np.int64]],
    *,
    softness: Fraction | int,
    range_units: int,
    label: str,
    stream: BitStream,
    charger: Charger,
) -> Selections:
    """The chosen index of every row. `softness` is b, `range_units` is R, in cost units."""
    at_least_one(box, range_units)
    drawn = representable_softness(softness)
    event = ConcentratedEvent(choices_rho(drawn, range_units), MECHANISM)
    charger.charge(label, event)
    costs = open_private(box)
    if costs.ndim != 2:
        raise InputError("Choices in rows need a table of costs.")
    chosen = [int(choose(1, above_least(row), drawn, stream)[0]) for row in costs]
    return Selections(label, np.array(chosen, np.int64), costs.shape[1], event, stream.tainted)


def choices_rho(softness: Fraction, range_units: int) -> float:
    """R^2 / (8 b^2), rounded up."""
    return decimal_up((Fraction(range_units) / softness) ** 2 / 8)
