"""Epsilon as a view of the events: what adds up, by which theorem, and what never does."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr

from sfumato.errors import UsageError
from sfumato.privacy.accounting import gaussian_mu, guarantee, zcdp_epsilon, zcdp_rho
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, MetricEvent, PrivacyEvent
from sfumato.privacy.exact import exact
from sfumato.privacy.ledger import Cap
from sfumato.privacy.ledger.limits import Room, how_many_more, largest_fit
from sfumato.privacy.ledger.totals import PER_METRE, compose, fits_caps

pytestmark = pytest.mark.privacy

FINE = GaussianEvent(l2=3 * 65536.0, sigma2=Fraction((13 * 3 * 65536) ** 2), touched=1000)
LAPLACE = LaplaceEvent(l1=1.0, scale=Fraction(10))


def test_nothing_costs_nothing() -> None:
    assert compose([], 1e-6).epsilon == 0


def test_gaussian_noise_alone_composes_by_the_exact_curve() -> None:
    found = compose([FINE] * 52, 2e-6)
    assert found.method == "gaussian"
    assert found.epsilon < zcdp_epsilon(found.rho or 0.0, 2e-6)


def test_a_mixture_is_added_up_by_rho_which_holds_for_adaptive_choices() -> None:
    """The numerical composition would be smaller, but is proved for fixed plans only."""
    events = [FINE, *[LAPLACE] * 10]
    found = compose(events, 1e-6)
    assert found.method == "zcdp"
    assert found.epsilon == zcdp_epsilon(found.rho or 0.0, 1e-6)
    assert guarantee(events, 1e-6).epsilon <= found.epsilon


def test_pure_losses_are_added_where_that_is_less() -> None:
    assert compose([LAPLACE], 1e-6).epsilon == 0.1
    assert compose([LAPLACE] * 2, 1e-6).method == "pure"


def test_location_noise_is_counted_per_metre() -> None:
    found = compose([MetricEvent(0.01, "geo")] * 3, 0.0)
    assert (found.epsilon, found.rho, found.method) == (0.03, None, PER_METRE)
    assert fits_caps([MetricEvent(0.01, "geo")], [Cap(epsilon=0.01, delta=0.0)])
    assert not fits_caps([MetricEvent(0.011, "geo")], [Cap(epsilon=0.01, delta=0.0)])
    assert not fits_caps([MetricEvent(0.01, "geo")], [Cap(rho=1.0)])


def test_every_cap_binds() -> None:
    loose, tight = Cap(rho=1.0), Cap(epsilon=0.2, delta=1e-6)
    assert fits_caps([FINE], [loose])
    assert not fits_caps([FINE], [loose, tight])
    assert not fits_caps([FINE], [Cap(epsilon=9.0, delta=1e-6, rho=1e-9)])


@given(st.integers(0, 40), st.integers(1, 8))
def test_how_many_more_is_the_last_number_that_fits(before: int, size: int) -> None:
    event = GaussianEvent(1.0, Fraction(512), 1)
    cap = [Cap(rho=33 / 1024)]
    more = how_many_more(Room.flat([event] * before, cap), [event] * size)
    assert fits_caps([event] * (before + more * size), cap) or more == 0
    assert not fits_caps([event] * (before + (more + 1) * size), cap)


def test_the_largest_fit_fits_and_is_the_largest() -> None:
    def replan(epsilon: float) -> list[PrivacyEvent]:
        return [LaplaceEvent(1.0, Fraction(1) / Fraction(epsilon))]

    fit = largest_fit(Room.flat([LAPLACE], [Cap(epsilon=0.5, delta=0.0)]), replan)
    assert fit == pytest.approx(0.4, rel=0.01)
    assert fits_caps([LAPLACE, *replan(fit)], [Cap(epsilon=0.5, delta=0.0)])
    assert largest_fit(Room.flat([LAPLACE], [Cap(epsilon=0.1, delta=0.0)]), replan) == 0


def test_the_largest_fit_is_found_where_the_least_epsilons_have_no_noise() -> None:
    """On a fine lattice noise ends at 2^40 units: a refusal must still say what would fit."""

    def replan(epsilon: float) -> list[PrivacyEvent]:
        if epsilon < 0.01:
            raise UsageError("The noise scale lies outside.")
        return [LaplaceEvent(1.0, Fraction(1) / Fraction(epsilon))]

    fit = largest_fit(Room.flat([LAPLACE], [Cap(epsilon=0.5, delta=0.0)]), replan)
    assert fit == pytest.approx(0.4, rel=0.01)
    nothing = Room.flat([LAPLACE], [Cap(epsilon=0.105, delta=0.0)])
    assert largest_fit(nothing, replan) == 0


def test_several_releases_are_added_up_by_rho_even_where_all_noise_is_gaussian() -> None:
    """Whoever chose the second had seen the first, and might have taken other noise."""
    found = compose([FINE] * 2, 2e-6, releases=2)
    assert found.method == "zcdp"
    assert found.epsilon == zcdp_epsilon(found.rho or 0.0, 2e-6)


def test_one_release_may_use_a_cap_up_by_the_curve_and_then_nothing_fits() -> None:
    cap = [Cap(epsilon=compose([FINE], 2e-6).epsilon, delta=2e-6)]
    assert fits_caps([FINE], cap, releases=1)
    assert how_many_more(Room.flat([], cap), [FINE]) == 1
    crumb = LaplaceEvent(1.0, Fraction(10**6))
    assert not fits_caps([FINE, crumb], cap)


def test_a_second_release_does_not_fit_by_the_curve_that_both_would_have_together() -> None:
    together = [Cap(epsilon=compose([FINE] * 2, 2e-6).epsilon, delta=2e-6)]
    assert fits_caps([FINE] * 2, together, releases=1)
    assert not Room.flat([FINE], together).fits([FINE])
    assert how_many_more(Room.flat([], together), [FINE]) == 1


def test_choosing_between_the_curve_and_rho_after_an_answer_would_need_more_than_delta() -> None:
    """The run that docs/decisions/ledger.md describes, and that the filter refuses to let end
    by the curve."""
    epsilon, delta = 0.3, 2e-6
    most, mu = zcdp_rho(epsilon, delta), gaussian_mu(epsilon, delta)
    first = 0.62 * most
    pure, rest = math.sqrt(2 * (most - first)), math.sqrt(mu**2 - 2 * first)
    z = np.linspace(-10, 10, 20_001)
    loss = first + math.sqrt(2 * first) * z

    def needed(total: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(0.0, -np.expm1(epsilon - total))

    up = 1 / (1 + math.exp(-pure))
    by_rho = up * needed(loss + pure) + (1 - up) * needed(loss - pure)
    gap = epsilon - loss
    by_curve = ndtr(rest / 2 - gap / rest) - np.exp(gap) * ndtr(-rest / 2 - gap / rest)
    chance = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    assert (chance * by_curve).sum() == pytest.approx(delta, rel=1e-9)
    assert (chance * np.maximum(by_rho, by_curve)).sum() > 1.0001 * delta

    unit = Fraction(2**32)  # a lattice so fine that its variation costs nothing
    start = GaussianEvent(65536.0, unit / exact(2 * first), 1)
    cap = [Cap(epsilon=epsilon, delta=delta)]
    assert fits_caps([start, LaplaceEvent(1.0, 1 / exact(pure * (1 - 1e-9)))], cap)
    assert not fits_caps(
        [start, GaussianEvent(65536.0, unit / exact(rest**2 * (1 - 1e-6)), 1)], cap
    )
