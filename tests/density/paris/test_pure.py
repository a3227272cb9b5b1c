"""The pure form: how far one user moves the kept coefficients, and what is promised."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.density.paris import Paris
from sfumato.density.paris.spectrum import LATTICE, coefficient_counts, coefficient_sensitivity
from sfumato.density.refine.fourier import Transform, forward
from sfumato.errors import UsageError
from sfumato.model.counts import Bound, Counting, Counts, SampleBound, WeightBound
from sfumato.model.private import Private
from sfumato.privacy.accounting import Method, guarantee
from sfumato.privacy.door import open_private
from sfumato.privacy.wall import Wall

pytestmark = pytest.mark.privacy


def boxed(values: np.ndarray, units: int = 1) -> Private[Counts]:
    counts = Counts(values.astype(np.int64), units, 9.0, 3.0, Counting.VISITS, "toy")
    return Private(counts, "toy")


def test_sensitivities_by_hand() -> None:
    """Two slots: the cosine basis is (1, 1)/sqrt 2 and (1, -1)/sqrt 2, so a_t = k / sqrt 2."""
    one, two = 1 / math.sqrt(2), 2 / math.sqrt(2)
    found = coefficient_sensitivity(SampleBound(1), 2, Transform.DCT)
    assert found.tolist() == pytest.approx([one, two])
    found = coefficient_sensitivity(SampleBound(5), 2, Transform.DCT)
    assert found.tolist() == pytest.approx([2 * one, 2 * two])
    found = coefficient_sensitivity(WeightBound(3.0), 2, Transform.DCT)
    assert found.tolist() == pytest.approx([3.0, 6.0])


def test_few_coefficients_cost_much_less_than_the_norms_say() -> None:
    """At l = 30 and 168 hours: below l sqrt(k), and far below the naive bound for many clusters."""
    found = coefficient_sensitivity(SampleBound(30), 168, Transform.DCT)
    k = np.arange(1, 169)
    assert (found <= 30 * np.sqrt(k)).all()
    assert found[19] < 0.5 * 30 * math.sqrt(20)
    assert found[0] == pytest.approx(30 / math.sqrt(168))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(2, 24),
    st.sampled_from(list(Transform)),
    st.booleans(),
)
def test_no_user_moves_the_integers_by_more_than_the_lattice(
    seed: int, clusters: int, slots: int, transform: Transform, weights: bool
) -> None:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 500, (clusters, slots)) * 2**16
    busy = int(rng.integers(1, slots + 1))
    user = np.zeros((clusters, slots))
    at = rng.permutation(slots)[:busy]
    user[rng.integers(0, clusters, busy), at] = rng.random(busy) if weights else 1.0
    bound: Bound = SampleBound(busy)
    if weights:
        bound = WeightBound(float(np.linalg.norm(user.sum(axis=0))))
    change = np.floor(user * 2**16).astype(np.int64)
    k = int(rng.integers(1, slots + 1))
    one, other = (
        open_private(coefficient_counts(boxed(table, 2**16), bound, k, transform))
        for table in (base, base + change)
    )
    moved = np.abs(other.values - one.values).sum()
    assert moved <= one.l1 == LATTICE * 2**16


def test_the_coefficients_are_those_of_the_transform() -> None:
    table = np.random.default_rng(1).integers(0, 900, (3, 24))
    counts = open_private(coefficient_counts(boxed(table), SampleBound(4), 10, Transform.DCT))
    found = counts.values / counts.units_per_count
    np.testing.assert_allclose(found, forward(table.astype(float))[:, :10], atol=2.0)


def test_the_promise_is_pure_and_the_whole_of_epsilon(town: Any) -> None:
    for parameters in ({}, {"keep": "first", "k": 12}, {"total_share": 0.0}):
        plan = Paris().plan(town.facts(0.5, noise="laplace", **parameters))
        found = guarantee(plan.events.values(), 0.0)
        assert found.method is Method.PURE
        assert 0.4999 < found.epsilon <= 0.5
        assert "delta is not used" in plan.lines[-1]


def test_with_little_noise_the_density_comes_back(town: Any) -> None:
    facts = replace(
        town.facts(1e6, noise="laplace", nights=False, total_cap=100, tolerance=1.0),
        bound=SampleBound(48),
    )
    density = Paris().run(town.source, Wall.seeded(1), facts)
    wanted = town.overlay.to_zones(town.truth)
    assert np.abs(density.values - wanted).sum() < 0.03 * wanted.sum()


def test_what_does_not_go_together_is_said(town: Any) -> None:
    with pytest.raises(UsageError, match="as many coefficients"):
        Paris().plan(town.facts(1.0, noise="laplace", keep="shrink"))
    with pytest.raises(UsageError, match="one visit a user"):
        Paris().plan(town.facts(1.0, noise="laplace", histogram="clipped"))
    with pytest.raises(UsageError, match="too loose"):
        Paris().plan(replace(town.facts(1.0, noise="laplace"), bound=WeightBound(1e4)))
