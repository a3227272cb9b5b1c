"""`weeks`: the default for people with a clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Plan
from sfumato.privacy.wall import Wall
from sfumato.synthesis.method import (
    Chunk,
    Declaration,
    Figures,
    Noisy,
    Reads,
    SynthFacts,
    people_stream,
)


class Weeks:
    """People with a clock."""

    name = "weeks"
    declares: ClassVar[Declaration] = Declaration(Reads.EVENTS, on_release=True)

    def plan(self, facts: SynthFacts) -> Plan:
        return scheme_named("bayes").plan(facts.public)

    def measure(self, source: Any, wall: Wall, facts: SynthFacts) -> Noisy:
        density = scheme_named("bayes").run(source, wall, facts.public)
        return {"density": np.asarray(density.values, dtype=np.float64)}

    def generate(self, noisy: Noisy, facts: SynthFacts) -> Iterator[Chunk]:
        cube = noisy["density"] if facts.cube is None else facts.cube.values
        random = people_stream(facts.seed, "people")
        edges = facts.public.grid.edges
        total = int(cube.sum())
        cell = np.sort(random.choice(cube.size, size=total, p=(cube / cube.sum()).ravel()))
        user = random.integers(0, facts.people, total)
        place, slot = cell // cube.shape[1], cell % cube.shape[1]
        time = edges[slot] + (random.random(total) * (edges[slot + 1] - edges[slot])).astype(int)
        order = np.lexsort((time, user))
        yield Chunk(user[order], time[order], place[order])

    def released(self, noisy: Noisy, facts: SynthFacts) -> Figures:
        del facts
        return Figures(density=noisy["density"])
