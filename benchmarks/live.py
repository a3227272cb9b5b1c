"""The live default against simple answers: `sample`, the paid mean of the past, and zeros.

python -m benchmarks.live [--data dev] [--draws 5] [--scheme comb]

Weeks of cabs (Cabspotting, 500 m, half hours; needs SFUMATO_DATA), ten of them superposed, and made
crowds (500 m, 19 hourly slots a day). Judged is what somebody gets who chooses nothing: `comb`, or
`rhythm` where cells are thin. Constants were settled on `dev`: cabs of 19 May to 1 June 2008 and
crowds of seeds 901 to 904. `held`, the cabs of 2 to 8 June and other seeds, has judged earlier
versions; `fresh` are crowds of seeds that no version has seen, fleets superposed anew from all days
and the week of cabs across both, from Friday 30 May on: there are no other days of cabs, so
fleets and cabs hold development days.
Every stream starts from nothing. Unit user-day, pure epsilon.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.privacy.events import Unit
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts
from sfumato.streams.registry import default_name, stream_scheme
from sfumato.streams.replay import boxed, run_scheme
from sfumato.streams.scheme import Meter, Publication, Values
from sfumato.streams.schemes.comb.profiles import teeth, width
from sfumato_lab.studies.moving.cities import City, cabspotting_city, crowd_city
from sfumato_lab.studies.moving.study import BUSIEST, score

OUT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
BINS = (0.2, 1.0, 5.0, 20.0, 100.0)
RIVALS = ("zeros", "sample", "past")
SEEDS = {"dev": {500: 901, 5_000: 902, 20_000: 903, 130_000: 904}, "held": {}}
SEEDS["held"] = {people: seed + 1_000 for people, seed in SEEDS["dev"].items()}
SEEDS["fresh"] = {people: seed + 6_000 for people, seed in SEEDS["dev"].items()}
SEEDS["fresh"] |= {500: 12_901, 5_000: 12_902, 20_000: 12_903, 130_000: 12_904}
"""Those before judged earlier versions."""
DAYS = {"dev": slice(0, 14), "held": slice(14, None), "fresh": slice(0, None)}
WEEK = {"dev": slice(0, 7), "held": slice(14, 21), "fresh": slice(11, 18)}
FLEETS = {"dev": 5, "held": 1_005, "fresh": 12_005}
ORIGIN = {
    "dev": "on which constants were settled",
    "held": "that judged earlier versions",
    "fresh": "not judged before (crowds are wholly new, cabs and fleets hold development days)",
}
DEFAULT = "default"
FIRM = 0.02
"""Relative standard deviation of a sum below which it must be within 5 %."""
Counts = NDArray[np.int64]
_NOON = "begins at 13 h"


@dataclass(frozen=True, slots=True, eq=False)
class Feed:
    name: str
    city: City
    begins: int = 0
    """Slot at which it begins, where that is said."""


def _changed(city: City, kind: str) -> City:
    """The same week: begun at 13 h, without six hours of a day, or with a day of 60 % of people."""
    counts = city.counts.copy()
    if kind == _NOON:
        counts[0, :26] = 0
    elif kind == "outage of six hours":
        counts[4, 16:28] = 0
    elif kind == "holiday":
        counts[3] = np.random.default_rng(60).binomial(counts[3], 0.6)
    return replace(city, counts=counts)


def _superposed(city: City, seed: int) -> City:
    """Ten fleets: days of the same kind, clocks up to half an hour apart."""
    rng, days = np.random.default_rng(seed), city.counts.shape[0]
    counts = np.zeros_like(city.counts[:7])
    for _ in range(10):
        for day in range(7):
            like = [d for d in range(days) if (d % 7 >= 5) == (day >= 5)]
            chosen = city.counts[like[int(rng.integers(len(like)))]]
            counts[day] += np.roll(chosen, int(rng.integers(-1, 2)), axis=0)
    return City("ten fleets", counts, 5_000, city.columns, 0, 0.0, 0.5)


def feeds(which: str) -> Iterator[Feed]:
    """All data of one kind, one at a time."""
    if "SFUMATO_DATA" in os.environ:
        data = Path(os.environ["SFUMATO_DATA"])
        all_ = cabspotting_city(data / "cabspotting_sf" / "cabspotting_sf_2008.parquet")
        ten = _superposed(replace(all_, counts=all_.counts[DAYS[which]]), FLEETS[which])
        week = WEEK[which]
        cabs = replace(all_, counts=all_.counts[week], first_weekday=week.start % 7)
        for name, city in (("cabs", cabs), ("ten fleets", ten)):
            for kind in ("", _NOON, "outage of six hours", "holiday"):
                yield Feed(f"{name}, {kind}".rstrip(", "), _changed(city, kind))
            yield Feed(f"{name}, {_NOON}, as said", _changed(city, _NOON), 26)
    else:
        print("SFUMATO_DATA does not say where the cabs are: crowds only", flush=True)
    for people, seed in SEEDS[which].items():
        yield Feed(f"crowd of {people:,}", crowd_city(7, people, seed))


def past_mean(counts: Counts, slots: int, epsilon: float, seed: int) -> Values:
    """Each day's mean is paid for at its end; published is the mean of the days before."""
    rng = np.random.default_rng(seed)
    out, means = np.zeros(counts.shape), []
    for first in range(0, len(counts), slots):
        if means:
            out[first : first + slots] = np.mean(means, axis=0)
        noise = rng.laplace(0, 1 / epsilon, counts.shape[1])
        means.append(counts[first : first + slots].mean(axis=0) + noise)
    return out


