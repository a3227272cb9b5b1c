"""Trajectory recovery from aggregates (Xu et al. 2017), as Chen et al. and others use it.

from sfumato.attacks.recovery import Clock, Ground, Method, accuracy, recover

found = recover(table, Ground(centres), Clock.of(grid), Method(), seed=0)
accuracy(truth, found.cells, ground, clock)        # internal: it reads the truth
"""

from sfumato.attacks.recovery.accuracy import Accuracy, accuracy, uniqueness
from sfumato.attacks.recovery.clock import Clock
from sfumato.attacks.recovery.days import Solver
from sfumato.attacks.recovery.ground import Ground
from sfumato.attacks.recovery.linking import Link
from sfumato.attacks.recovery.recover import Method, Recovered, recover
from sfumato.attacks.recovery.tables import Fill, counts_of, suppressed, whole_people

__all__ = [
    "Accuracy",
    "Clock",
    "Fill",
    "Ground",
    "Link",
    "Method",
    "Recovered",
    "Solver",
    "accuracy",
    "counts_of",
    "recover",
    "suppressed",
    "uniqueness",
    "whole_people",
]
