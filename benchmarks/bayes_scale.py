"""How the work of `bayes` after the counts grows with the number of zones: 500 to 10,000.

    python -m benchmarks bayes_scale
    python -m benchmarks.bayes_scale --sizes 500,1000      # some sizes only

The counts are made up and handed over ready (smooth lognormal sizes, a day and a week, chance),
so what is measured is planning, exact noise, maps and inference: all of `Bayes.run` but the
passes over records. Each size runs in a process of its own; results are kept, so that a run
that was stopped goes on. Writes docs/benchmarks/bayes-scale.md and .json.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree
from scipy.special import ndtri
from threadpoolctl import threadpool_limits

from sfumato.density.bayes import Bayes
from sfumato.density.scheme import PublicFacts
from sfumato.engine.base import ladder_counts
from sfumato.geography.overlay import Layout, Overlay
from sfumato.model.counts import (
    WEIGHT_UNITS,
    Counting,
    Counts,
    SampleBound,
    WeightBound,
    norms_digest,
)
from sfumato.model.ladder import ladder_gains
from sfumato.model.private import Private
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.wall import Wall

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
SIZES = (500, 989, 1_000, 2_000, 4_000, 10_000)
USERS_PER_ZONE = 2_000
GRID = TimeGrid.between(date(2007, 9, 10), date(2007, 9, 17), "1h", "Europe/Paris")
Table = NDArray[np.float64]


class ReadyCounts:
    """A source with its counts in memory: everybody is light, so weights keep all of them."""

    def __init__(self, places: int, rng: np.random.Generator, centres: Table) -> None:
        self.place_ids = np.array([f"T{k:05d}" for k in range(places)])
        self.grid = GRID
        self._visits = rng.poisson(_means(centres, rng))

    def _box(
        self, values: NDArray[np.int64], bound: WeightBound, norms: str = ""
    ) -> Private[Counts]:
        l2 = bound.limit * WEIGHT_UNITS
        counts = Counts(
            values * bound.whole,
            WEIGHT_UNITS,
            l2 * values.size**0.5,
            l2,
            Counting.VISITS,
            "made",
            norms,
        )
        return Private(counts, "made-up counts")

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        del counting
        norms = "" if event_norms is None else norms_digest(event_norms)
        return self._box(self._visits, bound, norms)

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        del counting
        return self._box(self._visits.sum(axis=1), bound)

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        del counting
        return self._box(self._visits.sum(axis=0), bound)

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        raise NotImplementedError

    def ladder(self, steps: tuple[int, ...], counting: Counting) -> Private[Counts]:
        """Of people as active as in call records, who make all of the visits."""
        users = self.place_ids.size * USERS_PER_ZONE / 1.32
        ranks = (np.arange(10_000) + 0.5) / 10_000
        activity = np.exp(ndtri(ranks))
        activity *= self._visits.sum() / users / activity.mean()
        sums = [
            np.clip(activity - low, 0, high - low).mean() * users
            for low, high in pairwise((0, *steps))
        ]
        values = np.rint(sums * ladder_gains(steps)).astype(np.int64)
        return ladder_counts(values, steps, counting)

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        raise NotImplementedError

    def exact(self, counting: Counting) -> Private[Counts]:
        raise NotImplementedError

    def fingerprint(self, key: bytes) -> str:
        raise NotImplementedError


def _means(centres: Table, rng: np.random.Generator) -> Table:
    """Expected visits: smooth sizes, and days that lean to work or to leisure by place."""
    hour = np.arange(GRID.slots) % 24
    day = np.arange(GRID.slots) // 24
    base = 0.15 + np.exp(-np.square((hour - 14) / 5.5))
    work = np.exp(-np.square((hour - 11) / 3.0)) * (day < 5)
    night = np.exp(-np.square((hour - 21) / 2.5)) * (1 + (day > 3))
    waves = [
        np.sin(centres @ rng.normal(0, 1 / 1500.0, 2) + rng.uniform(0, 6.3)) for _ in range(12)
    ]
    size = np.exp(0.8 * np.mean(waves[:4], axis=0) * 2 + rng.normal(0, 0.4, centres.shape[0]))
    lean = np.mean(waves[4:8], axis=0) + rng.normal(0, 0.3, centres.shape[0])
    late = np.mean(waves[8:], axis=0) + rng.normal(0, 0.3, centres.shape[0])
    shape = base + np.outer(np.exp(lean), work) + 0.6 * np.outer(np.exp(late), night)
    each = USERS_PER_ZONE * 13.55 / 1.3
    field: Table = shape * (size / size.mean() / shape.sum(axis=1))[:, None] * each
    return field


def made_facts(zones: int, rng: np.random.Generator) -> tuple[PublicFacts, Table]:
    """Zones and 1.3 times as many towers, each tower spread over its three nearest zones."""
    towers = round(1_303 / 989 * zones)
    side = np.sqrt(zones * 106_000.0)
    at, zone_at = rng.uniform(0, side, (towers, 2)), rng.uniform(0, side, (zones, 2))
    near = cKDTree(zone_at).query(at, k=3)[1]
    share = np.tile(np.array([0.625, 0.25, 0.125]), towers)
    rows = np.repeat(np.arange(towers), 3)
    shares = csr_array((share, (rows, near.ravel())), shape=(towers, zones))
    shares.sum_duplicates()
    shares.sort_indices()
    towers_ids = np.array([f"T{k:05d}" for k in range(towers)])
    zone_ids = np.array([f"Z{k:05d}" for k in range(zones)])
    facts = PublicFacts(
        towers_ids,
        GRID,
        0.3,
        1e-8,
        USERS_PER_ZONE * zones,
        overlay=Overlay(towers_ids, zone_ids, shares),
        layout=Layout(at, np.full(towers, 8e4)),
        zone_layout=Layout(zone_at, np.full(zones, 1.06e5)),
    )
    return facts, at


def measure(zones: int) -> dict[str, float]:
    """CPU-seconds and peak memory of one run, and what the made-up counts took before it."""
    rng = np.random.default_rng(zones)
    facts, at = made_facts(zones, rng)
    source = ReadyCounts(facts.places, rng, at)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    start = time.process_time()
    with threadpool_limits(1):
        Bayes().run(source, Wall.seeded(1), facts)
    return {
        "zones": zones,
        "towers": facts.places,
        "cpu": time.process_time() - start,
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "gib_before": before,
    }


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--sizes", default=",".join(map(str, SIZES)))
    options.add_argument("--one", type=int)
    options.add_argument("--keep", action="store_true", help="keep sizes that are known")
    asked = options.parse_args()
    if asked.one:
        print(json.dumps(measure(asked.one)))
        return
    path = FOLDER / "bayes-scale.json"
    known = {row["zones"]: row for row in json.loads(path.read_text())} if path.is_file() else {}
    for zones in map(int, asked.sizes.split(",")):
        if asked.keep and zones in known:
            continue
        command = [sys.executable, "-m", "benchmarks.bayes_scale", "--one", str(zones)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        known[zones] = json.loads(done.stdout.splitlines()[-1])
        print(known[zones], flush=True)
        write(path, [known[size] for size in sorted(known)])


def write(path: Path, rows: list[dict[str, float]]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    at = {int(row["zones"]): row["cpu"] for row in rows}
    lines = [
        "# `bayes` after the counts, by number of zones",
        "",
        "Made by `python -m benchmarks bayes_scale`: 168 hours, ε 0.3, 2,000 people a zone, towers "
        "1.32 times the zones, counts handed over ready. One process and one thread each; memory "
        "is the peak of the whole process.",
        "",
        "| zones | towers | CPU s | ÷ 1,000 zones | GiB |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        ratio = f"{row['cpu'] / at[1000]:.1f}" if 1000 in at else ""
        lines.append(
            f"| {row['zones']:,.0f} | {row['towers']:,.0f} | {row['cpu']:.1f} | {ratio} | "
            f"{row['gib']:.2f} |"
        )
    lines += [
        "",
        "Asked: 60 CPU-seconds and 2 GiB at 989 zones and 1,303 towers; 4,000 zones at most 16 "
        "times 1,000; 10,000 zones within 15 CPU-minutes and 8 GiB.",
    ]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
