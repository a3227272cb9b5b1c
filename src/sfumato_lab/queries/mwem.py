"""MWEM: a table that is fitted to the questions it answers worst, one after the other.

After Hardt, Ligett & McSherry (2012), with Gaussian noise and accounts in zero-concentrated DP. A
*hypothesis* is a table of places x slots. In each round the question that it answers worst is
chosen privately, measured, and the table is multiplied up or down in the question's cells until it
agrees with everything that was measured. It begins uniform, as printed; or as the product of noisy
margins; or as a release, which costs nothing more.

What is counted: `Source.weighted`, where a person's mass m_t in slot t has an L2 norm over slots of
at most C. Answers from that table are of people so weighted; its level is brought back by a
separate capped total, or by the release's own.

*Claim.* Unit: a user's whole record; neighbours add or remove one. A person moves a question of s
slots by at most the sum of m_t over them, which is at most C sqrt(s) (Cauchy and Schwarz); D is
that bound for the question with the most slots. In each of R rounds

* the choice: costs are minus |answer - hypothesis|, integers, of which each moves by at most D,
  so any two move apart by at most 2 D. The exponential mechanism with softness 2 D / eta has
  bounded range eta: eta^2 / 8 (Cesar & Rogers 2021);
* the measurement: the chosen answer moves by at most D; Gaussian noise of variance s^2 costs
  D^2 / (2 s^2). A question with fewer slots moves less and is measured on a lattice that is finer
  in that proportion: the price is the same, whichever was chosen.

They add up to R (eta^2 / 8 + D^2 / (2 s^2)), and the margins to their own Gaussian costs.
Choices and measurements may depend on all earlier answers: zero-concentrated DP composes
adaptively. The hypothesis is computed from noisy numbers alone.

The textbook's promise is asymptotic and for the worst question. On a city of 200,000 people a
release answers ranges better (docs/benchmarks/queries.md). No interval is printed: errors of the
fit are not noise that was drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.counts import WEIGHT_UNITS, Counting, Counts, WeightBound
from sfumato.model.masks import Measure
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.privacy.accounting import zcdp_rho
from sfumato.privacy.calibration import LARGEST as MOST_EPSILON
from sfumato.privacy.calibration import gaussian_sigma2
from sfumato.privacy.events import BoundedRangeEvent, GaussianEvent, PrivacyEvent
from sfumato.privacy.exact import decimal_up, rounded_up
from sfumato.privacy.last_resort import numbers
from sfumato.privacy.mechanisms.additive import LARGEST, bounded
from sfumato.privacy.noise import representable_softness
from sfumato.privacy.wall import Wall
from sfumato.queries.question import Question
from sfumato.queries.together import JointPlan
from sfumato.queries.workload import Asked, Table, Whole, Workload

if TYPE_CHECKING:
    from sfumato.queries.desk import Desk

LIMIT = 4.0
"""C: of 3, 4, 6 and 8 the best or near it on a made-up city (seed 911, 200,000 people)."""
ROUNDS = 30
"""There 30 rounds from margins had .084 / .064 (epsilon .3 / 1), 10 rounds .083 / .067."""
PASSES = 10
"""Through everything measured, after each round."""
_SELECTING = Fraction(3, 10)
"""Share of a round that pays for the choice."""
_PLACES_LIMIT, _CAP = 16.0, 250
"""Place totals and the level are bounded as in `bayes` (docs/decisions/bayes.md)."""
_FINE = 1 << 8
"""Steps in which the lattice of a short question is made finer."""
_FLOOR = 0.02
"""A noisy margin is at least this share of its mean: a cell at zero would stay there."""
_STEEPEST = 1.0
"""A step is cut at a factor e: beyond, the textbook's update may run away."""


class Start(StrEnum):
    """Where the hypothesis begins."""

    UNIFORM = "uniform"
    """The same everywhere."""
    MARGINS = "margins"
    """The product of noisy totals of places and of slots."""
    RELEASE = "release"
    """A published table."""


_SHARES: dict[Start, dict[str, Fraction]] = {
    Start.UNIFORM: {"slots": Fraction(5, 100), "level": Fraction(2, 100)},
    Start.MARGINS: {
        "places": Fraction(22, 100),
        "slots": Fraction(10, 100),
        "level": Fraction(2, 100),
    },
    Start.RELEASE: {"slots": Fraction(5, 100)},
}
"""Of rho; the rounds have the rest. Slot totals also tell how much mass the weights leave."""


@dataclass(frozen=True, slots=True, eq=False)
class MwemPlan:
    """What is measured in which order, and what it costs."""

    rows: Workload
    start: Start
    limit: float
    rounds: int
    softness: Fraction
    spread: int
    """2 D in lattice units: how far a person moves two costs apart."""
    finer: Whole
    """Of each question: the factor of its lattice, `_FINE` for the longest."""
    events: dict[str, PrivacyEvent]

    def sigma2(self, label: str) -> Fraction:
        """Variance of one Gaussian measurement."""
        event = self.events[label]
        assert isinstance(event, GaussianEvent)
        return event.sigma2


