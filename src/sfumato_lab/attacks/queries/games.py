"""The games: which attack is played against which desk, and how often it was right. INTERNAL.

A game draws the people's bits as fair coins, makes a desk over them, lets an attack ask, and counts
right guesses. Guessing is right half the time. Against a private desk no guess about anybody is
right more often than (e^epsilon + delta) / (1 + e^epsilon), whatever else is known (Kairouz, Oh &
Viswanath 2015), and right guesses about several people in one run are no more likely to be many
than that many independent ones (Steinke, Nasr & Jagielski 2023, for delta 0). So the exact
binomial interval of Clopper & Pearson is fair to the desk: a lower limit above the bound would be
a fault of the desk, not luck.

Each attack has the whole budget of a private desk for itself, and it is planned for the number of
questions that this attack asks, as an analyst would who knows what she wants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from sfumato.audits.bounds import lower_limit, upper_limit
from sfumato.model.source import Progress
from sfumato.queries.question import Frame
from sfumato_lab.attacks.queries.decode import next_power
from sfumato_lab.attacks.queries.differencing import FIRST, HOSPITAL, SECOND, hospital, in_all
from sfumato_lab.attacks.queries.ledgered import Ledgered
from sfumato_lab.attacks.queries.reconstruct import (
    Guess,
    averaged,
    dinur_nissim,
    dwork_yekhanin,
    knows_others,
)
from sfumato_lab.attacks.queries.search import search
from sfumato_lab.attacks.queries.town import (
    Answerer,
    Bits,
    Private,
    Town,
    bounded,
    counter,
    fresh,
    sticky,
    threshold,
)
from sfumato_lab.syntactic.truth import Visits

ONE_PERSON_EVERY = 8
"""Runs of an attack on one person, for each run of an attack on everybody."""
SEARCHED = 32
"""People of the town in which sets are searched for: every step asks hundreds of shadows."""
SEARCHED_QUESTIONS = 6

Make = Callable[[Visits, Frame, int, int], Answerer]
"""A desk over records and a frame, planned for a number of questions, its noise from a seed."""


@dataclass(frozen=True, slots=True, eq=False)
class Desk:
    """A kind of desk: how one is made, and what everybody may know about it."""

    name: str
    make: Make
    attacks: tuple[str, ...]
    variance: Callable[[int], float] = field(default=lambda _questions: 0.0)
    """Of an answer's error, by the number of questions that the desk is planned for."""
    bound: float | None = None
    """No attack is right more often, where that is promised."""
    shadow: Make | None = None
    """What a search is made on, where that is not `make`: the same mechanism in memory."""


@dataclass(frozen=True, slots=True)
class Score:
    """How often an attack was right about a desk."""

    attack: str
    desk: str
    right: int
    guesses: int
    asked: int
    """Questions of one run."""
    refused: float
    """Share of them."""
    bound: float | None = None
    confidence: float = 0.95

    @property
    def share(self) -> float:
        return self.right / self.guesses

    @property
    def low(self) -> float:
        return float(lower_limit(self.right, self.guesses, (1 - self.confidence) / 2))

    @property
    def high(self) -> float:
        return float(upper_limit(self.right, self.guesses, (1 - self.confidence) / 2))

    @property
    def holds(self) -> bool:
        """Whether the figure is one that the bound allows."""
        return self.bound is None or self.low <= self.bound


def most_right(epsilon: float, delta: float = 0.0) -> float:
    """No guess of a fair bit is right more often under (epsilon, delta).

    Example:
        >>> round(most_right(1.0), 3)
        0.731
    """
    return min(1.0, (math.exp(epsilon) + delta) / (1 + math.exp(epsilon)))


EVERYBODY = ("minimax", "least squares", "Hadamard")
EXACT = (*EVERYBODY, "inclusion and exclusion", "knows all others", "searched")
ALL = (*EXACT, "repeated", "paraphrased")


