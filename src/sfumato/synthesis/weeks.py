"""`weeks`: the default for people with a clock. Their density is the released table itself.

The budget is split over a released table (`bayes`) and one vector of how persons live
(`sfumato.model.lives`). A population is fitted to both (`fit`), and every visit of the table, made
whole by controlled rounding, is dealt to one of its people (`allot`): homes, works, errands, levels
of activity and repeated days follow what was measured; nothing is sampled that the table fixes.

*Claim.* Unit: a user's whole record in the period; neighbours add or remove one. `bayes` measures
as its plan says; the vector of lives moves by at most `LIFE_UNITS` in L2 (proof there). All of it
is one set of Gaussian measurements, fixed beforehand, whose guarantee the accountant finds within
epsilon and delta. Everything after is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Plan, PlannedMeasurement, PublicFacts
from sfumato.errors import UsageError
from sfumato.model.lives import LIFE_UNITS, LifeQuestion, life_question
from sfumato.privacy.accounting import gaussian_mu
from sfumato.privacy.wall import Wall
from sfumato.synthesis.fit import fit, life_figures
from sfumato.synthesis.method import (
    Block,
    Chunk,
    Declaration,
    Figures,
    Noisy,
    Reads,
    Setting,
    SynthFacts,
    blocks_within,
    measured_blocks,
)
from sfumato.synthesis.people import made_chunks
from sfumato.synthesis.regions import ground_of

Floats = NDArray[np.float64]

LIVES, DENSITY = "lives", "density"
MOST_PLACES = 3000
"""Released places: home-work pairs are a table of all of them, twice."""


class Weeks:
    """People with a clock, dealt from a released table."""

    name = "weeks"
    declares: ClassVar[Declaration] = Declaration(
        Reads.EVENTS,
        parameters={
            "table": Setting("Share of the budget for the released table", 0.75, 0.05, 0.95),
        },
        lives=True,
        on_release=True,
        least=100.0,
    )

    def plan(self, facts: SynthFacts) -> Plan:
        """The table's measurements, where there is no release to lean on, and one vector."""
        _few(facts)
        table = () if facts.cube is not None else self._table_plan(facts).measurements
        lives = self._lives(facts, table)
        spent = sum(one.cells for one in table)
        lines = (
            f"{facts.people:,} synthetic people, from {spent + lives.cells:,} noisy numbers.",
            f"How persons live: standard deviation {lives.sd:.3g} of a person.",
        )
        bound = (
            "Each person counts once at most in each of eight tables of lives, and by visits of "
            "limited length in three; all of it together has Euclidean norm 1."
        )
        if table:
            bound = f"{self._table_plan(facts).bound} {bound}"
        return Plan(self.name, (*table, lives), lives.sd, lines, bound)

    def measure(self, source: Any, wall: Wall, facts: SynthFacts) -> Noisy:
        """The table, then the vector of lives."""
        found: dict[str, Floats] = {}
        table: tuple[PlannedMeasurement, ...] = ()
        if facts.cube is None:
            table = self._table_plan(facts).measurements
            made = scheme_named("bayes").run(source, wall, _for_table(facts))
            found[DENSITY] = np.asarray(made.values, dtype=np.float64)
        planned = {LIVES: self._lives(facts, table)}
        question = asked(facts)
        found |= measured_blocks(planned, lambda _: source.lives(question), wall)
        return found

    def generate(self, noisy: Noisy, facts: SynthFacts) -> Iterator[Chunk]:
        """People of the population, each with their visits."""
        _few(facts)
        table = facts.cube.values if facts.cube is not None else noisy[DENSITY]
        table = np.maximum(table, 0.0)
        expected = facts.public.expected_users
        if expected is not None and expected != facts.people:
            table = table * (facts.people / expected)
        table = np.minimum(table, facts.people)  # each counts once in a place and slot
        question, ground = asked(facts), ground_of(facts)
        sd, blocks = 0.0, {}
        if LIVES in noisy:
            table_plan = () if facts.cube is not None else self._table_plan(facts).measurements
            sd = self._lives(facts, table_plan).sd * LIFE_UNITS
            blocks = question.blocks(noisy[LIVES] * LIFE_UNITS)
        mean = float(table.sum()) / facts.people
        found = fit(question, ground, blocks, sd, table, mean)
        yield from made_chunks(found, question, ground.at, facts)

    def released(self, noisy: Noisy, facts: SynthFacts) -> Figures:
        """The table, and of lives the lengths of moves and the regions of home and work."""
        table = facts.cube.values if facts.cube is not None else noisy.get(DENSITY)
        if LIVES not in noisy:
            return Figures(table)
        vector = np.asarray(noisy[LIVES], dtype=np.float64) * LIFE_UNITS
        return life_figures(vector, asked(facts), ground_of(facts), table)

    def table_facts(self, facts: SynthFacts) -> PublicFacts:
        """What the table's own release would know: its forecast is the people's."""
        return _for_table(facts)

    def _table_plan(self, facts: SynthFacts) -> Plan:
        return scheme_named("bayes").plan(_for_table(facts))

    def _lives(
        self, facts: SynthFacts, table: tuple[PlannedMeasurement, ...]
    ) -> PlannedMeasurement:
        question, public = asked(facts), facts.public
        block = Block(
            LIVES,
            question.cells,
            float(LIFE_UNITS),
            1.0,
            units_per_count=LIFE_UNITS,
            touched=question.touched,
        )
        beside = [one.event for one in table]
        return blocks_within(public.epsilon, public.delta, [block], beside)[LIVES]


def _few(facts: SynthFacts) -> None:
    if facts.public.released_ids.size > MOST_PLACES:
        raise UsageError(
            f"The method weeks makes people of at most {MOST_PLACES:,} places.",
            remedy="Take a coarser `grid`, or larger `zones`.",
        )


def _for_table(facts: SynthFacts) -> PublicFacts:
    """The facts of the table's own release: its share of the budget."""
    public = facts.public
    return replace(public, epsilon=_part(public.epsilon, public.delta, facts.number("table")))


@lru_cache(maxsize=16)
def _part(epsilon: float, delta: float, share: float) -> float:
    """The epsilon of a Gaussian budget whose rho is that share of the whole one's."""
    wanted = math.sqrt(share) * gaussian_mu(epsilon, delta)
    low, high = 0.0, epsilon
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_mu(middle, delta) <= wanted else (low, middle)
    return low


def asked(facts: SynthFacts) -> LifeQuestion:
    """The question about the counted places, from public geometry."""
    ground = ground_of(facts)
    return life_question(
        facts.public.grid,
        ground.counted,
        ground.region[ground.main],
        ground.part[ground.main],
        ground.span,
        ground.regions,
    )
