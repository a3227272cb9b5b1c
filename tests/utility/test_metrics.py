"""Each metric on numbers small enough to work out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.utility import density

TRUTH = np.array([[10.0, 20.0, 70.0], [0.0, 5.0, 5.0]])
OTHER = np.array([[12.0, 15.0, 70.0], [1.0, 5.0, 0.0]])


def test_relative_error_uses_a_thousandth_of_the_series_as_sanity_bound() -> None:
    expected = np.array([[0.2, 0.25, 0.0], [1 / 0.01, 0.0, 1.0]])
    np.testing.assert_allclose(density.relative_error(TRUTH, OTHER), expected)
    np.testing.assert_allclose(density.mean_relative_error(TRUTH, OTHER), [0.45 / 3, (100 + 1) / 3])


def test_an_empty_zone_is_judged_on_an_absolute_scale() -> None:
    assert density.relative_error(np.zeros((1, 2)), np.array([[3.0, 0.0]])).tolist() == [[3, 0]]


def test_the_two_readings_of_the_slot_error_differ_where_a_cell_is_empty() -> None:
    truth, noisy = np.array([[0.0], [4.0]]), np.array([[2.0], [2.0]])
    assert density.slot_relative_error(truth, noisy)[0] == pytest.approx((2000 + 0.5) / 2)
    assert density.slot_relative_error(truth, noisy, noisy_denominator=True)[0] == pytest.approx(1)


def test_pearson_matches_numpy_and_is_defined_for_flat_series() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random((4, 30)), rng.random((4, 30))
    expected = [np.corrcoef(x, y)[0, 1] for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(density.pearson(a, b), expected)
    flat, rising = np.full((1, 3), 7.0), np.array([[1.0, 2.0, 3.0]])
    assert density.pearson(flat, flat)[0] == 1
    assert density.pearson(flat, rising)[0] == 0


def test_absolute_and_square_errors() -> None:
    assert density.mean_absolute_error(TRUTH, OTHER) == pytest.approx((2 + 5 + 0 + 1 + 0 + 5) / 6)
    assert density.root_mean_square_error(TRUTH, OTHER) == pytest.approx(np.sqrt(55 / 6))


def test_maps_without_a_common_zone_are_one_bit_apart() -> None:
    truth, released = np.array([[1.0, 2.0], [0.0, 2.0]]), np.array([[0.0, 1.0], [3.0, 1.0]])
    np.testing.assert_allclose(density.jensen_shannon(truth, released), [1.0, 0.0], atol=1e-12)
    assert np.isnan(density.jensen_shannon(np.zeros((2, 1)), np.ones((2, 1)))[0])


def test_top_k_counts_common_zones() -> None:
    truth = np.array([[9.0], [8.0], [7.0], [1.0]])
    released = np.array([[9.0], [1.0], [7.0], [8.0]])
    assert density.top_k_agreement(truth, released, 2)[0] == pytest.approx(0.5)
    assert density.top_k_agreement(truth, released, 4)[0] == 1
    with pytest.raises(UsageError):
        density.top_k_agreement(truth, released, 5)


def test_range_queries_add_zones_before_they_compare() -> None:
    ranges = np.array([[True, True], [False, True]])
    got = density.range_query_error(TRUTH, OTHER, ranges)
    np.testing.assert_allclose(got[0], [3 / 10, 5 / 25, 5 / 75])
    np.testing.assert_allclose(got[1], [1 / 0.01, 0.0, 1.0])


def test_a_slot_of_nobody_has_no_relative_error_of_sums() -> None:
    """One empty night made the mean over all slots a number of ten digits."""
    night = np.column_stack((TRUTH, np.zeros(2)))
    noise = np.column_stack((OTHER, np.ones(2)))
    ranges = np.array([[True, True], [False, True]])
    got = density.range_query_error(night, noise, ranges)
    np.testing.assert_array_equal(got[:, :-1], density.range_query_error(TRUTH, OTHER, ranges))
    assert np.isnan(got[:, -1]).all()
    judged = density.evaluate_table("a", night, noise, 1.0 - np.eye(2), earth_mover=False)
    assert judged.overall["range_query_error"] < 1000
    nobody = density.evaluate_table("a", 0 * night, noise, 1.0 - np.eye(2), earth_mover=False)
    assert "range_query_error" not in nobody.overall


def test_tables_of_different_shape_are_refused() -> None:
    with pytest.raises(UsageError):
        density.pearson(TRUTH, OTHER[:, :2])
