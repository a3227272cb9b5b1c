"""Error against the number of questions: every way of answering, on the same questions.

* `independent`: each question alone, a person clipped at C visits in it, rho divided by their
  number. Once with a C that clips hardly anybody, once with the smaller one that errs less.
* `batch`: `sfumato.queries.batch`. `mwem`: `sfumato.queries.mwem` from a uniform start, from noisy
  margins, and from a `bayes` release that half of epsilon paid for.
* `pmw`: `sfumato.queries.online`, started from a `bayes` release for half of epsilon; the questions
  come one by one.
* The published cube: sums over a `gaussian` and over a `bayes` release, for all of epsilon.
* `product of true margins`: no privacy at all, and no knowledge of which place is busy when.

All promise (epsilon, delta) for one user's whole record, the last one excepted. Noise is seeded and
marked so: this is a study. Settings were chosen on a city of seed 911 that is not judged.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.density.registry import scheme_named
from sfumato.lab.queries.ground import LEAST, Ground, Table, relative_error
from sfumato.model.counts import Counting, Counts, WeightBound
from sfumato.model.masks import Masks, Measure
from sfumato.model.private import Private
from sfumato.privacy.accounting import zcdp_rho
from sfumato.privacy.calibration import gaussian_sigma2
from sfumato.privacy.door import open_private
from sfumato.privacy.noise import SeededStream
from sfumato.privacy.wall import Wall
from sfumato.queries.batch import HALF_WIDTH, VISITS, plan_batch, run_batch
from sfumato.queries.mwem import Start, plan_mwem, run_mwem
from sfumato.queries.online import Session, plan_session
from sfumato.queries.question import Question
from sfumato.queries.workload import Workload

CLIP, SMALL_CLIP = 16, 4
"""Of independent answers: six and a hundred visits in a thousand are lost, on the city of seed 911.
Of 1 to 12 a clip of 3 or 4 erred least at epsilon 1."""
WHOLE = 240.0
"""Visits of a person whom a batch shall hardly ever scale down."""
UPDATES = 10
"""Corrections of a session. Its tests need noise in proportion."""
INDEPENDENT, CLIPPED = f"independent, C {CLIP}", f"independent, C {SMALL_CLIP}"
BATCH, BATCH_WHOLE = f"batch, {VISITS} visits", f"batch, {WHOLE:g} visits"
MWEM_UNIFORM, MWEM_MARGINS, MWEM_RELEASE = "MWEM, uniform", "MWEM, margins", "MWEM, bayes"
PMW, CUBE_GAUSSIAN, CUBE_BAYES = "PMW, bayes", "cube, gaussian", "cube, bayes"
PRODUCT = "product of true margins"
METHODS = (
    INDEPENDENT,
    CLIPPED,
    BATCH,
    BATCH_WHOLE,
    MWEM_UNIFORM,
    MWEM_MARGINS,
    MWEM_RELEASE,
    PMW,
    CUBE_GAUSSIAN,
    CUBE_BAYES,
    PRODUCT,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One method on so many questions in one draw of noise."""

    users: int
    epsilon: float
    method: str
    questions: int
    draw: int
    mre: float
    """Mean relative error of questions with ten true visits or more."""
    off: float
    """Mean absolute error, in visits."""
    worst: float
    """Largest absolute error, in visits."""
    held: float | None
    """Share of 90 % intervals that hold the answer of the people as they were bounded."""
    held_true: float | None
    """Share of them that hold the true answer."""
    cpu: float
    remark: str = ""

    @property
    def key(self) -> tuple[int, float, str, int, int]:
        return (self.users, self.epsilon, self.method, self.questions, self.draw)


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Answers, and where there are intervals their half-widths and what they are about."""

    values: Table
    plus_minus: Table | None = None
    bounded: Table | None = None
    remark: str = ""


@dataclass(eq=False)
class Setting:
    """One city, one epsilon, one draw; releases are made once and kept."""

    ground: Ground
    questions: list[Question]
    """All that are ever asked; a study takes the first ones."""
    epsilon: float
    draw: int
    _cubes: dict[tuple[str, int, int], Table] = field(default_factory=dict)

    def wall(self, label: str) -> Wall:
        name = f"{self.ground.seed}/{self.ground.users}/{self.epsilon:g}/{label}"
        return Wall.seeded(SeededStream(self.draw).child(name))

    def cube(self, scheme: str, parts: int = 1, of_delta: int = 1) -> Table:
        """A release's table, for one of so many parts of epsilon and of delta."""
        known = self._cubes.get((scheme, parts, of_delta))
        if known is None:
            facts = self.ground.facts(self.epsilon / parts, self.ground.delta / of_delta)
            with threadpool_limits(1):
                made = scheme_named(scheme).run(
                    self.ground.source, self.wall(f"{scheme} {parts} {of_delta}"), facts
                )
            known = np.asarray(made.values, dtype=np.float64)
            self._cubes[scheme, parts, of_delta] = known
        return known


