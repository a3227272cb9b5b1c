"""The filter finds what is smooth, keeps what is strong, and drops what is noise."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.density.refine import spatial
from sfumato.density.refine.spatial import SpatialFilter

RNG = np.random.default_rng(8)
CENTRES = RNG.random((200, 2)) * 6000
SMOOTH = np.sin(CENTRES[:, 0] / 1500) * 3


def error(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.square(a - b).mean())


def test_pure_noise_becomes_almost_nothing() -> None:
    noise = np.random.default_rng(1).normal(0, 2, 200)
    assert error(SpatialFilter(CENTRES).apply(noise, 4.0).mean, np.zeros(200)) < 0.15 * 4


def test_a_smooth_field_gains_most() -> None:
    noisy = SMOOTH + np.random.default_rng(2).normal(0, 2, 200)
    found = SpatialFilter(CENTRES).apply(noisy, 4.0)
    assert error(found.mean, SMOOTH) < 0.3 * 4
    assert found.smooth_share > 0.5


def test_a_strong_field_without_neighbours_in_common_is_kept() -> None:
    rough = np.random.default_rng(3).normal(0, 20, 200)
    noisy = rough + np.random.default_rng(4).normal(0, 1, 200)
    found = SpatialFilter(CENTRES).apply(noisy, 1.0)
    assert error(found.mean, rough) < 1.05


def test_the_stated_variance_is_the_error_made() -> None:
    away = np.linalg.norm(CENTRES[:, None] - CENTRES[None], axis=2)
    root = np.linalg.cholesky(4 * np.exp(-away / 1500) + 1e-9 * np.eye(200))
    ratio, places = [], SpatialFilter(CENTRES)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        field = root @ rng.normal(size=200)
        found = places.apply(field + rng.normal(0, 2, 200), 4.0)
        ratio.append(error(found.mean, field) / found.variance.mean())
    assert 0.8 < np.mean(ratio) < 1.25


def test_places_of_different_size_are_alike_in_relative_terms() -> None:
    size = np.exp(np.random.default_rng(5).normal(0, 0.8, 200))
    field = SMOOTH * size
    noisy = field + np.random.default_rng(6).normal(0, 2, 200)
    plain = error(SpatialFilter(CENTRES).apply(noisy, 4.0).mean, field)
    assert error(SpatialFilter(CENTRES, size).apply(noisy, 4.0).mean, field) < 0.8 * plain


def test_without_noise_nothing_changes() -> None:
    assert SpatialFilter(CENTRES).apply(SMOOTH, 0.0).mean.tolist() == SMOOTH.tolist()


def test_blocks_give_nearly_the_answer_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = SMOOTH + np.random.default_rng(7).normal(0, 2, 200)
    whole = SpatialFilter(CENTRES).apply(noisy, 4.0).mean
    monkeypatch.setattr(spatial, "BLOCK", 60)
    monkeypatch.setattr(spatial, "HALO", 40)
    parts = SpatialFilter(CENTRES).apply(noisy, 4.0).mean
    assert error(parts, whole) < 0.1 * error(noisy, SMOOTH)
    assert error(parts, SMOOTH) < 0.4 * 4


def test_draws_of_the_error_have_the_covariance_of_the_posterior() -> None:
    """Neighbours of a smooth field are wrong together; each place as much as is stated."""
    noisy = SMOOTH + np.random.default_rng(9).normal(0, 2, 200)
    found = SpatialFilter(CENTRES).apply(noisy, 4.0)
    draws = found.errors(np.random.default_rng(10), 4_000)
    assert draws.shape == (200, 4_000)
    assert np.abs(draws.mean(axis=1)).max() < 6 * np.sqrt(found.variance.max() / 4_000)
    np.testing.assert_allclose(draws.var(axis=1), found.variance, rtol=0.15)
    size = found.signal * (
        found.smooth_share
        * np.exp(-np.linalg.norm(CENTRES[:, None] - CENTRES[None], axis=2) / found.length)
        + (1 - found.smooth_share) * np.eye(200)
    )
    exact = size - size @ np.linalg.solve(size + 4.0 * np.eye(200), size)
    np.testing.assert_allclose(np.cov(draws), exact, atol=0.12 * exact.max())


def test_blocks_draw_their_own_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spatial, "BLOCK", 60)
    monkeypatch.setattr(spatial, "HALO", 40)
    noisy = SMOOTH + np.random.default_rng(11).normal(0, 2, 200)
    found = SpatialFilter(CENTRES).apply(noisy, 4.0)
    draws = found.errors(np.random.default_rng(12), 2_000)
    np.testing.assert_allclose(draws.var(axis=1), found.variance, rtol=0.2)


def test_an_expected_signal_is_averaged_over_and_not_chosen() -> None:
    """Noise alone is still read as noise, and not for sure; a strong field is what it was."""
    noise = np.random.default_rng(13).normal(0, 2, 200)
    places = SpatialFilter(CENTRES)
    nothing = places.apply(noise, 4.0)
    expecting = places.apply(noise, 4.0, 1.0)
    assert error(expecting.mean, nothing.mean) < 0.05 * 4
    draws = expecting.errors(np.random.default_rng(14), 4_000)
    # Draws hold what is not known of the prior too, so they vary at least as much as is stated.
    assert draws.var() > 0.95 * expecting.variance.mean()
    assert np.abs(draws.mean(axis=1)).max() < 6 * np.sqrt(draws.var(axis=1).max() / 4_000)
    strong = 20 * SMOOTH + noise
    for expected in (0.1, 1.0, 1e3):
        found = places.apply(strong, 4.0, expected)
        assert error(found.mean, places.apply(strong, 4.0).mean) < 0.1 * 4


def test_a_weak_signal_is_read_better_with_an_expectation_that_is_right() -> None:
    plain, expecting, places = [], [], SpatialFilter(CENTRES[:40])
    for seed in range(60):
        rng = np.random.default_rng(seed)
        field = rng.normal(0, 1.0, 40)
        noisy = field + rng.normal(0, 2.0, 40)
        plain.append(error(places.apply(noisy, 4.0).mean, field))
        found = places.apply(noisy, 4.0, 1.0)
        draws = found.errors(np.random.default_rng(seed + 100), 100)
        expecting.append((error(found.mean, field), np.square(draws).mean()))
    made, drawn = np.mean(expecting, axis=0)
    assert made < np.mean(plain)
    assert 0.8 < made / drawn < 1.25
