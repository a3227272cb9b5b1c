"""Exact distances on a line, where the answer is the area between two step functions."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.utility.density import earth_mover_distance, earth_mover_series

LINE = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0))) * 100


def test_one_zone_to_its_neighbour_is_their_distance() -> None:
    assert earth_mover_distance(np.eye(6)[0], 5 * np.eye(6)[1], LINE) == pytest.approx(100)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=6, max_size=6),
    st.lists(st.integers(0, 9), min_size=6, max_size=6),
)
def test_on_a_line_it_is_the_area_between_the_cumulative_shares(a: list[int], b: list[int]) -> None:
    p, q = np.array(a, float), np.array(b, float)
    got = earth_mover_distance(p, q, LINE)
    if p.sum() == 0 or q.sum() == 0:
        assert np.isnan(got)
    else:
        area = np.abs(np.cumsum(p / p.sum() - q / q.sum())).sum() * 100
        assert got == pytest.approx(area, abs=1e-9)


def test_moving_only_the_difference_costs_the_same_as_moving_everything() -> None:
    rng = np.random.default_rng(7)
    points = rng.random((40, 2)) * 5000
    metres = np.linalg.norm(points[:, None] - points[None], axis=2)
    for _ in range(5):
        p, q = rng.random(40), rng.random(40)
        whole = ot.emd2(p / p.sum(), q / q.sum(), metres)
        assert earth_mover_distance(p, q, metres) == pytest.approx(whole, rel=1e-9)


def test_the_series_has_one_figure_a_slot_and_reports_progress() -> None:
    seen: list[tuple[int, int]] = []
    table = np.eye(6)[:, :3]
    got = earth_mover_series(
        table, np.roll(table, 1, axis=0), LINE, lambda done, of: seen.append((done, of))
    )
    np.testing.assert_allclose(got, [100, 100, 100])
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_distance_matrix_of_another_size_is_refused() -> None:
    with pytest.raises(UsageError):
        earth_mover_distance(np.ones(3), np.ones(3), LINE)
