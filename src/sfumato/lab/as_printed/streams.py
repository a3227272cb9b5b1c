"""Stream schemes as printed (Chen et al., Algorithms 1, 2, 4 and 5).

NOT GUARANTEED, all of them: floating-point Laplace noise (its low bits give values away).

*Direct and threshold perturbation* (Algorithms 1 and 2). Algorithm 1 is otherwise sound; its loop
from 0 to S would release S + 1 histograms, here it is S.
Algorithm 2 is right by two errors that cancel: the distance to the *noisy* last histogram
has sensitivity 1 and not 2, and both scales are half of what a refreshed sparse vector needs.
Its experiments take the threshold from the day's own raw distances, which nothing pays for.

*Static and dynamic hybrid perturbation* (Algorithms 4 and 5). NOT GUARANTEED: the time division.
Its utility's sensitivity is claimed to be 2 log_a S, which
needs simVar >= 1; one more person can move it by up to S log_a S, so a claimed epsilon of 0.3
is really 0.7 to 1.1 (and without any bound if the means were taken over j - i). The dynamic
form also takes H past days for the price of one: "parallel" composition over days, though the
same people live through all of them; a user pays (H + 1) epsilon. The threshold is a quarter
of the day's own mean distance, raw.

The split of the budget is not printed. Taken here: division 0.1, day 0.5, night 0.4; the
dynamic form divides without the division's share, in the same ratio.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.streams.scheme import Values
from sfumato.streams.schemes.hybrid_division import Window, candidates, predicted, printed_utility

Raw = NDArray[np.int64]
"""Slot x cell."""
DISTANCE_SENSITIVITY = 2.0


def direct(raw: Raw, epsilon: float, rng: np.random.Generator, slots: int | None = None) -> Values:
    """Laplace noise of scale S / epsilon on every count."""
    scale = (raw.shape[0] if slots is None else slots) / epsilon
    return np.asarray(raw + rng.laplace(0.0, scale, raw.shape), dtype=np.float64)


def threshold(
    raw: Raw,
    epsilon: float,
    limit: float,
    cutoff: int,
    rng: np.random.Generator,
    alpha: float = 0.5,
) -> tuple[Values, NDArray[np.bool_]]:
    """Algorithm 2 line by line; also which slots were published anew.

    Neither the share `alpha` nor the cut-off is printed. What is left at the last slot is
    taken as epsilon (1 - cnt/c): the open comparison is charged.
    """
    first, second = alpha * epsilon, (1 - alpha) * epsilon
    slots, cells = raw.shape
    if slots == 0:
        return np.empty((0, cells)), np.zeros(0, dtype=bool)
    spread = cutoff * DISTANCE_SENSITIVITY
    out, fresh = np.empty((slots, cells)), np.zeros(slots, dtype=bool)
    out[0] = raw[0] + rng.laplace(0.0, spread / second, cells)
    fresh[0] = True
    bar = limit + rng.laplace(0.0, spread / first)
    count = 1
    for i in range(1, slots):
        out[i] = out[i - 1]
        if count >= cutoff:
            continue
        if i == slots - 1:
            left = epsilon * (1 - count / cutoff)
            out[i] = raw[i] + rng.laplace(0.0, DISTANCE_SENSITIVITY / left, cells)
            fresh[i] = True
            continue
        apart = np.abs(out[i - 1] - raw[i]).sum() + rng.laplace(0.0, 2 * spread / first)
        if apart >= bar:
            out[i] = raw[i] + rng.laplace(0.0, spread / second, cells)
            fresh[i] = True
            count += 1
            bar = limit + rng.laplace(0.0, spread / first)
    return out, fresh


def distances(raw: Raw) -> Values:
    """L1 distances between successive slots: raw, and internal."""
    return np.asarray(np.abs(np.diff(raw, axis=0)).sum(axis=1), dtype=np.float64)


ALPHA = 12.0
SPLIT = (0.1, 0.5, 0.4)


def division(
    raw: Raw, epsilon: float, rng: np.random.Generator, alpha: float = ALPHA
) -> tuple[Window, Values]:
    """The daytime by the exponential mechanism on U, and the law it was drawn from."""
    windows = candidates(raw.shape[0])
    utility = printed_utility(distances(raw), alpha, windows)
    claimed = 2 * math.log(raw.shape[0]) / math.log(alpha)
    weight = epsilon * utility / (2 * claimed)
    law = np.exp(weight - weight.max())
    law /= law.sum()
    return windows[int(rng.choice(len(windows), p=law))], law


def static_hybrid(
    raw: Raw,
    epsilon: float,
    limit: float,
    cutoff: int,
    rng: np.random.Generator,
    alpha: float = ALPHA,
) -> tuple[Values, Window]:
    """Algorithm 4: direct inside the division, threshold over the two nights joined."""
    chosen, _ = division(raw, SPLIT[0] * epsilon, rng, alpha)
    first, last = chosen
    out = np.empty(raw.shape)
    day = np.zeros(raw.shape[0], dtype=bool)
    day[first : last + 1] = True
    out[day] = direct(raw[day], SPLIT[1] * epsilon, rng)
    out[~day] = threshold(raw[~day], SPLIT[2] * epsilon, limit, cutoff, rng)[0]
    return out, chosen


def dynamic_hybrid(
    past: NDArray[np.int64],
    raw: Raw,
    epsilon: float,
    limit: float,
    cutoffs: tuple[int, int],
    rng: np.random.Generator,
    alpha: float = ALPHA,
) -> tuple[Values, Window]:
    """Algorithm 5: `past` is day x slot x cell; each day's division costs epsilon, as printed."""
    ends = [division(day, epsilon, rng, alpha)[0] for day in past]
    first, last = predicted(ends, raw.shape[0])
    share = epsilon / (SPLIT[1] + SPLIT[2])
    nights = raw.shape[0] - (last - first + 1)
    before = SPLIT[2] * first / max(nights, 1)
    out = np.empty(raw.shape)
    out[:first] = threshold(raw[:first], before * share, limit, cutoffs[0], rng)[0]
    out[first : last + 1] = direct(raw[first : last + 1], SPLIT[1] * share, rng)
    after = (SPLIT[2] - before) * share
    out[last + 1 :] = threshold(raw[last + 1 :], after, limit, cutoffs[1], rng)[0]
    return out, (first, last)
