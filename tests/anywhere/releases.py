"""Releases of a small town under a fixed key: every noisy integer and every published table.

    python tests/anywhere/releases.py OUT.npz

Run in a fresh process for each setting of linear algebra and vector instructions; `run.py`
compares. Names that begin with `noisy/` are what passed the wall and must be equal to the byte;
`table/` is what would be published.
"""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import date
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.audits.streams import StreamListener
from sfumato.city import CityPlan, write_city
from sfumato.density.registry import SCHEMES
from sfumato.density.request import request
from sfumato.engine.open import opened_source
from sfumato.errors import UsageError
from sfumato.geography.places import PlaceOptions
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.events import Tab, Unit
from sfumato.privacy.noise import KeyedStream
from sfumato.privacy.noise.planar import Strength, planar_laplace
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts
from sfumato.streams.registry import SCHEMES as STREAMS
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import run_on
from sfumato.streams.scheme import Meter

KEY = bytes(range(64, 96))
PARAMETERS: dict[str, list[dict[str, bool | int | float | str]]] = {
    "paris": [{}, {"space": "cover", "keep": "exponential"}, {"noise": "laplace"}],
}
STRONG = 30.0
"""An epsilon at which every layer of `bayes` finds something."""
Found = dict[str, np.ndarray]


def densities(home: Path) -> Found:
    """Every scheme on towers and zones of one small town, two days of six-hour slots."""
    plan = CityPlan(users=1500, towers=14, zones=9, area_km2=4, days=2, seed=11)
    write_city(plan, home)
    found: Found = {}
    for name in SCHEMES:
        given = PARAMETERS.get(name, [{}])
        cases = [*((each, 2.0) for each in given), (given[0], STRONG)]
        for number, (parameters, epsilon) in enumerate(cases):
            asked = request(
                places=PlaceOptions(home / "towers.csv", home / "zones.geojson"),
                grid=TimeGrid.between(date(2007, 9, 10), date(2007, 9, 12), "2h", "Europe/Paris"),
                dataset="town",
                name="anywhere",
                epsilon=epsilon,
                delta=1e-5,
                expected_users=1500,
                scheme=name,
                parameter=parameters,
            )
            events = home / "events.parquet"
            with (
                opened_source(events, asked.counted, asked.facts.grid, tz="Europe/Paris") as source,
                threadpool_limits(1),
            ):
                made = SCHEMES[name].run(source, Wall(Tab(), KEY), asked.facts)
            for measured in made.measurements:
                found[f"noisy/{name}-{number}/{measured.label}"] = measured.values
            for part in ("values", "median", "lower", "upper"):
                if getattr(made, part) is not None:
                    found[f"table/{name}-{number}/{part}"] = getattr(made, part)
    return found


def streams() -> Found:
    """Every scheme of streams on three made-up days."""
    counts = np.random.default_rng(2).integers(0, 90, (24, 12))
    found: Found = {}
    for name in STREAMS:
        for unit in ("user-day", "w-event:5"):
            facts = StreamFacts(12, Calendar.regular(24, 8), 1.0, 1e-6, Unit.parse(unit), 1000, 4)
            scheme = stream_scheme(name)
            try:
                meter = Meter(scheme.plan(facts).accounts, facts)
            except UsageError:  # a scheme that knows no sliding windows
                continue
            wall = StreamListener(meter, KEY)
            with threadpool_limits(1):
                made = run_on(wall, meter, scheme, facts, counts)
            for step in wall.steps:
                found[f"noisy/{name} {unit}/{step.label}"] = step.answer
            for run in wall.runs:
                found[f"noisy/{name} {unit}/{run.label}"] = np.array(run.answers)
            found[f"table/{name} {unit}/values"] = made.values
    return found


def traces() -> Found:
    """Noisy reports, on their lattice."""
    rng = np.random.default_rng(3)
    lon, lat = rng.uniform(2.2, 2.5, 400), rng.uniform(48.8, 48.9, 400)
    stream = KeyedStream(KEY, "traces")
    east, north = planar_laplace(lon, lat, Strength.from_noise(100.0), stream)
    return {"table/traces/lon": east, "table/traces/lat": north}


def main(out: str) -> None:
    with tempfile.TemporaryDirectory(prefix="sfumato-anywhere-") as home:
        found = {**densities(Path(home)), **streams(), **traces()}
    np.savez(out, **found)


if __name__ == "__main__":
    main(sys.argv[1])
