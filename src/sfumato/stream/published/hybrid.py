"""Static and dynamic hybrid perturbation as printed (Chen et al., Algorithms 4 and 5).

NOT GUARANTEED: the time division. Its utility's sensitivity is claimed to be 2 log_a S, which
needs simVar >= 1; one more person can move it by up to S log_a S, so a claimed epsilon of 0.3
is really 0.7 to 1.1 (and without any bound if the means were taken over j - i). The dynamic
form also takes H past days for the price of one: "parallel" composition over days, though the
same people live through all of them; a user pays (H + 1) epsilon. The threshold is a quarter
of the day's own mean distance, raw. Floating-point noise.

The split of the budget is not printed. Taken here: division 0.1, day 0.5, night 0.4; the
dynamic form divides without the division's share, in the same ratio.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.stream.contract import Values
from sfumato.stream.division import Window, candidates, predicted, printed_utility
from sfumato.stream.published.basic import Raw, direct, distances, threshold

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