class Answers:
    """Counts that methods share: clipped answers of all questions, asked once a city."""

    def __init__(self, ground: Ground, questions: Sequence[Question]) -> None:
        self.rows = Workload.of(ground.shape, questions)
        self.ground = ground
        self.truth = self.rows.sums(ground.truth).astype(np.float64)
        self._clipped: dict[int, NDArray[np.int64]] = {}

    def clipped(self, clip: int) -> NDArray[np.int64]:
        if clip not in self._clipped:
            self._clipped[clip] = self.ground.bounded(self.rows, clip)
        return self._clipped[clip]


def _one(value: int, clip: int) -> Private[Counts]:
    """A clipped answer that was counted before, in a box again."""
    counts = Counts(
        np.array([value], np.int64), 1, float(clip), float(clip), Counting.VISITS, "one question"
    )
    return Private(counts, "one question")


def _given(box: Private[Counts]) -> Private[Counts]:
    return box


def independent(clip: int) -> Callable[[Setting, Answers, int], Told]:
    """Every question alone; rho adds up, as the ledger adds it."""

    def answer(setting: Setting, known: Answers, many: int) -> Told:
        rho = Fraction(zcdp_rho(setting.epsilon, setting.ground.delta)) / many
        wall, exact = setting.wall(f"independent {clip} of {many}"), known.clipped(clip)[:many]
        values, widths = [], []
        for number, value in enumerate(exact.tolist()):
            most = min(clip, int(known.rows.slot_counts[number]))
            sigma2 = gaussian_sigma2(float(most), rho)
            measured = wall.gaussian(_one(value, most), sigma2=sigma2, label=f"question {number}")
            values.append(float(measured.estimate()[0]))
            widths.append(HALF_WIDTH * measured.sd)
        return Told(np.array(values), np.array(widths), exact.astype(np.float64))

    return answer


def batch(visits: float) -> Callable[[Setting, Answers, int], Told]:
    """All questions together."""

    def answer(setting: Setting, _: Answers, many: int) -> Told:
        ground, asked = setting.ground, setting.questions[:many]
        plan = plan_batch(
            asked, ground.shape, epsilon=setting.epsilon, delta=ground.delta, visits=visits
        )
        wall = setting.wall(f"batch {visits:g} of {many}")
        found = run_batch(ground.source, wall, plan)
        exact = [
            open_private(
                ground.source.answers(
                    Masks.of(*ground.shape, group.rows.sets),
                    Measure.VISITS,
                    WeightBound(group.limit),
                )
            )
            for group in plan.groups
        ]
        whole = np.concatenate([one.values / one.units_per_count for one in exact])
        return Told(found.values, found.plus_minus, plan.reading(whole), plan.strategy)

    return answer


def mwem(start: Start) -> Callable[[Setting, Answers, int], Told]:
    """A table fitted to the questions; from a release each part has half of epsilon."""

    def answer(setting: Setting, _: Answers, many: int) -> Told:
        ground, release = setting.ground, None
        epsilon, delta = setting.epsilon, ground.delta
        if start is Start.RELEASE:
            epsilon, delta = epsilon / 2, delta / 2
            release = setting.cube("bayes", 2, 2)
        rounds = min(30, many)
        plan = plan_mwem(
            setting.questions[:many],
            ground.shape,
            epsilon=epsilon,
            delta=delta,
            start=start,
            rounds=rounds,
        )
        found = run_mwem(ground.source, setting.wall(f"mwem {start} of {many}"), plan, release)
        return Told(found.answers(plan.rows), remark=f"{rounds} rounds")

    return answer


