from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.reports.encode import decode_numbers, encode_numbers
from sfumato.reports.steps import step_for


def same(decoded: np.ndarray, table: np.ndarray, step: float) -> None:
    """Equal to the precision shown: half a step, and missing exactly where the table is."""
    assert (np.isnan(decoded) == np.isnan(table)).all()
    error = np.abs(decoded - table)[~np.isnan(table)]
    assert error.max(initial=0.0) <= step / 2 * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    zones=st.integers(1, 6),
    slots=st.integers(1, 9),
    scale=st.sampled_from([0.02, 1.0, 40.0, 1e6]),
    negative=st.booleans(),
    holes=st.booleans(),
)
def test_what_is_decoded_is_the_table(
    seed: int, zones: int, slots: int, scale: float, negative: bool, holes: bool
) -> None:
    rng = np.random.default_rng(seed)
    count = rng.normal(5 * scale, 3 * scale, (zones, slots))
    lower = count - scale * rng.random((zones, slots))
    if not negative:
        count, lower = np.maximum(count, 0), np.maximum(lower, 0)
    upper = count + scale * rng.random((zones, slots))
    if holes:
        count[rng.random(count.shape) < 0.2] = np.nan
        lower[rng.random(count.shape) < 0.2] = np.nan
        upper[np.isnan(lower)] = np.nan
    data = encode_numbers(count, lower, upper)
    for decoded, table in zip(decode_numbers(data), (count, lower, upper), strict=True):
        same(decoded, table, data["step"])


def test_whole_counts_are_exact_and_symmetric_intervals_are_nearly_free() -> None:
    rng = np.random.default_rng(3)
    count = rng.poisson(150, (400, 168)).astype(float)
    lower, upper = np.maximum(count - 40, 0), count + 40
    data = encode_numbers(count, lower, upper)
    assert data["step"] == 1.0
    for decoded, table in zip(decode_numbers(data), (count, lower, upper), strict=True):
        assert (decoded == table).all()
    assert len(data["up"]["data"]) + len(data["low"]["data"]) < 0.01 * len(data["count"]["data"])


def test_the_step_is_a_tenth_of_the_usual_half_interval() -> None:
    count = np.array([[10.25, 20.5, 30.1]])
    assert step_for(count, count - 30, count + 30) == 1.0
    assert step_for(count, count - 3, count + 3) == 0.1
    assert step_for(count, count - 0.01, count + 0.01) == 0.001  # as fine as tables are published
    ones = np.ones((3, 4))
    assert step_for(ones, ones - 0.4, ones + 0.5) == 0.01
    assert step_for(ones, ones - 1, ones + 1) == 1.0


def test_numbers_that_no_count_can_be_are_refused() -> None:
    with pytest.raises(InputError, match="too large"):
        encode_numbers(np.array([[1e12]]), np.array([[0.0]]), np.array([[1e12]]))
