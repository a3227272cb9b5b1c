"""Budgets: exact arithmetic, two doors, no mixing."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.model.errors import UsageError
from sfumato.privacy.budget import Budget
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, MetricEvent, PureEvent
from sfumato.privacy.units import Unit, UnitKind

quick = settings(deadline=None, derandomize=True, max_examples=60)

DAY = Unit(UnitKind.USER_DAY)
POINT = Unit(UnitKind.POINT)
amounts = st.fractions(min_value=0, max_value=100, max_denominator=10**9)
shares = st.lists(st.integers(1, 100), min_size=1, max_size=8)


def test_the_door_there_and_back() -> None:
    budget = Budget.from_epsilon_delta(0.3, 2e-6)
    assert budget.rho == pytest.approx(0.0027315, rel=1e-6)
    assert budget.epsilon == pytest.approx(0.3, rel=1e-12)
    assert budget.epsilon <= 0.3
    assert (52 * budget).epsilon == pytest.approx(2.516, abs=1e-3)


def test_delta_zero_is_pure() -> None:
    assert Budget.from_epsilon_delta(0.3, 0.0) == Budget.pure(0.3)
    assert Budget.pure(0.3).epsilon == 0.3
    assert Budget.pure(0.3).rho == pytest.approx(0.045)
    assert Budget.pure(0.3).as_zcdp() == Budget.zcdp(0.045)


@quick
@given(amounts, amounts, amounts)
def test_sums_are_exact(a: Fraction, b: Fraction, c: Fraction) -> None:
    x, y, z = (Budget.zcdp(amount) for amount in (a, b, c))
    assert x + y == y + x
    assert (x + y) + z == x + (y + z)
    assert (x + y) - y == x
    assert x <= x + y
    assert (x < y) == (a < b)


@quick
@given(amounts, shares)
def test_parts_make_the_whole(amount: Fraction, weights: list[int]) -> None:
    budget = Budget.zcdp(amount)
    parts = budget.split([Fraction(weight, sum(weights)) for weight in weights])
    whole = Budget.zcdp(0)
    for part in parts:
        whole += part
    assert whole == budget


def test_decimal_shares_sum_as_written() -> None:
    assert len(Budget.zcdp(1).split([0.1] * 10)) == 10
    assert len(Budget.zcdp(1).split([0.7, 0.03, 0.22, 0.05])) == 4
    with pytest.raises(UsageError, match="at most 1"):
        Budget.zcdp(1).split([0.7, 0.3, 1e-12])
    with pytest.raises(UsageError):
        Budget.zcdp(1).split([1.5, -0.5])


def test_units_notions_and_deltas_do_not_mix() -> None:
    whole = Budget.zcdp(0.1)
    for other in (
        Budget.zcdp(0.1, DAY),
        Budget.pure(0.1),
        Budget.zcdp(0.1, Unit(UnitKind.W_EVENT, 3)),
    ):
        for combine in (
            lambda a, b: a + b,
            lambda a, b: a - b,
            lambda a, b: a < b,
            lambda a, b: a >= b,
        ):
            with pytest.raises(UsageError):
                combine(whole, other)
    with pytest.raises(UsageError, match="deltas"):
        whole.at(1e-6) + whole.at(1e-7)
    assert (whole + whole.at(1e-6)).delta == 1e-6


def test_zero_measures_nothing() -> None:
    zero = Budget.from_epsilon_delta(0.0, 1e-6)
    assert zero.is_zero
    assert zero.epsilon == 0
    assert zero.permits([])
    assert not zero.permits([PureEvent(1e-9, "x")])
    with pytest.raises(UsageError, match="nothing may be measured"):
        zero.for_release()


def test_infinity_is_for_nobody() -> None:
    endless = Budget.from_epsilon_delta(math.inf, 1e-6)
    assert endless.is_infinite
    assert endless.epsilon == math.inf
    assert endless.rho == math.inf
    assert Budget.zcdp(5, delta=1e-6) < endless
    assert endless + Budget.zcdp(1) == endless
    assert endless * 0.5 == endless
    assert (endless * 0).is_zero
    assert endless.permits([PureEvent(50.0, "x")])
    with pytest.raises(UsageError, match="protects nobody"):
        endless.for_release()
    with pytest.raises(UsageError):
        Budget.zcdp(1) - Budget.zcdp(math.inf)


def test_a_finite_budget_passes() -> None:
    budget = Budget.zcdp(0.1)
    assert budget.for_release() is budget


def test_no_debts_and_no_nonsense() -> None:
    for attempt in (
        lambda: Budget.zcdp(-1),
        lambda: Budget.pure(math.nan),
        lambda: Budget.zcdp(1) - Budget.zcdp(2),
        lambda: Budget.zcdp(1) * -1,
        lambda: Budget.from_epsilon_delta(1.0, 1.0),
        lambda: Budget.from_epsilon_delta(-1.0, 1e-6),
        lambda: Budget.from_epsilon_delta(math.nan, 1e-6),
        lambda: Budget.zcdp(1, POINT),
        lambda: Budget.zcdp(1).epsilon,
        lambda: Budget.pure(1).at(1e-6),
    ):
        with pytest.raises(UsageError):
            attempt()


def test_what_it_permits() -> None:
    tenth = LaplaceEvent(1.0, Fraction(10))
    assert Budget.pure(1).permits([tenth] * 10)
    assert not Budget.pure(1).permits([tenth] * 11)
    gaussian = GaussianEvent(1.0, Fraction(200), 1)
    assert Budget.zcdp(Fraction(1, 400)).permits([gaussian])
    assert not Budget.zcdp(Fraction(1, 401)).permits([gaussian])
    assert not Budget.pure(10).permits([gaussian])


def test_the_exact_curve_counts_where_it_may() -> None:
    """12.49 standard deviations are too few for zCDP and enough for the curve."""
    budget = Budget.from_epsilon_delta(0.3, 2e-6)
    unit = 1 << 16
    fine = GaussianEvent(float(unit), Fraction(1249 * unit, 100) ** 2, 168)
    whole = GaussianEvent(1.0, Fraction(1249, 100) ** 2, 168)
    assert budget.permits([fine])
    assert not budget.permits([whole])


def test_points_are_counted_per_metre() -> None:
    budget = Budget.pure(0.1, POINT)
    near = MetricEvent(0.02, "planar Laplace")
    assert budget.permits([near] * 5)
    assert not budget.permits([near] * 6)
    with pytest.raises(UsageError):
        budget.permits([PureEvent(0.01, "x")])
    assert str(budget) == "ε = 0.1 per metre per point"


def test_it_says_what_it_is() -> None:
    shown = str(Budget.from_epsilon_delta(0.3, 2e-6))
    assert shown == "ρ = 0.0027315 (ε = 0.3 at δ = 2e-06) per user-period"
