"""The finished default against simple answers, and against `bayes` on the same period.

python -m benchmarks.finished [--data dev] [--draws 5]

One day and seven, of cabs (Cabspotting, 500 m, half hours; needs SFUMATO_DATA), ten fleets of them
superposed, and made crowds (500 m, 19 hourly slots a day); one day of crowds on 1,600 cells, which
`bayes` can read. The constants of `smoother` were settled
on `dev`: cabs of 19 May to 1 June 2008 and crowds of seeds 901 to 946. `held` are the cabs of 2 to
8 June and crowds and fleets of seeds that were not used before (the cabs judged earlier versions;
see docs/decisions/streams.md). Unit user-day, or user-period, pure epsilon.

`bayes` protects whole periods, so it is compared on one day (where both units are one) and on seven
days as one unit. It has a delta of 1e-6 that the stream does without, and is told how many slots
people are seen in. Where only counts are known, people are made of them: of n people who are
in some cell in a slot the first n of a list are there.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import shapely
from benchmarks._levels_people import in_zones
from benchmarks.live import (
    BINS,
    FIRM,
    Counts,
    Feed,
    _superposed,
    earlier,
    errors,
    kept,
    past_mean,
    standard_errors,
)
from threadpoolctl import threadpool_limits

from sfumato.density.bayes import Bayes
from sfumato.density.scheme import PublicFacts
from sfumato.geography.overlay import Layout
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.events import Unit
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, windows_to_show
from sfumato.streams.registry import default_name, stream_scheme
from sfumato.streams.replay import boxed, run_scheme
from sfumato.streams.run import Z90
from sfumato.streams.scheme import Finished, Meter, Publication, Values
from sfumato_lab.studies.moving.cities import City, cabspotting_city, crowd_city
from sfumato_lab.studies.moving.study import BUSIEST

OUT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
OURS = "default"
SIMPLE = ("zeros", "sample", "mean", "past")
SEEDS = {"dev": {500: 901, 5_000: 902, 20_000: 903, 130_000: 904}, "held": {}}
SEEDS["held"] = {people: seed + 13_000 for people, seed in SEEDS["dev"].items()}
"""Others, from 8,301, 9,403 and 19,901 on, judged earlier versions."""
SMALL = {"dev": {4_000: 945, 26_000: 946}, "held": {4_000: 13_945, 26_000: 13_946}}
SIDE = 40
"""Crowds on 1,600 cells, which `bayes` can read: one day of them."""
FLEETS = {"dev": 5, "held": 13_005}
"""Seeds of the superposition; 7,005 judged earlier versions."""
DELTA = 1e-6
MOST_CELLS = 2_000
"""Of `bayes`, whose eigenbases of places take minutes beyond this."""


def feeds(which: str) -> Iterator[Feed]:
    """A week of every kind, one at a time; of small maps a day."""
    if "SFUMATO_DATA" in os.environ:
        data = Path(os.environ["SFUMATO_DATA"])
        all_ = cabspotting_city(data / "cabspotting_sf" / "cabspotting_sf_2008.parquet")
        days = all_.counts[:14] if which == "dev" else all_.counts[14:]
        yield Feed("cabs", replace(all_, counts=days[:7]))
        ten = _superposed(replace(all_, counts=days), FLEETS[which])
        yield Feed("ten fleets", ten)
    for people, seed in SMALL[which].items():
        yield Feed(f"crowd of {people:,}, {SIDE**2:,} cells", crowd_city(1, people, seed, SIDE))
    for people, seed in SEEDS[which].items():
        yield Feed(f"crowd of {people:,}", crowd_city(7, people, seed))


def published(scheme: str, facts: StreamFacts, counts: Counts, seed: int) -> list[Publication]:
    made = stream_scheme(scheme)
    meter = Meter(made.plan(facts).accounts, facts)
    wall, publisher = Wall.seeded(seed, meter), made.publisher(facts)
    found = []
    for slot, row in enumerate(counts):
        if isinstance(publisher, Finished):
            for first, stop in windows_to_show(facts, slot, publisher.ahead):
                publisher.prepare(boxed(counts[first:stop].T, facts), first, wall)
        found.append(publisher.publish(slot, boxed(row, facts), wall, meter))
    return found


def of_bayes(city: City, epsilon: float, seed: int) -> Values:
    """Medians of `bayes` on the period, slot x cell."""
    days, slots, cells = city.counts.shape
    first = date(2008, 6, 2) + timedelta(days=city.first_weekday)
    grid = TimeGrid.between(first, first + timedelta(days=days), _step(city), "UTC")
    assert city.columns is not None
    x, y = np.arange(cells) % city.columns * 500.0, np.arange(cells) // city.columns * 500.0
    layout = Layout(np.column_stack((x, y)), np.full(cells, 250_000.0))
    ids = np.array([f"{cell:05d}" for cell in range(cells)])
    lon, lat = x / 111_195, y / 111_195
    squares = shapely.box(lon, lat, lon + 0.0044, lat + 0.0044)
    always = np.full(cells, -(2**62)), np.full(cells, 2**62)
    places = Places(PlaceKind.ZONES, ids, squares, ids, *always)
    when, where = np.nonzero(city.stream)
    many = city.stream[when, where]
    slot, cell = np.repeat(when, many), np.repeat(where, many)
    begins = np.searchsorted(slot, np.arange(days * slots))
    who = np.arange(slot.size) - begins[slot]
    shown = slot // slots * (grid.slots // days) + slot % slots
    people = in_zones("made", places, grid, who, shown, cell, layout)
    seen = slot.size / city.people
    facts = PublicFacts(
        ids, grid, epsilon, DELTA, city.people, layout=layout, parameters={"visits": seen}
    )
    meter = _Unmetered()
    density = Bayes().run(people.source, Wall.seeded(seed, meter), facts)
    assert density.median is not None
    table = density.median.reshape(cells, days, -1)[:, :, :slots]
    return np.asarray(table.reshape(cells, -1).T, dtype=np.float64)


def of_oracle(counts: Counts, epsilon: float, seed: int) -> list[float]:
    """What one who knows could do: the least error over 1 to 12 tiles of a day.

    The oracle knows which cells are the 200 fullest, the next 800 and so on, and of each class the
    true mean and covariance of its slots; it estimates linearly from noisy means of tiles.
    """
    rng, slots = np.random.default_rng(seed), len(counts)
    order = np.argsort(-counts.sum(axis=0), kind="stable")
    classes = np.split(order, np.arange(BUSIEST, order.size, 800))
    found = []
    for k in (1, 2, 3, 4, 6, 9, 12):
        tile = np.arange(slots) * k // slots
        shares = (tile == np.arange(k)[:, None]) / np.bincount(tile)[:, None]
        noisy = shares @ counts + rng.laplace(0, k / epsilon, (k, order.size))
        made = np.zeros(counts.shape)
        for one in classes:
            mean, spread = counts[:, one].mean(axis=1), np.cov(counts[:, one])
            whole = shares @ spread @ shares.T + 2 * (k / epsilon) ** 2 * np.eye(k)
            apart = noisy[:, one] - (shares @ mean)[:, None]
            made[:, one] = mean[:, None] + spread @ shares.T @ np.linalg.solve(whole, apart)
        found.append(errors(counts, np.where(made < 0.5, 0.0, made)))
    return [float(x) for x in np.min(found, axis=0)]


class _Unmetered:
    """Charges nothing: what `bayes` spends is as planned."""

    def charge(self, label: str, event: object) -> None:
        del label, event


def _step(city: City) -> str:
    return "30min" if city.slot_hours == 0.5 else "1h"


def judged(feed: Feed, unit: str, epsilon: float, draws: int, beside: int) -> dict[str, object]:
    """Mean errors of all answers, sums, and how often intervals hold."""
    city, counts = feed.city, feed.city.stream
    cells = counts.shape[1]
    facts = StreamFacts(
        cells, city.calendar, epsilon, 0.0, Unit.parse(unit), city.people, city.columns
    )
    slots, truth = city.counts.shape[1], counts.sum(axis=1)
    rows: dict[str, list[list[float]]] = {"zeros": [errors(counts, np.zeros(counts.shape))]}
    chosen = default_name(facts, finished=True)
    sums, held_sums, cpu, firm, within = 0.0, 0.0, 0.0, 0, 0
    held, stated = np.zeros(len(BINS) + 1), np.zeros(len(BINS) + 1)
    for draw in range(draws):
        for name in ("sample", "mean", "profile"):
            found = run_scheme(stream_scheme(name), facts, counts, draw).median
            rows.setdefault(name, []).append(errors(counts, found))
        if unit == "user-day" and facts.windows > 1:
            past = past_mean(counts, slots, epsilon, draw)
            rows.setdefault("past", []).append(errors(counts, past))
            found = run_scheme(stream_scheme("rhythm"), facts, counts, draw).median
            rows.setdefault("rhythm", []).append(errors(counts, found))
        begun = time.process_time()
        made = published(chosen, facts, counts, draw)
        cpu += time.process_time() - begun
        medians = np.array([one.median for one in made])
        rows.setdefault(OURS, []).append(errors(counts, medians))
        sums += sum(float(one.values.sum()) for one in made) / float(truth.sum())
        for one, row, total in zip(made, counts, truth, strict=True):
            if one.total is None:
                continue
            low, high = one.total.ends
            held_sums += float(low <= total <= high) / len(made)
            if high - low < 2 * Z90 * FIRM * one.total.value:
                firm += 1
                within += abs(one.total.value - total) <= 0.05 * total
            if one.lower is None or one.upper is None:
                continue
            which = np.digitize(one.values, BINS)
            inside = (row >= one.lower) & (row <= one.upper)
            held += np.bincount(which, inside, held.size)
            stated += np.bincount(which, minlength=held.size)
        if len(counts) == slots:
            rows.setdefault("oracle", []).append(of_oracle(counts, epsilon, draw))
        one_unit = unit == "user-period" or facts.windows == 1
        if one_unit and draw < beside and cells <= MOST_CELLS:
            rows.setdefault("bayes", []).append(errors(counts, of_bayes(city, epsilon, draw)))
    return {
        "feed": feed.name,
        "scheme": chosen,
        "unit": unit,
        "days": city.counts.shape[0],
        "epsilon": epsilon,
        "draws": draws,
        "errors": {name: np.mean(found, axis=0).round(4).tolist() for name, found in rows.items()},
        "spread": {name: standard_errors(found) for name, found in rows.items()},
        "sums": round(sums / draws, 3),
        "sum held": round(held_sums / draws, 3),
        "firm": firm,
        "firm within 5 %": int(within),
        "held": held.astype(int).tolist(),
        "cells": stated.astype(int).tolist(),
        "cpu": round(cpu / draws, 2),
    }


def times(row: dict[str, object], rivals: tuple[str, ...], ours: str = OURS) -> list[float] | None:
    """How much smaller our errors are than the best of the rivals', in each."""
    found: dict[str, list[float]] = row["errors"]  # type: ignore[assignment]
    known = [found[name] for name in rivals if name in found]
    if not known or ours not in found:
        return None
    return [float(x) for x in np.min(known, axis=0) / np.array(found[ours])]


