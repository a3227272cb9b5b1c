"""What is in an interval, by hand."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest

from sfumato.density.paris.totals import USUAL, Course, neighbour_spread
from sfumato.density.refine.fourier import Shapes

HOURS = [datetime(2024, 3, 4) + timedelta(hours=h) for h in range(48)]
DAY = 100 + 80 * np.sin(np.arange(48) / 24 * 2 * np.pi)


def course(rows: np.ndarray, variance: float = 1.0) -> Course:
    shapes = rows / rows.sum(axis=1, keepdims=True)
    return Course(Shapes(shapes, np.zeros(rows.shape)), rows, variance)


def test_one_cluster_says_nothing_so_the_usual_spread_stands() -> None:
    found = neighbour_spread(course(DAY[None]), np.zeros((1, 2)), HOURS)
    assert found == pytest.approx(np.full(48, USUAL))


def test_neighbours_that_differ_by_a_tenth_have_half_a_hundredth() -> None:
    """Pairs of clusters far from the other pairs, 10 % apart in every hour (in turn up and down):
    half the squared difference is 0.005, and many pairs outweigh the usual spread."""
    turn = np.where(np.arange(48) % 2, 0.05, -0.05)
    pairs = 2000
    rows = np.concatenate([DAY * (1 + turn), DAY * (1 - turn)] * pairs).reshape(-1, 48) * 1e6
    at = np.repeat(np.arange(pairs) * 100.0, 2) + np.tile([0.0, 1.0], pairs)
    found = neighbour_spread(course(rows), np.column_stack((at, at)), HOURS)
    assert found == pytest.approx(np.full(48, 0.005), rel=0.02)


def test_noise_and_counting_are_no_difference_between_places() -> None:
    rng = np.random.default_rng(1)
    rows = rng.poisson(DAY, (3000, 48)) + rng.normal(0, 5, (3000, 48))
    found = neighbour_spread(course(rows, 25.0), rng.random((3000, 2)), HOURS)
    assert found.mean() < 0.2 * USUAL


def test_two_clusters_in_one_place_are_neighbours_of_each_other() -> None:
    rows = np.stack((DAY, 2 * DAY)) * 1e6
    found = neighbour_spread(course(rows), np.zeros((2, 2)), HOURS)
    assert (found < USUAL).all()
