"""What each mechanism reports, and what it may cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.model.private import Private
from sfumato.model.sphere import great_circle
from sfumato.model.traces import MICROSECONDS, Box, Traces
from sfumato.privacy.mechanisms.planar import PredictedReports, Prediction
from sfumato.privacy.noise.planar import Strength
from sfumato.privacy.wall import Wall
from sfumato.traces import mechanisms
from sfumato.traces.bounds import first_of_each, first_windows, printed_windows, true_on_clock
from sfumato.traces.mechanisms import outside, simulated
from sfumato.traces.request import GaussianTraces, Outside, windows_between

pytestmark = pytest.mark.privacy

Walkers = Callable[..., Traces]
BEIJING = Box(116.0, 39.6, 116.8, 40.3)


def gaussian(traces: Traces, setting: GaussianTraces, seed: int) -> Traces:
    return mechanisms.gaussian(Private(traces, "walkers"), setting, Wall.seeded(seed)).traces


def predictive(traces: Traces, setting: Prediction, seed: int) -> PredictedReports:
    return Wall.seeded(seed).predictive(Private(traces, "walkers"), setting=setting, label="m")


def spent(reports: PredictedReports, setting: Prediction) -> np.ndarray:
    """Loss per metre of each user: tests and fresh reports that were really made."""
    user, kind = reports.traces.user, reports.kind
    fresh, easy = (np.bincount(user[kind == k], minlength=user.max() + 1) for k in (0, 1))
    tests = np.maximum(fresh + easy - 1, 0)
    return fresh * setting.report.per_metre + tests * setting.test.per_metre


def test_independent_noise_moves_every_fix(walkers: Walkers) -> None:
    true = walkers(people=5, fixes=400)
    noisy = simulated(true, Strength.from_noise(100.0), Wall.seeded(1), "m")
    apart = great_circle(true.lon, true.lat, noisy.lon, noisy.lat)
    assert apart.mean() == pytest.approx(100.0, rel=0.05)
    assert np.array_equal(noisy.time, true.time)


def test_first_of_each_is_by_time(walkers: Walkers) -> None:
    kept = first_of_each(walkers(people=3, fixes=10), 4)
    assert np.bincount(kept.user).tolist() == [4, 4, 4]
    assert kept.time.max() == walkers().time[3]


def test_printed_windows_count_from_the_first_fix(walkers: Walkers) -> None:
    true = walkers(people=2, fixes=20, every_s=30)
    first = printed_windows(true, 120)
    assert first[:9].tolist() == [0, 0, 0, 0, 4, 4, 4, 4, 8]
    assert first[20] == 20
    noisy = simulated(true, Strength.from_noise(100.0), Wall.seeded(2), "m", window_s=120)
    assert np.unique(noisy.lon[:4]).size == 1
    assert noisy.lon[3] != noisy.lon[4]
    assert len(first_windows(true, 120, 2)) == 2 * 8


def test_public_clock_reports_in_every_window(walkers: Walkers) -> None:
    true = walkers(people=2, fixes=20, every_s=30)
    start = int(true.time[0]) - 3600 * MICROSECONDS
    clock = windows_between(start, start + 3 * 3600 * MICROSECONDS, 300)
    whole = true_on_clock(true, clock, 300)
    assert len(whole) == 2 * clock.size == 72
    mine = whole.pick(whole.user == 0)
    # Before the first fix its place stands in; afterwards the last fix of the window so far.
    assert set(mine.lon[:12].tolist()) == {true.lon[0]}
    assert mine.lon[12] == true.lon[9]
    assert set(mine.lon[14:].tolist()) == {true.lon[19]}
    noisy = simulated(whole, Strength.from_noise(100.0), Wall.seeded(3), "m")
    assert np.unique(noisy.lon).size > 60  # fresh noise in every window


def test_rows_of_the_public_clock_do_not_depend_on_the_record(walkers: Walkers) -> None:
    """Whatever a user did, the output has the same users and instants."""
    clock = windows_between(0, 3600 * MICROSECONDS, 600)
    full = true_on_clock(walkers(people=2), clock, 600)
    sparse = true_on_clock(walkers(people=2, fixes=1), clock, 600)
    assert np.array_equal(full.user, sparse.user)
    assert np.array_equal(full.time, sparse.time)


def test_predictive_spends_less_and_never_more(walkers: Walkers) -> None:
    still = walkers(people=4, fixes=200)
    still = still.at(np.full(len(still), 116.3), np.full(len(still), 39.9))
    setting = Prediction(Strength.from_noise(200.0), Strength.from_noise(2000.0), 3000.0, 20, 150)
    made = predictive(still, setting, 4)
    assert (spent(made, setting) <= setting.per_metre * (1 + 1e-12)).all()
    # A user who stays is tested, not reported again: far below 200 fresh reports.
    assert (made.kind == 0).sum() < 4 * 30
    assert (made.kind[:1] == 0).all()
    assert (made.kind == 2).any()
    moving = predictive(walkers(people=1, fixes=300), setting, 5)
    assert (moving.kind == 0).sum() <= 20


def test_predictive_decisions_follow_published_reports(walkers: Walkers) -> None:
    """After the allowance is gone the last report is repeated."""
    setting = Prediction(Strength.from_noise(100.0), Strength.from_noise(100.0), 100.0, 2, 50)
    made = predictive(walkers(people=1, fixes=100), setting, 6)
    done = np.flatnonzero(made.kind == 2)
    assert np.unique(made.traces.lon[done]).size == 1


def test_gaussian_needs_less_noise_for_many_reports(walkers: Walkers) -> None:
    setting = GaussianTraces(BEIJING, 200.0, 36, 2.0, 1e-6)
    assert setting.expected_noise_m == pytest.approx(3355, rel=0.03)
    planar = Strength.from_level(2.0 / 36, 200.0)
    assert planar.expected_noise_m == pytest.approx(7200)
    true = walkers(people=40, fixes=36)
    noisy = gaussian(true, setting, 7)
    apart = great_circle(true.lon, true.lat, noisy.lon, noisy.lat)
    assert apart.mean() == pytest.approx(setting.expected_noise_m, rel=0.06)
    assert 1.0 <= setting.stretch < 1.001
    with pytest.raises(UsageError, match="more fixes"):
        gaussian(walkers(fixes=37), setting, 8)


def test_gaussian_moves_what_lies_outside_the_public_box_to_its_edge(walkers: Walkers) -> None:
    """How far the plane stretches distances is computed for the box, and holds nowhere else."""
    setting = GaussianTraces(BEIJING, radius_m=200.0, most_reports=36, epsilon=2.0, delta=1e-6)
    true = walkers(people=2, fixes=20)
    far = true.at(true.lon - 90.0, true.lat + 20.0)
    edge = true.at(*BEIJING.clamp(far.lon, far.lat))
    reports = [gaussian(each, setting, 7) for each in (far, edge)]
    assert np.array_equal(reports[0].lon, reports[1].lon)
    assert np.array_equal(reports[0].lat, reports[1].lat)


def test_gaussian_is_charged_for_what_it_can_move() -> None:
    event = GaussianTraces(BEIJING, 200.0, 4, 1.0, 1e-5).event
    assert event.l2 >= 2 * (20_000 + 2**0.5)
    assert event.touched == 8


def test_outside_policies(walkers: Walkers) -> None:
    reports = walkers(people=1, fixes=40)
    box = Box(116.3, 39.8, 116.32, 40.0)
    assert outside(Outside.KEEP, None, reports) is reports
    clamped = outside(Outside.CLAMP, box, reports)
    assert clamped.lon.max() == 116.32
    assert len(clamped) == 40
    assert (
        len(outside(Outside.DROP, box, reports)) == box.inside(reports.lon, reports.lat).sum() < 40
    )
    with pytest.raises(UsageError):
        outside(Outside.DROP, None, reports)
    with pytest.raises(UsageError):
        Box.parse("1,2,3")
    with pytest.raises(UsageError):
        Box(10.0, 0.0, 5.0, 1.0)
