"""The default: what it learns, and how it falls back where there is little to learn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from sfumato.audits.streams import stream_rows
from sfumato.streams.facts import StreamFacts, due
from sfumato.streams.registry import default_name, stream_scheme
from sfumato.streams.replay import run_scheme
from sfumato.streams.scheme import StreamScheme
from sfumato.streams.schemes.rhythm.gaussian_process import (
    Bands,
    Hours,
    Kernel,
    Times,
    factored,
    learned,
)
from sfumato.streams.schemes.rhythm.levels import log_density, median_counts, spatial_prior
from sfumato.streams.schemes.rhythm.scheme import samples
from sfumato.streams.schemes.rhythm.sums import LiveTotal

Facts = Callable[..., StreamFacts]
Counts = NDArray[np.int64]


def town(facts: StreamFacts, people: float, seed: int = 0) -> Counts:
    """Homes that empty by day and offices that fill, on a grid, with chance."""
    rng = np.random.default_rng(seed)
    level = rng.gamma(0.6, people / 0.6, facts.cells)
    office = rng.random(facts.cells) < 0.3
    hour = 2 * np.pi * facts.calendar.phase / facts.calendar.longest_day
    swing = np.where(office[None], -0.8, 0.4) * np.cos(hour)[:, None]
    return rng.poisson(level * (1 + swing)).astype(np.int64)


def error(
    scheme: StreamScheme, facts: StreamFacts, counts: Counts, last: int = 0, draws: int = 1
) -> float:
    made = [run_scheme(scheme, facts, counts, seed).median for seed in range(1, draws + 1)]
    return float(np.mean([np.abs(one[-last:] - counts[-last:]).mean() for one in made]))


def test_rhythms_are_learned(facts: Facts) -> None:
    """On the second weekend and after, errors are far below those of the baselines."""
    known = facts("user-day", days=12, cells=400, per_day=12, people=40_000, columns=20)
    counts, last = town(known, 100), 3 * 12
    ours = error(stream_scheme("rhythm"), known, counts, last)
    for name in ("mean", "sample", "direct", "zeros"):
        assert ours < error(stream_scheme(name), known, counts, last) / 1.5


@pytest.mark.parametrize("people", [0.02, 0.3, 2.0, 30.0])
def test_neither_nothing_nor_a_flat_answer_is_better(people: float, facts: Facts) -> None:
    """From nearly nobody to plenty, with surroundings that say nothing, and everybody new in
    every slot: the first two days may cost a little, so six together stay within 4 %."""
    known = facts(
        "user-day", days=6, cells=900, per_day=8, people=max(int(900 * people), 1), columns=30
    )
    counts = town(known, people, seed=3)
    ours = error(stream_scheme("rhythm"), known, counts, draws=3)
    assert ours <= 1.04 * error(stream_scheme("zeros"), known, counts)
    assert ours <= error(stream_scheme("mean"), known, counts, draws=3)


@pytest.mark.parametrize("people", [0.3, 30.0])
def test_a_finished_day(people: float, facts: Facts) -> None:
    known = facts(
        "user-period", days=1, cells=900, per_day=12, people=int(900 * people), columns=30
    )
    counts = town(known, people, seed=4)
    ours = error(stream_scheme("profile"), known, counts)
    assert ours <= 1.02 * error(stream_scheme("zeros"), known, counts)
    assert ours < error(stream_scheme("mean"), known, counts)


def test_a_profile_with_hardly_any_noise_is_the_mean_of_each_part(facts: Facts) -> None:
    known = facts("user-period", epsilon=5000.0, days=1, people=10**6)
    counts = np.random.default_rng(3).integers(20, 200, (known.slots, known.cells))
    assert np.abs(run_scheme(stream_scheme("profile"), known, counts, 1).median - counts).max() <= 1


def test_the_default_follows_from_public_facts(facts: Facts) -> None:
    assert default_name(facts("user-period", days=9), finished=True) == "smoother"
    assert default_name(facts("user-day", days=2, people=23), finished=True) == "profile"
    assert default_name(facts("user-day", days=9), finished=True) == "smoother"
    assert default_name(facts("user-day", days=9, people=23), finished=True) == "rhythm"
    assert default_name(facts("event", days=9), finished=True) == "comb"
    assert default_name(facts("user-day", days=2), finished=False) == "comb"
    assert default_name(facts("user-day", people=23), finished=False) == "rhythm"
    assert default_name(facts("user-day", people=None), finished=False) == "rhythm"


def test_snapshots_grow_with_the_signal_and_visit_every_hour(facts: Facts) -> None:
    per_cell = [0.1, 16, 100, 3000]
    chosen = [samples(facts(people=int(n * 12))) for n in per_cell]
    assert chosen == [1, 3, 7, 8]
    known = facts("user-day", days=8)
    visited = {int(known.calendar.phase[s]) for s in range(known.slots) if due(known, s, 1)}
    assert visited == set(range(8))


def test_the_covariance_of_hours_is_found() -> None:
    """Cells with one shared rhythm, far from stationary: the first hours are like the last."""
    rng = np.random.default_rng(0)
    shape = np.array([1.0, 0.9, -0.2, -1.0, -1.1, -0.9, 0.3, 1.1])
    day, phase = np.divmod(np.arange(48), 8)
    times = Times(day, phase, np.zeros(48, dtype=bool), 8)
    cells = shape[phase][:, None] * rng.normal(0, 2, 500) + rng.normal(0, 1, (48, 500))
    moments = cells @ cells.T / 500
    found, before = None, None
    for _ in range(30):
        found = learned(Hours(8), Kernel(1, 1, 1, 0.01, 0.1), times, moments, 1.0, before)
        before = found.covariance
    assert found is not None
    expected = 4 * np.outer(shape, shape)
    assert np.abs(found.covariance[:8, :8] - expected).max() < 0.6


@pytest.mark.parametrize("draws", [1, 2, 5])
def test_the_law_of_a_mean_of_laplace_noise(draws: int) -> None:
    x = np.linspace(-60, 60, 24_001)
    variance = 2 * 3.0**2 / draws
    density = np.exp(log_density(x, variance, draws, laplace=True))
    assert np.trapezoid(density, x) == pytest.approx(1, abs=2e-3)
    assert np.trapezoid(density * x**2, x) == pytest.approx(variance, rel=2e-2)


def test_medians_of_counts() -> None:
    from scipy.stats import nbinom, poisson

    means = np.array([0.1, 0.6, 0.8, 1.5, 3.0, 12.0, 80.0])
    assert median_counts(means, np.zeros(7)).tolist() == poisson.median(means).tolist()
    spread = 0.4 * means**2
    exact = nbinom.median(means**2 / spread, means / (means + spread))
    assert np.abs(median_counts(means, spread) - exact).max() <= 1


@settings(deadline=None, max_examples=25)
@given(arrays.arrays(np.float64, 20, elements=st.floats(-50, 1e4)))
def test_surroundings_are_levels(mean: NDArray[np.float64]) -> None:
    found = spatial_prior(mean, 5)
    assert (found >= 0).all()
    assert np.isfinite(found).all()


def test_noise_says_nothing_of_its_neighbours() -> None:
    rng = np.random.default_rng(6)
    noise = 5 + rng.normal(0, 1, 900)
    assert np.ptp(spatial_prior(noise, 30)) < 1
    field = np.add.outer(np.arange(30.0), np.arange(30.0)).ravel()
    assert np.abs(spatial_prior(field + rng.normal(0, 1, 900), 30) - field).mean() < 2


def test_bands_give_every_cell_its_own() -> None:
    level = np.array([0.1, 5.0, 1.0, 5.2])
    apart = np.arange(8.0).reshape(2, 4)
    bands = Bands(level, apart)
    share = np.column_stack((bands.levels, np.zeros(bands.levels.size)))
    assert bands.combined(share) == pytest.approx(apart[0] * bands.of_each(bands.levels))


def test_a_covariance_that_rounding_made_indefinite_is_still_used() -> None:
    """Counts of millions beside noise of one: the last digits are gone."""
    rng = np.random.default_rng(9)
    shape = rng.normal(0, 1e3, (6, 2))
    rounded = shape @ shape.T - 1e-4 * np.eye(6)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(rounded)
    factor, lower = factored(rounded)
    again = np.tril(factor) @ np.tril(factor).T
    assert lower
    assert np.abs(again - rounded).max() < 1e-6 * np.diag(rounded).mean()


def test_a_feed_that_begins_later_in_its_first_day_is_not_learned_from_before(facts: Facts) -> None:
    known = facts("user-day", days=4, cells=400, per_day=12, people=4_000, columns=20)
    counts = town(known, 10)
    late = counts.copy()
    late[:7] = 0
    scheme, last = stream_scheme("rhythm"), 2 * 12
    assert error(scheme, known, late, last) < 1.1 * error(scheme, known, counts, last)


@pytest.mark.privacy
@pytest.mark.parametrize("unit", ["user-day", "w-event:5"])
def test_a_feed_that_is_said_to_begin_at_noon_is_measured_from_noon_on(
    unit: str, facts: Facts
) -> None:
    known = replace(facts(unit, days=3, cells=4, per_day=12, people=60, columns=2), begins=6)
    for k in (1, 3):
        measured = [slot for slot in range(36) if due(known, slot, k)]
        assert measured[0] == 6
        assert (
            max(sum(first <= s < first + known.window for s in measured) for first in (0, 12)) <= k
        )
    loss, *others = stream_rows(stream_scheme("rhythm"), known, seed=7)
    assert not [row for row in others if row.violated]
    assert loss.measured <= loss.claim.value * (1 + 1e-9)


def test_snapshots_of_a_feed_that_had_not_begun_are_forgotten(facts: Facts) -> None:
    """Noise hides at first that nobody was there; the sums of the days after tell."""
    known = facts("user-day", days=4, cells=400, per_day=12, people=600, columns=20)
    total = LiveTotal(known, 64)
    assert total.learn(0, 40.0, 150.0**2).tolist() == [True]
    assert total.at(3).upper > 400  # it may yet begin
    total.learn(16, 480.0, 150.0**2)
    assert total.learn(32, 520.0, 150.0**2).tolist() in ([False, True, True], [True, True])
    assert total.at(33).value > 400
    said = LiveTotal(replace(known, begins=1), 64)
    for slot, found in ((1, 40.0), (16, 480.0), (32, 520.0)):
        assert said.learn(slot, found, 150.0**2).all()
