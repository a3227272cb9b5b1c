"""From customers to people: weights by area against one factor, and two operators put together.

    python -m benchmarks people
    python -m benchmarks.people --seeds 101,102 --show          # a look at other seeds, no file

A crowd (`sfumato.city.crowd`) lives on a grid of zones for two working days, at home at night. A
phone is seen in some of the hours, each person's in a share of their own (a twentieth in the mean).
Market shares hang on where people live: every district of four zones has its own, from 10 to 60
percent (15 to 45 where there are two operators). An operator's customers are drawn by them and
released by `bayes`, with noise of its own.

*Weights*: the release is weighed by a census of the districts, by market shares that are known to
5 percent, and by one factor for all (people of the census over people counted at night), which is
what pipelines of statistics offices do. A census gives people present, and is scored against where
everybody was; shares give the people who would be seen were everybody a customer, and are scored
against those. The error is the sum of absolute errors over the sum of people. Told too is how often
90 % intervals hold, of cells and of sums over random sets of zones and runs of hours.

*Two operators*: pairs with 0, 5 and 20 % overlap (of the smaller one's customers), each released
and weighed by its shares, alone and put together.

Writes docs/benchmarks/people.md and .json. Seeds up to 200 were used to build it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.city.crowd import CrowdPlan, generate
from sfumato.density.registry import scheme_named
from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.geography.overlay import layout_of_zones
from sfumato.geography.projection import Plane
from sfumato.io.events import read_events
from sfumato.model.counts import Counting
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
from sfumato.people.areas import Areas
from sfumato.people.combine import combined
from sfumato.people.factors import (
    cell_quantiles,
    lasting_share,
    sampling,
    unseen,
    weighed,
    with_sampling,
)
from sfumato.people.origins import REACH_KM, zone_distances
from sfumato.people.weights import (
    AreaWeights,
    census_weights,
    share_weights,
    slot_weights_of,
)
from sfumato.privacy.wall import Wall
from sfumato.published.posterior import Factors, unpacked

PATH = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "people.json"
SEEDS = tuple(range(301, 311))
PEOPLE, SIDE, DAYS, CELL_M = 300_000, 8, 2, 1_500.0
EPSILON, SHARE_SD = 1.0, 0.05
ALONE, PAIRED = (0.10, 0.60), (0.15, 0.45)
"""Least and largest market share of a district: of one operator, and of each of two."""
VISIBLE = (1.0, 19.0)
"""Beta law of the share of hours in which a person's phone is seen: a twentieth in the mean."""
OVERLAPS = (0.0, 0.05, 0.2)
QUESTIONS, KNOWN = 400, 8
"""Sums that are asked for, and draws of what an operator knows of its shares."""
Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class World:
    seed: int
    cells: NDArray[np.int32]
    """Person x slot."""
    zones: Places
    grid: TimeGrid
    districts: NDArray[np.int64]
    """Of each zone."""
    seen: NDArray[np.bool_]
    """Person x slot."""
    present: Table
    """Zones x slots: where everybody was."""
    visible: Table
    """The same of those who were seen."""
    residents: Table
    """Of each district."""

    @property
    def homes(self) -> NDArray[np.int64]:
        """The district of each person."""
        found: NDArray[np.int64] = self.districts[self.cells[:, 3]]
        return found


