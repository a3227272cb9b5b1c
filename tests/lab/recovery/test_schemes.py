"""Schemes attacked on a small crowd: what the default ones leave, and what noise does."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from sfumato.attacks.membership import Game, allowed
from sfumato.attacks.republish import Stage, StreamStage
from sfumato.city.crowd import CrowdPlan
from sfumato.model.time_grid import Calendar
from sfumato.privacy.events import Unit
from sfumato.streams.facts import StreamFacts
from sfumato.streams.registry import default_name
from sfumato_lab.studies.recovery.figure6 import LINE
from sfumato_lab.studies.recovery.schemes import STREAMS, Attacked, play_schemes

PLAN = CrowdPlan(people=120, days=1, columns=12, rows=12, seed=77)
DELTA = 1e-6


@pytest.fixture(scope="module")
def town() -> Attacked:
    return Attacked(PLAN, DELTA)


def test_bayes_at_epsilon_one_leaves_no_more_than_chance(town: Attacked) -> None:
    found, unprotected = town.accuracy("bayes", 1.0, range(3)), town.unprotected(seeds=1)[0]
    assert found.above <= LINE, "points above what knows all others"
    assert unprotected.above > 10


THINLY = CrowdPlan(people=1_000, days=1, seed=77)
"""On the 8,010 cells of Chen et al."""
DENSELY = CrowdPlan(people=2_000, days=1, columns=30, rows=30, seed=77)


@pytest.mark.parametrize(
    ("scheme", "plan"),
    [("comb", DENSELY), ("rhythm", THINLY), ("profile", THINLY)],
)
def test_the_default_streams_at_epsilon_one_leave_no_more_than_chance(
    scheme: str, plan: CrowdPlan
) -> None:
    """Each where it is the default; those that go on have seven days behind the one attacked."""
    calendar = Calendar.regular(plan.slots, plan.slots)
    known = StreamFacts(plan.cells, calendar, 1.0, DELTA, Unit.parse("user-day"), plan.people)
    assert default_name(known, finished=scheme == "profile") == scheme
    found = Attacked(plan, DELTA).accuracy(scheme, 1.0, range(1))
    assert found.above <= LINE
    assert found.map > found.greedy, "not even the map is told exactly"


def test_accuracy_does_not_rise_as_noise_grows(town: Attacked) -> None:
    """Ten draws each; a rise must stay within two standard errors of the difference."""
    found = [town.accuracy("gaussian", epsilon, range(10)) for epsilon in (100.0, 10.0, 0.5)]
    for less, more in pairwise(found):
        error = math.hypot(less.spread, more.spread) / math.sqrt(10)
        assert more.greedy <= less.greedy + 2 * error
    assert found[0].greedy > found[-1].greedy + 0.1


def test_membership_shows_in_true_counts_and_stays_within_the_guarantee() -> None:
    plan = CrowdPlan(people=500, days=1, columns=10, rows=10, seed=77)
    game = Game(group=250, targets=60, rounds=16)
    found = play_schemes(plan, 1.0, DELTA, game, schemes=("gaussian", "bayes", *STREAMS))
    assert found["no protection"].worst.low > 0.65
    for name in ("gaussian", "bayes", *STREAMS):
        assert found[name].worst.low < allowed(1.0, DELTA), name
        assert found[name].worst.value < 0.65, name


def test_both_stages_publish_the_same_places_and_slots() -> None:
    """With a huge budget both publish the counts of the people they were given."""
    town = Attacked(PLAN, DELTA)
    counts = town.truth.counts
    noiseless = Stage.of_crowd(PLAN).published("gaussian", town.truth.cells, 1e4, DELTA, 0)
    np.testing.assert_allclose(noiseless, counts, atol=1.5)
    stream = StreamStage(PLAN.cells, PLAN.columns, PLAN.slots)
    streamed = stream.published(town.truth.cells, 1e6, DELTA, 0, scheme="direct")
    np.testing.assert_allclose(streamed, counts, atol=1)
    assert np.abs(streamed - counts).mean() < 0.01
