"""One-off crowds as a sparse layer: found by a scan of the noisy matrix, estimated with intervals.

A match, a march, a concert fills a few neighbouring places for a few slots, once. Smooth and
low-rank layers either leave it out or smear it over the week and the surroundings, although it
may stand far above the noise. It is therefore found first, and set apart (`crowd_counts`):

1. *What is not a crowd*: rows whose total is off, and the low-rank part of the residual, robustly.
   Every entry pulls with at most `_PULL` standard deviations (Huber 1964; a robust principal
   component analysis as of Candes et al. 2011, with a bounded loss in place of a sparse term), so
   a few dozen cells, however full, cannot make a component; whatever many places share can.
2. *Scan*: sums over nearest places x runs of slots in units of their deviation (Kulldorff 1997).
   The threshold follows from the number of sums and of cells in each, so that a release without
   a crowd is expected to have fewer than `FALSE_CELLS` false cells; chance of small counts, which
   has a longer tail than the noise, is allowed for by Bernstein's inequality. What rhythms may do,
   and what is there on like days at that time too, is none of this layer's business.
3. *Estimate*: around each window a Gaussian prior, largest at its centre, whose size, reach and
   evenness are chosen by marginal likelihood. The posterior mean shrinks what a maximum over many
   sums overstates. A crowd adds people: negative values are cut. (A place that is emptied, as by a
   strike, is left to the other layers.)

Everything here reads noisy and public numbers only: post-processing.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree
from scipy.special import ndtri

from sfumato.density.refine.special_hours import LEAST_DAYS
from sfumato.density.refine.temporal import Spectrum, middle_of_noise, noise_edge
from sfumato.model.tiles import beside, tiles
from sfumato.model.time_grid import HourCalendar

FALSE_CELLS = 0.05
"""Expected false cells in a release without a crowd, by a union bound over all sums."""
NEAREST = (1, 4, 12)
RUNS = (1, 2, 3, 4, 6)
"""Places and slots that the scan sums over."""
MOST_CROWDS = 12
"""Crowds in a release: a public limit of time spent, far above what a week has."""
_PULL = 4.0
"""Standard deviations with which an entry pulls at the low-rank part at most."""
_ROUNDS = 12
_STILL = 0.25
"""The low-rank part rests when no entry moves by more, in standard deviations."""
_REACHED = 16
"""Places around a centre that a crowd may be estimated in."""
_DECAYS = (0.0, 0.7, 1.5, 3.0)
"""Reach of a crowd in mean distances between neighbours; 0 is one place alone."""
_BESIDE = (0.0, 0.5)
"""Prior size just before and after the window, relative to inside."""
_MIXES = ((0.6, 0.3, 0.1), (0.2, 0.5, 0.3), (0.0, 0.0, 1.0))
"""Shares of the prior variance: common to the crowd, to a place, to a cell."""
_SIZES = np.geomspace(1.0, 1e6, 49)
"""Prior variance at the centre in units of the noise variance."""
_RHYTHM = 0.75
"""What rhythms may add to the field of the margins: only what exceeds it is tested. Saturdays of
made cities reach 0.7 in windows that the scan picks, crowds 5 to 20."""
_CLEAR = 2.5
"""Deviations above zero from which the mean of like days is a rhythm by itself."""
_ROUGH = 1.25
"""Lines this much rougher than the rest are judged by their own deviation."""

Table = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """One crowd in the weighted frame: where it is and its posterior."""

    places: NDArray[np.int64]
    slots: NDArray[np.int64]
    mean: Vector
    """Over cells, places x slots in C order; not cut at zero."""
    root: Table
    """Square root of the posterior covariance: mean + root @ z is a draw."""
    score: float
    """Of the window that found it, in standard deviations."""
    window: tuple[int, int, int, int]
    """Middle, nearest places, first slot, number of slots."""

    @property
    def cells(self) -> tuple[NDArray[np.int64], ...]:
        """Index of the crowd's cells in a table of places and slots."""
        return np.ix_(self.places, self.slots)


