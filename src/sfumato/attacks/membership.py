"""Membership inference: is this person among those who were counted? The game, and its AUC.

**The game.** In each round every one of some people joins by the toss of a coin; the group is
counted and its table published. The adversary, who knows the target's trajectory and what other
published groups looked like (Pyrgelis et al. 2018), says how likely the target is in it. Because
coins are tossed for each person apart, a round with the target and one without differ by exactly
one record, added or removed, which is what a guarantee speaks of; and every round serves every
target, so that a scheme that takes seconds can be played against. Two adversaries:

* *knows*: looks at the published counts at the target's own slots and cells, subtracts what
  groups without the target show there on average and weighs by their covariance: the most
  powerful test for a known shift in Gaussian noise (Neyman & Pearson);
* *trained*: learns the difference from published groups with and without the target (Fisher's
  discriminant with shrinkage), so it adapts to whatever the publication does, bias and all.

Both train on *published* tables, noise included, the strategic adversary of the paper, on one
half of the rounds and are scored on the other, both ways round. Beside them stands *blind*: the
trained one asked about somebody else's coins, which shows what chance alone scores here.

**The score** is the area under the ROC curve: the chance that a round with the target scores above
one without (ties count half): 0.5 is guessing, 1 is certainty. Targets and rounds are both samples,
and all targets are scored on the same rounds, so the interval is a percentile bootstrap that
redraws targets and rounds apart from each other (Owen & Eckles 2012). `allowed` is how large a
guarantee lets the area be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.trajectories import counts_of
from sfumato.errors import UsageError

Scores = NDArray[np.float64]
Inside = NDArray[np.bool_]
_REDRAWN = 400


@dataclass(frozen=True, slots=True)
class Auc:
    """Mean over targets with its confidence interval."""

    value: float
    low: float
    high: float
    confidence: float = 0.95

    @property
    def loss(self) -> float:
        """Privacy loss as Pyrgelis et al. have it: 0 for guessing, 1 for certainty."""
        return max(0.0, 2 * self.value - 1)


def area(with_target: Scores, without: Scores) -> float:
    """Mann & Whitney's statistic as a share."""
    below = np.sort(without)
    wins = np.searchsorted(below, with_target, "left").sum()
    wins_or_ties = np.searchsorted(below, with_target, "right").sum()
    return float((wins + wins_or_ties) / (2 * with_target.size * without.size))


def allowed(epsilon: float, delta: float = 0.0) -> float:
    """No adversary's area exceeds this under (epsilon, delta), adding or removing one record.

    Of all rounds, TPR <= e^eps FPR + delta and 1 - FPR <= e^eps (1 - TPR) + delta (Kairouz, Oh &
    Viswanath 2015); the area under the lower of both lines is e^eps / (1 + e^eps) where delta is
    zero, and delta lifts every point of the curve by no more than delta.
    """
    return min(1.0, 1 / (1 + math.exp(-epsilon)) + delta)


def interval(
    folds: list[tuple[Scores, Inside]], rng: np.random.Generator, confidence: float = 0.95
) -> Auc:
    """Target x round scores and who was inside; scores compare within a fold alone."""
    wins = [_wins(scores, inside) for scores, inside in folds]
    once = [np.ones((1, w.shape[1])) for w in wins]
    whole = np.mean([_areas(w, o, i) for w, o, (_, i) in zip(wins, once, folds, strict=True)])
    drawn = np.zeros(_REDRAWN)
    targets = folds[0][0].shape[0]
    who = rng.multinomial(targets, np.full(targets, 1 / targets), _REDRAWN) / targets
    for w, (_, inside) in zip(wins, folds, strict=True):
        rounds = w.shape[1]
        weight = rng.multinomial(rounds, np.full(rounds, 1 / rounds), _REDRAWN).astype(np.float64)
        drawn += (who * _areas(w, weight, inside)).sum(axis=1) / len(folds)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Auc(float(whole), float(low), float(high), confidence)


def _wins(scores: Scores, inside: Inside) -> Scores:
    """For each target and pair of rounds: does the first, with it, beat the second, without?"""
    one, other = scores[:, :, None], scores[:, None, :]
    pairs = inside[:, :, None] & ~inside[:, None, :]
    return np.where(pairs, (one > other) + 0.5 * (one == other), 0.0)


def _areas(wins: Scores, weight: Scores, inside: Inside) -> Scores:
    """Draw x target areas for rounds taken `weight` times; 0.5 where a side is empty."""
    held = weight @ inside.T
    pairs = held * (weight.sum(axis=1, keepdims=True) - held)
    won = np.einsum("bi,tij,bj->bt", weight, wins, weight, optimize=True)
    return np.asarray(np.where(pairs > 0, won / np.maximum(pairs, 1), 0.5))


Table = NDArray[np.float64]
Rows = NDArray[np.int32]
Publish = Callable[[Rows, np.random.Generator], Table]
"""From the trajectories of a group, person x slot, to the published table, cell x slot."""
_SHRINK = 0.1


