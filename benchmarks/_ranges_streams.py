"""Sums over areas and slots of smoothed streams: whether their intervals hold."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from benchmarks.live import _superposed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.io.write import write_arrays
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.events import Unit
from sfumato.privacy.wall import Wall
from sfumato.published.posterior import unpacked
from sfumato.published.tables import write_long_tables
from sfumato.streams.facts import StreamFacts, windows_to_show
from sfumato.streams.replay import boxed
from sfumato.streams.scheme import Meter
from sfumato.streams.schemes.smoother.scheme import Smoother
from sfumato_lab.studies.moving.cities import City, cabspotting_city, crowd_city

Table = NDArray[np.float64]
STREAMS = {"stream: crowd of 20,000": 7_903, "stream: crowd of 130,000": 7_904}
STREAMS |= {"stream: ten fleets": 7_005}
"""Seeds of feeds that settled nothing; those of docs/benchmarks/finished.md have others. Fleets are
made of all 21 days of cabs, most of which are development days: there are no others."""
DRAWS, RANGES, LEAST = 5, 1_000, 10.0
_HOUR = timedelta(hours=1)


def feed(case: str) -> City:
    """A week."""
    if case != "stream: ten fleets":
        return crowd_city(7, int(case.split()[-1].replace(",", "")), STREAMS[case])
    data = Path(os.environ["SFUMATO_DATA"]) / "cabspotting_sf" / "cabspotting_sf_2008.parquet"
    return _superposed(cabspotting_city(data), STREAMS[case])


def judged_stream(
    case: str, epsilon: float, sums: Callable[[Table, Table, Table], Table]
) -> list[dict[str, float]]:
    """Streams of one feed, each with noise of its own."""
    city = feed(case)
    counts = city.stream
    assert city.columns is not None
    truth = counts.T.astype(np.float64)
    cells, slots = truth.shape
    unit = Unit.parse("user-day")
    facts = StreamFacts(cells, city.calendar, epsilon, 0.0, unit, city.people, city.columns)
    rng = np.random.default_rng(20_240_601)
    x, y = np.arange(cells) % city.columns, np.arange(cells) // city.columns
    middle = rng.choice(cells, RANGES, p=truth.sum(axis=1) / truth.sum())
    reach = rng.uniform(1, 6, RANGES)
    away = np.hypot(x - x[middle][:, None], y - y[middle][:, None])
    places = (away <= reach[:, None]).astype(np.float64)
    hours = rng.integers(1, 49, RANGES)
    first, slot = rng.integers(0, slots - hours + 1), np.arange(slots)
    times = ((slot >= first[:, None]) & (slot < (first + hours)[:, None])).astype(np.float64)
    asked = sums(places, truth, times)
    pairs = list(zip(range(0, RANGES, 2), range(1, RANGES, 2), strict=True))
    rows = []
    for draw in range(DRAWS):
        scheme = Smoother()
        meter = Meter(scheme.plan(facts).accounts, facts)
        wall, publisher = Wall.seeded(7_500 + draw, meter), scheme.publisher(facts)
        made = []
        with threadpool_limits(1):
            for number, row in enumerate(counts):
                for begin, stop in windows_to_show(facts, number, publisher.ahead):
                    publisher.prepare(boxed(counts[begin:stop].T, facts), begin, wall)
                made.append(publisher.publish(number, boxed(row, facts), wall, meter))
            values = np.round(np.stack([one.values for one in made], axis=1), 3)
            arrays = publisher.joint().arrays(0.9)
        factors = unpacked(arrays, values)
        value, low, high = factors.estimates(places, times)
        apart, share = [], []
        for a, b in pairs:
            drawn = factors.samples(places[[a, b]], times[[a, b]])
            ends = np.quantile(drawn[:, 0] - drawn[:, 1], (0.05, 0.95))
            apart.append(ends[0] <= asked[a] - asked[b] <= ends[1])
            if min(asked[a], asked[b]) >= LEAST:
                ends = np.quantile(drawn[:, 0] / np.maximum(drawn[:, 1], 1e-9), (0.05, 0.95))
                share.append(ends[0] <= asked[a] / asked[b] <= ends[1])
        began = time.perf_counter()
        factors.estimate(np.ones(cells), np.ones(slots))
        took = time.perf_counter() - began
        many = asked >= LEAST
        layers = {
            name: np.stack([np.asarray(getattr(one, name)) for one in made], axis=1)
            for name in ("median", "lower", "upper")
        }
        grid = TimeGrid(3_600_000_000 * np.arange(slots + 1), _HOUR, "UTC")
        with TemporaryDirectory() as folder:
            home = Path(folder)
            write_arrays(home / "posterior.npz", arrays)
            ids = np.array([f"{cell:05d}" for cell in range(cells)])
            write_long_tables(home, ids, grid, values, csv=None, **layers)
            sizes = [(home / f).stat().st_size for f in ("posterior.npz", "density.parquet")]
        rows.append(
            {
                "stated": float(scheme.plan(facts).joint),
                "sums": float(((asked >= low) & (asked <= high)).mean()),
                "differences": float(np.mean(apart)),
                "ratios": float(np.mean(share)),
                "mre": float((np.abs(value - asked)[many] / asked[many]).mean()),
                "half": float(np.median((high - low)[many] / 2 / asked[many])),
                "size": sizes[0] / sizes[1],
                "milliseconds": 1_000 * took,
            }
        )
    return rows
