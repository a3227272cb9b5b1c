"""What is forecast of a release before it is made, beside what is then published.

    python -m benchmarks forecast              # all people, some minutes
    python -m benchmarks.forecast --only taxis # some of them
    python -m benchmarks.forecast --widths     # the half-widths anew, the rest as it stands

Each release is forecast from public facts alone, with the visits of a person stated as they are,
not at all, at half and at twice of it; and then published so, with ten draws of the noise. Figures
are half of the 90 % interval of the total over the total, and the mean relative error. Writes
docs/benchmarks/forecast.json and .md.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks._forecast_people import check_ins, slots_of, taxis
from benchmarks._levels_people import CALLS, GPS, Population, population
from benchmarks._levels_real import missing, real_population
from threadpoolctl import threadpool_limits

from sfumato.density.bayes.scheme import Bayes
from sfumato.density.fitness import GOOD_TO, MOST, MRE, WIDEST, Case, fitness, opened, outlook
from sfumato.density.scheme import PublicFacts
from sfumato.privacy.wall import Wall
from sfumato.utility.density import relative_error

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
TOTAL = "total_half_width"
FIGURES = (TOTAL, MRE)
OWN = 1.3
"""How near the forecast of a release is to be to the interval that it prints."""
STATED = {"truth": 1.0, "half": 0.5, "twice": 2.0, "nothing": None}
DRAWS = 10
"""One draw says little: intervals of the same taxis differ four times from draw to draw."""


@dataclass(frozen=True, slots=True)
class People:
    """Who is published, and how."""

    name: str
    make: Callable[[], Population]
    epsilons: tuple[float, ...]
    fleet: bool = False
    """Whether their files' format is that of a fleet."""
    made: bool = True
    """Whether the bars are about them; others are beside them."""
    needs: str | None = None
    """The real data."""


PEOPLE = (
    People("taxis, 2,000 in 400 cells", partial(taxis, 2000, 20, 41), (0.3, 1.0), True),
    People("taxis, 1,000 in 900 cells", partial(taxis, 1000, 30, 42), (1.0,), True),
    People(
        "taxis, 3,000 in 225 cells, 3 days of 30 min",
        partial(taxis, 3000, 15, 43, slots_of(3, "30min"), 6.0),
        (0.5,),
        True,
    ),
    People("taxis, 1,500 in 400 cells, 2h", partial(taxis, 1500, 20, 44, slots_of(7, "2h"), 2.0),
           (1.0,), True),
    People("check-ins (Zipf), 2,000 in 100 cells", partial(check_ins, 2000, 10, 51), (1.0,)),
    People("check-ins (Zipf), 10,000 in 225 cells", partial(check_ins, 10_000, 15, 52), (0.3, 1.0)),
    People(
        "check-ins (log-normal), 3,000 in 225 cells, 4 weeks of 4h",
        partial(check_ins, 3000, 15, 53, slots_of(28, "4h"), "log-normal", 16.0),
        (1.0,),
    ),
    People(
        "check-ins (log-normal), 5,000 in 100 cells",
        partial(check_ins, 5000, 10, 54, None, "log-normal", 5.0),
        (0.5,),
    ),
    People("hourly GPS, 3,000 in 150 zones", partial(population, GPS, 150, 3000, 55), (0.5,),
           made=False),
    People("calls, 5,000 in 100 zones", partial(population, CALLS, 100, 5000, 56), (0.5,),
           made=False),
    *(
        People(name, partial(real_population, name, 1), (1.0,), fleet, False, name)
        for name, fleet in (("cabs-41", True), ("cabs-195", True), ("hangzhou", False),
                            ("c2tm", False))
    ),
)  # fmt: skip


def judged(people: People) -> list[dict[str, Any]]:
    """Forecast and published, for every budget and everything that may be stated of the visits."""
    population = people.make()
    return [row for epsilon in people.epsilons for row in _judged(people, population, epsilon)]


