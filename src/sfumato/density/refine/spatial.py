"""Spatial post-processing: an empirical-Bayes filter over places, and merging of neighbours.

**The filter** asks of a field over places how much of it is signal, and how smooth. A field (one
number per place: a total, a rhythm's strength) is observed with independent
noise of one known variance. Its prior is Gaussian with covariance

    s^2 * D ( r exp(-distance / L) + (1 - r) I ) D,

a smooth part, a part of each place's own, and nothing at all as the limit s = 0. D is a
public or already noisy size of each place: what is alike next door is a *relative* strength,
and large places carry more of it. s, r and L are chosen by marginal likelihood from the
noisy field itself; the filtered field is the posterior mean. All inputs are noisy or public,
so this is post-processing.

For one (r, L) everything is diagonal in the eigenbasis of the prior, which is computed once
for all fields. Many places are cut into blocks of neighbours (`BLOCK` at most), each with a
halo that informs its edge: cost grows in proportion to the number of places, not with its
cube.

**Merging** neighbouring cells until every cluster is large enough (Acs & Castelluccia 2014,
Alg. 3) reads noisy totals, public positions and a public threshold. The
cluster with the smallest noisy total is merged with its closest neighbouring cluster,
again and again, until none lies below the threshold or only one is left.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from sfumato.errors import UsageError

SHAPES = ((0.0, 0.0), (0.4, 500.0), (0.9, 500.0), (0.5, 1500.0), (0.95, 1500.0), (0.9, 5000.0))
"""(r, L in metres) of the priors tried. The first has no smooth part and needs no basis. The filter
relative to each place's size was the largest single gain of `bayes`: error .0873 to .0812 at
epsilon 0.1 (docs/decisions/bayes.md)."""
BLOCK = 1100
HALO = 250
"""Places in a block, and in the halo that informs its edge: an eigenbasis costs their cube."""
_SIGNALS = np.concatenate(([0.0], np.geomspace(1e-5, 1e5, 61)))
"""Prior variance of the signal in units of the noise variance, tried on a grid."""

_DOUBT = 1.5
"""Standard deviation of the logarithm of an expected signal variance."""
_LEAST_BELIEF = 0.01
"""Priors less likely than the likeliest by this factor are left out: each costs a product."""

Field = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Places `core`, informed by `rows` (core and halo); eigenbases over `rows`, one a shape."""

    rows: NDArray[np.int64]
    core: NDArray[np.bool_]
    values: tuple[Field, ...]
    vectors: tuple[Field | None, ...]
    """None where the basis is the places themselves."""

    def rotated(self, field: Field, shape: int) -> Field:
        basis = self.vectors[shape]
        return field if basis is None else np.asarray(basis.T @ field)


@dataclass(frozen=True, slots=True, eq=False)
class Filtered:
    """Posterior mean and variance of a field, and the prior that was chosen for it."""

    mean: Field
    variance: Field
    """Averaged over the priors where there are several; that these differ in their means is in
    `errors` alone."""
    signal: float
    """Prior variance s^2; 0 where the field is indistinguishable from noise."""
    smooth_share: float
    length: float
    errors: Callable[[np.random.Generator, int], Field]
    """Places x draws of the posterior around its mean."""


