"""Sparse vector and noisy distances: the whole law by enumeration, and the proved loss."""

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from sfumato.errors import UsageError
from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.privacy.accounting import event_epsilon, event_rho
from sfumato.privacy.events import Tab
from sfumato.privacy.mechanisms import NoisyDistances, SparseVector
from sfumato.privacy.mechanisms.sparse_vector import Histograms
from sfumato.privacy.noise import BitStream, SeededStream

pytestmark = pytest.mark.privacy


def sparse(stream: BitStream, positives: int, b_t: int, b_q: int) -> SparseVector:
    return SparseVector(
        threshold=0,
        sensitivity=1,
        positives=positives,
        threshold_scale=b_t,
        query_scale=b_q,
        label="m",
        stream=stream,
        charger=Tab(),
    )


def chance(answers: tuple[bool, ...], distances: list[int], b_t: int, b_q: int) -> float:
    """Probability of these answers: sum over the threshold noise of a product of tails."""
    z = np.arange(-60 * b_t, 60 * b_t + 1)
    weight = np.exp(-np.abs(z) / b_t)
    weight /= weight.sum()
    r = math.exp(-1 / b_q)
    for answer, distance in zip(answers, distances, strict=False):
        need = z - distance  # yes where the query noise is at least this
        tail = np.where(
            need > 0,
            r ** np.maximum(need, 0) / (1 + r),
            1 - r ** np.maximum(1 - need, 1) / (1 + r),
        )
        weight = weight * (tail if answer else 1 - tail)
    return float(weight.sum())


def outputs(rounds: int, positives: int) -> list[tuple[bool, ...]]:
    """All answers a run can give: it ends with its last yes."""
    found = set()
    for answers in product([False, True], repeat=rounds):
        cut = [i for i, _ in enumerate(answers) if sum(answers[: i + 1]) == positives]
        found.add(answers[: cut[0] + 1] if cut else answers)
    return sorted(found)


def test_the_run_has_the_law_of_the_proof() -> None:
    distances, positives, b_t, b_q, runs = [2, -1, 3], 2, 3, 4, 3000
    root, seen = SeededStream(21), Counter[tuple[bool, ...]]()
    for i in range(runs):
        run = sparse(root.child(str(i)), positives, b_t, b_q)
        answers: tuple[bool, ...] = ()
        for distance in distances:
            if not run.finished:
                answers = (*answers, run.above(Private(distance, "distance")))
        seen[answers] += 1
    law = {answers: chance(answers, distances, b_t, b_q) for answers in outputs(3, positives)}
    assert sum(law.values()) == pytest.approx(1)
    assert set(seen) <= set(law)
    keys = list(law)
    assert chisquare([seen[k] for k in keys], [law[k] * runs for k in keys]).pvalue > 1e-4


@pytest.mark.parametrize("positives", [1, 2])
def test_the_loss_covers_every_neighbour_and_output(positives: int) -> None:
    """Four rounds, each distance moved by -1, 0 or 1."""
    b_t, b_q = 4, 6
    claimed = float(event_epsilon(sparse(SeededStream(1), positives, b_t, b_q).event) or 0)
    assert claimed == pytest.approx(1 / b_t + 2 * positives / b_q)
    base = [40, 3, -3, -40]
    for move in product([-1, 0, 1], repeat=4):
        other = [a + b for a, b in zip(base, move, strict=True)]
        for answers in outputs(4, positives):
            ratio = chance(answers, base, b_t, b_q) / chance(answers, other, b_t, b_q)
            assert abs(math.log(ratio)) <= claimed + 1e-9


@pytest.mark.parametrize("positives", [1, 2, 3])
def test_the_loss_is_reached(positives: int) -> None:
    """Unlikely noes pull the threshold up and unlikely yeses against it: nothing is given away."""
    b_t, b_q, noes = 4, 6, 12
    claimed = float(event_epsilon(sparse(SeededStream(1), positives, b_t, b_q).event) or 0)
    answers = (False,) * noes + (True,) * positives
    base = [40] * noes + [-40] * positives
    other = [39] * noes + [-39] * positives
    ratio = chance(answers, base, b_t, b_q) / chance(answers, other, b_t, b_q)
    assert 0.99 * claimed < abs(math.log(ratio)) <= claimed + 1e-9


