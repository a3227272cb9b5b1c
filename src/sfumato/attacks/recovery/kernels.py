"""Compiled passes of the recovery attack."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled, inlined

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@inlined
def _metres(p: Floats, q: Floats, far: float) -> float:
    """Distance of two points; a point that is nowhere has no coordinates."""
    if math.isnan(p[0]) or math.isnan(q[0]):
        return 0.0 if math.isnan(p[0]) and math.isnan(q[0]) else far
    return math.hypot(p[0] - q[0], p[1] - q[1])


@compiled
def check_duals(
    sources: Floats, sinks: Floats, far: float, u: Floats, v: Floats, add: int, tolerance: float
) -> tuple[Ints, Ints, Floats]:
    """Every pair's reduced cost: the worst `add` violated sinks of each source, and each sink's
    largest feasible potential min(d - u) (the c-transform of u)."""
    n, m = len(sources), len(sinks)
    best = np.full(m, np.inf)
    worst = np.empty(add)
    which = np.empty(add, np.int64)
    rows = np.empty(n * add, np.int64)
    columns = np.empty(n * add, np.int64)
    violated = 0
    for i in range(n):
        held = 0
        for j in range(m):
            room = _metres(sources[i], sinks[j], far) - u[i]
            best[j] = min(best[j], room)
            excess = v[j] - room
            if excess <= tolerance or (held == add and excess <= worst[held - 1]):
                continue
            # Insert into the short list, largest excess first.
            at = min(held, add - 1)
            held = min(held + 1, add)
            while at > 0 and worst[at - 1] < excess:
                worst[at], which[at] = worst[at - 1], which[at - 1]
                at -= 1
            worst[at], which[at] = excess, j
        for k in range(held):
            rows[violated], columns[violated] = i, which[k]
            violated += 1
    return rows[:violated], columns[:violated], best


@compiled
def common_mass(
    cells: Ints,
    often: Ints,
    starts: Ints,
    rows: Ints,
    other_cells: Ints,
    other_often: Ints,
    other_starts: Ints,
    columns: Ints,
) -> Floats:
    """Sum over common cells of (w+f) ln(w+f) - w ln w - f ln f, for rows x columns."""
    # Who of the columns was in a cell, and how often: only cells in common are looked at.
    # Blocks of a few people are many, so that nothing here passes over everybody.
    most, w_most, f_most = 1, 0, 0
    for a in rows:
        for i in range(starts[a], starts[a + 1]):
            most, w_most = max(most, cells[i] + 1), max(w_most, often[i])
    for b in columns:
        for j in range(other_starts[b], other_starts[b + 1]):
            most, f_most = max(most, other_cells[j] + 1), max(f_most, other_often[j])
    ends = np.zeros(most + 1, np.int64)
    for b in columns:
        for j in range(other_starts[b], other_starts[b + 1]):
            ends[other_cells[j] + 1] += 1
    for cell in range(most):
        ends[cell + 1] += ends[cell]
    at = ends[:-1].copy()
    who = np.empty(ends[most], np.int64)
    visits = np.empty(ends[most], np.int64)
    for b in range(len(columns)):
        for j in range(other_starts[columns[b]], other_starts[columns[b] + 1]):
            cell = other_cells[j]
            who[at[cell]], visits[at[cell]] = b, other_often[j]
            at[cell] += 1
    n_log_n = np.zeros(w_most + f_most + 1)
    for n in range(1, n_log_n.size):
        n_log_n[n] = n * math.log(n)
    out = np.zeros((len(rows), len(columns)))
    for a in range(len(rows)):
        shared = out[a]
        for i in range(starts[rows[a]], starts[rows[a] + 1]):
            w = often[i]
            for k in range(ends[cells[i]], ends[cells[i] + 1]):
                f = visits[k]
                shared[who[k]] += n_log_n[w + f] - n_log_n[w] - n_log_n[f]
    return out


@compiled
def add_metres(total: Floats, rows: Ints, columns: Ints, metres: Floats) -> None:
    """total[i, j] += metres[rows[i], columns[j]]; rows below zero are passed over."""
    for i in range(rows.size):
        if rows[i] < 0:
            continue
        apart = metres[rows[i]]
        for j in range(columns.size):
            total[i, j] += apart[columns[j]]


@compiled
def pair_up(
    truth: NDArray[np.int32],
    recovered: NDArray[np.int32],
    members: Ints,
    starts: Ints,
    cells: int,
    remove: bool,
) -> tuple[Ints, Ints]:
    """For each row of `truth` the row of `recovered` that agrees in most slots, and in how many.

    `members[starts[k]:starts[k + 1]]` are the rows of `recovered` at k = slot * cells + cell. With
    `remove` a row is taken once (greedy, in order); a row that is left none gets -1.
    """
    people, slots = truth.shape
    equal = np.zeros(len(recovered), np.int64)
    used = np.zeros(len(recovered), np.bool_)
    touched = np.empty(len(recovered), np.int64)
    match = np.full(people, -1, np.int64)
    agree = np.zeros(people, np.int64)
    free = 0
    for i in range(people):
        seen = 0
        for t in range(slots):
            if truth[i, t] < 0:
                continue
            k = t * cells + truth[i, t]
            for at in range(starts[k], starts[k + 1]):
                r = members[at]
                if used[r]:
                    continue
                if equal[r] == 0:
                    touched[seen] = r
                    seen += 1
                equal[r] += 1
        best = -1
        for s in range(seen):
            r = touched[s]
            if best < 0 or equal[r] > equal[best] or (equal[r] == equal[best] and r < best):
                best = r
        if best >= 0:
            agree[i] = equal[best]
        else:
            while remove and free < len(recovered) and used[free]:
                free += 1
            best = free if free < len(recovered) else -1
        for s in range(seen):
            equal[touched[s]] = 0
        match[i] = best
        if remove and best >= 0:
            used[best] = True
    return match, agree


@compiled
def top_cells(rows: NDArray[np.int32], k: int) -> NDArray[np.int32]:
    """The k most visited cells of each row as a sorted set, -1 where there are fewer."""
    out = np.full((len(rows), k), -1, np.int32)
    slots = rows.shape[1]
    often = np.empty(slots, np.int64)
    for i in range(len(rows)):
        order = np.sort(rows[i])
        distinct = 0
        for t in range(slots):
            if order[t] < 0:
                continue
            if distinct and order[distinct - 1] == order[t] and t > 0:
                often[distinct - 1] += 1
            else:
                order[distinct] = order[t]
                often[distinct] = 1
                distinct += 1
        for rank in range(min(k, distinct)):
            best = 0
            for d in range(1, distinct):
                if often[d] > often[best]:
                    best = d
            out[i, rank] = order[best]
            often[best] = -1
        out[i].sort()
    return out


@compiled
def pair_homes(
    cells: Ints, often: Ints, starts: Ints, queue: Ints, heads: Ints, ends: Ints, homes: Ints
) -> Ints:
    """For each person the unused row of `homes` in the cell they visit most often.

    `queue[heads[c]:ends[c]]` are the rows at cell c, lowest first; `heads` is used up. Ties go
    to the lowest row. Who visits no cell with an unused row takes the lowest unused one.
    """
    people = len(starts) - 1
    match = np.full(people, -1, np.int64)
    used = np.zeros(len(homes), np.bool_)
    free = 0
    for i in range(people):
        best, most = -1, 0
        for at in range(starts[i], starts[i + 1]):
            c = cells[at]
            if c < 0 or heads[c] == ends[c] or often[at] < most:
                continue
            row = queue[heads[c]]
            if often[at] > most or row < best:
                best, most = row, often[at]
        if best < 0:
            while free < len(homes) and used[free]:
                free += 1
            if free == len(homes):
                continue
            best = free
        used[best] = True
        heads[homes[best]] += 1  # the lowest unused row is the head of its cell
        match[i] = best
    return match
