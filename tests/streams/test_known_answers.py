"""Known answers of the schemes' papers, on streams made for them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.linalg import toeplitz

from sfumato.privacy.accounting import event_epsilon
from sfumato.privacy.events import PrivacyEvent, Tab
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts
from sfumato.streams.output import nearest_counts, random_decrements
from sfumato.streams.replay import boxed
from sfumato.streams.scheme import Meter
from sfumato.streams.schemes.counters import root_coefficients, root_error, tree_matrix, worst_norm
from sfumato_lab.streams.dsat import Dsat
from sfumato_lab.streams.fast import Pid
from sfumato_lab.streams.rescuedp import Rescue
from sfumato_lab.streams.w_event import WEvent

Facts = Callable[..., StreamFacts]


class _Watched(Meter):
    """A meter that also remembers what was charged."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.tab = Tab()

    def charge(self, label: str, event: PrivacyEvent) -> None:
        super().charge(label, event)
        self.tab.charge(label, event)


def _trace(absorb: bool, facts: StreamFacts, jumps: set[int]) -> list[Fraction]:
    """Epsilon of the publication at each slot, for counts that jump at the named slots.

    In between they are what was published last, so that nothing but the jumps is far away.
    """
    scheme = WEvent(absorb)
    meter = _Watched(scheme.plan(facts).accounts, facts)
    wall, publisher = Wall.seeded(4, meter), scheme.publisher(facts)
    counts = np.zeros(facts.cells, dtype=np.int64)
    for slot in range(facts.slots):
        counts = counts + (10**7 if slot in jumps else 0)
        made = publisher.publish(slot, boxed(counts, facts), wall, meter)
        counts = np.rint(made.values).astype(np.int64)
    spent = meter.tab.charged
    return [
        event_epsilon(spent[f"histogram@{slot}"]) or Fraction(0)
        if f"histogram@{slot}" in spent
        else Fraction(0)
        for slot in range(facts.slots)
    ]


def test_budget_distribution_halves_and_recovers(facts: Facts) -> None:
    known = facts("w-event:3", days=1, per_day=4)
    expected = [Fraction(1, 4), Fraction(1, 8), Fraction(1, 16), Fraction(5, 32)]
    assert _trace(False, known, {0, 1, 2, 3}) == expected


def test_budget_absorption_saves_spends_and_nullifies(facts: Facts) -> None:
    known = facts("w-event:5", days=1, per_day=9)
    tenth = Fraction(1, 10)
    # Published at once with a tenth; three slots skipped; the fifth absorbs four tenths, and
    # the three after it are nullified although the counts jump in each of them.
    got = _trace(True, known, {0, 4, 5, 6, 7, 8})
    assert got == [tenth, 0, 0, 0, 4 * tenth, 0, 0, 0, tenth]


def test_square_root_factor() -> None:
    assert root_coefficients(5).tolist() == [1, 0.5, 0.375, 0.3125, 0.2734375]
    sizes = {24: 2.075, 168: 2.697, 720: 3.160, 8760: 3.956}
    for n, constant in sizes.items():
        assert root_error(n) == pytest.approx(constant, abs=5e-4)
    square = toeplitz(root_coefficients(4), np.zeros(4))
    assert square @ square == pytest.approx(np.tril(np.ones((4, 4))))


def test_tree_blocks() -> None:
    blocks = tree_matrix(8)
    assert blocks.shape == (15, 8)
    assert blocks.sum(axis=0).tolist() == [4] * 8  # one block of each size holds a slot
    assert worst_norm(blocks.astype(float), 1) == 2.0
    assert worst_norm(blocks.astype(float), 8) == pytest.approx((8 + 4 * 4 + 2 * 16 + 64) ** 0.5)


def test_fast_stretches_when_calm_and_shortens_when_not() -> None:
    pid = Pid()
    assert pid.signal([0.0, 0.0, 0.0, 0.0, 0.2], 1.0) == pytest.approx(0.9 * 0.2 + 0.1 * 0.2 / 5)
    assert pid.interval(3.0, [0.0] * 5, 1.0) == pytest.approx(3 + 5 * (1 - np.exp(-1)))
    assert pid.interval(3.0, [0.1, 0.1, 0.1, 0.1, 0.1], 1.0) == pytest.approx(3.0)
    assert pid.interval(3.0, [0.0, 0.0, 0.0, 0.0, 0.9], 1.0) == 1.0


def test_dsat_moves_its_threshold_towards_its_rate() -> None:
    scheme = Dsat()
    # 1 of 10 published where 2 of 20 are wanted: E = 0, | |E| - 0.05 | / 0.05 = 1, down by 0.5.
    assert scheme.moved_threshold(1.5, count=1, seen=10, most=2, slots=20) == pytest.approx(1.0)
    # 3 of 10 where 1 in 10 is wanted: E = 0.2, | 0.2 - 0.05 | / 0.05 = 3, up by 1.5, at most 2.
    assert scheme.moved_threshold(0.1, count=3, seen=10, most=2, slots=20) == pytest.approx(1.6)
    assert scheme.moved_threshold(1.0, count=3, seen=10, most=2, slots=20) == 2.0
    assert scheme.moved_threshold(0.2, count=1, seen=10, most=2, slots=20) == 0.0


def test_rescue_budget_and_interval_steps() -> None:
    scheme = Rescue()
    assert scheme.share(1.0) == pytest.approx(0.2 * np.log(2))
    assert scheme.share(1000.0) == 0.6
    calm = scheme.interval(np.array([2.0]), np.array([0.0]), 5.0)
    wild = scheme.interval(np.array([2.0]), np.array([20.0]), 5.0)
    assert (calm[0], wild[0]) == (12.0, 1.0)


def test_consistency_of_a_small_histogram() -> None:
    noisy = np.array([5.0, -2.0, 3.0, 0.0])
    for seed in range(20):
        made = random_decrements(noisy, np.random.default_rng(seed))
        assert made.sum() == 6
        assert (made >= 0).all()
        assert made[1] == made[3] == 0
    assert nearest_counts(np.array([70.0, 40.0, -10.0])).tolist() == [65, 35, 0]
    assert nearest_counts(np.array([-4.0, 1.0])).tolist() == [0, 0]
    assert random_decrements(np.array([-4.0, 1.0]), np.random.default_rng(0)).tolist() == [0, 0]


def test_random_decrements_have_the_law_of_the_printed_loop() -> None:
    noisy, runs = np.array([3.0, -3.0, 1.0, 2.0]), 6000

    def literal(rng: np.random.Generator) -> tuple[int, ...]:
        counts, left = [3, 0, 1, 2], 3
        while left > 0 and sum(counts) > 0:
            j = int(rng.integers(4))
            if counts[j] > 0:
                counts[j] -= 1
                left -= 1
        return tuple(counts)

    rng = np.random.default_rng(1)
    ours = [tuple(random_decrements(noisy, rng).tolist()) for _ in range(runs)]
    theirs = [literal(rng) for _ in range(runs)]
    outcomes = [o for o in product(range(4), (0,), range(2), range(3)) if sum(o) == 3]
    assert set(ours) <= set(outcomes)
    for outcome in outcomes:
        p, q = ours.count(outcome) / runs, theirs.count(outcome) / runs
        assert abs(p - q) < 5 * (0.5 / runs) ** 0.5
