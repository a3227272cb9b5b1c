"""CPU of every stream scheme on 336 slots of 8,000 cells, and the weight of its state.

python -m benchmarks stream
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

from sfumato.model.time_grid import Calendar
from sfumato.privacy.events import Unit
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, begins_window, window_end
from sfumato.streams.registry import SCHEMES, stream_scheme
from sfumato.streams.replay import boxed, run_scheme
from sfumato.streams.scheme import Finished, Meter, StreamScheme
from sfumato.streams.vault import packed

SLOTS, CELLS, PER_DAY = 336, 8000, 48
OUT = Path(__file__).parents[1] / "docs" / "benchmarks"
Figures = tuple[float, float, float]
HEAD = """# Streams: CPU-seconds for 336 slots of 8,000 cells

    python -m benchmarks stream

Unit user-day, epsilon 1, delta 1e-6. Drawing the noise is included; `direct`, which adds it to
every slot and does nothing else, shows what that is (`tree` draws twice as much). The state is what
a scheme keeps from slot to slot, after half of the slots and after all. Where it still grows here:
`comb` remembers 42 vectors at most ([ten years](decade.md)), `rhythm` 64 snapshots; `smoother`
the parts of six windows before and after each slot; `toeplitz` needs its whole horizon.

| scheme | CPU-seconds | state half way, MB | state at the end, MB |
|---|---|---|---|
"""


def made_up() -> np.ndarray:
    """Levels like a city's, a daily rhythm, and chance."""
    rng = np.random.default_rng(0)
    level = rng.gamma(0.7, 25.0, CELLS)
    phase = rng.uniform(0, 2 * np.pi, CELLS)
    hours = 2 * np.pi * np.arange(SLOTS)[:, None] / PER_DAY
    return rng.poisson(level * (1 + 0.5 * np.sin(hours + phase))).astype(np.int64)


def through(scheme: StreamScheme, facts: StreamFacts, counts: np.ndarray) -> Figures:
    """All slots through a scheme: CPU, and what its state weighs half way and at the end."""
    publisher, meter = scheme.publisher(facts), Meter(scheme.plan(facts).accounts, facts)
    wall, spent, weights = Wall.seeded(1, meter), 0.0, []
    for slot in range(facts.slots):
        begun = time.process_time()
        if isinstance(publisher, Finished) and scheme.finished and begins_window(facts, slot):
            whole = counts[slot : window_end(facts, slot)].T
            publisher.prepare(boxed(whole, facts, "window"), slot, wall)
        publisher.publish(slot, boxed(counts[slot], facts), wall, meter)
        spent += time.process_time() - begun
        if slot + 1 in (facts.slots // 2, facts.slots):
            state = {**publisher.state(), "meter": meter.state()}
            weights.append(sum(len(packed(part)) for part in state.values()) / 1e6)
    return round(spent, 2), round(weights[0], 1), round(weights[1], 1)


def main() -> None:
    counts = made_up()
    calendar = Calendar.regular(SLOTS, PER_DAY)
    facts = StreamFacts(CELLS, calendar, 1.0, 1e-6, Unit.parse("user-day"), 140_000, 80)
    for name in ("rescuedp", "direct"):  # compile
        run_scheme(stream_scheme(name), facts, counts[:2], 0)
    rows = {}
    for name in SCHEMES:
        rows[name] = through(stream_scheme(name), facts, counts)
        print(f"{name}: {rows[name][0]} s", flush=True)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "stream.json").write_text(json.dumps(rows, indent=1) + "\n")
    table = "".join(f"| {name} | {' | '.join(map(str, row))} |\n" for name, row in rows.items())
    (OUT / "stream.md").write_text(HEAD + table)


if __name__ == "__main__":
    main()
