"""Exact distances on a line, where the answer is the area between two step functions; and of
many zones between bounds."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.cli.evaluate import SHOWN
from sfumato.errors import UsageError
from sfumato.utility import earth_mover
from sfumato.utility.density import evaluate_table
from sfumato.utility.earth_mover import earth_mover_distance, earth_mover_series

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
    np.testing.assert_allclose(got.metres, [100, 100, 100])
    assert got.groups is None
    assert got.lower.tolist() == got.upper.tolist() == got.metres.tolist()
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_distance_matrix_of_another_size_is_refused() -> None:
    with pytest.raises(UsageError):
        earth_mover_distance(np.ones(3), np.ones(3), LINE)


@pytest.mark.parametrize("seed", range(4))
def test_between_groups_the_bounds_hold_and_the_distance_lies_close(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.random((300, 2)) * 5000
    metres = np.linalg.norm(points[:, None] - points[None], axis=2)
    truth = rng.poisson(20, (300, 4)).astype(float)
    near = np.exp(-metres / 400)
    noisy = np.maximum(truth + near @ rng.normal(0, (1, 3, 1, 0.1), truth.shape), 0)
    truth[:, 3] = noisy[:, 3] = np.roll(truth[:, 3], 5)  # nothing to move
    exact = earth_mover_series(truth, noisy, metres)
    coarse = earth_mover_series(truth, noisy, metres, exact=60)
    assert coarse.groups == 60
    assert (coarse.lower <= exact.metres + 1e-9).all()
    assert (coarse.upper >= exact.metres - 1e-9).all()
    assert (coarse.lower[:3] > 0.75 * exact.metres[:3]).all()
    assert (coarse.upper[:3] < 1.6 * exact.metres[:3]).all()
    np.testing.assert_allclose(coarse.metres, exact.metres, rtol=0.1)


def test_groups_of_maps_of_one_zone_each_and_of_empty_maps() -> None:
    one, other = np.eye(6)[:, :1], np.eye(6)[:, 5:]
    far = earth_mover_series(one, other, LINE, exact=3)
    assert (far.lower[0], far.upper[0]) == (500, 500)
    nothing = earth_mover_series(np.zeros((6, 1)), other, LINE, exact=3)
    assert np.isnan([nothing.metres, nothing.lower, nothing.upper]).all()


def test_an_approximation_is_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    points = rng.random((30, 2)) * 5000
    metres = np.linalg.norm(points[:, None] - points[None], axis=2)
    truth = rng.poisson(9, (30, 5)).astype(float)
    bounds = {"earth_mover_lower_m", "earth_mover_upper_m"}
    exact = evaluate_table("a", truth, truth + 1, metres)
    assert not bounds & set(exact.overall)
    assert "earth_mover_groups" not in exact.overall
    monkeypatch.setattr(earth_mover.earth_mover_series, "__defaults__", (None, 10))
    found = evaluate_table("a", truth, truth + 1, metres)
    assert bounds <= set(found.overall) & set(found.by_slot)
    assert found.overall["earth_mover_groups"] == 10
    assert bounds | {"earth_mover_groups"} <= set(SHOWN)
