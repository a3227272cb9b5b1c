"""Shapes of noisy series: rows that sum to one, less noise than before."""

from __future__ import annotations

import numpy as np

from sfumato.density.refine.fourier import (
    Transform,
    deviation_variance,
    first_shapes,
    shrunk_shapes,
)

HOURS = np.arange(48)
DAY = 50 + 40 * np.sin(HOURS / 24 * 2 * np.pi)


def test_without_noise_nothing_is_lost() -> None:
    rows = np.stack((DAY, DAY[::-1], 2 * DAY))
    shapes = shrunk_shapes(rows, rows.sum(axis=1), 0.0)
    assert np.allclose(shapes, rows / rows.sum(axis=1, keepdims=True))


def test_the_first_coefficient_is_a_flat_day() -> None:
    for transform in Transform:
        assert np.allclose(first_shapes(DAY[None, :], np.array([1]), transform), 1 / 48)


def test_clusters_that_are_alike_share_their_strength() -> None:
    rng = np.random.default_rng(1)
    rows = np.tile(DAY, (40, 1))
    noisy = rows + rng.normal(0, 20, rows.shape)
    shapes = shrunk_shapes(noisy, rows.sum(axis=1), 400.0)
    wanted = DAY / DAY.sum()
    raw = np.abs(noisy / noisy.sum(axis=1, keepdims=True) - wanted).mean()
    assert np.abs(shapes - wanted).mean() < raw / 3


def test_clusters_that_differ_keep_their_own_shape() -> None:
    rng = np.random.default_rng(2)
    rows = np.where(np.arange(40)[:, None] % 2, DAY, DAY[::-1])
    noisy = rows + rng.normal(0, 2, rows.shape)
    shapes = shrunk_shapes(noisy, rows.sum(axis=1), 4.0)
    wanted = rows / rows.sum(axis=1, keepdims=True)
    assert np.abs(shapes - wanted).mean() < 0.05 * np.abs(wanted - wanted[::-1]).mean()


def test_deviations_beyond_the_noise_by_hand() -> None:
    """Three rows of size 2, noise 1: (2 * 3 * 9 - 2) / 12 at every frequency but smoothing."""
    rest = np.array([[3.0] * 6, [-3.0] * 6, [0.0] * 6])
    found = deviation_variance(rest, np.full((3, 1), 2.0), 1.0)
    assert np.allclose(found, (18 - 2) / 12)


def test_rows_without_anything_are_even() -> None:
    shapes = shrunk_shapes(-np.ones((2, 8)), np.zeros(2), 1.0)
    assert np.allclose(shapes, 1 / 8)
