"""The studies of streams: Chen et al., section 7.3, on any city, and every scheme on one city.

*The paper's figures*: distances, division, utility. What the paper leaves open is in `Printed` (T,
c, the shares of epsilon, H, the share for comparing) and may be chosen; `steered` gives the
corrected schemes the same. The Beijing box is 45 by 44.5 km around the centre, as many squares of
500 m as the paper counts.

*Every scheme on one city*: same unit, same (epsilon, delta), each with its better noise. The unit
is `user-day`: epsilon for what one person does on one day, which is how the paper's
experiments read. Scored on the last seven days, by how far a published stream is from the truth
where it counts; schemes that learn from the past see all the
days before. Schemes whose only choice is Laplace or Gaussian noise take the smaller one.

The numbers are internal; `plots` draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.time_grid import Calendar
from sfumato.privacy.events import Unit
from sfumato.streams.facts import StreamFacts
from sfumato.streams.output import Consistency, random_decrements
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import run_scheme
from sfumato.streams.scheme import StreamScheme, Values
from sfumato_lab.as_printed.streams import (
    PRINTED,
    Printed,
    direct,
    distances,
    division,
    dynamic_hybrid,
    static_hybrid,
    threshold,
)
from sfumato_lab.streams.hybrid import Hybrid
from sfumato_lab.streams.hybrid_division import candidates, from_distances, printed_utility
from sfumato_lab.studies.moving.cities import City

BUSIEST = 200
PRINTED_BOUND = 0.001


@dataclass(frozen=True, slots=True)
class Score:
    """Means over slots and seeds. `busiest` is over the 200 cells with most people."""

    all_cells: float
    busiest: float
    relative: float
    """|error| / max(truth, 0.1 % of the slot's total), over the busiest cells."""
    printed_relative: float
    """Chen et al.: |error| / max(0.001, published), over all cells; empty cells decide it."""


def score(truth: NDArray[np.int64], published: Values) -> Score:
    """Both are slot x cell."""
    error = np.abs(published - truth)
    busy = np.argsort(-truth.sum(axis=0), kind="stable")[:BUSIEST]
    sane = np.maximum(truth[:, busy], 0.001 * truth.sum(axis=1, keepdims=True))
    sane = np.maximum(sane, 1.0)
    return Score(
        float(error.mean()),
        float(error[:, busy].mean()),
        float((error[:, busy] / sane).mean()),
        float((error / np.maximum(PRINTED_BOUND, published)).mean()),
    )


def mean_score(scores: list[Score]) -> Score:
    """The mean of several seeds."""
    fields = zip(
        *((s.all_cells, s.busiest, s.relative, s.printed_relative) for s in scores), strict=True
    )
    return Score(*(float(np.mean(values)) for values in fields))


DELTA = 1e-6
BASELINES = ("zeros", "sample", "mean", "uniform")
CORRECTED = ("direct", "threshold", "static-hybrid", "dynamic-hybrid")
DEFAULTS = ("comb", "rhythm", "smoother", "profile")
FAR_BEHIND = ("static-hybrid", "dynamic-hybrid")
"""Corrected schemes that no draw of noise brings near the front: fewer draws will do."""
PEERS = (
    "bd",
    "ba",
    "fast",
    "dsft",
    "dsat",
    "rescuedp",
    "fan-temporal",
    "fan-spatial",
    "fan-combined",
)
LEARNING = ("comb", "rhythm", "dynamic-hybrid")
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


Steer = Mapping[str, float]
"""Fields of `Printed` that were chosen, for the corrected schemes too."""


def scheme_for(name: str, city: City, steer: Steer = MappingProxyType({})) -> StreamScheme:
    """The scheme with the settings of the study: a threshold of a quarter of a mean distance.

    The paper reads it off the day itself; here it is a public number that somebody knew.
    """
    return stream_scheme(name, steered(name, city, steer))


def steered(name: str, city: City, steer: Steer) -> dict[str, float]:
    """What the choices for the printed forms are called by a corrected scheme that has them."""
    known = {"quiet": steer["threshold"]} if "threshold" in steer else {}
    known |= {one: value for one, value in steer.items() if one not in ("threshold", "alpha")}
    found = {
        one: value for one, value in known.items() if one in stream_scheme(name).declares.parameters
    }
    if name in ("dsft", "dsat", "rescuedp"):  # whose parameters mean something else
        return {}
    if name == "threshold":
        share = steer.get("threshold", PRINTED.threshold)
        found["threshold"] = max(1, round(float(distances(city.counts[0]).mean()) * share))
    return found


def corrected(
    city: City,
    epsilon: float,
    names: Iterable[str],
    seeds: Iterable[int],
    how: Consistency = Consistency.NEAREST,
    say: Callable[[str], None] = lambda _: None,
    steer: Steer = MappingProxyType({}),
) -> list[Row]:
    """The schemes as `sfumato stream` runs them."""
    rows, seeds = [], list(seeds)
    slots = city.counts.shape[1]
    for name in names:
        if name in ("fan-spatial", "fan-combined") and city.columns is None:
            continue  # their tree needs a grid
        days = city.counts.shape[0] if name in LEARNING else min(SCORED_DAYS, city.counts.shape[0])
        facts = facts_of(city, epsilon, days)
        counts = city.stream[-days * slots :]
        truth = city.stream[-min(SCORED_DAYS, days) * slots :]
        scheme = scheme_for(name, city, steer)
        made = how if name not in (*DEFAULTS, "zeros") else Consistency.NONE
        found = [
            score(truth, run_scheme(scheme, facts, counts, seed, made).median[-len(truth) :])
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
            score(truth, run_scheme(scheme, facts, truth, seed, made).median)
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
            shaped = run.median.reshape(days, slots, cells)
            errors += [score(city.counts[d], shaped[d]).busiest for d in range(days)]
        found[name] = (errors / len(seeds)).tolist()
    return found


def printed(
    city: City,
    epsilon: float,
    seeds: Iterable[int],
    terms: Printed = PRINTED,
    process: bool = True,
) -> list[Row]:
    """The schemes of the paper as printed."""
    days = min(SCORED_DAYS, city.counts.shape[0] - 1)
    slots = city.counts.shape[1]
    cutoff = terms.most(slots)
    scores: dict[str, list[Score]] = {}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        out: dict[str, list[Values]] = {}
        for day in range(-days, 0):
            raw = city.counts[day]
            limit = terms.threshold * float(distances(raw).mean())
            past = city.counts[max(day - terms.past, -city.counts.shape[0]) : day]
            made = {
                "direct": direct(raw, epsilon, rng),
                "threshold": threshold(raw, epsilon, limit, cutoff, rng, terms.compare)[0],
                "static-hybrid": static_hybrid(raw, epsilon, limit, cutoff, rng, terms)[0],
                "dynamic-hybrid": dynamic_hybrid(
                    past, raw, epsilon, limit, (cutoff, cutoff), rng, terms
                )[0],
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


def distances_by_hour(city: City) -> dict[str, Any]:
    """Figure 2: L1 distances between successive slots of the last day."""
    found = distances(city.counts[-1])
    hours = city.first_hour + city.slot_hours * np.arange(1, found.size + 1)
    return {"hours": hours.tolist(), "distances": found.tolist()}


def chosen_day(
    city: City, epsilon: float, draws: int = 200, seed: int = 0, terms: Printed = PRINTED
) -> dict[str, Any]:
    """Figure 4: the daytime by the raw utility, as printed, and by noisy distances.

    The corrected form has its own share of epsilon for it, a tenth with the night's distances.
    """
    raw, rng = city.counts[-1], np.random.default_rng(seed)
    windows = candidates(raw.shape[0])
    best = windows[int(np.argmax(printed_utility(distances(raw), terms.alpha, windows)))]
    sd = Hybrid(finished=True).terms(facts_of(city, epsilon, 1)).division_noise().sd
    share = terms.division * epsilon
    as_printed = [division(raw, share, rng, terms.alpha)[0] for _ in range(draws)]
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
    city: City,
    seeds: Sequence[int],
    shares: Sequence[float] = (0.25, 0.5, 1.0, 1.5, 2.0),
    terms: Printed = PRINTED,
) -> list[dict[str, Any]]:
    """Figures 7 and 8: the printed schemes at epsilon 0.8 against T in mean distances."""
    return [
        {"share": share, "scheme": row.scheme, "mae": row.score.all_cells,
         "busiest": row.score.busiest, "mre": row.score.printed_relative}
        for share in shares
        for row in printed(city, 0.8, seeds, replace(terms, threshold=share))
    ]  # fmt: skip


def utility_by_epsilon(
    city: City,
    seeds: Sequence[int],
    epsilons: Sequence[float] = (0.1, 0.4, 0.7, 1.0),
    terms: Printed = PRINTED,
) -> list[dict[str, Any]]:
    """Figures 9 to 12: the printed schemes against epsilon, with and without Algorithm 3."""
    return [
        {"epsilon": epsilon, "scheme": row.scheme, "processed": process,
         "mae": row.score.all_cells, "busiest": row.score.busiest,
         "mre": row.score.printed_relative}
        for epsilon in epsilons
        for process in (True, False)
        for row in printed(city, epsilon, seeds, terms, process)
    ]  # fmt: skip