class SpatialFilter:
    """The filter for one set of places; make it once and use it for every field."""

    def __init__(self, centres: Field, size: Field | None = None) -> None:
        self._n = centres.shape[0]
        scale = np.ones(self._n) if size is None else size
        self._blocks = [_block(centres, scale, rows) for rows in _partition(centres)]

    def apply(
        self, field: Field, noise_variance: float, expected_signal: float | None = None
    ) -> Filtered:
        """Filter one field whose noise has the same variance everywhere.

        The prior mean is zero: subtract what is known first. With `expected_signal`, a variance,
        what the likelihood leaves open of s^2 is filled by a wide prior around it: with few noisy
        numbers the likeliest variance is often none at all, and the truth is not.
        """
        if noise_variance <= 0.0:
            return Filtered(field.copy(), np.zeros(self._n), np.inf, *SHAPES[0], self._none)
        sd = float(np.sqrt(noise_variance))
        rotated = [
            [block.rotated(field[block.rows] / sd, shape) for shape in range(len(SHAPES))]
            for block in self._blocks
        ]
        belief = self._belief(
            rotated, None if expected_signal is None else expected_signal / noise_variance
        )
        mean, variance = np.zeros(self._n), np.zeros(self._n)
        by_shape = belief.sum(axis=1)
        for shape in np.flatnonzero(by_shape):
            for block, coordinates in zip(self._blocks, rotated, strict=True):
                part = belief[shape] @ _gains(block.values[shape])
                basis = block.vectors[shape]
                where = block.rows[block.core]
                if basis is None:
                    mean[where] += (part * coordinates[shape])[block.core] * sd
                    variance[where] += part[block.core] * noise_variance
                else:
                    own = basis[block.core]
                    mean[where] += own @ (part * coordinates[shape]) * sd
                    variance[where] += np.square(own) @ part * noise_variance

        def errors(rng: np.random.Generator, count: int) -> Field:
            return self._draws(rng, count, belief, rotated) * sd - mean[:, None]

        likeliest = np.unravel_index(int(np.argmax(belief)), belief.shape)
        signal = float(_SIGNALS[likeliest[1]])
        nothing = float(belief[:, 0].sum()) > 1.0 - 1e-9
        return Filtered(
            mean,
            variance,
            signal * noise_variance,
            *SHAPES[int(likeliest[0])],
            self._none if nothing else errors,
        )

    def _none(self, rng: np.random.Generator, count: int) -> Field:
        """No error: nothing was noisy, or nothing is there."""
        del rng
        return np.zeros((self._n, count))

    def _draws(
        self, rng: np.random.Generator, count: int, belief: Field, rotated: list[list[Field]]
    ) -> Field:
        """Draws from the posterior for unit noise: of the prior first, then of the field, whose
        coordinates are independent in the eigenbasis of that prior.

        Random numbers belong to places and are turned into the basis: which way its vectors point
        is up to the processor.
        """
        cumulative = np.cumsum(belief.ravel())
        picked = np.searchsorted(cumulative, rng.uniform(size=count) * cumulative[-1])
        shapes, signals = np.unravel_index(np.minimum(picked, belief.size - 1), belief.shape)
        found = np.zeros((self._n, count))
        for block, coordinates in zip(self._blocks, rotated, strict=True):
            where = block.rows[block.core]
            normal = rng.standard_normal((block.rows.size, count))
            for shape in np.unique(shapes):
                chosen = np.flatnonzero(shapes == shape)
                gain = _gains(block.values[shape])[signals[chosen]].T
                chance = block.rotated(normal[:, chosen], shape)
                along = gain * coordinates[shape][:, None] + np.sqrt(gain) * chance
                basis = block.vectors[shape]
                own = along[block.core] if basis is None else basis[block.core] @ along
                found[np.ix_(where, chosen)] = own
        return found

    def _belief(self, rotated: list[list[Field]], expected: float | None) -> Field:
        """Shapes x signals: probabilities; without an expected signal all on the likeliest."""
        scores = np.zeros((len(SHAPES), _SIGNALS.size))
        for shape in range(len(SHAPES)):
            for block, coordinates in zip(self._blocks, rotated, strict=True):
                squares = np.square(coordinates[shape])
                total = 1.0 + _SIGNALS[:, None] * block.values[shape]
                # A halo is seen by several blocks; each place counts once in all.
                scores[shape] -= (
                    0.5 * block.core.mean() * (np.log(total) + squares / total).sum(axis=1)
                )
        belief = np.zeros(scores.shape)
        if expected is None:
            belief.flat[int(np.argmax(scores))] = 1.0
            return belief
        away = np.log(np.maximum(_SIGNALS[1:], 1e-300) / max(expected, 1e-300)) / _DOUBT
        scores[:, 1:] -= 0.5 * np.square(away)
        scores[:, 0] = -np.inf
        belief = np.exp(scores - scores.max())
        belief[belief < _LEAST_BELIEF] = 0.0
        result: Field = belief / belief.sum()
        return result


def _gains(values: Field) -> Field:
    """Signals x coordinates: the share of a noisy coordinate that is kept."""
    power = _SIGNALS[:, None] * values
    result: Field = power / (1.0 + power)
    return result


def _partition(centres: Field) -> list[NDArray[np.int64]]:
    """Blocks of at most `BLOCK` neighbours, by halving along the longer side."""
    todo, done = [np.arange(centres.shape[0])], []
    while todo:
        rows = todo.pop()
        if rows.size <= BLOCK:
            done.append(rows)
            continue
        axis = int(np.argmax(np.ptp(centres[rows], axis=0)))
        order = rows[np.argsort(centres[rows, axis], kind="stable")]
        todo += [order[: rows.size // 2], order[rows.size // 2 :]]
    return done


def _block(centres: Field, size: Field, core: NDArray[np.int64]) -> _Block:
    rows = core
    if core.size < centres.shape[0]:
        near = np.asarray(cKDTree(centres[core]).query(centres)[0])
        near[core] = -1.0
        rows = np.sort(np.argsort(near, kind="stable")[: core.size + HALO])
    away = np.linalg.norm(centres[rows][:, None] - centres[rows][None], axis=2)
    outer = size[rows][:, None] * size[rows][None]
    values: list[Field] = []
    vectors: list[Field | None] = []
    for share, length in SHAPES:
        if share == 0.0:
            values.append(np.square(size[rows]))
            vectors.append(None)
            continue
        prior = outer * share * np.exp(-away / length)
        prior[np.diag_indices_from(prior)] = np.square(size[rows])
        found, basis = scipy.linalg.eigh(prior, driver="evd", overwrite_a=True)
        values.append(np.maximum(found, 0.0))
        vectors.append(basis)
    return _Block(rows, np.isin(rows, core), tuple(values), tuple(vectors))


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
