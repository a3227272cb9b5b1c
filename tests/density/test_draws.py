"""Draws in memory and in a file are the same to every reader, and long periods are cut at weeks."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest

from sfumato.density import draws as drawing
from sfumato.density import posterior as posterior_module
from sfumato.density.draws import DrawsOnDisk, mean_of, room_for, sums_of, variance_of
from sfumato.density.posterior import Posterior
from sfumato.density.refine.temporal import spans_of, wiener
from sfumato.model.time_grid import HourCalendar


def tables(count: int = 8, shape: tuple[int, int] = (5, 48)) -> np.ndarray:
    rng = np.random.default_rng(1)
    return (rng.gamma(3.0, 5.0, (count, *shape))).astype(np.float32)


def on_disk(found: np.ndarray) -> DrawsOnDisk:
    held = DrawsOnDisk(found.shape[0], (found.shape[1], found.shape[2]))
    for number, table in enumerate(found):
        held[number] = table
    return held


def test_a_file_of_draws_reads_as_the_array_does() -> None:
    found = tables()
    held = on_disk(found)
    mean = mean_of(held)
    np.testing.assert_array_equal(mean, mean_of(found))
    np.testing.assert_array_equal(variance_of(held, mean), variance_of(found, mean))
    np.testing.assert_array_equal(sums_of(held), sums_of(found))
    np.testing.assert_allclose(mean, found.mean(axis=0, dtype=float), rtol=1e-12)
    wanted = found.var(axis=0, dtype=float, ddof=1)
    np.testing.assert_allclose(variance_of(found, mean), wanted, rtol=1e-9)


def test_a_posterior_in_a_file_publishes_the_same_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tables()
    chance, piece = found.mean(axis=0, dtype=float), np.ones(5)
    in_memory = Posterior(found, chance, piece)
    wanted = in_memory.factors(in_memory.mean, 0.9)
    monkeypatch.setattr(drawing, "_IN_MEMORY", 0)
    assert isinstance(room_for(2, (3, 4)), DrawsOnDisk)
    again = Posterior(on_disk(found), chance, piece)
    made = again.factors(again.mean, 0.9)
    assert made.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(made[name], array)


def test_the_strongest_axes_hold_as_much_as_the_whole_eigenbasis() -> None:
    rng = np.random.default_rng(2)
    slots = 400
    size = np.geomspace(30.0, 0.3, slots)
    basis = np.linalg.qr(rng.standard_normal((slots, slots)))[0]
    rest = ((rng.standard_normal((8, 60, slots)) * size) @ basis.T).astype(np.float32)
    flat = rest.reshape(-1, slots).astype(float)
    best = np.linalg.svd(flat, compute_uv=False)[:40]
    values, axes = posterior_module._strongest(rest)
    np.testing.assert_allclose(axes.T @ axes, np.eye(40), atol=1e-5)
    assert values.sum() > 0.999 * np.square(best).sum()


def hours(slots: int) -> HourCalendar:
    starts = [datetime(2007, 1, 1) + timedelta(hours=k) for k in range(slots)]
    return HourCalendar.of(starts, [s + timedelta(hours=1) for s in starts])


@pytest.mark.parametrize(
    ("slots", "lengths"),
    [(168, {168}), (744, {372}), (1_344, {336}), (8_760, {336, 360}), (1_500, {336, 156})],
)
def test_long_periods_are_cut_at_weeks(slots: int, lengths: set[int]) -> None:
    spans = spans_of(hours(slots))
    assert {span.stop - span.start for span in spans} == lengths
    assert [span.start for span in spans[1:]] == [span.stop for span in spans[:-1]]
    assert (spans[0].start, spans[-1].stop) == (0, slots)


def test_weeks_that_are_alike_share_one_mixture_and_learn_from_each_other() -> None:
    rng = np.random.default_rng(3)
    truth = np.tile(rng.normal(0, 3, (12, 24)), 42)
    noisy = truth + rng.normal(0, 3, truth.shape)
    found = wiener(noisy, 9.0, hours(1_008), np.zeros((1_008, 0)))
    made = np.square(found.mean - truth).mean()
    assert made < 0.3 * 9
    assert found.variance.mean() == pytest.approx(made, rel=0.5)
