"""True trips that were made up, public facts about them, and a run of a method on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.transcript import ListeningWall, Step
from sfumato.density.scheme import PublicFacts
from sfumato.model.time_grid import TimeGrid, period_of
from sfumato.model.traces import Box, Traces, make_traces
from sfumato.privacy.events import Tab
from sfumato.synthesis.method import Noisy, SynthFacts, settings_of
from sfumato.synthesis.registry import method_named
from sfumato.traces.bounds import TraceSource

METHODS = ("fit", "ngrams", "prefix", "dpt", "adatrace")
BOX = Box(2.2, 48.8, 2.5, 49.0)
GRID: TimeGrid = period_of("2024-03-04", "2024-03-06", "1h", "Europe/Paris")
Floats = NDArray[np.float64]
Trip = tuple[Floats, Floats]


def towns_trips(count: int, seed: int = 1) -> list[Trip]:
    """Trips between two quarters of a town."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        size = int(rng.integers(3, 12))
        ends = rng.normal([[2.3, 48.88], [2.4, 48.93]], 0.02)
        part = np.linspace(0, 1, size)[:, None]
        points = ends[0] + (ends[1] - ends[0]) * part + rng.normal(0, 0.003, (size, 2))
        found.append((points[:, 0], points[:, 1]))
    return found


def hostile_trips() -> dict[str, Trip]:
    """Trips that nobody makes."""
    rng = np.random.default_rng(7)
    many = 3000
    there = np.where(np.arange(many) % 2, 2.21, 2.49)
    nothing = np.full(5, np.nan)
    return {
        "one point": (np.array([2.35]), np.array([48.9])),
        "thousands of points": (rng.uniform(2.2, 2.5, many), rng.uniform(48.8, 49.0, many)),
        "to and fro": (there, np.full(many, 48.85)),
        "outside": (rng.uniform(3, 4, 9), rng.uniform(40, 41, 9)),
        "in and out": (np.linspace(2.0, 2.7, 40), np.linspace(48.7, 49.1, 40)),
        "nowhere": (nothing, nothing),
        "edges": (np.array([2.2, 2.5, 2.5, 2.2]), np.array([48.8, 48.8, 49.0, 49.0])),
        "standing": (np.full(50, 2.4), np.full(50, 48.91)),
    }


def traces_of(trips: Sequence[Trip]) -> Traces:
    size = np.array([lon.size for lon, _ in trips], np.int64)
    user = np.repeat(np.arange(size.size), size)
    rank = np.arange(user.size) - np.repeat(np.cumsum(size) - size, size)
    time = GRID.period[0] + (user * 977 % 80_000 + rank * 10) * 1_000_000
    names = np.array([str(number) for number in range(size.size)], dtype=object)
    lon, lat = (np.concatenate([trip[side] for trip in trips]) for side in (0, 1))
    made, _ = make_traces(user, names, time, lon, lat, trip=np.zeros(user.size, np.int64))
    return made


def facts_of(name: str, epsilon: float = 40.0, people: int = 50, seed: int = 3) -> SynthFacts:
    """Epsilon is large, so that trees grow and tables are fine with few trips."""
    method = method_named(name)
    public = PublicFacts(
        place_ids=np.empty(0, dtype=np.str_),
        grid=GRID,
        epsilon=epsilon,
        delta=1e-3,
        expected_users=500,
        unit=method.declares.unit,
    )
    given = {"candidates": 1000} if name == "fit" else {}
    return SynthFacts(public, people, seed, settings_of(method, given), box=BOX)


def measured(
    name: str, trips: Sequence[Trip], facts: SynthFacts, answers: Sequence[Step] = ()
) -> tuple[Noisy, ListeningWall, Tab]:
    tab = Tab()
    wall = ListeningWall(tab, bytes(range(32)), answers)
    noisy = method_named(name).measure(TraceSource(traces_of(trips)), wall, facts)
    return noisy, wall, tab


def people_of(name: str, noisy: Noisy, facts: SynthFacts) -> list[Any]:
    """Columns of all made-up records."""
    chunks = list(method_named(name).generate(noisy, facts))
    columns = ("user", "time", "lon", "lat", "trip")
    return [np.concatenate([getattr(chunk, column) for chunk in chunks]) for column in columns]
