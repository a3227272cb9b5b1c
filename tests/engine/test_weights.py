"""Weights: the bound in exact numbers, and one value in every language."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.engine.base import NORM_CEILING, TOTAL_UNITS, WeightRule
from sfumato.engine.tally import weight_of
from sfumato.model.counts import WEIGHT_UNITS, WeightBound
from sfumato.model.source import NORM_UNITS

pytestmark = pytest.mark.privacy

STEADY = settings(derandomize=True, deadline=None)
weights = st.just(1.0) | st.floats(2**-16, 1024)
limits = st.floats(1e-6, 1e6) | st.sampled_from([1.0, 3.0, 4.5, 30**0.5, 1e-300, 1e300])
units = st.sampled_from([1, NORM_UNITS, TOTAL_UNITS])
norms = (
    st.integers(0, 1 << 54)
    | st.integers(0, 10_000)
    | st.integers(0, 1 << 26).map(lambda root: root * root)
)


@settings(STEADY, max_examples=600)
@given(limit=limits, most=weights, units=units, norm=norms)
def test_weight_times_norm_never_exceeds_the_limit(
    limit: float, most: float, units: int, norm: int
) -> None:
    """Whatever the largest weight is."""
    limit = min(limit, 2.0**14) if most > 1 else limit
    weight = WeightRule.of(WeightBound(limit, most), units).weight(norm)
    assert 0 <= weight <= most * WEIGHT_UNITS
    assert weight**2 * norm <= (Fraction(limit) * units * WEIGHT_UNITS) ** 2


@settings(STEADY, max_examples=300)
@given(limit=limits, most=weights, units=units, norm=norms)
def test_the_weight_loses_almost_nothing(limit: float, most: float, units: int, norm: int) -> None:
    limit = min(limit, 2.0**14) if most > 1 else limit
    bound = WeightBound(limit, most)
    weight = WeightRule.of(bound, units).weight(norm)
    if norm >= NORM_CEILING:
        assert weight == 0
    elif norm * bound.whole**2 <= (Fraction(limit) * units * WEIGHT_UNITS) ** 2:
        assert weight == bound.whole
    else:
        ideal = (Fraction(limit) * units * WEIGHT_UNITS) ** 2 / norm
        assert (weight + 1) ** 2 >= ideal * (1 - Fraction(1, 1 << 44))


@pytest.mark.parametrize("most", [1.0, 0.3, 7.0])
def test_norms_next_to_the_limit(most: float) -> None:
    for limit in (1.0, 2.5, 3.0, 0.1, 7**0.5):
        for unit in (1, NORM_UNITS, TOTAL_UNITS):
            bound = WeightBound(limit, most)
            rule, reach = WeightRule.of(bound, unit), Fraction(limit) * unit * WEIGHT_UNITS
            edge = int((reach / bound.whole) ** 2)
            assert rule.weight(edge) == bound.whole
            for norm in range(edge, edge + 50):
                assert rule.weight(norm) ** 2 * norm <= reach**2


def test_a_bound_that_is_asked_for_has_the_rule_it_always_had() -> None:
    for limit in (1.0, 2.5, 3.0, 0.1, 7**0.5):
        rule = WeightRule.of(WeightBound(limit), NORM_UNITS)
        assert rule.whole_up_to == int((Fraction(limit) * NORM_UNITS) ** 2)
        assert rule.scale == WEIGHT_UNITS * limit * NORM_UNITS * (1 - 2.0**-46)
        assert rule.whole == WEIGHT_UNITS


@pytest.mark.parametrize("limit", [0.3, 3.0, 4.5, 30**0.5, 1e-300, 1e300])
@pytest.mark.parametrize("unit", [1, NORM_UNITS, TOTAL_UNITS])
def test_one_weight_in_every_language(limit: float, unit: int) -> None:
    rule = WeightRule.of(WeightBound(limit, 0.3 if limit == 4.5 else 1.0), unit)
    rng = np.random.default_rng(11)
    some = np.concatenate([np.arange(300), (2.0 ** rng.uniform(0, 54, 3000)).astype(np.int64)])
    expected = [rule.weight(int(norm)) for norm in some]
    assert [weight_of(n, rule.whole_up_to, rule.whole, rule.scale) for n in some] == expected
    connection = duckdb.connect()
    connection.execute("CREATE TABLE n (i INTEGER, n2 DECIMAL(38, 0))")
    connection.register("given", pa.table({"i": np.arange(some.size), "n": some}))
    connection.execute("INSERT INTO n SELECT i, n FROM given")
    found = connection.execute(f"SELECT {rule.sql('n2')} FROM n ORDER BY i").fetchall()
    assert [row[0] for row in found] == expected
