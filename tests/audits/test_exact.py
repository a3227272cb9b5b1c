"""Exact epsilon and delta of known laws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.audits.bounds import exact_delta, exact_epsilon
from sfumato.errors import UsageError

pytestmark = pytest.mark.privacy


def test_randomised_response():
    assert exact_epsilon([0.75, 0.25], [0.25, 0.75]) == pytest.approx(math.log(3))
    assert exact_delta([0.75, 0.25], [0.25, 0.75], 0.0) == pytest.approx(0.5)


def test_an_output_possible_on_one_input_only_needs_delta():
    p, q = [0.1, 0.9, 0.0], [0.0, 0.9, 0.1]
    assert math.isinf(exact_epsilon(p, q))
    assert math.isinf(exact_epsilon(p, q, delta=0.05))
    assert exact_epsilon(p, q, delta=0.1) == 0


def test_the_discrete_gaussian_lies_below_its_continuous_conversion():
    k = np.arange(-300, 301)
    p, q = (np.exp(-((k - shift) ** 2) / (2 * 20**2)) for shift in (0, 20))
    found = exact_epsilon(p / p.sum(), q / q.sum(), delta=1e-5)
    assert found == pytest.approx(4.377, abs=0.01)  # analytic Gaussian at mu = 1


laws = st.lists(st.floats(0.01, 1), min_size=4, max_size=4).map(lambda w: np.array(w) / sum(w))


@given(p=laws, q=laws, delta=st.floats(1e-6, 0.5))
def test_epsilon_and_delta_invert_each_other(p, q, delta):
    epsilon = exact_epsilon(p, q, delta)
    assert exact_delta(p, q, epsilon) <= delta + 1e-9
    assert epsilon <= exact_epsilon(p, q)
    if epsilon > 1e-6:
        assert exact_delta(p, q, 0.99 * epsilon) > delta - 1e-9


def test_what_is_no_law_is_refused():
    for bad in ([0.5, 0.4], [1.5, -0.5], [math.nan, 1.0]):
        with pytest.raises(UsageError):
            exact_epsilon(bad, [0.5, 0.5])
    with pytest.raises(UsageError):
        exact_epsilon([1.0], [0.5, 0.5])
    with pytest.raises(UsageError):
        exact_epsilon([0.5, 0.5], [0.5, 0.5], delta=1.0)
