"""The thesis: perturbing the density itself wins. Every approach on one table.

The 2,000 ranges of `studies.queries` (discs of 0.5 to 3 km, 1 to 48 hours) are answered by

1. *anonymised answers*: exact where enough people are in a range, or under an auditor that
   decides from the questions alone; and perturbed one by one or as a batch;
2. *anonymised records*: Never Walk Alone, k^m-anonymity on (place, time) items for everybody alike
   and in parts, k-anonymity by generalisation; made-up people through the wall;
3. *anonymised density*: suppression below k, `paris`, `bayes`.

Where there is noise, it has one epsilon for a whole record. Beside the error of each stands what
the question of `sfumato_lab.attacks.anonymised.visited` gets from it: for people in the data, and
for people who are not.

True records of the second approach are made for positions on a clock or for sets: they do not say
how many visits there were. So that this does not decide the comparison, the exact number of visits
in every hour is given to them (which they would not publish), and their densities are scaled to it.
Suppressed counts are taken for 0. A refused answer is an error of 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled
from sfumato.model.rounding import number_of
from sfumato.queries.pricing import HALF_WIDTH
from sfumato.queries.question import Question
from sfumato.synthesis.method import SynthFacts
from sfumato.synthesis.method import settings_of as synthesis_settings
from sfumato.synthesis.registry import method_named
from sfumato_lab.attacks.anonymised.groups import as_floats
from sfumato_lab.attacks.anonymised.records import density_of_items, from_items
from sfumato_lab.attacks.anonymised.visited import (
    Advantage,
    Floats,
    Ints,
    Questions,
    Visited,
    allowed,
    decided,
    density_of_paths,
    draw_questions,
    from_answers,
    from_table,
    from_traces,
    pooled,
)
from sfumato_lab.studies.chapter.towns import Town
from sfumato_lab.studies.queries.errors import (
    BATCH,
    CLIPPED,
    SMALL_CLIP,
    Answers,
    Setting,
    Told,
    answered_by,
)
from sfumato_lab.studies.queries.ground import LEAST
from sfumato_lab.syntactic.auditor import Auditor, Rule
from sfumato_lab.syntactic.hierarchy import halved
from sfumato_lab.syntactic.methods import Task
from sfumato_lab.syntactic.people import plane_of
from sfumato_lab.syntactic.published import Areas, Items, Paths
from sfumato_lab.syntactic.registry import METHODS as REGISTRY
from sfumato_lab.syntactic.registry import settings_of
from sfumato_lab.syntactic.truth import Visits

EVERYBODY, POINTS = "knows all others", "knows 4 points"
K, TUBE_M, M = 5, 2_000.0, 2
"""Of suppression, Never Walk Alone (the chapter's tube) and k^m."""
AUDIT_LEAST, AUDIT_MOST = 20, 80
"""Pairs of place and slot of the smallest region whose count may follow from answers; and how many
discs are audited. The row space of discs that lie anyhow grows quickly: 100 of them take 0.04
CPU-seconds, 150 take 2, 200 more than a minute (300 towers); of cab-days 120 take 36. Later ones
are refused."""
ANSWERS, RECORDS, DENSITY = "1 answers", "2 records", "3 density"
THRESHOLD, AUDITED = f"exact, {K} people or more", "audited, exact"
NWA, KM, KM_LOCAL = f"Never Walk Alone, k {K}", f"k^m, k {K}, m {M}", f"k^m in parts, k {K}, m {M}"
K_ANONYMOUS = f"k-anonymity by generalisation, k {K}"
SYNTHETIC, DP_WHERE = "synthetic people (`weeks`)", "synthetic people (DP-WHERE)"
INDEPENDENT, TOGETHER = "perturbed one by one", "perturbed as a batch"
SUPPRESSED, PARIS, BAYES = f"suppression below {K}", "paris", "bayes"
Score = tuple[str, Callable[[Questions, Visited, bool], Floats]]


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """Answers to the ranges (NaN: refused), and how each adversary scores questions."""

    answers: Floats
    scores: Sequence[Score]
    remark: str = ""


@dataclass(eq=False)
class Stand:
    """A town, the ranges, and what all methods share."""

    town: Town
    questions: list[Question]
    known: Answers = field(init=False)

    def __post_init__(self) -> None:
        self.known = _Clipped(self.town, self.questions)

    @property
    def hours(self) -> Floats:
        """Visits of every slot."""
        return np.asarray(self.town.inside.counts().sum(axis=0), np.float64)

    def by_table(self, table: Floats, least: int | None = None) -> Score:
        """Who knows all others reads a density."""
        held = self.town.inside
        return EVERYBODY, lambda asked, _, inside: from_table(
            table, held, asked, inside=inside, least=least
        )

    def sums(self, table: Floats) -> Floats:
        """Answers from a density."""
        return np.asarray(self.known.rows.sums(table), np.float64)

    def scaled(self, table: Floats) -> Floats:
        """A density with the exact number of visits in every hour."""
        return np.asarray(table * (self.hours / np.maximum(table.sum(axis=0), 1e-9)))


class _Clipped(Answers):
    """Counted in one pass: each person at most so many times in each range."""

    def __init__(self, town: Town, questions: Sequence[Question]) -> None:
        super().__init__(town.ground, questions)
        self._town = town

    def clipped(self, clip: int) -> NDArray[np.int64]:
        if clip not in self._clipped:
            held, rows = self._town.inside, self.rows
            of_place = rows.places.tocsc()
            member = np.ascontiguousarray(rows.slots.astype(np.bool_))
            self._clipped[clip] = _clipped_sums(
                *(held.starts, held.place, held.slot),
                *(of_place.indptr.astype(np.int64), of_place.indices.astype(np.int64)),
                *(member, np.minimum(clip, rows.slot_counts).astype(np.int64)),
            )
        return self._clipped[clip]


@compiled
def _clipped_sums(
    starts: Ints,
    place: Ints,
    slot: Ints,
    first: Ints,
    ranges: Ints,
    member: NDArray[np.bool_],
    clip: Ints,
) -> Ints:
    found = np.zeros(clip.size, np.int64)
    own, touched = np.zeros(clip.size, np.int64), np.empty(clip.size, np.int64)
    for person in range(starts.size - 1):
        many = 0
        for at in range(starts[person], starts[person + 1]):
            for one in range(first[place[at]], first[place[at] + 1]):
                number = ranges[one]
                if member[number, slot[at]]:
                    if own[number] == 0:
                        touched[many] = number
                        many += 1
                    own[number] += 1
        for one in range(many):
            found[touched[one]] += min(own[touched[one]], clip[touched[one]])
            own[touched[one]] = 0
    return found


def threshold(stand: Stand) -> Published:
    """Exact where k different people are in the range: an auditor of support alone."""
    held = stand.town.inside
    truth = Visits(held.user, held.place, held.slot)
    people = truth.people(stand.questions, stand.town.ground.frame, K)
    answers = np.where(people >= K, stand.known.truth, np.nan)
    return _of_answers(stand, answers, stand.known.truth, np.zeros(answers.size), None)


def audited(stand: Stand) -> Published:
    """Exact, or refused from the questions alone; one after the other, as far as it can go."""
    held = stand.town.inside
    truth = Visits(held.user, held.place, held.slot)
    frame = stand.town.ground.frame
    auditor = Auditor(frame, truth, rule=Rule.SIMULATABLE, least=AUDIT_LEAST)
    told = [auditor.answer(question) for question in stand.questions[:AUDIT_MOST]]
    answers = np.full(len(stand.questions), np.nan)
    answers[: len(told)] = [np.nan if one is None else one for one in told]
    return _of_answers(stand, answers, stand.known.truth, np.zeros(answers.size), None)


def perturbed(stand: Stand, method: str, setting: Setting) -> Published:
    """Noise on every answer, from one epsilon for all."""
    told: Told = answered_by(method, setting, stand.known, len(stand.questions))
    assert told.ends is not None
    assert told.bounded is not None
    sd = (told.ends[1] - told.ends[0]) / (2 * HALF_WIDTH)
    clip = SMALL_CLIP if method == CLIPPED else None
    return _of_answers(stand, told.values, told.bounded, sd, clip)


def _of_answers(
    stand: Stand, answers: Floats, exact: Floats, sd: Floats, clip: int | None
) -> Published:
    rows, held = stand.known.rows, stand.town.inside

    def score(asked: Questions, _: Visited, inside: bool) -> Floats:
        return from_answers(answers, exact, sd, rows, held, asked, clip=clip, inside=inside)

    refused = int(np.isnan(answers).sum())
    return Published(answers, [(EVERYBODY, score)], f"{refused} refused" if refused else "")


def records(stand: Stand, method: str, **settings: object) -> Published:
    """Records by a syntactic method, read as anybody could."""
    town = stand.town
    plane, _ = plane_of(town.places)
    task = Task(
        *(town.held, town.places, town.ground.grid, plane, town.centres),
        space=halved(town.centres, town.places.ids.tolist()),
        k=K,
        settings=settings_of(method, settings),
        rng=np.random.default_rng(1),
    )
    made = REGISTRY[method].run(task)
    remark = f"{1 - len(made.who) / len(town.held):.1%} left out"
    score: Callable[[Questions], Floats]
    if isinstance(made.table, Paths):
        at = np.stack((made.table.lon, made.table.lat), axis=-1)
        metres = plane.to_metres(at.reshape(-1, 2)).reshape(at.shape).astype(np.float32)
        table = density_of_paths(metres, town.centres)
        # Half of what a point may be from its cluster's middle.
        score = partial(from_traces, metres, town.centres, scale_m=TUBE_M / 4)
        remark += f", moved {made.figures['mean_translation_m']:,.0f} m on average"
    else:
        assert isinstance(made.table, Items)
        table = density_of_items(made.table, *town.ground.shape)
        score = partial(from_items, made.table, town.inside.places)
        size = np.diff(made.table.areas.offsets)[made.table.area]
        hours = made.table.last - made.table.first + 1
        covers = number_of(round(float(np.median(size))), "places")
        remark += f", an item covers {covers} and {np.median(hours):.0f} h"
    table = stand.scaled(table)
    scores: list[Score] = [(POINTS, lambda asked, *_: score(asked)), stand.by_table(table)]
    return Published(stand.sums(table), scores, remark)


def synthetic(stand: Stand, method: str, setting: Setting) -> Published:
    """Made-up people through the wall, read as anybody could: their visits are records."""
    town, way = stand.town, method_named(method)
    public = town.ground.facts(setting.epsilon, town.ground.delta)
    facts = SynthFacts(
        public,
        public.expected_users or len(town.held),
        setting.draw,
        synthesis_settings(way, {}),
        town.places,
    )
    noisy = way.measure(town.source, setting.wall(f"synthetic {method}"), facts)
    chunks = list(way.generate(noisy, facts))
    user, place = (
        np.concatenate([np.asarray(getattr(one, name), np.int64) for one in chunks])
        for name in ("user", "place")
    )
    slot = town.ground.grid.slot_of(np.concatenate([one.time for one in chunks])).astype(np.int32)
    order = np.lexsort((slot, user))
    offsets = np.searchsorted(user[order], np.arange(facts.people + 1)).astype(np.int64)
    places = town.inside.places
    alone = Areas([""] * places, np.arange(places + 1), np.arange(places))
    made = Items(offsets, place[order].astype(np.int32), slot[order], slot[order], alone)
    table = density_of_items(made, *town.ground.shape)
    fit = partial(from_items, made, places)
    scores: list[Score] = [(POINTS, lambda asked, *_: fit(asked)), stand.by_table(table)]
    return Published(stand.sums(table), scores, f"{facts.people:,} synthetic people")


def suppressed(stand: Stand) -> Published:
    """Counts of at least k."""
    counts = stand.town.inside.counts()
    hidden = np.where(counts < K, -1, counts)
    table = np.maximum(hidden, 0).astype(np.float64)
    share = float((hidden < 0).mean())
    score = stand.by_table(as_floats(hidden), K)
    return Published(stand.sums(table), [score], f"{share:.0%} of counts left out")


def cube(stand: Stand, scheme: str, setting: Setting) -> Published:
    """A density through the wall."""
    table = setting.cube(scheme)
    return Published(stand.sums(table), [stand.by_table(table)])


FREE: Mapping[str, tuple[str, Callable[[Stand], Published]]] = {
    THRESHOLD: (ANSWERS, threshold),
    AUDITED: (ANSWERS, audited),
    NWA: (RECORDS, partial(records, method="never-walk-alone", delta=TUBE_M)),
    KM: (RECORDS, partial(records, method="km", m=M)),
    KM_LOCAL: (RECORDS, partial(records, method="km-local", m=M)),
    K_ANONYMOUS: (RECORDS, partial(records, method="generalise")),
    SUPPRESSED: (DENSITY, suppressed),
}
"""Without an epsilon."""
PAID: Mapping[str, tuple[str, Callable[[Stand, Setting], Published]]] = {
    INDEPENDENT: (ANSWERS, lambda stand, setting: perturbed(stand, CLIPPED, setting)),
    TOGETHER: (ANSWERS, lambda stand, setting: perturbed(stand, BATCH, setting)),
    SYNTHETIC: (RECORDS, lambda stand, setting: synthetic(stand, "weeks", setting)),
    DP_WHERE: (RECORDS, lambda stand, setting: synthetic(stand, "where", setting)),
    PARIS: (DENSITY, lambda stand, setting: cube(stand, "paris", setting)),
    BAYES: (DENSITY, lambda stand, setting: cube(stand, "bayes", setting)),
}
METHODS = (*FREE, *PAID)


@dataclass(frozen=True, slots=True)
class Row:
    """One method on one town: error, and what the question gets from it."""

    town: str
    approach: str
    method: str
    epsilon: float | None
    draws: int
    mre: float
    mre_low: float
    mre_high: float
    inside: dict[str, Advantage]
    """By adversary, of people in the data."""
    outside: dict[str, Advantage]
    """Of people who are not."""
    allowed: float | None
    remark: str
    cpu: float

    @property
    def worst(self) -> Advantage:
        """Of the stronger adversary."""
        return max(self.inside.values(), key=lambda one: one.value)


def range_error(found: Floats, truth: Floats) -> float:
    """Mean relative error of ranges with a few visits; a refusal is an error of 1."""
    many = truth >= LEAST
    error = np.abs(np.where(np.isnan(found), 0.0, found) - truth)[many] / truth[many]
    return float(np.where(np.isnan(found[many]), 1.0, error).mean())


def thesis_rows(
    town: Town,
    *,
    ranges: int,
    epsilons: Sequence[float],
    draws: int,
    targets: int,
    seed: int,
    methods: Sequence[str] = METHODS,
    tell: Callable[[str, float], None] = lambda _what, _share: None,
) -> Iterator[Row]:
    """Every method; where there is noise, at every epsilon in every draw."""
    stand = Stand(town, town.ground.ranges(ranges, seed))
    truth = stand.known.truth
    asked = [
        (draw_questions(town.inside, targets, seed=seed + d), draw_questions(
            town.outside, targets, seed=seed + d))
        for d in range(draws)
    ]  # fmt: skip
    wanted: list[tuple[str, str, float | None]] = [
        *((name, FREE[name][0], None) for name in methods if name in FREE),
        *((name, PAID[name][0], e) for name in methods if name in PAID for e in epsilons),
    ]
    for number, (name, approach, epsilon) in enumerate(wanted):
        tell(f"{town.name}: {name}", number / len(wanted))
        start = time.process_time()
        errors, told, remark = [], _Told(), ""
        for draw in range(draws if epsilon is not None else 1):
            if epsilon is None:
                made = FREE[name][1](stand)
            else:
                setting = Setting(town.ground, stand.questions, epsilon, 1_000 * seed + draw)
                made = PAID[name][1](stand, setting)
            errors.append(range_error(made.answers, truth))
            remark = made.remark
            told.add(made, asked[draw], town)
        yield Row(
            town.name,
            approach,
            name,
            epsilon,
            len(errors),
            float(np.mean(errors)),
            min(errors),
            max(errors),
            told.advantages(True),
            told.advantages(False),
            None if epsilon is None else allowed(epsilon, town.ground.delta),
            remark,
            time.process_time() - start,
        )


class _Told:
    """What adversaries said in all draws."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, bool], list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]] = {}

    def add(self, made: Published, asked: tuple[Questions, Questions], town: Town) -> None:
        for name, score in made.scores:
            for inside, questions in zip((True, False), asked, strict=True):
                of = town.inside if inside else town.outside
                yes = decided(score(questions, of, inside), questions)
                self._said.setdefault((name, inside), []).append((yes, questions.answer))

    def advantages(self, inside: bool) -> dict[str, Advantage]:
        return {name: pooled(said) for (name, of), said in self._said.items() if of == inside}
