"""The corrected schemes under the empirical audit: nothing proves more than they claim.

Neighbours: everybody stands still, or one person more who changes cell every slot.
"""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.privacy.audit.epsilon import epsilon_lower_bound
from sfumato.privacy.units import Unit
from sfumato.stream.calendar import Calendar
from sfumato.stream.contract import StreamScheme
from sfumato.stream.facts import StreamFacts
from sfumato.stream.run import run_scheme
from sfumato.stream.schemes.hybrid import Hybrid
from sfumato.stream.schemes.threshold import Threshold
from sfumato.stream.schemes.w_event import WEvent

SLOTS, RUNS, EPSILON = 4, 500, 1.0


@pytest.mark.parametrize(
    "scheme", [Threshold(threshold=3, cutoff=2), Hybrid(finished=True), WEvent(absorb=True)]
)
def test_no_more_is_proved_than_claimed(scheme: StreamScheme) -> None:
    calendar = Calendar.regular(SLOTS, SLOTS)
    facts = StreamFacts(2, calendar, EPSILON, 0.0, Unit.parse("user-period"), 10)
    still = np.tile(np.array([5, 1]), (SLOTS, 1))
    mover = still.copy()
    mover[np.arange(SLOTS), np.arange(SLOTS) % 2] += 1

    def released(counts: np.ndarray, first: int) -> np.ndarray:
        rows = []
        for seed in range(first, first + RUNS):
            run = run_scheme(scheme, facts, counts, seed)
            rows.append(np.concatenate((run.values.ravel(), run.fresh.astype(float))))
        return np.array(rows)

    found = epsilon_lower_bound(released(mover, 0), released(still, 10**6), confidence=0.99)
    assert found.epsilon <= EPSILON