def usual_desks(people: int, k: int, epsilon: float, delta: float) -> list[Desk]:
    """Desks that answer exactly, with free noise, and privately.

    Free noise spreads as an even error within half the root of the people does, which is the error
    up to which Dinur & Nissim reconstruct nearly everybody.
    """
    alpha = math.sqrt(people) / 2
    sd = alpha / math.sqrt(3)

    def private(kind: str, delta: float) -> Desk:
        return Desk(
            f"private, {kind}, ε {epsilon:g}",
            lambda held, frame, questions, seed: Private(
                counter(held, frame), epsilon, delta, questions, seed
            ),
            ALL,
            partial(Private.variance, epsilon, delta),
            most_right(epsilon, delta),
        )

    def rng(seed: int) -> np.random.Generator:
        return np.random.default_rng(seed)

    return [
        Desk(
            f"refused below {k}", lambda held, frame, *_: threshold(counter(held, frame), k), EXACT
        ),
        Desk(
            f"error within {alpha:.3g}",
            lambda held, frame, _questions, seed: bounded(counter(held, frame), alpha, rng(seed)),
            EVERYBODY,
            lambda _questions: alpha**2 / 3,
        ),
        Desk(
            f"fresh noise, sd {sd:.3g}, free",
            lambda held, frame, _questions, seed: fresh(counter(held, frame), sd, rng(seed)),
            ("least squares", "Hadamard", "repeated"),
            lambda _questions: sd**2,
        ),
        Desk(
            f"sticky noise, sd {sd:.3g}, free",
            lambda held, frame, _questions, seed: sticky(counter(held, frame), sd, seed),
            ("least squares", "Hadamard", "repeated", "paraphrased"),
            lambda _questions: sd**2,
        ),
        private("Gaussian", delta),
        private("Laplace", 0.0),
    ]


def ledgered_desks(epsilon: float, delta: float) -> list[Desk]:
    """`sfumato.Desk` itself, with Gaussian and with Laplace noise, its cap the whole budget.

    Sets are searched for on the mechanism in memory, which anybody can run.
    """
    found = []
    for kind, share in (("Gaussian", delta), ("Laplace", 0.0)):

        def real(
            held: Visits, frame: Frame, questions: int, _seed: int, share: float = share
        ) -> Answerer:
            return Ledgered(held, frame, epsilon, share, questions)

        def shadow(
            held: Visits, frame: Frame, questions: int, seed: int, share: float = share
        ) -> Answerer:
            return Private(counter(held, frame), epsilon, share, questions, seed)

        variance = partial(Private.variance, epsilon, share)
        name = f"sfumato.Desk, {kind}, ε {epsilon:g}"
        found.append(Desk(name, real, ALL, variance, most_right(epsilon, share), shadow))
    return found


@dataclass(frozen=True, slots=True)
class Game:
    """Sizes of the games."""

    people: int
    draws: int
    seed: int
    repeats: int
    """Questions of each of two kinds in an averaging attack."""

    def questions(self, attack: str) -> int:
        """Different questions that an attack asks in one run."""
        return {
            "minimax": 4 * self.people,
            "least squares": 4 * self.people,
            "Hadamard": next_power(self.people),
            "inclusion and exclusion": 7,
            "knows all others": 1,
            "searched": SEARCHED_QUESTIONS,
            "repeated": 2,
            "paraphrased": 2 * self.repeats,
        }[attack]

    def runs(self, attack: str) -> int:
        """Runs of an attack, each on fresh bits and a fresh desk."""
        return self.draws if attack in EVERYBODY else ONE_PERSON_EVERY * self.draws


