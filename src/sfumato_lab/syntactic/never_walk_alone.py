"""Never Walk Alone: (k, delta)-anonymity by clustering and translation (Abul, Bonchi & Nanni 2008).

Everybody has a position at every slot of a public clock. Trajectories are clustered, at least k to
a cluster; then at every slot each point farther than delta / 2 from the cluster's mean is moved to
that distance on the line to it. So two records of a cluster are never more than delta apart.

Clustering, greedily, as printed: the first pivot by lot, then the one farthest from the last; a
pivot takes its k - 1 nearest among those who are free if all of them are within the radius, and is
given up as a pivot if not. Who is left joins the nearest pivot within the radius, or the trash. If
the trash is more than the share allowed, the radius grows and all is done again. The distance of
two trajectories is the root of the mean of squared distances over the slots, the Euclidean distance
of the vectors: one matrix product gives it for all pairs.

That is quadratic. Above `block` people they are first *partitioned*: trajectories are projected on
their leading principal axes, and the widest axis is cut at its median until no part has more than
`block` people. People in different parts never meet in a cluster; what that costs is measured in
docs/benchmarks/anonymise.md.

(k, delta) with delta > 0 is **not** Definition 1 of Acs, Biczók & Castelluccia (k-anonymity):
within the tube records differ, and who knows a few exact points can tell them apart
(Trujillo-Rasua & Domingo-Ferrer 2013). With delta = 0 it is.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.compiled import compiled
from sfumato_lab.syntactic.people import enough_people

Ints = NDArray[np.int64]
Metres = NDArray[np.float32]
Squares = NDArray[np.float32]
FIRST = 0.005
"""The first radius as a share of the map's diagonal. Small, since it only grows."""
GROWTH = 1.5
"""Of the radius, as the paper's experimenters have it."""
HALVINGS = 5
"""Then between the last radius that was too small and the first that was not: on a made city of
20,000 people and k = 5 the trash ends nearer its limit and points move 7 % less."""
BLOCK = 4096
"""People in a part: distances of all pairs are 64 MiB. See docs/benchmarks/anonymise.md."""
AXES = 8
"""Principal axes that parts are cut along: home, work and the evenings are six numbers."""
TRIED = 6
"""Parts on which the radius is found before all parts are clustered with it."""
RELAX = 1.03
"""Where the parts that were tried were luckier than all together."""
SLACK_M = 0.05
"""Points stay so far within the tube: published degrees have seven decimals, a centimetre."""


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """The cluster of everybody, -1 in the trash, and the radius that it took."""

    cluster: Ints
    clusters: int
    radius_m: float

    @property
    def trash(self) -> float:
        """Share of people in no cluster."""
        return float((self.cluster < 0).mean()) if self.cluster.size else 0.0


def cluster_paths(
    at: Metres,
    k: int,
    *,
    trash: float = 0.1,
    block: int = BLOCK,
    seed: int = 0,
    threads: int = 2,
    progress: Callable[[float], None] | None = None,
) -> Clustered:
    """Clusters of at least k trajectories.

    Args:
        at: People x slots x 2, metres.
        k: Fewest trajectories in a cluster.
        trash: Largest share of people who may be left out.
        block: People that are clustered together; more are partitioned first.
        seed: Of the first pivots.
        threads: Parts at a time.
        progress: Told the share that is done.

    Raises:
        UsageError: There are fewer than k people, or the numbers make no sense.

    Example:
        >>> at = np.zeros((5, 3, 2), np.float32)
        >>> at[3:] += 5_000
        >>> cluster_paths(at, 2).cluster.tolist() in ([0, 0, 0, 1, 1], [1, 1, 1, 0, 0])
        True
    """
    enough_people(len(at), k)
    if not 0 <= trash < 1 or block < 2 * k:
        raise UsageError("`trash` is a share below 1, and a `block` holds at least 2 k people.")
    rows = at.reshape(len(at), -1)
    parts = partition(rows, block, k)
    lots = np.random.default_rng([seed, 0x41])
    first = np.array([lots.integers(part.size) for part in parts], np.int64)
    corner = at.min(axis=(0, 1)), at.max(axis=(0, 1))
    diagonal = float(np.hypot(*(corner[1] - corner[0]).astype(np.float64)))
    tried = np.unique(np.linspace(0, len(parts) - 1, TRIED).astype(int))
    known = [squared_distances(rows[parts[one]]) for one in tried]
    radius = smallest_radius(known, first[tried], k, trash, max(FIRST * diagonal, 1.0))
    del known
    while True:
        cluster, clusters = _all_parts(rows, parts, first, k, radius, threads, progress)
        if (cluster < 0).sum() <= trash * len(at):
            return Clustered(cluster, clusters, radius)
        radius *= RELAX


