"""Towers over zones while a stream runs: formula (1) of Acs & Castelluccia (2014), after the noise.

A zone's number is the sum over towers of the tower's number times the share of its cell in the
zone. The shares are public geometry, so the map is linear and public, and there are two sides of
the wall to put it on.

*Before the noise* a person's unit in a slot becomes shares that sum to at most 1: sensitivity 1 in
L1 as before, between 1 / sqrt(zones met) and 1 in L2. Every zone then gets the noise of a whole
tower. *After the noise* towers are counted and measured in whole people, sensitivity 1 in L1 and
L2, and a zone gets the noise of its towers by their shares: its variance is that of a tower times
the sum of squared shares. Summed over zones that is (sum of squared shares) against (zones) times
a tower's variance: after the noise is better where zones are as fine as towers or finer, before the
noise where a zone swallows many towers.

Here it is after the noise. Operators' zones are about as many as towers (the sum of squared shares
over the number of zones is 0.5 in the made-up city of 300 towers and 240 zones: half the variance);
whole people need no lattice of shares, so every scheme works unchanged and exact; and a scheme
learns levels and rhythms of towers, which is where people are counted, before they are blurred. For
zones that swallow many towers, give the stream zones that are as fine as towers and add them up, or
place events in zones before the stream.

**Intervals of zones.** A posterior at towers has a mean, a median and an interval each, and an
interval of the sum over all. Means add up. Half widths are added as errors that all hang together
by one correlation r: the squared half width of a sum with weights a is sum (a w)^2 (1 - r) +
(sum a w)^2 r. The slot's total, whose interval the scheme states, fixes r (0 where none is stated).
Lower and upper ends are combined each by itself, so that skewness stays. The distance of the median
from the mean is a third cumulant over a variance (Cornish & Fisher 1938), and third cumulants of
independent errors add up: sum of a^3 w^2 d over sum of a^2 w^2. A zone that is one tower keeps the
tower's median and interval.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.geography.overlay import Overlay
from sfumato.streams.scheme import Publication, Values

if TYPE_CHECKING:
    import scipy.sparse as sp


def spread_over_zones(made: Publication, overlay: Overlay) -> Publication:
    """The publication about zones: post-processing of what was measured at towers.

    Args:
        made: Numbers of the towers, with median and interval where the scheme states them.
        overlay: The public share of each tower's cell in each zone.

    Returns:
        Numbers of the zones. Noise of independent towers adds up in squares; `sd` becomes that of
        the noisiest zone. The total is that of the zones: what lies beyond the border is not in it.
    """
    shares = overlay.shares
    values = overlay.to_zones(made.values)
    squares = np.asarray(shares.multiply(shares).sum(axis=0)).ravel()
    found = replace(
        made,
        values=values,
        sd=made.sd * float(np.sqrt(squares.max(initial=0.0))),
        median=None,
        lower=None,
        upper=None,
        total=None,
    )
    if made.lower is None or made.upper is None:
        return found
    below, above = np.maximum(made.values - made.lower, 0), np.maximum(made.upper - made.values, 0)
    together = [0.0, 0.0]
    total = made.total
    if total is not None:
        whole = float(made.values.sum())
        wide = (whole - total.lower, total.upper - whole)
        together = [_correlation(w, side) for w, side in zip(wide, (below, above), strict=True)]
        kept = overlay.sums
        ends = [
            float(_half_width(kept[:, None], side, r)[0])
            for side, r in zip((below, above), together, strict=True)
        ]
        inside = float(values.sum())
        estimate = replace(total, value=inside, lower=inside - ends[0], upper=inside + ends[1])
        found = replace(found, total=estimate)
    least = np.minimum(values, 0)
    lower = np.maximum(values - _half_width(shares, below, together[0]), least)
    upper = values + _half_width(shares, above, together[1])
    median = None if made.median is None else values - _shift(shares, made, (below + above) / 2)
    return replace(
        found, lower=np.maximum(lower, np.minimum(values, 0)), upper=upper, median=median
    )


def _half_width(weights: Values | sp.csr_array, half: Values, r: float) -> Values:
    """Half widths of weighted sums of errors that have one correlation."""
    alone = np.asarray(_squared(weights).T @ np.square(half))
    joint = np.square(np.asarray(weights.T @ half))
    result: Values = np.sqrt((1 - r) * alone + r * joint)
    return result


def _squared(weights: Values | sp.csr_array) -> Values | sp.csr_array:
    return np.square(weights) if isinstance(weights, np.ndarray) else weights.multiply(weights)


def _correlation(of_sum: float, half: Values) -> float:
    """By how much errors hang together, given the half width of their sum."""
    alone, joint = float(np.square(half).sum()), float(half.sum()) ** 2
    if joint <= alone or of_sum <= 0:
        return 0.0
    return float(np.clip((of_sum**2 - alone) / (joint - alone), 0.0, 1.0))


def _shift(shares: sp.csr_array, made: Publication, half: Values) -> Values:
    """How far medians of zones lie below their means."""
    assert made.median is not None
    variance = np.square(half)
    squared = shares.multiply(shares).tocsr()
    third = squared.multiply(shares).tocsr().T @ (variance * (made.values - made.median))
    second = squared.T @ variance
    result: Values = np.where(second > 0, third / np.where(second > 0, second, 1.0), 0.0)
    return result
