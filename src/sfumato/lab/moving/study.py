"""The studies of streams: Chen et al., section 7.3, on any city, and every scheme on one city.

*The paper's figures*: distances, division, utility. What the paper leaves open is fixed here:
cut-off c = a quarter of the day's slots; shares of
epsilon for division, day and night 0.1, 0.5, 0.4; seven past days; comparisons take half of a
threshold's epsilon. The Beijing box is 45 by 44.5 km around the centre, as many squares of
500 m as the paper counts.

*Every scheme on one city*: same unit, same (epsilon, delta), each with its better noise. The unit
is `user-day`: epsilon for what one person does on one day, which is how the paper's
experiments read. Scored on the last seven days, by how far a published stream is from the truth
where it counts; schemes that learn from the past see all the
days before. Schemes whose only choice is Laplace or Gaussian noise take the smaller one.

The plots are made where matplotlib is installed. Internal, like the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.lab.as_printed.streams import (
    ALPHA,
    direct,
    distances,
    division,
    dynamic_hybrid,
    static_hybrid,
    threshold,
)
from sfumato.lab.moving.cities import City
from sfumato.model.time_grid import Calendar
from sfumato.privacy.events import Unit
from sfumato.streams.facts import StreamFacts
from sfumato.streams.output import Consistency, random_decrements
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import run_scheme
from sfumato.streams.scheme import StreamScheme, Values
from sfumato.streams.schemes.hybrid import Hybrid
from sfumato.streams.schemes.hybrid_division import candidates, from_distances, printed_utility
from sfumato.streams.schemes.threshold import Threshold

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


_SCHEMES = ("direct", "threshold", "static-hybrid", "dynamic-hybrid")
_COLOURS = dict(zip(_SCHEMES, ("#4477aa", "#ee6677", "#228833", "#ccbb44"), strict=True))


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(
            "Plots need matplotlib.",
            remedy="pip install 'sfumato[plots]', or give `figures=False`.",
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def paper_figures(name: str, study: dict[str, Any], path: Path) -> None:
    """Figures 2, 4 and 7 to 12 of Chen et al. on one page."""
    figure = _figure(11, 9.5)
    axes = figure.subplots(3, 3)
    _distances(axes[0, 0], study["distances"])
    _ends(axes[0, 1], study["day"], 0, "begin of the day")
    _ends(axes[0, 2], study["day"], 1, "end of the day")
    words = {"mae": "MAE, all cells", "mre": "MRE as printed", "busiest": "MAE, 200 busiest"}
    for axis, what in zip(axes[1], words, strict=True):
        _lines(axis, study["threshold"], "share", what)
        axis.set(xlabel="T in mean distances (epsilon 0.8)", ylabel=words[what])
    for axis, what in zip(axes[2], words, strict=True):
        _lines(axis, [p for p in study["epsilon"] if p["processed"]], "epsilon", what)
        _lines(axis, [p for p in study["epsilon"] if not p["processed"]], "epsilon", what, ":")
        axis.set(xlabel="epsilon (dotted: no Algorithm 3)", ylabel=words[what])
    axes[1, 0].legend(fontsize=7)
    figure.suptitle(f"{name}: the schemes of Chen et al. as printed (internal)")
    figure.savefig(path, dpi=100)


def _distances(axis: Any, study: dict[str, Any]) -> None:
    axis.plot(study["hours"], study["distances"], color="#333333")
    axis.set(xlabel="hour", ylabel="people moved (L1)", title="distance to the slot before")
    axis.set_ylim(bottom=0)


def _ends(axis: Any, study: dict[str, Any], end: int, title: str) -> None:
    """How often each hour was chosen, as printed and corrected; the raw optimum as a line."""
    hours = sorted({w[end] for form in ("printed", "corrected") for w in study[form]})
    step = min((b - a for a, b in pairwise(hours)), default=1.0)
    for form, colour, side in (("printed", "#ee6677", -0.2), ("corrected", "#4477aa", 0.2)):
        chosen = [window[end] for window in study[form]]
        shares = [chosen.count(hour) / len(chosen) for hour in hours]
        places = [hour + side * step for hour in hours]
        axis.bar(places, shares, width=0.4 * step, label=form, color=colour)
    axis.axvline(study["raw"][end], color="#333333", linestyle=":", label="raw optimum")
    axis.set(xlabel="hour", ylabel="share of draws", title=title)
    axis.legend(fontsize=7)


def _lines(axis: Any, points: Sequence[dict[str, Any]], x: str, y: str, style: str = "-") -> None:
    for scheme in _SCHEMES:
        own = [p for p in points if p["scheme"] == scheme]
        axis.plot(
            [p[x] for p in own], [p[y] for p in own], style, color=_COLOURS[scheme], label=scheme
        )
    axis.set_yscale("log")
    _plain_numbers(axis.yaxis)


def _plain_numbers(axis: Any) -> None:
    """20 instead of 2 x 10^1, on a logarithmic axis."""
    from matplotlib.ticker import LogFormatter

    axis.set_major_formatter(LogFormatter())
    axis.set_minor_formatter(LogFormatter())


def comparison(rows: Sequence[Row], path: Path) -> None:
    """Which scheme when: every scheme's error on the busiest cells, a panel for each epsilon."""
    panels = list(dict.fromkeys((row.city, row.epsilon) for row in rows))
    longest = max(sum((row.city, row.epsilon) == panel for row in rows) for panel in panels)
    figure = _figure(4.2 * len(panels), 1.0 + 0.27 * max(longest, 6))
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (city, epsilon) in zip(axes, panels, strict=True):
        own = [row for row in rows if (row.city, row.epsilon) == (city, epsilon)]
        own.sort(key=lambda row: -row.score.busiest)
        for place, row in enumerate(own):
            colour = "#4477aa" if row.form == "corrected" else "#bbbbbb"
            if row.scheme in ("rhythm", "profile"):
                colour = "#228833"
            elif row.scheme in ("zeros", "sample", "mean", "uniform"):
                colour = "#ccbb44"
            axis.barh(place, row.score.busiest, color=colour)
            number = f" {row.score.busiest:.3g}"
            axis.text(row.score.busiest, place, number, va="center", fontsize=7)
        words = [r.scheme + (" (printed)" if r.form == "as printed" else "") for r in own]
        axis.set_yticks(range(len(own)), words, fontsize=7)
        axis.set(xlabel="MAE, 200 busiest cells", title=f"{city}, epsilon {epsilon:g}")
        axis.set_xlim(0, 1.15 * own[0].score.busiest)  # bars are lengths: from 0, and linear
        axis.set_ylim(-0.7, len(own) - 0.3)
    figure.savefig(path, dpi=100)


def learning(name: str, errors: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Error by day: what the default learns."""
    figure = _figure(4.5 * len(errors), 3.2)
    axes = figure.subplots(1, len(errors), squeeze=False)[0]
    for axis, (epsilon, found) in zip(axes, errors.items(), strict=True):
        for scheme, days in found.items():
            axis.plot(range(1, len(days) + 1), days, marker="o", markersize=3, label=scheme)
        axis.set(xlabel="day", ylabel="MAE, 200 busiest", title=f"{name}, epsilon {epsilon}")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=100)
