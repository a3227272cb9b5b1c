"""Every scheme from event tables to what it measures and releases; broken ones are caught."""

import hashlib
import math
from dataclasses import replace
from datetime import date
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import shapely

from sfumato.audits.pairs import Stage, events_of, pair_of, traces
from sfumato.audits.pipeline import exact_shifts
from sfumato.audits.run import SameOutputClaim, SensitivityClaim, audit
from sfumato.audits.schemes import scheme_subjects, world_of
from sfumato.density.bayes.ladder import read_ladder
from sfumato.density.registry import SCHEMES
from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.geography.overlay import Overlay, exact_shares
from sfumato.model.counts import Counting, SampleBound, WeightBound
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.door import open_private
from sfumato.privacy.events import Tab
from sfumato.privacy.wall import Wall

pytestmark = pytest.mark.privacy
DELTA = 1e-7
WEIGHT = WeightBound(3)
CASES = [
    ("laplace", WEIGHT, {}),
    ("gaussian", SampleBound(6), {}),
    ("grouping", WEIGHT, {}),
    ("paris", WEIGHT, {}),
    ("paris", SampleBound(6), {"space": "zones", "histogram": "one-visit", "total_cap": 30}),
    ("paris", WEIGHT, {"space": "cover", "keep": "exponential"}),
    ("bayes", WEIGHT, {}),
]


@pytest.mark.parametrize(("name", "bound", "parameters"), CASES)
def test_nobody_moves_a_measurement_further_than_it_was_charged_for(name, bound, parameters):
    """Exactly, for every pair of neighbours, and the sensitivities are reached: none is slack."""
    world = world_of(
        SCHEMES[name], [0.3], DELTA, bound=bound, parameters=parameters, only="some others"
    )
    found = world.exactly(0.3, seed=1)
    assert not [row for row in found.rows if row.violated]
    for row in found.rows:
        if isinstance(row.claim, SensitivityClaim) and row.claim.norm in ("L1", "L2"):
            assert row.measured > 0.97 * row.claim.value, row
    assert found.joint[found.worst_first[0]] > 0.9


@pytest.mark.parametrize(
    ("users", "counting"),
    [(300, Counting.VISITS), (500_000, Counting.PEOPLE), (8_000_000, Counting.VISITS)],
)
def test_bayes_holds_in_all_its_regimes(users, counting):
    """Its limits follow from the number of people it is told, and from epsilon."""
    world = world_of(
        SCHEMES["bayes"],
        [0.3],
        DELTA,
        bound=WEIGHT,
        counting=counting,
        expected_users=users,
        only="time, some others",
    )
    found = world.exactly(0.3, seed=2)
    assert not [row for row in found.rows if row.violated]
    labels = {row.subject.split(": ")[1] for row in found.rows}
    assert {"activity ladder", "place totals", "slot totals", "matrix"} <= labels


@pytest.mark.parametrize(
    ("bound", "parameters"),
    [
        (WEIGHT, {"keep": "exponential", "cut": "each"}),
        (SampleBound(6), {"keep": "exponential", "noise": "laplace", "histogram": "one-visit"}),
        (WEIGHT, {"keep": "first", "k": 5, "noise": "laplace", "histogram": "one-visit"}),
    ],
)
def test_the_papers_other_forms_hold_too(bound, parameters):
    """A choice of k in every cluster, and Laplace noise on the coefficients that are kept."""
    world = world_of(
        SCHEMES["paris"], [0.3], DELTA, bound=bound, parameters=parameters, only="some others"
    )
    found = world.exactly(0.3, seed=1)
    assert not [row for row in found.rows if row.violated]
    assert found.joint[found.worst_first[0]] > 0.1


@pytest.mark.parametrize("seed", range(6))
def test_random_people_in_random_towns_stay_within_the_charges(seed):
    """Busy and idle people, towers over any number of zones, one of the people taken out."""
    rng = np.random.default_rng(seed)
    towers, zones, people = (int(n) for n in rng.integers((2, 1, 3), (7, 5, 40)))
    grid = TimeGrid.between(date(2024, 3, 30), date(2024, 4, 1), "2h", "Europe/Paris")
    ids = [f"t{i}" for i in range(towers)]
    places = Places.of(
        PlaceKind.TOWERS, ids, [shapely.Point(2 + i / 99, 48) for i in range(towers)]
    )
    busy = rng.exponential(8, people).astype(int) + 1
    users = np.repeat(np.arange(people), busy)
    visits = np.column_stack(
        (users, rng.integers(0, towers, users.size), rng.integers(0, grid.slots, users.size))
    )
    shares = rng.dirichlet(np.full(zones + 1, 0.4), towers)[:, :zones]
    overlay = Overlay(places.ids, np.array([f"z{i}" for i in range(zones)]), _whole(shares))
    target = int(rng.integers(people))
    pair = tuple(
        LocalSource(events_of(rows, ids, grid), places, grid, threads=1)
        for rows in (visits, visits[visits[:, 0] != target])
    )
    for name in ("paris", "bayes"):
        facts = PublicFacts(
            places.ids,
            grid,
            float(rng.choice([0.3, 3.0])),
            DELTA,
            expected_users=int(rng.choice([100, 100_000])),
            bound=WeightBound(float(rng.uniform(0.5, 4))),
            counting=Counting.VISITS if seed % 2 else Counting.PEOPLE,
            overlay=overlay,
            parameters={"space": str(rng.choice(["towers", "zones"]))} if name == "paris" else {},
        )
        run = partial(SCHEMES[name].run, facts=facts)
        events = SCHEMES[name].plan(facts).events
        found = exact_shifts(name, {"a pair": pair}, run, events, seed=seed)
        assert not [row for row in found.rows if row.violated]


