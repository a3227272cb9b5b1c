"""Merge neighbouring cells until every cluster is large enough (Acs & Castelluccia 2014, Alg. 3).

Post-processing: it reads noisy totals, public positions and a public threshold. The
cluster with the smallest noisy total is merged with its closest neighbouring cluster,
again and again, until none lies below the threshold or only one is left.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.model.errors import UsageError


def merge_neighbours(
    totals: NDArray[np.float64],
    centres: NDArray[np.float64],
    areas: NDArray[np.float64],
    threshold: float,
    adjacency: csr_array | None = None,
) -> NDArray[np.int64]:
    """Cluster label of every cell, numbered 0, 1, … in order of first appearance.

    `centres` are in metres; the centre of a cluster is the area-weighted mean of its
    cells. "Neighbouring" means sharing an edge in `adjacency`; a cluster without any, and
    every cluster where `adjacency` is None, takes the closest of all.
    """
    n = totals.size
    if centres.shape != (n, 2) or areas.shape != (n,):
        raise UsageError("Every cell needs a total, a centre and an area.")
    total = totals.astype(np.float64).copy()
    area = areas.astype(np.float64).copy()
    centre = centres.astype(np.float64).copy()
    members: list[list[int]] = [[i] for i in range(n)]
    touching: list[set[int]] = [set() for _ in range(n)]
    if adjacency is not None:
        for i in range(n):
            row = adjacency.indices[adjacency.indptr[i] : adjacency.indptr[i + 1]]
            touching[i] = {int(j) for j in row} - {i}
    alive = np.ones(n, dtype=bool)
    heap = [(float(total[i]), i) for i in range(n)]
    heapq.heapify(heap)
    left = n
    while left > 1:
        smallest, e = heapq.heappop(heap)
        if not alive[e] or smallest != total[e]:
            continue  # an entry from before a merge
        if smallest >= threshold:
            break
        candidates = np.array(sorted(touching[e])) if touching[e] else np.flatnonzero(alive)
        candidates = candidates[candidates != e]
        away = np.square(centre[candidates] - centre[e]).sum(axis=1)
        other = int(candidates[np.argmin(away)])
        weight = area[e] + area[other]
        centre[e] = (area[e] * centre[e] + area[other] * centre[other]) / weight
        area[e] = weight
        total[e] += total[other]
        members[e] += members[other]
        members[other] = []
        alive[other] = False
        for k in touching[other]:
            touching[k].discard(other)
            if k != e:
                touching[k].add(e)
                touching[e].add(k)
        touching[e].discard(other)
        heapq.heappush(heap, (float(total[e]), e))
        left -= 1
    owner = np.empty(n, dtype=np.int64)
    for survivor in np.flatnonzero(alive):
        owner[members[survivor]] = survivor
    _, first, label = np.unique(owner, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    result: NDArray[np.int64] = rank[label]
    return result