def published(scheme: str, facts: StreamFacts, counts: Counts, seed: int) -> list[Publication]:
    made = stream_scheme(scheme)
    meter = Meter(made.plan(facts).accounts, facts)
    wall, publisher = Wall.seeded(seed, meter), made.publisher(facts)
    return [
        publisher.publish(slot, boxed(row, facts), wall, meter) for slot, row in enumerate(counts)
    ]


def errors(counts: Counts, values: Values) -> list[float]:
    found = score(counts, values)
    return [found.busiest, found.all_cells, found.relative]


def standard_errors(draws: list[list[float]]) -> list[float | None]:
    """Of the means over draws, with which a later run compares (tools/frozen.py)."""
    if len(draws) < 2:
        return [None] * len(draws[0])
    spread: list[float | None] = (np.std(draws, axis=0, ddof=1) / len(draws) ** 0.5).tolist()
    return spread


def judged(feed: Feed, epsilon: float, draws: int, scheme: str) -> dict[str, object]:
    """Mean errors of all answers, sums, and how often intervals hold."""
    city, counts = feed.city, feed.city.stream
    facts = StreamFacts(
        counts.shape[1],
        city.calendar,
        epsilon,
        0.0,
        Unit.parse("user-day"),
        city.people,
        city.columns,
        begins=feed.begins,
    )
    chosen = default_name(facts, False) if scheme == DEFAULT else scheme
    slots, truth = city.counts.shape[1], counts.sum(axis=1)
    rows: dict[str, list[list[float]]] = {name: [] for name in (*RIVALS, scheme)}
    rows["zeros"].append(errors(counts, np.zeros(counts.shape)))
    sums, held_sums, stated, firm, within, cpu = 0.0, 0, 0, 0, 0, 0.0
    held, cells = np.zeros(len(BINS) + 1), np.zeros(len(BINS) + 1)
    for draw in range(draws):
        rows["past"].append(errors(counts, past_mean(counts, slots, epsilon, draw)))
        rows["sample"].append(
            errors(counts, run_scheme(stream_scheme("sample"), facts, counts, draw).values)
        )
        begun = time.process_time()
        made = published(chosen, facts, counts, draw)
        cpu += time.process_time() - begun
        medians = [one.values if one.median is None else one.median for one in made]
        rows[scheme].append(errors(counts, np.array(medians)))
        sums += sum(float(one.values.sum()) for one in made) / float(truth.sum())
        for one, row, total in zip(made, counts, truth, strict=True):
            if one.total is None:
                continue
            stated += 1
            held_sums += one.total.lower <= total <= one.total.upper
            sd = (one.total.upper - one.total.lower) / 2 / 1.645
            if one.total.value > 0 and sd < FIRM * one.total.value:
                firm += 1
                within += abs(one.total.value - total) <= 0.05 * total
            if one.lower is None or one.upper is None:
                continue
            which = np.digitize(one.values, BINS)
            inside = (row >= one.lower) & (row <= one.upper)
            held += np.bincount(which, inside, held.size)
            cells += np.bincount(which, minlength=held.size)
    return {
        "feed": feed.name,
        "scheme": chosen,
        "people": city.people,
        "epsilon": epsilon,
        "errors": {name: np.mean(found, axis=0).round(4).tolist() for name, found in rows.items()},
        "spread": {name: standard_errors(found) for name, found in rows.items()},
        "sums": round(sums / draws, 3),
        "sum held": round(float(held_sums) / stated, 3) if stated else None,
        "firm": firm,
        "firm within 5 %": int(within),
        "held": held.astype(int).tolist(),
        "cells": cells.astype(int).tolist(),
        "cpu": round(cpu / draws, 2),
    }


