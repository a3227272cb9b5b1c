"""What auditors of exact answers refuse, and what still leaks through what they answer.

Everybody who answers is asked the same questions, one by one:

* `threshold`: exact counts of k people or more, and no memory;
* `anyone`, `known`: support of k, and no full disclosure (Definition 5 of Acs, Biczok &
  Castelluccia) in the chapter's universe and in Kleinberg's (`sfumato_lab.syntactic.auditor`);
* `simulatable`: no region of few places, decided from the questions alone;
* the private desk at epsilon 1, its whole budget planned for these questions.

*In a city* random ranges, discs times hours, as honest analysts ask them: the share that is
refused, as more and more are asked. *In a town* with one known person a zone, of whom one is the
adversary, attacking sets: ranges along the street, random halves (Dinur & Nissim), Hadamard's sets
(Dwork & Yekhanin), everybody but one, and everybody but the adversary and one. The adversary solves
what was answered (minimax; least squares where there is noise). The last two also read refusals:
whoever is left out together with the adversary is refused by `known` exactly if their bits are
equal, since the difference 0 or 2 would tell both. *In a hospital* John, by inclusion and exclusion
of seven counts of different people.

*Certain* is the share of people whose bit is the same in all data that fit the answers: Definition
5 over one bit a person, whichever universe the auditor thinks of. *Right* is the share of bits that
the adversary guesses right, of which guessing has half.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.attacks.report import canvas
from sfumato.queries.question import Frame, Question
from sfumato_lab.attacks.queries.decode import (
    hadamard_masks,
    least_squares,
    minimax,
    next_power,
)
from sfumato_lab.attacks.queries.differencing import FIRST, HOSPITAL, SECOND, hospital, in_all
from sfumato_lab.attacks.queries.games import most_right
from sfumato_lab.attacks.queries.town import (
    Answerer,
    Bits,
    Masks,
    Private,
    Town,
    Values,
    counter,
    threshold,
)
from sfumato_lab.studies.queries.ground import Ground
from sfumato_lab.studies.queries.page import Grid, Picture, Section, Tell, save_figure
from sfumato_lab.syntactic.auditor import Auditor, Rule, Universe
from sfumato_lab.syntactic.disclosure import FREE
from sfumato_lab.syntactic.truth import Counted, Visits
from sfumato_lab.syntactic.universe import Answered
from sfumato_lab.syntactic.universe import Ground as Bitwise

PICTURE = "queries-auditor.internal.png"
K, LEAST = 4, 4
"""In the town: people in an answer, and places of a region. A sixth of it."""
CITY_K, CITY_LEAST = 10, 20
EPSILON, DELTA = 1.0, 1e-6
THRESHOLD, ANYONE, KNOWN, SIMULATABLE = "threshold", "anyone", "known", "simulatable"
PRIVATE = f"private, ε {EPSILON:g}"
JOHN = "John and the hospital"


@dataclass(frozen=True, slots=True)
class Leak:
    """One set of questions to one who answers, over all draws."""

    asked: str
    auditor: str
    questions: int
    refused: float
    certain: float | None
    """Share of people whose bit follows; None where nothing is exact, or people are not bits."""
    right: int
    guesses: int

    @property
    def share(self) -> float:
        return self.right / self.guesses


@dataclass(frozen=True, slots=True)
class Refused:
    """Random ranges in the city that were refused among the first so many."""

    auditor: str
    questions: int
    refused: float


Make = Callable[[Visits, Frame, int, int], Answerer]


def _one_by_one(answerer: Answerer) -> Answerer:
    """An auditor refuses a set as a whole: here every question is a set of its own."""
    return lambda questions: [answerer([one])[0] for one in questions]


def _answerers(people: int) -> dict[str, Make]:
    """Those who answer, over records and a frame, planned for some questions, with a seed."""

    def known(held: Visits, frame: Frame, *_: int) -> Answerer:
        # One person a zone of the town; in the hospital anybody may be in each of three places.
        bits = np.full(frame.places, 1 if frame.places >= people else people, np.int64)
        return _one_by_one(Auditor(frame, held, k=K, universe=Universe.KNOWN, known=bits))

    def anyone(held: Visits, frame: Frame, *_: int) -> Answerer:
        return _one_by_one(Auditor(frame, held, k=K, people=people))

    def simulatable(held: Visits, frame: Frame, *_: int) -> Answerer:
        return _one_by_one(Auditor(frame, held, rule=Rule.SIMULATABLE, least=LEAST))

    def private(held: Visits, frame: Frame, questions: int, seed: int) -> Answerer:
        return Private(counter(held, frame), EPSILON, DELTA, questions, seed)

    return {
        THRESHOLD: lambda held, frame, *_: threshold(counter(held, frame), K),
        ANYONE: anyone,
        KNOWN: known,
        SIMULATABLE: simulatable,
        PRIVATE: private,
    }


Read = Callable[[Masks, Values, bool, float], Bits]
"""Questions, answers, the adversary's own bit, the variance of noise; everybody's bits."""


def _solved(masks: Masks, answers: Values, own: bool, variance: float) -> Bits:
    """The adversary's own bit is one more answer, and an exact one."""
    first = np.zeros((1, masks.shape[1]), np.bool_)
    first[0, 0] = True
    masks, answers = np.concatenate([first, masks]), np.r_[float(own), answers]
    if variance:
        return least_squares(masks, answers, variance=variance) > 0.5
    return minimax(masks, answers) > 0.5


