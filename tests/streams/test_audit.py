"""Streams under the empirical audit: nothing proves more than it claims, what lies is caught.

Neighbours: everybody stands still, or one person more who changes cell every slot. What is
released is all that a stream puts out: every number, and which slots were measured anew.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.audits.bounds import EpsilonBound, epsilon_lower_bound
from sfumato.model.private import Private
from sfumato.model.time_grid import Calendar
from sfumato.privacy.events import Unit
from sfumato.privacy.mechanisms.sparse_vector import Histograms
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts
from sfumato.streams.replay import boxed, run_scheme
from sfumato.streams.scheme import StreamScheme
from sfumato.streams.schemes.baselines import Direct, Mean, Sample
from sfumato.streams.schemes.profile import Profile
from sfumato.streams.schemes.rhythm.scheme import Rhythm
from sfumato.streams.schemes.smoother.scheme import Smoother
from sfumato_lab.as_printed.streams import division
from sfumato_lab.streams.dsat import Dsat
from sfumato_lab.streams.fast import Fast
from sfumato_lab.streams.hybrid import Hybrid
from sfumato_lab.streams.rescuedp import Rescue
from sfumato_lab.streams.threshold import Threshold
from sfumato_lab.streams.w_event import WEvent

pytestmark = pytest.mark.privacy

SLOTS, EPSILON = 4, 1.0
Rows = NDArray[np.float64]
Note = Callable[[str, list[str]], None]

SCHEMES: dict[str, StreamScheme] = {
    "sample": Sample(),
    "mean": Mean(),
    "direct": Direct(),
    "threshold": Threshold(threshold=3, cutoff=2),
    "static-hybrid": Hybrid(finished=True),
    "by score": Hybrid(finished=True, by_score=True),
    "dynamic-hybrid": Hybrid(finished=False),
    "bd": WEvent(absorb=False),
    "ba": WEvent(absorb=True),
    "dsat": Dsat(),
    "fast": Fast(),
    "rescuedp": Rescue(),
    "rhythm": Rhythm(snapshots=2, whole=False),
    "profile": Profile(parts=2, whole=False),
    "smoother": Smoother(parts=2),
}


def neighbours() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    still = np.tile(np.array([5, 1]), (SLOTS, 1))
    mover = still.copy()
    mover[np.arange(SLOTS), np.arange(SLOTS) % 2] += 1
    return mover, still


def proved(scheme: StreamScheme, runs: int, epsilon: float = EPSILON) -> EpsilonBound:
    """What the audit proves of a scheme that runs with `epsilon`."""
    calendar = Calendar.regular(SLOTS, SLOTS)
    facts = StreamFacts(2, calendar, epsilon, 0.0, Unit.parse("user-period"), 10)

    def released(counts: NDArray[np.int64], first: int) -> Rows:
        rows = []
        for seed in range(first, first + runs):
            run = run_scheme(scheme, facts, counts, seed)
            rows.append(np.concatenate((run.values.ravel(), run.fresh.astype(float))))
        return np.array(rows)

    mover, still = neighbours()
    return epsilon_lower_bound(released(mover, 0), released(still, 10**6), confidence=0.999)


def row(name: str, spends: float, found: EpsilonBound) -> list[str]:
    """One row of the table."""
    verdict = "holds" if found.epsilon <= EPSILON else "VIOLATED"
    bound, runs = f"{found.epsilon:.4g}", f"{found.runs:,}"
    return [name, f"{spends:g}", f"ε ≤ {EPSILON:g}", bound, verdict, runs, found.event]


@pytest.mark.parametrize("name", ["threshold"])
def test_no_more_is_proved_than_claimed(name: str) -> None:
    assert proved(SCHEMES[name], 120).epsilon <= EPSILON


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
def test_no_more_is_proved_than_claimed_of_any(name: str, note: Note) -> None:
    found = proved(SCHEMES[name], 2000)
    note("runs", row(name, EPSILON, found))
    assert found.epsilon <= EPSILON


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["sample", "direct", "threshold", "static-hybrid", "ba", "rhythm", "profile", "smoother"],
)
def test_a_stream_that_spends_six_times_what_it_says_is_caught(name: str, note: Note) -> None:
    """The same audit, of the same size, sees a stream whose noise is that of epsilon 6."""
    found = proved(SCHEMES[name], 2000, epsilon=6 * EPSILON)
    note("runs", row(name, 6 * EPSILON, found))
    assert found.epsilon > EPSILON


def printed_days(days: int, epsilon: float, runs: int) -> tuple[Rows, Rows]:
    """Daytimes chosen as printed on each of several days: somebody moves all day, or nobody."""
    still = np.zeros((19, 2), dtype=np.int64)
    still[:, 0] = 5
    mover = still.copy()
    mover[np.arange(19), np.arange(19) % 2] += 1
    rng = np.random.default_rng(0)
    law_with, law_without = division(mover, epsilon, rng)[1], division(still, epsilon, rng)[1]
    score = np.log(law_with / law_without)

    def drawn(law: Rows) -> Rows:
        chosen = rng.choice(law.size, size=(runs, days), p=law)
        # What the attacker looks at: how much likelier each choice is with the mover.
        return np.column_stack((chosen, score[chosen].sum(axis=1)))

    return drawn(law_with), drawn(law_without)


def test_the_printed_time_division_is_caught() -> None:
    with_mover, without = printed_days(1, 1.0, 40_000)
    found = epsilon_lower_bound(with_mover, without, confidence=0.999)
    assert found.epsilon > 1.0


def test_days_that_are_called_parallel_are_caught() -> None:
    """Seven past days at epsilon 0.3 each are claimed to cost 0.3 in all."""
    with_mover, without = printed_days(7, 0.3, 40_000)
    found = epsilon_lower_bound(with_mover, without, confidence=0.999)
    assert found.epsilon > 0.9


def sparse_run(histogram_scale: Fraction, runs: int) -> EpsilonBound:
    """What is proved of a run with two yeses and three histograms; the claim is for scale 6."""
    claimed = Fraction(1, 2)
    mover, still = neighbours()
    facts = StreamFacts(2, Calendar.regular(SLOTS, SLOTS), 1.0)

    def released(counts: NDArray[np.int64], first: int) -> Rows:
        rows = np.full((runs, 3 * 2 + SLOTS), -50.0)
        for run in range(runs):
            wall = Wall.seeded(first + run)
            vector = wall.sparse_vector(
                threshold=2,
                sensitivity=2,
                positives=2,
                threshold_scale=2 * 5 / claimed,
                query_scale=2 * 2 * 2 * 5 / (4 * claimed),
                histograms=Histograms(most=3, l1=1.0, scale=histogram_scale),
                label="run",
            )
            published = 0
            for slot in range(SLOTS):
                apart = int(np.abs(counts[slot] - counts[max(slot - 1, 0)]).sum())
                yes = slot == 0 or (
                    not vector.finished and vector.above(Private(apart, "distance"))
                )
                rows[run, 6 + slot] = yes
                if yes and published < 3:
                    found = vector.publish(boxed(counts[slot], facts))
                    rows[run, 2 * published : 2 * published + 2] = found.estimate()
                    published += 1
        return rows

    return epsilon_lower_bound(released(mover, 0), released(still, 10**6), confidence=0.999)


@pytest.mark.slow
def test_histograms_between_the_questions_of_a_sparse_vector(note: Note) -> None:
    """D/b_T + 2 k D/b_q + h l1/b_H = 0.1 + 0.4 + 0.5; with a tenth of the last noise it shows."""
    right, wrong = sparse_run(Fraction(6), 3000), sparse_run(Fraction(6, 10), 3000)
    note("runs", row("sparse vector with histograms", 1.0, right))
    note("runs", row("sparse vector with histograms", 5.5, wrong))
    assert right.epsilon <= 1.0 < wrong.epsilon
