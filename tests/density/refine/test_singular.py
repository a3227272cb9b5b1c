"""Where noise ends, and what rises above it."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.density.refine.temporal import components, effective_noise, middle_of_noise, noise_edge


@pytest.mark.parametrize("shape", [(300, 100), (80, 160)])
def test_the_law_of_pure_noise(shape: tuple[int, int]) -> None:
    values = np.linalg.svd(np.random.default_rng(0).normal(size=shape), compute_uv=False)
    assert values.max() == pytest.approx(noise_edge(*shape, 1.0), rel=0.05)
    assert np.median(values) == pytest.approx(middle_of_noise(*shape), rel=0.02)


def test_the_level_of_noise_is_read_through_a_signal_of_low_rank() -> None:
    rng = np.random.default_rng(1)
    signal = np.outer(rng.normal(size=200), rng.normal(size=90)) * 5
    assert effective_noise(signal + rng.normal(0, 3, (200, 90))) == pytest.approx(3, rel=0.03)


def test_projected_dimensions_are_not_taken_for_quiet_ones() -> None:
    rng = np.random.default_rng(2)
    noise = rng.normal(0, 3, (200, 90))
    basis = np.linalg.qr(rng.normal(size=(90, 30)))[0]
    rest = noise - noise @ basis @ basis.T
    assert effective_noise(rest, 60) == pytest.approx(3, rel=0.03)


def test_components_are_found_only_above_the_noise() -> None:
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 1, (200, 90))
    assert components(noise, 1.0)[1].size == 0
    left, values, right = components(
        noise + 60 * np.outer(np.ones(200) / 200**0.5, np.ones(90) / 90**0.5), 1.0
    )
    assert values.size == 1
    assert abs(left[:, 0].sum()) / 200**0.5 > 0.9
    assert abs(right[:, 0].sum()) / 90**0.5 > 0.9
