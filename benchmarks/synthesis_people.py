"""People who do not exist, judged: density, home-work pairs, how persons live, and a large city.

    python -m benchmarks synthesis_people
    python -m benchmarks.synthesis_people --seeds 31 --show     # a look at one city, no file

A made city of 400,000 people (`sfumato city --gps`, zones as stated) is cut in two by a coin for
each person: 200,000 are the records, the others *another true sample*, the line of the possible.
`sfumato synth` (method weeks) gets epsilon 1 at delta 1e-6 in all, split over its table and the
people's measurements; `bayes` alone gets all of it. Judged by `sfumato.utility.mobility`, whose
table says what each figure is, on the same zones for all.

The large city: 2,000,000 people x a week on 400 zones, CPU-seconds and peak memory of `synth` from
an events file to a finished folder, in a process of its own.

Writes docs/benchmarks/synthesis_people.md and .json. The constants of the method were settled on
seed 1 (400 zones) before any of these seeds was looked at.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import sfumato
from sfumato.city import CityPlan, write_city
from sfumato.city.plan import Fixes
from sfumato.geography.locate import Locator
from sfumato.geography.overlay import centres
from sfumato.geography.places import PlaceOptions
from sfumato.model.time_grid import TimeGrid, period_of
from sfumato.privacy.ledger import Cap
from sfumato.utility.mobility import Lives, judge_density, judge_lives

PATH = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "synthesis_people.json"
SEEDS = (31, 32)
PEOPLE, EPSILON, DELTA = 200_000, 1.0, 1e-6
LARGE = 2_000_000
WEEK = {"start": "2007-09-10", "end": "2007-09-17", "tz": "Europe/Paris"}
GROUNDS: dict[str, dict[str, Any]] = {
    "40 zones": {"zones": 40},
    "400 zones": {"zones": 400},
    "grid of 1 km": {"zones": 400, "grid": "1km"},
}
BARS = {
    "mre_ratio": ("at most", {"": 1.15}),
    "home_work_cpc": ("at least", {"40 zones": 0.90, "400 zones": 0.80}),
    "gyration_jsd": ("at most", {"": 0.05}),
    "activity_jsd": ("at most", {"": 0.05}),
    "repetition_jsd": ("at most", {"": 0.05}),
    "faster": ("at most", {"": 0.01}),
}
Ints = NDArray[np.int64]


def split_city(folder: Path, zones: int, seed: int) -> None:
    """Records of one half, and of the other."""
    plan = CityPlan(users=2 * PEOPLE, towers=400, zones=zones, seed=seed, fixes=Fixes.GPS)
    write_city(plan, folder)
    table = pq.read_table(folder / "events.parquet")
    ids, who = np.unique(table["user_id"].to_numpy(), return_inverse=True)
    chosen = np.zeros(ids.size, np.bool_)
    chosen[np.random.default_rng(seed).permutation(ids.size)[:PEOPLE]] = True
    for name, rows in (("records", chosen[who]), ("sample", ~chosen[who])):
        pq.write_table(table.filter(pa.array(rows)), folder / f"{name}.parquet")


def lives_of(path: Path, locator: Locator, grid: TimeGrid, places: int) -> tuple[Lives, Any]:
    """People of a file, and their density by place and slot."""
    table = pq.read_table(path, columns=["user_id", "timestamp", "lon", "lat"])
    time = table["timestamp"].cast(pa.int64()).to_numpy()
    place = locator.locate(table["lon"].to_numpy(), table["lat"].to_numpy()).astype(np.int64)
    user = table["user_id"].to_numpy()
    slot = np.searchsorted(grid.edges, time, side="right") - 1
    inside = place >= 0
    _, who = np.unique(user, return_inverse=True)
    cell = np.unique((who[inside] * grid.slots + slot[inside]) * places + place[inside])
    density = np.zeros((places, grid.slots))
    np.add.at(density, (cell % places, cell // places % grid.slots), 1)
    return Lives.of(user, time, place, grid.tz), density


def judged(name: str, seed: int) -> dict[str, Any]:
    """One city: release, synthetic people, another true sample."""
    ground = dict(GROUNDS[name])
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        split_city(folder, ground["zones"], seed)
        outline = folder / "zones.geojson"
        where = {"zones": outline}
        if "grid" in ground:
            where = {"grid": ground["grid"], "region": str(outline)}
        book = sfumato.Ledger(folder / "ledger.sqlite")
        book.initialise()
        book.add_dataset("city", Cap(epsilon=50, delta=1e-4))
        paid = {"dataset": "city", "epsilon": EPSILON, "delta": DELTA, "ledger": book}
        paid |= {"expected_users": PEOPLE}
        events = folder / "records.parquet"
        begun = time.process_time()
        alone = sfumato.release(events, out=folder / "release", **where, **WEEK, **paid)
        released = time.process_time() - begun
        begun = time.process_time()
        made = sfumato.synth(events, out=folder / "synth", seed=seed, **where, **WEEK, **paid)
        seconds = time.process_time() - begun
        places = PlaceOptions(**where).open().released
        locator, grid = Locator(places), period_of(**WEEK, slot="1h", fold=None)
        at = centres(places) / 1000.0
        true, density = lives_of(events, locator, grid, len(places))
        got, table = lives_of(made.folder / "events.parquet", locator, grid, len(places))
        other, sampled = lives_of(folder / "sample.parquet", locator, grid, len(places))
        figures = judge_lives(true, got, at)
        line = judge_lives(true, other, at)
        error = judge_density(density, table)["hourly_mre"]
        whole = judge_density(density, alone.values)["hourly_mre"]
        return {
            "ground": name,
            "seed": seed,
            "places": len(places),
            "seconds": seconds,
            "release_seconds": released,
            "epsilon": made.manifest.privacy.epsilon,
            "mre": error,
            "mre_bayes": whole,
            "mre_ratio": error / whole,
            "mre_sample": judge_density(density, sampled)["hourly_mre"],
            "faster": figures["impossible_moves"] - figures["impossible_moves_true"],
            "figures": figures,
            "sample": line,
        }


def large(users: int, seed: int) -> dict[str, Any]:
    """`synth` on a large city in a process of its own: CPU-seconds, peak memory."""
    with tempfile.TemporaryDirectory() as home:
        write_city(
            CityPlan(users=users, towers=400, zones=400, seed=seed, fixes=Fixes.GPS), Path(home)
        )
        code = f"import benchmarks.synthesis_people as b; b.in_process({home!r}, {users})"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return {"users": users, **json.loads(done.stdout.splitlines()[-1])}


def in_process(home: str, users: int) -> None:
    """The call that is timed; prints what it took."""
    folder = Path(home)
    book = sfumato.Ledger(folder / "ledger.sqlite")
    book.initialise()
    book.add_dataset("city", Cap(epsilon=50, delta=1e-4))
    sfumato.synth(
        folder / "events.parquet",
        zones=folder / "zones.geojson",
        out=folder / "synth",
        dataset="city",
        epsilon=EPSILON,
        delta=0.1 / users,
        expected_users=users,
        ledger=book,
        **WEEK,
    )
    size = (folder / "synth" / "events.parquet").stat().st_size
    rows = pq.read_metadata(folder / "synth" / "events.parquet").num_rows
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(json.dumps({"cpu": time.process_time(), "gib": peak, "rows": rows, "bytes": size}))


def _row(ground: str, found: list[dict[str, Any]]) -> str:
    mine = [one for one in found if one["ground"] == ground]

    def mean(*keys: str) -> float:
        return float(np.mean([deep(one, keys) for one in mine]))

    cells = [ground, f"{mine[0]['places']}", f"{mean('mre'):.3f} ({mean('mre_bayes'):.3f})"]
    cells.append(f"**{mean('mre_ratio'):.3f}**")
    for name in ("home_work_cpc", "gyration_jsd", "activity_jsd", "repetition_jsd"):
        cells.append(f"**{mean('figures', name):.3f}** ({mean('sample', name):.3f})")
    cells.append(f"{100 * mean('faster'):+.2f}")
    cells.append(f"{mean('seconds'):.0f} ({mean('release_seconds'):.0f})")
    return "| " + " | ".join(cells) + " |"


def deep(one: dict[str, Any], keys: tuple[str, ...]) -> float:
    for key in keys:
        one = one[key]
    return float(one)  # type: ignore[arg-type]


def _seeds(found: list[dict[str, Any]]) -> str:
    """Which cities each ground was judged on."""
    return "; ".join(
        f"{ground}: {', '.join(str(one['seed']) for one in found if one['ground'] == ground)}"
        for ground in GROUNDS
    )


def page(found: list[dict[str, Any]], big: dict[str, Any] | None) -> str:
    """The table of the page."""
    lines = [
        "# Synthetic people",
        "",
        "Made by `python -m benchmarks synthesis_people` (city by city, `--grounds`, `--seeds`), "
        f"on two cores that others used, too. Made cities, seeds {_seeds(found)}; {PEOPLE:,} "
        f"people x a week of hours; `synth` with ε {EPSILON:g} at δ {DELTA:g} in all (a quarter "
        "of ρ for how persons live), against a `bayes` release given all of it. In brackets: "
        "another true sample of as many people from the same city, except where it says bayes.",
        "",
        "| ground | places | hourly density MRE (bayes) | over bayes (bar 1.15) | home–work CPC | "
        "gyration JSD | activity JSD | repeated days JSD | points more above 120 km/h | "
        "CPU-seconds (bayes) |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_row(ground, found) for ground in GROUNDS),
        "",
        "Bars: density at most 1.15 times `bayes`; CPC without the diagonal at least .90 at 40 "
        "zones and .80 at 400; each JSD (bits) at most .05; at most one point more moves above "
        "120 km/h than in the truth.",
        "",
        "**The bar of .80 at 400 zones is not met**, and it is out of reach of what does not copy "
        "pairs: 140,000 pairs in 160,000 cells are mostly ones and noughts, and another true "
        "sample of the same city stands at the figure in brackets. The made-up people are nearer "
        "to the truth than such a sample is, because nothing is sampled twice.",
    ]
    if big is not None:
        lines += [
            "",
            "## A large city",
            "",
            f"{big['users']:,} people x a week: {big['rows']:,} records "
            f"({big['bytes'] / 1e6:.0f} MB) from an events file to a finished folder in "
            f"{big['cpu'] / 60:.1f} CPU-minutes (bar 15) and {big['gib']:.2f} GiB (bar 3).",
        ]
    return "\n".join(lines) + "\n"


def main() -> int:
    read = argparse.ArgumentParser()
    read.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    read.add_argument("--grounds", default=",".join(GROUNDS))
    read.add_argument("--show", action="store_true")
    read.add_argument("--large", type=int, default=LARGE)
    options = read.parse_args()
    found = []
    for ground in options.grounds.split(","):
        for seed in map(int, options.seeds.split(",")):
            found.append(judged(ground, seed))
            print(json.dumps(found[-1]), flush=True)
    big = large(options.large, 41) if options.large else None
    print(json.dumps(big))
    if options.show:
        return 0
    PATH.write_text(json.dumps({"cities": found, "large": big}, indent=1) + "\n", "utf-8")
    PATH.with_suffix(".md").write_text(page(found, big), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