def _without_one(masks: Masks, answers: Values, own: bool, variance: float) -> Bits:
    """What everybody but i leave of everybody. A refusal means 0 if some were answered: then it is
    nobody's bit 1 that is protected."""
    del masks, own, variance
    told = answers[0] - answers[1:]
    found: Bits = np.isfinite(told) & (told > 0.5)
    return found


def _without_two(masks: Masks, answers: Values, own: bool, variance: float) -> Bits:
    """Of the adversary and i one is missing where their bits differ; a refusal means that they are
    equal."""
    del masks, variance
    differ = np.abs((answers[0] - answers[1:]) - 1) < 0.5  # not so of a refusal
    found: Bits = np.logical_xor(own, np.r_[False, differ])
    return found


def _ranges(people: int, rng: np.random.Generator) -> Masks:
    ends = np.sort(rng.integers(0, people + 1, (4 * people, 2)), axis=1)
    ends[:, 1] = np.maximum(ends[:, 1], ends[:, 0] + 1)
    at = np.arange(people)
    return (ends[:, :1] <= np.minimum(at, people - 1)) & (at < ends[:, 1:])


def _all_but(missing: Masks) -> Masks:
    """Everybody, then everybody but each of these."""
    return ~np.concatenate([np.zeros_like(missing[:1]), missing])


def _and_the_adversary(people: int) -> Masks:
    missing = np.eye(people, dtype=np.bool_)[1:]
    missing[:, 0] = True
    return missing


SETS: Mapping[str, tuple[Callable[[int, np.random.Generator], Masks], Read]] = {
    "ranges along the street": (_ranges, _solved),
    "random halves": (lambda n, rng: rng.random((2 * n, n)) < 0.5, _solved),
    "Hadamard's sets": (lambda n, _: hadamard_masks(next_power(n))[:, :n], _solved),
    "everybody but one": (lambda n, _: _all_but(np.eye(n, dtype=np.bool_)), _without_one),
    "everybody but me and one": (lambda n, _: _all_but(_and_the_adversary(n)), _without_two),
}


def _certain(town: Town, bits: Bits, masks: Masks, answers: Values) -> float:
    """Share of people whose bit follows for certain from what was answered."""
    held, places = town.visits(bits), town.frame.places
    ground = Bitwise(
        town.frame, held.counts(town.frame), np.ones(places, np.int64), np.arange(places)
    )
    log = Answered()
    for mask, answer in zip(masks, answers, strict=True):
        if np.isfinite(answer) and mask.any():
            log = ground.plus(log, town.question(mask), int(answer))
    if not log.questions:
        return 0.0
    system, *_ = ground.system(log)
    state = ground.disclosed(log, margin=None, seconds=20.0).state
    return float(system.sizes[state != FREE].sum() / system.sizes.sum())


def leak_rows(
    people: int, *, draws: int, seed: int, tell: Tell = lambda _what, _share: None
) -> list[Leak]:
    """Every set of questions to everybody who answers, on the same people.

    Args:
        people: Of the town.
        draws: Towns; eight times as many hospitals.
        seed: The same seed gives the same numbers.
        tell: Told of each pair.

    Returns:
        What was refused and what leaks, a row for each pair.
    """
    town, rows = Town.of(people, 0), []
    answerers = _answerers(people)
    pairs = [(asked, auditor) for asked in SETS for auditor in answerers]
    for number, (asked, auditor) in enumerate(pairs):
        tell(f"{asked}: {auditor}", number / len(pairs))
        rows.append(_leak(town, asked, auditor, answerers[auditor], draws, seed))
    for auditor in answerers:
        rows.append(_john(auditor, 8 * draws, seed))
    return rows


