"""The user-level solver: one row a person, one column a place to be filled.

A dense linear assignment (Jonker & Volgenant's algorithm as SciPy has it), cubic in people: for
some thousands. It is the oracle that `transport` is checked against.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from sfumato.attacks.recovery.ground import Cells, Ground


def assign_people(
    expected: Cells, demand: Cells, ground: Ground, rng: np.random.Generator
) -> tuple[Cells, float]:
    """The next cell of each person expected at a cell, and the total distance in metres.

    `demand` has one number for each cell and one for nowhere. Rows and columns are shuffled, so
    that ties are broken by lot.
    """
    columns = np.repeat(np.arange(demand.size), demand)
    rng.shuffle(columns)
    rows = rng.permutation(expected.size)
    here, back = np.unique(expected[rows], return_inverse=True)
    there, forth = np.unique(columns, return_inverse=True)
    metres = ground.metres(here[:, None], there[None, :])
    cost = metres[back[:, None], forth[None, :]]
    one, other = linear_sum_assignment(cost)
    found = np.empty_like(expected)
    found[rows[one]] = columns[other]
    return found, float(cost[one, other].sum())
