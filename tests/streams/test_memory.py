"""Memory does not grow with the number of slots: a publisher's state stops growing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts
from sfumato.streams.registry import NAMES, stream_scheme
from sfumato.streams.replay import boxed
from sfumato.streams.scheme import Meter
from sfumato.streams.vault import packed

ONLINE = [
    n
    for n in NAMES
    if n not in ("static-hybrid", "mean", "profile", "smoother", "tree", "toeplitz")
]


@pytest.mark.parametrize("name", ONLINE)
def test_a_state_stops_growing(name: str, facts: Callable[..., StreamFacts]) -> None:
    """After 30 days it is as large as after 15, but for some digits; `rhythm` remembers 8."""
    known = facts("user-day", days=30, per_day=3, cells=6, columns=3)
    scheme = stream_scheme(name, {"memory": 8} if name == "rhythm" else None)
    publisher, meter = scheme.publisher(known), Meter(scheme.plan(known).accounts, known)
    counts = np.random.default_rng(0).integers(0, 50, (known.slots, known.cells))
    sizes = []
    for slot in range(known.slots):
        wall = Wall.seeded(1, meter)
        publisher.publish(slot, boxed(counts[slot], known), wall, meter)
        state = {**publisher.state(), "meter": meter.state()}
        sizes.append(sum(len(packed(value)) for value in state.values()))
    assert max(sizes[-15:]) <= max(sizes[30:60]) + 256
