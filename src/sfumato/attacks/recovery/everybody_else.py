"""The baseline that knows everybody else: what would be learned of somebody who is not in the data.

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

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.recovery import kernels
from sfumato.attacks.recovery.linking import Visits
from sfumato.attacks.recovery.tables import counts_of

FOLDS = 20


def guessed_from_others(
    truth: NDArray[np.int32], cells: int, rng: np.random.Generator, *, folds: int = FOLDS
) -> NDArray[np.int64]:
    """The cell that each person's guess is held at; of one person alone nothing is known: -1."""
    people = len(truth)
    found = np.full(people, -1, np.int64)
    if people < 2:
        return found
    parts = np.array_split(rng.permutation(people), min(max(folds, 2), people))
    everybody = counts_of(truth, cells).sum(axis=1)
    visits = Visits.of(truth)
    for part in parts:
        others = everybody - counts_of(truth[part], cells).sum(axis=1)
        homes = rng.choice(cells, size=people, p=others / others.sum())
        found[part] = paired_homes(visits, homes, cells)[part]
    return found


def paired_homes(visits: Visits, homes: NDArray[np.int64], cells: int) -> NDArray[np.int64]:
    """Greedy pairing with guesses that never move: the home that each person takes.

    The same as `accuracy.greedy_pairing` with every home held in all slots, ties and all.
    """
    order = np.argsort(homes, kind="stable")
    heads = np.zeros(cells + 1, np.int64)
    np.cumsum(np.bincount(homes, minlength=cells), out=heads[1:])
    row = kernels.pair_homes(
        visits.cells, visits.often, visits.starts, order, heads[:-1].copy(), heads[1:], homes
    )
    return np.where(row >= 0, homes[row], -1)
