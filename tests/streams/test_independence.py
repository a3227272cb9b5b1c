"""No two slots of a stream share their noise, whatever the scheme."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts
from sfumato.streams.registry import SCHEMES, stream_scheme
from sfumato.streams.replay import run_on
from sfumato.streams.scheme import Meter, NoiseKind

pytestmark = pytest.mark.privacy
Facts = Callable[..., StreamFacts]
KEY = bytes(range(3, 35))
PAIRED = [name for name in SCHEMES if name != "zeros"]


@pytest.mark.parametrize("name", PAIRED)
def test_no_stream_draws_the_same_bits_twice(name: str, facts: Facts, drawn_blocks) -> None:
    unit = "user-period" if name in ("threshold", "static-hybrid", "dsft", "dsat") else "user-day"
    known = facts(unit, days=2, per_day=6, cells=6, people=60, columns=3)
    scheme = stream_scheme(name)
    counts = np.random.default_rng(5).integers(0, 40, (known.slots, known.cells))
    meter = Meter(scheme.plan(known).accounts, known)
    run_on(Wall(meter, KEY), meter, scheme, known, counts)
    assert drawn_blocks.asked
    assert drawn_blocks.twice() == 0


@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
def test_the_noise_of_two_slots_is_unrelated(kind: NoiseKind, facts: Facts) -> None:
    known = facts("w-event:5", days=1, per_day=8, cells=2500, people=60, columns=50)
    scheme = replace(stream_scheme("direct"), noise=kind)  # type: ignore[type-var]
    meter = Meter(scheme.plan(known).accounts, known)
    nobody = np.zeros((known.slots, known.cells), np.int64)
    made = run_on(Wall(meter, KEY), meter, scheme, known, nobody)
    assert made.fresh.all()
    for one, other in combinations(range(known.slots), 2):
        assert abs(np.corrcoef(made.values[one], made.values[other])[0, 1]) < 0.1, (one, other)
