"""Transforms keep norms and invert; the cut is where the estimated error is least."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.density.refine.fourier import (
    Transform,
    cheapest_cut,
    forward,
    inverse,
    keep_first,
    tail_norms,
)


@pytest.mark.parametrize("transform", list(Transform))
@pytest.mark.parametrize("n", [1, 2, 7, 24, 167, 168])
def test_orthonormal_and_invertible(transform: Transform, n: int) -> None:
    series = np.random.default_rng(n).random((3, n))
    coefficients = forward(series, transform)
    np.testing.assert_allclose(inverse(coefficients, transform), series, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(coefficients, axis=1), np.linalg.norm(series, axis=1))


def test_the_known_norm_of_a_known_vector() -> None:
    series = np.random.default_rng(0).random(168)
    assert np.linalg.norm(forward(series)) == pytest.approx(7.9167, abs=1e-4)
    assert np.linalg.norm(np.fft.rfft(series, norm="ortho")) == pytest.approx(7.4183, abs=1e-4)


def test_frequencies_are_in_order() -> None:
    wave = np.cos(2 * np.pi * 7 * np.arange(168) / 168)
    spectrum = np.abs(forward(wave, Transform.DFT))
    assert spectrum.argmax() == 13  # DC, then two for each of six slower waves
    assert spectrum[13] == pytest.approx(np.linalg.norm(wave))


def test_tails_by_hand() -> None:
    np.testing.assert_allclose(tail_norms(np.array([[1.0, 3.0, 4.0]])), [[5.0, 4.0, 0.0]])


def test_keeping_the_first_k() -> None:
    rows = np.arange(1.0, 7).reshape(2, 3)
    assert keep_first(rows, np.array([1, 3])).tolist() == [[1, 0, 0], [4, 5, 6]]


def test_the_cut_drops_what_noise_explains() -> None:
    # Variance 1: a square above 2 pays for itself; the last 0.1 never does.
    assert cheapest_cut(np.array([[10.0, 3.0, 0.1, 0.1]]), 1.0)[0] == 2
    assert cheapest_cut(np.array([[10.0, 0.1, 0.1, 9.0]]), 1.0)[0] == 4
