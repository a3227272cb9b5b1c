"""The exact audit sees to the end: whatever is published is the same under equal answers."""

import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.audits.pairs import Stage
from sfumato.audits.pipeline import differing, parts_of, play
from sfumato.audits.run import SameOutputClaim
from sfumato.audits.schemes import choice_pairs, other_rows, world_of
from sfumato.cli.main import app
from sfumato.density.baselines import Laplace
from sfumato.density.paris import budget
from sfumato.density.posterior import Posterior
from sfumato.density.registry import SCHEMES
from sfumato.engine.local import LocalSource
from sfumato.errors import InputError, UsageError
from sfumato.model.counts import SampleBound, WeightBound
from sfumato.privacy.events import Tab

pytestmark = pytest.mark.privacy
DELTA, WEIGHT = 1e-7, WeightBound(3)
BASE = Laplace.run


def peek(source, facts):
    """The exact counts, out of their box without a key: a function that looks around inside."""
    seen = []
    source.exact(facts.counting).map(lambda counts: seen.append(counts.values) or counts)
    return seen[0]


def zero_where_nobody_is(self, source, wall, facts):
    made = BASE(self, source, wall, facts)
    values = np.where(peek(source, facts) == 0, 0.0, made.values)
    return replace(made, values=values)


def narrow_where_nobody_is(self, source, wall, facts):
    made = BASE(self, source, wall, facts)
    upper = np.where(peek(source, facts) == 0, made.values, made.values + 9)
    return replace(made, lower=made.values * 0, upper=upper, coverage=0.9)


def exact_in_the_middle(self, source, wall, facts):
    made = BASE(self, source, wall, facts)
    return replace(made, median=np.where(peek(source, facts) == 0, 0.0, made.values))


def certain_where_nobody_is(self, source, wall, facts):
    made = BASE(self, source, wall, facts)
    chance = np.where(peek(source, facts) == 0, 0.0, 1.0)
    draws = np.repeat(made.values[None].astype(np.float32), 4, axis=0)
    posterior = Posterior(draws, chance, np.ones(made.values.shape[0]))
    return replace(made, posterior=posterior)


def sure_where_many_are(self, source, wall, facts):
    """Intervals that are stated only where they hold: their absence tells that few were there."""
    made = BASE(self, source, wall, facts)
    if peek(source, facts).sum() <= 1:
        return made
    return replace(made, lower=made.values * 0, upper=made.values * 2, coverage=0.9)


def talkative(self, source, wall, facts):
    made = BASE(self, source, wall, facts)
    busy = "busy" if peek(source, facts).sum() > 30 else "quiet"
    return replace(made, remarks=(f"A {busy} day.",))


def squeamish(self, source, wall, facts):
    if peek(source, facts).sum() == 1:
        raise InputError("One visit is too few.")
    return BASE(self, source, wall, facts)


def stingy(self, source, wall, facts):
    """Less noise where many were seen: the price says how many."""
    more = 2 if peek(source, facts).sum() > 30 else 1
    return BASE(self, source, Cheaper(wall, more), facts)


class Cheaper:
    def __init__(self, wall, more):
        self._wall, self._more = wall, more

    def __getattr__(self, name):
        return getattr(self._wall, name)

    def laplace(self, box, *, scale, label):
        return self._wall.laplace(box, scale=scale * self._more, label=label)


LEAKS = {
    "values": zero_where_nobody_is,
    "upper": narrow_where_nobody_is,
    "median": exact_in_the_middle,
    "coverage": sure_where_many_are,
    "posterior/chance": certain_where_nobody_is,
    "remarks/0": talkative,
    "refusal": squeamish,
}


def test_a_price_that_depends_on_the_data_is_seen(monkeypatch):
    """The bill is checked against the plan first; here the plan is made to agree."""
    monkeypatch.setattr(Laplace, "run", stingy)
    world = world_of(Laplace(), [0.3], DELTA, bound=WEIGHT, only="every place in every slot, no")
    with pytest.raises(UsageError, match="other than what it planned"):
        world.exactly(0.3, seed=1)
    ((full, empty),) = world.pairs.values()
    run, replay = (Tab(), Tab())
    first = play(world.run(0.3), empty, run, bytes(32), parts_of)
    second = play(world.run(0.3), full, replay, bytes(32), parts_of, first.steps)
    assert "measurements taken" in differing(first, second)


@pytest.mark.parametrize("part", LEAKS)
def test_what_was_decided_behind_the_wall_is_seen(part, monkeypatch):
    monkeypatch.setattr(Laplace, "run", LEAKS[part])
    world = world_of(Laplace(), [0.3], DELTA, bound=WEIGHT, only="nobody else")
    found = world.exactly(0.3, seed=1)
    (row,) = [row for row in found.rows if row.violated]
    assert isinstance(row.claim, SameOutputClaim)
    assert not found.same_output
    assert part in row.how


