"""Error against the number of questions: every way of answering, on the same questions.

* `independent`: each question alone, a person clipped at C visits in it, rho divided by their
  number. Once with a C that clips hardly anybody, once with the smaller one that errs less.
* `batch`: `sfumato.queries.batch`. `mwem`: `sfumato_lab.queries.mwem` from a uniform start, from
  noisy margins, and from a `bayes` release that half of epsilon paid for.
* `pmw`: `sfumato_lab.queries.online`, started from a `bayes` release for half of epsilon; the
  questions come one by one.
* The published cube: sums over a `gaussian` release, whose negative numbers are cut at zero or not,
  and over a `bayes` release with the intervals of its posterior. Once more for half of epsilon:
  that is the release which the other half of `mwem`, `pmw` and `desk` begins with.
* `desk`: what `sfumato.Desk` makes of what it knows (`sfumato.queries.routing`), for every
  question. Once from answers alone, each question measured on its own and then combined with the
  others by least squares; once from a `bayes` release for half of epsilon and ten of the questions,
  spread evenly, that the other half measured.
* `product of true margins`: no privacy at all, and no knowledge of which place is busy when.

All promise (epsilon, delta) for one user's whole record, the last one excepted. Noise is seeded and
marked so: this is a study. Settings were chosen on a city of seed 911 that is not judged.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Density
from sfumato.model.counts import Counting, Counts, WeightBound
from sfumato.model.masks import Masks, Measure
from sfumato.model.private import Private
from sfumato.privacy.accounting import zcdp_rho
from sfumato.privacy.calibration import gaussian_sigma2
from sfumato.privacy.door import open_private
from sfumato.privacy.noise import SeededStream
from sfumato.privacy.wall import Wall
from sfumato.published.posterior import Factors, unpacked
from sfumato.queries.batch import VISITS, plan_batch, run_batch
from sfumato.queries.pricing import COVERAGE, HALF_WIDTH
from sfumato.queries.question import Question
from sfumato.queries.routing import Cube, Stored
from sfumato.queries.routing import known as follows
from sfumato.queries.workload import Workload
from sfumato_lab.queries.mwem import Start, plan_mwem, run_mwem
from sfumato_lab.queries.online import Session, plan_session
from sfumato_lab.studies.queries.ground import LEAST, Ground, Table, relative_error

CLIP, SMALL_CLIP = 16, 4
"""Of independent answers: six and a hundred visits in a thousand are lost, on the city of seed 911.
Of 1 to 12 a clip of 3 or 4 erred least at epsilon 1."""
WHOLE = 240.0
"""Visits of a person whom a batch shall hardly ever scale down."""
UPDATES = 10
"""Corrections of a session. Its tests need noise in proportion."""
MEASURED = 10
"""Questions that a desk with a release measures."""
INDEPENDENT, CLIPPED = f"independent, C {CLIP}", f"independent, C {SMALL_CLIP}"
BATCH, BATCH_WHOLE = f"batch, {VISITS} visits", f"batch, {WHOLE:g} visits"
MWEM_UNIFORM, MWEM_MARGINS, MWEM_RELEASE = "MWEM, uniform", "MWEM, margins", "MWEM, bayes"
PMW, CUBE_GAUSSIAN, CUBE_UNCUT = "PMW, bayes", "cube, gaussian", "cube, gaussian, not cut"
CUBE_BAYES, CUBE_HALF = "cube, bayes", "cube, bayes, half of ε"
DESK_STORED, DESK = "desk, answers", "desk, bayes and answers"
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
    CUBE_UNCUT,
    CUBE_BAYES,
    CUBE_HALF,
    DESK_STORED,
    DESK,
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
    """Answers; where there are intervals, their ends and what they are about."""

    values: Table
    ends: tuple[Table, Table] | None = None
    bounded: Table | None = None
    """None where nobody's visits were bounded: the truth."""
    remark: str = ""

    def held(self, what: Table) -> float | None:
        """Share of the intervals that hold these numbers; None where there are none."""
        if self.ends is None:
            return None
        return float(((self.ends[0] <= what) & (what <= self.ends[1])).mean())


@dataclass(eq=False)
class Setting:
    """One city, one epsilon, one draw; releases are made once and kept."""

    ground: Ground
    questions: list[Question]
    """All that are ever asked; a study takes the first ones."""
    epsilon: float
    draw: int
    _cubes: dict[tuple[str, int, int], Density] = field(default_factory=dict)

    def wall(self, label: str) -> Wall:
        name = f"{self.ground.seed}/{self.ground.users}/{self.epsilon:g}/{label}"
        return Wall.seeded(SeededStream(self.draw).child(name))

    def made(self, scheme: str, parts: int, of_delta: int) -> Density:
        """A release, for one of so many parts of epsilon and of delta; after `/` what differs."""
        known = self._cubes.get((scheme, parts, of_delta))
        if known is None:
            facts = self.ground.facts(self.epsilon / parts, self.ground.delta / of_delta)
            name, _, uncut = scheme.partition("/")
            facts = replace(facts, parameters={"clip": False} if uncut else {})
            with threadpool_limits(1):
                known = scheme_named(name).run(
                    self.ground.source, self.wall(f"{scheme} {parts} {of_delta}"), facts
                )
            self._cubes[scheme, parts, of_delta] = known
        return known

    def cube(self, scheme: str, parts: int = 1, of_delta: int = 1) -> Table:
        """A release's table."""
        return np.asarray(self.made(scheme, parts, of_delta).values, dtype=np.float64)

    def factors(self, parts: int = 1, of_delta: int = 1) -> Factors:
        """How sure a `bayes` release is of its sums."""
        made = self.made("bayes", parts, of_delta)
        assert made.posterior is not None, "bayes keeps its posterior"
        values = np.asarray(made.values, dtype=np.float64)
        return unpacked(made.posterior.factors(values, COVERAGE), values)


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


