"""People without arithmetic on noisy numbers: the last resort of synthesis. Post-processing.

Each is seen once on every day of the period, at a place drawn by public shares and at any time of
the day. Nothing of it was measured, and the manifest says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.density.scheme import Plan
from sfumato.privacy.last_resort import shares
from sfumato.privacy.wall import Wall
from sfumato.synthesis.method import (
    Chunk,
    Declaration,
    Figures,
    Method,
    Noisy,
    SynthFacts,
    people_stream,
)

_CHUNK, _DAY_US, _MOST_DAYS = 50_000, 86_400_000_000, 31
"""People at a time, and days on which one is seen at most."""


@dataclass(frozen=True, slots=True)
class Spread:
    """In place of a method whose noisy numbers could not be read: its name, its plan, no more."""

    method: Method

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def declares(self) -> Declaration:
        return self.method.declares

    def plan(self, facts: SynthFacts) -> Plan:
        """That of the method: it was paid for."""
        return self.method.plan(facts)

    def measure(self, source: Any, wall: Wall, facts: SynthFacts) -> Noisy:
        """Nothing more."""
        del source, wall, facts
        return {}

    def generate(self, noisy: Noisy, facts: SynthFacts) -> Iterator[Chunk]:
        """Everybody once a day, by the table of a release where there is one, else anywhere."""
        del noisy
        first, last = facts.public.grid.period
        days = int(min(max((last - first) // _DAY_US, 1), _MOST_DAYS))
        assert facts.places is not None
        where = None if facts.cube is None else facts.cube.values.sum(axis=1)
        chances = shares(where, len(facts.places))
        for number, begin in enumerate(range(0, facts.people, _CHUNK)):
            rng = people_stream(facts.seed, "spread", number)
            count = min(_CHUNK, facts.people - begin)
            user = np.repeat(np.arange(begin, begin + count, dtype=np.int64), days)
            day = np.tile(np.arange(days), count)
            time = first + ((day + rng.random(user.size)) / days * (last - first)).astype(np.int64)
            if facts.box is None:
                yield Chunk(user, time, rng.choice(chances.size, user.size, p=chances))
                continue
            west, south, east, north = facts.box.bounds
            lon = west + rng.random(user.size) * (east - west)
            lat = south + rng.random(user.size) * (north - south)
            yield Chunk(user, time, None, lon, lat, np.zeros(user.size, dtype=np.int64))

    def released(self, noisy: Noisy, facts: SynthFacts) -> Figures:
        """Nothing that was measured could be read."""
        del noisy, facts
        return Figures()
