from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.attacks.trajectories import Fill, counts_of, suppressed, whole_people
from sfumato.errors import UsageError

RNG = np.random.default_rng(0)


def test_exact_counts_stay_as_they_are() -> None:
    table = np.array([[3, 2], [1, 2], [0, 0]])
    np.testing.assert_array_equal(whole_people(table, RNG)[:-1], table)


def test_suppressed_people_wait_nowhere() -> None:
    table = np.array([[7, 6, 5], [3, 4, 5]])
    whole = whole_people(suppressed(table, 5), RNG)
    assert whole.tolist() == [[7, 6, 5], [0, 0, 5], [3, 4, 0]]


def test_noisy_counts_are_clipped_scaled_and_rounded() -> None:
    table = np.array([[6.0, -2.0], [3.5, 11.0], [0.5, 1.0]])
    whole = whole_people(table, RNG)
    assert whole.sum(axis=0).tolist() == [10, 10], "the median of the sums 10 and 10"
    assert whole[:, 1].tolist() == [0, 9, 1, 0]
    assert whole[:, 0].sum() == 10


def test_clipping_does_not_inflate_the_number_of_people() -> None:
    noisy = np.random.default_rng(1).normal(0.1, 20.0, (5_000, 9))
    people = whole_people(noisy, RNG).sum(axis=0)[0]
    assert people < 2_500, "the clipped noise alone would make 40,000"


def test_a_slot_without_counts_repeats_the_one_before() -> None:
    table = np.array([[4.5, -1.0, 4.0], [0.5, -2.0, 1.0]])
    whole = whole_people(table, RNG, fill=Fill.SCALE, people=5)
    np.testing.assert_array_equal(whole[:, 1], whole[:, 0])


def test_numbers_of_any_size_can_be_scaled() -> None:
    table = np.array([[5e-324, 1e300], [0.0, 1e300]])
    whole = whole_people(table, RNG, fill=Fill.SCALE, people=4)
    assert whole.tolist() == [[4, 2], [0, 2], [0, 0]]


@settings(max_examples=40, deadline=None)
@given(
    arrays(np.float64, (4, 3), elements=st.floats(-1e4, 1e4)),
    st.sampled_from(list(Fill)),
    st.one_of(st.none(), st.integers(1, 500)),
)
def test_every_slot_holds_the_same_whole_people(
    table: np.ndarray, fill: Fill, people: int | None
) -> None:
    whole = whole_people(table, np.random.default_rng(0), fill=fill, people=people)
    assert (whole >= 0).all()
    assert len(set(whole.sum(axis=0).tolist())) == 1
    if people is not None:
        assert whole[:, 0].sum() == people


def test_a_table_with_holes_is_refused() -> None:
    with pytest.raises(UsageError):
        whole_people(np.array([[1.0, np.nan]]), RNG)


def test_counting_leaves_out_who_is_nowhere() -> None:
    rows = np.array([[0, 1], [0, -1]], dtype=np.int32)
    assert counts_of(rows, 2).tolist() == [[2, 0], [0, 1]]
