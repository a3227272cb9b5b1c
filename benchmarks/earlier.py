"""The first day of a live stream with and without the measurements of an earlier one.

python -m benchmarks.earlier [--draws 3]

Four days are published by `comb`, and the fifth by a new stream: from nothing, with the vectors of
those four days, and with vectors of a city that has changed since: all places, or a fifth of them,
have changed places with each other, or there were a quarter of the people. Cabs of 2 to 6 June 2008
and ten such fleets (needs SFUMATO_DATA), and made crowds; the rule that leaves another city out was
settled on cabs of May and crowds of other seeds.

And a holiday that is known: Memorial Day, 26 May 2008, in two weeks of cabs and of ten such fleets,
with and without `--holidays`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.live import _superposed, errors
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.model.time_grid import Calendar
from sfumato.privacy.events import Unit
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts
from sfumato.streams.kept import Vectors, vectors_in
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import boxed, run_scheme
from sfumato.streams.scheme import Keeping, Meter, Values
from sfumato_lab.studies.moving.cities import City, cabspotting_city, crowd_city

OUT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
BEFORE = 4
"""Days of the earlier stream: Monday to Thursday."""
CASES = ("the same city", "a fifth of the places moved", "all places moved", "a quarter of people")
Counts = NDArray[np.int64]


def cities() -> Iterator[City]:
    if "SFUMATO_DATA" in os.environ:
        data = Path(os.environ["SFUMATO_DATA"])
        cabs = cabspotting_city(data / "cabspotting_sf" / "cabspotting_sf_2008.parquet")
        june = replace(cabs, counts=cabs.counts[14:])
        yield replace(june, name="cabs")
        yield _superposed(june, 2_005)
    for people, seed in ((5_000, 2_902), (20_000, 2_903), (130_000, 2_904)):
        yield replace(crowd_city(BEFORE + 1, people, seed), name=f"crowd of {people:,}")


def changed(days: Counts, case: str, rng: np.random.Generator) -> Counts:
    """The earlier days as the case has them."""
    cells = days.shape[2]
    if case == "a quarter of people":
        return rng.binomial(days, 0.25)
    moved = {"all places moved": cells, "a fifth of the places moved": cells // 5}.get(case, 0)
    some, order = rng.choice(cells, moved, replace=False), np.arange(cells)
    order[some] = rng.permutation(some)
    return days[:, :, order]


def run(
    city: City, days: Counts, epsilon: float, seed: int, past: Vectors | None
) -> tuple[Vectors, Values]:
    """A stream over these days: what it keeps, and its medians."""
    count, slots, cells = days.shape
    first = 0 if count == BEFORE else BEFORE
    facts = StreamFacts(
        *(cells, Calendar.regular(count * slots, slots, first), epsilon, 0.0),
        *(Unit.parse("user-day"), city.people, city.columns),
        past=past,
    )
    scheme = stream_scheme("comb")
    meter = Meter(scheme.plan(facts).accounts, facts)
    wall, publisher = Wall.seeded(seed, meter), scheme.publisher(facts)
    made = [
        publisher.publish(slot, boxed(row, facts), wall, meter)
        for slot, row in enumerate(days.reshape(-1, cells))
    ]
    assert isinstance(publisher, Keeping)
    return publisher.kept(), np.array([np.asarray(one.median) for one in made])


def judged(city: City, epsilon: float, draws: int) -> dict[str, list[float]]:
    """Mean errors of the first day, from nothing and in every case."""
    found: dict[str, list[list[float]]] = {}
    today = city.counts[BEFORE : BEFORE + 1]
    for draw in range(draws):
        rng = np.random.default_rng(7_000 + draw)
        _, alone = run(city, today, epsilon, 100 + draw, None)
        found.setdefault("nothing", []).append(errors(today[0], alone))
        for case in CASES:
            days = changed(city.counts[:BEFORE], case, rng)
            kept, _ = run(city, days, epsilon, 200 + draw, None)
            past = vectors_in(kept.arrays(), today.shape[2], BEFORE) if len(kept) else None
            _, made = run(city, today, epsilon, 100 + draw, past)
            found.setdefault(case, []).append(errors(today[0], made))
    return {name: np.mean(rows, axis=0).tolist() for name, rows in found.items()}


def holiday(draws: int) -> list[dict[str, object]]:
    """Errors of the week that begins with Memorial Day, the day itself and the six after it."""
    data = Path(os.environ["SFUMATO_DATA"])
    cabs = cabspotting_city(data / "cabspotting_sf" / "cabspotting_sf_2008.parquet")
    rows: list[dict[str, object]] = []
    for name, times in (("cabs", 1), ("ten fleets", 10)):
        counts = sum(np.roll(cabs.counts[:14], k % 3 - 1, axis=1) for k in range(times))
        assert isinstance(counts, np.ndarray)
        city = replace(cabs, counts=counts, people=times * cabs.people)
        _, slots, cells = counts.shape
        plain = Calendar.regular(14 * slots, slots, 0)
        known = replace(plain, free=plain.free | (plain.day == 7), holidays=frozenset({7}))
        for epsilon in (0.4, 1.0):
            found: dict[str, list[float]] = {}
            for said, calendar in (("not told", plain), ("told", known)):
                parts = []
                for draw in range(draws):
                    facts = StreamFacts(
                        *(cells, calendar, epsilon, 0.0, Unit.parse("user-day")),
                        *(city.people, city.columns),
                    )
                    made = run_scheme(stream_scheme("comb"), facts, city.stream, 300 + draw)
                    for days in (slice(7, 8), slice(8, 14)):
                        of = slice(days.start * slots, days.stop * slots)
                        ratio = made.values[of].sum() / city.stream[of].sum()
                        parts.append([*errors(city.stream[of], made.median[of]), ratio])
                mean = np.array(parts).reshape(draws, 2, 4).mean(axis=0)
                found |= {f"{said}, holiday": mean[0].tolist(), f"{said}, after": mean[1].tolist()}
            rows.append({"city": name, "epsilon": epsilon, "errors": found})
            print(rows[-1], flush=True)
    return rows


def _holiday_lines(rows: list[dict[str, object]]) -> list[str]:
    lines = [
        "",
        "## A holiday that is known",
        "",
        "Memorial Day (Monday, 26 May 2008) in the second week of a stream of cabs, and of ten "
        "such fleets whose clocks are up to half an hour apart: errors as above and the sum of "
        "`count` over the truth, on the day and on the six days after it.",
        "",
        "| data | ε | calendar | the holiday | the days after |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        found: dict[str, list[float]] = row["errors"]  # type: ignore[assignment]
        for said in ("not told", "told"):
            texts = [
                " / ".join(f"{x:.3g}" for x in found[f"{said}, {when}"][:3])
                + f"; {found[f'{said}, {when}'][3]:.2f}"
                for when in ("holiday", "after")
            ]
            lines.append(
                f"| {row['city']} | {row['epsilon']:g} | {said} | {texts[0]} | {texts[1]} |"
            )
    return lines


def page(rows: list[dict[str, object]], holidays: list[dict[str, object]], draws: int) -> str:
    lines = [
        "# The first day with the measurements of an earlier stream",
        "",
        "Written by `python -m benchmarks.earlier`; do not edit. Pure epsilon, unit user-day, "
        f"{draws} draws. A stream's first day (a Friday) from nothing: mean absolute error of "
        "`median` on the busiest 200 cells / over all cells / relative on the busiest. Beside it "
        "the error with `--earlier` (vectors of Monday to Thursday) over that: below 1 is better. "
        "In the last three columns the earlier stream was about another city.",
        "",
        "| data | ε | from nothing | " + " | ".join(CASES) + " |",
        "|---|---|---|" + "---|" * len(CASES),
    ]
    for row in rows:
        found: dict[str, list[float]] = row["errors"]  # type: ignore[assignment]
        alone = np.array(found["nothing"])
        cells = [" / ".join(f"{x:.3g}" for x in alone)]
        cells += [" / ".join(f"{x:.2f}" for x in np.array(found[case]) / alone) for case in CASES]
        lines.append(f"| {row['city']} | {row['epsilon']:g} | {' | '.join(cells)} |")
    return "\n".join(lines + _holiday_lines(holidays)) + "\n"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--draws", type=int, default=3)
    options.add_argument("--only-holiday", action="store_true", help="keep the other table")
    asked = options.parse_args()
    known = OUT / "earlier.json"
    rows: list[dict[str, object]] = []
    if asked.only_holiday:
        rows = json.loads(known.read_text())["earlier"]
    with threadpool_limits(1):
        free = holiday(asked.draws) if "SFUMATO_DATA" in os.environ else []
        for city in () if asked.only_holiday else cities():
            for epsilon in (0.4, 1.0):
                found = judged(city, epsilon, asked.draws)
                rows.append({"city": city.name, "epsilon": epsilon, "errors": found})
                print(rows[-1], flush=True)
    known.write_text(json.dumps({"earlier": rows, "holiday": free}, indent=1) + "\n")
    (OUT / "earlier.md").write_text(page(rows, free, asked.draws), encoding="utf-8")


if __name__ == "__main__":
    main()
