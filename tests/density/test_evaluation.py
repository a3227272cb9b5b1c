"""Evaluation gathers the metrics, and says how often intervals hold."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.utility.density import evaluate_table, interval_coverage, random_ranges, spread

RNG = np.random.default_rng(4)
POINTS = RNG.random((30, 2)) * 3000
METRES = np.linalg.norm(POINTS[:, None] - POINTS[None], axis=2)
TRUTH = RNG.poisson(50, (30, 24)).astype(float)


def test_the_truth_itself_is_perfect() -> None:
    found = evaluate_table(
        "truth", TRUTH, TRUTH, METRES, interval=(TRUTH, TRUTH), median=TRUTH + 2.0
    ).overall
    assert found["median_mean_absolute_error"] == 2
    assert found["mean_relative_error"] == found["earth_mover_m"] == found["range_query_error"] == 0
    assert found["pearson"] == pytest.approx(1)
    assert found["top_10"] == found["coverage_from_20"] == 1


def test_figures_get_worse_with_noise_and_have_one_entry_per_zone_and_slot() -> None:
    little = evaluate_table("a", TRUTH, TRUTH + RNG.normal(0, 1, TRUTH.shape), METRES)
    much = evaluate_table("b", TRUTH, TRUTH + RNG.normal(0, 20, TRUTH.shape), METRES)
    for key in ("mean_relative_error", "earth_mover_m", "jensen_shannon", "range_query_error"):
        assert little.overall[key] < much.overall[key]
    assert little.by_zone["pearson"].shape == (30,)
    assert little.by_slot["earth_mover_m"].shape == (24,)
    assert "top_50" not in little.by_slot  # there are only thirty zones


def test_coverage_is_told_apart_for_small_published_counts() -> None:
    truth = np.array([[100.0, 25.0, 30.0, 8.0]])
    released = np.array([[90.0, 19.0, 25.0, 8.0]])
    found = interval_coverage(truth, truth - [[1, -1, 1, 1]], truth + 1.0, released)
    assert found["coverage_from_20"] == 1
    assert found["coverage_below_20"] == 0.5
    assert found["coverage"] == 0.75


def test_ranges_are_discs_and_always_the_same() -> None:
    ranges = random_ranges(METRES)
    assert (ranges.sum(axis=1) >= 1).all()
    assert ranges.sum(axis=1).max() <= 10
    np.testing.assert_array_equal(ranges, random_ranges(METRES))


def test_the_spread_over_draws() -> None:
    runs = [evaluate_table("x", TRUTH, TRUTH + s, METRES, earth_mover=False) for s in (1.0, 3.0)]
    mean, sd = spread(runs)["mean_absolute_error"]
    assert mean == pytest.approx(2)
    assert sd == pytest.approx(np.sqrt(2))
