"""Sanitising, updating and meeting at full size, in CPU-seconds and memory.

    python -m benchmarks.traces

Writes docs/benchmarks/traces.md and traces.json. CPU time is user and system time of this
process; compiled code is warmed up first. Everything is made up, so that the figures can be had
without data: ten million points around one city, a grid of 62,230 cells as in the published
study, and two million fixes of 40 people.
"""

from __future__ import annotations

import json
import platform
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from sfumato.model.traces import MICROSECONDS, Traces
from sfumato.privacy.noise import KeyedStream, SeededStream
from sfumato.privacy.noise.planar import Strength, planar_laplace
from sfumato.traces.cells import HOTSPOT_SIDE_M, Cells
from sfumato.utility.contacts import find_contacts, gossip
from sfumato.utility.ibu import Channel, Observation, iterative_bayesian_update, margin_for

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
POINTS, FIXES, PEOPLE = 10_000_000, 2_000_000, 40


@dataclass(frozen=True)
class Row:
    what: str
    cpu_seconds: float
    limit: float
    remark: str = ""


def cpu(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def noise() -> Row:
    rng = np.random.default_rng(1)
    lon, lat = 2.2 + 0.3 * rng.random(POINTS), 48.8 + 0.1 * rng.random(POINTS)
    strength = Strength.from_noise(100.0)
    planar_laplace(lon[:100], lat[:100], strength, KeyedStream(b"w" * 32, "warm"))
    stream = KeyedStream(b"k" * 32, "timed")
    spent = cpu(lambda: planar_laplace(lon, lat, strength, stream))
    return Row(
        "planar Laplace, ten million points", spent, 8.0, "keyed stream and lattice included"
    )


def update() -> list[Row]:
    cells = Cells(116.25, 39.85, 254, 245, HOTSPOT_SIDE_M, 39.95)
    strength = Strength.from_noise(250.0)
    rng = np.random.default_rng(2)
    street = rng.integers(0, 40, FIXES)
    x = rng.random(FIXES) * cells.columns * cells.side_m
    y = np.where(street < 30, (street + 0.5) / 30, rng.random(FIXES)) * cells.rows * cells.side_m
    noisy = planar_laplace(*cells.degrees(x, y), strength, SeededStream(3))
    margin = margin_for(cells, strength)
    channel = Channel.planar_laplace(cells, strength, margin)
    seen = Observation(channel, cells.count(*noisy, margin))
    rows = []
    plain = None

    def run() -> None:
        nonlocal plain
        plain = iterative_bayesian_update(seen, steps=50, stop_below=0)

    rows.append(Row("update, 62,230 cells, 50 steps", cpu(run), 10.0, f"margin {margin} cells"))
    long = iterative_bayesian_update(seen, steps=300, stop_below=0)
    fast = iterative_bayesian_update(seen, steps=150, stop_below=0, accelerate=True)
    reached = np.array(fast.log_likelihood) >= long.log_likelihood[-1]
    needed = 3 * int(np.argmax(reached)) if reached.any() else -1
    rows.append(
        Row(
            "accelerated: steps to the likelihood of 300 plain ones",
            float(needed),
            100.0,
            "a count of steps, not seconds",
        )
    )
    return rows


def meetings() -> list[Row]:
    rng = np.random.default_rng(4)
    user = np.sort(rng.integers(0, PEOPLE, FIXES))
    home = rng.random((PEOPLE, 2)) * 0.05
    traces = Traces(
        np.array([str(i) for i in range(PEOPLE)], dtype=object),
        user,
        np.zeros(FIXES, np.int64),
        (1_225_540_800 + rng.integers(0, 500_000, FIXES)) * MICROSECONDS,
        116.3 + home[user, 0] + rng.normal(0, 0.01, FIXES),
        39.9 + home[user, 1] + rng.normal(0, 0.01, FIXES),
        np.arange(FIXES),
    )
    gossip(find_contacts(traces.pick(np.arange(1000))))
    found = None

    def run() -> None:
        nonlocal found
        found = find_contacts(traces)

    rows = [Row("contacts of two million fixes", cpu(run), 15.0)]
    assert found is not None
    spent = cpu(lambda: gossip(found))
    return [*rows, Row("gossip from all sources over them", spent, 1.0, f"{len(found):,} contacts")]


def main() -> None:
    rows = [noise(), *update(), *meetings()]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    FOLDER.mkdir(parents=True, exist_ok=True)
    data = {"machine": platform.machine(), "peak_gib": peak, "rows": [asdict(row) for row in rows]}
    (FOLDER / "traces.json").write_text(json.dumps(data, indent=2) + "\n")
    lines = [
        "# Traces at full size",
        "",
        "`python -m benchmarks.traces`; CPU-seconds (user and system) on two slow cores.",
        "",
        "| what | measured | at most | |",
        "|---|---|---|---|",
        *(f"| {r.what} | {r.cpu_seconds:.2f} | {r.limit:g} | {r.remark} |" for r in rows),
        "",
        f"Peak memory of the whole run, ten million points included: {peak:.2f} GiB.",
    ]
    (FOLDER / "traces.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
