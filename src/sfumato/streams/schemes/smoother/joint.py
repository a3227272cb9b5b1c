"""How errors of a smoothed history hang together, in factors, so that any sum has an interval.

`posterior.PartCells` states each cell's count slot by slot. Here the same posterior is taken over
all slots at once (`published.posterior` says what is kept of it):

* **A cell's course.** At level l its counts have covariance l^2 K + l N over slots, less what the
  parts tell of it; levels are mixed by their probabilities, and courses of different levels differ.
  The rhythms are the axes along which the courses of all cells are least known; along these every
  cell has a covariance of its own, from which strengths are drawn. What the axes leave out is a
  variance of single cells. Some of it lasts for an hour or two, so it is kept as large as runs of
  slots want it: half-way, on a scale of logarithms, between that of a slot and that of a long run.
* **The city's total** is published as its own process says it, and counts are scaled to it. So the
  draws of a slot are those of the total, less the sum of what the cells were drawn to have more.

Cells err by themselves otherwise; their surroundings, which shape their profiles, are not drawn.
Computed from noisy means and public times: post-processing. The random numbers are fixed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.ndimage import gaussian_filter

from sfumato.streams.scheme import Joint, Values
from sfumato.streams.schemes.comb.mixture import BINS
from sfumato.streams.schemes.smoother.posterior import PartCells

PAIRS = 32
_MOST, _SLOTS_A_RHYTHM = 24, 8
"""Rhythms at most, and slots for each: more would make the file larger than the table."""
_ENOUGH = 0.995
"""Share of the variance of all courses beyond which no further rhythm is kept."""
_LONGEST = 3.0
"""Most that runs of slots may have over single ones of what the rhythms leave out."""
_SHARED, _BLUR = 0.1, 2.0
"""Share of a cell's variance that it has in common with its surroundings, which its level is drawn
to, and their width in cells."""
_AT_ONCE = 2_000_000
"""Numbers (cells x levels x times) that are held at once."""
_SEED = 20170403


def joint_of(cells: PartCells) -> Joint:
    """The posterior of all cells and times: fields, slots' draws, and a variance for each cell."""
    rng = np.random.default_rng(_SEED)
    courses = _Courses(cells)
    rhythms = courses.axes()
    strengths, chance = courses.drawn(rhythms, rng)
    total = cells.total
    root = total.root()
    # Kept in half precision, and relative: at an hour at which nobody is there nothing is known so.
    mean = np.maximum(total.mean, 1e-3 * max(float(total.mean.max()), 1e-9))
    white = np.maximum(total.white - chance.sum(axis=0), 0.0)
    apart = rng.standard_normal((PAIRS, root.shape[1])) @ root.T
    apart += rng.standard_normal((PAIRS, mean.size)) * np.sqrt(white)
    apart -= strengths.sum(axis=1, dtype=np.float64) @ rhythms.T
    return Joint(np.clip(apart / mean, -1e4, 1e4), strengths, rhythms, chance)


