"""CPU time of everything that the Paris release does after the counts.

    python -m benchmarks.paris

1,303 towers, 989 zones and 168 hours of a synthetic city. Counted are: cover, clusters, noise,
shapes, smoothing, mapping to zones, intervals and writing the table. Counting is left out: the
source remembers its answers. Writes docs/benchmarks/paris.md and paris.json; figures are the
best of three, user and system time of this process.
"""

from __future__ import annotations

import json
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from sfumato.city import CityPlan, build_city, generate_events
from sfumato.density.layout import layout_of_cells, layout_of_zones
from sfumato.density.registry import scheme_named
from sfumato.density.scheme import PublicFacts
from sfumato.density.table import density_table, with_local_times
from sfumato.engine.local import LocalSource
from sfumato.geography.overlay import overlay
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.events import read_events
from sfumato.io.writers import write_csv, write_parquet
from sfumato.privacy.audit.recall import RecallingSource
from sfumato.privacy.wall import Wall

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
LIMIT, REPEATS, USERS = 15.0, 3, 100_000
SETTINGS: dict[str, dict[str, str]] = {
    "towers (default)": {},
    "zones": {"space": "zones"},
    "cover": {"space": "cover"},
    "exponential choice of k": {"keep": "exponential"},
}


def main() -> None:
    plan = CityPlan(users=USERS)
    city = build_city(plan)
    cells = voronoi_cells(city.towers, city.zones, period=plan.grid)
    events = read_events(pa.Table.from_batches(list(generate_events(city))))
    source = RecallingSource(LocalSource(events, city.towers, plan.grid), samples=1)
    facts = PublicFacts(
        city.towers.ids,
        plan.grid,
        0.3,
        2e-6,
        overlay=overlay(cells, city.zones),
        layout=layout_of_cells(cells),
        zone_layout=layout_of_zones(city.zones),
    )
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, chosen in SETTINGS.items():
            asked = replace(facts, parameters=dict(chosen))
            _release(source, asked, Path(scratch))  # counts once, and compiles
            figures[name] = _best(lambda asked=asked: _release(source, asked, Path(scratch)))
    _write(figures)


def _release(source: RecallingSource, facts: PublicFacts, folder: Path) -> None:
    density = scheme_named("paris").run(source, Wall.seeded(1), facts)
    table = density_table(density, facts.grid)
    write_parquet(folder / "density.parquet", table)
    write_csv(folder / "density.csv", with_local_times(table, facts.grid))


def _best(work: Callable[[], None]) -> float:
    taken = []
    for _ in range(REPEATS):
        before = time.process_time()
        work()
        taken.append(time.process_time() - before)
    return min(taken)


def _write(figures: dict[str, float]) -> None:
    rows = [f"| {name} | {seconds:.2f} |" for name, seconds in figures.items()]
    text = [
        "# The Paris release after the counts",
        "",
        "1,303 towers, 989 zones, 168 hours; best of three, CPU-seconds "
        f"({platform.machine()}, Python {platform.python_version()}). The aim is at most "
        f"{LIMIT:g}. Made by `python -m benchmarks.paris`.",
        "",
        "| working space or option | CPU-seconds |",
        "|---|---|",
        *rows,
    ]
    (FOLDER / "paris.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    (FOLDER / "paris.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
