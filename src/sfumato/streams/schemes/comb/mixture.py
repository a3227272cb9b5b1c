"""Compiled steps of `comb`: the density of Laplace noise by table, and quantiles of mixtures."""

from __future__ import annotations

import math

import numpy as np

from sfumato.model.compiled import compiled
from sfumato.streams.scheme import Values

BINS = (1.0, 5.0, 20.0, 100.0)
"""Means between which errors are calibrated together."""
_SURER = 0.05
"""Share by which a variance must be below its mean for a law with fewer chances than Poisson's."""
_LEAST, _NEAR, _FEW = 0.02, 0.5, 1.0
"""Share of its level that a count is at least taken to be, and the mean below which ends of
intervals do not rest on that: where noise draws a count of full cells below zero, somebody may well
be there. In crowds of 130,000 the intervals of cells below .2 held 45 % (docs/decisions/streams.md,
"Nearly empty between full")."""
_MANY, _FAR = 60.0, 400
"""Mean from which the steps of a count no longer matter, and the longest walk over whole counts."""
_NOTHING, _SURELY = 1e-300, 1.0 - 1e-12
"""Least weight that is divided by, and the most certain that somebody is there: of a mean beyond
10^7 the next whole number is the mean itself."""


@compiled
def laplace_logs(solved: Values, whole: Values, table: Values, per_unit: float) -> Values:
    """For every cell the sum over vectors of `table` at |solved| * whole, linear between points."""
    cells, vectors = solved.shape
    last = table.shape[1] - 1
    out = np.zeros(cells)
    for c in range(cells):
        total = 0.0
        for v in range(vectors):
            at = abs(solved[c, v]) * whole[v] * per_unit
            k = last - 1
            if at < k:  # asked first: a number beyond 2^63 is no whole number, but any
                k = int(at)
            share = at - k  # beyond the table the last step goes on
            total += table[v, k] + share * (table[v, k + 1] - table[v, k])
        out[c] = total
    return out


@compiled
def summaries(
    seen: Values,
    before: Values,
    now: Values,
    levels: Values,
    weights: Values,
    spread: Values,
    chance: Values,
    more: Values,
    wider: Values,
    surer: bool = False,
    empty: float = 0.0,
    swing: float = 0.0,
) -> tuple[Values, Values, Values, Values, Values]:
    """Mean, variance, median, 5 % and 95 % of every cell's count.

    Args:
        seen: Vectors of each cell (cell x vector).
        before: Its profile when they were taken.
        now: Its profile now.
        levels: The levels.
        weights: What each vector weighs at each level (level x vector).
        spread: Variance of the count at each level.
        chance: Probability of each level (cell x level).
        more: What each level counts more in the median.
        wider: By what variances are multiplied, for means up to each of `BINS` and above.
        surer: Whether counts may be surer than chance.
        empty: How many people a cell that is taken for empty may have after all, in the mean.
        swing: Relative variance that all cells have in common, of the city's total.
    """
    cells, vectors = seen.shape
    size = levels.shape[0]
    means, variances = np.zeros(cells), np.zeros(cells)
    ends = np.zeros((3, cells))
    mean, variance, share = np.zeros(size), np.zeros(size), np.zeros(size)
    lift, wide, doubt = np.zeros(size), np.zeros(size), np.zeros(size)
    for c in range(cells):
        used, cut = 0, False
        total, first, second, lifted = 0.0, 0.0, 0.0, 0.0
        for k in range(size):
            if chance[c, k] <= 0.0:
                continue
            value = levels[k] * now[c]
            for v in range(vectors):
                value += weights[k, v] * (seen[c, v] - levels[k] * before[c, v])
            least = max(_LEAST * levels[k], 1e-9)
            wide[used] = value
            sd = math.sqrt(spread[k])
            if value < max(least, _NEAR * sd):
                cut = True
                wide[used] = max(_not_negative(value, sd), least)
            value = max(value, least)
            own = spread[k] + swing * value * value
            doubt[used] = own
            if levels[k] == 0.0 and empty > 0.0:
                cut = True
                wide[used] = doubt[used] = empty
            mean[used], variance[used], share[used] = value, own, chance[c, k]
            lift[used] = 1 + more[k]
            lifted += chance[c, k] * lift[used]
            total += chance[c, k]
            first += chance[c, k] * value
            second += chance[c, k] * (value * value + own)
            used += 1
        total, lifted = max(total, _NOTHING), max(lifted, _NOTHING)
        middle = first / total
        means[c] = middle
        factor = wider[-1]
        for k in range(len(BINS)):
            if middle < BINS[k]:
                factor = wider[k]
                break
        variances[c] = factor * max(second / total - middle * middle, 0.0)
        sd = math.sqrt(variances[c])
        if middle > _MANY:
            # Far from nobody the steps of one no longer matter: a gamma-like skew is enough.
            skew = min(sd / max(middle, 1e-9), 1.0)
            for q, z in enumerate((-1.6449, 0.0, 1.6449)):
                ends[q, c] = max(round(middle + sd * (z + skew * (z * z - 1) / 3)), 0.0)
            continue
        share[:used] /= total
        lift[:used] *= total / lifted
        chances, lifts = share[:used], lift[:used]
        low, half, high = _quantiles(mean[:used], chances, factor * variance[:used], lifts, surer)
        if cut and middle < _FEW:
            of_each = (chances, factor * doubt[:used], lifts, surer)
            low, _, high = _quantiles(wide[:used], *of_each)
        ends[1, c] = half
        ends[0, c] = min(low, half)
        ends[2, c] = max(high, half)
    return means, variances, ends[1], ends[0], ends[2]


