"""Attacks on everybody: a whole town's bits from answers about sets of its people. INTERNAL.

Each attack asks an `Answerer` in the language of questions and reads bits from what it hears. None
sees the records. `knows_others` is the adversary of differential privacy: somebody who knows all
other bits asks one question about everybody; no auditor of answers can stand against that.

`Guess.right` compares with the truth, which is why all of it is internal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato_lab.attacks.queries.decode import (
    from_hadamard,
    hadamard_masks,
    least_squares,
    minimax,
    next_power,
)
from sfumato_lab.attacks.queries.town import Answerer, Bits, Town, Values


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """What an attack says about some people's bits, and what it cost to ask."""

    people: NDArray[np.int64]
    """Whom it speaks of, as their number."""
    bits: Bits
    asked: int
    refused: int

    def right(self, truth: Bits) -> int:
        """How many of them are right."""
        return int((truth[self.people] == self.bits).sum())


def _guess(estimate: Values, answers: Values) -> Guess:
    refused = int(np.isnan(answers).sum())
    return Guess(np.arange(len(estimate), dtype=np.int64), estimate > 0.5, len(answers), refused)


def dinur_nissim(
    answerer: Answerer,
    town: Town,
    rng: np.random.Generator,
    *,
    questions: int | None = None,
    solver: str = "minimax",
    variance: float = 0.0,
) -> Guess:
    """Random halves of the town, and the bits that agree best with all answers.

    Args:
        answerer: Who is attacked.
        town: Whose people.
        rng: Draws the halves.
        questions: How many; four times the people by default.
        solver: `minimax` or `least-squares`.
        variance: Of the answers' noise, for least squares.

    Returns:
        A guess about everybody.

    Raises:
        UsageError: If there is no such solver.

    Example:
        >>> import numpy as np
        >>> from sfumato_lab.attacks.queries.town import Town, threshold
        >>> town, bits = Town.of(32), np.arange(32) % 3 == 0
        >>> desk = threshold(town.counter(bits), 2)
        >>> dinur_nissim(desk, town, np.random.default_rng(1)).right(bits)
        32
    """
    if solver not in ("minimax", "least-squares"):
        raise UsageError(f"There is no solver {solver!r}.", remedy="Use minimax or least-squares.")
    masks = rng.random((questions or 4 * town.people, town.people)) < 0.5
    answers = town.ask(answerer, masks)
    if solver == "minimax":
        return _guess(minimax(masks, answers), answers)
    return _guess(least_squares(masks, answers, variance=variance), answers)


def dwork_yekhanin(answerer: Answerer, town: Town) -> Guess:
    """One question a person, by Hadamard's matrix; people who do not exist make up a power of two.

    Args:
        answerer: Who is attacked.
        town: Whose people.

    Returns:
        A guess about everybody.

    Example:
        >>> import numpy as np
        >>> from sfumato_lab.attacks.queries.town import Town, exact
        >>> town, bits = Town.of(30), np.arange(30) % 3 == 0
        >>> dwork_yekhanin(exact(town.counter(bits)), town).right(bits)
        30
    """
    masks = hadamard_masks(next_power(town.people))
    # Who does not exist has the bit 0 in any case, and need not be asked about.
    answers = town.ask(answerer, masks[:, : town.people])
    return _guess(from_hadamard(answers)[: town.people], answers)


def knows_others(answerer: Answerer, town: Town, truth: Bits, person: int) -> Guess:
    """One question about everybody, from which all other people's bits are taken off.

    Args:
        answerer: Who is attacked.
        town: Whose people.
        truth: The bits that the adversary knows; the person's own is not looked at.
        person: Who is guessed.

    Returns:
        A guess about that person.
    """
    others = truth.copy()
    others[person] = False
    answer = town.ask(answerer, np.ones((1, town.people), np.bool_))
    told = answer[0] - others.sum()
    bit = bool(told > 0.5) if np.isfinite(told) else False
    return Guess(np.array([person]), np.array([bit]), 1, int(np.isnan(answer).sum()))


def averaged(
    answerer: Answerer,
    town: Town,
    rng: np.random.Generator,
    person: int,
    *,
    repeats: int,
    paraphrase: bool,
) -> Guess:
    """A crowd with and without the person, asked again and again, and the difference of the means.

    Plain repetition wears down fresh noise and says nothing new about sticky noise. A paraphrase
    names other empty zones each time: another set of zones with the same true answer, for which
    noise that is bound to the question is drawn anew (Gadotti et al. 2019 broke a system so).

    Args:
        answerer: Who is attacked.
        town: Whose people.
        rng: Draws the crowd and the padding.
        person: Who is guessed.
        repeats: Questions of each kind.
        paraphrase: Name other empty zones in each repetition.

    Returns:
        A guess about that person; a coin where nothing was answered.

    Raises:
        UsageError: If a paraphrase has no empty zones to name.

    Example:
        >>> import numpy as np
        >>> from sfumato_lab.attacks.queries.town import Town, sticky
        >>> town, bits = Town.of(32), np.arange(32) % 3 == 0
        >>> desk = sticky(town.counter(bits), 3.0, seed=1)
        >>> rng = np.random.default_rng(1)
        >>> averaged(desk, town, rng, 6, repeats=500, paraphrase=True).right(bits)
        1
    """
    if paraphrase and not town.empty:
        raise UsageError("Without an empty zone there is nothing to paraphrase with.")
    crowd = rng.random(town.people) < 0.5
    crowd[person] = False
    joined = crowd.copy()
    joined[person] = True
    questions = []
    for _ in range(repeats):
        for who in (joined, crowd):
            lakes = np.flatnonzero(rng.random(town.empty) < 0.5) if paraphrase else ()
            questions.append(town.question(who, [int(lake) for lake in lakes]))
    heard = answerer(questions)
    answers = np.array([np.nan if one is None else float(one) for one in heard]).reshape(-1, 2)
    refused = int(np.isnan(answers).sum())
    seen = np.isfinite(answers)
    if not seen.any(axis=0).all():
        bit = bool(rng.random() < 0.5)
    else:
        means = np.where(seen, answers, 0.0).sum(axis=0) / seen.sum(axis=0)
        bit = bool(means[0] - means[1] > 0.5)
    return Guess(np.array([person]), np.array([bit]), answers.size, refused)
