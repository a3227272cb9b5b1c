"""Training by noisy gradients: coins, clipping, noise and charge, on neighbouring data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from sfumato.errors import BudgetRefused, UsageError
from sfumato.model.private import Private
from sfumato.privacy.accounting import (
    Method,
    event_epsilon,
    event_rho,
    gaussian_delta,
    guarantee,
    sampled_epsilon,
    sampled_sigma,
)
from sfumato.privacy.events import (
    ApproximateEvent,
    GaussianEvent,
    PureEvent,
    Tab,
    event_from_json,
    event_to_json,
)
from sfumato.privacy.ledger import Cap
from sfumato.privacy.ledger.limits import Room
from sfumato.privacy.ledger.nesting import scaled
from sfumato.privacy.ledger.totals import Totals, compose, fits_caps
from sfumato.privacy.mechanisms.training import UNITS, Run, clipped_sum, joined, train
from sfumato.privacy.noise import SeededStream
from sfumato.privacy.wall import Wall

pytestmark = pytest.mark.privacy
RUN = Run(chance=0.25, steps=3, sigma=2.0, expected=40, delta=1e-6)


@dataclass
class Means:
    """The gradient of a row is what the row says: a stand-in for a network."""

    size: int = 3
    seen: Any = None

    def rows(self, data: Any) -> int:
        return len(data)

    def gradients(self, data: Any, rows: Any, at: Any) -> Any:
        del at
        return data[rows]

    def begin(self) -> Any:
        self.seen = []
        return np.zeros(self.size)

    def descend(self, at: Any, gradient: Any, step: int) -> Any:
        del step
        self.seen.append(gradient)
        return at + gradient


def test_a_row_is_clipped_as_a_whole_and_cut_towards_zero() -> None:
    """Whatever a row holds, it adds a vector of length at most one; hostile rows too."""
    rng = np.random.default_rng(1)
    large = rng.normal(0, 100, (1, 50))
    small = rng.normal(0, 1e-3, (1, 50))
    for gradient in (large, small, np.full((1, 50), 1e300), -large, np.full((1, 50), 1e-300)):
        total = np.zeros(50, np.int64)
        clipped_sum(gradient, UNITS, total)
        length = sum(int(v) ** 2 for v in total)
        assert length <= UNITS**2
        if 1 < np.abs(gradient).max() < 1e3:
            assert length > UNITS**2 * (1 - 1e-5)
    for spoiled in (math.nan, math.inf, -math.inf):
        total = np.zeros(2, np.int64)
        clipped_sum(np.array([[spoiled, 1.0]]), UNITS, total)
        assert total.tolist() == [0, 0]
    total = np.zeros(1, np.int64)
    clipped_sum(np.array([[1.0], [-1.0], [0.3]]), UNITS, total)
    assert 0.29 * UNITS < total[0] < 0.3 * UNITS


def test_a_neighbour_moves_each_sum_by_at_most_one_length() -> None:
    """The same coins for everybody else: sums differ by the one row, where its coin let it join."""
    rng = np.random.default_rng(2)
    data = rng.normal(0, 5, (30, 3))
    sums = []
    for rows in (data, data[:-1]):
        learner = Means()
        train(
            Private(rows, "rows"),
            learner,
            run=replace(RUN, steps=20),
            label="x",
            stream=SeededStream(3),
            charger=Tab(),
        )
        sums.append(np.stack(learner.seen) * RUN.chance * RUN.expected)
    # The noise of both is the same, so the difference is the row's own part.
    moved = np.linalg.norm(sums[0] - sums[1], axis=1)
    assert moved.max() <= 1 + 1e-9
    assert (moved == 0).any()
    assert (moved > 0.99).any()  # its gradient is longer than one
    coins = [29 in joined(SeededStream(3), step, 30, RUN.chance) for step in range(20)]
    assert (moved > 0).tolist() == coins


def test_coins_are_fair_fresh_and_of_the_release_key() -> None:
    steps = [joined(SeededStream(7), step, 4000, 0.25) for step in range(5)]
    sizes = np.array([step.size for step in steps])
    assert np.abs(sizes - 1000).max() < 5 * math.sqrt(750)
    both = np.intersect1d(steps[0], steps[1]).size
    assert abs(both - 250) < 5 * math.sqrt(250)
    assert joined(SeededStream(7), 0, 4000, 0.25).tolist() == steps[0].tolist()
    assert joined(SeededStream(8), 0, 4000, 0.25).tolist() != steps[0].tolist()


def test_the_number_of_rows_is_never_divided_by() -> None:
    """Nobody there: noise over the expected number, of the planned deviation."""
    learner = Means(size=400)
    nobody = Private(np.empty((0, 400)), "rows")
    train(nobody, learner, run=RUN, label="x", stream=SeededStream(1), charger=Tab())
    noise = np.concatenate(learner.seen) * RUN.chance * RUN.expected
    assert noise.std() == pytest.approx(RUN.sigma, rel=0.1)


def test_the_run_is_charged_first_and_once() -> None:
    class Refusing:
        def charge(self, label: str, event: Any) -> None:
            raise BudgetRefused(f"no {label}: {event}")

    learner = Means()
    box = Private(np.ones((5, 3)), "rows")
    with pytest.raises(BudgetRefused):
        train(box, learner, run=RUN, label="x", stream=SeededStream(1), charger=Refusing())
    assert learner.seen is None
    tab = Tab()
    wall = Wall.seeded(1, tab)
    wall.train(box, learner, run=RUN, label="x")
    assert list(tab.charged) == ["x"]
    assert tab.charged["x"] == RUN.event(3)
    with pytest.raises(UsageError, match="already taken"):
        wall.train(box, learner, run=RUN, label="x")


def test_the_epsilon_of_a_run_against_known_ones() -> None:
    """Nearly all join: the exact Gaussian curve. Few join: far less, and more with every step."""
    found = sampled_epsilon(1 - 1e-9, 5.0, 1, 1e-6, cells=1, units=UNITS)
    assert gaussian_delta(1 / 5.0, found) <= 1e-6 * (1 + 1e-3)
    assert gaussian_delta(1 / 5.0, found * 0.97) > 1e-6
    four = sampled_epsilon(1 - 1e-9, 10.0, 4, 1e-6, cells=1, units=UNITS)
    assert four == pytest.approx(found, rel=0.03)  # four steps of half as much
    rare = sampled_epsilon(0.01, 5.0, 1, 1e-6, cells=1, units=UNITS)
    assert rare < found / 20
    assert sampled_epsilon(0.01, 5.0, 100, 1e-6, cells=1, units=UNITS) > 5 * rare
    # Abadi et al. (2016), their example: chance .01, noise 4, 10,000 steps, delta 1e-5: 1.26.
    assert sampled_epsilon(0.01, 4.0, 10_000, 1e-5, cells=1, units=UNITS) < 1.26
    # A coarse lattice pays for the variation, and a very coarse one cannot.
    assert sampled_epsilon(0.01, 4.0, 100, 1e-5, cells=9, units=1) == math.inf
    sigma = sampled_sigma(0.05, 200, 1.0, 1e-6, cells=4000, units=UNITS)
    kept = sampled_epsilon(0.05, sigma, 200, 1e-6, cells=4000, units=UNITS)
    assert 0.97 < kept <= 1.0


def test_a_run_is_taken_off_the_budget_before_the_rest() -> None:
    run = ApproximateEvent(0.5, 4e-7, "a run")
    gaussian = GaussianEvent(1.0, 400, 1)
    assert event_from_json(event_to_json(run)) == run
    assert event_epsilon(run) is None
    with pytest.raises(UsageError, match="no rho"):
        event_rho(run)
    alone = guarantee([run], 1e-6)
    assert (alone.epsilon, alone.rho, alone.method) == (0.5, None, Method.APPROXIMATE)
    both = guarantee([run, gaussian], 1e-6)
    assert both.epsilon == pytest.approx(0.5 + guarantee([gaussian], 6e-7).epsilon)
    assert guarantee([run], 3e-7).epsilon == math.inf
    pure = guarantee([run, PureEvent(0.2, "x")], 4e-7)
    assert pure.epsilon == pytest.approx(0.7)


def test_runs_come_first_in_an_account() -> None:
    """After any other answer, to subtract a run would be no filter: it passes all caps."""
    run, gaussian = ApproximateEvent(0.5, 4e-7, "a run"), GaussianEvent(1.0, 400, 1)
    assert compose([run, gaussian], 1e-6, 2).epsilon < 2
    assert compose([gaussian, run], 1e-6, 2).epsilon == math.inf
    assert compose([gaussian, run], 1e-6, 1).epsilon < 2  # one plan, fixed beforehand
    assert compose([run, run], 1e-6, 2).epsilon == 1.0
    cap = Cap(epsilon=3.0, delta=1e-6)
    assert fits_caps([run, gaussian], [cap])
    assert not fits_caps([gaussian, run], [cap])
    assert not fits_caps([run], [Cap(rho=5.0)])
    assert Totals.of([run], 1).plus([gaussian], 1).fits(cap)
    assert not Totals.of([gaussian], 1).plus([run], 1).fits(cap)
    assert Totals.of([run, gaussian], 2).spend(1e-6) == compose([run, gaussian], 1e-6, 2)
    assert Room.flat([], [cap]).fits([run])
    assert not Room.flat([run, run], [Cap(epsilon=3.0, delta=9e-7)]).fits([run])


def test_a_run_counts_for_parts_of_a_record_by_group_privacy() -> None:
    run = ApproximateEvent(0.5, 1e-7, "a run")
    twice = scaled(run, 2)
    assert isinstance(twice, ApproximateEvent)
    assert twice.epsilon == pytest.approx(1.0)
    assert twice.delta >= 1e-7 * (1 + math.exp(0.5))


@pytest.mark.parametrize(("chance", "steps"), [(0.0, 1), (1.0, 1), (0.5, 0)])
def test_a_run_without_sense_is_refused(chance: float, steps: int) -> None:
    with pytest.raises(UsageError):
        Run(chance, steps, 1.0, 10, 1e-6)
