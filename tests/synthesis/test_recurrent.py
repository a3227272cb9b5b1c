"""The recurrent generator: its gradients, its claim, and what it makes up."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.errors import BudgetRefused
from sfumato.model.private import Private
from sfumato.model.traces import Box, Traces
from sfumato.privacy.events import USER_PERIOD, GaussianEvent
from sfumato.privacy.ledger import Cap, Claim, Ledger
from sfumato.privacy.mechanisms import training
from sfumato.privacy.mechanisms.training import UNITS, Run
from sfumato.privacy.wall import Wall
from sfumato.synthesis.trips import recurrent
from sfumato.synthesis.trips.recurrent import Network, Sequences, sequences
from sfumato.utility.copying import advantage_bound, newcombe

BOX = Box(2.2, 48.7, 2.5, 49.0)


def some(trips: list[list[int]], people: list[int], clock: int = 3) -> Sequences:
    """Trips as cells; how many trips each person has."""
    begins = np.concatenate([[0], np.cumsum([len(trip) for trip in trips])])
    starts = np.concatenate([[0], np.cumsum(people)])
    cells = np.array([cell for trip in trips for cell in trip])
    return Sequences(starts, begins, cells, np.full(len(trips), clock))


def log_loss(net: Network, data: Sequences, at: np.ndarray) -> float:
    """Minus the log likelihood, written once more and plainly."""
    start, times, W, M, U, V, bias = net.parts(at)
    h, total = net.hidden, 0.0

    def log_softmax(v: np.ndarray) -> np.ndarray:
        return v - v.max() - np.log(np.exp(v - v.max()).sum())

    for trip in range(data.begins.size - 1):
        cells = data.cells[data.begins[trip] : data.begins[trip + 1]]
        total -= log_softmax(start)[cells[0]] + log_softmax(times)[data.clock[trip]]
        state, move = np.zeros(h), 8
        for k, cell in enumerate(cells):
            f, u = W @ net.feature[cell] + M[:, move], U @ state
            z, r = (1 / (1 + np.exp(-(f[a : a + h] + u[a : a + h]))) for a in (0, h))
            state = (1 - z) * np.tanh(f[2 * h :] + r * u[2 * h :]) + z * state
            logits = V @ state + bias
            logits[:8][net.after[cell] < 0] = -1e30
            last = k + 1 == len(cells)
            move = 8 if last else int(np.flatnonzero(net.after[cell] == cells[k + 1])[0])
            total -= log_softmax(logits)[move]
    return total


@pytest.mark.privacy
def test_gradients_are_those_of_the_loss_and_a_persons_trips_add_up() -> None:
    net = Network(4, hidden=3)
    data = some([[0, 1, 6, 11], [5], [15, 10, 9, 8, 4, 0]], [2, 1])
    rng = np.random.default_rng(1)
    at = net.begin() + rng.normal(0, 0.3, net.size)
    found = net.gradients(data, np.arange(2), at)
    for k in rng.choice(net.size, 40, replace=False):
        up, down = at.copy(), at.copy()
        up[k] += 1e-5
        down[k] -= 1e-5
        slope = (log_loss(net, data, up) - log_loss(net, data, down)) / 2e-5
        assert found[:, k].sum() == pytest.approx(slope, abs=1e-6)
    alone = some([[0, 1, 6, 11], [5], [15, 10, 9, 8, 4, 0]], [1, 1, 1])
    apart = net.gradients(alone, np.arange(3), at)
    assert np.allclose(found[0], apart[0] + apart[1])
    assert np.allclose(found[1], apart[2])
    assert np.allclose(net.gradients(data, np.array([1]), at)[0], found[1])


def walks(people: int, trips: int, seed: int) -> Traces:
    rng = np.random.default_rng(seed)
    n = people * trips * 5
    lon = 2.35 + np.cumsum(rng.normal(0, 0.01, (people * trips, 5)), axis=1).ravel()
    lat = 48.85 + np.cumsum(rng.normal(0, 0.01, (people * trips, 5)), axis=1).ravel()
    minute = np.tile(np.arange(5), people * trips) + np.repeat(np.arange(people * trips), 5) * 60
    user = np.repeat(np.arange(people), trips * 5)
    trip = np.repeat(np.arange(people * trips), 5)
    names = np.array([f"u{k}" for k in range(people)], object)
    time = 1_189_382_400_000_000 + minute * 60_000_000
    return Traces(names, user, trip, time, lon, lat, np.arange(n))


@pytest.mark.privacy
def test_a_persons_sequences_hang_on_that_person_alone() -> None:
    traces = walks(6, 4, 1)
    whole = sequences(traces, BOX, 0, 12, 3)
    assert np.diff(whole.trips).tolist() == [3] * 6  # the first three of four
    without = sequences(traces.pick(traces.user != 2), BOX, 0, 12, 3)
    kept = [person for person in range(6) if person != 2]

    def of(data: Sequences, person: int) -> list[list[int]]:
        trips = range(data.trips[person], data.trips[person + 1])
        return [data.cells[data.begins[t] : data.begins[t + 1]].tolist() for t in trips]

    assert [of(whole, person) for person in kept] == [of(without, k) for k in range(5)]
    nobody = sequences(traces.pick(traces.user > 9), BOX, 0, 12, 3)
    assert Network(12).rows(nobody) == 0


def played(runs: int, clip: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, float]:
    """An adversary who knows all others and the first gradient: with or without one person."""
    if not clip:

        def unclipped(gradients: np.ndarray, units: int, total: np.ndarray) -> None:
            total += (gradients * units).astype(np.int64).sum(axis=0)

        monkeypatch.setattr(training, "clipped_sum", unclipped)
    walk = [[0, 1, 6, 11, 15, 14, 9]]
    others = [[5, 6], [10, 9, 8], [3, 2, 1]]
    with_one = some([*others, *walk * 12], [1, 1, 1, 12])
    without = some(others, [1, 1, 1])
    net = Network(4, hidden=3, steps=2)
    run = Run(0.9, 2, 4.0, 4, 1e-4)
    epsilon = run.event(net.size).epsilon
    towards = net.gradients(with_one, np.array([3]), net.begin())[0]
    monkeypatch.setattr(Network, "descend", lambda _, at, gradient, step: at - gradient)  # noqa: ARG005
    scores = np.empty((2, runs))
    for side, data in enumerate((with_one, without)):
        for k in range(runs):
            wall = Wall.seeded(10_000 * side + k)
            found = wall.train(Private(data, "trips"), net, run=run, label="x")
            scores[side, k] = -(found - net.begin()) @ towards
    limit = np.median(np.concatenate([scores[0, ::2], scores[1, ::2]]))
    hits = [int((some[1::2] > limit).sum()) for some in scores]
    return newcombe(hits[0], runs // 2, hits[1], runs // 2), advantage_bound(epsilon, run.delta)


@pytest.mark.privacy
def test_one_person_is_hidden_in_the_finished_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person of twelve alike trips among three others; unclipped, the same audit finds it out."""
    found, bound = played(120, True, monkeypatch)
    assert found.low <= bound < 0.8
    broken, bound = played(120, False, monkeypatch)
    assert broken.low > bound


