"""Axes of rhythms: from a library where noise is strong, from the data where it is not."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.density.bayes.rhythms import LIBRARIES, Library, contrast_basis, rhythm_axes
from sfumato.model.time_grid import HourCalendar

Table = NDArray[np.float64]
PLACES = 500


def calendar(days: int = 7, step: int = 1) -> HourCalendar:
    starts = [datetime(2007, 9, 10) + timedelta(hours=k) for k in range(0, 24 * days, step)]
    return HourCalendar.of(starts, [start + timedelta(hours=step) for start in starts])


def envelope(week: HourCalendar) -> Table:
    course = 1.1 + np.sin(2 * np.pi * (week.hour - 9.0) / 24)
    return np.asarray(np.sqrt(course / course.mean()))


def fields(seed: int, *strengths: float) -> Table:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((PLACES, len(strengths))) * np.array(strengths)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_has_whole_days_and_shares(library: Library) -> None:
    for kinds in library.profiles:
        numbers = np.array([day.split() for day in kinds], dtype=float)
        assert numbers.shape == (4, 24)
        assert np.abs(numbers).max() == 100.0
    assert sum(library.shares) == pytest.approx(1.0)
    assert len(library.shares) == len(library.profiles)


def test_contrasts_are_orthonormal_and_leave_the_envelope_out() -> None:
    week = calendar()
    for library in LIBRARIES:
        basis = contrast_basis(library, week, envelope(week))
        assert basis.T @ basis == pytest.approx(np.eye(basis.shape[1]), abs=1e-9)
        assert envelope(week) @ basis == pytest.approx(0.0, abs=1e-9)


def test_pure_noise_has_hardly_an_axis() -> None:
    week = calendar()
    for seed in range(3):
        noise = 7.0 * np.random.default_rng(seed).standard_normal((PLACES, 168))
        axes = rhythm_axes(noise, 7.0, week, envelope(week))
        assert axes.expected.sum() < 0.15 * 49.0


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_weak_rhythm_of_the_library_is_read_along_the_library(library: Library) -> None:
    week = calendar()
    known = contrast_basis(library, week, envelope(week))
    rest = fields(1, 0.7) @ known[:, :1].T
    rest += np.random.default_rng(2).standard_normal(rest.shape)
    axes = rhythm_axes(rest, 1.0, week, envelope(week))
    assert abs(float(axes.basis[:, 0] @ known[:, 0])) > 0.95
    assert axes.expected[0] == pytest.approx(0.49, rel=0.4)
    assert axes.expected[1:].sum() < 0.5 * axes.expected[0]


def test_a_strong_rhythm_turns_the_axes_to_itself() -> None:
    week = calendar()
    own = np.cos(2 * np.pi * 3 * week.hour / 24) * envelope(week) * np.where(week.weekend, -1, 1)
    own -= envelope(week) * (own @ envelope(week)) / (envelope(week) @ envelope(week))
    own /= np.linalg.norm(own)
    rest = fields(3, 20.0) @ own[None]
    rest += np.random.default_rng(4).standard_normal(rest.shape)
    axes = rhythm_axes(rest, 1.0, week, envelope(week))
    assert abs(float(axes.basis[:, 0] @ own)) > 0.99
    assert axes.expected[0] == pytest.approx(400.0, rel=0.15)
    assert (np.diff(axes.expected) <= 0).all()
    assert axes.basis.T @ axes.basis == pytest.approx(np.eye(axes.expected.size), abs=1e-9)


@pytest.mark.parametrize(("days", "step"), [(1, 1), (2, 6), (14, 24), (3, 24)])
def test_other_periods_and_slots_have_axes_too(days: int, step: int) -> None:
    period = calendar(days, step)
    rest = np.random.default_rng(5).standard_normal((40, period.hour.size))
    axes = rhythm_axes(rest, 1.0, period, envelope(period))
    assert axes.basis.shape[1] <= max(period.hour.size // 2, 1)
    assert np.isfinite(axes.basis).all()


def test_without_noise_there_is_nothing_to_weigh() -> None:
    week = calendar()
    assert rhythm_axes(np.ones((5, 168)), 0.0, week, envelope(week)).basis.shape == (168, 0)