def online(setting: Setting, known: Answers, many: int) -> Told:
    """One question after the other, from a release for half of epsilon."""
    terms = plan_session(epsilon=setting.epsilon / 2, clip=CLIP, updates=UPDATES)
    # The session is pure: the release has all of delta.
    session = Session(terms, setting.cube("bayes", 2), setting.wall(f"pmw of {many}"))
    clips = np.minimum(CLIP, known.rows.slot_counts).tolist()
    boxes = [
        _one(value, clip) for value, clip in zip(known.clipped(CLIP).tolist(), clips, strict=True)
    ]
    for question, box in zip(setting.questions[:many], boxes, strict=False):
        session.ask(question, partial(_given, box))
    corrected = sum(turn.updated for turn in session.turns)
    return Told(
        np.array([turn.answer for turn in session.turns]),
        remark=f"{corrected} updates, threshold {terms.threshold:,}",
    )


def cube(scheme: str) -> Callable[[Setting, Answers, int], Told]:
    """Sums over a release."""

    def answer(setting: Setting, known: Answers, many: int) -> Told:
        table = setting.cube(scheme)
        return Told(np.asarray(known.rows.sums(table)[:many], dtype=np.float64))

    return answer


def product(setting: Setting, known: Answers, many: int) -> Told:
    """Places times slots, from the truth."""
    truth = setting.ground.truth.astype(np.float64)
    table = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / truth.sum()
    return Told(np.asarray(known.rows.sums(table)[:many], dtype=np.float64))


_ANSWER: dict[str, Callable[[Setting, Answers, int], Told]] = {
    INDEPENDENT: independent(CLIP),
    CLIPPED: independent(SMALL_CLIP),
    BATCH: batch(VISITS),
    BATCH_WHOLE: batch(WHOLE),
    MWEM_UNIFORM: mwem(Start.UNIFORM),
    MWEM_MARGINS: mwem(Start.MARGINS),
    MWEM_RELEASE: mwem(Start.RELEASE),
    PMW: online,
    CUBE_GAUSSIAN: cube("gaussian"),
    CUBE_BAYES: cube("bayes"),
    PRODUCT: product,
}


def judged(setting: Setting, known: Answers, method: str, many: int) -> Row:
    """One method on the first so many questions."""
    start = time.process_time()
    told = _ANSWER[method](setting, known, many)
    spent = time.process_time() - start
    truth = known.truth[:many]
    error = np.abs(told.values - truth)
    held = held_true = None
    if told.plus_minus is not None and told.bounded is not None:
        held = float((np.abs(told.values - told.bounded) <= told.plus_minus).mean())
        held_true = float((error <= told.plus_minus).mean())
    return Row(
        setting.ground.users,
        setting.epsilon,
        method,
        many,
        setting.draw,
        relative_error(told.values, truth) if (truth >= LEAST).any() else math.nan,
        float(error.mean()),
        float(error.max()),
        held,
        held_true,
        spent,
        told.remark,
    )


def error_rows(
    ground: Ground,
    *,
    questions: Sequence[int],
    epsilons: Sequence[float],
    draws: int,
    methods: Sequence[str] = METHODS,
    seed: int = 1,
    tell: Callable[[str, float], None] = lambda _what, _share: None,
) -> Iterator[Row]:
    """Every method at every epsilon and number of questions; one draw after the other."""
    asked = ground.ranges(max(questions), seed)
    known = Answers(ground, asked)
    whole = draws * len(epsilons) * len(methods) * len(questions)
    done = 0
    for draw in range(draws):
        for epsilon in epsilons:
            setting = Setting(ground, asked, epsilon, 1_000 * seed + draw)
            for method in methods:
                for many in questions:
                    tell(f"{ground.users:,} people, ε {epsilon:g}: {method}", done / whole)
                    yield judged(setting, known, method, many)
                    done += 1
