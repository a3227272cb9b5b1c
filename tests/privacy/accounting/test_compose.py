"""What events amount to: the smallest valid answer, its name, and exact sums."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom

from sfumato.errors import UsageError
from sfumato.privacy.accounting import (
    Method,
    event_epsilon,
    event_rho,
    gaussian_delta,
    gaussian_epsilon,
    guarantee,
    total_epsilon,
    total_per_metre,
    total_rho,
    zcdp_epsilon,
)
from sfumato.privacy.accounting.compose import numerical_epsilon
from sfumato.privacy.events import (
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    MetricEvent,
    PrivacyEvent,
    PureEvent,
)

pytestmark = pytest.mark.privacy

quick = settings(deadline=None, derandomize=True, max_examples=60)

FINE = GaussianEvent(l2=float(1 << 16), sigma2=Fraction((13 << 16) ** 2), touched=168)
COARSE = GaussianEvent(l2=1.0, sigma2=Fraction(169), touched=168)
TENTH = LaplaceEvent(l1=30.0, scale=Fraction(300))


def test_losses_of_single_events() -> None:
    assert event_epsilon(TENTH) == Fraction(1, 10)
    assert event_rho(TENTH) == Fraction(1, 200)
    assert event_rho(COARSE) == Fraction(1, 338)
    assert event_epsilon(COARSE) is None
    assert event_rho(BoundedRangeEvent(0.4)) == Fraction(2, 100)
    assert event_epsilon(BoundedRangeEvent(0.4)) == Fraction(4, 10)
    assert event_rho(PureEvent(0.1, "x")) == Fraction(1, 200)


def test_ten_tenths_are_one() -> None:
    assert total_epsilon([PureEvent(0.1, "x")] * 10) == 1
    assert guarantee([TENTH] * 10, 0.0).epsilon == 1.0


def test_nothing_costs_nothing() -> None:
    assert guarantee([], 1e-6).epsilon == 0
    assert guarantee([], 1e-6).method is Method.NOTHING


def test_the_fine_lattice_gets_the_exact_curve() -> None:
    found = guarantee([FINE], 2e-6)
    assert found.method is Method.GAUSSIAN
    assert found.epsilon == pytest.approx(gaussian_epsilon(1 / 13, 2e-6), rel=1e-4)
    assert found.epsilon < zcdp_epsilon(1 / 338, 2e-6) * 0.94


def test_whole_counts_get_zcdp() -> None:
    found = guarantee([COARSE], 2e-6)
    assert found.method is Method.ZCDP
    assert found.epsilon == pytest.approx(zcdp_epsilon(1 / 338, 2e-6))
    assert found.rho == pytest.approx(1 / 338)


def test_a_year_of_weeks() -> None:
    unit = 1 << 16
    zcdp = GaussianEvent(float(unit), Fraction(round(13.5296 * unit)) ** 2, 168)
    curve = GaussianEvent(float(unit), Fraction(round(12.4824 * unit)) ** 2, 168)
    assert guarantee([zcdp] * 52, 2e-6).epsilon == pytest.approx(2.338, abs=1e-3)
    assert guarantee([curve] * 52, 2e-6).epsilon == pytest.approx(2.556, abs=1e-3)
    whole = GaussianEvent(1.0, Fraction("183.05"), 168)
    assert guarantee([whole] * 52, 2e-6).epsilon == pytest.approx(2.516, abs=1e-3)


def test_pure_events_alone_without_delta() -> None:
    assert guarantee([TENTH, PureEvent(0.2, "x")], 0.0).method is Method.PURE
    assert guarantee([TENTH, PureEvent(0.2, "x")], 0.0).epsilon == 0.3


def test_gaussian_noise_without_delta_has_no_epsilon() -> None:
    found = guarantee([FINE, TENTH], 0.0)
    assert found.epsilon == math.inf
    assert found.method is Method.UNBOUNDED


def test_many_pure_events_compose_numerically() -> None:
    found = guarantee([PureEvent(0.1, "x")] * 52, 1e-6)
    assert found.method is Method.NUMERICAL
    assert found.epsilon < min(5.2, zcdp_epsilon(52 * 0.005, 1e-6))
    # The exact answer for fifty-two randomised responses, by counting heads.
    k = np.arange(53)
    logs = np.array([math.lgamma(53) - math.lgamma(i + 1) - math.lgamma(53 - i) for i in k])
    p = 1 / (1 + math.exp(-0.1))
    mass = np.exp(logs + k * math.log(p) + (52 - k) * math.log1p(-p))
    loss = (2 * k - 52) * 0.1

    def delta(epsilon: float) -> float:
        return float((mass * np.maximum(0, -np.expm1(epsilon - loss))).sum())

    assert found.epsilon == pytest.approx(brentq(lambda e: delta(e) - 1e-6, 0.1, 5.0), rel=2e-3)
    assert delta(found.epsilon) <= 1e-6


def test_a_gaussian_and_a_pure_event_numerically() -> None:
    """Oracle: average the Gaussian curve over the two losses of randomised response."""
    mu, loss, delta = 1 / 13, 0.1, 2e-6
    p = 1 / (1 + math.exp(-loss))

    def exact(epsilon: float) -> float:
        return p * gaussian_delta(mu, epsilon - loss) + (1 - p) * gaussian_delta(mu, epsilon + loss)

    found = guarantee([FINE, PureEvent(loss, "x")], delta)
    truth = brentq(lambda e: exact(e) - delta, 0.01, 2)
    assert found.method is Method.NUMERICAL
    assert truth <= found.epsilon <= truth * 1.001


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize(("mu", "loss", "times"), [(0.5, 0.05, 20), (0.05, 0.2, 7), (0.2, 1.0, 2)])
def test_the_numerical_answer_is_never_too_small(
    mu: float, loss: float, times: int, delta: float
) -> None:
    """Oracle: the Gaussian curve averaged over the binomial law of the summed losses."""
    heads = np.arange(times + 1)
    chances = binom.pmf(heads, times, 1 / (1 + math.exp(-loss)))

    def exact(epsilon: float) -> float:
        sides = (epsilon - (2 * heads - times) * loss).tolist()
        return math.fsum(p * gaussian_delta(mu, e) for p, e in zip(chances, sides, strict=True))

    beat = times * loss + gaussian_epsilon(mu, delta)
    found = numerical_epsilon(mu, 0.0, (loss,) * times, delta, beat)
    assert exact(found) <= delta
    assert exact(found * 0.99) > delta


def test_below_the_numerical_range_zcdp_is_left() -> None:
    found = guarantee([FINE, PureEvent(0.5, "x")], 1e-12)
    assert found.method is Method.ZCDP
    assert found.epsilon == pytest.approx(zcdp_epsilon(1 / 338 + 0.125, 1e-12))


def test_numerical_gives_up_where_it_cannot_help() -> None:
    assert numerical_epsilon(0.1, 0.0, (0.1,), 1e-10, 1.0) == math.inf
    assert numerical_epsilon(0.1, 1e-3, (0.1,), 1e-6, 1.0) == math.inf
    assert numerical_epsilon(0.1, 0.0, (0.1,), 1e-6, 0.1) == math.inf


def test_selections_compose_by_their_range() -> None:
    found = guarantee([BoundedRangeEvent(0.1)] * 100, 1e-6)
    assert found.method is Method.ZCDP
    assert found.epsilon == pytest.approx(zcdp_epsilon(100 * 0.01 / 8, 1e-6))


@pytest.mark.parametrize("spread", [0.2, 1.0, 3.0])
def test_bounded_range_implies_an_eighth_of_its_square(spread: float) -> None:
    """Renyi divergences of exponential mechanisms whose costs move apart by `spread`."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        costs = rng.uniform(0, 3, 5)
        moved = costs + rng.choice([0.0, spread], 5)
        p, q = np.exp(-costs), np.exp(-moved)
        p, q = p / p.sum(), q / q.sum()
        for alpha in (1.1, 2.0, 5.0, 30.0):
            divergence = math.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1)
            assert divergence <= alpha * spread**2 / 8 + 1e-12