def _judged(people: People, population: Population, epsilon: float) -> list[dict[str, Any]]:
    visits = float(population.truth.sum()) / population.people
    rows = []
    for stated in STATED:
        facts = stating(population.facts(epsilon), visits, stated)
        case = Case.of("bayes", facts, fleet=people.fleet)
        assert case is not None
        start = time.process_time()
        said = outlook(case)
        cpu = time.process_time() - start
        gate = fitness(case)
        assert said.figures is not None
        assert said.forecast is not None
        expected = {TOTAL: said.figures[TOTAL], MRE: said.forecast.mean_relative_error}
        halves, errors = published_so(population, facts)
        published = {TOTAL: float(np.mean(halves)), MRE: float(np.mean(errors))}
        rows.append(
            {
                "people": people.name,
                "made": people.made,
                "epsilon": epsilon,
                "visits": round(visits, 1),
                "stated": stated,
                "forecast": {name: float(f"{expected[name]:.3g}") for name in FIGURES},
                "range": {name: list(said.ranges[name]) for name in FIGURES},
                "halves": [float(f"{half:.3g}") for half in halves],
                "published": {name: float(f"{published[name]:.3g}") for name in FIGURES},
                "refused": gate.useless,
                "cpu": round(cpu, 1),
            }
        )
        print(rows[-1], flush=True)
    return rows


def off(row: dict[str, Any], name: str) -> float:
    """How many times the forecast is too large or too small."""
    return math.exp(abs(math.log(row["forecast"][name] / row["published"][name])))


def published_so(population: Population, facts: PublicFacts) -> tuple[list[float], list[float]]:
    """Half-widths and mean relative errors of the draws."""
    halves, errors = [], []
    for draw in range(DRAWS):
        with threadpool_limits(1):
            density = Bayes().run(population.source, Wall.seeded(7_000 + draw), facts)
        assert density.posterior is not None
        total = density.posterior.total(0.9)
        halves.append((total.ends[1] - total.ends[0]) / 2 / total.value)
        values = np.asarray(density.values, np.float64)
        errors.append(float(relative_error(population.truth, values).mean()))
    return halves, errors


