"""No two measurements share their noise: not under two labels, nor in two parts of a release."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from sfumato.audits.schemes import world_of
from sfumato.density.registry import SCHEMES
from sfumato.model.counts import Counting, Counts, SampleBound, WeightBound
from sfumato.model.private import Private
from sfumato.privacy.events import Tab
from sfumato.privacy.noise import KeyedStream
from sfumato.privacy.wall import Wall

pytestmark = pytest.mark.privacy
KEY = bytes(range(7, 39))
CELLS = 4096
LABELS = ("counts", "counts2", "counts@1", "counts@11", "counts/1", "day@3", "night@3", "@", "1@")
"""Names that careless code would cut, join or compare to the same thing."""
FIVE_SIGMA = 5 / CELLS**0.5


def zeros() -> Private[Counts]:
    none = np.zeros(CELLS, np.int64)
    return Private(Counts(none, 1, 4.0, 2.0, Counting.VISITS, "nobody"), "nobody")


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_noise_under_two_labels_is_unrelated(law: str) -> None:
    wall = Wall(Tab(), KEY)
    drawn = {
        label: (
            wall.gaussian(zeros(), sigma2=Fraction(900), label=label)
            if law == "gaussian"
            else wall.laplace(zeros(), scale=Fraction(30), label=label)
        ).values
        for label in LABELS
    }
    for one, other in combinations(LABELS, 2):
        assert abs(np.corrcoef(drawn[one], drawn[other])[0, 1]) < FIVE_SIGMA, (one, other)


def test_neighbouring_cells_and_the_two_laws_are_unrelated() -> None:
    wall = Wall(Tab(), KEY)
    first = wall.gaussian(zeros(), sigma2=Fraction(900), label="a").values
    second = wall.laplace(zeros(), scale=Fraction(30), label="b").values
    for lag in (1, 2, 3, CELLS // 2):
        assert abs(np.corrcoef(first[lag:], first[:-lag])[0, 1]) < 2 * FIVE_SIGMA
    assert abs(np.corrcoef(first, second)[0, 1]) < FIVE_SIGMA
    assert abs(first.mean()) < 5 * 30 / CELLS**0.5
    assert abs(first.std() / 30 - 1) < 0.1


def test_every_mechanism_draws_from_its_own_bits(drawn_blocks) -> None:
    """Runs of questions and of choices too; and the sampling order is apart from all noise."""
    wall, costs = Wall(Tab(), KEY), Private(np.arange(5), "costs")
    wall.gaussian(zeros(), sigma2=9, label="a")
    wall.laplace(zeros(), scale=9, label="b")
    wall.select(costs, softness=2, range_units=1, label="c")
    wall.select_in_rows(
        Private(np.ones((4, 3), np.int64), "t"), softness=2, range_units=1, label="d"
    )
    wall.noisy_max(costs, softness=2, range_units=1, label="e")
    for label in ("f", "g"):
        vector = wall.sparse_vector(
            threshold=1, sensitivity=1, positives=2, threshold_scale=2, query_scale=2, label=label
        )
        for _ in range(3):
            vector.above(Private(-90, "far below"))
    for label in ("h", "i"):
        asked = wall.distances(most=3, sensitivity=1, sigma2=9, label=label)
        for _ in range(3):
            asked.measure(Private(4, "distance"))
    for label in ("a", "b", "sampling"):
        wall.sampling_key(label)
    assert len(drawn_blocks.asked) > 12
    assert drawn_blocks.twice() == 0


def test_rows_of_choices_and_questions_in_a_run_do_not_repeat_each_other() -> None:
    wall = Wall(Tab(), KEY)
    even = Private(np.zeros((400, 4), np.int64), "no preference")
    found = wall.select_in_rows(even, softness=2, range_units=1, label="rows").indices
    assert (np.bincount(found, minlength=4) > 60).all()
    asked = wall.distances(most=200, sensitivity=1, sigma2=900, label="run")
    noise = np.array([asked.measure(Private(0, "no distance")) for _ in range(200)])
    assert np.unique(noise).size > 60


@pytest.mark.parametrize("bound", [WeightBound(3), SampleBound(6)], ids=str)
@pytest.mark.parametrize("name", SCHEMES)
def test_no_scheme_draws_the_same_bits_twice(name: str, bound, drawn_blocks) -> None:
    """Labels differ, sampling orders differ, and none of them meets the noise."""
    world = world_of(SCHEMES[name], [0.3], 1e-7, bound=bound, only="one visit, some others")
    ((source, _),) = world.pairs.values()
    drawn_blocks.asked.clear()
    world.run(0.3)(source, Wall(Tab(), KEY))
    assert drawn_blocks.asked
    assert drawn_blocks.twice() == 0


def test_the_fixture_sees_a_label_that_is_used_again(drawn_blocks) -> None:
    for _ in range(2):
        KeyedStream(KEY, "measurement").child("counts").words(1)
    assert drawn_blocks.twice() == 1
