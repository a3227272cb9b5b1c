"""The exact audit of trips: neighbours behind the wall, held against what was charged.

A method measures a town with and without one hostile trip; the answers of the first run are
replayed in the second, so that trees and splits are chosen alike. What still differs behind the
wall is what the trip moved.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from tests.synthesis.trips.made_up import (
    METHODS,
    facts_of,
    hostile_trips,
    measured,
    people_of,
    towns_trips,
)

from sfumato.audits.transcript import joint_share, same_measurements, shifts
from sfumato.model.traces import make_traces
from sfumato.privacy.accounting import guarantee
from sfumato.synthesis.folder import Writer
from sfumato.synthesis.method import people_stream
from sfumato.synthesis.registry import method_named
from sfumato.synthesis.trips.blocks import KINDS, UNITS, Block, Layout, Paths
from sfumato.synthesis.trips.fit import ANCHORS, shares_at

pytestmark = pytest.mark.privacy
TOWN = towns_trips(60)
WITH_PEOPLE = {"fit": 1.0}
"""Where people are generated, too: coarse tables are fitted in a second."""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("who", hostile_trips())
def test_no_trip_moves_a_measurement_by_more_than_its_charge(method: str, who: str) -> None:
    facts = facts_of(method)
    _, one, _ = measured(method, TOWN, facts)
    _, other, _ = measured(method, [*TOWN, hostile_trips()[who]], facts, one.steps)
    assert same_measurements(one.steps, other.steps)
    for shift in shifts(one.steps, other.steps):
        assert shift.moved <= shift.allowed, shift
    nothing = who in ("outside", "nowhere")
    assert (joint_share(one.steps, other.steps) == 0) == nothing


def test_the_bound_of_a_fit_is_reached_and_not_passed() -> None:
    """Rounding weights down leaves less than a thousandth of the budget unused."""
    facts = facts_of("fit")
    _, one, _ = measured("fit", TOWN, facts)
    _, other, _ = measured("fit", TOWN[1:], facts, one.steps)
    assert 0.999 <= joint_share(one.steps, other.steps) <= 1


@pytest.mark.parametrize("method", METHODS)
def test_charges_are_those_of_the_plan_and_within_the_budget(method: str) -> None:
    facts = facts_of(method, epsilon=1.0)
    plan = method_named(method).plan(facts)
    _, _, tab = measured(method, TOWN, facts)
    assert tab.charged == plan.events
    assert guarantee(list(plan.events.values()), facts.public.delta).epsilon <= 1.0


@pytest.mark.parametrize("method", METHODS)
def test_the_finished_file_hangs_on_the_answers_alone(method: str, tmp_path: Path) -> None:
    facts = facts_of(method, epsilon=WITH_PEOPLE.get(method, 40.0))
    noisy, one, _ = measured(method, TOWN, facts)
    again, _, _ = measured(method, [*TOWN, hostile_trips()["to and fro"]], facts, one.steps)
    digests = []
    for number, answers in enumerate((noisy, again)):
        path = tmp_path / f"{number}.parquet"
        Writer(facts).write(path, method_named(method).generate(answers, facts))
        digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
    assert digests[0] == digests[1]


@pytest.mark.parametrize("method", METHODS)
def test_people_hang_on_the_seed_and_noise_on_the_key(method: str) -> None:
    epsilon = WITH_PEOPLE.get(method, 40.0)
    facts = facts_of(method, epsilon=epsilon)
    noisy, _, _ = measured(method, TOWN, facts)
    again, _, _ = measured(method, TOWN, facts)
    assert all(np.array_equal(noisy[label], again[label]) for label in noisy)
    one, two = (people_of(method, noisy, facts) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    other = people_of(method, noisy, facts_of(method, epsilon=epsilon, seed=4))
    assert not np.array_equal(one[2], other[2])


def test_every_block_of_a_random_trip_has_length_at_most_its_share() -> None:
    rng = np.random.default_rng(5)
    blocks = tuple(Block(kind, 8 if kind != "shape" else 1, 1 / len(KINDS)) for kind in KINDS)
    layout = Layout(blocks, 1.3)
    for size in (1, 2, 3, 50, 2000):
        x, y = rng.random(size), rng.random(size)
        alone = layout.tally(Paths(x, y, np.array([0, size])))
        for part, square in zip(layout.slices(), layout.squares.tolist(), strict=True):
            assert sum(v * v for v in alone[part].tolist()) <= square
        assert sum(v * v for v in alone.tolist()) <= UNITS**2
        assert (alone != 0).sum() <= layout.most


def test_a_trip_without_a_point_in_the_box_adds_nothing() -> None:
    layout = Layout((Block("visits", 4, 1.0),), 1.0)
    empty = Paths(np.empty(0), np.empty(0), np.zeros(2, np.int64))
    assert not layout.tally(empty).any()
    assert layout.features(empty)[0].tolist() == [0, 0]


def test_shares_are_a_public_function_that_sums_to_one() -> None:
    for x in (1e-3, 80, 300, 800, 2000, 7000, 1e9):
        shares = shares_at(x)
        assert sum(shares.values()) == pytest.approx(1, abs=1e-9)
        assert sum(shares.values()) <= 1
    assert set(shares_at(1e9)) == set(ANCHORS[-1][1])
    assert people_stream(1, "trips").random() == people_stream(1, "trips").random()


def test_a_trip_does_not_decide_how_another_of_the_same_person_is_read() -> None:
    lon, lat = np.array([2.3, 2.31, 2.4, 2.41]), np.full(4, 48.9)
    time = np.array([1, 2, 1, 2]) * 60_000_000 + 10**15
    trip, names = np.array([0, 0, 1, 1]), np.array(["a"], dtype=object)
    both, _ = make_traces(np.zeros(4, np.int64), names, time, lon, lat, trip=trip)
    alone, _ = make_traces(np.zeros(2, np.int64), names, time[2:], lon[2:], lat[2:], trip=trip[2:])
    assert both.lon[both.trip == 1].tolist() == alone.lon.tolist()
    assert both.starts.tolist() == [0, 2, 4]