def world_of(seed: int) -> World:
    plan = CrowdPlan(
        people=PEOPLE, days=DAYS, slots=24, first_hour=0, columns=SIDE, rows=SIDE, cell_m=CELL_M,
        seed=seed, start=date(2008, 2, 13),
    )  # fmt: skip
    cells = generate(plan).cells.reshape(PEOPLE, -1)
    grid = TimeGrid.between(plan.start, plan.start + timedelta(days=DAYS), "1h", plan.tz)
    plane = Plane(plan.lon, plan.lat)
    half = CELL_M / 2
    middle = plane.to_metres(plan.centres())
    squares = [shapely.box(x - half, y - half, x + half, y + half) for x, y in middle]
    shapes = plane.shapes_to_degrees(np.array(squares, dtype=object))
    ids = [f"Z{k:03d}" for k in range(SIDE * SIDE)]
    place = np.arange(SIDE * SIDE)
    districts = (place // SIDE // 2) * (SIDE // 2) + place % SIDE // 2
    residents = np.bincount(districts[cells[:, 3]], minlength=districts.max() + 1)
    rng = np.random.default_rng([seed, 70])
    seen = rng.random(cells.shape) < rng.beta(*VISIBLE, PEOPLE)[:, None]
    return World(
        seed, cells, Places.of(PlaceKind.ZONES, ids, list(shapes)), grid, districts, seen,
        table_of(cells, np.ones_like(seen)), table_of(cells, seen), residents.astype(np.float64),
    )  # fmt: skip


def table_of(cells: NDArray[np.int32], seen: NDArray[np.bool_]) -> Table:
    """Who is seen where, zones x slots."""
    slots = cells.shape[1]
    code = cells.astype(np.int64) * slots + np.arange(slots)
    found = np.bincount(code[seen], minlength=SIDE * SIDE * slots)
    return found.reshape(-1, slots).astype(np.float64)


def operators(
    world: World, overlap: float, between: tuple[float, float]
) -> tuple[list[Table], list[NDArray[np.bool_]]]:
    """Shares by district and customers of two operators."""
    rng = np.random.default_rng([world.seed, 71])
    number = world.residents.size
    shares = [np.exp(rng.uniform(*np.log(between), number)) for _ in range(2)]
    both = overlap * np.minimum(*shares)
    one, two, common = (part[world.homes] for part in (*shares, both))
    luck = rng.random(PEOPLE)
    first = luck < one
    second = (luck < common) | ((luck >= one) & (luck < one + two - common))
    return shares, [first, second]


def released(world: World, customers: NDArray[np.bool_], key: int) -> Factors:
    """What `bayes` publishes of an operator's customers, as a reader has it."""
    own = world.cells[customers]
    user, slot = np.nonzero(world.seen[customers])
    times = pa.array(world.grid.edges[:-1][slot] + 60_000_000)
    events = pa.table(
        {
            "user_id": user,
            "timestamp": times.view(pa.timestamp("us", tz="UTC")),
            "zone_id": pa.DictionaryArray.from_arrays(
                pa.array(own[user, slot]), pa.array(world.zones.ids.tolist())
            ),
        }
    )
    source = LocalSource(read_events(events), world.zones, world.grid)
    users = expected(customers)
    facts = PublicFacts(
        world.zones.ids, world.grid, EPSILON, 0.1 / users, users,
        counting=Counting.PEOPLE, layout=layout_of_zones(world.zones),
    )  # fmt: skip
    with threadpool_limits(1):
        density = scheme_named("bayes").run(source, Wall.seeded(10 * world.seed + key), facts)
    assert density.posterior is not None
    assert density.coverage is not None
    counts = np.round(np.asarray(density.values, dtype=np.float64), 3)
    return unpacked(density.posterior.factors(counts, density.coverage), counts)


def expected(customers: NDArray[np.bool_]) -> int:
    """How many people the operator says are in its records."""
    return round(int(customers.sum()), -3)


def night_of(world: World) -> Table:
    found: Table = np.array([1 <= one.hour < 5 for one in world.grid.starts()], dtype=np.float64)
    return found


def areas_of(world: World, values: Table, sd: Table) -> Areas:
    number = world.residents.size
    zones = (np.arange(number)[:, None] == world.districts[None, :]).astype(np.float64)
    return Areas(np.arange(number).astype(np.str_), values, sd, zones, "districts")


def known_shares(world: World, shares: Table, key: int) -> Areas:
    """Shares as an operator knows them: to 5 percent."""
    rng = np.random.default_rng([world.seed, 72, key])
    off = np.clip(shares * (1 + SHARE_SD * rng.standard_normal(shares.size)), 0.01, 1.0)
    return areas_of(world, off, SHARE_SD * off)


def people_of(world: World, factors: Factors, weights: AreaWeights, stays: float) -> Factors:
    """As `sfumato.weigh` has it."""
    distances = zone_distances(world.zones.geometry)
    by_slot = slot_weights_of(
        weights, factors.counts, night_of(world), world.grid, distances, REACH_KM
    )
    found = weighed(factors, by_slot)
    _, chance = sampling(found.counts, [by_slot.values], [unseen(factors)], [stays], 0.0)
    return with_sampling(found, None, chance[0, 0])


def score(world: World, found: Factors, truth: Table) -> dict[str, float]:
    """Error, and how often intervals hold."""
    low, high = cell_quantiles(found, 0.05, 0.95)
    rng = np.random.default_rng([world.seed, 73])
    at = shapely.get_coordinates(shapely.centroid(world.zones.geometry))
    centre, slots = rng.integers(0, at.shape[0], QUESTIONS), world.grid.slots
    apart = np.hypot(*((at[:, None] - at[centre][None]) / (0.0117, 0.009)).transpose(2, 0, 1))
    places = (apart < rng.uniform(1.0, 6.0, QUESTIONS)).T.astype(np.float64)
    first, length = rng.integers(0, slots, QUESTIONS), rng.integers(1, slots + 1, QUESTIONS)
    hour = np.arange(slots)[None, :]
    runs = ((hour >= first[:, None]) & (hour < (first + length)[:, None])).astype(np.float64)
    value, lower, upper = found.estimates(places, runs)
    true = np.einsum("qz,zs,qs->q", places, truth, runs)
    day = [9 <= one.hour < 17 for one in world.grid.starts()]
    return {
        "error": error(found.counts, truth),
        "by day": error(found.counts[:, day], truth[:, day]),
        "cells": float(((truth >= low) & (truth <= high)).mean()),
        "sums": float(((true >= lower) & (true <= upper)).mean()),
        "sums off": float((np.abs(value - true) / true).mean()),
    }


def error(people: Table, truth: Table) -> float:
    return float(np.abs(people - truth).sum() / truth.sum())


def weights_run(seed: int) -> dict[str, dict[str, float]]:
    """One operator's release, weighed in three ways."""
    world = world_of(seed)
    night = night_of(world)
    shares, customers = operators(world, 0.0, ALONE)
    factors = released(world, customers[0], 0)
    counted = float((factors.counts @ night / night.sum()).sum())
    constant = factors.counts * (world.residents.sum() / counted)
    day = np.array([9 <= one.hour < 17 for one in world.grid.starts()])
    census = areas_of(world, world.residents, np.zeros_like(world.residents))
    stays = lasting_share(factors.counts, expected(customers[0]))
    by_census = census_weights(census, factors.counts, night, factors, factors.pairs, stays)
    by_shares = []
    for key in range(KNOWN):  # a release is released once, and shares may be known in many ways
        known = known_shares(world, shares[0], key)
        by_share = share_weights(known, factors.counts, night, factors.pairs, stays)
        by_shares.append(score(world, people_of(world, factors, by_share, stays), world.visible))
    return {
        "one factor": {
            "error": error(constant, world.present),
            "by day": error(constant[:, day], world.present[:, day]),
        },
        "census": score(world, people_of(world, factors, by_census, stays), world.present),
        "shares": mean(by_shares),
    }


def pair_run(seed: int, overlap: float) -> dict[str, dict[str, float]]:
    """Two operators alone and together."""
    world = world_of(seed)
    night = night_of(world)
    shares, customers = operators(world, overlap, PAIRED)
    distances = zone_distances(world.zones.geometry)
    parts, by_slot, hidden, lasts, found = [], [], [], [], {}
    for key in range(2):
        factors = released(world, customers[key], 1 + key)
        stays = lasting_share(factors.counts, expected(customers[key]))
        known = known_shares(world, shares[key], key)
        weights = share_weights(known, factors.counts, night, factors.pairs, stays)
        found["AB"[key]] = score(world, people_of(world, factors, weights, stays), world.visible)
        alone = replace(weights, lasts=np.zeros_like(weights.lasts))
        slots = slot_weights_of(alone, factors.counts, night, world.grid, distances, REACH_KM)
        parts.append(weighed(factors, slots, key=key))
        by_slot.append(slots.values)
        hidden.append(unseen(factors))
        lasts.append(stays)
    found["together"] = score(
        world, combined(parts, by_slot, hidden, lasts, overlap)[0], world.visible
    )
    return found


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def page(result: dict[str, object], command: str) -> str:
    weights = result["weights"]
    pairs = result["pairs"]
    assert isinstance(weights, dict)
    assert isinstance(pairs, dict)
    lines = [
        "# From customers to people", "",
        f"Made by `{command}` in {result['minutes']} minutes on two cores. {len(SEEDS)} crowds of "
        f"{PEOPLE:,} people on {SIDE * SIDE} zones for {24 * DAYS} hours, seeds {SEEDS[0]} to "
        f"{SEEDS[-1]}, none of which settled anything; market shares of {ALONE[0]:.0%} to "
        f"{ALONE[1]:.0%} by district of four zones ({PAIRED[0]:.0%} to {PAIRED[1]:.0%} of "
        f"two); `bayes` at ε = {EPSILON:g} on each operator's "
        "customers. Error: sum of absolute errors of all zones and hours over the sum of people.",
        "", "## One operator: weights by area against one factor", "",
        "| weighed by | error | over one factor's | from 9 to 17 h | cells in 90 % intervals | "
        "sums in 90 % intervals | error of sums |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    base = weights["one factor"]["error"]
    lines.append(
        f"| one factor for all | {base:.3f} | 1 | {weights['one factor']['by day']:.3f} | | | |"
    )
    for name, said in (
        ("census", "a census by district"),
        ("shares", "market shares known to 5 %"),
    ):
        row = weights[name]
        lines.append(
            f"| {said} | {row['error']:.3f} | {row['error'] / base:.2f} | {row['by day']:.3f} | "
            f"{row['cells']:.1%} | {row['sums']:.1%} | {row['sums off']:.3f} |"
        )
    lines += [
        "", "Sums are over discs of zones and runs of 1 to 48 hours. Within a crowd they overlap, "
        f"so shares of single crowds scatter: of sums {_range(result, 'census')} by a census, "
        f"{_range(result, 'shares')} by market shares.",
        "", "## Two operators", "",
        "| overlap | operator A | operator B | together | better than both | cells in 90 % "
        "intervals | sums in 90 % intervals |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for overlap, row in pairs.items():
        lines.append(
            f"| {float(overlap):.0%} | {row['A']['error']:.3f} | {row['B']['error']:.3f} | "
            f"{row['together']['error']:.3f} | {row['better']} of {len(SEEDS)} pairs | "
            f"{row['together']['cells']:.1%} | {row['together']['sums']:.1%} |"
        )
    lines += [
        "", "Overlap is the share of the smaller operator's customers who are at the other one, "
        "too; every operator is weighed by market shares known to 5 percent.", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _range(result: dict[str, object], name: str) -> str:
    single = result["single"]
    assert isinstance(single, list)
    found = [run[name]["sums"] for run in single]
    return f"{min(found):.0%} to {max(found):.0%}"


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    reader.add_argument("--show", action="store_true")
    given = reader.parse_args()
    seeds = [int(text) for text in given.seeds.split(",")]
    start = time.monotonic()
    single = [weights_run(seed) for seed in seeds]
    weights = {name: mean([run[name] for run in single]) for name in single[0]}
    pairs: dict[str, dict[str, object]] = {}
    for overlap in OVERLAPS:
        runs = [pair_run(seed, overlap) for seed in seeds]
        row: dict[str, object] = {name: mean([run[name] for run in runs]) for name in runs[0]}
        row["better"] = sum(
            run["together"]["error"] < min(run["A"]["error"], run["B"]["error"]) for run in runs
        )
        pairs[str(overlap)] = row
    minutes = round((time.monotonic() - start) / 60, 1)
    result: dict[str, object] = {
        "seeds": seeds, "minutes": minutes, "weights": weights, "pairs": pairs, "single": single,
    }  # fmt: skip
    text = page(result, "python -m benchmarks people")
    if given.show:
        print(text)
        return 0
    PATH.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    PATH.with_suffix(".md").write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