def _leak(town: Town, asked: str, auditor: str, make: Make, draws: int, seed: int) -> Leak:
    right, questions, refused, certain = 0, 0, [], []
    masks_of, read = SETS[asked]
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw, list(SETS).index(asked)])
        bits = rng.random(town.people) < 0.5
        masks = masks_of(town.people, rng)
        questions = len(masks)
        answerer = make(town.visits(bits), town.frame, questions, int(rng.integers(1 << 31)))
        answers = town.ask(answerer, masks)
        private = auditor == PRIVATE
        variance = Private.variance(EPSILON, DELTA, questions) if private else 0.0
        found = read(masks, answers, bool(bits[0]), variance)
        right += int((found[1:] == bits[1:]).sum())
        refused.append(float(np.isnan(answers).mean()))
        if not private:
            certain.append(_certain(town, bits, masks, answers))
    share = float(np.mean(certain)) if certain else None
    guesses = draws * (town.people - 1)
    return Leak(asked, auditor, questions, float(np.mean(refused)), share, right, guesses)


def _john(auditor: str, draws: int, seed: int) -> Leak:
    right, refused = 0, []
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw, len(SETS)])
        visited = bool(rng.random() < 0.5)
        frame, held = hospital(visited, rng)
        make = _answerers(int(held.users.max()) + 1)[auditor]
        answerer = make(held, frame, 7, int(rng.integers(1 << 31)))
        found = in_all(answerer, frame, [[HOSPITAL], [FIRST], [SECOND]], [0])
        told = rng.random() < 0.5 if found.people is None else found.people > 0.5
        right += told == visited
        refused.append(float(np.mean([one is None for one in found.answers])))
    return Leak(JOHN, auditor, 7, float(np.mean(refused)), None, right, draws)


def refused_rows(
    ground: Ground, many: int, *, seed: int, tell: Tell = lambda _what, _share: None
) -> list[Refused]:
    """Random ranges in the city, asked one by one; shares refused among the first so many.

    The private desk refuses none while its budget lasts. Known people have no place in a city
    where everybody moves, so that Kleinberg's universe is left out.
    """
    asked, truth = ground.ranges(many, seed), Counted(ground.source)

    def plain(questions: Sequence[Question]) -> list[float | None]:
        people = truth.people(questions, ground.frame)
        return [None if few < CITY_K else 0.0 for few in people.tolist()]

    whom: dict[str, Answerer] = {
        THRESHOLD: plain,
        ANYONE: Auditor(ground.frame, truth, k=CITY_K, people=ground.users),
        SIMULATABLE: Auditor(ground.frame, truth, rule=Rule.SIMULATABLE, least=CITY_LEAST),
    }
    rows, marks = [], sorted({m for m in (10, 20, 50, 100, 150, 200, 500) if m < many} | {many})
    for number, (name, answerer) in enumerate(whom.items()):
        tell(f"{many:,} ranges: {name}", number / len(whom))
        none = np.array([one is None for one in _one_by_one(answerer)(asked)])
        rows += [Refused(name, mark, float(none[:mark].mean())) for mark in marks]
    return rows