def low_rank(rest: Table, sigma: float) -> tuple[NDArray[Any], float]:
    """The part of a residual that many places share, and the level of noise around it.

    Singular values above the edge of the noise, shrunk optimally (Gavish & Donoho 2017), of a
    matrix in which what sticks out of the last estimate is cut to `_PULL` deviations.

    Args:
        rest: places x slots.
        sigma: standard deviation of the noise, the same in all cells.

    Returns:
        The low-rank part, and the standard deviation of the rest of the matrix.
    """
    n, m = rest.shape
    kind = beside(rest.shape)
    found, level = np.zeros(rest.shape, dtype=kind), sigma
    for _ in range(_ROUNDS):
        cut = np.empty(rest.shape, dtype=kind)
        for rows in tiles(rest.shape):
            away = np.clip(rest[rows] - found[rows], -_PULL * level, _PULL * level)
            np.add(found[rows], away, out=cut[rows])
        parts = Spectrum(cut)
        left, values = parts.left, parts.values
        level = max(sigma, float(np.median(values)) / middle_of_noise(n, m))
        rank = int((values > 1.02 * noise_edge(n, m, level)).sum())
        wide = np.flatnonzero(~_local(left[:, :rank], parts.right(slice(rank))))
        y = np.square(values[wide] / level)
        kept = level * np.sqrt(np.maximum(np.square(y - n - m) - 4.0 * n * m, 0.0) / y)
        right = parts.right(wide)
        del cut, parts
        moved = 0.0
        for rows in tiles(rest.shape):
            update = (left[rows][:, wide] * kept) @ right
            moved = max(moved, float(np.abs(update - found[rows]).max()))
            found[rows] = update
        if moved < _STILL * level:
            break
    return found, level


def _local(left: Table, right: Table) -> NDArray[np.bool_]:
    """Which components live in few places and one run of slots: crowds, not rhythms.

    Needed where places are few: there a dozen cells can rise above the edge of the noise even
    though each of them pulls with so little.
    """
    run = min(max(RUNS), right.shape[1])
    most = _windows(np.square(right), run).max(axis=1, initial=0.0)
    taking_part = 1.0 / np.maximum(np.power(left, 4).sum(axis=0), 1e-300)
    result: NDArray[np.bool_] = (most > 0.5) & (taking_part < 0.25 * left.shape[0])
    return result


def find_crowds(
    rest: Table, sigma: float, expected: Table, jump: Table, centres: Table, calendar: HourCalendar
) -> tuple[Crowd, ...]:
    """Crowds in a noisy residual, the clearest first.

    Args:
        rest: places x slots, weighted so that its noise is the same everywhere; what the margins
            expect is taken out.
        sigma: standard deviation of the noise.
        expected: what the margins expect, as it was taken out.
        jump: what one visit counts in each cell.
        centres: of the places, in metres.
        calendar: of the slots.

    Returns:
        At most `MOST_CROWDS`; none where the period has too few days to tell what is ordinary.
    """
    if np.unique(calendar.day).size < LEAST_DAYS or sigma <= 0.0:
        return ()
    left = _less(rest, _row_levels(rest, sigma, expected), expected)
    del rest  # the caller's own, as a rule: of a year of hours every table counts
    common, level = low_rank(left, sigma)
    left -= common
    del common
    scale = _Scale(level, _roughness(left, level, 1), _roughness(left, level, 0))
    scan = _Scan(centres, calendar, jump, scale)
    near = _neighbours(centres, min(_REACHED, left.shape[0]))
    found: list[Crowd] = []
    while len(found) < MOST_CROWDS:
        best = scan.best(left, expected)
        if best is None:
            break
        crowd = _estimate(left, sigma, best, near, centres)
        if not (crowd.mean > 0).any():
            break
        found.append(crowd)
        left[crowd.cells] -= crowd.mean.reshape(crowd.places.size, -1)
        scan.close(best[1])
    return tuple(found)


def _row_levels(rest: Table, sigma: float, expected: Table) -> Vector:
    """What rows have too much or too little of what the margins expect, robustly and shrunk.

    A crowd lifts the total of its places, so all their other slots fall short. Left in, that would
    be a component of those places alone, which is free to take the crowd with it.
    """
    power, short = np.empty(rest.shape[0]), np.empty(rest.shape[0])
    for rows in tiles(rest.shape):
        power[rows] = np.maximum(np.square(expected[rows]).sum(axis=1), 1e-300)
        held = np.clip(rest[rows], -_PULL * sigma, _PULL * sigma)
        short[rows] = (held * expected[rows]).sum(axis=1) / power[rows]
    noise = sigma**2 / power
    real = max(float(np.average(np.square(short) - noise, weights=1.0 / noise)), 0.0)
    result: Vector = short * real / (real + noise)
    return result


def _less(rest: Table, levels: Vector, expected: Table) -> Table:
    """The residual without what its rows have too much of."""
    result = np.empty(rest.shape)
    for rows in tiles(rest.shape):
        np.subtract(rest[rows], levels[rows][:, None] * expected[rows], out=result[rows])
    return result


