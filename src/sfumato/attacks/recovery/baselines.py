"""Accuracy of a recovery, and the baselines that it is judged by. INTERNAL.

**Accuracy**: how much of the truth a recovery tells, every definition in use, by name.

* *greedy* (the code of Xu et al. 2017): people in order each take the unused recovered
  trajectory that agrees in most slots; the mean share of agreeing slots.
* *assignment* (later re-implementations): people and trajectories are paired for the least
  total distance, then the mean share of agreeing slots. Quadratic memory: up to
  `ASSIGNMENT_LIMIT` people, NaN above.
* *best*: every recovered trajectory against the person it agrees with most, none used up. An
  upper bound: one lucky trajectory counts for many.

Greedy and best pairings choose the partner *after* the fact, so they reward chance; a number
means something only beside the same score of a baseline.

**Baselines** (`score_baselines`) link nobody. Each is named by what it knows:

* *random*: the table's own people, linked by lot in every slot;
* *stay*: the table's first slot of each day, held all day, days linked by lot;
* *map*: the true average map of these very people, which a release is meant to tell, and nobody's
  way: people held for the whole period at cells in proportion to it. An attack that is no better
  has found no more than the map;
* *others*: the true average map of everybody else, leave-fold-out (below). It knows nothing of the
  person who is guessed: **the baseline that accuracies are judged by**;
* *census*, *halves*: only where a study has other people of the same town. People held for the
  whole period at cells drawn from the average map of those, the kind of thing a census tells; and
  from that of one half of the counted people, for the other half. The latter was this
  package's first form of *others*: half of the people have half of the chances of a lucky guess, so
  it understates what can be guessed.

**Leave-fold-out** (`leave_fold_out_map`): what would be learned of somebody who is not in the data.
Differential privacy promises that a release tells of a person hardly more than it would had the
person's record been left out. This baseline is that promise without any noise: the *exact* average
map of everybody else is known, and nothing of the person.

*Definition.* n people are dealt into folds by lot (`FOLDS`, or n where they are fewer). For each
fold, n guesses are drawn independently from the average map (visits of all slots) of the people
*outside* it, each held at its cell for the whole period. *All* n people then pair greedily with
the n guesses, exactly as they do with n recovered trajectories, so that the number of guesses and
the competition for them are those of the attack; only the fold's own people are scored. Everybody
is scored once, and nobody is guessed from a map that contains them. Who is alone in all their
cells is never guessed; where all stay in one cell, everybody is.

Nothing is needed but the holder's own people, and none of them is used up. A guess that never
moves agrees with a person in as many slots as the person spent in its cell, so a fold costs
one look at each person's distinct cells: 100,000 people and 48 slots take seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from sfumato.attacks.recovery import kernels
from sfumato.attacks.recovery.attack import Method
from sfumato.attacks.recovery.linking import Visits
from sfumato.attacks.trajectories import Fill, Ground, People, counts_of, whole_people
from sfumato.model.time_grid import Clock

ASSIGNMENT_LIMIT = 3_000
SAMPLED = 2_000
"""People that *best* is measured on: a share of them has a half-width of two points at most."""
Rows = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Accuracy:
    """Shares of 0 to 1; distances in metres."""

    greedy: float
    assignment: float
    best: float
    error_m: float
    """Mean distance per slot between a person and the greedy partner."""
    assignment_error_m: float
    by_slot: NDArray[np.float64]
    """Greedy, slot by slot."""
    night: float
    day: float
    margin: float = 0.0
    """90 % half-width of *greedy* over people: others of the same town would score so."""

    def as_dict(self) -> dict[str, float]:
        names = (
            "greedy",
            "assignment",
            "best",
            "error_m",
            "assignment_error_m",
            "night",
            "day",
            "margin",
        )
        return {name: float(getattr(self, name)) for name in names}


def greedy_pairing(truth: Rows, recovered: Rows, cells: int) -> NDArray[np.int64]:
    """Row of `recovered` for each person, -1 where none was left."""
    return _pair_up(truth, recovered, cells, remove=True)[0]


def accuracy(
    truth: Rows,
    recovered: Rows,
    ground: Ground,
    clock: Clock | None = None,
    *,
    assignment_limit: int = ASSIGNMENT_LIMIT,
) -> Accuracy:
    """Score `recovered` (people in any order and number) against `truth`, both person x slot."""
    partner = greedy_pairing(truth, recovered, ground.cells)
    paired = np.where((partner >= 0)[:, None], recovered[partner], -1)
    equal = (paired == truth) & (truth >= 0)
    by_slot = equal.mean(axis=0)
    night = clock.night if clock is not None else np.zeros(truth.shape[1], dtype=bool)
    some = _some(recovered)
    best = _pair_up(some, truth, ground.cells, remove=False)[1].mean() / truth.shape[1]
    least, least_error = _by_assignment(truth, recovered, ground, assignment_limit)
    return Accuracy(
        greedy=float(equal.mean()),
        assignment=least,
        best=float(best),
        error_m=_error(truth, paired, ground),
        assignment_error_m=least_error,
        by_slot=by_slot,
        night=float(by_slot[night].mean()) if night.any() else float("nan"),
        day=float(by_slot[~night].mean()) if not night.all() else float("nan"),
        margin=1.645 * float(equal.mean(axis=1).std()) / math.sqrt(len(truth)),
    )


def _some(rows: Rows, most: int = SAMPLED) -> Rows:
    """The same people at every call, where there are more than are asked for."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(np.random.default_rng(0x5A3).choice(len(rows), most, replace=False))]