def page(rows: list[dict[str, object]], which: str, draws: int) -> str:
    drawn = " or ".join(str(x) for x in sorted({int(str(row.get("draws", draws))) for row in rows}))
    lines = [
        "# The finished default against simple answers and `bayes`",
        "",
        f"    python -m benchmarks.finished --data {which} --draws {draws} --beside 1",
        "",
        f"Data {'held back' if which == 'held' else 'on which constants were settled'}; {drawn} "
        "draws of noise; pure epsilon. Mean absolute error of `median` on the busiest "
        f"{BUSIEST} cells / over all cells / relative error on the busiest; `simple` is the best "
        "of `sample`, `mean`, the paid mean of past days and zeros, in each of the three; `times` "
        "how much smaller the default's error is than that, than `profile`, the finished default "
        "before, and than `bayes` with a delta of 1e-6; `oracle` how much smaller than that of "
        "simple answers the error is of a linear estimator that knows every cell's class of level "
        "and the true mean and covariance of slots in it (of one day), and beside `bayes` how much "
        "smaller than that of `bayes`. Where one unit is the whole "
        f"period `bayes` was run on maps of up to {MOST_CELLS:,} cells. Sums are of `count` over "
        "the truth; `held` how often the 90 % interval of a slot's sum holds; `firm` how many of "
        "the sums whose stated sd is below 2 % lie within 5 % of the truth. Asked: times at "
        "least .99, .99, .95 of simple answers everywhere; 1.4 on cells at epsilon 1 with 5,000 "
        "people or more, 1.15 with 500; of `bayes` 1.0 on the busiest and 1.3 over all. Judged is "
        "what somebody gets who chooses nothing: `smoother`, or on thin maps, with fewer than two "
        "people a cell, `profile` or `rhythm`, which state intervals of sums and none of cells.",
        "",
        "| data | days | unit | ε | scheme | its errors | simple | times | oracle | `profile` | "
        "`bayes` | oracle beside `bayes` | sums | held | firm | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        found: dict[str, list[float]] = row["errors"]  # type: ignore[assignment]
        best = np.min([found[name] for name in SIMPLE if name in found], axis=0)
        shown = [" / ".join(f"{x:.3g}" for x in part) for part in (found[OURS], best)]
        compared = (
            times(row, SIMPLE),
            times(row, SIMPLE, "oracle"),
            times(row, ("profile",)),
            times(row, ("bayes",)),
            times(row, ("bayes",), "oracle"),
        )
        firm = f"{row['firm within 5 %'] / row['firm']:.2f}" if row["firm"] else ""  # type: ignore[operator]
        ratios = ["–" if one is None else " / ".join(f"{x:.2f}" for x in one) for one in compared]
        lines.append(
            f"| {row['feed']} | {row['days']} | {row['unit']} | {row['epsilon']:g} | "
            f"`{row['scheme']}` | {shown[0]} | {shown[1]} | {' | '.join(ratios)} | {row['sums']} | "
            f"{row['sum held']} | {firm} | {row['cpu']} |"
        )
    lines += [
        "",
        *earlier(rows),
        "How often the 90 % interval of a cell holds, by published count:",
    ]
    lines += ["", "| data | days | unit | ε | < .2 | .2–1 | 1–5 | 5–20 | 20–100 | > 100 |"]
    lines += ["|---|---|---|---|" + "---|" * 6]
    for row in rows:
        if not sum(row["cells"]):  # type: ignore[call-overload]
            continue
        pairs = zip(row["held"], row["cells"], strict=True)  # type: ignore[call-overload]
        shown = [f"{h / n:.2f}" if n > 200 else "" for h, n in pairs]
        said = f"{row['feed']} | {row['days']} | {row['unit']} | {row['epsilon']:g}"
        lines.append(f"| {said} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--data", choices=tuple(SEEDS), default="held")
    options.add_argument("--draws", type=int, default=5)
    options.add_argument("--beside", type=int, default=1, help="draws of bayes")
    options.add_argument("--epsilon", default="0.4,1")
    options.add_argument("--only", default="", help="data whose name holds this; others stay")
    asked = options.parse_args()
    stem = OUT / ("finished" if asked.data == "held" else "finished-dev")
    rows = kept(stem, asked.only)
    with threadpool_limits(1):
        for feed in feeds(asked.data):
            if asked.only not in feed.name:
                continue
            day = Feed(feed.name, replace(feed.city, counts=feed.city.counts[:1]))
            week = ((feed, "user-day"), (feed, "user-period")) if len(feed.city.counts) > 1 else ()
            for one, unit in ((day, "user-day"), *week):
                for epsilon in map(float, asked.epsilon.split(",")):
                    rows.append(judged(one, unit, epsilon, asked.draws, asked.beside))
                    said = [times(rows[-1], SIMPLE), times(rows[-1], ("bayes",))]
                    print(one.name, unit, epsilon, rows[-1], said, flush=True)
                    stem.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
                    text = page(rows, asked.data, asked.draws)
                    stem.with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
