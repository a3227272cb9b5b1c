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
    BOX,
    GRID,
    METHODS,
    facts_of,
    hostile_trips,
    measured,
    people_of,
    towns_trips,
    traces_of,
)

from sfumato.audits.transcript import joint_share, same_measurements, shifts
from sfumato.io.traces import read_traces
from sfumato.model.traces import make_traces
from sfumato.privacy.accounting import guarantee
from sfumato.synthesis.folder import Writer
from sfumato.synthesis.method import people_stream
from sfumato.synthesis.registry import method_named
from sfumato.synthesis.trips.blocks import KINDS, UNITS, Block, Layout, Paths
from sfumato.synthesis.trips.fit import ANCHORS, shares_at
from sfumato.synthesis.trips.trajectories import lengths_km, timed_trips

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


def test_the_clock_of_a_trip_hangs_on_that_trip_alone() -> None:
    """Bit for bit: a running sum over all trips would round a length by what lies before it."""
    rng = np.random.default_rng(9)
    edge = np.array([2.3, 2.3 + 0.05 / 21.9])  # a walk of about the end of a class of speed
    calm = [(edge + rng.normal(0, 1e-9), np.full(2, 48.9)) for _ in range(300)]
    zigzag = (np.where(np.arange(501) % 2, 2.21, 2.49), np.full(501, 48.85))
    trips = [zigzag, *towns_trips(40), *calm]
    together = timed_trips(traces_of(trips), BOX, GRID.period[0])
    lengths = lengths_km(together.paths, BOX)
    for k, trip in enumerate(trips):
        alone = timed_trips(traces_of([trip]), BOX, GRID.period[0])
        assert lengths_km(alone.paths, BOX)[0] == lengths[k]
        assert alone.clock[0] % 9 == together.clock[k] % 9  # the hour hangs on when it is


def test_trips_of_a_file_are_no_unit(tmp_path: Path) -> None:
    """Pauses cut trips, whatever the file says; and emptied ones make no others fall together."""
    point = '<trkpt lat="48.{0}" lon="2.{0}"><time>2024-03-04T{1:02d}:00:0{2}Z</time></trkpt>'

    def segment(hour: int, first: int = 0) -> str:
        return (
            "<trkseg>"
            + "".join(point.format(86 + k, hour, k) for k in range(first, 3))
            + ("</trkseg>")
        )

    def gpx(name: str, *segments: str) -> None:
        (tmp_path / name).mkdir(exist_ok=True)
        body = f"<gpx><trk>{''.join(segments)}</trk></gpx>"
        (tmp_path / name / "u.gpx").write_text(body)

    gpx("a", segment(8), segment(9))
    gpx("b", segment(10))
    whole, _ = read_traces(tmp_path)
    gpx("a", segment(8, 3), segment(9))
    fewer, _ = read_traces(tmp_path)
    assert np.diff(whole.starts).tolist() == [3, 3, 3]
    assert np.diff(fewer.starts).tolist() == [3, 3]
    cut, _ = read_traces(tmp_path, own_trips=False)
    assert np.diff(cut.starts).tolist() == [3, 3]
    gpx("a", segment(8), segment(8))
    one, _ = read_traces(tmp_path, own_trips=False)
    assert np.diff(one.starts).tolist() == [3, 3]  # the same instants, twice: one trip
