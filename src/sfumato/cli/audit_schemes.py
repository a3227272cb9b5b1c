"""Whole schemes as subjects of an audit: the small world, its neighbours, what is looked at.

Each scheme is audited three times over on the same pairs of event tables: exactly, by what
one person moves behind the wall and by the bytes that come out under equal answers
(`privacy.audit.shifts`), also with each of its parameters at another value; by the answers of
the wall; and by the released table. Schemes with bounds of their own (`bayes`) use these; all
others the bound that is asked for. Schemes that spread towers over zones are given zones: one
tower reaches into three of them, one lies inside a zone, one partly outside all.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato.cli.audit_crowds import choice_pairs
from sfumato.cli.audit_files import release_files
from sfumato.density.scheme import Density, Parameter, Plan, PublicFacts, Scheme
from sfumato.engine.local import LocalSource
from sfumato.geography.overlay import Overlay, exact_shares
from sfumato.model.bound import Bound, Counting
from sfumato.model.events import Events
from sfumato.model.places import Places
from sfumato.model.source import Source
from sfumato.privacy.audit.claims import SameOutputClaim
from sfumato.privacy.audit.pairs import CROWD
from sfumato.privacy.audit.pipeline import pipeline, transcripts
from sfumato.privacy.audit.recall import RecallingSource
from sfumato.privacy.audit.run import Row, Subject, worst
from sfumato.privacy.audit.shifts import ExactShifts, exact_shifts
from sfumato.privacy.audit.stage import Stage
from sfumato.privacy.audit.statistics import best_of, discriminant, known_direction, projection
from sfumato.privacy.wall import Wall

EXPECTED_USERS = 5_000
"""What schemes that plan for a number of users are told."""
SETTINGS: Mapping[str, Mapping[str, Parameter]] = MappingProxyType(
    {"paris": {"total_cap": 40, "tolerance": 0.05, "nights": False}}
)
"""So that one person reaches the cap in a day, the crowd suffices for several clusters, and
nothing that could betray somebody is smoothed away."""
OTHER_VALUES: Mapping[str, Mapping[str, Mapping[str, Parameter]]] = MappingProxyType(
    {
        "laplace": {"clip": {"clip": False}},
        "gaussian": {"clip": {"clip": False}},
        "grouping": {
            "guide_share": {"guide_share": 0.6},
            "group": {"group": 5},
            "clip": {"clip": False},
        },
        "paris": {
            "space": {"space": "zones"},
            "histogram": {"histogram": "one-visit"},
            "histogram_limit": {"histogram_limit": 3.0},
            "histogram_share": {"histogram_share": 0.3},
            "total_share": {"total_share": 0.0},
            "total_cap": {"total_cap": 20},
            "choice_share": {"choice_share": 0.2, "keep": "exponential"},
            "cut": {"cut": "each", "keep": "exponential"},
            "noise": {"noise": "laplace"},
            "tolerance": {"tolerance": 0.5},
            "keep": {"keep": "exponential"},
            "k": {"k": 5, "keep": "first"},
            "transform": {"transform": "dft", "keep": "exponential"},
            "nights": {"nights": True},
        },
        "bayes": {"visits": {"visits": 20.0}},
    }
)
"""Every parameter that a scheme declares, at a value other than the audit's own, with what it
takes for that value to matter."""
ON_ZONES = frozenset({"paris", "bayes"})
_SHARES = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.0, 0.75, 0.0]])
_LARGEST_CROWD = 400
_LOUD, _LISTEN = 200.0, 32
"""An epsilon at which the noise hardly hides the shift, and runs to hear it from."""
_LOOKED_AT = 8
"""Pairs whose released tables are compared before one is chosen."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """One scheme on the audit's stage: public facts and plan by epsilon, and all pairs."""

    scheme: Scheme
    facts: dict[float, PublicFacts]
    plans: dict[float, Plan]
    pairs: dict[str, tuple[Source, Source]]
    delta: float
    counted: Places
    released: Places
    settings: Mapping[str, Parameter]
    """Parameters of the scheme, the audit's own included."""

    def run(self, epsilon: float) -> Callable[[Source, Wall], Density]:
        """The scheme at this epsilon, planned once: the plan follows from public facts."""
        facts, recipe = self.facts[epsilon], _planned_once(self.scheme, self.plans[epsilon])
        return lambda source, wall: recipe.run(source, wall, facts)

    def exactly(self, epsilon: float, seed: int, number: int = 2) -> ExactShifts:
        """What one person moves behind the wall, over all pairs."""
        return exact_shifts(
            f"{self.scheme.name} at ε = {epsilon:g}:",
            self.pairs,
            self.run(epsilon),
            self.plans[epsilon].events,
            transcripts=number,
            seed=seed,
        )

    def files(self, epsilon: float, seed: int) -> Row:
        """Whether all files of the release are the same under equal answers, over all pairs."""
        found = exact_shifts(
            f"{self.scheme.name} at ε = {epsilon:g}: files and",
            self.pairs,
            self.run(epsilon),
            self.plans[epsilon].events,
            transcripts=1,
            seed=seed,
            publish=release_files(
                self.facts[epsilon], self.plans[epsilon], self.counted, self.released
            ),
        )
        return found.rows[-1]

    def otherwise(self, parameter: str, epsilon: float) -> World:
        """The same pairs with one of the scheme's parameters at another value."""
        changed = OTHER_VALUES[self.scheme.name][parameter]
        facts = replace(self.facts[epsilon], parameters={**self.settings, **changed})
        return replace(
            self,
            facts={epsilon: facts},
            plans={epsilon: self.scheme.plan(facts)},
            settings=facts.parameters,
        )

    def answers(self, pair: str, epsilon: float) -> Subject:
        """The answers of the wall, before any refinement."""
        plan = self.plans[epsilon]
        return transcripts(
            f"{self.scheme.name} measurements",
            pair,
            *self.pairs[pair],
            self.run(epsilon),
            plan.events,
            {m.label: max(m.cells, self.facts[epsilon].places) for m in plan.measurements},
            self.delta,
        )

    def table(self, pair: str, epsilon: float) -> Subject:
        """The released table."""
        run = self.run(epsilon)
        return pipeline(
            f"{self.scheme.name} table",
            pair,
            *self.pairs[pair],
            lambda source, wall: _values(run(source, wall)),
            self.plans[epsilon].events,
            self.delta,
        )


