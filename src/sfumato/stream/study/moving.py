"""The studies of Chen et al., section 7.3, on any city: distances, division, utility.

What the paper leaves open is fixed here: cut-off c = a quarter of the day's slots; shares of
epsilon for division, day and night 0.1, 0.5, 0.4; seven past days; comparisons take half of a
threshold's epsilon. The Beijing box is 45 by 44.5 km around the centre, as many squares of
500 m as the paper counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.stream.division import candidates, from_distances, printed_utility
from sfumato.stream.published.basic import distances
from sfumato.stream.published.hybrid import ALPHA, division
from sfumato.stream.schemes.hybrid import Hybrid
from sfumato.stream.study.cities import City
from sfumato.stream.study.compare import facts_of, printed


def distances_by_hour(city: City) -> dict[str, Any]:
    """Figure 2: L1 distances between successive slots of the last day."""
    found = distances(city.counts[-1])
    hours = city.first_hour + city.slot_hours * np.arange(1, found.size + 1)
    return {"hours": hours.tolist(), "distances": found.tolist()}


def chosen_day(city: City, epsilon: float, draws: int = 200, seed: int = 0) -> dict[str, Any]:
    """Figure 4: the daytime by the raw utility, as printed, and by noisy distances.

    The share of epsilon is a tenth in both.
    """
    raw, rng = city.counts[-1], np.random.default_rng(seed)
    windows = candidates(raw.shape[0])
    best = windows[int(np.argmax(printed_utility(distances(raw), ALPHA, windows)))]
    terms = Hybrid(finished=True).terms(facts_of(city, epsilon, 1))
    sd = terms.division_noise().sd
    as_printed = [division(raw, 0.1 * epsilon, rng)[0] for _ in range(draws)]
    corrected = [
        from_distances(distances(raw) + rng.normal(0, sd, raw.shape[0] - 1)) for _ in range(draws)
    ]
    return {
        "raw": _hours(city, best),
        "printed": [_hours(city, window) for window in as_printed],
        "corrected": [_hours(city, window) for window in corrected],
        "noise_sd": sd,
    }


def _hours(city: City, window: tuple[int, int]) -> list[float]:
    return [city.first_hour + city.slot_hours * end for end in window]


def utility_by_threshold(
    city: City, seeds: Sequence[int], shares: Sequence[float] = (0.25, 0.5, 1.0, 1.5, 2.0)
) -> list[dict[str, Any]]:
    """Figures 7 and 8: the printed schemes at epsilon 0.8 against T in mean distances."""
    return [
        {"share": share, "scheme": row.scheme, "mae": row.score.all_cells,
         "busiest": row.score.busiest, "mre": row.score.printed_relative}
        for share in shares
        for row in printed(city, 0.8, seeds, share)
    ]  # fmt: skip


def utility_by_epsilon(
    city: City, seeds: Sequence[int], epsilons: Sequence[float] = (0.1, 0.4, 0.7, 1.0)
) -> list[dict[str, Any]]:
    """Figures 9 to 12: the printed schemes against epsilon, with and without Algorithm 3."""
    return [
        {"epsilon": epsilon, "scheme": row.scheme, "processed": process,
         "mae": row.score.all_cells, "busiest": row.score.busiest,
         "mre": row.score.printed_relative}
        for epsilon in epsilons
        for process in (True, False)
        for row in printed(city, epsilon, seeds, process=process)
    ]  # fmt: skip
