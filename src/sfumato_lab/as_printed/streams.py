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

What the paper leaves open is in `Printed`: T, c, the shares of the budget (division 0.1, day 0.5,
night 0.4; the dynamic form divides without the division's share, in the same ratio), the share for
comparing, and H. Its alpha of equation 7 is there, too, and makes no difference: U and its claimed
sensitivity hold the same factor 1 / log alpha, so the law that a division is drawn from does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.streams.scheme import Values
from sfumato_lab.streams.hybrid_division import Window, candidates, predicted, printed_utility

Raw = NDArray[np.int64]
"""Slot x cell."""
DISTANCE_SENSITIVITY = 2.0


@dataclass(frozen=True, slots=True)
class Printed:
    """What the printed schemes are run with; the paper gives alpha and T's multiples alone."""

    threshold: float = 0.25
    """T, in mean distances of the day itself (raw, as in the paper's experiments)."""
    cutoff: int | None = None
    """c; None is a quarter of the day's slots."""
    alpha: float = 12.0
    """Base of the logarithm in equation 7."""
    compare: float = 0.5
    """The other alpha, of Algorithm 2: the share of a threshold's epsilon for comparing."""
    past: int = 7
    """H, the historical days of Algorithm 5."""
    division: float = 0.1
    day: float = 0.5
    """Shares of epsilon; the night has the rest."""

    def __post_init__(self) -> None:
        for name, low, high in (
            *(("threshold", 0.0, 1e6), ("alpha", 1.001, 1e6), ("compare", 0.001, 0.999)),
            *(("past", 1, 3660), ("division", 0.001, 0.998), ("day", 0.001, 0.998)),
        ):
            if not low <= getattr(self, name) <= high:
                raise UsageError(f"The option {name} is a number from {low:g} to {high:g}.")
        if self.cutoff is not None and self.cutoff < 1:
            raise UsageError("The option cutoff is a whole number from 1 on.")
        if self.night <= 0:
            raise UsageError("Division and day leave nothing of epsilon for the night.")

    @property
    def night(self) -> float:
        """The share of epsilon for the night."""
        return 1 - self.division - self.day

    def most(self, slots: int) -> int:
        """c for a day of so many slots."""
        return self.cutoff or math.ceil(slots / 4)


PRINTED = Printed()


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
    compare: float = PRINTED.compare,
) -> tuple[Values, NDArray[np.bool_]]:
    """Algorithm 2 line by line; also which slots were published anew.

    Neither the share `compare` (its alpha) nor the cut-off is printed. What is left at the last
    slot is taken as epsilon (1 - cnt/c): the open comparison is charged.
    """
    first, second = compare * epsilon, (1 - compare) * epsilon
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


def division(
    raw: Raw, epsilon: float, rng: np.random.Generator, alpha: float = PRINTED.alpha
) -> tuple[Window, Values]:
    """The daytime by the exponential mechanism on U over all i <= j, and the law of the draw."""
    windows = candidates(raw.shape[0], single=True)
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
    terms: Printed = PRINTED,
) -> tuple[Values, Window]:
    """Algorithm 4: direct inside the division, threshold over the two nights joined."""
    chosen, _ = division(raw, terms.division * epsilon, rng, terms.alpha)
    first, last = chosen
    out = np.empty(raw.shape)
    day = np.zeros(raw.shape[0], dtype=bool)
    day[first : last + 1] = True
    night = terms.night * epsilon
    out[day] = direct(raw[day], terms.day * epsilon, rng)
    out[~day] = threshold(raw[~day], night, limit, cutoff, rng, terms.compare)[0]
    return out, chosen


def dynamic_hybrid(
    past: NDArray[np.int64],
    raw: Raw,
    epsilon: float,
    limit: float,
    cutoffs: tuple[int, int],
    rng: np.random.Generator,
    terms: Printed = PRINTED,
) -> tuple[Values, Window]:
    """Algorithm 5: `past` is day x slot x cell; each day's division costs epsilon, as printed."""
    ends = [division(day, epsilon, rng, terms.alpha)[0] for day in past]
    first, last = predicted(ends, raw.shape[0], single=True)
    share = epsilon / (terms.day + terms.night)
    nights = raw.shape[0] - (last - first + 1)
    before = terms.night * first / max(nights, 1) * share
    out, compare = np.empty(raw.shape), terms.compare
    out[:first] = threshold(raw[:first], before, limit, cutoffs[0], rng, compare)[0]
    out[first : last + 1] = direct(raw[first : last + 1], terms.day * share, rng)
    after = terms.night * share - before
    out[last + 1 :] = threshold(raw[last + 1 :], after, limit, cutoffs[1], rng, compare)[0]
    return out, (first, last)