def _whole(shares):
    return exact_shares(sp.csr_array(np.floor(shares * 4096) / 4096))


class Lying:
    """A scheme whose source answers one question with twice the bound, or none, unsaid."""

    def __init__(self, scheme, question):
        self.scheme, self.question, self.name = scheme, question, scheme.name

    def plan(self, facts):
        return self.scheme.plan(facts)

    def run(self, source, wall, facts):
        return self.scheme.run(_LyingSource(source, self.question), wall, facts)


class _LyingSource:
    def __init__(self, source, question):
        self._source, self._question = source, question

    def __getattr__(self, name):
        return getattr(self._source, name)

    def _twice(self, question, bound, *more):
        ask = getattr(self._source, question)
        if question != self._question:
            return ask(bound, *more)
        double = ask(replace(bound, limit=2 * bound.limit), *more)
        return double.map(lambda counts: replace(counts, l2=bound.limit * counts.units_per_count))

    def weighted(self, bound, *more):
        return self._twice("weighted", bound, *more)

    def place_totals(self, bound, counting):
        return self._twice("place_totals", bound, counting)

    def slot_totals(self, bound, counting):
        return self._twice("slot_totals", bound, counting)

    def capped_total(self, cap, counting):
        if self._question != "capped_total":
            return self._source.capped_total(cap, counting)
        free = self._source.capped_total(1 << 40, counting)
        return free.map(lambda counts: replace(counts, l1=float(cap), l2=float(cap)))

    def ladder(self, steps, counting):
        """Without the root of the number of steps in its weights."""
        found = self._source.ladder(steps, counting)
        if self._question != "ladder":
            return found
        root = math.isqrt(len(steps))
        return found.map(lambda counts: replace(counts, values=counts.values * root))


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("paris", "weighted"),
        ("paris", "place_totals"),
        ("paris", "capped_total"),
        ("bayes", "weighted"),
        ("bayes", "place_totals"),
        ("bayes", "slot_totals"),
        ("bayes", "ladder"),
    ],
)
def test_a_bound_that_is_not_kept_is_seen_exactly(name, question):
    """Also the cap of the grand total and the ladder, which have a hundredth of the budget."""
    world = world_of(Lying(SCHEMES[name], question), [8.0], DELTA, bound=WEIGHT, only="some others")
    found = [row for row in world.exactly(8.0, seed=1).rows if row.violated]
    assert 1 <= len(found) <= 2  # a question may be asked twice
    assert all(row.measured > 1.7 * row.claim.value for row in found)


class _Through:
    """A wall in front of the wall."""

    def __init__(self, wall):
        self._wall = wall

    def __getattr__(self, name):
        return getattr(self._wall, name)


class Peeking(Lying):
    """Measures its margins, pays for them, and then uses the true ones."""

    def run(self, source, wall, facts):
        class Wrapped(_Through):
            def gaussian(self, box, *, label, **how):
                found = self._wall.gaussian(box, label=label, **how)
                if label in ("place totals", "slot totals", "histogram"):
                    return replace(found, values=open_private(box).values.copy())
                return found

        return self.scheme.run(source, Wrapped(wall), facts)


def on_a_rush(world):
    """A thousand people in one place and slot, where nobody is at any other time but one person.

    Weights are scaled so that an average visit counts one: this crowd is the average, and what
    the person adds to the empty hours moves it.
    """
    stage = Stage.for_bound(WEIGHT)
    ids = stage.places.ids.tolist()
    rush = np.column_stack((np.arange(1, 1_001), np.zeros((1_000, 2), np.int64)))
    trace = traces(len(ids), stage.grid.slots, 1)["one place all the time"]
    pair = pair_of("always there, a rush", rush, trace, ids, stage.grid)
    sources = (
        LocalSource(events, stage.places, stage.grid, threads=1)
        for events in (pair.with_user, pair.without_user)
    )
    return replace(world, pairs={pair.name: tuple(sources)})