def events_of(traces: Traces) -> pa.Table:
    return pa.table(
        {
            "user_id": pa.array(traces.user),
            "timestamp": pa.array(traces.time, pa.timestamp("us", tz="UTC")),
            "lon": traces.lon,
            "lat": traces.lat,
        }
    )


@pytest.mark.privacy
def test_people_are_made_up_charged_first_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrent, "STEPS", 20)
    book = Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    for name in ("walkers", "others"):
        book.add_dataset(name, Cap(epsilon=5, delta=1e-3))
    asked: dict[str, Any] = {
        "method": "recurrent",
        "region": "2.2,48.7,2.5,49.0",
        "start": "2007-09-10",
        "end": "2007-09-24",
        "tz": "UTC",
        "expected_users": 100,
        "anyway": True,
        "epsilon": 2,
        "delta": 1e-4,
        "ledger": book,
    }
    true = events_of(walks(100, 2, 1))
    made = sfumato.synth(true, dataset="walkers", out=tmp_path / "made", **asked)
    claim = made.manifest.privacy
    assert claim.method == "approximate"
    assert 1.9 < claim.epsilon <= 2
    assert claim.rho is None
    assert claim.unit == "user-period"
    assert "DP-SGD" in claim.measurements[0].event["mechanism"]
    rows = pq.read_table(tmp_path / "made" / "events.parquet")
    assert np.unique(rows["user_id"].to_numpy()).size == 100
    assert BOX.inside(rows["lon"].to_numpy(), rows["lat"].to_numpy()).all()
    found = sfumato.evaluate(made, true, tz="UTC")
    assert 0 <= found.evaluations[0].overall["density_jsd"] <= 1
    # Anything else fits beside it; a second network after that does not.
    gaussian = (("x", GaussianEvent(1.0, Fraction(400), 1)),)
    period = (1_189_382_400_000_000, 1_189_468_800_000_000)
    book.reserve(Claim("walkers", "counts", USER_PERIOD, 1e-4, period, gaussian, {}, "", ""))
    with pytest.raises(BudgetRefused, match="before anything else"):
        sfumato.synth(true, dataset="walkers", out=tmp_path / "again", **asked)


def test_noise_is_planned_from_public_facts() -> None:
    run = Run(recurrent.CHANCE, recurrent.STEPS, 2.0, 100, 1e-6)
    assert math.isqrt(int(run.sigma2)) == pytest.approx(2 * UNITS, rel=1e-9)
    assert replace(run, expected=7).event(10) == run.event(10)  # nobody's number is paid for