class _Courses:
    """Covariances over all times at each level, and the cells' probabilities of levels."""

    def __init__(self, cells: PartCells) -> None:
        self._cells = cells
        self._level, self._chance = cells.levels, cells.chances
        self._chance = self._chance / self._chance.sum(axis=1, keepdims=True)
        size = self._level[:, None, None]
        prior = np.square(size) * cells.kernel + size * cells.people
        shared = prior @ cells.shares.T
        self._weights = np.asarray(shared @ cells.solves)
        self._left = prior - self._weights @ shared.transpose(0, 2, 1)
        self.mean = self._mean()
        # Variances are widened by the cell's own mean, as those of single slots are.
        self._wider = cells.wider[np.digitize(self.mean.mean(axis=1), BINS)]

    def _paths(self, some: slice) -> Values:
        """Cells x levels x times: the course that a cell would have at each level."""
        seen, before, now = self._cells.courses(some)
        level = self._level[None, :, None]
        apart = seen[:, None, :] - level * before[:, None, :]
        found = level * now[:, None, :] + np.einsum("ckv,ktv->ckt", apart, self._weights)
        return np.asarray(np.maximum(found, 0.0))

    def _blocks(self) -> list[slice]:
        rows, times = self._chance.shape[0], self._left.shape[1]
        step = max(1, _AT_ONCE // (self._level.size * times))
        return [slice(a, min(a + step, rows)) for a in range(0, rows, step)]

    def _mean(self) -> Values:
        parts = [
            np.einsum("ck,ckt->ct", self._chance[some], self._paths(some))
            for some in self._blocks()
        ]
        return np.concatenate(parts)

    def _apart(self, some: slice) -> Values:
        """By how much courses of the levels differ, times the root of their probability."""
        paths = self._paths(some) - self.mean[some][:, None, :]
        return np.asarray(paths * np.sqrt(self._chance[some])[:, :, None])

    def axes(self) -> Values:
        """Times x rhythms."""
        weight = self._wider @ self._chance
        self._whole = np.einsum("k,kts->ts", weight, self._left)
        for some in self._blocks():
            one = self._apart(some) * np.sqrt(self._wider[some])[:, None, None]
            flat = one.reshape(-1, one.shape[2])
            self._whole += flat.T @ flat
        times = self._whole.shape[0]
        most = min(_MOST, max(1, times // _SLOTS_A_RHYTHM))
        values, axes = eigh(self._whole, subset_by_index=(times - most, times - 1))
        values, axes = values[::-1], axes[:, ::-1]
        held = np.searchsorted(np.cumsum(values), _ENOUGH * float(np.trace(self._whole)))
        axes = axes[:, : min(int(held) + 1, most)]
        largest = np.abs(axes).argmax(axis=0)
        return np.asarray(axes * np.sign(axes[largest, np.arange(axes.shape[1])]))

    def drawn(self, axes: Values, rng: np.random.Generator) -> tuple[NDArray[np.float32], Values]:
        """Strengths (pairs x cells x rhythms), and what these leave out (cells x times)."""
        along = np.einsum("tr,kts,sq->krq", axes, self._left, axes, optimize=True)
        within = np.einsum("kts,sr->ktr", self._left, axes)
        kept = np.einsum("tr,ktr->kt", axes, within)  # of a slot's variance, crossed with the rest
        own = np.einsum("ktt->kt", self._left)
        spread, left = [], []
        for some in self._blocks():
            apart, share = self._apart(some), self._chance[some]
            turned = apart @ axes
            inner = np.einsum("ck,krq->crq", share, along)
            inner += np.einsum("ckr,ckq->crq", turned, turned)
            held = np.einsum("tr,crq,tq->ct", axes, inner, axes, optimize=True)
            whole = share @ own + np.square(apart).sum(axis=1)
            cross = share @ kept + np.einsum("ckt,ckr,tr->ct", apart, turned, axes, optimize=True)
            spread.append(inner)
            left.append(np.maximum(whole - 2 * cross + held, 0.0))
        wider = self._wider
        inner = np.concatenate(spread) * wider[:, None, None]
        values, turns = np.linalg.eigh(inner)
        root = turns * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        root = root @ turns.transpose(0, 2, 1)  # symmetric: the same whatever signs axes have
        normal = _alike(rng.standard_normal((PAIRS, *root.shape[:2])), self._cells.columns)
        strengths = np.einsum("crq,pcq->pcr", root, normal).astype(np.float32)
        return strengths, np.concatenate(left) * wider[:, None] * self._runs(axes)

    def _runs(self, axes: Values) -> Values:
        """By how much what the rhythms leave out weighs more in runs of slots."""
        flat = np.eye(axes.shape[0]) - axes @ axes.T
        rest = flat @ self._whole @ flat
        alone = np.maximum(np.diag(rest), 1e-12)
        near = np.abs(np.subtract.outer(np.arange(alone.size), np.arange(alone.size))) <= 3
        together = np.where(near, rest, 0.0).sum(axis=1)
        return np.asarray(np.sqrt(np.clip(together / alone, 1.0, _LONGEST)))


def _alike(normal: Values, columns: int | None) -> Values:
    """Numbers (pairs x cells x rhythms) of unit variance that cells nearby have partly in common;
    where cells are no grid, nothing is known of what is near."""
    if columns is None:
        return normal
    pairs, cells, axes = normal.shape
    rows = -(-cells // columns)
    grid = np.zeros((pairs, rows * columns, axes))
    grid[:, :cells] = np.random.default_rng(_SEED + 1).standard_normal(normal.shape)
    shape = (pairs, rows, columns, axes)
    common = gaussian_filter(grid.reshape(shape), (0, _BLUR, _BLUR, 0)).reshape(grid.shape)
    common /= np.sqrt(np.square(common).mean())
    found = np.sqrt(1 - _SHARED) * normal + np.sqrt(_SHARED) * common[:, :cells]
    return np.asarray(found)