@compiled
def _not_negative(mean: float, sd: float) -> float:
    """The mean of a Gaussian number that cannot be negative."""
    at = mean / max(sd, 1e-9)
    if at < -5.0:
        return sd / -at
    density = math.exp(-0.5 * at * at) / math.sqrt(2 * math.pi)
    return sd * (at + density / (0.5 * math.erfc(-at / math.sqrt(2.0))))


@compiled
def _quantiles(
    mean: Values, share: Values, variance: Values, lift: Values, surer: bool
) -> tuple[int, int, int]:
    """5 %, the lifted median and 95 % of a mixture of counts with these means and variances."""
    used = mean.shape[0]
    mass, shape, ratio = np.zeros(used), np.zeros(used), np.zeros(used)
    for k in range(used):
        # Chances of successive counts are as ratio * n + shape to n + 1: negative binomials,
        # or binomials where those who stay make counts surer than chance would (Panjer 1981).
        excess = variance[k] - mean[k]
        if surer and excess < -_SURER * mean[k]:
            most = max(math.ceil(-mean[k] * mean[k] / excess), math.ceil(mean[k] + 1e-9))
            there = min(mean[k] / most, _SURELY)
            ratio[k] = -there / (1 - there)
            shape[k] = -most * ratio[k]
        else:
            excess = max(excess, 1e-3 * mean[k])
            ratio[k] = excess / (mean[k] + excess)
            shape[k] = mean[k] * mean[k] / excess * ratio[k]
        mass[k] = share[k] * math.exp(shape[k] / ratio[k] * math.log1p(-ratio[k]))
    reached, above, n = 0.0, 0.0, 0
    low, half, high = -1, -1, -1
    while n < _FAR and (half < 0 or high < 0):
        here, up, step = 0.0, 0.0, 1.0 / (n + 1)
        for k in range(used):
            here += mass[k]
            up += mass[k] * lift[k]
            mass[k] *= max(ratio[k] * n + shape[k], 0.0) * step
        above += up
        # An end lies on a whole number: the one whose middle is nearer to the level.
        if low < 0 and reached + 0.5 * here >= 0.05:
            low = n
        if half < 0 and above >= 0.5:
            half = n
        if high < 0 and reached + 0.5 * here >= 0.95:
            high = max(n - 1, 0)
        reached += here
        n += 1
    return low, n if half < 0 else half, n if high < 0 else high