def test_location_noise_is_counted_apart() -> None:
    point = MetricEvent(0.02, "planar Laplace")
    assert total_per_metre([point] * 5) == Fraction(1, 10)
    for mixed in ([point, TENTH], [point]):
        with pytest.raises(UsageError, match="per metre"):
            guarantee(mixed, 1e-6)
    with pytest.raises(UsageError, match="per metre"):
        total_per_metre([point, TENTH])


def test_delta_must_make_sense() -> None:
    for delta in (-0.1, 1.0, math.nan):
        with pytest.raises(UsageError):
            guarantee([TENTH], delta)


events = st.one_of(
    st.builds(PureEvent, st.sampled_from([0.01, 0.1, 0.3]), st.just("x")),
    st.sampled_from([FINE, COARSE, TENTH, BoundedRangeEvent(0.2)]),
)


@quick
@given(st.lists(events, max_size=4), events)
def test_more_events_never_cost_less(listed: list[PrivacyEvent], extra: PrivacyEvent) -> None:
    before, after = guarantee(listed, 1e-6), guarantee([*listed, extra], 1e-6)
    # Numerical answers lie on a grid, hence the hair.
    assert before.epsilon <= after.epsilon * (1 + 1e-3)
    assert total_rho(listed) < total_rho([*listed, extra])


@quick
@given(st.lists(events, min_size=1, max_size=4))
def test_never_above_the_plain_answers(listed: list[PrivacyEvent]) -> None:
    found = guarantee(listed, 1e-6)
    assert found.epsilon <= zcdp_epsilon(float(total_rho(listed)), 1e-6) * (1 + 1e-12)
    pure = total_epsilon(listed)
    assert pure is None or found.epsilon <= float(pure) * (1 + 1e-15)
