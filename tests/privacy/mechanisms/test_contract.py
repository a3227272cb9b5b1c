"""What every mechanism owes, whatever it does: one suite over all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.errors import BudgetRefused, UsageError
from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.privacy.accounting import event_epsilon, event_rho
from sfumato.privacy.events import Charger, PrivacyEvent, Tab
from sfumato.privacy.mechanisms import (
    NoisyDistances,
    SparseVector,
    exponential_choice,
    exponential_choices,
    measure_gaussian,
    measure_laplace,
    noisy_max,
)
from sfumato.privacy.mechanisms.sparse_vector import Histograms
from sfumato.privacy.noise import BitStream, KeyedStream, SeededStream

pytestmark = pytest.mark.privacy

KEY = bytes(range(32))
Run = Callable[[NDArray[np.int64], BitStream, Charger], Any]


def counts(values: NDArray[np.int64]) -> Private[Counts]:
    return Private(Counts(values, 1, 4.0, 2.0, Counting.VISITS, "test"), "test")


def by_gaussian(values: NDArray[np.int64], stream: BitStream, charger: Charger) -> Any:
    return measure_gaussian(
        counts(values), sigma2=9, label="m", stream=stream, charger=charger
    ).values


def by_laplace(values: NDArray[np.int64], stream: BitStream, charger: Charger) -> Any:
    return measure_laplace(
        counts(values), scale=10, label="m", stream=stream, charger=charger
    ).values


def by_choice(values: NDArray[np.int64], stream: BitStream, charger: Charger) -> Any:
    return exponential_choice(
        Private(values.ravel(), "costs"),
        softness=5,
        range_units=2,
        label="m",
        stream=stream,
        charger=charger,
    ).index


def by_choices(values: NDArray[np.int64], stream: BitStream, charger: Charger) -> Any:
    return exponential_choices(
        Private(np.atleast_2d(values), "costs"),
        softness=5,
        range_units=2,
        label="m",
        stream=stream,
        charger=charger,
    ).indices


def by_noisy_max(values: NDArray[np.int64], stream: BitStream, charger: Charger) -> Any:
    return noisy_max(
        Private(values.ravel(), "costs"),
        softness=5,
        range_units=2,
        label="m",
        stream=stream,
        charger=charger,
    ).index


def by_sparse_vector(values: NDArray[np.int64], stream: BitStream, charger: Charger) -> Any:
    run = SparseVector(
        threshold=10,
        sensitivity=1,
        positives=2,
        threshold_scale=8,
        query_scale=16,
        histograms=Histograms(3, 4.0, Fraction(16)),
        label="m",
        stream=stream,
        charger=charger,
    )
    answers = [int(run.publish(counts(values)).values.sum())]
    for value in values.ravel():
        if run.finished:
            break
        answers.append(run.above(Private(int(value), "distance")))
    return answers


def by_distances(values: NDArray[np.int64], stream: BitStream, charger: Charger) -> Any:
    run = NoisyDistances(
        most=16, sensitivity=2, sigma2=1600, label="m", stream=stream, charger=charger
    )
    return [run.measure(Private(int(value), "distance")) for value in values.ravel()]


@dataclass(frozen=True)
class Case:
    """A mechanism with fixed parameters and the loss that its proof gives for them."""

    run: Run
    epsilon: Fraction | None
    rho: Fraction
    chooses: bool = False


CASES = {
    "gaussian": Case(by_gaussian, None, Fraction(4, 18)),
    "laplace": Case(by_laplace, Fraction(4, 10), Fraction(8, 100)),
    "exponential": Case(by_choice, Fraction(2, 5), Fraction(4, 200), chooses=True),
    "choices": Case(by_choices, None, Fraction(4, 200), chooses=True),
    "noisy max": Case(by_noisy_max, Fraction(2, 5), Fraction(4, 50), chooses=True),
    "sparse vector": Case(by_sparse_vector, Fraction(9, 8), Fraction(81, 128)),
    "noisy distances": Case(by_distances, None, Fraction(64, 3200)),
}
VALUES = np.array([[3, 0, 12], [7, 1, 100]])


class Refuses:
    """A ledger with nothing left."""

    def charge(self, label: str, event: PrivacyEvent) -> None:  # noqa: ARG002
        raise BudgetRefused("Nothing is left.")


@dataclass
class Watches:
    """A ledger that looks at the stream in the moment it is charged."""

    stream: BitStream
    seen: list[str]
    charged: list[PrivacyEvent]

    def charge(self, label: str, event: PrivacyEvent) -> None:  # noqa: ARG002
        self.seen.append(repr(self.stream))
        self.charged.append(event)


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def test_refused_means_nothing_drawn(case: Case) -> None:
    stream = KeyedStream(KEY, "m")
    with pytest.raises(BudgetRefused):
        case.run(VALUES.copy(), stream, Refuses())
    assert " 0 digits spent" in repr(stream)


def test_charged_once_and_before_the_first_bit(case: Case) -> None:
    stream = KeyedStream(KEY, "m")
    ledger = Watches(stream, [], [])
    case.run(VALUES.copy(), stream, ledger)
    assert len(ledger.seen) == 1
    assert " 0 digits spent" in ledger.seen[0]
    assert " 0 digits spent" not in repr(stream)


def test_refused_means_the_box_stayed_shut(case: Case) -> None:
    """Numbers too large to measure are noticed only by looking: after the charge."""
    with pytest.raises(BudgetRefused):
        case.run(VALUES + (1 << 62), KeyedStream(KEY, "m"), Refuses())


def test_the_charge_is_the_proved_loss(case: Case) -> None:
    tab = Tab()
    case.run(VALUES.copy(), KeyedStream(KEY, "m"), tab)
    event = tab.charged["m"]
    assert event_epsilon(event) == case.epsilon
    assert event_rho(event) == case.rho


def test_same_key_and_label_same_answer(case: Case) -> None:
    first, second = (case.run(VALUES.copy(), KeyedStream(KEY, "m"), Tab()) for _ in range(2))
    assert np.array_equal(first, second)


def test_another_label_other_noise(case: Case) -> None:
    answers = {str(case.run(VALUES * 0, KeyedStream(KEY, f"m{i}"), Tab())) for i in range(20)}
    assert len(answers) > 1


def test_the_input_is_left_alone(case: Case) -> None:
    values = VALUES.copy()
    case.run(values, KeyedStream(KEY, "m"), Tab())
    assert np.array_equal(values, VALUES)


def test_one_cell(case: Case) -> None:
    answer = case.run(np.array([5]), KeyedStream(KEY, "m"), Tab())
    assert not case.chooses or answer == 0


def test_empty(case: Case) -> None:
    """No cells: an empty answer. No candidates: refused, and nothing charged."""
    tab = Tab()
    if case.chooses:
        with pytest.raises(UsageError, match="no candidate"):
            case.run(np.zeros(0, np.int64), KeyedStream(KEY, "m"), tab)
        assert not tab.charged
    else:
        answer = np.asarray(case.run(np.zeros(0, np.int64), KeyedStream(KEY, "m"), tab))
        assert answer.size <= 1
        assert len(tab.charged) == 1


def test_negative_numbers(case: Case) -> None:
    case.run(-VALUES, KeyedStream(KEY, "m"), Tab())


@pytest.mark.parametrize("sign", [-1, 1])
def test_numbers_beyond_the_range_are_cut_not_refused(case: Case, sign: int) -> None:
    """A refusal would be an answer about the data."""
    values = np.array([3, sign * ((1 << 62) + 12345)])
    cut = np.array([3, sign * (1 << 62)])
    found, same = (case.run(v, KeyedStream(KEY, "m"), Tab()) for v in (values, cut))
    assert np.array_equal(found, same)


def test_a_label_is_measured_once(case: Case) -> None:
    tab = Tab()
    case.run(VALUES.copy(), KeyedStream(KEY, "m"), tab)
    with pytest.raises(UsageError, match="already"):
        case.run(VALUES.copy(), KeyedStream(KEY, "m"), tab)


@pytest.mark.parametrize(
    ("stream", "tainted"), [(lambda: KeyedStream(KEY, "m"), False), (lambda: SeededStream(1), True)]
)
def test_taint_is_passed_on(stream: Callable[[], BitStream], tainted: bool) -> None:
    common: dict[str, Any] = {"label": "m"}
    box, costs = counts(VALUES.copy()), Private(VALUES.ravel(), "costs")
    choice = {"softness": 5, "range_units": 2}
    sparse = {
        "threshold": 1,
        "sensitivity": 1,
        "positives": 1,
        "threshold_scale": 1,
        "query_scale": 1,
        "histograms": Histograms(1, 4.0, Fraction(4)),
    }
    run = SparseVector(**sparse, **common, stream=stream(), charger=Tab())
    outcomes = [
        measure_gaussian(box, sigma2=9, **common, stream=stream(), charger=Tab()),
        measure_laplace(box, scale=9, **common, stream=stream(), charger=Tab()),
        exponential_choice(costs, **choice, **common, stream=stream(), charger=Tab()),
        noisy_max(costs, **choice, **common, stream=stream(), charger=Tab()),
        run,
        run.publish(box),
        NoisyDistances(most=2, sensitivity=1, sigma2=9, **common, stream=stream(), charger=Tab()),
    ]
    assert [outcome.tainted for outcome in outcomes] == [tainted] * len(outcomes)


def test_runs_show_nothing() -> None:
    """Neither the noisy threshold nor what was asked can be read off a run."""
    run = SparseVector(
        threshold=987654,
        sensitivity=1,
        positives=1,
        threshold_scale=8,
        query_scale=8,
        label="m",
        stream=KeyedStream(KEY, "m"),
        charger=Tab(),
    )
    assert repr(run) == "<sparse vector run 'm'>"
    distances = NoisyDistances(
        most=1, sensitivity=1, sigma2=9, label="m", stream=KeyedStream(KEY, "m"), charger=Tab()
    )
    assert repr(distances) == "<noisy distances 'm'>"


@pytest.mark.parametrize("measure", [measure_gaussian, measure_laplace])
@pytest.mark.parametrize("sensitivity", [0.0, float("inf")])
def test_no_bound_no_measurement(measure: Any, sensitivity: float) -> None:
    """The unbounded truth, and a claim that nobody changes anything, are both refused."""
    box = Private(Counts(VALUES.copy(), 1, sensitivity, sensitivity, Counting.VISITS, "t"), "t")
    scale = {"sigma2": 9} if measure is measure_gaussian else {"scale": 9}
    tab, stream = Tab(), KeyedStream(KEY, "m")
    with pytest.raises(UsageError):
        measure(box, label="m", stream=stream, charger=tab, **scale)
    assert not tab.charged
    assert " 0 digits spent" in repr(stream)


@pytest.mark.parametrize("scale", [0, Fraction(1, 100), 1 << 90])
def test_scales_that_cannot_be_drawn_are_refused_before_the_charge(scale: Any) -> None:
    tab = Tab()
    for attempt in (
        lambda: measure_gaussian(
            counts(VALUES.copy()), sigma2=scale, label="m", stream=SeededStream(1), charger=tab
        ),
        lambda: measure_laplace(
            counts(VALUES.copy()), scale=scale, label="m", stream=SeededStream(1), charger=tab
        ),
    ):
        with pytest.raises(UsageError):
            attempt()
    assert not tab.charged


@pytest.mark.parametrize("measure", [measure_gaussian, measure_laplace])
def test_input_and_output_do_not_share_memory(measure: Any) -> None:
    source = VALUES.copy()
    scale = {"sigma2": 9} if measure is measure_gaussian else {"scale": 9}
    found = measure(
        counts(source[:]), label="m", stream=KeyedStream(KEY, "m"), charger=Tab(), **scale
    )
    before = found.values.copy()
    source += 1_000
    assert np.array_equal(found.values, before)
    assert not np.shares_memory(found.values, source)
    with pytest.raises(ValueError):
        found.values[0, 0] = 1
