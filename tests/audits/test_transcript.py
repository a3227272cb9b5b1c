"""Replays: exact shifts and likelihood ratios, by hand on small numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.audits.pipeline import release_key
from sfumato.audits.transcript import joint_share, listen, log_ratio, shifts
from sfumato.errors import UsageError
from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.privacy.events import Tab
from sfumato.privacy.noise import discrete_gaussian
from sfumato.privacy.noise.bits import SeededStream

pytestmark = pytest.mark.privacy

KEY = release_key(1, 1)


def boxed(values, units=1):
    counts = Counts(np.array(values, np.int64), units, 5.0, 5.0, Counting.VISITS, "made up")
    return Private(counts, "made up")


def measuring(values):
    """Gaussian and Laplace noise on two numbers, and a choice between three candidates."""

    def scheme(_source, wall):
        wall.gaussian(boxed(values[:2], 2), sigma2=Fraction(100), label="first", touched=2)
        wall.laplace(boxed(values[:2]), scale=Fraction(20), label="second")
        costs = Private(np.array(values, np.int64), "costs")
        wall.select(costs, softness=Fraction(10), range_units=8, label="third")

    return scheme


def both(one, other, most=None):
    run = listen(measuring(one), None, Tab(), KEY, most=most)
    return run, listen(measuring(other), None, Tab(), KEY, run, most=most)


def test_shifts_are_what_lies_behind_the_wall():
    found = shifts(*both([3, 10, 0], [0, 6, 1]))
    assert [(s.label, s.norm, s.moved, s.allowed) for s in found] == [
        ("first", "L2", 2.5, 2.5),  # 3, 4 and 5 on a lattice of two units a count
        ("first", "cells", 2, 2),
        ("second", "L1", 7.0, 5.0),
        ("third", "range", pytest.approx(0.5), pytest.approx(0.8)),  # moved by 3, 4, -1: 5 apart
    ]


def test_the_joint_share_adds_up_squares():
    """One measurement, half of its sensitivity: a quarter of its rho."""
    assert joint_share(*both([3, 4, 0], [0, 4, 0], most=1)) == pytest.approx((3 / 5) ** 2)
    assert joint_share(*both([3, 4, 0], [3, 4, 0])) == 0


def test_the_likelihood_ratio_is_that_of_the_laws():
    run, replay = both([3, 10, 0], [0, 6, 1])
    noise = [step.answer for step in run]
    gauss = sum(
        ((y - b) ** 2 - (y - a) ** 2) / 200
        for y, a, b in zip(noise[0], (3, 10), (0, 6), strict=True)
    )
    laplace = sum(
        (abs(y - b) - abs(y - a)) / 20 for y, a, b in zip(noise[1], (3, 10), (0, 6), strict=True)
    )
    laws = [np.exp(-np.array(costs) / 10) for costs in ([3, 10, 0], [0, 6, 1])]
    chosen = int(noise[2][0])
    choice = math.log(laws[0][chosen] / laws[0].sum() / (laws[1][chosen] / laws[1].sum()))
    assert log_ratio(run, replay) == pytest.approx(gauss + laplace + choice)
    assert log_ratio(replay, run) == pytest.approx(-gauss - laplace - choice)


def test_a_replay_gives_the_answers_of_the_run_and_pays_the_same():
    first, second = Tab(), Tab()
    run = listen(measuring([3, 10, 0]), None, first, KEY)
    replay = listen(measuring([0, 6, 1]), None, second, KEY, run)
    assert all((a.answer == b.answer).all() for a, b in zip(run, replay, strict=True))
    assert first.charged == second.charged


def test_a_run_can_end_with_its_last_measurement():
    said = []

    def scheme(_source, wall):
        wall.gaussian(boxed([1]), sigma2=4, label="only")
        said.append("refined")

    assert len(listen(scheme, None, Tab(), KEY, most=1)) == 1
    assert not said


def test_measurements_that_depend_on_the_data_are_refused():
    def sized(values, sigma2=4):
        return lambda _source, wall: wall.gaussian(boxed(values), sigma2=sigma2, label="x")

    run = listen(sized([1, 2]), None, Tab(), KEY)
    with pytest.raises(UsageError, match="depends on the data"):
        listen(sized([1, 2, 3]), None, Tab(), KEY, run)
    other = listen(sized([1, 2], sigma2=5), None, Tab(), KEY, run)
    with pytest.raises(UsageError, match="different measurements"):
        shifts(run, other)


def test_the_same_noise_twice_is_seen_by_the_discriminant():
    """Two sums share their noise: neither gives the user away, their difference does."""
    from sfumato.audits.bounds import mu_lower_bound
    from sfumato.audits.statistics import discriminant, projection

    def draw(with_user, seed):
        noise = discrete_gaussian(2_000, Fraction(10_000), SeededStream(seed))
        return np.column_stack((noise + 5 * with_user, noise)).astype(float)

    one, other = draw(True, 1), draw(False, 2)
    assert mu_lower_bound(one, other, statistic=projection).mu < 0.1
    assert mu_lower_bound(one, other, statistic=discriminant).mu > 3