def widths(people: People, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of these people with half-widths forecast and published anew, all else as it stands."""
    population = people.make()
    visits = float(population.truth.sum()) / population.people
    for row in rows:
        facts = stating(population.facts(row["epsilon"]), visits, row["stated"])
        case = Case.of("bayes", facts, fleet=people.fleet)
        assert case is not None
        each = [Bayes().total_half_width(case.facts, tried, 0.9, people.fleet)
                for tried in case.activity]  # fmt: skip
        row["forecast"][TOTAL] = float(f"{each[0]:.2g}")
        row["range"][TOTAL] = list(opened(each))
        halves, _ = published_so(population, facts)
        row["halves"] = [float(f"{half:.3g}") for half in halves]
        row["published"][TOTAL] = float(f"{np.mean(halves):.3g}")
        print(row, flush=True)
    return rows


def stating(facts: PublicFacts, visits: float, stated: str) -> PublicFacts:
    """What is told of people who make that many visits."""
    factor = STATED[stated]
    if factor is None:
        return facts
    told = min(max(visits * factor, 0.1), 10.0 * facts.grid.slots)
    return replace(facts, parameters={"visits": told})


def near(figure: float, half: float) -> bool:
    """Whether they are as near as the forecast of a release and its own interval are to be."""
    return abs(math.log(figure / half)) <= math.log(OWN)


def inside(row: dict[str, Any], name: str) -> bool:
    """Whether what is published lies in the range."""
    low, high = row["range"][name]
    return bool(low <= row["published"][name] <= high)


def bars(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What is promised, and in how many of how many it holds."""
    true = [row for row in rows if row["stated"] == "truth"]
    loose = [row for row in rows if row["stated"] != "truth"]
    useful = [row for row in rows if row["published"][TOTAL] <= MOST[TOTAL]]
    widest = max(
        (row["range"][name][1] / row["range"][name][0] for row in loose for name in FIGURES),
        default=0.0,
    )

    def share(found: list[bool]) -> str:
        return f"{sum(found)} of {len(found)}"

    return [
        (
            f"visits stated: half-width of the total within {GOOD_TO:g} times of what is published",
            share([off(row, TOTAL) <= GOOD_TO for row in true]),
        ),
        (
            f"visits stated: mean relative error within {GOOD_TO:g} times",
            share([off(row, MRE) <= GOOD_TO for row in true]),
        ),
        (
            "unstated, or wrong by 2: the published half-width is in the range",
            share([inside(row, TOTAL) for row in loose]),
        ),
        (
            "unstated, or wrong by 2: the published mean relative error is in the range",
            share([inside(row, MRE) for row in loose]),
        ),
        (f"ends of a range, at most {WIDEST:g} times apart", f"{widest:.2g} times"),
        (
            f"visits stated: half-width within {OWN:g} times of the mean of what releases print",
            share([off(row, TOTAL) <= OWN for row in true]),
        ),
        (
            f"visits stated: half-width within {OWN:g} times of what one release prints",
            share([near(row["forecast"][TOTAL], half) for row in true for half in row["halves"]]),
        ),
        (
            f"the most that is possible: the mean within {OWN:g} times of what one release prints",
            share([near(row["published"][TOTAL], half) for row in true for half in row["halves"]]),
        ),
        (
            "published half-width under the gate's limit, and not refused",
            share([not row["refused"] for row in useful]),
        ),
    ]


def write(rows: list[dict[str, Any]]) -> None:
    (FOLDER / "forecast.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    made = [row for row in rows if row["made"]]
    beside = [row for row in rows if not row["made"]]
    lines = [
        "# Forecasts of a release",
        "",
        "Made by `python -m benchmarks forecast`: what is forecast from public facts alone, by",
        "`plan` and by the gate of `release`, beside what is then published (scheme `bayes`, means",
        "of ten draws of the noise, or of two where *from … to* is empty). Visits of a person are",
        "stated as they are, half and twice of that, or not at all. The people are in",
        "`benchmarks/_forecast_people.py`; *beside them* are people of other kinds, made up and",
        "real.",
        "",
        "| promise | taxis and check-ins | beside them |",
        "|---|---|---|",
    ]
    for (promise, figure), (_, other) in zip(bars(made), bars(beside), strict=True):
        lines.append(f"| {promise} | {figure} | {other} |")
    lines += [
        "",
        "Half of the 90 % interval of the total over the total, and the mean relative error.",
        "*Off*: the forecast over what is published, where visits are stated as they are.",
        "",
        "*From … to*: of the draws.",
        "",
        "| people | ε | visits | stated | ± forecast | range | published | from … to | off | "
        "error forecast | range | published | off | refused |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cell = [row["people"], f"{row['epsilon']:g}", f"{row['visits']:g}", row["stated"]]
        for name in FIGURES:
            low, high = row["range"][name]
            ratio = row["forecast"][name] / row["published"][name]
            cell += [f"{row['forecast'][name]:.3g}", f"{low:.2g} to {high:.2g}"]
            cell += [f"{row['published'][name]:.3g}" + ("" if inside(row, name) else " **")]
            if name == TOTAL:
                halves = row.get("halves")
                cell += [f"{min(halves):.2g} to {max(halves):.2g}" if halves else ""]
            cell += [f"{ratio:.2f}" if row["stated"] == "truth" else ""]
        lines.append(f"| {' | '.join(cell)} | {'yes' if row['refused'] else 'no'} |")
    lines += ["", "Two stars: outside of the range."]
    (FOLDER / "forecast.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--only", default="", help="People whose names begin so.")
    options.add_argument("--widths", action="store_true", help="The half-widths anew.")
    asked = options.parse_args()
    tried = [people for people in PEOPLE if people.name.startswith(asked.only)]
    for people in tried:
        if people.needs is not None and (why := missing(people.needs)):
            print(why)
    ready = [people for people in tried if people.needs is None or not missing(people.needs)]
    with ProcessPoolExecutor(2) as pool:
        if asked.widths:
            rows = json.loads((FOLDER / "forecast.json").read_text(encoding="utf-8"))
            stand = [[row for row in rows if row["people"] == people.name] for people in ready]
            anew = {each[0]["people"]: each for each in pool.map(widths, ready, stand)}
            rows = [
                row
                for name in dict.fromkeys(row["people"] for row in rows)
                for row in anew.get(name) or [row for row in rows if row["people"] == name]
            ]
        else:
            rows = [row for each in pool.map(judged, ready) for row in each]
    if asked.only and not asked.widths:
        for promise, figure in bars(rows):
            print(f"{promise}: {figure}")
    else:
        write(rows)


if __name__ == "__main__":
    main()