def _ratio(row: dict[str, object], scheme: str) -> list[float]:
    found: dict[str, list[float]] = row["errors"]  # type: ignore[assignment]
    best = np.min([found[name] for name in RIVALS], axis=0)
    return (best / np.array(found[scheme])).tolist()


def earlier(rows: list[dict[str, object]]) -> list[str]:
    """A line that names the rows of thin maps that are of an earlier judging."""
    old = [
        f"{r['feed']} {r.get('days', '')} {r.get('unit', '')} {r['epsilon']:g}"
        for r in rows
        if r.get("before")
    ]
    said = "; ".join(" ".join(one.split()) for one in old)
    return (
        [
            "Of thin maps these rows are of an earlier judging, with other seeds of crowds: "
            + said,
            "",
        ]
        if old
        else []
    )


def page(rows: list[dict[str, object]], which: str, draws: int, scheme: str) -> str:
    lines = [
        "# The live default against simple answers",
        "",
        f"    python -m benchmarks.live --data {which} --draws {draws}",
        "",
        f"Weeks of data {ORIGIN[which]}; "
        f"{draws} draws of noise; unit user-day, pure epsilon. Mean absolute error of `median` on "
        f"the busiest {BUSIEST} cells / over all cells / relative error on the busiest; `best` is "
        "the best of `sample`, the paid mean of the past days at the same epsilon a day, and "
        "zeros, in each of the three; `times` how much smaller the default's error is. Sums are "
        "of `count` over the truth of the whole week; `held` how often the 90 % interval of a "
        "slot's sum holds; `firm` how many of the sums whose stated sd is below 2 % lie within "
        "5 % of the truth. Asked: times at least .99, .99, .95 everywhere; 1.4 on cells at "
        "epsilon 1 with 5,000 people or more, 1.15 with 500; held .85 to .95. `as said`: the "
        "operator says publicly when the feed begins (`--from` with a time). `stream` refuses the "
        "crowd of 500 before it costs; it is judged all the same. `rhythm`, the "
        "default where cells are thin, states intervals of sums and none of cells.",
        "",
        "| data | ε | scheme | its errors | best | times | sums | held | firm | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        found: dict[str, list[float]] = row["errors"]  # type: ignore[assignment]
        best = np.min([found[name] for name in RIVALS], axis=0)
        shown = [" / ".join(f"{x:.3g}" for x in part) for part in (found[scheme], best)]
        times = " / ".join(f"{x:.2f}" for x in _ratio(row, scheme))
        firm = f"{row['firm within 5 %'] / row['firm']:.2f}" if row["firm"] else ""  # type: ignore[operator]
        lines.append(
            f"| {row['feed']} | {row['epsilon']:g} | `{row['scheme']}` | {shown[0]} | {shown[1]} | "
            f"{times} | "
            f"{row['sums']} | {row['sum held'] or '–'} | {firm} | {row['cpu']} |"
        )
    lines += [
        "",
        *earlier(rows),
        "How often the 90 % interval of a cell holds, by published count:",
    ]
    lines += [
        "",
        "| data | ε | < .2 | .2–1 | 1–5 | 5–20 | 20–100 | > 100 |",
        "|---|---|" + "---|" * 6,
    ]
    for row in rows:
        if not sum(row["cells"]):  # type: ignore[call-overload]
            continue
        pairs = zip(row["held"], row["cells"], strict=True)  # type: ignore[call-overload]
        shown = [f"{h / n:.2f}" if n > 200 else "" for h, n in pairs]
        lines.append(f"| {row['feed']} | {row['epsilon']:g} | {' | '.join(shown)} |")
    lines += [
        "",
        "Cells below 1 cannot hold exactly 90 %: an interval of whole numbers that begins at 0 "
        "holds at least what 0 does.",
    ]
    return "\n".join(lines) + "\n"


def of_oracle(counts: Counts, length: int, epsilon: float, seed: int) -> list[float]:
    """What one who knows could do live: the least error over 1 to 3 vectors a day.

    The oracle knows which cells are the 200 fullest, the next 800 and so on, and of each class the
    true mean and covariance of all slots; it estimates linearly from the vectors so far.
    """
    rng, (slots, cells) = np.random.default_rng(seed), counts.shape
    order = np.argsort(-counts.sum(axis=0), kind="stable")
    classes = np.split(order, np.arange(BUSIEST, cells, 800))
    found = []
    for k in (1, 2, 3):
        ends = [day * length + at for day in range(slots // length) for at in teeth(day, k, length)]
        shares = np.zeros((len(ends), slots))
        for row, end in enumerate(ends):
            begin = max(end - width(k, length) + 1, end // length * length)
            shares[row, begin : end + 1] = 1 / (end + 1 - begin)
        noisy = shares @ counts + rng.laplace(0, k / epsilon, (len(ends), cells))
        made = np.zeros(counts.shape)
        for one in classes:
            mean, spread = counts[:, one].mean(axis=1), np.cov(counts[:, one])
            for slot in range(slots):
                seen = shares[np.array(ends) <= slot]
                whole = seen @ spread @ seen.T + 2 * (k / epsilon) ** 2 * np.eye(len(seen))
                apart = noisy[: len(seen), one] - (seen @ mean)[:, None]
                made[slot, one] = mean[slot] + spread[slot] @ seen.T @ np.linalg.solve(whole, apart)
        found.append(errors(counts, np.where(made < 0.5, 0.0, made)))
    return [float(x) for x in np.min(found, axis=0)]


def kept(stem: Path, only: str) -> list[dict[str, object]]:
    """Rows of an earlier part of the same run: of all data but those that are judged now."""
    path = stem.with_suffix(".json")
    if not only or not path.exists():
        return []
    return [row for row in json.loads(path.read_text()) if only not in row["feed"]]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--data", choices=tuple(SEEDS), default="fresh")
    options.add_argument("--draws", type=int, default=5)
    options.add_argument("--epsilon", default="0.4,1")
    options.add_argument("--scheme", default=DEFAULT)
    options.add_argument("--only", default="", help="data whose name holds this; others stay")
    options.add_argument("--oracle", action="store_true", help="crowds only; prints, no page")
    asked = options.parse_args()
    if asked.oracle:
        for people, seed in SEEDS[asked.data].items():
            city = crowd_city(7, people, seed)
            print(people, of_oracle(city.stream, city.counts.shape[1], 1.0, 0), flush=True)
        return
    stem = OUT / ("live" if asked.data == "fresh" else f"live-{asked.data}")
    rows = kept(stem, asked.only)
    with threadpool_limits(1):
        for feed in feeds(asked.data):
            if asked.only not in feed.name:
                continue
            for epsilon in map(float, asked.epsilon.split(",")):
                rows.append(judged(feed, epsilon, asked.draws, asked.scheme))
                times = [round(x, 2) for x in _ratio(rows[-1], asked.scheme)]
                print(feed.name, epsilon, rows[-1]["errors"], times, rows[-1]["sums"], flush=True)
                stem.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
                text = page(rows, asked.data, asked.draws, asked.scheme)
                stem.with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