def auditor_section(
    leaks: Sequence[Leak], refused: Sequence[Refused], city: str, picture: bool
) -> Section:
    """Tables and what they say."""
    names = list(dict.fromkeys(row.auditor for row in leaks))
    asked = list(dict.fromkeys(row.asked for row in leaks))
    at = {(row.asked, row.auditor): row for row in leaks}
    marks = sorted({row.questions for row in refused})
    ranged = {(row.auditor, row.questions): f"{row.refused:.1%}" for row in refused}
    bound = most_right(EPSILON, DELTA)

    def grid(caption: str, figure: Callable[[Leak], float | None]) -> Grid:
        body = []
        for name in asked:
            cells = [figure(at[name, auditor]) for auditor in names]
            if any(one is not None for one in cells):
                body.append([name, *("" if one is None else f"{one:.1%}" for one in cells)])
        return Grid(caption, ["", *names], body)

    blocks: list[str | Grid | Picture] = [
        "Exact answers, or a refusal. Of honest ranges in a city some are refused; of attacking "
        "sets many, and yet bits leak: through answers that each look harmless, and through the "
        "refusals themselves, which depend on the data for all but the simulatable auditor.",
        Grid(
            f"Random ranges refused, {city} (k {CITY_K}, least {CITY_LEAST})",
            ["asked so far", *(f"{mark:,}" for mark in marks)],
            [
                [name, *(ranged[name, mark] for mark in marks)]
                for name in dict.fromkeys(row.auditor for row in refused)
            ],
        ),
        grid(f"Attacking sets: questions refused (k {K}, least {LEAST})", lambda row: row.refused),
        grid("People whose bit is certain, by Definition 5", lambda row: row.certain),
        grid(
            f"Bits guessed right, of {leaks[0].guesses:,} (John: {leaks[-1].guesses:,}); guessing "
            "has half",
            lambda row: row.share,
        ),
        f"Against the private desk no guess is right more often than {bound:.1%}, whatever is "
        "asked and whatever is known. The simulatable auditor tells nothing by refusing; that "
        "it answers exactly is enough for whoever solves for bits. John gets through the "
        "auditors that answer counts of different people; in the hospital nobody has a place of "
        "their own, so that the known are anyone.",
    ]
    if picture:
        words = (
            "Left: random ranges refused as more are asked. Right: attacking sets, share refused "
            "(above) and bits guessed right (below; dotted, guessing; black, the most that the "
            "private desk allows)."
        )
        blocks.insert(1, Picture(PICTURE, words))
    return Section("What an auditor refuses, and what still leaks", blocks)


_COLOURS = {
    THRESHOLD: "#b3261e",
    ANYONE: "#c2811b",
    KNOWN: "#7c3aed",
    SIMULATABLE: "#1d4ed8",
    PRIVATE: "#047857",
}


def draw_auditors(leaks: Sequence[Leak], refused: Sequence[Refused], path: Path) -> None:
    """Refusals in the city, refusals and right guesses of attacks."""
    figure = canvas((13.5, 5.4))
    parts = figure.add_gridspec(2, 3)
    lines = figure.add_subplot(parts[:, 0])
    for name in dict.fromkeys(row.auditor for row in refused):
        own = [row for row in refused if row.auditor == name]
        x, y = [row.questions for row in own], [100 * row.refused for row in own]
        # Two may refuse the same questions: the one below is drawn wider.
        style = {"lw": 5.0, "alpha": 0.5} if name == THRESHOLD else {"lw": 1.5}
        lines.plot(x, y, color=_COLOURS[name], marker="o", ms=4, **style)
    lines.set(xlabel="random ranges asked", ylabel="refused, %", ylim=(0, None))
    lines.set_title("honest ranges in a city", fontsize=10)
    lines.grid(alpha=0.25, lw=0.5)
    above = figure.add_subplot(parts[0, 1:])
    below = figure.add_subplot(parts[1, 1:], sharex=above)
    _bars(above, leaks, lambda row: 100 * row.refused)
    _bars(below, leaks, lambda row: 100 * row.share)
    above.set(ylabel="refused, %", ylim=(0, 101))
    above.set_title("attacking sets in a town", fontsize=10)
    above.tick_params(labelbottom=False)
    below.set(ylabel="bits right, %", ylim=(40, 101))
    below.axhline(50, color="grey", ls=":", lw=1)
    asked = list(dict.fromkeys(row.asked for row in leaks))
    bound = 100 * most_right(EPSILON, DELTA)
    left = [_at(place, len(_COLOURS) - 1) - _WIDTH / 2 for place in range(len(asked))]
    right = [one + _WIDTH for one in left]
    below.hlines([bound] * len(asked), left, right, color="black", lw=1.6)
    below.set_xticks(range(len(asked)), [name.replace(" ", "\n", 1) for name in asked], fontsize=8)
    handles, names = above.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, fontsize=9, frameon=False)
    save_figure(figure, path)


_WIDTH = 0.16


def _at(place: int, number: int) -> float:
    return place + (number - 2) * _WIDTH


def _bars(axes: Any, leaks: Sequence[Leak], figure: Callable[[Leak], float]) -> None:
    asked = list(dict.fromkeys(row.asked for row in leaks))
    for number, (name, colour) in enumerate(_COLOURS.items()):
        own = [row for row in leaks if row.auditor == name]
        x = [_at(asked.index(row.asked), number) for row in own]
        axes.bar(x, [figure(row) for row in own], _WIDTH, color=colour, label=name)
    axes.grid(alpha=0.25, lw=0.5, axis="y")