def smallest_radius(
    known: list[Squares], first: Ints, k: int, trash: float, radius: float
) -> float:
    """A radius that leaves few enough people of these parts in the trash.

    Args:
        known: Squared distances of all pairs of each part.
        first: The first pivot of each.
        k: Fewest in a cluster.
        trash: Largest share in none.
        radius: Where to begin.
    """
    people = sum(len(one) for one in known)

    def enough(radius_m: float) -> bool:
        labels = [greedy(one, k, radius_m**2, at)[0] for one, at in zip(known, first, strict=True)]
        return bool(sum(int((label < 0).sum()) for label in labels) <= trash * people)

    while not enough(radius):
        radius *= GROWTH
    low = radius / GROWTH
    for _ in range(HALVINGS):
        middle = (low * radius) ** 0.5
        low, radius = (low, middle) if enough(middle) else (middle, radius)
    return float(radius)


def _all_parts(
    rows: Metres,
    parts: list[Ints],
    first: Ints,
    k: int,
    radius: float,
    threads: int,
    progress: Callable[[float], None] | None,
) -> tuple[Ints, int]:
    """The clusters of every part, numbered through."""

    def one(number: int) -> tuple[Ints, int]:
        return greedy(squared_distances(rows[parts[number]]), k, radius**2, first[number])

    cluster = np.full(len(rows), -1, np.int64)
    clusters = 0
    with ThreadPoolExecutor(max(1, threads)) as pool:
        for number, (label, many) in enumerate(pool.map(one, range(len(parts)))):
            cluster[parts[number]] = np.where(label < 0, -1, label + clusters)
            clusters += many
            if progress is not None:
                progress((number + 1) / len(parts))
    return cluster, clusters


def squared_distances(rows: Metres) -> Squares:
    """Mean squared distance over the slots of all pairs: one matrix product."""
    slots = rows.shape[1] // 2
    moved = rows - rows.mean(axis=0, dtype=np.float64).astype(np.float32)  # keeps digits
    norms = np.einsum("ij,ij->i", moved, moved)
    found: Squares = moved @ moved.T
    found *= -2.0
    found += norms[:, None]
    found += norms
    np.maximum(found, 0.0, out=found)
    found /= np.float32(slots)
    return found