def reusing(truth: Rows, recovered: Rows, ground: Ground) -> float:
    """Greedy without using up: every person against the trajectory that agrees in most slots."""
    return float(_pair_up(truth, recovered, ground.cells, remove=False)[1].mean() / truth.shape[1])


def uniqueness(rows: Rows, most: int = 5) -> NDArray[np.float64]:
    """Distinct sets of the k most visited cells over people, k = 1 … `most` (Xu et al. 2017)."""
    sets = (np.unique(kernels.top_cells(rows, k), axis=0) for k in range(1, most + 1))
    return np.array([len(each) / len(rows) for each in sets])


def _pair_up(
    rows: Rows, others: Rows, cells: int, *, remove: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    slots = rows.shape[1]
    person, slot = np.nonzero(others >= 0)
    key = slot * np.int64(cells) + others[person, slot]
    order = np.argsort(key, kind="stable")
    starts = np.zeros(slots * cells + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=slots * cells), out=starts[1:])
    return kernels.pair_up(rows, others, person[order], starts, cells, remove)


def _error(truth: Rows, paired: Rows, ground: Ground) -> float:
    lost = np.where(paired < 0, ground.nowhere, paired).astype(np.int64)
    known = truth >= 0
    return float(ground.metres(truth.astype(np.int64), lost)[known].mean())


def _by_assignment(truth: Rows, recovered: Rows, ground: Ground, limit: int) -> tuple[float, float]:
    if max(len(truth), len(recovered)) > limit:
        return float("nan"), float("nan")
    total = np.zeros((len(truth), len(recovered)))
    lost = np.where(recovered < 0, ground.nowhere, recovered).astype(np.int64)
    back = np.empty(len(truth), np.int64)
    for t in range(truth.shape[1]):
        known = truth[:, t] >= 0
        back[:] = -1
        here, back[known] = np.unique(truth[known, t].astype(np.int64), return_inverse=True)
        there, forth = np.unique(lost[:, t], return_inverse=True)
        metres = ground.metres(here[:, None], there[None])
        kernels.add_metres(total, back, forth.astype(np.int64), metres)
    # Whoever is assigned in any case may be given a discount: nothing else is best then, and the
    # search ends after a quarter of the time (2,000 people on 40 cells).
    if len(truth) >= len(recovered):
        total -= total.min(axis=0, initial=np.inf)
    if len(truth) <= len(recovered):
        total -= total.min(axis=1, initial=np.inf)[:, None]
    i, j = linear_sum_assignment(total)
    partner = np.full(len(truth), -1)
    partner[i] = j
    paired = np.where((partner >= 0)[:, None], recovered[partner], -1)
    equal = (paired == truth) & (truth >= 0)
    return float(equal.mean()), _error(truth, paired, ground)


