"""The update by FFT is the update by matrix, only faster."""

from __future__ import annotations

import time

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.privacy.noise import SeededStream
from sfumato.privacy.noise.planar import Strength, planar_laplace
from sfumato.traces.cells import HOTSPOT_SIDE_M, Cells, noise_kernel
from sfumato.utility.hotspots import top_k_score
from sfumato.utility.ibu import Channel, Observation, iterative_bayesian_update, margin_for, origins

SMALL = Cells(116.3, 39.9, 20, 17, HOTSPOT_SIDE_M, 39.9)


def dense(cells: Cells, strength: Strength, margin: int) -> np.ndarray:
    """The channel as a matrix: inner cells x outer cells, rows divided by their sum."""
    reach = (cells.rows - 1 + margin, cells.columns - 1 + margin)
    kernel = noise_kernel(cells, strength.per_metre, reach)
    rows, columns = cells.rows + 2 * margin, cells.columns + 2 * margin
    y, x = np.divmod(np.arange(cells.size), cells.columns)
    v, u = np.divmod(np.arange(rows * columns), columns)
    matrix = kernel[
        (v - margin)[None, :] - y[:, None] + reach[0], (u - margin)[None, :] - x[:, None] + reach[1]
    ]
    return matrix / matrix.sum(axis=1, keepdims=True)


def matrix_em(matrix: np.ndarray, q: np.ndarray, steps: int) -> np.ndarray:
    p = np.full(matrix.shape[0], 1 / matrix.shape[0])
    for _ in range(steps):
        p = p * (matrix @ np.where(q > 0, q / (p @ matrix), 0.0))
    return p


@pytest.mark.parametrize("margin", [0, 6])
def test_equals_the_dense_update(margin: int) -> None:
    """With reports outside dropped (margin 0) and with a margin, to 1e-12."""
    strength = Strength.from_noise(250.0)
    rng = np.random.default_rng(1)
    channel = Channel.planar_laplace(SMALL, strength, margin)
    counts = rng.poisson(3.0, channel.convolution.outer).astype(float)
    counts[rng.random(counts.shape) < 0.3] = 0
    found = iterative_bayesian_update(Observation(channel, counts), steps=30, stop_below=0)
    expected = matrix_em(dense(SMALL, strength, margin), counts.ravel() / counts.sum(), 30)
    assert np.abs(found.p.ravel() - expected).max() < 1e-12
    assert found.p.sum() == pytest.approx(1.0, abs=1e-12)


def test_likelihood_never_falls_and_the_stop_rule_stops() -> None:
    channel = Channel.planar_laplace(SMALL, Strength.from_noise(150.0), 4)
    counts = np.random.default_rng(2).poisson(5.0, channel.convolution.outer).astype(float)
    seen: list[int] = []
    for fast in (False, True):
        found = iterative_bayesian_update(
            Observation(channel, counts),
            steps=300,
            accelerate=fast,
            tick=lambda step, _: seen.append(step),
        )
        assert (np.diff(found.log_likelihood) >= -1e-12).all()
    assert seen[:3] == [1, 2, 3]
    stopped = iterative_bayesian_update(Observation(channel, counts), steps=300, stop_below=0.05)
    assert stopped.stopped
    assert stopped.steps < 300
    assert stopped.last_change < 0.05


