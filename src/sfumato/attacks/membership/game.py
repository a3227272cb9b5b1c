"""The game: is this person among those who were counted?

A challenger draws a group with the target or without, counts it and publishes the table. The
adversary, who knows the target's trajectory and can count and publish groups of other people
(Pyrgelis et al. 2018), says how likely the target is in it. Two adversaries:

* *knows*: looks at the published counts at the target's own slots and cells, subtracts what
  groups without the target show there on average and weighs by their covariance: the most
  powerful test for a known shift in Gaussian noise (Neyman & Pearson);
* *trained*: learns the difference from published groups with and without the target (Fisher's
  discriminant with shrinkage), so it adapts to whatever the publication does, bias and all.

Both train on *published* tables, noise included, the strategic adversary of the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.membership.auc import Auc, interval
from sfumato.attacks.recovery.tables import counts_of
from sfumato.model.errors import UsageError

Table = NDArray[np.float64]
Publish = Callable[[NDArray[np.int64], np.random.Generator], NDArray[np.float64]]
"""From the counts of a group, cell x slot, to the table that is published."""
_SHRINK = 0.1


def publish_as_is(counts: NDArray[np.int64], _rng: np.random.Generator) -> Table:
    """No protection."""
    return counts.astype(np.float64)


@dataclass(frozen=True, slots=True)
class Game:
    """How often and with whom it is played. Half of the games have the target."""

    group: int = 100
    targets: int = 20
    training: int = 60
    games: int = 60
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.targets, self.group) < 1 or min(self.training, self.games) < 4:
            raise UsageError("A game needs a target, a group and at least four rounds each.")


@dataclass(frozen=True, slots=True)
class Membership:
    """Internal: how well membership can be told."""

    knows: Auc
    trained: Auc
    game: Game

    @property
    def worst(self) -> Auc:
        return max(self.knows, self.trained, key=lambda found: found.value)


def play(
    trajectories: NDArray[np.int32],
    cells: int,
    game: Game,
    publish: Publish,
    progress: Callable[[float], None] | None = None,
) -> Membership:
    """Play against every target; `trajectories` is person x slot."""
    people = len(trajectories)
    if people < game.group + 1:
        raise UsageError(
            "There are too few people for groups of that size.",
            remedy=f"Take groups of at most {people - 1}.",
        )
    rng = np.random.default_rng([game.seed, 0x3E])
    targets = rng.choice(people, size=min(game.targets, people), replace=False)
    scores = np.empty((2, 2, targets.size, game.games // 2))
    for k, target in enumerate(targets.tolist()):
        own = trajectories[target]
        seen = np.flatnonzero(own >= 0)

        def look(
            rounds: int,
            with_target: bool,
            target: int = target,
            where: tuple[NDArray[np.int32], NDArray[np.int64]] = (own[seen], seen),
        ) -> Table:
            tables = np.empty((rounds, where[1].size))
            for r in range(rounds):
                group = _group(people, game.group, target, with_target, rng)
                tables[r] = publish(counts_of(trajectories[group], cells), rng)[where]
            return tables

        half = game.training // 2
        inside, outside = look(half, True), look(half, False)
        directions = _known(outside), _learned(inside, outside)
        for side, with_target in enumerate((True, False)):
            rows = look(game.games // 2, with_target)
            for a, direction in enumerate(directions):
                scores[a, side, k] = rows @ direction
        if progress is not None:
            progress((k + 1) / targets.size)
    knows, trained = (interval(scores[a, 0], scores[a, 1], rng) for a in (0, 1))
    return Membership(knows, trained, game)


def _group(
    people: int, size: int, target: int, with_target: bool, rng: np.random.Generator
) -> NDArray[np.int64]:
    """People other than the target, and the target where it takes part."""
    others = rng.choice(people - 1, size=size - with_target, replace=False)
    group = others + (others >= target)
    return np.append(group, target) if with_target else group


def _shrunk(rows: Table) -> NDArray[np.float64]:
    """Covariance pulled towards its diagonal, which also keeps it invertible."""
    centred = rows - rows.mean(axis=0)
    found = centred.T @ centred / max(len(rows) - 1, 1)
    level = max(float(np.trace(found)) / len(found), 1e-6)
    return np.asarray((1 - _SHRINK) * found + _SHRINK * level * np.eye(len(found)))


def _known(outside: Table) -> NDArray[np.float64]:
    """Best direction for a shift of one in every slot."""
    return np.asarray(np.linalg.solve(_shrunk(outside), np.ones(outside.shape[1])))


def _learned(inside: Table, outside: Table) -> NDArray[np.float64]:
    """Fisher's discriminant."""
    shift = inside.mean(axis=0) - outside.mean(axis=0)
    both = np.concatenate([inside - inside.mean(axis=0), outside - outside.mean(axis=0)])
    return np.asarray(np.linalg.solve(_shrunk(both), shift))
