"""`synth --method weeks` on real records, for levels and sanity: cabs, call records, phones.

    python -m benchmarks synthesis_real          # with SFUMATO_DATA set

Public data sets have few people, so that a *person* is made smaller than one: a cab's day, a
subscriber's week, each taken for a person of its own and moved onto one day or one week. What is
promised is promised to these. Records are thinned to one in each place and slot; half of the
persons by a coin are the records, the others another true sample. `synth` and `bayes` alone get the
same (epsilon, 1e-6). The forecast's verdict is shown, and `anyway` given where it refuses. Nothing
was tuned on these data.

Writes docs/benchmarks/synthesis_real.md and .json.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.synthesis_people import deep, lives_of

import sfumato
from sfumato.geography.locate import Locator
from sfumato.geography.overlay import centres
from sfumato.geography.places import PlaceOptions
from sfumato.model.time_grid import period_of
from sfumato.privacy.ledger import Cap
from sfumato.synthesis.fitness import forecast
from sfumato.synthesis.request import synth_request
from sfumato.utility.mobility import judge_density, judge_lives

PATH = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "synthesis_real.json"
EPSILONS, DELTA, DRAWS = (1.0, 4.0), 1e-6, 3
_SECOND, _DAY, _WEEK = 1_000_000, 86_400_000_000, 7 * 86_400_000_000
DAY = {"start": "2008-05-20", "end": "2008-05-21", "tz": "America/Los_Angeles"}
CALLS = {"start": "2012-09-10", "end": "2012-09-17", "tz": "Asia/Shanghai"}
PHONES = {"start": "2017-07-10", "end": "2017-07-17", "tz": "America/Sao_Paulo"}


def cabs(data: Path) -> tuple[dict[str, Any], dict[str, Any], pa.Table]:
    """Days of cabs, moved onto a Tuesday; the 41 neighbourhoods of San Francisco."""
    table = pq.read_table(data / "cabspotting_sf" / "cabspotting_sf_2008.parquet")
    time = table["t_utc_s"].to_numpy().astype(np.int64) * _SECOND
    lon, lat = (table[name].to_numpy() / 1e5 for name in ("lon_e5", "lat_e5"))
    zones = data / "cabspotting_sf" / "sf_neighborhoods_analysis.geojson"
    return DAY, {"zones": zones}, folded(table["cab"].to_numpy(), time, lon, lat, DAY, _DAY)


def calls(data: Path) -> tuple[dict[str, Any], dict[str, Any], pa.Table]:
    """Weeks of subscribers around Hangzhou, three files of one operator; cells of 5 km."""
    parts: list[list[Any]] = [[], [], [], []]
    for number, name in enumerate(("movr_100users", "hcl_130users", "movement_976users")):
        table = pq.read_table(data / "hangzhou_cdr" / f"hangzhou_{name}.parquet")
        time = table["time_utc"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
        real = time % _DAY != 19 * 3600 * _SECOND  # rows put in at 03:00 local
        user = table["user"].to_numpy().astype(np.int64) * 3 + number
        columns = (user, time, *(table[c].to_numpy(zero_copy_only=False) for c in ("lon", "lat")))
        for part, column in zip(parts, columns, strict=True):
            part.append(column[real])
    user, time, lon, lat = (np.concatenate(part) for part in parts)
    where = {"grid": "5km", "region": "120.00,30.10,120.45,30.45"}
    return CALLS, where, folded(user, time, lon, lat, CALLS, _WEEK)


def phones(data: Path) -> tuple[dict[str, Any], dict[str, Any], pa.Table]:
    """Weeks of 25 phones in São Paulo; cells of 5 km."""
    table = pq.read_table(data / "saopaulo_gps" / "saopaulo_emission_2017.parquet")
    time = table["time_utc"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    user = np.asarray(table["user"].combine_chunks().dictionary_encode().indices)
    lon, lat = (table[name].to_numpy() for name in ("lon", "lat"))
    where = {"grid": "5km", "region": "-46.80,-23.70,-46.50,-23.48"}
    return PHONES, where, folded(user.astype(np.int64), time, lon, lat, PHONES, _WEEK)


def folded(user: Any, time: Any, lon: Any, lat: Any, when: dict[str, Any], span: int) -> pa.Table:
    """Each person's day or week as a person of its own, moved into the period."""
    begin = period_of(**when, slot="1h", fold=None).period[0]
    user, turn = user.astype(np.int64), (time - begin) // span
    good = np.isfinite(lon) & np.isfinite(lat)
    _, who = np.unique(user * 100_000 + turn + 50_000, return_inverse=True)
    return pa.table(
        {
            "user_id": who[good].astype(np.int64),
            "timestamp": pa.array((begin + (time - begin) % span)[good], pa.int64()).cast(
                pa.timestamp("us", "UTC")
            ),
            "lon": lon[good],
            "lat": lat[good],
        }
    )


GROUNDS = {"days of cabs": cabs, "weeks of call records": calls, "weeks of phones": phones}


