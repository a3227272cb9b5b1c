"""Printed perturbations against hand-computed utilities and noise-free limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.density.refine.fourier import Transform
from sfumato_lab.as_printed.paris import (
    efpa,
    efpa_utility,
    efpag,
    efpag_utility,
    fpa,
    gaussian_sigma,
)


def test_the_printed_sigma() -> None:
    assert gaussian_sigma(math.sqrt(30), 0.3, 2e-6) == pytest.approx(98.3486, abs=1e-4)


def test_utilities_by_hand() -> None:
    coefficients = np.array([[7.0, 3.0, 4.0]])
    # Tails 5, 4, 0; EFPA pays sqrt(2) k l2 / eps, EFPAG sqrt(k) sigma.
    np.testing.assert_allclose(
        efpa_utility(coefficients, 0.5, 2.0),
        [[5 + math.sqrt(2) * 4, 4 + math.sqrt(2) * 8, math.sqrt(2) * 12]],
    )
    np.testing.assert_allclose(
        efpag_utility(coefficients, 2.0), [[5 + 2, 4 + 2 * math.sqrt(2), 2 * math.sqrt(3)]]
    )


@pytest.mark.parametrize("transform", list(Transform))
def test_without_noise_the_series_comes_back(transform: Transform) -> None:
    rng = np.random.default_rng(1)
    series = rng.random((3, 24)) * 100
    np.testing.assert_allclose(fpa(series, 24, 1e12, 1.0, rng, transform).series, series)
    for got in (
        efpa(series, 1e12, 1.0, rng, transform),
        efpag(series, 1e12, 1e-6, 1.0, rng, transform),
    ):
        assert got.kept.tolist() == [24] * 3
        np.testing.assert_allclose(got.series, series)


def test_strong_noise_keeps_few_coefficients() -> None:
    rng = np.random.default_rng(2)
    series = 100 + 50 * np.cos(np.arange(168) / 168 * 2 * np.pi)[None] + rng.random((40, 168))
    assert np.median(efpag(series, 20.0, 2e-6, 1.0, rng).kept) < 40


def test_fpa_keeps_what_it_is_told() -> None:
    rng = np.random.default_rng(3)
    series = np.full((1, 8), 5.0)
    np.testing.assert_allclose(fpa(series, 1, 1e12, 1.0, rng).series, series)
