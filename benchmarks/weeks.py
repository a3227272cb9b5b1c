"""Four weeks of one city: what the last one gains from the measurements of the others.

    python -m benchmarks weeks
    python -m benchmarks.weeks --seeds 1,2 --draws 1 --sizes 30000x200      # a look

A made-up city (`sfumato.city`) lives for four weeks; every week is measured by `bayes` at the same
epsilon, with noise of its own. The fourth is then read three ways, each scored on the truth of the
fourth week: *alone*; with *memory* (`--earlier`, the measurements of the three others); and as
the *average*: the four weeks' measurements averaged and read as if they were one week's, which is
what memory could gain at most where nothing changes. Then the same with changes: a strike on
Tuesday of the fourth week, or of the second; a fifth of the antennas changing places; all of them.

Writes docs/benchmarks/weeks.md and .json. Seeds up to 40 were used to build it.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.city import CityPlan, build_city, generate_events
from sfumato.density.bayes import inference, scheme
from sfumato.density.bayes.measured import Kept, Margins, keep
from sfumato.density.bayes.memory import Memory
from sfumato.density.bayes.settings import settings_for
from sfumato.density.posterior import Posterior
from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.geography.overlay import layout_of_cells, layout_of_zones, overlay
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.events import read_events
from sfumato.model.counts import Counting
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.door import open_private
from sfumato.privacy.wall import Wall
from sfumato.utility.density import mean_relative_error

PATH = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "weeks.json"
WEEKS = 4
SIZES = ("5000x40", "30000x200", "200000x989")
CHANGES = {
    "none": "nothing but chance",
    "strike": "a strike on Tuesday of the fourth week",
    "strike before": "a strike on Tuesday of the second week",
    "a fifth moved": "a fifth of the antennas change places in the fourth week",
    "all moved": "all antennas change places in the fourth week",
}
EPSILON = 0.3
BINS = (1.0, 5.0, 20.0, 100.0)
Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Week:
    source: LocalSource
    facts: PublicFacts
    truth: Table


def weeks_of(people: int, zones: int, seed: int, change: str) -> list[Week]:
    """Four weeks of the same people, the map they live on, and the truth."""
    strike = {"strike": 22, "strike before": 8}.get(change)
    plan = CityPlan(
        users=people,
        zones=zones,
        towers=round(zones * 1_303 / 989),
        area_km2=zones * 105 / 989,
        seed=seed,
        days=7 * WEEKS,
        strike_day=strike,
    )
    city = build_city(plan)
    table = pa.Table.from_batches(list(generate_events(city)))
    cells = voronoi_cells(city.towers, city.zones)
    shares = overlay(cells, city.zones)
    layouts = layout_of_cells(cells), layout_of_zones(city.zones)
    found = []
    for week in range(WEEKS):
        first = plan.start + timedelta(days=7 * week)
        grid = TimeGrid.between(first, first + timedelta(days=7), "1h", plan.tz)
        events = table
        if change.endswith("moved") and week == WEEKS - 1:
            events = _moved(table, city.towers.ids, 1.0 if change == "all moved" else 0.2, seed)
        source = LocalSource(read_events(events), city.towers, grid)
        facts = PublicFacts(
            city.towers.ids,
            grid,
            EPSILON,
            0.1 / people,
            people,
            overlay=shares,
            layout=layouts[0],
            zone_layout=layouts[1],
        )
        exact = open_private(source.exact(Counting.VISITS)).values
        found.append(Week(source, facts, shares.to_zones(exact)))
    return found


def _moved(table: pa.Table, ids: NDArray[np.str_], share: float, seed: int) -> pa.Table:
    """Some antennas, picked at random, give their visits to one another in a circle."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(ids.size)[: max(round(share * ids.size), 2)]
    new = np.arange(ids.size)
    new[chosen] = np.roll(chosen, 1)
    at = table.column_names.index("tower")
    coded = table["tower"].combine_chunks().dictionary_encode()
    order = {name: k for k, name in enumerate(ids.tolist())}
    renamed = np.array([ids[new[order[str(name)]]] for name in coded.dictionary.to_pylist()])
    return table.set_column(at, "tower", pa.array(renamed[coded.indices.to_numpy()].tolist()))


def averaged(weeks: list[Kept]) -> Posterior:
    """All measurements averaged, the ladders' too, read as one week's."""
    now = weeks[-1]
    own = now.measured.margins
    ladder = np.mean([one.measured.margins.ladder for one in weeks], axis=0)
    margins: Margins = replace(own, ladder=ladder, ladder_sd=own.ladder_sd / len(weeks) ** 0.5)
    others = scheme._weeks(margins, replace(now.facts, earlier=tuple(weeks[:-1])))
    usual, _ = scheme._grounds(margins, now.facts, others)
    memory = Memory(others, usual.field)

    class Common:
        def split(self, frame: inference.Frame, field: Table) -> tuple[inference.Frame, None]:
            return memory.split(frame, field)[0], None

    settings = settings_for(now.facts)
    found, _ = inference.infer(
        usual,
        now.measured,
        rich=settings.rich,
        pooled=settings.pooled,
        memory=Common(),  # type: ignore[arg-type]
    )
    return found


def score(found: Posterior, truth: Table) -> dict[str, float | list[int]]:
    """Errors, and how often 90 % intervals hold, by published count."""
    mean = found.mean
    low, high, median = found.quantiles(0.05, 0.95, 0.5)
    inside = (truth >= low) & (truth <= high)
    which = np.digitize(mean, BINS)
    size = len(BINS) + 1
    return {
        "mre": float(mean_relative_error(truth, mean).mean()),
        "mae": float(np.abs(median - truth).mean()),
        "total": float(mean.sum() / truth.sum()),
        "above": int((truth > high).sum()),
        "below": int((truth < low).sum()),
        "cells": np.bincount(which.ravel(), minlength=size).tolist(),
        "held": np.bincount(which[inside], minlength=size).tolist(),
    }


