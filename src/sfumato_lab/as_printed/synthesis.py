"""Methods of synthesis as they are printed or distributed, and what is wrong with them.

Nothing here can be published: these are the steps that claim a privacy which they do not give, each
small enough that the loss can be *measured* on two neighbouring data sets. What is sound in the
papers is built in `sfumato_lab.synthesis`; the table says what was changed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.utility.trips import Trips, cells_along

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Flaw:
    """One claim, what it is worth, and the correction."""

    method: str
    claim: str
    verdict: str
    correction: str


FLAWS = (
    Flaw(
        "AdaTrace (Gursoy et al. 2018), public code",
        "ε per trip",
        "broken: the grid spans the raw bounding box, cells are split by raw densities, trips' "
        "lengths are capped by their raw maximum; one trip at the rim moves the published grid",
        "public box, splits on noisy counts, public classes of length (`adatrace`)",
    ),
    Flaw(
        "DP-WHERE (Mir et al. 2013)",
        "ε per user",
        "broken: k-means of hourly profiles and the range of distances are read without noise; the "
        "two classes are published",
        "classes that each record tells by itself, a public grid of distances, medians by the "
        "exponential mechanism (`where`)",
    ),
    Flaw(
        "DPT (He et al. 2015)",
        "ε per trajectory",
        "broken where each tree is charged alone: a trip's moves stand in the trees of all "
        "reference systems; the choice of trees and the start cells cost nothing as printed",
        "one bound on a trip's move-grams over all trees, paid choice, paid starts (`dpt`)",
    ),
    Flaw(
        "Variable-length n-grams (Chen, Acs & Castelluccia 2012)",
        "ε per user",
        "sound with a public ℓ_max and alphabet; broken where ℓ_max is read from the data, and in "
        "floating point",
        "public bound, whole-number noise, one Gaussian budget over the levels (`ngrams`)",
    ),
    Flaw(
        "Prefix tree (Chen, Fung & Desai 2011)",
        "ε per user",
        "sound for one trip a user; with several it is per trip, and their epsilons add up; in "
        "floating point broken",
        "the unit is said (a trajectory), whole-number noise (`prefix`)",
    ),
    Flaw(
        "Networks trained with DP-SGD, as commonly run",
        "(ε, δ) per user",
        "broken where examples are trips and not users, batches are shuffled and not drawn by "
        "coins, hyper-parameters are chosen by private loss, or noise is in floating point",
        "coins for what is protected, its gradient clipped as a whole, everything fixed "
        "beforehand; noise in floating point is why `recurrent` stays a study",
    ),
)
"""What the study's page says of the printed forms."""


def raw_classes(profiles: Floats, steps: int = 20) -> NDArray[np.bool_]:
    """DP-WHERE's two classes of hourly profiles: k-means on the raw ones, first and last to begin.

    Deterministic: where one person moves the border, published class tables differ without noise.
    """
    centres = profiles[[0, -1]]
    which = np.zeros(len(profiles), np.bool_)
    for _ in range(steps):
        apart = [np.square(profiles - centre).sum(axis=1) for centre in centres]
        which = apart[1] < apart[0]
        if which.all() or not which.any():
            break
        centres = np.stack([profiles[~which].mean(axis=0), profiles[which].mean(axis=0)])
    return which


def tree_loss(trips: Trips, sides: Sequence[int], height: int = 3) -> float:
    """How many times its claim DPT loses where each tree is charged alone.

    Each tree of move-grams up to `height` gets noise for what one trip changes in *it*, at epsilon;
    the trees together lose the sum of what a trip changes in each over what is charged for it.
    On the worst of the trips given, each tree being charged for the worst one.
    """
    changed = np.zeros((len(sides), len(trips)))
    for row, side in enumerate(sides):
        _, begins = cells_along(trips, trips.box, side)
        moves = np.maximum(np.diff(begins) - 1, 0)
        for length in range(1, height + 1):
            changed[row] += np.maximum(moves - length + 1, 0)
    charged = np.maximum(changed.max(axis=1, keepdims=True), 1.0)
    return float((changed / charged).sum(axis=0).max())


@dataclass(frozen=True, slots=True, eq=False)
class Callers:
    """What DP-WHERE knows of each person: found in advance, one entry each."""

    home: Ints
    work: Ints
    far: Floats
    """From home to work, kilometres."""
    profile: Floats
    """Person x hour of the day: shares of calls."""


def where(
    people: Callers, places: int, epsilon: float, rng: np.random.Generator
) -> dict[str, Floats]:
    """DP-WHERE's tables as printed, a fifth of epsilon each, and people's homes and works of them.

    The median is drawn from zero to the *longest true* commute, and the classes are raw.
    """
    part = epsilon / 5

    def counts(of: Ints) -> Floats:
        return np.maximum(np.bincount(of, minlength=places) + rng.laplace(0, 1 / part, places), 0.0)

    ends = np.concatenate([[0.0], np.sort(people.far)])
    rank = np.arange(ends.size - 1) + 0.5
    log_weight = np.log(np.diff(ends) + 1e-12) - part / 2 * np.abs(rank - people.far.size / 2)
    weight = np.exp(log_weight - log_weight.max())
    chosen = int(rng.choice(weight.size, p=weight / weight.sum()))
    median = rng.uniform(ends[chosen], ends[chosen + 1])
    table = class_table(people.profile)
    return {
        "homes": counts(people.home),
        "works": counts(people.work),
        "median": np.array([median]),
        "farthest": ends[-1:],
        "classes": np.maximum(table + rng.laplace(0, 1 / part, table.shape), 0.0),
    }


def class_table(profiles: Floats) -> Floats:
    """Class x hour: profiles of sum one, added up in the classes that k-means finds in them."""
    which = raw_classes(profiles)
    return np.stack([profiles[~which].sum(axis=0), profiles[which].sum(axis=0)])


def class_loss(profiles: Floats, removed: int) -> float:
    """How many times its charge of 1 the class table moves in L1 when one person leaves.

    Which class is called the first does not count.
    """
    one, other = class_table(profiles), class_table(np.delete(profiles, removed, axis=0))
    return float(min(np.abs(one - other).sum(), np.abs(one - other[::-1]).sum()))