def play(game: Game, desks: Sequence[Desk], progress: Progress | None = None) -> list[Score]:
    """Every desk's attacks, each on fresh bits in every run.

    Args:
        game: Sizes.
        desks: What is attacked.
        progress: Told of each attack.

    Returns:
        One score a pair of attack and desk, in the order of the desks.

    Example:
        >>> game = Game(people=32, draws=2, seed=1, repeats=8)
        >>> (desk, *_) = usual_desks(32, 2, 1.0, 1e-6)
        >>> play(game, [desk])[0].share
        1.0
    """
    tell = progress or (lambda _stage, _share: None)
    pairs = [(desk, attack) for desk in desks for attack in desk.attacks]
    scores = []
    for number, (desk, attack) in enumerate(pairs):
        tell(f"{attack}: {desk.name}", number / len(pairs))
        scores.append(_score(game, desk, attack))
    return scores


def _score(game: Game, desk: Desk, attack: str) -> Score:
    runs, planned = game.runs(attack), game.questions(attack)
    # One stream an attack and run: all desks are attacked over the same people.
    name = np.frombuffer(attack.encode(), np.uint8).tolist()
    run = _runner(game, desk, attack, np.random.default_rng([game.seed, *name]))
    right = guesses = asked = refused = 0
    for number in range(runs):
        rng = np.random.default_rng([game.seed, number, *name])
        found, truth = run(rng, planned)
        right += found.right(truth)
        guesses += len(found.bits)
        asked += found.asked
        refused += found.refused
    return Score(
        attack, desk.name, right, guesses, asked // runs, refused / max(asked, 1), desk.bound
    )


Run = Callable[[np.random.Generator, int], tuple[Guess, Bits]]


def _runner(game: Game, desk: Desk, attack: str, rng: np.random.Generator) -> Run:
    if attack == "inclusion and exclusion":
        return partial(_john, desk)
    if attack == "searched":
        return _searched(desk, Town.of(min(SEARCHED, game.people)), rng)
    return partial(_in_town, game, desk, attack, Town.of(game.people))


def _in_town(
    game: Game, desk: Desk, attack: str, town: Town, rng: np.random.Generator, planned: int
) -> tuple[Guess, Bits]:
    bits = rng.random(town.people) < 0.5
    answerer = desk.make(town.visits(bits), town.frame, planned, int(rng.integers(1 << 31)))
    person = int(rng.integers(town.people))
    if attack == "minimax":
        found = dinur_nissim(answerer, town, rng)
    elif attack == "least squares":
        variance = desk.variance(planned)
        found = dinur_nissim(answerer, town, rng, solver="least-squares", variance=variance)
    elif attack == "Hadamard":
        found = dwork_yekhanin(answerer, town)
    elif attack == "knows all others":
        found = knows_others(answerer, town, bits, person)
    else:
        paraphrase = attack == "paraphrased"
        repeats = game.repeats
        found = averaged(answerer, town, rng, person, repeats=repeats, paraphrase=paraphrase)
    return found, bits


def _john(desk: Desk, rng: np.random.Generator, planned: int) -> tuple[Guess, Bits]:
    visited = rng.random(1) < 0.5
    frame, held = hospital(bool(visited[0]), rng)
    answerer = desk.make(held, frame, planned, int(rng.integers(1 << 31)))
    overlap = in_all(answerer, frame, [[HOSPITAL], [FIRST], [SECOND]], [0])
    refused = sum(answer is None for answer in overlap.answers)
    told = rng.random() < 0.5 if overlap.people is None else overlap.people > 0.5
    return Guess(np.array([0]), np.array([told]), len(overlap.answers), refused), visited


def _searched(desk: Desk, town: Town, rng: np.random.Generator) -> Run:
    def made(make: Make, bits: Bits, seed: int) -> Answerer:
        return make(town.visits(bits), town.frame, SEARCHED_QUESTIONS, seed)

    shadow = partial(made, desk.shadow or desk.make)
    attack = search(shadow, town, rng, int(rng.integers(town.people)), questions=SEARCHED_QUESTIONS)

    def run(rng: np.random.Generator, _planned: int) -> tuple[Guess, Bits]:
        bits = rng.random(town.people) < 0.5
        return attack.guess(made(desk.make, bits, int(rng.integers(1 << 31))), town), bits

    return run
