"""Many questions planned together: the best of a few strategies, answered by least squares.

Independent answers divide the budget by the number of questions, however much these overlap. A
batch measures a *strategy* instead, rows of its own that every question can be made of, and
answers each question by weighted least squares: the matrix mechanism (Li et al. 2015), with the
best of a few strategies instead of an optimised one:

* `questions`: the questions themselves, all at once;
* `atoms`: the products of classes that the questions cut places and slots into;
* `atoms and margins`: those, and the totals of every class of places and of slots;
* `atoms by time`: those, and their sums over runs of 2, 4, 8 … classes of slots.

Which one is a public choice: the expected squared error follows from the questions, the budget
and the public number of visits of a busy person, and the least is taken. No data has a part in
it, so it costs nothing.

*Claim.* Unit: a user's whole record; neighbours add or remove one. Each group of rows is one
measurement of `Source.answers`: a person's vector of answers v is scaled to L2 at most C, a public
number, whoever they are, so one person moves the group by at most C in L2 and Gaussian noise of
variance s^2 costs C^2 / (2 s^2) in zero-concentrated DP. Groups add up. Everything after them is
computed from noisy numbers.

*The sensitivity is that of person vectors, never the column norm of the strategy.* A column is what
one visit moves; a person makes many. Of 30 visits in 30 cells, each cell and the total see
sqrt(30 + 30^2) = 30.5, while 30 columns of norm sqrt(2) that are thought to add up like their
squares give sqrt(60) = 7.75: noise for that protects nobody. `person_norm` is the former. It sets
C so that a usual person is counted whole, and a wrong guess costs accuracy, not privacy:
who has a longer vector is scaled down.

An answer is that of the people so scaled, its interval is about that number: noise, not clipping.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.counts import WEIGHT_UNITS, WeightBound
from sfumato.model.masks import Masks, Measure
from sfumato.model.source import Source
from sfumato.privacy.calibration import GaussianPart, calibrate_gaussians
from sfumato.privacy.events import GaussianEvent
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.wall import Wall
from sfumato.queries.workload import Asked, Table, Workload

VISITS = 30
"""Visits of a busy person where nobody says otherwise: the bound of Acs & Castelluccia (2014). On
made-up cities of 200,000 people (13.6 visits a week on average, 95 in 100 people below 43) the
batch of 2,000 ranges was best between 15 and 30."""
MOST_ROWS = 1_024
"""Rows of a strategy that are solved by a dense decomposition: a few seconds."""
MOST_ATOMS = 1 << 14
"""Atoms that are counted in one pass: 256 words of bits a visit."""
_NEGLIGIBLE = 1e-9
"""Eigenvalues below this share of the largest are zero: shared cells are whole numbers."""
HALF_WIDTH = 1.6448536269514722
"""Standard deviations on either side that hold 90 in 100 draws of a Gaussian."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Rows that are measured together: their limit C and their noise."""

    label: str
    rows: Workload
    limit: float
    event: GaussianEvent

    @property
    def sd(self) -> float:
        """Of the noise on each row, in counts."""
        return math.sqrt(float(self.event.sigma2)) / WEIGHT_UNITS


@dataclass(frozen=True, slots=True, eq=False)
class BatchPlan:
    """What will be measured, how answers are made of it, and how exact they will be."""

    strategy: str
    measure: Measure
    groups: tuple[Group, ...]
    reading: Callable[[Table], Table]
    """From all noisy rows, group after group, to the answers."""
    sd: Table
    """Standard deviation of the noise on each answer."""
    considered: Mapping[str, float]
    """Strategies and their expected root mean square error over the questions."""

    @property
    def events(self) -> dict[str, GaussianEvent]:
        """What is charged, by label."""
        return {group.label: group.event for group in self.groups}


@dataclass(frozen=True, slots=True, eq=False)
class BatchAnswers:
    """Answers in the order of the questions; 90 % half-widths of their noise."""

    values: Table
    plus_minus: Table
    strategy: str