def runs(size: str, seed: int, change: str, draws: int) -> Iterator[dict[str, object]]:
    people, zones = map(int, size.split("x"))
    weeks = weeks_of(people, zones, seed, change)
    truth = weeks[-1].truth
    for draw in range(draws):
        with threadpool_limits(1):
            taken = []
            for k, week in enumerate(weeks):
                wall = Wall.seeded(10_000 * seed + 10 * draw + k)
                measured, _ = scheme.measure(week.source, wall, week.facts)
                taken.append(Kept(f"{k}", f"{k}", measured, week.facts))
            now = taken[-1]
            start = time.process_time()
            alone = scheme.read(now.measured, now.facts)[0]
            middle = time.process_time()
            facts = replace(now.facts, earlier=tuple(taken[:-1]))
            memory = scheme.read(now.measured, facts)[0]
            end = time.process_time()
            found = {"alone": alone, "memory": memory, "averaged": averaged(taken)}
        yield {
            "size": size,
            "change": change,
            "seed": seed,
            "draw": draw,
            "cpu": [middle - start, end - middle],
            "bytes": _bytes(now),
            **{name: score(one, truth) for name, one in found.items()},
        }


def _bytes(kept: Kept) -> int:
    """Size of the file of measurements."""
    content = io.BytesIO()
    np.savez_compressed(content, **keep(kept.measured, kept.facts))
    return len(content.getvalue())


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", default="71,72,73")
    options.add_argument("--sizes", default=",".join(SIZES))
    options.add_argument("--changes", default=",".join(CHANGES))
    options.add_argument("--draws", type=int, default=3)
    options.add_argument("--out", type=Path, default=PATH)
    asked = options.parse_args()
    rows: list[dict[str, object]] = []
    for size in asked.sizes.split(","):
        for change in asked.changes.split(","):
            if change != "none" and size != "30000x200":
                continue  # changes are judged on one size
            for seed in map(int, asked.seeds.split(",")):
                for row in runs(size, seed, change, asked.draws):
                    rows.append(row)
                    said = {k: (round(row[k]["mre"], 4), round(row[k]["mae"], 3)) for k in WAYS}  # type: ignore[index]
                    print(size, change, seed, row["draw"], said, flush=True)
                asked.out.write_text(json.dumps(rows) + "\n", encoding="utf-8")
    asked.out.with_suffix(".md").write_text(page(rows), encoding="utf-8")


WAYS = ("alone", "memory", "averaged")


def page(rows: list[dict[str, object]]) -> str:
    """The figures in words and tables."""
    lines = [
        "# Four weeks of one city",
        "",
        "Made by `python -m benchmarks weeks`: cities of `sfumato.city` that live for "
        f"{WEEKS} weeks, each week measured by `bayes` at ε {EPSILON}, the fourth read alone, with "
        "the measurements of the three others (`--earlier`), and as the average of all four read "
        "as one week, which is what memory could gain at most where nothing changes. Errors are "
        "against the truth of the fourth week: mean relative error of `count` (MRE) and mean "
        "absolute error of `median` (MAE), means over "
        f"{len({r['seed'] for r in rows})} cities that were not used to build it and the draws of "
        "noise in each.",
        "",
        "| people × zones | what changed | MRE alone | memory | averaged | share of the gain "
        "| MAE alone | memory | averaged | share |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[dict[str, object]]] = {}
    for row in rows:
        groups.setdefault((str(row["size"]), str(row["change"])), []).append(row)
    for (size, change), some in groups.items():
        cells = [size.replace("x", " × "), CHANGES[change]]
        for key, digits in (("mre", 4), ("mae", 3)):
            means = [float(np.mean([r[way][key] for r in some])) for way in WAYS]  # type: ignore[index]
            gain = (means[0] - means[1]) / (means[0] - means[2]) if means[0] > means[2] else None
            cells += [f"{mean:.{digits}f}" for mean in means]
            cells.append("" if gain is None else f"{gain:.0%}")
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Asked: at least 70 % of the gain where nothing changes; where the city has changed, no "
        "worse than alone.",
        "",
        "How often 90 % intervals hold, by published count:",
        "",
        "| people × zones | what changed | read | 0–1 | 1–5 | 5–20 | 20–100 | > 100 | all "
        "| truth above, below |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (size, change), some in groups.items():
        for way in WAYS[:2]:
            held = np.sum([r[way]["held"] for r in some], axis=0)  # type: ignore[index]
            cells_ = np.sum([r[way]["cells"] for r in some], axis=0)  # type: ignore[index]
            shown = [f"{h / n:.0%}" if n > 200 else "" for h, n in zip(held, cells_, strict=True)]
            missed = [
                sum(r[way][side] for r in some) / cells_.sum()  # type: ignore[index,misc]
                for side in ("above", "below")
            ]
            lines.append(
                f"| {size.replace('x', ' × ')} | {change} | {way} | {' | '.join(shown)} | "
                f"{held.sum() / cells_.sum():.1%} | {missed[0]:.1%}, {missed[1]:.1%} |"
            )
    lines += [
        "",
        "| people × zones | inference alone, CPU s | with three more weeks | measurements kept |",
        "|---|---|---|---|",
    ]
    for size, row in {str(r["size"]): r for r in rows}.items():
        alone, together = row["cpu"]  # type: ignore[misc]
        kept = float(row["bytes"]) / 1e6  # type: ignore[arg-type]
        lines.append(
            f"| {size.replace('x', ' × ')} | {alone:.1f} | {together:.1f} | {kept:.2f} MB |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
