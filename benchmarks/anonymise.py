"""The other door at scale: a made city of up to a million people, a week of hours, 1,303 towers.

    python -m benchmarks anonymise                      # about four CPU-minutes, 5 GiB of disk
    python -m benchmarks.anonymise --only never-walk-alone

Every figure comes from a process of its own that calls the verb
`sfumato_lab.anonymise_traces`, from the file of records to the finished folder, with the attack
left out: CPU time is user and system time of the process, memory its peak resident set. Outputs
are checked by the fast verifiers whose
results stand in the manifest. Writes docs/benchmarks/anonymise.md and anonymise.json.
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

import sfumato
import sfumato_lab
from sfumato.city import CityPlan, write_city
from sfumato.privacy.ledger import Cap

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
SEED = 23
LIMIT = "15 min, 8 GiB, 2 cores"
WEEK = {"start": "2007-09-10", "end": "2007-09-17", "tz": "Europe/Paris"}
CASES: dict[str, dict[str, Any]] = {
    "never-walk-alone, 1,000,000": {
        "people": 1_000_000,
        "method": "never-walk-alone",
        "k": 5,
        # With the people who have a single record, who have no trajectory (2.7 % of this city),
        # fewer than a tenth are left out.
        "parameter": {"delta": 2000, "trash": 0.07},
    },
    "never-walk-alone, 100,000": {
        "people": 100_000,
        "method": "never-walk-alone",
        "k": 5,
        "parameter": {"delta": 2000, "trash": 0.07},
    },
    "never-walk-alone, 20,000, unpartitioned": {
        "people": 20_000,
        "method": "never-walk-alone",
        "k": 5,
        "parameter": {"delta": 2000, "trash": 0.07, "block": 32768},
    },
    "never-walk-alone, 20,000, partitioned": {
        "people": 20_000,
        "method": "never-walk-alone",
        "k": 5,
        "parameter": {"delta": 2000, "trash": 0.07},
    },
    "km on places, m = 2, 1,000,000": {
        "people": 1_000_000,
        "method": "km",
        "k": 5,
        "parameter": {"m": 2, "items": "places"},
    },
    "km on places and times, m = 2, 100,000": {
        "people": 100_000,
        "method": "km",
        "k": 5,
        "parameter": {"m": 2, "items": "visits"},
    },
    "probabilistic-km on places, m = 8, 100,000": {
        "people": 100_000,
        "method": "probabilistic-km",
        "k": 5,
        "parameter": {"m": 8, "items": "places"},
    },
    "probabilistic-km on places and times, m = 4, 100,000": {
        "people": 100_000,
        "method": "probabilistic-km",
        "k": 5,
        "parameter": {"m": 4, "items": "visits"},
    },
    "p-confidentiality, 100,000": {
        "people": 100_000,
        "method": "p-confidentiality",
        "parameter": {"p": 0.3},
        "roads": "neighbours",
        "sensitive": 13,
    },
}


def city_of(people: int, folder: Path) -> Path:
    """The files of a made city, made once."""
    out = folder / f"city-{people}"
    if not (out / "city.json").exists():
        write_city(CityPlan(users=people, seed=SEED), out)
    return out


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Run one case in this process."""
    case = dict(CASES[name])
    home = city_of(case.pop("people"), folder)
    if "sensitive" in case:  # by lot, among the towers
        lines = (home / "towers.csv").read_text().splitlines()[1:]
        towers = [line.split(",")[0].strip('"') for line in lines]
        rng = np.random.default_rng(SEED)
        chosen = rng.choice(len(towers), case["sensitive"], replace=False)
        case["sensitive"] = [towers[one] for one in chosen]
    book = sfumato.Ledger(folder / "ledger.sqlite")
    if not (folder / "ledger.sqlite").exists():
        book.initialise()
        book.add_dataset("city", Cap(epsilon=1, delta=1e-6))
    start, cpu = time.perf_counter(), time.process_time()
    found = sfumato_lab.anonymise_traces(
        home / "events.parquet",
        towers=home / "towers.csv",
        out=folder / "out",
        dataset="city",
        ledger=book,
        attack=False,
        seed=SEED,
        **WEEK,
        **case,
    )
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "case": name,
        "cpu_s": round(time.process_time() - cpu, 1),
        "wall_s": round(time.perf_counter() - start, 1),
        "peak_gib": round(usage.ru_maxrss / 2**20, 2),
        "records": found.manifest["records"],
        "parameters": found.manifest["parameters"],
        "checked": found.manifest.get("checked"),
        "interpolated_share": found.manifest.get("interpolated_share"),
        "groups": found.manifest.get("groups"),
        "figures": {k: v for k, v in found.internal_figures.items() if k != "attacks"},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("CASE", "FOLDER"))
    parser.add_argument("--only", help="cases whose name holds this text; others stay as they are")
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(asked.one[0], Path(asked.one[1]))))
        return
    path = FOLDER / "anonymise.json"
    rows = {row["case"]: row for row in json.loads(path.read_text())} if path.exists() else {}
    with tempfile.TemporaryDirectory(prefix="anonymise-") as scratch:
        for name in CASES:
            if asked.only and asked.only not in name:
                continue
            city_of(CASES[name]["people"], Path(scratch))
            command = [sys.executable, "-m", "benchmarks.anonymise", "--one", name, scratch]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            rows[name] = json.loads(done.stdout)
            print(rows[name], flush=True)
            kept = [rows[one] for one in CASES if one in rows]
            path.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
    (FOLDER / "anonymise.md").write_text(page(kept), "utf-8")