def person_norm(rows: Workload, visits: float, measure: Measure = Measure.VISITS) -> float:
    """L2 norm of a busy person's answers: so many visits at one place, at times spread evenly.

    The place is the one that rows ask about most. (With the mean over places, few questions that
    share a place had a norm that ordinary visitors of it pass: 14 of 100 visits were lost.)

    Args:
        rows: A strategy.
        visits: How many visits; they fall on slots of the period at random.
        measure: What is counted.

    Example:
        >>> from sfumato.queries.workload import Row
        >>> cells = [Row((0,), (slot,)) for slot in range(30)]
        >>> round(person_norm(Workload.of((1, 30), [*cells, Row((0,), tuple(range(30)))]), 30), 1)
        30.5
    """
    slots = rows.shape[1]
    share = rows.slot_counts / slots
    if measure is Measure.VISITS:
        most = min(visits, slots)
        # drawn without replacement: a slot is visited or not
        left = (slots - most) / max(slots - 1, 1)
        square = (most * share) ** 2 + most * share * (1 - share) * left
    else:
        square = 1 - (1 - share) ** visits
    return float(math.sqrt(np.asarray(rows.places.T @ square).max()))


def plan_batch(
    questions: Iterable[Asked],
    shape: tuple[int, int],
    *,
    epsilon: float,
    delta: float,
    measure: Measure = Measure.VISITS,
    visits: float = VISITS,
) -> BatchPlan:
    """Choose a strategy for the questions from public facts alone.

    Args:
        questions: Sets of places and slots; all are of the one measure.
        shape: Places and slots of the frame.
        epsilon: Of the whole batch.
        delta: Of the whole batch.
        measure: What is counted.
        visits: Visits of a busy person, who shall be counted whole. A public guess.

    Returns:
        The strategy with the least expected squared error, and what it costs.

    Raises:
        UsageError: There is no question, or a number is out of range.

    Example:
        >>> from sfumato.queries.workload import Row
        >>> rows = [Row((0,), tuple(range(first, first + 12))) for first in range(12)]
        >>> plan = plan_batch(rows, (1, 24), epsilon=1.0, delta=1e-6)
        >>> plan.strategy in plan.considered
        True
    """
    rows = Workload.of(shape, questions)
    if not (math.isfinite(visits) and visits >= 1):
        raise UsageError("A busy person makes at least one visit.")
    found: dict[str, BatchPlan] = {}
    for name, parts in _strategies(rows).items():
        limits = [person_norm(part, visits, measure) for part in parts.values()]
        groups = _groups(parts, limits, epsilon, delta)
        made = _reading(rows, groups)
        if made is not None:
            found[name] = BatchPlan(name, measure, groups, *made, {})
    errors = {name: float(np.sqrt(np.mean(plan.sd**2))) for name, plan in found.items()}
    best = found[min(errors, key=lambda name: errors[name])]
    return BatchPlan(best.strategy, measure, best.groups, best.reading, best.sd, errors)


def run_batch(source: Source, wall: Wall, plan: BatchPlan) -> BatchAnswers:
    """Measure the strategy and answer the questions.

    Args:
        source: Whose people are asked about.
        wall: Charges every group before it is measured.
        plan: What `plan_batch` chose.

    Returns:
        The answers, with intervals for the noise.
    """
    noisy = []
    for group in plan.groups:
        masks = Masks.of(*group.rows.shape, group.rows.sets)
        box = source.answers(masks, plan.measure, WeightBound(group.limit))
        measured = wall.gaussian(
            box, sigma2=group.event.sigma2, label=group.label, touched=group.event.touched
        )
        noisy.append(measured.estimate())
    return BatchAnswers(plan.reading(np.concatenate(noisy)), HALF_WIDTH * plan.sd, plan.strategy)