def random_linking(counts: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
    """`counts` as `whole_people` gives them: the last row is nowhere."""
    nowhere = counts.shape[0] - 1
    columns = [rng.permutation(np.repeat(np.arange(nowhere + 1), column)) for column in counts.T]
    return _marked(np.stack(columns, axis=1), nowhere)


def everybody_stays(
    counts: NDArray[np.int64], clock: Clock, rng: np.random.Generator
) -> NDArray[np.int32]:
    """`counts` as above; who is where at the start of a day is there until its end."""
    nowhere = counts.shape[0] - 1
    parts = []
    for slots in clock.days:
        start = rng.permutation(np.repeat(np.arange(nowhere + 1), counts[:, slots[0]]))
        parts.append(np.repeat(start[:, None], slots.size, axis=1))
    return _marked(np.concatenate(parts, axis=1), nowhere)


def population_average(
    average: NDArray[np.float64], people: int, slots: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """`average`: a non-negative map of other people, not all zero."""
    homes = rng.choice(average.size, size=people, p=average / average.sum())
    return np.repeat(homes[:, None], slots, axis=1).astype(np.int32)


def known_map(
    average: NDArray[np.float64], people: int, slots: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """`average`: the true mean counts, cell by cell, made whole by largest remainder."""
    held = whole_people(average[:, None], rng, fill=Fill.SCALE, people=people)[:-1, 0]
    homes = rng.permutation(np.repeat(np.arange(average.size), held))
    return np.repeat(homes[:, None], slots, axis=1).astype(np.int32)


def _marked(rows: NDArray[np.int64], nowhere: int) -> NDArray[np.int32]:
    return np.where(rows == nowhere, -1, rows).astype(np.int32)


FOLDS = 20


def leave_fold_out_map(
    truth: NDArray[np.int32], cells: int, rng: np.random.Generator, *, folds: int = FOLDS
) -> NDArray[np.int64]:
    """The cell that each person's guess is held at; of one person alone nothing is known: -1."""
    people = len(truth)
    guesses = np.full(people, -1, np.int64)
    if people < 2:
        return guesses
    parts = np.array_split(rng.permutation(people), min(max(folds, 2), people))
    everybody = counts_of(truth, cells).sum(axis=1)
    visits = Visits.of(truth)
    for part in parts:
        others = everybody - counts_of(truth[part], cells).sum(axis=1)
        homes = rng.choice(cells, size=people, p=others / others.sum())
        guesses[part] = paired_homes(visits, homes, cells)[part]
    return guesses


def paired_homes(visits: Visits, homes: NDArray[np.int64], cells: int) -> NDArray[np.int64]:
    """Greedy pairing with guesses that never move: the home that each person takes.

    The same as `greedy_pairing` with every home held in all slots, ties and all.
    """
    order = np.argsort(homes, kind="stable")
    heads = np.zeros(cells + 1, np.int64)
    np.cumsum(np.bincount(homes, minlength=cells), out=heads[1:])
    row = kernels.pair_homes(
        visits.cells, visits.often, visits.starts, order, heads[:-1].copy(), heads[1:], homes
    )
    return np.where(row >= 0, homes[row], -1)


KNOWN = ("random", "stay", "map", "others")
"""Baselines that every attack has."""
JUDGED_BY = "others"
Scores = dict[str, float]


def score_baselines(
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
    scores = {name: _shown(_scored(people, guess)) for name, guess in guesses.items()}
    rng = np.random.default_rng([0xE15E, seed])
    scores["others"], by_slot = others(people, rng)
    if people.others is not None:
        scores["census"] = census(people, rng)
        scores["halves"] = halves(people, rng)
    return scores, by_slot


def others(people: People, rng: np.random.Generator) -> tuple[Scores, NDArray[np.float64]]:
    """The baseline that knows all others, and its accuracy by slot."""
    truth, ground = people.cells, people.ground
    if len(truth) < 2:
        return dict.fromkeys(("greedy", "error_m"), float("nan")), np.full(truth.shape[1], np.nan)
    home = leave_fold_out_map(truth, ground.cells, rng)[:, None]
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