def test_the_command_sees_a_laplace_that_publishes_zero_where_nobody_was(monkeypatch):
    """It passed every test, the import rules and the audit of its measurements."""
    monkeypatch.setattr(Laplace, "run", zero_where_nobody_is)
    command = ["audit", "laplace", "--epsilon", "1", "--runs", "100", "--scouting", "64"]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 1
    assert "density.parquet" in done.stdout


def test_files_are_compared_too(monkeypatch):
    """The page, the text for readers and the manifest, not the numbers alone."""
    monkeypatch.setattr(Laplace, "run", talkative)
    world = world_of(Laplace(), [0.3], DELTA, bound=WEIGHT, only="every place in every slot, no")
    row = world.files(0.3, seed=1)
    assert row.violated
    assert "README.txt" in row.how
    assert row.measured == 4  # the remark, the text, the page, and the manifest that lists them


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_publishes_the_same_under_equal_answers(name):
    """All pairs, and all files on some of them."""
    level = {"bound": WEIGHT, "crowd": 3, "expected_users": 500_000}
    world = world_of(SCHEMES[name], [0.3], DELTA, **level)
    assert world.exactly(0.3, seed=3).same_output
    few = world_of(SCHEMES[name], [0.3], DELTA, bound=SampleBound(6), only="all the time, some")
    assert few.exactly(0.3, seed=3).same_output
    assert not few.files(0.3, seed=4).violated


@pytest.mark.parametrize("name", SCHEMES)
def test_also_with_each_parameter_at_another_value(name):
    world = world_of(SCHEMES[name], [0.3], DELTA, bound=WEIGHT, only="time, some others")
    rows = other_rows(world, 0.3, seed=1)
    assert len(rows) == len(SCHEMES[name].declares.parameters)
    assert not [row for row in rows if row.violated]


@pytest.mark.parametrize("name", SCHEMES)
def test_every_declared_parameter_has_another_value_in_the_audit(name):
    assert set(SCHEMES[name].declares.other_values) == set(SCHEMES[name].declares.parameters)
    for parameter, changed in SCHEMES[name].declares.other_values.items():
        assert changed[parameter] != SCHEMES[name].declares.audited_with.get(parameter)


CHOICES = [
    (WEIGHT, {"keep": "exponential"}),
    (WEIGHT, {"keep": "exponential", "transform": "dft"}),
    (WEIGHT, {"keep": "exponential", "cut": "each"}),
    (WEIGHT, {"keep": "exponential", "space": "zones"}),
    (SampleBound(6), {"keep": "exponential"}),
    (WEIGHT, {"noise": "laplace"}),
]


def against_the_choice(bound, parameters):
    """With weights in one cluster of everything, with samples in a cluster for each place."""
    at = 8.0 if isinstance(bound, SampleBound) else 0.3
    world = world_of(
        SCHEMES["paris"], [at], DELTA, bound=bound, parameters=parameters, only="against"
    )
    (row,) = [row for row in world.exactly(at, seed=1).rows if "choice" in row.subject]
    return row


@pytest.mark.parametrize(("bound", "parameters"), CHOICES)
def test_the_crowd_against_the_choice_of_k_reaches_its_range(bound, parameters):
    row = against_the_choice(bound, parameters)
    assert 0.8 * row.claim.value < row.measured <= row.claim.value


@pytest.mark.parametrize(("bound", "parameters"), CHOICES)
def test_a_forgotten_root_of_two_in_the_choice_of_k_is_seen(bound, parameters, monkeypatch):
    for name in ("cost_range", "row_range"):
        whole = getattr(budget, name)
        monkeypatch.setattr(
            budget, name, lambda spread, *more, whole=whole: whole(spread / math.sqrt(2), *more)
        )
    assert against_the_choice(bound, parameters).violated


def test_the_best_k_can_change_and_tells_nothing():
    """Crowds from flat to steep: on some of them one person decides which k is the cheapest."""
    parameters = {"keep": "exponential"}
    level = {"bound": WEIGHT, "parameters": parameters, "only": "one visit, nobody"}
    world = world_of(SCHEMES["paris"], [8.0], DELTA, **level)
    stage, pairs = Stage.for_bound(WEIGHT), {}
    for steepness in np.arange(1.0, 40.0, 3.0):
        for pair in choice_pairs(stage, WEIGHT, steepness, 0.0):
            if "dct" in pair.name and "once" in pair.name:
                tables = (pair.with_user, pair.without_user)
                pairs[f"{pair.name} {steepness}"] = tuple(
                    LocalSource(table, stage.places, stage.grid, threads=1) for table in tables
                )
    assert replace(world, pairs=pairs).exactly(8.0, seed=2).same_output


def test_parts_are_named_by_their_path_and_hold_type_and_shape():
    made = parts_of({"a": np.zeros((2, 3)), "b": (1, "x")})
    assert set(made) == {"a", "b", "b/0", "b/1"}
    assert made["a"] != parts_of({"a": np.zeros((3, 2))})["a"]
    assert made["b"] != parts_of({"b": [1, "x"]})["b"]
    assert parts_of({"a": 0.0}) != parts_of({"a": -0.0})
