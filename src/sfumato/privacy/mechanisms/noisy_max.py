"""Report noisy max, as permute-and-flip: no ties, no floating point, exact probabilities.

Adding discrete noise and taking the largest needs a rule for ties, and careless rules
break the proof. Permute-and-flip (McKenna & Sheldon 2020) has none: flip a coin of chance
p_i = exp(-(c_i - least)/b) for every candidate, and choose uniformly among those that
came up (a random order's first success). The least cost always comes up.

Claim: pure (r / b)-DP, where r bounds how far neighbours move any two costs apart (see
`exponential`). *Proof.* Let candidates arrive at independent uniform times: i wins with
probability p_i * integral over t in (0,1) of prod over j != i of (1 - t p_j). Substituting
t = exp(-(s + least)/b) this is the probability that -c_i + E_i is the largest, E
exponential with mean b (Ding et al. 2021). Fix the other candidates' E and put
m = max over j of (c_i - c_j + E_j): i wins with probability exp(-max(0, m)/b), and m moves by
at most r between neighbours. Integrate. QED

It never does worse than the exponential mechanism at the same epsilon and up to twice as
well; but its zCDP cost is that of a pure mechanism, epsilon^2/2, so the exponential
mechanism composes better.
Costs beyond a cap where coins have chance below exp(-32768) are cut to the cap, which moves
no two costs further apart: the moves of (c_i - least) have 0 in their range, and cutting
draws each towards 0.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.model.private import Private
from sfumato.privacy.charging import Charger
from sfumato.privacy.door import open_private
from sfumato.privacy.events import PureEvent
from sfumato.privacy.exact import decimal_up
from sfumato.privacy.measurement import Selection
from sfumato.privacy.mechanisms.addition import LARGEST
from sfumato.privacy.mechanisms.exponential import above_least, at_least_one
from sfumato.privacy.noise import BitStream, bernoulli_exp, choose, representable_softness


def noisy_max(
    box: Private[NDArray[np.int64]],
    *,
    softness: Fraction | int,
    range_units: int,
    label: str,
    stream: BitStream,
    charger: Charger,
) -> Selection:
    """The chosen index. `softness` is b and `range_units` is r, both in cost units."""
    count = at_least_one(box, range_units)
    drawn = representable_softness(softness)
    event = PureEvent(decimal_up(range_units / drawn), "report noisy max (permute-and-flip)")
    charger.charge(label, event)
    costs = np.minimum(above_least(open_private(box)), LARGEST // drawn.denominator)
    heads = bernoulli_exp(costs * drawn.denominator, drawn.numerator, stream)
    up = np.flatnonzero(heads)
    index = int(up[choose(1, np.zeros(up.size, np.int64), 1, stream)[0]])
    return Selection(label, index, count, event, stream.tainted)
