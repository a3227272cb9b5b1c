"""A search for questions that give one person away, on whatever desk there is. INTERNAL.

Cretu et al. (2022) let a machine find attacks on a system that they could only run: it tries sets
of questions on made-up data of which it knows the secret, keeps what tells most, and changes it.
Here the same in small. A *shadow* is a desk of the attacked kind over a town whose bits the search
drew itself. A set of questions is judged by how far apart answers lie, and refusals too, between
shadows with and without the person. The rule is linear: ridge regression of the secret on
answers and refusals, fitted on half of the shadows and judged on the other half.

Changes are of three kinds: some other people go in or out of a question; a question becomes
another one's copy with the person changed; a question is drawn anew. The best set is kept. The
search never sees the desk that is attacked in the end, and asks that one each question once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato_lab.attacks.queries.reconstruct import Guess
from sfumato_lab.attacks.queries.town import Answerer, Bits, Masks, Town, Values

Shadow = Callable[[Bits, int], Answerer]
"""A desk of the attacked kind over a town with these bits, its noise from a seed."""

_CERTAIN = 8.0
"""Standard deviations between the two cases at which a search ends: one error in 30,000."""
_RIDGE = 0.02
"""Share of the features' own spread that steadies the fit: with 24 shadows and 12 features plain
regression fits the noise. 0.2 found the same sets and told them apart a little less."""


@dataclass(frozen=True, slots=True, eq=False)
class Attack:
    """Questions and a rule that reads the person's bit from their answers."""

    person: int
    masks: Masks
    weights: Values
    middle: float
    strength: float
    """Standard deviations between the answers with and without the person, on fresh shadows."""
    tried: int

    def guess(self, answerer: Answerer, town: Town) -> Guess:
        """Ask and guess."""
        answers = town.ask(answerer, self.masks)
        score = float(_features(answers[None, :], self.masks)[0] @ self.weights)
        told = np.array([score > self.middle])
        refused = int(np.isnan(answers).sum())
        return Guess(np.array([self.person]), told, len(answers), refused)


def search(
    shadow: Shadow,
    town: Town,
    rng: np.random.Generator,
    person: int,
    *,
    questions: int = 6,
    steps: int = 120,
    shadows: int = 48,
) -> Attack:
    """The set of questions that tells most about the person, as far as a local search finds it.

    Args:
        shadow: Makes desks of the attacked kind.
        town: Where their people live.
        rng: Draws shadows and changes.
        person: Who is to be guessed.
        questions: How many may be asked.
        steps: Changes that are tried.
        shadows: Towns on which a set is judged.

    Returns:
        The questions with their rule, fitted on fresh shadows.

    Example:
        >>> import numpy as np
        >>> from sfumato_lab.attacks.queries.town import Town, threshold
        >>> town = Town.of(24)
        >>> def shadow(bits, seed):
        ...     return threshold(town.counter(bits), 4)
        >>> found = search(shadow, town, np.random.default_rng(2), person=3)
        >>> bits = np.arange(24) % 2 == 1
        >>> found.guess(threshold(town.counter(bits), 4), town).right(bits)
        1
    """
    trial = _Shadows.drawn(shadow, town, rng, person, shadows)
    best = rng.random((questions, town.people)) < 0.5
    strength, tried = trial.strength(best), 0
    while tried < steps:
        changed = _changed(best, person, rng)
        found = trial.strength(changed)
        if found >= strength:
            best, strength = changed, found
        tried += 1
        if strength >= _CERTAIN:  # of these shadows; others may hear a refusal that none here did
            trial = _Shadows.drawn(shadow, town, rng, person, shadows)
            strength = trial.strength(best)
            if strength >= _CERTAIN:
                break
    fitted = _Shadows.drawn(shadow, town, rng, person, 4 * shadows)
    return fitted.rule(best, tried)


def _changed(masks: Masks, person: int, rng: np.random.Generator) -> Masks:
    out = masks.copy()
    one, other = rng.integers(len(masks), size=2)
    kind = rng.integers(3)
    if kind == 0:
        toggled = rng.integers(masks.shape[1], size=1 + rng.integers(masks.shape[1] // 8 + 1))
        out[one, toggled] ^= True
    elif kind == 1:
        out[one] = masks[other]
        out[one, person] ^= True
    else:
        out[one] = rng.random(masks.shape[1]) < rng.random()
    return out


def _features(answers: Values, masks: Masks) -> Values:
    """Answers less what fair coins would give, and whether each was refused."""
    expected = masks.sum(axis=1) / 2
    refused = np.isnan(answers)
    return np.concatenate([np.where(refused, 0.0, answers - expected), refused], axis=1)


def _fitted(features: Values, secret: Bits) -> Values:
    centred = features - features.mean(axis=0)
    spread = centred.T @ centred / len(centred)
    ridge = _RIDGE * float(np.trace(spread)) / len(spread) + 1e-9
    target = centred.T @ (secret - secret.mean()) / len(centred)
    return np.linalg.solve(spread + ridge * np.eye(len(spread)), target)


@dataclass(frozen=True, slots=True, eq=False)
class _Shadows:
    town: Town
    person: int
    desks: tuple[Callable[[], Answerer], ...]
    secret: Bits

    @classmethod
    def drawn(
        cls, shadow: Shadow, town: Town, rng: np.random.Generator, person: int, many: int
    ) -> _Shadows:
        """Half of them with the person, in turn, so that halves of them are balanced too."""
        bits = rng.random((many, town.people)) < 0.5
        secret = np.arange(many) % 2 == 0
        bits[:, person] = secret
        seeds = rng.integers(1 << 31, size=many).tolist()

        def desk(row: Bits, seed: int) -> Callable[[], Answerer]:
            return lambda: shadow(row, seed)  # made anew for each set: a desk may remember

        return cls(town, person, tuple(map(desk, bits, seeds)), secret)

    def heard(self, masks: Masks) -> Values:
        """What each shadow says to these questions."""
        return _features(np.array([self.town.ask(desk(), masks) for desk in self.desks]), masks)

    def strength(self, masks: Masks) -> float:
        """Standard deviations between the two cases, fitted on one half and judged on the other."""
        features = self.heard(masks)
        half = np.arange(len(self.secret)) < len(self.secret) // 2
        found = [
            _apart(features[~part] @ _fitted(features[part], self.secret[part]), self.secret[~part])
            for part in (half, ~half)
        ]
        return min(float(np.mean(found)), 10 * _CERTAIN)

    def rule(self, masks: Masks, tried: int) -> Attack:
        """The rule of a set, from all of these shadows."""
        features = self.heard(masks)
        weights = _fitted(features, self.secret)
        score = features @ weights
        middle = (score[self.secret].mean() + score[~self.secret].mean()) / 2
        strength = self.strength(masks)
        return Attack(self.person, masks, weights, float(middle), strength, tried)


def _apart(score: Values, secret: Bits) -> float:
    one, other = score[secret], score[~secret]
    spread = float(np.sqrt((one.var() + other.var()) / 2))
    return float((one.mean() - other.mean()) / (spread + 1e-6))
