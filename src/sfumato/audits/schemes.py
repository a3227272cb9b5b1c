"""Whole density schemes under audit: the small world, its neighbours, what is looked at.

Each scheme is audited three times over on the same pairs of event tables: exactly, by what
one person moves behind the wall and by the bytes that come out under equal answers
(`pipeline.exact_shifts`), also with each of its parameters at another value; by the answers of
the wall; and by the released table. Schemes with bounds of their own (`bayes`) use these; all
others the bound that is asked for. Schemes that spread towers over zones are given zones: one
tower reaches into three of them, one lies inside a zone, one partly outside all.

**Crowds against a paid choice** make one person's say in it as large as its proof allows. A noisy
sum moves by what a person adds, whoever else is there. A choice does not: how far one
person moves its costs apart depends on everybody else, and on ordinary data it is far from the
bound, so that a bound that is too small by a constant goes unseen. Here the crowd is made for the
person. *The choice of k in `paris`* (`density.paris.spectrum`): the cost of keeping k coefficients
is the norm of those that are dropped. Two costs, k1 < k2, move apart by at most sqrt(2) ||V||; the
proof says when that is reached: the coefficients between k1 and k2 are large and point where the
person's do, those beyond k2 are small against them and point the other way. Such a crowd is
L times the low part of the person's own series minus S times its high part, L >> S, plus a
constant (which lies in the first coefficient and is never dropped). What a person has in the
first coefficient is lost, so they come to every place at once in few slots, or to each place
seldom and without a rhythm.

**The files** that are compared are everything a density release writes, the real ones of a made-up
reservation. The budget is reserved once, in a ledger of its own that is thrown away, so that two
outputs which are compared share every public fact: name, time, spend so far. What still differs
between their files comes from the scheme.
"""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato.audits.pairs import CROWD, Stage, TablePair, Trace, pair_of
from sfumato.audits.pipeline import (
    ExactShifts,
    Publisher,
    exact_shifts,
    parts_of,
    pipeline,
    transcripts,
)
from sfumato.audits.run import Row, SameOutputClaim, Subject, worst
from sfumato.audits.statistics import best_of, discriminant, known_direction, projection
from sfumato.density.folder import Finish, write_release
from sfumato.density.refine.fourier import Transform, forward, inverse
from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Density, Parameter, Plan, PublicFacts, Scheme
from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.geography.overlay import Overlay, exact_shares
from sfumato.model.counts import Bound, Counting, SampleBound
from sfumato.model.events import Events
from sfumato.model.places import Places
from sfumato.model.source import RecallingSource, Source
from sfumato.privacy.ledger import Cap, Claim, Ledger, Reservation
from sfumato.privacy.wall import Wall

_LARGE, _SMALL = 1_200.0, 40.0
"""L and S, in visits a slot: far apart, and both far above the rounding to whole people."""
_EVERYWHERE = 20
"""People in every cell, so that numbers are not cut at zero, which would hide a difference."""


def choice_pairs(
    stage: Stage, bound: Bound, large: float = _LARGE, small: float = _SMALL
) -> Iterator[TablePair]:
    """Neighbours on which a choice of k comes close to its stated sensitivity.

    A smaller `large` brings the costs themselves together, so that the best k changes.
    """
    ids, slots = stage.places.ids.tolist(), stage.grid.slots
    for (how, trace), transform in product(_traces(bound, len(ids), slots).items(), Transform):
        mine = np.zeros((len(ids), slots))
        np.add.at(mine, (trace[:, 0], trace[:, 1]), 1.0)
        crowd = opposed(mine, transform, large, small)
        visits = np.repeat(np.argwhere(np.ones_like(crowd)), crowd.ravel(), axis=0)
        others = np.column_stack((np.arange(1, len(visits) + 1), visits))
        name = f"against the choice of k ({transform}), {how}"
        yield pair_of(name, others, trace, ids, stage.grid)


def opposed(
    mine: NDArray[np.float64], transform: Transform, large: float, small: float
) -> NDArray[np.int64]:
    """Counts, place x slot, on which these visits of one person move two costs furthest apart."""
    coefficients = forward(mine, transform)
    energy = np.cumsum(np.square(coefficients[:, 1:]).sum(axis=0))
    middle = 2 + int(np.argmin(np.abs(energy / energy[-1] - 0.5)))
    wanted = coefficients.copy()
    wanted[:, 0] = 0.0
    wanted[:, 1:middle] *= large
    wanted[:, middle:] *= -small
    course = inverse(wanted, transform) / np.linalg.norm(mine)
    counts: NDArray[np.int64] = np.rint(course - course.min()).astype(np.int64) + _EVERYWHERE
    return counts


def _traces(bound: Bound, places: int, slots: int) -> dict[str, Trace]:
    """What the person does: as much as the bound lets through, and little that is constant.

    Where places are merged into one cluster a norm over slots is reached by being everywhere at
    once; where each is its own cluster, by being in one place at a time.
    """
    most = bound.slots if isinstance(bound, SampleBound) else round(bound.limit**2)
    when = np.random.default_rng(20140824).permutation(slots)[: max(1, most)]
    found = {"now and then": np.column_stack((np.arange(when.size) % places, when))}
    if not isinstance(bound, SampleBound):
        rows = max(1, round((bound.limit / places) ** 2))
        at = np.arange(rows) * 2 + slots // 3
        found["everywhere at once"] = np.column_stack(
            (np.repeat(np.arange(places), rows), np.tile(at, places))
        )
    return found


_DATASET = "made-up people"


def release_files(facts: PublicFacts, plan: Plan, counted: Places, released: Places) -> Publisher:
    """From a density to its own fields and to the bytes of all files of its release."""
    reservation = _reserved(facts, plan)

    def publish(output: object) -> Mapping[str, bytes]:
        assert isinstance(output, Density)
        with tempfile.TemporaryDirectory(prefix="sfumato-audit-") as name:
            folder = Path(name)
            write_release(folder, facts, plan, Finish(), output, reservation, counted, released)
            files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        return {**parts_of(output), **files}

    return publish


def _reserved(facts: PublicFacts, plan: Plan) -> Reservation:
    with tempfile.TemporaryDirectory(prefix="sfumato-audit-") as name:
        ledger = Ledger(Path(name) / "ledger.sqlite", Path(name) / "ledger.key")
        ledger.initialise()
        ledger.add_dataset(
            _DATASET, Cap(epsilon=10 * facts.epsilon, delta=min(0.5, 10 * facts.delta))
        )
        found = ledger.reserve(
            Claim(
                dataset=_DATASET,
                name=f"audit of {plan.scheme}",
                unit=facts.unit,
                delta=facts.delta,
                period=(int(facts.grid.edges[0]), int(facts.grid.edges[-1])),
                events=tuple(plan.events.items()),
                config={},
                fingerprint="made up",
                out=str(Path(name) / "out"),
            )
        )
    if not isinstance(found, Reservation):
        raise UsageError("A new ledger knows no release.")
    return found


EXPECTED_USERS = 5_000
"""What schemes that plan for a number of users are told."""
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
        changed = scheme_named(self.scheme.name).declares.other_values[parameter]
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
    declared = scheme_named(scheme.name).declares
    if declared.refines_zones:
        released = stage.zones
        overlay = Overlay(ids, released.ids, exact_shares(sp.csr_array(_SHARES)))
    settings = {**declared.audited_with, **(parameters or {})}
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
    for parameter, changed in scheme_named(world.scheme.name).declares.other_values.items():
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