def street_map(cells: Cells, points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points along a few streets and one busy corner."""
    rng = np.random.default_rng(seed)
    wide, high = cells.columns * cells.side_m, cells.rows * cells.side_m
    x, y = rng.uniform(0, wide, points), rng.uniform(0, high, points)
    street = rng.integers(0, 12, points)
    x = np.where(street < 5, wide * (street + 1) / 7, x)
    y = np.where((street >= 5) & (street < 10), high * (street - 4) / 7, y)
    x = np.where(street >= 10, wide * 0.3 + rng.normal(0, 150, points), x)
    y = np.where(street >= 10, high * 0.7 + rng.normal(0, 150, points), y)
    return cells.degrees(np.clip(x, 1, wide - 1), np.clip(y, 1, high - 1))


def test_acceleration_needs_a_third_of_the_steps() -> None:
    cells = Cells(116.3, 39.9, 60, 60, HOTSPOT_SIDE_M, 39.9)
    strength = Strength.from_noise(250.0)
    noisy = planar_laplace(*street_map(cells, 100_000, 3), strength, SeededStream(4))
    channel = Channel.planar_laplace(cells, strength, 8)
    seen = Observation(channel, cells.count(*noisy, margin=8))
    plain = iterative_bayesian_update(seen, steps=300, stop_below=0)
    fast = iterative_bayesian_update(seen, steps=100, stop_below=0, accelerate=True)
    goal = plain.log_likelihood[-1]
    rounds = int(np.argmax(np.array(fast.log_likelihood) >= goal))
    assert fast.log_likelihood[-1] >= goal
    assert 3 * rounds * 3 <= 300


def test_better_hot_spots_than_without() -> None:
    cells = Cells(116.3, 39.9, 80, 80, HOTSPOT_SIDE_M, 39.9)
    true = street_map(cells, 150_000, 5)
    clean = cells.count(*true)
    for noise in (250.0, 1000.0):
        strength = Strength.from_noise(noise)
        noisy = planar_laplace(*true, strength, SeededStream(int(noise)))
        margin = margin_for(cells, strength)
        channel = Channel.planar_laplace(cells, strength, margin)
        seen = Observation(channel, cells.count(*noisy, margin=margin))
        found = iterative_bayesian_update(seen, steps=50)
        before = top_k_score(clean, cells.count(*noisy)).traffic
        assert top_k_score(clean, found.p).traffic > before + 0.02


def test_dropped_reports_are_divided_out() -> None:
    """From exact shares with outside dropped, `origins` finds the distribution of all origins."""
    strength = Strength.from_noise(120.0)
    cells = Cells(116.3, 39.9, 7, 7, 200.0, 39.9)
    channel = Channel.planar_laplace(cells, strength, 0)
    truth = np.zeros((7, 7))
    truth[0, 0], truth[3, 3] = 0.5, 0.5
    shares = channel.convolution.forward(truth)  # a corner loses three quarters of its reports
    found = iterative_bayesian_update(
        Observation(channel, shares), steps=600, stop_below=0, accelerate=True
    )
    assert np.abs(found.p - truth).max() > 0.05
    assert np.abs(origins(found, channel) - truth).max() < 0.01


def test_mixed_mechanisms_share_one_map() -> None:
    """Reports at 100 m and at 500 m together say more than either alone."""
    cells = Cells(116.3, 39.9, 40, 40, HOTSPOT_SIDE_M, 39.9)
    true = street_map(cells, 40_000, 6)
    clean = cells.count(*true) / 40_000
    groups = []
    for k, noise in enumerate((100.0, 500.0)):
        strength = Strength.from_noise(noise)
        half = slice(k * 20_000, (k + 1) * 20_000)
        noisy = planar_laplace(true[0][half], true[1][half], strength, SeededStream(7 + k))
        margin = margin_for(cells, strength)
        channel = Channel.planar_laplace(cells, strength, margin)
        groups.append(Observation(channel, cells.count(*noisy, margin=margin)))
    both = iterative_bayesian_update(groups, steps=30)
    coarse = iterative_bayesian_update(groups[1], steps=30)
    assert np.abs(both.p - clean).sum() < np.abs(coarse.p - clean).sum()
    assert both.p.sum() == pytest.approx(1.0)


def test_sixty_thousand_cells_in_seconds() -> None:
    """62,230 cells x 50 steps within ten CPU-seconds; here ten steps, two seconds."""
    cells = Cells(116.25, 39.85, 254, 245, HOTSPOT_SIDE_M, 39.95)
    assert cells.size == 62_230
    assert pytest.approx(88.6227, abs=1e-4) == cells.side_m
    channel = Channel.planar_laplace(cells, Strength.from_noise(250.0), 10)
    counts = np.random.default_rng(8).poisson(2.0, channel.convolution.outer).astype(float)
    before = time.process_time()
    iterative_bayesian_update(Observation(channel, counts), steps=10, stop_below=0)
    assert time.process_time() - before < 2.0


def test_nothing_to_update_from() -> None:
    channel = Channel.planar_laplace(SMALL, Strength.from_noise(100.0), 0)
    with pytest.raises(UsageError):
        iterative_bayesian_update(Observation(channel, np.zeros((20, 17))))
    with pytest.raises(UsageError):
        Observation(channel, np.zeros((3, 3)))