def _measured(
    wall: Wall, known: Answers, numbers: Sequence[int], clip: int, rho: Fraction
) -> tuple[Table, Table]:
    """These questions one by one, on rho together: answers, and deviations of their noise."""
    values, deviations = [], []
    for number in numbers:
        most = min(clip, int(known.rows.slot_counts[number]))
        box = _one(int(known.clipped(clip)[number]), most)
        sigma2 = gaussian_sigma2(float(most), rho / len(numbers))
        measured = wall.gaussian(box, sigma2=sigma2, label=f"question {number}")
        values.append(float(measured.estimate()[0]))
        deviations.append(measured.sd)
    return np.array(values), np.array(deviations)


def independent(clip: int) -> Callable[[Setting, Answers, int], Told]:
    """Every question alone; rho adds up, as the ledger adds it."""

    def answer(setting: Setting, known: Answers, many: int) -> Told:
        rho = Fraction(zcdp_rho(setting.epsilon, setting.ground.delta))
        wall = setting.wall(f"independent {clip} of {many}")
        values, deviations = _measured(wall, known, range(many), clip, rho)
        half = HALF_WIDTH * deviations
        exact = known.clipped(clip)[:many].astype(np.float64)
        return Told(values, (values - half, values + half), exact)

    return answer


def desk(setting: Setting, known: Answers, many: int, *, release: bool) -> Told:
    """Every question from what is known: answers that were measured, and a release beside them."""
    ground, clip = setting.ground, setting.ground.grid.slots
    epsilon, delta, cube = setting.epsilon, ground.delta, None
    numbers: Sequence[int] = range(many)
    if release:
        epsilon, delta = epsilon / 2, delta / 2
        cube = Cube(setting.factors(2, 2), np.arange(ground.grid.slots), "bayes")
        numbers = np.linspace(0, many - 1, min(MEASURED, many)).astype(int).tolist()
    wall = setting.wall(f"desk {release} of {many}")
    rho = Fraction(zcdp_rho(epsilon, delta))
    values, deviations = _measured(wall, known, numbers, clip, rho)
    stored = []
    for number, value, deviation in zip(numbers, values, deviations, strict=True):
        question = setting.questions[number]
        of = len(question.slots), float(value), float(deviation) ** 2, HALF_WIDTH * float(deviation)
        stored.append(Stored(str(number), question, *of))
    found = []
    with threadpool_limits(1):
        for question in setting.questions[:many]:
            answer = follows(question, len(question.slots), stored, cube)
            assert answer is not None, "every question was measured, or is in the release"
            estimate = answer.estimate
            found.append((estimate.value, estimate.lower, estimate.upper))
    table = np.array(found, dtype=np.float64)
    bounded = None if release else known.clipped(clip)[:many].astype(np.float64)
    remark = f"{len(numbers):,} measured"
    return Told(table[:, 0], (table[:, 1], table[:, 2]), bounded, remark)


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
        ends = found.values - found.plus_minus, found.values + found.plus_minus
        return Told(found.values, ends, plan.reading(whole), f"measures {plan.strategy}")

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


def cube_bayes(setting: Setting, _: Answers, many: int, *, parts: int) -> Told:
    """Sums over a `bayes` release, with the intervals of its posterior."""
    cube = Cube(setting.factors(parts, parts), np.arange(setting.ground.grid.slots), "bayes")
    told = [
        cube.factors.estimates(*cube.weights(setting.questions[start : min(start + 250, many)]))
        for start in range(0, many, 250)  # weights of all places and slots: a part at a time
    ]
    value, low, high = (np.concatenate(part) for part in zip(*told, strict=True))
    return Told(value, (low, high))


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
    CUBE_UNCUT: cube("gaussian/not cut"),
    CUBE_BAYES: partial(cube_bayes, parts=1),
    CUBE_HALF: partial(cube_bayes, parts=2),
    DESK_STORED: partial(desk, release=False),
    DESK: partial(desk, release=True),
    PRODUCT: product,
}


def answered_by(method: str, setting: Setting, known: Answers, many: int) -> Told:
    """Answers of one method to the first so many questions."""
    return _ANSWER[method](setting, known, many)


def judged(setting: Setting, known: Answers, method: str, many: int) -> Row:
    """One method on the first so many questions."""
    start = time.process_time()
    told = answered_by(method, setting, known, many)
    spent = time.process_time() - start
    truth = known.truth[:many]
    error = np.abs(told.values - truth)
    held = told.held(truth if told.bounded is None else told.bounded)
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
        told.held(truth),
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