def thinned(table: pa.Table, locator: Locator, slots: Any) -> pa.Table:
    """The first record of a person in each place and slot."""
    place = locator.locate(table["lon"].to_numpy(), table["lat"].to_numpy()).astype(np.int64)
    time = table["timestamp"].cast(pa.int64()).to_numpy()
    slot = np.searchsorted(slots.edges, time, side="right") - 1
    key = (table["user_id"].to_numpy() * slots.slots + slot) * (place.max() + 2) + place
    key[place < 0] = -1
    kept, first = np.unique(key, return_index=True)
    return table.take(pa.array(np.sort(first[kept >= 0])))


def judged(name: str, data: Path, folder: Path) -> list[dict[str, Any]]:
    """One ground at all epsilons."""
    when, where, table = GROUNDS[name](data)
    options = PlaceOptions(**where)
    opened = options.open(tz=when["tz"])
    locator, grid = Locator(opened.released), period_of(**when, slot="1h", fold=None)
    table = thinned(table, locator, grid)
    ids, who = np.unique(table["user_id"].to_numpy(), return_inverse=True)
    coin = np.random.default_rng(1).random(ids.size) < 0.5
    for part, rows in (("records", coin[who]), ("sample", ~coin[who])):
        pq.write_table(table.filter(pa.array(rows)), folder / f"{part}.parquet")
    book = sfumato.Ledger(folder / "ledger.sqlite")
    book.initialise()
    book.add_dataset("people", Cap(epsilon=500, delta=1e-3))
    whole = int(coin.sum())
    places, people = len(opened.released), max(round(whole, -2 if whole > 500 else -1), 10)
    at = centres(opened.released) / 1000.0
    true, density = lives_of(folder / "records.parquet", locator, grid, places)
    other, sampled = lives_of(folder / "sample.parquet", locator, grid, places)
    found = []
    for epsilon in [one for one in EPSILONS for _ in range(DRAWS)]:
        paid = {"dataset": "people", "epsilon": epsilon, "delta": DELTA, "expected_users": people}
        asked = synth_request(places=options, grid=grid, name="x", tz=when["tz"], **paid)
        verdict = forecast(asked.method, asked.facts)
        both = {"ledger": book, "anyway": True} | paid | where | when
        events, number = folder / "records.parquet", len(found)
        made = sfumato.synth(events, out=folder / f"synth-{number}", seed=number, **both)
        alone = sfumato.release(events, out=folder / f"release-{number}", **both)
        got, made_density = lives_of(made.folder / "events.parquet", locator, grid, places)
        figures, line = judge_lives(true, got, at), judge_lives(true, other, at)
        found.append(
            {
                "ground": name,
                "epsilon": epsilon,
                "people": int(true.people),
                "places": places,
                "refused": verdict is not None and verdict.useless,
                "visits_true": float(density.sum() / true.people),
                "visits_made": float(made_density.sum() / people),
                "visits_bayes": float(alone.values.sum() / people),
                "mre": judge_density(density, made_density)["hourly_mre"],
                "mre_bayes": judge_density(density, alone.values)["hourly_mre"],
                "mre_sample": judge_density(density, sampled)["hourly_mre"],
                "figures": figures,
                "sample": line,
            }
        )
        print(json.dumps(found[-1]), flush=True)
    return found


def page(found: list[dict[str, Any]]) -> str:
    """The table."""
    lines = [
        "# Synthetic people from real records",
        "",
        "Made by `python -m benchmarks synthesis_real` with `SFUMATO_DATA` set. `synth --method "
        f"weeks` and `bayes` alone, the same ε at δ {DELTA:g}; means of {DRAWS} draws. A person is "
        "a cab's day, a subscriber's or a phone's week, taken for one of its own and moved onto "
        "one day or week. Half of them are the records; in brackets another true sample, the "
        "other half, except "
        "where it says bayes.",
        "",
        "| ground | people | places | ε | forecast | visits a person: true, made, bayes | hourly "
        "density MRE (bayes; sample) | home–work CPC | gyration JSD | activity JSD | repeated days "
        "JSD | points more above 120 km/h |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, epsilon in dict.fromkeys((one["ground"], one["epsilon"]) for one in found):
        here = [one for one in found if (one["ground"], one["epsilon"]) == (name, epsilon)]

        def mean(*keys: str, here: list[dict[str, Any]] = here) -> float:
            return float(np.mean([deep(one, keys) for one in here]))

        cells = [name, f"{here[0]['people']:,}", f"{here[0]['places']}", f"{epsilon:g}"]
        cells.append("refused" if here[0]["refused"] else "of use")
        cells.append(", ".join(f"{mean(f'visits_{k}'):.1f}" for k in ("true", "made", "bayes")))
        cells.append(f"{mean('mre'):.2f} ({mean('mre_bayes'):.2f}; {mean('mre_sample'):.2f})")
        for key in ("home_work_cpc", "gyration_jsd", "activity_jsd", "repetition_jsd"):
            cells.append(f"{mean('figures', key):.3f} ({mean('sample', key):.3f})")
        more = mean("figures", "impossible_moves") - mean("figures", "impossible_moves_true")
        lines.append("| " + " | ".join([*cells, f"{100 * more:+.2f}"]) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    data = os.environ.get("SFUMATO_DATA")
    if data is None:
        print("SFUMATO_DATA is not set: no real records.")
        return 0
    found = []
    for name in GROUNDS:
        with tempfile.TemporaryDirectory() as home:
            found += judged(name, Path(data), Path(home))
    PATH.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    PATH.with_suffix(".md").write_text(page(found), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
