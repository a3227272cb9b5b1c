"""Every scheme on one city: same unit, same (epsilon, delta), each with its better noise.

The unit is `user-day`: epsilon for what one person does on one day, which is how the paper's
experiments read. Scored on the last seven days; schemes that learn from the past see all the
days before. Schemes whose only choice is Laplace or Gaussian noise take the smaller one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from sfumato.privacy.units import Unit
from sfumato.stream.calendar import Calendar
from sfumato.stream.consistency import Consistency, random_decrements
from sfumato.stream.contract import StreamScheme, Values
from sfumato.stream.facts import StreamFacts
from sfumato.stream.published.basic import direct, distances, threshold
from sfumato.stream.published.hybrid import dynamic_hybrid, static_hybrid
from sfumato.stream.registry import stream_scheme
from sfumato.stream.run import run_scheme
from sfumato.stream.schemes.threshold import Threshold
from sfumato.stream.study.cities import City
from sfumato.stream.study.scores import Score, mean_score, score

DELTA = 1e-6
BASELINES = ("zeros", "sample", "mean", "uniform")
CORRECTED = ("direct", "threshold", "static-hybrid", "dynamic-hybrid")
DEFAULTS = ("rhythm", "profile")
FAR_BEHIND = ("static-hybrid", "dynamic-hybrid")
"""Corrected schemes that no draw of noise brings near the front: fewer draws will do."""
PEERS = ("bd", "ba", "fast", "dsft", "dsat", "rescuedp", "fan-temporal", "fan-spatial")
LEARNING = ("rhythm", "dynamic-hybrid")
SCORED_DAYS = 7


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    city: str
    epsilon: float
    scheme: str
    form: str
    consistency: str
    score: Score
    draws: int = 1
    """Draws of noise that the score is the mean of."""


def _row(
    city: City, epsilon: float, scheme: str, form: str, consistency: str, scores: list[Score]
) -> Row:
    return Row(city.name, epsilon, scheme, form, consistency, mean_score(scores), len(scores))


def facts_of(city: City, epsilon: float, days: int, unit: str = "user-day") -> StreamFacts:
    """Public facts of the last `days` days."""
    total, slots, cells = city.counts.shape
    weekday = (city.first_weekday + total - days) % 7
    calendar = Calendar.regular(days * slots, slots, weekday)
    return StreamFacts(cells, calendar, epsilon, DELTA, Unit.parse(unit), city.people, city.columns)


def scheme_for(name: str, city: City) -> StreamScheme:
    """The scheme with the settings of the study: a threshold of a quarter of a mean distance.

    The paper reads it off the day itself; here it is a public number that somebody knew.
    """
    if name == "threshold":
        return Threshold(threshold=quarter(city))
    return stream_scheme(name)


def quarter(city: City) -> int:
    first = city.counts[0]
    return max(1, round(float(distances(first).mean()) / 4))


def corrected(
    city: City,
    epsilon: float,
    names: Iterable[str],
    seeds: Iterable[int],
    how: Consistency = Consistency.NEAREST,
    say: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """The schemes as `sfumato stream` runs them."""
    rows, seeds = [], list(seeds)
    slots = city.counts.shape[1]
    for name in names:
        if name == "fan-spatial" and city.columns is None:
            continue  # its quadtree needs a grid
        days = city.counts.shape[0] if name in LEARNING else min(SCORED_DAYS, city.counts.shape[0])
        facts = facts_of(city, epsilon, days)
        counts = city.stream[-days * slots :]
        truth = city.stream[-min(SCORED_DAYS, days) * slots :]
        scheme = scheme_for(name, city)
        made = how if name not in (*DEFAULTS, "zeros") else Consistency.NONE
        found = [
            score(truth, run_scheme(scheme, facts, counts, seed, made).values[-len(truth) :])
            for seed in (seeds if name != "zeros" else seeds[:1])
        ]
        rows.append(_row(city, epsilon, name, "corrected", made.value, found))
        say(f"{city.name}, epsilon {epsilon:g}: {name} {rows[-1].score.busiest:.2f}")
    return rows


def finished(
    city: City,
    epsilon: float,
    days: int,
    seeds: Iterable[int],
    names: Iterable[str] = ("zeros", "sample", "mean", "uniform", "rhythm", "profile"),
) -> list[Row]:
    """The last days as one finished period: the unit is all that a person did in it."""
    facts = facts_of(city, epsilon, days, "user-period")
    truth, seeds = city.stream[-facts.slots :], list(seeds)
    rows = []
    for name in names:
        made = Consistency.NONE if name in (*DEFAULTS, "zeros") else Consistency.NEAREST
        scheme = scheme_for(name, city)
        found = [
            score(truth, run_scheme(scheme, facts, truth, seed, made).values)
            for seed in (seeds if name != "zeros" else seeds[:1])
        ]
        form = f"{days} day{'s' if days > 1 else ''}, user-period"
        rows.append(_row(city, epsilon, name, form, made.value, found))
    return rows


def by_day(
    city: City, epsilon: float, names: Iterable[str], seeds: Iterable[int]
) -> dict[str, list[float]]:
    """Mean absolute error on the busiest cells, day by day from the first."""
    days, slots, cells = city.counts.shape
    facts, seeds = facts_of(city, epsilon, days), list(seeds)
    found: dict[str, list[float]] = {}
    for name in names:
        made = Consistency.NONE if name in DEFAULTS else Consistency.NEAREST
        errors = np.zeros(days)
        for seed in seeds:
            run = run_scheme(scheme_for(name, city), facts, city.stream, seed, made)
            shaped = run.values.reshape(days, slots, cells)
            errors += [score(city.counts[d], shaped[d]).busiest for d in range(days)]
        found[name] = (errors / len(seeds)).tolist()
    return found


def printed(
    city: City, epsilon: float, seeds: Iterable[int], share: float = 0.25, process: bool = True
) -> list[Row]:
    """The schemes of the paper as printed; `share` of the day's mean distance as threshold."""
    days = min(SCORED_DAYS, city.counts.shape[0] - 1)
    slots = city.counts.shape[1]
    cutoff = int(np.ceil(slots / 4))
    scores: dict[str, list[Score]] = {}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        out: dict[str, list[Values]] = {}
        for day in range(-days, 0):
            raw = city.counts[day]
            limit = share * float(distances(raw).mean())
            past = city.counts[max(day - 7, -city.counts.shape[0]) : day]
            made = {
                "direct": direct(raw, epsilon, rng),
                "threshold": threshold(raw, epsilon, limit, cutoff, rng)[0],
                "static-hybrid": static_hybrid(raw, epsilon, limit, cutoff, rng)[0],
                "dynamic-hybrid": dynamic_hybrid(past, raw, epsilon, limit, (cutoff, cutoff), rng)[
                    0
                ],
            }
            for name, values in made.items():
                out.setdefault(name, []).append(_processed(values, rng) if process else values)
        truth = city.counts[-days:].reshape(days * slots, -1)
        for name, slices in out.items():
            scores.setdefault(name, []).append(score(truth, np.concatenate(slices)))
    word = "random" if process else "none"
    return [_row(city, epsilon, name, "as printed", word, found) for name, found in scores.items()]


def _processed(values: Values, rng: np.random.Generator) -> Values:
    return np.array([random_decrements(slot, rng) for slot in values], dtype=np.float64)
