"""`where`: DP-WHERE (Mir, Isaacman, Cáceres, Martonosi & Wright 2013), corrected.

A person has a home, drawn from noisy counts of homes; a commute, drawn from an exponential law
whose rate is ln 2 over the *median* distance of the part of the map where the home lies; work, a
place about that far from home, drawn by noisy counts of works; a class, with how many records a day
and how unevenly over the days; hours by the noisy profile of the class; and at each hour is at home
or at work by the noisy shares of the hour.

*Corrected.* As printed, homes and works are found in advance, but the distances' range, the
clusters of hourly profiles (k-means) and the grid are read from the data without noise. Here the
grid of distances is public, the median is chosen by the exponential mechanism on it, classes are a
public rule that each record answers by itself (when most of it is, and whether it has more than one
visit a day), and every table is counted under one bound.

*Claim.* Unit: a user's whole record in the period; neighbours add or remove one. The tables are
blocks of one vector of L2 `LIFE_UNITS` (`sfumato.model.lives`): a class hangs on one record, so a
user is in one class of `calls` and of `profiles`, whoever else there is. Medians: the cost of
distance d in a part of the map is |2 below(d) - n|, a user is in one part and moves every cost
there by at most one either way, so costs move apart by at most R = 2, in one row: R^2 / (8 b^2)
zCDP. Both together by zCDP composition. Everything after is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.density.bayes.settings import WEEKLY_VISITS
from sfumato.density.scheme import Plan, PlannedMeasurement
from sfumato.model.counts import Counts
from sfumato.model.lives import (
    LENGTHS,
    LIFE_UNITS,
    PARTS,
    SHARES,
    LifeQuestion,
    life_question,
)
from sfumato.privacy.accounting import zcdp_rho
from sfumato.privacy.calibration import gaussian_sigma2
from sfumato.privacy.events import ConcentratedEvent, GaussianEvent
from sfumato.privacy.mechanisms.selection import MECHANISM, choices_rho
from sfumato.privacy.noise import representable_softness
from sfumato.privacy.wall import Wall
from sfumato.synthesis.fit import classes
from sfumato.synthesis.method import (
    Chunk,
    Declaration,
    Figures,
    Noisy,
    Reads,
    Setting,
    SynthFacts,
    measured_blocks,
    people_stream,
)
from sfumato.synthesis.people import rounded_running
from sfumato.synthesis.regions import ground_of
from sfumato_lab.synthesis.calling import Patterns

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LIVES, MEDIANS = "lives", "median distances"
_RANGE = 2
_SHARES = {"homes": 0.3, "works": 0.3, "roles": 0.15, "calls": 0.1, "profiles": 0.15}
"""Of what the medians leave; even where the paper says nothing, less for the shortest table."""
_WEEK_US = 7 * 86_400 * 1_000_000
CHUNK = 200_000
_CELLS = 8_000_000
"""People x days of one chunk."""


class Where:
    """Homes, commutes by distance, works, hours: DP-WHERE."""

    name = "where"
    declares: ClassVar[Declaration] = Declaration(
        Reads.EVENTS,
        lives=True,
        parameters={"medians": Setting("Share of the budget for the medians", 0.1, 0.01, 0.9)},
        least_place=10.0,
    )

    def plan(self, facts: SynthFacts) -> Plan:
        """Medians by the exponential mechanism, one vector with Gaussian noise."""
        public = facts.public
        rho = zcdp_rho(public.epsilon, public.delta) * (1 - 1e-9)
        softness = self._softness(facts)
        chosen = ConcentratedEvent(choices_rho(softness, _RANGE), MECHANISM)
        question = asked(facts)
        sigma2 = gaussian_sigma2(float(LIFE_UNITS), rho - chosen.rho)
        event = GaussianEvent(float(LIFE_UNITS), sigma2, question.touched)
        sd = math.sqrt(float(sigma2)) / LIFE_UNITS
        measured = (
            PlannedMeasurement(MEDIANS, chosen, PARTS, 0.0),
            PlannedMeasurement(LIVES, event, question.cells, sd, sums=True),
        )
        lines = (
            f"{facts.people:,} synthetic people; {PARTS} median distances, and tables with "
            f"standard deviation {sd:.3g} of a person.",
        )
        bound = "Each person counts once in each table of lives; all together have norm 1."
        return Plan(self.name, measured, sd, lines, bound)

    def _softness(self, facts: SynthFacts) -> Fraction:
        """b with R^2 / (8 b^2) the medians' share of rho."""
        public = facts.public
        share = facts.number("medians") * zcdp_rho(public.epsilon, public.delta)
        return representable_softness(Fraction(_RANGE / math.sqrt(8 * share)))

    def measure(self, source: Any, wall: Wall, facts: SynthFacts) -> Noisy:
        """Median distances, then the vector."""
        alone = asked(facts, {"commutes": 1.0})
        costs = source.lives(alone).map(lambda counts: median_costs(counts, alone))
        chosen = wall.select_in_rows(
            costs, softness=self._softness(facts), range_units=_RANGE, label=MEDIANS
        )
        planned = {one.label: one for one in self.plan(facts).measurements if one.label == LIVES}
        found = measured_blocks(planned, lambda _: source.lives(asked(facts)), wall)
        return {MEDIANS: chosen.indices, **found}

    def generate(self, noisy: Noisy, facts: SynthFacts) -> Iterator[Chunk]:
        """Each person by themselves; nothing is matched to a table."""
        question, ground = asked(facts), ground_of(facts)
        blocks = question.blocks(np.asarray(noisy[LIVES], dtype=np.float64) * LIFE_UNITS)
        shares = ground.shares

        def margin(name: str) -> Floats:
            seen = blocks[name] if shares is None else shares.T @ blocks[name]
            kept = np.maximum(seen, 0.0) + 1e-9
            return np.asarray(kept / kept.sum(), dtype=np.float64)

        homes, works = margin("homes"), margin("works")
        ends = np.sqrt(np.append(question.edges, 1.5 * question.edges[-1]).astype(np.float64))
        median = np.maximum(ends[np.asarray(noisy[MEDIANS], dtype=np.int64)], ends[1])
        roles = np.maximum(blocks["roles"].reshape(48, 3), 0.0) + 1e-9
        noise = {name: self._noise(name, facts, question) for name in ("calls", "profiles")}
        first, last = facts.public.grid.period
        mean = WEEKLY_VISITS * (last - first) / _WEEK_US
        patterns = Patterns.of(blocks, noise, mean, question)
        size = max(1, min(CHUNK, _CELLS // int(question.day[-1] + 1)))
        for number, begin in enumerate(range(0, facts.people, size)):
            count = min(size, facts.people - begin)
            random = people_stream(facts.seed, "where", number)
            home = np.repeat(np.arange(homes.size), rounded_running(homes, count))
            home = home[random.permutation(count)]
            far = random.exponential(1.0, count) * median[ground.part[home]] / math.log(2)
            work = _works(home, far, works, ground.at, question.edges, random)
            user, slot = patterns.drawn(count, random)
            yield _chunk(begin, home, work, user, slot, roles, question, facts, random)

    def _noise(self, name: str, facts: SynthFacts, question: LifeQuestion) -> float:
        """Standard deviation of a cell of a block, in people or visits."""
        gain = int(question.gains[list(question.sizes).index(name)])
        return self.plan(facts).sd * LIFE_UNITS / gain

    def released(self, noisy: Noisy, facts: SynthFacts) -> Figures:
        """Nothing that was measured is a table of places and slots."""
        del noisy, facts
        return Figures()


def asked(facts: SynthFacts, shares: dict[str, float] | None = None) -> LifeQuestion:
    """The question with the blocks that DP-WHERE has, or some of them."""
    ground = ground_of(facts)
    given = {name: (shares or _SHARES).get(name, 0.0) for name in SHARES}
    return life_question(
        facts.public.grid,
        ground.counted,
        ground.region[ground.main],
        ground.part[ground.main],
        ground.span,
        ground.regions,
        given,
    )


def median_costs(counts: Counts, question: LifeQuestion) -> Ints:
    """Part of the map x class of distance: |2 below - n|, left of the wall."""
    first = int(question.offsets[list(question.sizes).index("commutes")])
    gain = int(question.gains[list(question.sizes).index("commutes")])
    people = counts.values[first : first + PARTS * LENGTHS] // gain
    table = people.reshape(PARTS, LENGTHS)
    below = np.cumsum(table, axis=1)
    return np.asarray(np.abs(2 * below - table.sum(axis=1, keepdims=True)), dtype=np.int64)


def _works(
    home: Ints, far: Floats, works: Floats, at: Floats, edges: Ints, random: np.random.Generator
) -> Ints:
    """A place of the class of each distance from home, by the counts of works; the nearest class
    that has any place where this one has none."""
    found = np.empty(home.size, np.int64)
    wanted = np.searchsorted(edges, np.square(far), side="left")
    luck = random.random(home.size)
    for place in np.unique(home):
        who = np.flatnonzero(home == place)
        rings = classes(at, edges, np.array([place]))[0]
        present = np.unique(rings)
        level = present[np.abs(present[None, :] - wanted[who][:, None]).argmin(axis=1)]
        for ring in np.unique(level):
            some = who[level == ring]
            there = np.flatnonzero(rings == ring)
            running = np.cumsum(works[there])
            pick = np.searchsorted(running, luck[some] * running[-1], side="right")
            found[some] = there[np.minimum(pick, there.size - 1)]
    return found


def _chunk(
    first: int,
    home: Ints,
    work: Ints,
    user: Ints,
    slot: Ints,
    roles: Floats,
    question: LifeQuestion,
    facts: SynthFacts,
    random: np.random.Generator,
) -> Chunk:
    """Records of some people: home or work by the hour's shares."""
    at_home = roles[:, 0] / (roles[:, 0] + roles[:, 1])
    there = random.random(user.size) < at_home[question.hour[slot]]
    place = np.where(there, home[user], work[user])
    edges = facts.public.grid.edges
    width = (edges[slot + 1] - edges[slot]) // 1_000_000
    time = edges[slot] + (random.random(user.size) * width).astype(np.int64) * 1_000_000
    order = np.lexsort((time, user))
    return Chunk(first + user[order], time[order], place[order])
