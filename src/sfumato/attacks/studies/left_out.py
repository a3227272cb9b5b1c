"""The same scheme and the same attack had a person not been in the data: the promise, played out.

Differential privacy compares a release with the one that would have been made without the person.
Here that is done: people are dealt into folds by lot; for each fold the scheme publishes everybody
*outside* it, with noise of its own, and the attack recovers as many trajectories as there are
people. All people pair with them greedily, the left-out ones too, and only the fold's own people
are scored. What the attack reaches on the whole table *above* this, it learned from people's own
records; the rest is the map, which is told whether or not they take part.

The adversary knows how many people there are and scales every slot to that number, whatever the
table shows, for those who take part and for those who do not: the comparison must not turn on a
total that a fold makes smaller.

This stands beside the baseline that knows everybody else and does not replace it: it explains how
much of an accuracy is the scheme telling the map well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.recovery.accuracy import greedy_pairing
from sfumato.attacks.recovery.days import Solver
from sfumato.attacks.recovery.recover import Method, recover
from sfumato.attacks.recovery.tables import Fill
from sfumato.attacks.studies.schemes import Attacked

FOLDS = 20


def left_out(
    town: Attacked, scheme: str, epsilon: float, seed: int, *, folds: int = FOLDS
) -> float:
    """Greedy accuracy on people whom the attacked table does not count."""
    people = len(town.truth.cells)
    rng = np.random.default_rng([0x1EF7, seed])
    right = 0
    for k, part in enumerate(np.array_split(rng.permutation(people), min(folds, people))):
        who = np.ones(people, dtype=bool)
        who[part] = False
        table = town.published(scheme, epsilon, 1_000 * (seed + 1) + k, who=who)
        right += int(_right(town, table, seed)[part].sum())
    return right / town.truth.cells.size


def taking_part(town: Attacked, scheme: str, epsilon: float, seed: int) -> float:
    """The same attack on the table that counts everybody."""
    return float(_right(town, town.published(scheme, epsilon, seed), seed).mean())


def _right(town: Attacked, table: NDArray[np.float64], seed: int) -> NDArray[np.bool_]:
    """Person x slot: whether the attack has them right."""
    truth, ground = town.truth.cells, town.truth.ground
    method = Method(solver=Solver.CELLS, fill=Fill.SCALE, people=len(truth))
    found = recover(table, ground, town.truth.clock, method, seed=seed).cells
    partner = greedy_pairing(truth, found, ground.cells)
    paired = np.where((partner >= 0)[:, None], found[partner], -1)
    return np.asarray(paired == truth)
