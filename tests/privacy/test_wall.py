"""The wall that a scheme is given: it charges, it owns the noise, it says nothing else."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import BudgetRefused, UsageError
from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.privacy.accounting import guarantee
from sfumato.privacy.calibration import gaussian_sigma2_for
from sfumato.privacy.events import PrivacyEvent, Tab
from sfumato.privacy.wall import Wall

pytestmark = pytest.mark.privacy

KEY = bytes(range(1, 33))
VALUES = np.arange(12).reshape(3, 4)


def box() -> Private[Counts]:
    return Private(Counts(VALUES.copy(), 1, 4.0, 2.0, Counting.VISITS, "t"), "t")


def test_everything_is_charged_by_its_label() -> None:
    tab = Tab()
    wall = Wall(tab, KEY)
    costs = Private(np.array([1, 2]), "costs")
    wall.gaussian(box(), sigma2=9, label="a")
    wall.laplace(box(), scale=9, label="b")
    wall.select(costs, softness=2, range_units=1, label="c")
    wall.noisy_max(costs, softness=2, range_units=1, label="d")
    wall.sparse_vector(
        threshold=1, sensitivity=1, positives=1, threshold_scale=2, query_scale=2, label="e"
    )
    wall.distances(most=3, sensitivity=1, sigma2=9, label="f")
    assert list(tab.charged) == ["a", "b", "c", "d", "e", "f"]
    assert [event.kind for event in tab.charged.values()] == [
        "discrete-gaussian",
        "discrete-laplace",
        "bounded-range",
        "pure",
        "pure",
        "discrete-gaussian",
    ]


def test_the_same_key_gives_the_same_release_in_any_order() -> None:
    one, two = Wall(Tab(), KEY), Wall(Tab(), KEY)
    first = [one.gaussian(box(), sigma2=900, label=label).values for label in ("x", "y")]
    second = [two.gaussian(box(), sigma2=900, label=label).values for label in ("y", "x")]
    assert np.array_equal(first[0], second[1])
    assert np.array_equal(first[1], second[0])
    assert not np.array_equal(first[0], first[1])
    other = Wall(Tab(), bytes(32)).gaussian(box(), sigma2=900, label="x").values
    assert not np.array_equal(first[0], other)


def test_a_label_is_used_once_whatever_the_mechanism() -> None:
    class Forgetful:
        def charge(self, label: str, event: PrivacyEvent) -> None:
            pass

    wall = Wall(Forgetful(), KEY)
    wall.gaussian(box(), sigma2=9, label="x")
    with pytest.raises(UsageError, match="already taken"):
        wall.laplace(box(), scale=9, label="x")


def test_a_refused_label_may_be_tried_again() -> None:
    class Fickle:
        tries = 0

        def charge(self, label: str, event: PrivacyEvent) -> None:  # noqa: ARG002
            self.tries += 1
            if self.tries == 1:
                raise BudgetRefused("Not yet.")

    wall = Wall(Fickle(), KEY)
    with pytest.raises(BudgetRefused):
        wall.gaussian(box(), sigma2=9, label="x")
    again = wall.gaussian(box(), sigma2=9, label="x")
    assert np.array_equal(
        again.values, Wall(Tab(), KEY).gaussian(box(), sigma2=9, label="x").values
    )


def test_calibrated_measured_and_within_the_promise() -> None:
    """From (epsilon, delta) to a measurement and back: the charge keeps the promise."""
    tab = Tab()
    awkward = Private(Counts(VALUES.copy(), 1, 30.0, math.sqrt(30), Counting.VISITS, "t"), "t")
    target = gaussian_sigma2_for(0.3, 2e-6, math.sqrt(30), VALUES.size)
    Wall(tab, KEY).gaussian(awkward, sigma2=target.sigma2[0], label="x")
    assert guarantee(tab.charged.values(), 2e-6) == target.guarantee
    assert target.guarantee.epsilon <= 0.3


def test_a_seeded_wall_taints_what_it_gives() -> None:
    wall = Wall.seeded(3)
    assert wall.tainted
    assert wall.gaussian(box(), sigma2=9, label="x").tainted
    assert not Wall(Tab(), KEY).tainted
    assert not Wall(Tab(), KEY).gaussian(box(), sigma2=9, label="x").tainted


def test_seeds_repeat() -> None:
    first, second = (Wall.seeded(3).laplace(box(), scale=50, label="x") for _ in range(2))
    assert np.array_equal(first.values, second.values)
    third = Wall.seeded(4).laplace(box(), scale=50, label="x")
    assert not np.array_equal(first.values, third.values)


def test_the_smallest_noise_shows_a_scheme_bare() -> None:
    found = Wall.seeded(1).gaussian(box(), sigma2=Fraction(1, 16), label="x")
    assert np.abs(found.values - VALUES).max() <= 1


def test_neither_key_nor_noise_can_be_read_or_carried_away() -> None:
    wall = Wall(Tab(), KEY)
    assert repr(wall) == "<wall>"
    assert "tests" in repr(Wall.seeded(1))
    with pytest.raises(UsageError):
        pickle.dumps(wall)


def test_a_key_is_256_bits() -> None:
    with pytest.raises(UsageError, match="32 bytes"):
        Wall(Tab(), b"short")
