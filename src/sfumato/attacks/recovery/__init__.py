"""Trajectory recovery from aggregates (Xu et al. 2017), as Chen et al. and others use it.

from sfumato.attacks.recovery import Clock, Ground, Method, accuracy, recover

recovered = recover(table, Ground(centres), Clock.of(grid), Method(), seed=0)
accuracy(truth, recovered.cells, ground, clock)        # internal: it reads the truth
"""

from sfumato.attacks.recovery.attack import Method, Recovered, Solver, recover
from sfumato.attacks.recovery.baselines import Accuracy, accuracy, uniqueness
from sfumato.attacks.recovery.linking import Link
from sfumato.attacks.trajectories import Fill, Ground, counts_of, suppressed, whole_people
from sfumato.model.time_grid import Clock

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