def page(rows: list[dict[str, Any]]) -> str:
    by = {row["case"]: row for row in rows}
    lines = [
        "# Anonymising by rules, at scale",
        "",
        "A made city (1,303 towers, 105 km², seed 23), a week of hours on a public clock, "
        "k = 5; `python -m benchmarks anonymise`. From the file of records to the finished folder, "
        "the attack left out, each in a process of its own. The machine was shared with other "
        f"work: CPU-seconds are the figure. The bar: {LIMIT}.",
        "",
        "| case | CPU s | wall s | peak GiB | records | checked |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['case']} | {row['cpu_s']:,} | {row['wall_s']:,} | {row['peak_gib']} | "
        f"{row['records']:,} | {_checked(row['checked'])} |"
        for row in rows
    ]
    whole, parts = (
        by.get(f"never-walk-alone, 20,000, {how}") for how in ("unpartitioned", "partitioned")
    )
    if whole and parts:
        a, b = (one["figures"]["mean_translation_m"] for one in (whole, parts))
        lines += [
            "",
            f"**Partitioning** (4,096 people a part): at 20,000 people points move {b:.1f} m on "
            f"average, {a:.1f} m without it: {b / a:.3f} times (the bar: 1.15).",
        ]
    if walk := by.get("never-walk-alone, 1,000,000"):
        found = walk["figures"]
        lines += [
            "",
            f"**Never Walk Alone**: {100 * walk['interpolated_share']:.1f} % of positions are "
            f"interpolated between call records. {found['clusters']:,} clusters at a radius of "
            f"{found['radius_m']:,.0f} m; points move {found['mean_translation_m']:.1f} m on "
            f"average. Trash {100 * found['trash']:.1f} % of trajectories; with the "
            f"{found['without_a_trajectory']:,} people who have a single record "
            f"{100 * found['left_out'] / found['people']:.1f} % of people are left out.",
        ]
    absent = [name for name in CASES if name not in by]
    if absent:
        lines += ["", f"Not measured yet: {'; '.join(absent)}."]
    lines += ["", "## What is lost, and how alike groups are", ""]
    lines += [
        "Internal figures of each run; on a made city they are nobody's.",
        "",
        "| case | figures |",
        "|---|---|",
    ]
    for row in rows:
        told = ", ".join(f"{k} {v}" for k, v in row["figures"].items() if k != "diversity")
        close = row["figures"]["diversity"]
        told += f"; l-diversity: least {close['l_least']}, median {close['l_median']:g}"
        told += f"; t-closeness: mean {close['t_mean']}"
        lines.append(f"| {row['case']} | {told} |")
    return "\n".join([*lines, ""])


def _checked(found: dict[str, Any] | None) -> str:
    return "" if not found else ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in found.items())


if __name__ == "__main__":
    main()