def publish_counts(
    cells: int, change: Callable[[NDArray[np.int64], np.random.Generator], Table] | None = None
) -> Publish:
    """Publish the group's counts as they are, or what `change` makes of them."""

    def publish(rows: Rows, rng: np.random.Generator) -> Table:
        counts = counts_of(rows, cells)
        return counts.astype(np.float64) if change is None else change(counts, rng)

    return publish


@dataclass(frozen=True, slots=True)
class Game:
    """How often and with whom it is played; groups are of about `group` people."""

    group: int = 100
    targets: int = 60
    rounds: int = 48
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.targets, self.group) < 1 or self.rounds < 8 or self.rounds % 4:
            raise UsageError(
                "A game needs a target, a group and at least eight rounds, a multiple of four.",
                remedy="Take 48 rounds.",
            )


@dataclass(frozen=True, slots=True)
class Membership:
    """Internal: how well membership can be told."""

    knows: Auc
    trained: Auc
    blind: Auc
    """What chance alone scores: the trained adversary and coins that are not the target's."""
    game: Game

    @property
    def worst(self) -> Auc:
        return max(self.knows, self.trained, key=lambda auc: auc.value)


def play(
    trajectories: Rows,
    game: Game,
    publish: Publish,
    progress: Callable[[float], None] | None = None,
) -> Membership:
    """Play the rounds and score every target; `trajectories` is person x slot."""
    people = 2 * game.group
    if len(trajectories) < max(people, 4):
        raise UsageError(
            "There are too few people for groups of that size.",
            remedy=f"Take groups of at most {len(trajectories) // 2}.",
        )
    rng = np.random.default_rng([game.seed, 0x3E])
    rows = trajectories[rng.choice(len(trajectories), size=people, replace=False)]
    half = game.rounds // 2
    coins = np.tile(np.arange(half) < half // 2, (2 * people, 1))
    coins = rng.permuted(coins, axis=1).reshape(people, game.rounds)  # each half is balanced
    # A target's table is looked at in its own cells alone, and nothing else is kept.
    targets = min(game.targets, people)
    seen = [np.flatnonzero(way >= 0) for way in rows[:targets]]
    views = [np.empty((game.rounds, at.size)) for at in seen]
    for r in range(game.rounds):
        table = publish(rows[coins[:, r]], np.random.default_rng([game.seed, 0x3F, r]))
        for way, at, view in zip(rows, seen, views, strict=False):
            view[r] = table[way[at], at]
        if progress is not None:
            progress((r + 1) / game.rounds)
    scores = np.empty((2, 2, targets, half))
    for k, view in enumerate(views):
        for fold in (0, 1):
            test = slice(fold * half, (fold + 1) * half)
            train = slice((1 - fold) * half, (2 - fold) * half)
            held = coins[k, train]
            inside, outside = view[train][held], view[train][~held]
            for a, direction in enumerate((_known(outside), _learned(inside, outside))):
                scores[a, fold, k] = view[test] @ direction
    own = coins[:targets].reshape(targets, 2, half)
    other = coins[np.arange(1, targets + 1) % people].reshape(targets, 2, half)

    def auc_of(adversary: int, who: NDArray[np.bool_]) -> Auc:
        return interval([(scores[adversary, f], who[:, f]) for f in (0, 1)], rng)

    return Membership(auc_of(0, own), auc_of(1, own), auc_of(1, other), game)


def _known(outside: Table) -> NDArray[np.float64]:
    """Best direction for a shift of one in every slot."""
    return _direction(outside - outside.mean(axis=0), np.ones(outside.shape[1]))


def _learned(inside: Table, outside: Table) -> NDArray[np.float64]:
    """Fisher's discriminant."""
    shift = inside.mean(axis=0) - outside.mean(axis=0)
    both = np.concatenate([inside - inside.mean(axis=0), outside - outside.mean(axis=0)])
    return _direction(both - both.mean(axis=0), shift)


def _direction(centred: Table, shift: NDArray[np.float64]) -> NDArray[np.float64]:
    """The shift over the covariance, which is pulled towards its diagonal: so it is invertible.

    There are far fewer rounds than slots, so the system is solved in the space of rounds
    (Woodbury's identity): the same direction, of 12 unknowns instead of 168.
    """
    rounds, slots = centred.shape
    level = max(float(np.square(centred).sum()) / (max(rounds - 1, 1) * slots), 1e-6)
    own = _SHRINK * level
    scaled = centred * math.sqrt((1 - _SHRINK) / max(rounds - 1, 1))
    if slots <= rounds:
        return np.asarray(np.linalg.solve(scaled.T @ scaled + own * np.eye(slots), shift))
    seen = np.linalg.solve(scaled @ scaled.T + own * np.eye(rounds), scaled @ shift)
    return np.asarray((shift - scaled.T @ seen) / own)
