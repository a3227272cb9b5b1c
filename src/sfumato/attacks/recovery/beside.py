"""What stands beside an attack: the same score for guesses that link nobody. INTERNAL.

Each baseline is named by what it knows:

* *random*, *stay*: the table itself, linked by lot or not at all (see `baselines`);
* *map*: the true average map of these very people;
* *others*: the true average map of everybody else (see `everybody_else`). It knows nothing of the
  person who is guessed: **the baseline that accuracies are judged by**;
* *census*, *halves*: only where a study has other people of the same town. The average map of
  those; and that of one half of the counted people, for the other half. The latter was this
  package's first form of *others*: half of the people have half of the chances of a lucky guess, so
  it understates what can be guessed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.recovery.accuracy import Accuracy, accuracy
from sfumato.attacks.recovery.baselines import (
    everybody_stays,
    known_map,
    population_average,
    random_linking,
)
from sfumato.attacks.recovery.everybody_else import guessed_from_others
from sfumato.attacks.recovery.people import People
from sfumato.attacks.recovery.recover import Method
from sfumato.attacks.recovery.tables import counts_of, whole_people

KNOWN = ("random", "stay", "map", "others")
"""Baselines that every attack has."""
JUDGED_BY = "others"
Scores = dict[str, float]


def beside(
    people: People,
    table: NDArray[np.float64] | NDArray[np.int64],
    method: Method,
    seed: int = 0,
) -> tuple[dict[str, Scores], NDArray[np.float64]]:
    """Greedy accuracy and error in metres of every baseline; *others* also slot by slot.

    Baselines that do not look at the table draw the same lots for every table of these people.
    """
    truth, clock = people.cells, people.clock
    rng = np.random.default_rng([0xBA5E, seed])
    counts = whole_people(table, rng, fill=method.fill, people=method.people)
    guesses = {
        "random": random_linking(counts, rng),
        "stay": everybody_stays(counts, clock, rng),
        "map": known_map(
            people.counts.mean(axis=1),
            len(truth),
            clock.slots,
            np.random.default_rng([0x3A9, seed]),
        ),
    }
    found = {name: _shown(_scored(people, guess)) for name, guess in guesses.items()}
    rng = np.random.default_rng([0xE15E, seed])
    found["others"], by_slot = others(people, rng)
    if people.others is not None:
        found["census"] = census(people, rng)
        found["halves"] = halves(people, rng)
    return found, by_slot


def others(people: People, rng: np.random.Generator) -> tuple[Scores, NDArray[np.float64]]:
    """The baseline that knows everybody else, and its accuracy by slot."""
    truth, ground = people.cells, people.ground
    if len(truth) < 2:
        return dict.fromkeys(("greedy", "error_m"), float("nan")), np.full(truth.shape[1], np.nan)
    home = guessed_from_others(truth, ground.cells, rng)[:, None]
    known = truth >= 0
    by_slot = ((truth == home) & known).mean(axis=0)
    lost = np.where(home < 0, ground.nowhere, home)
    metres = ground.metres(np.where(known, truth, 0).astype(np.int64), lost)[known].mean()
    return {"greedy": float(by_slot.mean()), "error_m": float(metres)}, by_slot


def census(people: People, rng: np.random.Generator) -> Scores:
    """People drawn from the average map of others whom no table counts."""
    assert people.others is not None
    average = counts_of(people.others, people.ground.cells).sum(axis=1).astype(np.float64)
    count, slots = people.cells.shape
    return _shown(_scored(people, population_average(average, count, slots, rng)))


def halves(people: People, rng: np.random.Generator) -> Scores:
    """Each half guessed from the average map of the other half."""
    truth, ground = people.cells, people.ground
    order = rng.permutation(len(truth))
    scores = []
    for side in (0, 1):
        mine, rest = truth[order[side::2]], truth[order[1 - side :: 2]]
        average = counts_of(rest, ground.cells).sum(axis=1).astype(np.float64)
        guess = population_average(average, len(mine), truth.shape[1], rng)
        scores.append(_shown(accuracy(mine, guess, ground, assignment_limit=0)))
    return {key: float(np.mean([part[key] for part in scores])) for key in scores[0]}


def _scored(people: People, guess: NDArray[np.int32]) -> Accuracy:
    return accuracy(people.cells, guess, people.ground, people.clock, assignment_limit=0)


def _shown(score: Accuracy) -> Scores:
    return {"greedy": score.greedy, "best": score.best, "error_m": score.error_m}