def partition(rows: Metres, block: int, k: int) -> list[Ints]:
    """Parts of at most `block` rows that lie together, each with at least k.

    Cut at the median of the widest of the leading principal axes, again and again.
    """
    if len(rows) <= block:
        return [np.arange(len(rows))]
    rng = np.random.default_rng(0x9A)
    some = rows[np.sort(rng.choice(len(rows), min(len(rows), 4096), replace=False))]
    middle = some.mean(axis=0, dtype=np.float64).astype(np.float32)
    _, _, axes = np.linalg.svd(some - middle, full_matrices=False)
    along = (rows @ axes[:AXES].T) - middle @ axes[:AXES].T
    parts, todo = [], [np.arange(len(rows))]
    while todo:
        part = todo.pop()
        if part.size <= block or part.size < 4 * k:
            parts.append(np.sort(part))
            continue
        here = along[part]
        widest = here[:, int(np.argmax(here.var(axis=0)))]
        order = np.argpartition(widest, part.size // 2)
        todo += [part[order[: part.size // 2]], part[order[part.size // 2 :]]]
    return parts


@compiled
def greedy(squares: Squares, k: int, limit: float, first: int) -> tuple[Ints, int]:
    """Clusters of one part from all pairs' squared distances; -1 is the trash."""
    people = squares.shape[0]
    label = np.full(people, -1, np.int64)
    may_lead = np.ones(people, np.bool_)
    pivots = np.empty(people // k + 1, np.int64)
    near = np.empty(k, np.int64)
    far = np.empty(k, np.float32)
    clusters = 0
    free = people
    pivot = first
    while pivot >= 0 and free >= k:
        many = 0  # the k nearest who are free, itself among them, by insertion
        for j in range(people):
            if label[j] >= 0:
                continue
            apart = squares[pivot, j] if j != pivot else np.float32(-1.0)
            if many < k or apart < far[many - 1]:
                at = many if many < k else k - 1
                while at > 0 and far[at - 1] > apart:
                    far[at], near[at] = far[at - 1], near[at - 1]
                    at -= 1
                far[at], near[at] = apart, j
                if many < k:
                    many += 1
        may_lead[pivot] = False
        if far[k - 1] <= limit:
            for one in near:
                label[one] = clusters
            pivots[clusters] = pivot
            clusters += 1
            free -= k
        last = pivot
        pivot = -1
        best = np.float32(-1.0)
        for j in range(people):
            if label[j] < 0 and may_lead[j] and squares[last, j] > best:
                best, pivot = squares[last, j], j
    for j in range(people):
        if label[j] < 0:
            best = np.float32(limit)
            for c in range(clusters):
                if squares[pivots[c], j] <= best:
                    best, label[j] = squares[pivots[c], j], c
    return label, clusters


def translate(at: Metres, cluster: Ints, clusters: int, delta_m: float) -> tuple[Metres, float]:
    """Positions of those in clusters after they were moved, in their order, and the mean distance.

    `translate_in_place` does the same without a copy.
    """
    moved = at.copy()
    mean = translate_in_place(moved, cluster, clusters, delta_m)
    return moved[cluster >= 0], mean


def translate_in_place(at: Metres, cluster: Ints, clusters: int, delta_m: float) -> float:
    """Move everybody into their cluster's tube, in place; who is in the trash stays.

    Args:
        at: People x slots x 2, metres. Changed.
        cluster: Of everybody, -1 in the trash.
        clusters: How many there are.
        delta_m: Diameter of the tube.

    Returns:
        The mean distance that the points of those in clusters were moved.
    """
    order, bounds = _members(cluster, clusters)
    moved = _translate(at, order, bounds, max(delta_m / 2 - SLACK_M, 0.0))
    return float(moved / max(1, order.size * at.shape[1]))


def _members(cluster: Ints, clusters: int) -> tuple[Ints, Ints]:
    """People by cluster, and where each cluster begins; the trash is in none."""
    order = np.argsort(cluster, kind="stable")
    order = order[np.searchsorted(cluster[order], 0) :]
    return order, np.searchsorted(cluster[order], np.arange(clusters + 1)).astype(np.int64)


@compiled
def _translate(at: Metres, order: Ints, bounds: Ints, radius: float) -> float:
    slots = at.shape[1]
    total = 0.0
    for c in range(bounds.size - 1):
        low, high = bounds[c], bounds[c + 1]
        for t in range(slots):
            x, y = 0.0, 0.0
            for j in range(low, high):
                x += at[order[j], t, 0]
                y += at[order[j], t, 1]
            x /= high - low
            y /= high - low
            for j in range(low, high):
                east, north = at[order[j], t, 0] - x, at[order[j], t, 1] - y
                apart = np.sqrt(east * east + north * north)
                if apart > radius:
                    keep = radius / apart
                    at[order[j], t, 0], at[order[j], t, 1] = x + keep * east, y + keep * north
                    total += apart - radius
    return total


def widest(at: Metres, cluster: Ints) -> tuple[int, float]:
    """The smallest cluster, and the largest distance of two of a cluster at any slot: the check.

    Args:
        at: People x slots x 2, metres, as published.
        cluster: Of everybody, -1 in the trash.
    """
    order, bounds = _members(cluster, int(cluster.max(initial=-1)) + 1)
    many = np.diff(bounds)
    return int(many[many > 0].min(initial=order.size)), float(_widest(at, order, bounds))


@compiled
def _widest(at: Metres, order: Ints, bounds: Ints) -> float:
    most = 0.0
    for c in range(bounds.size - 1):
        for i in range(bounds[c], bounds[c + 1]):
            for j in range(i + 1, bounds[c + 1]):
                for t in range(at.shape[1]):
                    east = np.float64(at[order[i], t, 0]) - np.float64(at[order[j], t, 0])
                    north = np.float64(at[order[i], t, 1]) - np.float64(at[order[j], t, 1])
                    apart = east * east + north * north
                    if apart > most:  # never where either is not a number
                        most = apart
    return float(np.sqrt(most))
