"""Membership inference on aggregates (Pyrgelis, Troncoso & De Cristofaro 2018).

from sfumato.attacks.membership import Game, play, publish_as_is

play(trajectories, cells, Game(group=100), publish_as_is)     # internal: it reads the truth
"""

from sfumato.attacks.membership.auc import Auc, area, interval
from sfumato.attacks.membership.game import Game, Membership, Publish, play, publish_as_is

__all__ = [
    "Auc",
    "Game",
    "Membership",
    "Publish",
    "area",
    "interval",
    "play",
    "publish_as_is",
]