@dataclass(frozen=True, slots=True)
class Measured:
    """A question by its number, and its noisy answer."""

    row: int
    value: float


@dataclass(frozen=True, slots=True, eq=False)
class Hypothesis:
    """A table that answers questions, and what it was fitted to."""

    table: Table
    measured: tuple[Measured, ...]

    def answers(self, rows: Workload) -> Table:
        """The answer of every question: the sum of its cells."""
        return np.asarray(rows.sums(self.table), dtype=np.float64)


def plan_mwem(
    questions: Iterable[Asked],
    shape: tuple[int, int],
    *,
    epsilon: float,
    delta: float,
    start: Start = Start.MARGINS,
    limit: float = LIMIT,
    rounds: int = ROUNDS,
) -> MwemPlan:
    """Divide the budget between start and rounds.

    Args:
        questions: Sets of places and slots; visits are counted.
        shape: Places and slots of the frame.
        epsilon: Of everything together.
        delta: Of everything together.
        start: Where the hypothesis begins.
        limit: C, the most that a person's visits weigh, as a norm over slots.
        rounds: How many questions are chosen and measured.

    Returns:
        The plan, with every charge by its label.

    Raises:
        UsageError: A number is out of range.

    Example:
        >>> from sfumato.queries.workload import Row
        >>> rows = [Row((place,), (0, 1)) for place in range(4)]
        >>> plan = plan_mwem(rows, (4, 8), epsilon=1.0, delta=1e-6, rounds=2)
        >>> [label for label in plan.events if label.startswith("round 2")]
        ['round 2: choice', 'round 2: answer']
    """
    rows = Workload.of(shape, questions)
    if not 1 <= rounds <= 10_000:
        raise UsageError("MWEM runs between 1 and 10,000 rounds.")
    if not 0 < epsilon <= MOST_EPSILON:
        raise UsageError(f"The epsilon of MWEM lies above 0 and at most at {MOST_EPSILON:,.0f}.")
    bound, rho = WeightBound(limit), Fraction(zcdp_rho(epsilon, delta))
    whole = bound.l2(shape[1])
    l2 = {"places": _PLACES_LIMIT * WEIGHT_UNITS, "slots": whole, "level": float(_CAP)}
    cells = {"places": shape[0], "slots": shape[1], "level": 1}
    events: dict[str, PrivacyEvent] = {}
    for label, share in _SHARES[start].items():
        size = rounded_up(l2[label])
        events[label] = GaussianEvent(size, gaussian_sigma2(size, rho * share), cells[label])
    each = rho * (1 - sum(_SHARES[start].values())) / rounds
    longest = int(rows.slot_counts.max())
    most = rounded_up(whole * math.sqrt(longest) * (1 + 1e-12))
    spread = 2 * math.ceil(most)
    eta = math.sqrt(8 * float(each * _SELECTING)) * (1 - 1e-12)
    softness = representable_softness(Fraction(spread) / Fraction(eta))
    choice = BoundedRangeEvent(decimal_up(spread / softness))
    size = float(math.ceil(most * _FINE))
    answer = GaussianEvent(size, gaussian_sigma2(size, each * (1 - _SELECTING)), 1)
    for number in range(1, rounds + 1):
        events |= {f"round {number}: choice": choice, f"round {number}: answer": answer}
    finer = np.floor(_FINE * np.sqrt(longest / rows.slot_counts) * (1 - 1e-12)).astype(np.int64)
    finer = np.maximum(finer, _FINE)  # the longest has exactly that
    return MwemPlan(rows, start, limit, rounds, softness, spread, finer, events)


def run_mwem(
    source: Source, wall: Wall, plan: MwemPlan, release: Table | None = None
) -> Hypothesis:
    """Measure the start, then choose, measure and fit in every round.

    Args:
        source: Whose visits are counted.
        wall: Charges every step before it is taken.
        plan: What `plan_mwem` made.
        release: The published table to begin with, where the plan does.

    Returns:
        The hypothesis, at the level of all visits.

    Raises:
        UsageError: The plan begins with a release and there is none, or the other way round.
    """
    bound = WeightBound(plan.limit)
    if (release is None) == (plan.start is Start.RELEASE):
        raise UsageError("A release is given exactly where the plan begins with one.")
    slots = wall.gaussian(
        source.slot_totals(bound, Counting.VISITS), sigma2=plan.sigma2("slots"), label="slots"
    ).estimate()
    start, level = _begin(source, wall, plan, slots, release)
    total = max(float(slots.sum()), 1.0)
    start *= total / start.sum()
    table = start
    box = source.weighted(bound, Counting.VISITS)
    measured: list[Measured] = []
    for number in range(1, plan.rounds + 1):
        chosen = wall.select(
            _costs(box, plan.rows, table),
            softness=plan.softness,
            range_units=plan.spread,
            label=f"round {number}: choice",
        )
        label = f"round {number}: answer"
        answer = wall.gaussian(
            _answer(box, plan, chosen.index), sigma2=plan.sigma2(label), label=label
        )
        measured.append(Measured(chosen.index, float(answer.estimate()[0])))
        table = fitted(table, plan.rows, measured)
    return Hypothesis(table * (level / total), tuple(measured))


