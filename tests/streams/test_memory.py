"""Nothing grows with the number of slots: neither a publisher's state nor the time of a slot."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts
from sfumato.streams.live import LiveStream, StreamRequest
from sfumato.streams.registry import SCHEMES, stream_scheme
from sfumato.streams.replay import boxed
from sfumato.streams.scheme import Meter
from sfumato.streams.state import Store
from sfumato.streams.vault import packed

ONLINE = [
    n
    for n in SCHEMES
    if n not in ("static-hybrid", "mean", "profile", "smoother", "tree", "toeplitz")
]


@pytest.mark.parametrize("name", ONLINE)
def test_a_state_stops_growing(name: str, facts: Callable[..., StreamFacts]) -> None:
    """After 30 days it is as large as after 15, but for some digits; `rhythm` remembers 8."""
    known = facts("user-day", days=30, per_day=3, cells=6, columns=3)
    scheme = stream_scheme(name, {"memory": 8} if name == "rhythm" else None)
    publisher, meter = scheme.publisher(known), Meter(scheme.plan(known).accounts, known)
    counts = np.random.default_rng(0).integers(0, 50, (known.slots, known.cells))
    sizes = []
    for slot in range(known.slots):
        wall = Wall.seeded(1, meter)
        publisher.publish(slot, boxed(counts[slot], known), wall, meter)
        state = {**publisher.state(), "meter": meter.state()}
        sizes.append(sum(len(packed(value)) for value in state.values()))
    assert max(sizes[-15:]) <= max(sizes[30:60]) + 256


@pytest.mark.slow
def test_the_tenth_year_costs_what_the_first_does(tmp_path: Path) -> None:
    """A day of five minutes at the beginning and one ten years on, through ledger and files.

    `comb` remembers 8 vectors, which one day fills; the years between are passed over
    (benchmarks/decade.py is the long form).
    """
    unit = Unit.parse("user-day")
    grid = TimeGrid.between(date(2024, 1, 1), date(2034, 1, 1), "5min", "Europe/Paris")
    known = StreamFacts(6, Calendar.of(grid), 1.0, 0.0, unit, 1000, 3)
    book = Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    book.add_dataset("made", Cap(epsilon=1.0, delta=1e-6), unit)
    scheme, ids = stream_scheme("comb", {"memory": 8}), np.array(list("abcdef"))
    request = StreamRequest("made", "long", scheme, known, grid, ids, tmp_path / "out")
    counts, rows, sizes, medians = np.arange(40, 100, 10), [], [], []
    for day in (0, 1, int(known.calendar.day[-1])):
        with LiveStream(book, request, resume=True) as live:
            first = int(np.searchsorted(known.calendar.day, day))
            live._standing = replace(live._standing, next_slot=first)
            spent = []
            for slot in range(first, first + 287):  # 288 would end the stream's last day
                begun = time.process_time()
                live.publish(slot, boxed(counts, known))
                spent.append(time.process_time() - begun)
            state = Store(book, live._release, live.key).load()[1]
        medians.append(float(np.median(spent)))
        sizes.append(sum(len(packed(value)) for value in state.values()))
        rows.append(len(book.entries()))
    assert abs(sizes[2] - sizes[1]) <= 256
    assert rows[0] == rows[1] == rows[2]
    assert medians[2] < 2 * medians[1], "twice: other work on the machine moves a slot by a half"