def test_weights_from_true_margins_are_seen_exactly():
    """The person changes the weights of everybody else's visits, and so the table."""
    level = {"bound": WEIGHT, "only": "ids"}
    found = on_a_rush(world_of(Peeking(SCHEMES["bayes"], ""), [8.0], DELTA, **level))
    found = found.exactly(8.0, seed=1)
    (row,) = [r for r in found.rows if r.violated and isinstance(r.claim, SensitivityClaim)]
    assert "matrix" in row.subject
    assert not found.same_output
    assert row.measured > 1.5 * row.claim.value
    honest = on_a_rush(world_of(SCHEMES["bayes"], [8.0], DELTA, **level)).exactly(8.0, seed=1)
    assert not [row for row in honest.rows if row.violated]


class ManyLooks(Lying):
    """Takes its largest measurement nine times and charges it once; uses the mean."""

    def run(self, source, wall, facts):
        class Wrapped(_Through):
            def gaussian(self, box, *, label, sigma2, touched):
                found = self._wall.gaussian(box, label=label, sigma2=sigma2, touched=touched)
                if label not in ("matrix", "series"):
                    return found
                key = hashlib.sha256(found.values.tobytes()).digest()
                aside = Wall(Tab(), key)
                more = [
                    aside.gaussian(box, label=f"{i}", sigma2=sigma2, touched=touched).values
                    for i in range(8)
                ]
                return replace(found, values=(found.values + sum(more)) // 9)

        return self.scheme.run(source, Wrapped(wall), facts)


WHOLE = {"keep": "first", "k": 24}  # all coefficients, as they were measured
HALF = "one place half of the time, a crowd"


@pytest.mark.slow
def test_a_measurement_that_was_not_charged_is_seen_in_the_table():
    """Behind the wall nothing is wrong, since it did not see it; the output gives it away."""
    world = world_of(
        ManyLooks(SCHEMES["paris"], ""), [8.0], 1e-6, bound=WEIGHT, parameters=WHOLE, only=HALF
    )
    (row,) = [row for row in world.exactly(8.0, seed=1).rows if row.violated]
    assert isinstance(row.claim, SameOutputClaim)
    result = audit(scheme_subjects(world, [8.0], scouting=64), runs=1_600, seed=1)
    assert result.violations, result.rows


class OldKey(Lying):
    """Also releases an earlier week, without the person, with the noise of this one."""

    def run(self, source, wall, facts):
        now = self.scheme.run(source, wall, facts)
        aside = Wall.__new__(Wall)
        aside._set_up(Tab(), wall._root)
        then = self.scheme.run(self.question, aside, facts)
        both = {
            name: np.concatenate((getattr(now, name), getattr(then, name)))
            for name in ("place_ids", "values")
        }
        return replace(now, **both)


@pytest.mark.parametrize("name", ["gaussian", pytest.param("paris", marks=pytest.mark.slow)])
def test_a_release_key_that_is_used_twice_is_seen_in_the_tables(name):
    """What both tables have in common is the noise, and it cancels."""
    settings = {"gaussian": {}, "paris": {"keep": "first", "k": 12}}[name]
    level = {"bound": WeightBound(1), "parameters": settings, "only": HALF}
    ((_, without),) = world_of(SCHEMES[name], [2.0], 1e-6, **level).pairs.values()
    world = world_of(OldKey(SCHEMES[name], without), [2.0], 1e-6, **level)
    result = audit([world.table(HALF, 2.0)], runs=1_200, seed=1)
    assert [row for row in result.violations if row.measured > 2 * row.claim.value], result.rows


@pytest.mark.parametrize(("name", "runs"), [("paris", 200), ("bayes", 100)])
def test_the_answers_of_the_wall_do_not_give_more_away_than_claimed(name, runs, monkeypatch):
    # How well the ladder is read is nothing to the promise, and costs most of a run.
    quick = partial(read_ladder, points=400)
    monkeypatch.setattr("sfumato.density.bayes.scheme.read_ladder", quick)
    world = world_of(SCHEMES[name], [8.0], 1e-6, bound=WEIGHT, only="some others")
    pair = world.exactly(8.0, seed=1).worst_first[0]
    result = audit([world.answers(pair, 8.0)], runs=runs, seed=1)
    assert not result.violations
    assert result.rows[1].if_normal > 0.5 * result.rows[1].claim.value  # and not for want of power


def test_a_bound_that_is_not_kept_is_seen_in_the_answers():
    world = world_of(
        Lying(SCHEMES["paris"], "weighted"), [8.0], 1e-6, bound=WEIGHT, only="some others"
    )
    pair = world.exactly(8.0, seed=1).worst_first[0]
    result = audit([world.answers(pair, 8.0)], runs=300, seed=1)
    assert [row for row in result.violations if row.measured > 1.2 * row.claim.value]