def world_of(
    scheme: Scheme,
    epsilons: Sequence[float],
    delta: float,
    *,
    bound: Bound,
    counting: Counting = Counting.VISITS,
    expected_users: int = EXPECTED_USERS,
    parameters: Mapping[str, Parameter] | None = None,
    only: str = "",
    crowd: int | None = None,
) -> World:
    """The scheme on the stage of its bound.

    `only` keeps pairs whose name holds this text; `crowd` is the number of people in every
    cell, where it should not follow from the noise.
    """
    stage = Stage.for_bound(bound)
    ids, released = stage.places.ids, stage.places
    overlay = None
    if scheme.name in ON_ZONES:
        released = stage.zones
        overlay = Overlay(ids, released.ids, exact_shares(sp.csr_array(_SHARES)))
    settings = {**SETTINGS.get(scheme.name, {}), **(parameters or {})}
    facts = {
        epsilon: PublicFacts(
            ids,
            stage.grid,
            epsilon,
            delta,
            expected_users=min(expected_users, math.floor(1 / delta)),
            bound=bound,
            counting=counting,
            overlay=overlay,
            parameters=settings,
        )
        for epsilon in (*epsilons, _LOUD)
    }
    plans = {epsilon: scheme.plan(known) for epsilon, known in facts.items()}
    many = min(_LARGEST_CROWD, math.ceil(6 * plans[min(epsilons)].sd)) if crowd is None else crowd
    counted: dict[int, Source] = {}

    def source(events: Events) -> Source:
        """Tables that pairs share are read and counted once."""
        if id(events) not in counted:
            counted[id(events)] = RecallingSource(
                LocalSource(events, stage.places, stage.grid, threads=1)
            )
        return counted[id(events)]

    hard = choice_pairs(stage, bound) if scheme.name == "paris" else []
    found = [pair for pair in (*stage.pairs(many), *hard) if only in pair.name]
    pairs = {pair.name: (source(pair.with_user), source(pair.without_user)) for pair in found}
    return World(scheme, facts, plans, pairs, delta, stage.places, released, settings)


def exact_rows(world: World, epsilons: Sequence[float], seed: int = 0) -> list[Row]:
    """The exact shifts and the output at every epsilon, and all files at the smallest."""
    rows = [row for epsilon in epsilons for row in world.exactly(epsilon, seed).rows]
    return [*rows, world.files(min(epsilons), seed)]


def other_rows(world: World, epsilon: float, seed: int = 0) -> list[Row]:
    """The exact audit with each declared parameter at another value.

    One row for the output of each; rows of sensitivities only where one is violated.
    """
    rows: list[Row] = []
    for parameter, changed in OTHER_VALUES.get(world.scheme.name, {}).items():
        words = ", ".join(f"{name}={value}" for name, value in changed.items())
        for row in world.otherwise(parameter, epsilon).exactly(epsilon, seed, 1).rows:
            if row.violated or isinstance(row.claim, SameOutputClaim):
                rows.append(replace(row, subject=f"{row.subject} with {words}"))
    return rows


def scheme_subjects(
    world: World,
    epsilons: Sequence[float],
    *,
    measurements: bool = False,
    scouting: int = 200,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Subject]:
    """The table at every epsilon, and the measurements if asked for, on the worst pairs.

    Behind the wall the worst pair is known exactly. Of the tables, those of the pairs that
    move most are looked at with few runs at the largest epsilon, and the worst is kept. Pairs
    in a crowd come first: without one, numbers that are cut at zero hide the person.
    """
    ranked = world.exactly(max(epsilons), seed).worst_first
    crowded = [pair for pair in ranked if pair.endswith(CROWD)]
    rest = [pair for pair in ranked if pair not in crowded]
    few = [world.table(pair, max(epsilons)) for pair in (*crowded, *rest)[:_LOOKED_AT]]
    pair = worst(few, runs=scouting, seed=seed, progress=progress).pair
    loud = world.table(pair, _LOUD)
    shift = (loud.draw(True, _LISTEN, seed) - loud.draw(False, _LISTEN, seed + 1)).mean(axis=0)
    guess = best_of(known_direction(shift), projection, discriminant)
    subjects = [replace(world.table(pair, epsilon), shift=guess) for epsilon in epsilons]
    if measurements:
        subjects += [world.answers(ranked[0], epsilon) for epsilon in epsilons]
    return subjects


def _planned_once(scheme: Scheme, plan: Plan) -> Scheme:
    """The scheme with its plan remembered: it follows from public facts, the same each run."""
    remembered = copy.copy(scheme)
    try:
        object.__setattr__(remembered, "plan", lambda _facts: plan)
    except AttributeError:  # a scheme with slots plans anew in every run: slower, the same
        return scheme
    return remembered


def _values(density: Density) -> NDArray[np.float64]:
    return density.values.astype(np.float64)
