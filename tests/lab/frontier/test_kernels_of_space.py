"""The oracle's bank: it recognises the kernel of a clean field, and filters better for it."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato_lab.studies.frontier.oracle import Bank

AT = np.random.default_rng(6).uniform(0, 5000, (150, 2))
SIZE = np.ones(150)


def smooth(length: float, columns: int) -> np.ndarray:
    away = np.linalg.norm(AT[:, None] - AT[None], axis=2)
    half = np.linalg.cholesky(0.95 * np.exp(-away / length) + 0.05 * np.eye(150))
    return half @ np.random.default_rng(7).normal(size=(150, columns))


@pytest.fixture(scope="module")
def bank() -> Bank:
    return Bank.over(AT, SIZE)


def test_a_smooth_field_is_read_through_noise_better_than_place_by_place(bank: Bank) -> None:
    clean = smooth(3000.0, 8)
    noisy = clean + np.random.default_rng(8).normal(0, 1, clean.shape)
    found = bank.wiener(clean, noisy, 1.0)
    alone = noisy * np.square(clean).mean() / (np.square(clean).mean() + 1)
    assert np.square(found - clean).mean() < 0.5 * np.square(alone - clean).mean()


def test_a_field_that_is_not_smooth_is_only_shrunk(bank: Bank) -> None:
    clean = np.random.default_rng(9).normal(0, 2, (150, 4))
    noisy = clean + np.random.default_rng(10).normal(0, 1, clean.shape)
    gain = bank.wiener(clean, noisy, 1.0) / noisy
    assert np.quantile(gain, 0.02) > 0.55
    assert np.quantile(gain, 0.98) < 0.95


def test_nothing_is_read_from_a_field_that_is_empty(bank: Bank) -> None:
    noisy = np.random.default_rng(11).normal(0, 1, (150, 3))
    assert np.abs(bank.wiener(np.zeros((150, 3)), noisy, 1.0)).max() < 1e-6