def _strategies(rows: Workload) -> dict[str, dict[str, Workload]]:
    """Groups of rows by label, of every strategy that is small enough to be tried."""
    found = {"questions": {"questions": rows}}
    if rows.atom_count() > MOST_ATOMS:
        return found
    atoms = rows.atoms()
    found["atoms"] = {"atoms": atoms}
    places, slots = sorted({a for a, _ in atoms.sets}), sorted({b for _, b in atoms.sets})
    everywhere = tuple(sorted({p for part in places for p in part}))
    always = tuple(sorted({s for part in slots for s in part}))
    # Rows about which no question says anything would be paid for: whole products only.
    if len(atoms) == len(places) * len(slots) and len(places) > 1 and len(slots) > 1:
        margins = [(part, always) for part in places] + [(everywhere, part) for part in slots]
        total = Workload.of_sets(rows.shape, [*margins, (everywhere, always)])
        found["atoms and margins"] = {"atoms": atoms, "margins": total}
    by_time, run = {"atoms": atoms}, 2
    while run < 2 * len(slots):
        merged = _merged(atoms, slots, run)
        if len(merged) > 1:
            by_time[f"runs of {run}"] = Workload.of_sets(rows.shape, merged)
        run *= 2
    if len(by_time) > 1:
        found["atoms by time"] = by_time
    return found


def _merged(
    atoms: Workload, slots: list[tuple[int, ...]], run: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Atoms of the same places in runs of so many classes of slots."""
    number = {part: k // run for k, part in enumerate(slots)}
    sums: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for places, part in atoms.sets:
        sums.setdefault((places, number[part]), []).extend(part)
    return [(places, tuple(sorted(members))) for (places, _), members in sums.items()]


def _groups(
    parts: Mapping[str, Workload], limits: list[float], epsilon: float, delta: float
) -> tuple[Group, ...]:
    """Every group has the same share of rho."""
    share = Fraction(1, len(parts))
    asked = [
        GaussianPart(rounded_up(limit * WEIGHT_UNITS), len(rows), share)
        for rows, limit in zip(parts.values(), limits, strict=True)
    ]
    found = calibrate_gaussians(epsilon, delta, asked)
    return tuple(
        Group(label, rows, limit, GaussianEvent(part.l2, sigma2, part.touched))
        for (label, rows), limit, part, sigma2 in zip(
            parts.items(), limits, asked, found.sigma2, strict=True
        )
    )


def _reading(
    questions: Workload, groups: tuple[Group, ...]
) -> tuple[Callable[[Table], Table], Table] | None:
    """The best linear unbiased answers, and their noise; None where rows are too many.

    With rows R and questions Q over the cells, divided by the noise of each row, the answers are
    Q R' (R R')^+ y: Q R^+ y, the least squares solution. Both products are numbers of shared cells.
    """
    rows = [group.rows for group in groups]
    sd = np.concatenate([np.full(len(group.rows), group.sd) for group in groups])
    if len(groups) == 1 and _disjoint(rows[0]):
        parts: NDArray[np.bool_] = questions.shared(rows[0]) > 0
        whole = parts.astype(np.float64)
        return (lambda noisy: whole @ noisy), np.asarray(sd[0] * np.sqrt(whole.sum(axis=1)))
    if sd.size > MOST_ROWS:
        if len(groups) > 1 or rows[0] is not questions:
            return None
        return (lambda noisy: np.asarray(noisy, dtype=np.float64)), sd
    gram = np.block([[one.shared(other) for other in rows] for one in rows]) / np.outer(sd, sd)
    cross = np.concatenate([questions.shared(one) for one in rows], axis=1) / sd
    values, vectors = np.linalg.eigh(gram)
    kept = values > _NEGLIGIBLE * values[-1]
    solved = ((cross @ vectors[:, kept]) / values[kept]) @ vectors[:, kept].T
    left = np.diag(questions.shared(questions)) - np.einsum("ij,ij->i", solved, cross)
    if bool((left > 1e-6 * np.diag(questions.shared(questions))).any()):
        return None  # a question is not made of these rows
    weights = solved / sd
    return (lambda noisy: weights @ noisy), np.linalg.norm(solved, axis=1)


def _disjoint(rows: Workload) -> bool:
    if len(rows) > MOST_ROWS:  # pairs would be many: count how often a cell is held instead
        held = np.zeros(rows.shape, np.int64)
        for row in range(len(rows)):
            held[rows.cells(row)] += 1
        return int(held.max()) <= 1
    shared = rows.shared(rows)
    return bool(np.count_nonzero(shared) == len(rows))