def _roughness(left: Table, level: float, axis: int) -> Vector:
    """Deviation of each line over that of all, 1 where it is not clearly more (by the median
    absolute deviation, which a crowd does not reach)."""
    lines = left if axis == 1 else left.T
    medians = [
        np.median(np.abs(lines[some]), axis=1) for some in tiles((lines.shape[0], lines.shape[1]))
    ]
    own = np.concatenate(medians) / (0.6745 * level)
    return np.where(own > _ROUGH, own, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Scale:
    """Deviation of each cell: that of all, times the roughness of its place and of its slot."""

    level: float
    places: Vector
    slots: Vector

    def of(self, rows: slice | NDArray[np.int64]) -> Table:
        return self.level * np.outer(self.places[rows], self.slots)


class _Scan:
    """Sums over nearest places x runs of slots, with the threshold of each."""

    def __init__(self, centres: Table, calendar: HourCalendar, jump: Table, scale: _Scale) -> None:
        n, slots = jump.shape
        self._sums = {k: _adjacent(centres, k) for k in NEAREST if k <= n}
        self._runs = [r for r in RUNS if r <= slots]
        self._open = np.ones(jump.shape, dtype=bool)
        self._group = calendar.same_time_of_day
        self._jump, self._scale = jump, scale
        tests = len(self._sums) * len(self._runs) * jump.size
        self._z = {
            (k, r): float(-ndtri(FALSE_CELLS / (tests * k * r)))
            for k in self._sums
            for r in self._runs
        }

    def _needed(self, places: NDArray[np.int64], k: int, r: int) -> Table:
        """The thresholds of windows around these places: from `z` on, by the chance of visits."""
        some = self._sums[k][places]
        # Only the rows that are summed are divided, in the order of the whole product.
        rows, which = np.unique(np.asarray(some.indices, dtype=np.int64), return_inverse=True)
        nearest = csr_array((some.data, which, some.indptr), shape=(places.size, rows.size))
        over = np.asarray(nearest @ (self._jump[rows] / self._scale.of(rows)))
        z = self._z[k, r]
        # Bernstein: a tail of exp(-z^2 / 2) where single visits of this size add up.
        tail: Table = _windows(over, r) / (k * r) * (z * z / 6.0) / np.sqrt(k * r)
        return tail + np.sqrt(tail * tail + z * z)

    def close(self, window: tuple[int, int, int, int]) -> None:
        """Start no further crowd from that window's place and slots."""
        place, _, first, run = window
        self._open[place, first : first + run] = False

    def best(self, left: Table, expected: Table) -> tuple[float, tuple[int, int, int, int]] | None:
        """The window furthest above its threshold: its score and where it is."""
        best: tuple[float, tuple[int, int, int, int]] | None = None
        above = 1.0
        units = np.empty(left.shape, dtype=beside(left.shape))
        for rows in tiles(left.shape):
            units[rows] = (left[rows] - _RHYTHM * expected[rows]) / self._scale.of(rows)
        for k, near in self._sums.items():
            nearest = near.astype(units.dtype, copy=False)
            for r in self._runs:
                score = np.empty((left.shape[0], left.shape[1] - r + 1), dtype=beside(left.shape))
                for rows in tiles(left.shape):
                    score[rows] = _windows(nearest[rows] @ units, r) / np.sqrt(k * r)
                _less_like_days(score, self._group[: score.shape[1]])
                score[~self._open[:, : score.shape[1]]] = 0.0
                # No threshold lies below z: only places with a window above it are looked at.
                high = np.flatnonzero(score.max(axis=1) > self._z[k, r])
                for some in tiles((high.size, score.shape[1])) if high.size else ():
                    places = high[some]
                    ratio = score[places] / self._needed(places, k, r)
                    flat = int(np.argmax(ratio))
                    if ratio.flat[flat] > above:
                        above = float(ratio.flat[flat])
                        row, first = divmod(flat, score.shape[1])
                        place = int(places[row])
                        best = (float(score[place, first]), (place, k, first, r))
        return best


def _less_like_days(score: NDArray[Any], group: NDArray[np.int64]) -> None:
    """Take off each window what it is expected to hold by the same time on like days.

    A mean of the other days, drawn to zero as far as days do not agree (their covariance against
    the unit variance of a sum of noise); believed as it is where it is clear by itself.
    """
    member = np.zeros((group.size, int(group.max()) + 1))
    member[np.arange(group.size), group] = 1.0
    size = member.sum(axis=0)[group]

    count = np.maximum(size - 1.0, 1.0)
    sums, together = [], 0.0
    for rows in tiles(score.shape):
        bounded = np.clip(score[rows], -_PULL, _PULL)
        sums.append(bounded @ member)
        others = sums[-1][:, group] - bounded
        together += float((bounded * others)[:, size > 1].sum())
    agreed = max(together / max(float((size - 1.0).sum()) * score.shape[0], 1.0), 0.0)
    for rows, whole in zip(tiles(score.shape), sums, strict=True):
        others = whole[:, group] - np.clip(score[rows], -_PULL, _PULL)
        mean = np.where(size > 1, others / count, 0.0)
        drawn = mean * (agreed / (agreed + 1.0 / count))
        score[rows] -= np.where(mean * np.sqrt(count) > _CLEAR, mean, np.maximum(drawn, 0.0))


def _windows(over: Table, run: int) -> Table:
    """Sums over runs of slots; column t is the run that begins at t."""
    total = np.cumsum(np.concatenate((np.zeros((over.shape[0], 1)), over), axis=1), axis=1)
    result: Table = total[:, run:] - total[:, :-run]
    return result


def _neighbours(centres: Table, count: int) -> NDArray[np.int64]:
    """The nearest places of each, itself first."""
    found = cKDTree(centres).query(centres, k=count)[1].reshape(centres.shape[0], -1)
    return np.asarray(found, dtype=np.int64)


def _adjacent(centres: Table, count: int) -> csr_array:
    near = _neighbours(centres, count)
    rows = np.repeat(np.arange(near.shape[0]), near.shape[1])
    ones = np.ones(rows.size)
    return csr_array((ones, (rows, near.ravel())), shape=(near.shape[0], near.shape[0]))


def _estimate(
    left: Table,
    sigma: float,
    best: tuple[float, tuple[int, int, int, int]],
    near: NDArray[np.int64],
    centres: Table,
) -> Crowd:
    """Posterior of the cells around a window under the likeliest of the priors.

    The prior is D (a 11' + b [same place] + c I) D: one crowd, its share in each place, and each
    cell's own, with D falling off with the distance from the centre and outside the window.
    """
    score, window = best
    middle, nearest, first, run = window
    inside = near[middle, :nearest]
    fullest = int(inside[np.argmax(left[inside, first : first + run].sum(axis=1))])
    places = np.union1d(near[middle], near[fullest])
    slots = np.arange(max(first - 1, 0), min(first + run + 1, left.shape[1]))
    within = (slots >= first) & (slots < first + run)
    seen = left[np.ix_(places, slots)].ravel() / sigma
    same_place = np.kron(np.eye(places.size), np.ones((slots.size, slots.size)))
    top, posterior = -np.inf, (np.zeros(seen.size), np.zeros((seen.size, 1)))
    tried = itertools.product(dict.fromkeys((middle, fullest)), _DECAYS, _BESIDE, _MIXES)
    for centre, reach, around, (common, place, cell) in tried:
        away = np.linalg.norm(centres[places] - centres[centre], axis=1)
        spacing = max(float(np.sort(away)[1:5].mean()) if away.size > 1 else 1.0, 1e-9)
        fall = np.exp(-away / (reach * spacing)) if reach > 0 else np.equal(places, centre)
        size = np.outer(fall, np.where(within, 1.0, around)).ravel()
        prior = np.outer(size, size) * (common + place * same_place)
        prior[np.diag_indices_from(prior)] += cell * np.square(size)
        values, basis = np.linalg.eigh(prior)
        values, along = np.maximum(values, 0.0), basis.T @ seen
        total = 1.0 + _SIZES[:, None] * values
        evidence = -0.5 * (np.log(total) + np.square(along) / total).sum(axis=1)
        peak = int(np.argmax(evidence))
        if evidence[peak] > top:
            gain = 1.0 - 1.0 / total[peak]
            top = float(evidence[peak])
            posterior = (basis @ (gain * along), basis * np.sqrt(gain))
    return Crowd(places, slots, sigma * posterior[0], sigma * posterior[1], score, window)


def estimate_again(
    rest: Table,
    layer: Table,
    sigma: float,
    expected: Table,
    crowds: tuple[Crowd, ...],
    centres: Table,
) -> tuple[Crowd, ...]:
    """The same windows estimated from another residual, given a first estimate of the layer.

    Args:
        rest: the residual, with the crowds in it.
        layer: the first estimate, in the same frame.
        sigma: standard deviation of the noise.
        expected: what was taken out.
        crowds: as found.
        centres: of the places, in metres.

    Returns:
        As many crowds, in the same order.
    """
    near = _neighbours(centres, min(_REACHED, rest.shape[0]))
    calm = rest - layer
    levels = _row_levels(calm, sigma, expected)
    left, found = _less(rest, levels, expected), []
    left -= low_rank(_less(calm, levels, expected), sigma)[0]
    for crowd in crowds:
        new = _estimate(left, sigma, (crowd.score, crowd.window), near, centres)
        left[new.cells] -= new.mean.reshape(new.places.size, -1)
        found.append(new)
    return tuple(found)
