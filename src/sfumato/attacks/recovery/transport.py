"""The cell-level solver: people in one cell are interchangeable, so flows between cells suffice.

The least total distance of a step is a transportation problem between the cells where people
are expected and the cells where they are counted next. Three things make it fast and exact:

* *stay first*: distance is a metric, so some optimal plan leaves min(supply, demand) in each
  cell (triangle inequality) and only the rest has to travel;
* *sparse arcs*: the nearest neighbours of each source and sink, and one feasible plan along a
  space-filling curve, so that a solution exists from the start;
* *certificate*: the duals of the sparse optimum are checked on **all** pairs. Violated arcs are
  added and the problem is solved again; at the end the dual bound, computed over all pairs,
  equals the cost, which proves the plan optimal among all plans.

The sparse problems are solved by the network simplex of POT (Bonneel et al. 2011).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.spatial import cKDTree

from sfumato.attacks.recovery import kernels
from sfumato.attacks.trajectories import Cells, Ground
from sfumato.errors import SfumatoError
from sfumato.model.extras import optional

_NEIGHBOURS = 32
_ADD = 16
_SLACK_M = 1e-5
"""Metres by which a dual may be off before its arc is added: far above rounding."""
_ROUNDS = 200
_ITERATIONS = 1_000_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Transport:
    """People that move from cell to cell, and the proof that no plan is shorter."""

    source: Cells
    sink: Cells
    people: Cells
    cost: float
    """Total distance in metres."""
    bound: float
    """No plan can cost less: the value of a dual that is feasible on all pairs."""
    arcs: int
    rounds: int

    @property
    def gap(self) -> float:
        """Share of the cost that is not proved necessary; rounding only, where certified."""
        return (self.cost - self.bound) / max(self.cost, 1.0)

    @property
    def certified(self) -> bool:
        return abs(self.gap) < 1e-8


def transport(supply: Cells, demand: Cells, ground: Ground) -> Transport:
    """A plan of least total distance; both have one number a cell and one for nowhere."""
    stay = np.minimum(supply, demand)
    at_home = np.flatnonzero(stay)
    a, b = supply - stay, demand - stay
    s, k = np.flatnonzero(a), np.flatnonzero(b)
    if not s.size:
        return Transport(at_home, at_home, stay[at_home], 0.0, 0.0, 0, 0)
    moved = _solve(s, a[s], k, b[k], ground)
    return Transport(
        np.concatenate([at_home, moved.source]),
        np.concatenate([at_home, moved.sink]),
        np.concatenate([stay[at_home], moved.people]),
        moved.cost,
        moved.bound,
        moved.arcs,
        moved.rounds,
    )


def deal(expected: Cells, plan: Transport, rng: np.random.Generator) -> NDArray[np.int64]:
    """Who goes: within a cell people are drawn by lot for the plan's flows."""
    order = rng.permutation(expected.size)
    order = order[np.argsort(expected[order], kind="stable")]
    flows = np.argsort(plan.source, kind="stable")
    moved = np.empty_like(expected)
    moved[order] = np.repeat(plan.sink[flows], plan.people[flows])
    return moved


def _solve(s: Cells, a: Cells, k: Cells, b: Cells, ground: Ground) -> Transport:
    """Column generation over arcs until the duals hold everywhere."""
    at = np.vstack([ground.centres, [[np.nan, np.nan]]])
    here, there = at[s], at[k]
    keys = _first_arcs(a, b, here, there)
    for rounds in range(1, _ROUNDS + 1):
        i, j = keys // k.size, keys % k.size
        metres = ground.metres(s[i], k[j])
        flow, u, v = _sparse(a, b, i, j, metres)
        rows, columns, ceiling = kernels.check_duals(
            here, there, ground.far, u, v, min(_ADD, k.size), _SLACK_M
        )
        if not rows.size:
            people = np.rint(flow.data).astype(np.int64)
            i, j = flow.row[people > 0], flow.col[people > 0]
            people = people[people > 0]
            if not (
                np.array_equal(np.bincount(i, people, s.size), a)
                and np.array_equal(np.bincount(j, people, k.size), b)
            ):
                raise SfumatoError("The transport plan does not move everybody.")
            cost = float(people @ ground.metres(s[i], k[j]))
            bound = float(u @ a + ceiling @ b)
            return Transport(s[i], k[j], people, cost, bound, keys.size, rounds)
        keys = np.union1d(keys, rows * k.size + columns)
    raise SfumatoError("The transport problem did not reach its optimum.")


def network_simplex() -> Any:
    """POT, which is optional: an attack asks for it before its first step."""
    return optional(
        "ot",
        "Recovering the trajectories of many people (the solver cells)",
        instead="Or take the `solver` people, which is as exact and cubic in people.",
    )


def _sparse(
    a: Cells, b: Cells, i: Cells, j: Cells, metres: NDArray[np.float64]
) -> tuple[coo_matrix, NDArray[np.float64], NDArray[np.float64]]:
    # An arc of no length would be dropped from a sparse matrix; none is left after staying.
    cost = coo_matrix((metres, (i, j)), shape=(a.size, b.size))
    ot = network_simplex()
    flow, log = ot.emd(
        a.astype(np.float64),
        b.astype(np.float64),
        cost,
        numItermax=_ITERATIONS,
        log=True,
        center_dual=False,
    )
    if log["warning"] is not None:
        raise SfumatoError("The transport problem did not reach its optimum.")
    return flow.tocoo(), log["u"], log["v"]


def _first_arcs(
    a: Cells, b: Cells, here: NDArray[np.float64], there: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Keys source * sinks + sink: near pairs both ways, all arcs of nowhere, a feasible plan."""
    n, m = len(here), len(there)
    real, goal = np.flatnonzero(~np.isnan(here[:, 0])), np.flatnonzero(~np.isnan(there[:, 0]))
    parts = [(lost * m + np.arange(m)) for lost in np.flatnonzero(np.isnan(here[:, 0]))] + [
        np.arange(n) * m + lost for lost in np.flatnonzero(np.isnan(there[:, 0]))
    ]
    if real.size and goal.size:
        near = min(_NEIGHBOURS, goal.size)
        nearest = cKDTree(there[goal]).query(here[real], near)[1].reshape(real.size, near)
        parts.append((real[:, None] * m + goal[nearest]).ravel())
        near = min(_NEIGHBOURS, real.size)
        nearest = cKDTree(here[real]).query(there[goal], near)[1].reshape(goal.size, near)
        parts.append((real[nearest] * m + goal[:, None]).ravel())
    # Filling sinks in the order of a curve through the map moves everybody somewhere.
    one, other = np.argsort(_curve(here)), np.argsort(_curve(there))
    sent, taken = np.cumsum(a[one]), np.cumsum(b[other])
    last = np.union1d(sent, taken) - 1
    parts.append(
        one[np.searchsorted(sent, last, side="right")] * m
        + other[np.searchsorted(taken, last, side="right")]
    )
    return np.unique(np.concatenate(parts)).astype(np.int64)


def _curve(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Position of points along a Morton curve."""
    low = np.nanmin(points, axis=0, initial=np.inf)
    span = float(np.nanmax(points, initial=-np.inf) - low.min())
    scaled = np.nan_to_num((points - low) / max(span, 1.0)) * 0x7FFF
    whole = np.clip(scaled, 0, 0xFFFF).astype(np.int64)
    code = np.zeros(len(points), np.int64)
    for bit in range(16):
        code |= ((whole[:, 0] >> bit) & 1) << (2 * bit) | ((whole[:, 1] >> bit) & 1) << (
            2 * bit + 1
        )
    return code