def together(
    desk: Desk, asked: list[Question], epsilon: float, visits: float, rounds: int | None
) -> JointPlan:
    """Questions of a desk: fitted from its release, or from noisy margins where it has none."""
    del visits  # what a person weighs is bounded by the table, not by the questions
    if asked[0].measure is not Measure.VISITS:
        raise UsageError("MWEM fits a table of visits.", remedy="Ask for visits, or a batch.")
    rounds = ROUNDS if rounds is None else rounds
    shape, begun = (desk.frame.places, desk.frame.slots), desk.released_table()
    start = Start.MARGINS if begun is None else Start.RELEASE
    plan = plan_mwem(
        asked, shape, epsilon=epsilon, delta=desk.asking.delta, start=start, rounds=rounds
    )

    def draw(wall: Wall) -> dict[str, Any]:
        values = run_mwem(desk.source(), wall, plan, begun).answers(Workload.of(shape, asked))
        numbers(values)
        return {"values": np.round(values, 6).tolist()}

    bound = {"rounds": rounds, "start": desk.released_name()}
    return JointPlan(plan.events, draw, bound, whole=True)


def fitted(
    table: Table, rows: Workload, measured: Sequence[Measured], passes: int = PASSES
) -> Table:
    """Multiplicative weights: every measured question's cells are moved towards its answer.

    The textbook's step: cells inside are multiplied by exp((answer - own) / (2 total)) and all
    of them brought back to the total. The newest answer comes first.
    """
    total = float(table.sum())
    work, sum_now, summed = table.copy(), total, total
    cells = [rows.cells(one.row) for one in measured]
    for _ in range(passes):
        for one, index in zip(reversed(measured), reversed(cells), strict=True):
            inside = work[index]
            own = float(inside.sum())
            gap = one.value - own * (total / sum_now)
            step = min(max(gap / (2.0 * total), -_STEEPEST), _STEEPEST)
            factor = math.exp(step)
            work[index] = inside * factor
            sum_now += own * (factor - 1.0)
            if not 0.25 * summed < sum_now < 4 * summed:  # before differences eat its digits
                work *= total / float(work.sum())
                sum_now = summed = total
    return np.asarray(work * (total / float(work.sum())))


def _begin(
    source: Source, wall: Wall, plan: MwemPlan, slots: Table, release: Table | None
) -> tuple[Table, float]:
    """The first hypothesis, up to its total, and the level of all visits."""
    shape = plan.rows.shape
    if release is not None:
        if release.shape != shape:
            raise UsageError("The release has other places or slots than the questions.")
        least = _FLOOR * float(np.maximum(release, 0).mean())
        begun = np.maximum(np.asarray(release, dtype=np.float64), max(least, 1e-9))
        return begun, float(np.maximum(release, 0).sum())
    total = wall.gaussian(
        source.capped_total(_CAP, Counting.VISITS), sigma2=plan.sigma2("level"), label="level"
    )
    level = max(float(total.estimate()[0]), 1.0)
    if plan.start is Start.UNIFORM:
        return np.ones(shape), level
    places = wall.gaussian(
        source.place_totals(WeightBound(_PLACES_LIMIT), Counting.VISITS),
        sigma2=plan.sigma2("places"),
        label="places",
    )
    return np.outer(_positive(places.estimate()), _positive(slots)), level


def _positive(noisy: Table) -> Table:
    """A noisy margin without negative numbers; the same everywhere where it is all noise."""
    mean = float(noisy.mean())
    return np.maximum(noisy, _FLOOR * mean) if mean > 0 else np.ones(noisy.size)


def _costs(box: Private[Counts], rows: Workload, table: Table) -> Private[NDArray[np.int64]]:
    """Minus how far each answer is from the hypothesis, in lattice units: integers."""
    places, slots = rows.shape
    guess = np.rint(rows.sums(table) * WEIGHT_UNITS)
    public = np.clip(guess, -float(LARGEST // 4), float(LARGEST // 4)).astype(np.int64)
    # Cut where a sum could wrap: a public limit that moves no two neighbours further apart.
    most = LARGEST // (4 * places * slots)

    def costs(counts: Counts) -> NDArray[np.int64]:
        return np.asarray(-np.abs(rows.sums(bounded(counts.values, most)) - public), np.int64)

    return box.map(costs, "costs of questions")


def _answer(box: Private[Counts], plan: MwemPlan, row: int) -> Private[Counts]:
    """One question's answer on its lattice, with the sensitivity that all of them have."""
    index, finer = plan.rows.cells(row), int(plan.finer[row])
    most = LARGEST // (finer * plan.rows.shape[0] * plan.rows.shape[1])
    event = plan.events["round 1: answer"]
    assert isinstance(event, GaussianEvent)
    moved = event.l2

    def answer(counts: Counts) -> Counts:
        value = int(bounded(counts.values[index], most).sum()) * finer
        units = counts.units_per_count * finer
        values = np.array([value], np.int64)
        return replace(
            counts, values=values, units_per_count=units, l1=moved, l2=moved, what="a question"
        )

    return box.map(answer, "a question")
