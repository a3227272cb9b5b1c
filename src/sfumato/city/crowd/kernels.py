"""The compiled pass that walks each person of the crowd through their days."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sfumato.city.kernels import below, mix, stream, unit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_PLACES = 7
"""Home, work and five favourites: enough for six stays whoever works or not."""
_SPOTS = 8
_SHORTEST = 2.1
"""Hours; so that a stay covers two readings and can be told from passing through."""


@njit(cache=True, inline="always")
def normal(word: np.uint64) -> float:
    """A standard normal number from a mixed word (Box & Muller)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - unit(word)))
    return radius * math.cos(2.0 * math.pi * unit(mix(word + _GOLDEN)))


@njit(cache=True)
def walk(
    key: np.uint64,
    columns: int,
    home_share: NDArray[np.float64],
    jobs: NDArray[np.float64],
    fun: NDArray[np.float64],
    reach: NDArray[np.float64],
    worker_share: float,
    stays: NDArray[np.float64],
    habit: float,
    free_days: NDArray[np.bool_],
    first_hour: float,
    step: float,
    cells_per_hour: float,
    out: NDArray[np.int32],
) -> None:
    """Cell of each person on each day every `step` hours. Distances are in cells."""
    people, days, slots = out.shape
    rows = home_share.size // columns
    place = np.empty(_PLACES, dtype=np.int64)
    px, py = np.empty(_PLACES), np.empty(_PLACES)
    route = np.empty(_PLACES + 1, dtype=np.int64)
    leave, arrive = np.empty(_PLACES + 1), np.empty(_PLACES + 1)
    last = first_hour + step * (slots - 1)
    for k in range(people):
        state = stream(key, k)
        state += _GOLDEN
        place[0] = below(home_share, unit(mix(state)))
        state += _GOLDEN
        px[0] = place[0] % columns + unit(mix(state))
        state += _GOLDEN
        py[0] = place[0] // columns + unit(mix(state))
        for p in range(1, _PLACES):
            # A few spots around home (or work, for some favourites), one of which is chosen in
            # proportion to what is there: the race of exponential clocks picks it.
            anchor = 1 if p in (3, 5) else 0
            best = np.inf
            tries = 0
            while tries < _SPOTS or best == np.inf:
                tries += 1
                state += _GOLDEN
                angle = 2.0 * math.pi * unit(mix(state))
                state += _GOLDEN
                luck = unit(mix(state))
                state += _GOLDEN
                apart = -math.log((1.0 - luck) * (1.0 - unit(mix(state)))) * reach[p]
                x = px[anchor] + apart * math.cos(angle)
                y = py[anchor] + apart * math.sin(angle)
                if x < 0.0 or y < 0.0 or x >= columns or y >= rows:
                    continue
                cell = int(y) * columns + int(x)
                fresh = True
                for q in range(p):
                    fresh = fresh and place[q] != cell
                state += _GOLDEN
                pull = jobs[cell] if p == 1 else fun[cell]
                bell = -math.log(1.0 - unit(mix(state))) / pull
                if fresh and bell < best:
                    best = bell
                    place[p], px[p], py[p] = cell, x, y
        state += _GOLDEN
        works = unit(mix(state)) < worker_share
        state += _GOLDEN
        outgoing = normal(mix(state))
        state += _GOLDEN
        usual_start = 8.4 + 0.9 * normal(mix(state))
        state += _GOLDEN
        usual_work = 9.3 + 0.8 * normal(mix(state))
        for day in range(days):
            # How many stays: a lasting inclination and today's mood; the law is `stays`.
            state += _GOLDEN
            score = habit * outgoing + math.sqrt(1.0 - habit * habit) * normal(mix(state))
            away = below(stays, 0.5 * math.erfc(-score / math.sqrt(2.0)))
            working = works and not free_days[day]
            # The favourite is the likeliest to be visited first; later ones follow in order.
            state += _GOLDEN
            turn = int(unit(mix(state)) ** 3 * (_PLACES - 2))
            route[0] = 0
            for a in range(1, away + 1):
                if working and a == 1:
                    route[a] = 1
                else:
                    route[a] = 2 + (turn + a - 1 - int(working)) % (_PLACES - 2)
            route[away + 1] = 0
            state += _GOLDEN
            start = usual_start + 0.35 * normal(mix(state))
            if not working:
                state += _GOLDEN
                start += 1.0 + 3.0 * unit(mix(state))
            spare = last - 1.1 * _SHORTEST * away
            for a in range(away + 1):
                here, there = route[a], route[a + 1]
                spare -= math.hypot(px[there] - px[here], py[there] - py[here]) / cells_per_hour
            start = max(first_hour + 1.01, min(start, spare))
            clock = start
            for a in range(1, away + 1):
                here, there = route[a - 1], route[a]
                leave[a - 1] = clock
                clock += math.hypot(px[there] - px[here], py[there] - py[here]) / cells_per_hour
                arrive[a] = clock
                state += _GOLDEN
                length = _SHORTEST - 0.9 * math.log(1.0 - unit(mix(state)))
                if working and a == 1:
                    state += _GOLDEN
                    length = usual_work + 0.4 * normal(mix(state))
                elif away == 1:
                    length += 2.0
                needed = _SHORTEST * (away - a)
                for b in range(a, away):
                    one, two = route[b], route[b + 1]
                    needed += math.hypot(px[two] - px[one], py[two] - py[one]) / cells_per_hour
                clock += max(_SHORTEST, min(length, last - needed - clock))
                leave[a] = clock
            if away > 0:
                here = route[away]
                home_at = clock + math.hypot(px[0] - px[here], py[0] - py[here]) / cells_per_hour
            else:
                leave[0], home_at = 1e9, 0.0
            leg = 0
            for slot in range(slots):
                now = first_hour + step * slot
                while leg < away and now >= arrive[leg + 1]:
                    leg += 1
                if now < leave[leg] or (leg == away and now >= home_at):
                    spot = route[leg] if now < leave[leg] else 0
                    out[k, day, slot] = place[spot]
                    continue
                here = route[leg]
                there = route[leg + 1] if leg < away else 0
                until = arrive[leg + 1] if leg < away else home_at
                part = (now - leave[leg]) / max(until - leave[leg], 1e-9)
                x = px[here] + part * (px[there] - px[here])
                y = py[here] + part * (py[there] - py[here])
                out[k, day, slot] = int(y) * columns + int(x)
