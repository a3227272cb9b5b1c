"""Membership inference on aggregates (Pyrgelis, Troncoso & De Cristofaro 2018).

from sfumato.attacks.membership import Game, play, publish_counts

play(trajectories, Game(group=100), publish_counts(cells))     # internal: it reads the truth
"""

from sfumato.attacks.membership.auc import Auc, allowed, area, interval
from sfumato.attacks.membership.game import Game, Membership, Publish, play, publish_counts

__all__ = [
    "Auc",
    "Game",
    "Membership",
    "Publish",
    "allowed",
    "area",
    "interval",
    "play",
    "publish_counts",
]