def test_a_finished_run_stays_finished() -> None:
    run = sparse(SeededStream(1), 1, 1, 1)
    assert run.above(Private(1000, "distance"))
    assert run.finished
    with pytest.raises(UsageError, match="all its positive answers"):
        run.above(Private(1000, "distance"))


def test_negative_answers_are_free() -> None:
    run = sparse(SeededStream(1), 1, 1, 1)
    assert not any(run.above(Private(-1000, "distance")) for _ in range(50))
    assert not run.finished


def histogram(l1: float = 1.0) -> Private[Counts]:
    return Private(Counts(np.arange(5), 1, l1, l1, Counting.PEOPLE, "h"), "h")


def test_histograms_are_paid_for_by_the_run() -> None:
    tab = Tab()
    run = SparseVector(
        threshold=10,
        sensitivity=1,
        positives=9,
        threshold_scale=20,
        query_scale=60,
        histograms=Histograms(10, 1.0, Fraction(40)),
        label="day",
        stream=SeededStream(1),
        charger=tab,
    )
    assert event_epsilon(run.event) == Fraction(1, 20) + Fraction(18, 60) + Fraction(10, 40)
    labels = [run.publish(histogram()).label for _ in range(10)]
    assert labels[0] == "day/1"
    assert len(set(labels)) == 10
    assert list(tab.charged) == ["day"]
    with pytest.raises(UsageError, match="no histogram left"):
        run.publish(histogram())


def test_a_histogram_that_costs_more_is_refused() -> None:
    run = SparseVector(
        threshold=10,
        sensitivity=1,
        positives=1,
        threshold_scale=20,
        query_scale=60,
        histograms=Histograms(2, 1.0, Fraction(40)),
        label="day",
        stream=SeededStream(1),
        charger=Tab(),
    )
    with pytest.raises(UsageError, match="more than was paid"):
        run.publish(histogram(l1=2.0))
    with pytest.raises(UsageError, match="no histogram left"):
        sparse(SeededStream(1), 1, 1, 1).publish(histogram())


@pytest.mark.parametrize(
    "change", [{"sensitivity": 0}, {"positives": 0}, {"threshold": 1 << 63}, {"query_scale": 0}]
)
def test_runs_that_make_no_sense(change: dict[str, int]) -> None:
    given = {
        "threshold": 1,
        "sensitivity": 1,
        "positives": 1,
        "threshold_scale": 1,
        "query_scale": 1,
    }
    tab = Tab()
    with pytest.raises(UsageError):
        SparseVector(**{**given, **change}, label="m", stream=SeededStream(1), charger=tab)
    assert not tab.charged


def test_distances_cost_their_number() -> None:
    """A day of 48 slots at (1, 1e-6): noise of 31.4 with nine tenths of the budget."""
    run = NoisyDistances(
        most=48, sensitivity=1, sigma2=986, label="m", stream=SeededStream(4), charger=Tab()
    )
    assert float(event_rho(run.event)) == pytest.approx(48 / (2 * 986))
    noisy = [run.measure(Private(10**6, "distance")) for _ in range(48)]
    assert run.finished
    assert np.std(np.array(noisy)) == pytest.approx(math.sqrt(986), rel=0.4)
    with pytest.raises(UsageError, match="all its distances"):
        run.measure(Private(1, "distance"))


def test_distances_are_the_same_one_by_one() -> None:
    """The noise of the n-th distance does not depend on when it is asked."""
    first, second = (
        NoisyDistances(
            most=5, sensitivity=1, sigma2=100, label="m", stream=SeededStream(4), charger=Tab()
        )
        for _ in range(2)
    )
    one = [first.measure(Private(0, "d")) for _ in range(5)]
    assert [second.measure(Private(7, "d")) - 7 for _ in range(5)] == one
