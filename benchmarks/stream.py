"""CPU of every stream scheme on 336 slots of 8,000 cells, noise included and alone.

python -m benchmarks.stream
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

from sfumato.privacy.units import Unit
from sfumato.privacy.wall import Wall
from sfumato.stream.calendar import Calendar
from sfumato.stream.facts import StreamFacts
from sfumato.stream.meter import Meter
from sfumato.stream.registry import NAMES, stream_scheme
from sfumato.stream.run import boxed, run_scheme
from sfumato.stream.schemes.direct import Direct

SLOTS, CELLS, PER_DAY = 336, 8000, 48
OUT = Path(__file__).parents[1] / "docs" / "benchmarks"


def made_up() -> np.ndarray:
    """Levels like a city's, a daily rhythm, and chance."""
    rng = np.random.default_rng(0)
    level = rng.gamma(0.7, 25.0, CELLS)
    phase = rng.uniform(0, 2 * np.pi, CELLS)
    hours = 2 * np.pi * np.arange(SLOTS)[:, None] / PER_DAY
    return rng.poisson(level * (1 + 0.5 * np.sin(hours + phase))).astype(np.int64)


def noise_seconds(facts: StreamFacts, counts: np.ndarray) -> float:
    """Drawing the noise of all slots, and nothing else."""
    noise = Direct().plan(facts).accounts
    meter = Meter(noise, facts)
    wall, publisher = Wall.seeded(1, meter), Direct().publisher(facts)
    begun = time.process_time()
    for slot in range(facts.slots):
        publisher.publish(slot, boxed(counts[slot], facts), wall, meter)
    return time.process_time() - begun


def main() -> None:
    counts = made_up()
    calendar = Calendar.regular(SLOTS, PER_DAY)
    facts = StreamFacts(CELLS, calendar, 1.0, 1e-6, Unit.parse("user-day"), 140_000, 80)
    run_scheme(stream_scheme("rescuedp"), facts, counts[:2], 0)  # compile
    rows = {"noise of all slots": round(noise_seconds(facts, counts), 2)}
    for name in NAMES:
        if name in ("tree", "toeplitz"):
            continue  # running totals of few series; see docs/streams.md
        begun = time.process_time()
        run_scheme(stream_scheme(name), facts, counts, seed=1)
        rows[name] = round(time.process_time() - begun, 2)
        print(f"{name}: {rows[name]} s")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "stream.json").write_text(json.dumps(rows, indent=1) + "\n")
    table = "".join(f"| {name} | {seconds} |\n" for name, seconds in rows.items())
    head = (
        "# Streams: CPU-seconds for 336 slots of 8,000 cells\n\nNoise included; unit user-day.\n\n"
    )
    (OUT / "stream.md").write_text(f"{head}| scheme | CPU-seconds |\n|---|---|\n{table}")


if __name__ == "__main__":
    main()
