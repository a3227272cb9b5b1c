"""Sums over discs and hours: whether their intervals hold, and how exact the sums are.

    python -m benchmarks ranges                          # about 20 CPU-minutes
    python -m benchmarks.ranges --beside CHECKOUT        # summed tables of an earlier commit
    python -m benchmarks.ranges --only cabs-41           # one of the cases

2,000 random ranges, discs of 0.5 to 3 km times 1 to 48 hours, on made-up cities of 200,000 people
that tuned nothing, two releases of each of five cities of a kind, and on Cabspotting by hour,
twenty releases. Within one release ranges overlap and share its errors, and releases of one city
share what the bound does to it, so shares are means over cities and releases. Differences and
ratios are of ranges taken in pairs. Smoothed streams (`_ranges_streams`) are judged likewise. A
range with fewer than ten true visits has no ratio. Also the size of
`posterior.npz` beside the table, and how long a question takes. `--beside` publishes the same
cities by the command of another checkout and by today's, three times each with fresh noise, and
compares their summed tables on the same ranges. Constants of the posterior were settled on cities
900 to 906 and 911 to 949 and on cabs with other noise. Writes docs/benchmarks/ranges.md and .json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from benchmarks._levels_people import Population, calls
from benchmarks._levels_real import real_population
from benchmarks._ranges_streams import STREAMS, judged_stream
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.city import CityPlan, write_city
from sfumato.density.registry import scheme_named
from sfumato.privacy.wall import Wall

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "benchmarks"
MADE: Mapping[str, Mapping[str, Any]] = {
    "ordinary": {"towers": 1_303, "zones": 989},
    "other city": {
        "towers": 808,
        "zones": 1_187,
        "area_km2": 300.0,
        "lon": 4.84,
        "lat": 45.76,
    },
    "uneven activity": {"towers": 1_303, "zones": 989, "place_activity": 0.7},
}
"""Kinds of docs/frontier.md; in the last quarters call several times as often as others."""
SEEDS = {
    "ordinary": (1711, 1712, 1713, 1714, 1715),
    "other city": (1721, 1722, 1723, 1724, 1725),
    "uneven activity": (1731, 1732),
}
BESIDE_SEED = 1701
RELEASES = {"ordinary": 2, "other city": 2, "uneven activity": 2, "cabs-41": 20, "cabs-195": 20}
"""Of each city."""
BANDS = {"sums": (0.87, 0.93), "differences": (0.85, 0.95), "ratios": (0.85, 0.95)}
CAB_BAND = (0.85, 0.95)
EPSILONS = (0.3, 1.0)
RANGES, LEAST = 2_000, 10.0
FIRST_SEED = 7_000
BESIDE_RELEASES = 6

Table = NDArray[np.float64]


def people_of(case: str, seed: int = 0) -> Population:
    """The people of a case."""
    if case.startswith("cabs"):
        return real_population(case, 0)
    return calls(CityPlan(users=200_000, start=date(2007, 9, 10), seed=seed, **MADE[case]))


def ranges(people: Population) -> tuple[Table, Table]:
    """Weights of places and of slots, a row for each range."""
    rng = np.random.default_rng(20_240_601)
    centres = (people.zone_layout or people.layout).centres
    slots = people.grid.slots
    middle, metres = rng.integers(0, len(centres), RANGES), rng.uniform(500, 3_000, RANGES)
    away = np.hypot(*(centres[None] - centres[middle][:, None]).transpose(2, 0, 1))
    hours = rng.integers(1, 49, RANGES)
    first = rng.integers(0, slots - hours + 1)
    slot = np.arange(slots)
    inside = (slot >= first[:, None]) & (slot < (first + hours)[:, None])
    return (away <= metres[:, None]).astype(float), inside.astype(float)


def sums(places: Table, table: Table, slots: Table) -> Table:
    """The sum of each range."""
    return np.asarray(np.einsum("qs,qs->q", places @ table, slots), dtype=np.float64)


def relative_error(found: Table, truth: Table) -> float:
    """Mean error over the truth, of ranges with at least a few visits."""
    many = truth >= LEAST
    return float((np.abs(found - truth)[many] / truth[many]).mean())


def judged(case: str, epsilon: float, people: Population, first: int) -> list[dict[str, float]]:
    """The releases of a city, with noise of its own."""
    from sfumato.density.tables import density_table
    from sfumato.io.write import write_arrays, write_parquet
    from sfumato.published.posterior import unpacked

    places, slots = ranges(people)
    truth = sums(places, people.truth, slots)
    one, two = np.arange(0, RANGES, 2), np.arange(1, RANGES, 2)
    both = (truth[one] >= LEAST) & (truth[two] >= LEAST)
    rows = []
    for draw in range(RELEASES[case]):
        wall, facts = Wall.seeded(first + draw), people.facts(epsilon)
        with threadpool_limits(1):
            made = scheme_named("bayes").run(people.source, wall, facts)
            values = np.asarray(made.values, dtype=np.float64)
            assert made.posterior is not None
            arrays = made.posterior.factors(values, 0.9)
        factors = unpacked(arrays, values)
        value, low, high = factors.estimates(places, slots)
        apart, share = [], []
        for a, b in zip(one, two, strict=True):
            drawn = factors.samples(places[[a, b]], slots[[a, b]])
            ends = np.quantile(drawn[:, 0] - drawn[:, 1], (0.05, 0.95))
            apart.append(ends[0] <= truth[a] - truth[b] <= ends[1])
            ends = np.quantile(drawn[:, 0] / np.maximum(drawn[:, 1], 1e-9), (0.05, 0.95))
            share.append(ends[0] <= truth[a] / max(truth[b], 1e-9) <= ends[1])
        began = time.perf_counter()
        factors.estimate(np.ones(values.shape[0]), np.ones(values.shape[1]))
        took = time.perf_counter() - began
        with TemporaryDirectory() as folder:
            file, table = Path(folder) / "posterior.npz", Path(folder) / "density.parquet"
            write_arrays(file, arrays)
            write_parquet(table, density_table(made, people.grid))
            size = file.stat().st_size / table.stat().st_size
        rows.append(
            {
                "stated": float(made.coverage is not None),
                "sums": float(((truth >= low) & (truth <= high)).mean()),
                "differences": float(np.mean(apart)),
                "ratios": float(np.mean(np.array(share)[both])),
                "mre": relative_error(value, truth),
                "half": float(np.median((high - low)[truth >= LEAST] / 2 / truth[truth >= LEAST])),
                "size": size,
                "milliseconds": 1_000 * took,
            }
        )
    return rows


def beside(checkout: Path, case: str, people: Population, folder: Path) -> dict[str, list[float]]:
    """Relative errors of the summed tables that the command of a checkout publishes."""
    plan = CityPlan(users=200_000, start=date(2007, 9, 10), seed=BESIDE_SEED, **MADE[case])
    city, books = folder / "city", folder / f"{checkout.name}.sqlite"
    if not city.is_dir():
        write_city(plan, city)
    places, slots = ranges(people)
    truth = sums(places, people.truth, slots)
    env = os.environ | {"PYTHONPATH": str(checkout / "src")}

    def run(*words: str) -> None:
        command = [sys.executable, "-c", "from sfumato.cli.main import app; app()", *words]
        subprocess.run(
            [*command, "--ledger", str(books)], env=env, check=True, capture_output=True, cwd=folder
        )

    run("ledger", "init", "--dataset", "city", "--cap-epsilon", "99", "--cap-delta", "1e-3")
    found: dict[str, list[float]] = {}
    for epsilon in EPSILONS:
        errors = found.setdefault(str(epsilon), [])
        for draw in range(BESIDE_RELEASES):
            out = folder / f"{checkout.name}-{epsilon}-{draw}"
            towers, zones = str(city / "towers.csv"), str(city / "zones.geojson")
            run(
                *("release", str(city / "events.parquet"), "--out", str(out), "--dataset", "city"),
                *("--epsilon", str(epsilon), "--delta", "5e-7", "--expected-users", "200000"),
                *("--from", "2007-09-10", "--to", "2007-09-17", "--tz", "Europe/Paris"),
                *("--scheme", "bayes", "--slot", "1h", "--quiet"),
                *("--towers", towers, "--zones", zones),
            )
            table = pq.read_table(out / "density.parquet")["count"].to_numpy()
            values = np.asarray(table, dtype=np.float64).reshape(people.truth.shape)
            errors.append(relative_error(sums(places, values, slots), truth))
    return found


def _held(case: str, name: str, row: Mapping[str, float]) -> str:
    low, high = BANDS[name] if case in MADE else CAB_BAND
    if not row["stated"]:
        return f"none stated ({row[name]:.0%})"
    return f"{row[name]:.1%}" + ("" if low <= row[name] <= high else " (missed)")


def page(known: dict[str, Any]) -> str:
    """The table."""
    lines = [
        "# Sums over discs and hours",
        "",
        "Made by `python -m benchmarks ranges`, and with `--beside CHECKOUT`. 2,000 random "
        "ranges (discs of 0.5 to 3 km, 1 to 48 hours) on fresh made-up cities of 200,000 people "
        "(five of a kind, two releases each; in `uneven activity` two cities whose quarters call "
        "several times as often as others) and on a week of Cabspotting by hour, in 41 "
        "neighbourhoods and in 195 tracts; means over releases. Where public facts say that "
        "intervals would not hold none are stated, and what they would have held is in brackets. "
        f"{known['machine']}.",
        "",
        "Bars: 90 % intervals of sums hold in 87 to 93 %, of differences and ratios in 85 to 95 %, "
        "all three in 85 to 95 % on Cabspotting; MRE of sums at most that of the summed table of "
        f"commit 4627417 ({BESIDE_RELEASES} releases of both, of a city of its own); "
        "`posterior.npz` at most 1.5 times `density.parquet`; a question over everything at most "
        "50 ms after opening. Streams (`smoother`, seven days, unit user-day, discs of 0.5 to 3 km "
        "around people, 1 to 48 slots, 1,000 ranges) are held against the band of Cabspotting.",
        "",
        "| people | ε | releases | sums | differences | ratios | ± (median) | MRE | before → now | "
        "size | ms |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for key, row in known["cases"].items():
        case, epsilon = key.split("|")
        shares = " | ".join(_held(case, name, row) for name in BANDS)
        pair = known["beside"].get(key)
        old = " " if pair is None else f"{pair[0]:.4f} → {pair[1]:.4f}"
        lines.append(
            f"| {case} | {epsilon} | {row['releases']:.0f} | {shares} | {row['half']:.1%} | "
            f"{row['mre']:.4f} | {old} | {row['size']:.2f} | {row['milliseconds']:.1f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", choices=(*RELEASES, *STREAMS))
    parser.add_argument("--beside", type=Path, help="a checkout of an earlier commit")
    asked = parser.parse_args()
    path = FOLDER / "ranges.json"
    known: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    known = {"cases": {}, "beside": {}} | known
    known["machine"] = f"{platform.machine()}, one thread"
    for case in asked.only or (*RELEASES, *STREAMS):
        if asked.beside and case in MADE:
            people = people_of(case, BESIDE_SEED)
            with TemporaryDirectory() as folder:
                both = [beside(one, case, people, Path(folder)) for one in (asked.beside, ROOT)]
            for epsilon in EPSILONS:
                pair = [float(np.mean(each[str(epsilon)])) for each in both]
                known["beside"][f"{case}|{epsilon}"] = pair
                print(case, epsilon, pair, flush=True)
                path.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
            continue
        found: dict[float, list[dict[str, float]]] = {epsilon: [] for epsilon in EPSILONS}
        if case in STREAMS:
            found = {epsilon: judged_stream(case, epsilon, sums) for epsilon in EPSILONS}
        for number, seed in enumerate(() if case in STREAMS else SEEDS.get(case, (0,))):
            people = people_of(case, seed)
            for k, epsilon in enumerate(EPSILONS):
                first = FIRST_SEED + 1_000 * k + 100 * number
                found[epsilon] += judged(case, epsilon, people, first)
        for epsilon, rows in found.items():
            row = {name: float(np.mean([one[name] for one in rows])) for name in rows[0]}
            known["cases"][f"{case}|{epsilon}"] = row | {"releases": len(rows)}
            path.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
            print(case, epsilon, json.dumps(row), flush=True)
    (FOLDER / "ranges.md").write_text(page(known), "utf-8")


if __name__ == "__main__":
    main()
