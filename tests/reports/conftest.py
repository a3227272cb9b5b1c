"""A small made-up release on a generated city, written as a release folder is."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from tests.reports.browsing import Browser, Firefox, NotStarted, Page, missing
from tests.statements import seal

from sfumato.city import CityPlan, build_city
from sfumato.io.write import write_arrays, write_parquet
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid
from sfumato.published.manifest import GridFacts
from sfumato.published.posterior import POSTERIOR, packed
from sfumato.published.tables import long_table

LIFETIME = {"releases": 3, "rho": None, "epsilon": 0.52, "delta": 1e-6, "method": "zcdp"}
SPENT = {
    "datasets": ["Example subscribers"],
    "lifetime": LIFETIME,
    "worst_period": LIFETIME,
    "worst_period_is": None,
    "caps": [],
}
MANIFEST: dict[str, Any] = {
    "release": {
        "id": "3f1c2a9b",
        "name": "Week 37 in Example City",
        "dataset": "Example subscribers",
        "reserved_at": "2026-05-04T09:00:00+00:00",
    },
    "privacy": {
        "neighbours": "add or remove one person's whole record",
        "bound": "Each person's week is scaled to a norm of at most 3.",
        "epsilon": 0.3,
        "delta": 2e-7,
        "cumulative": SPENT,
    },
    "scheme": {"name": "bayes", "interval_coverage": 0.95},
    "caveats": ["Busy people count for less than they did."],
    "not_covered": ["Facts about groups that would be just as true without any one person."],
}


def week(zones: int, grid: TimeGrid, seed: int) -> np.ndarray:
    """Zone x slot means with days, weekends, offices and homes."""
    rng = np.random.default_rng(seed)
    hours = np.array([t.hour + t.minute / 60 for t in grid.starts()])
    weekend = np.array([t.weekday() >= 5 for t in grid.starts()])
    late = (hours - 20) % 24 - 24 * ((hours - 20) % 24 > 12)
    day = np.exp(-(((hours - 13.5) / 4.5) ** 2)) * np.where(weekend, 0.55, 1)
    evening = np.exp(-((late / 4.5) ** 2)) * np.where(weekend, 1.1, 0.9)
    office = rng.beta(0.7, 1.3, zones)[:, None]
    level = rng.lognormal(5.1, 0.55, zones)[:, None]
    return np.asarray(level * (0.08 + 1.2 * office * day + (1 - office) * evening))


def made_posterior(
    counts: np.ndarray, sd: float, rng: np.random.Generator, fields: int = 6
) -> dict[str, Any]:
    """Errors of the level, of places, of slots and of some rhythms, and chance, out of thin air."""
    (zones, slots), pairs = counts.shape, 32
    hours = np.arange(slots)[:, None] * np.arange(1, fields + 1)
    return packed(
        0.01 * rng.standard_normal(pairs),
        0.05 * rng.standard_normal((pairs, zones)),
        0.03 * rng.standard_normal((pairs, slots)),
        (0.4 * sd * rng.standard_normal((pairs, zones, fields)) * _strong(fields)).astype(
            np.float32
        ),
        np.cos(2 * np.pi * hours / slots),
        0.5 * counts + 0.1 * sd**2,
        np.ones(zones),
        0.9,
    )


def _strong(fields: int) -> np.ndarray:
    """How strong fields are beside the first: those of real releases are never quite faint."""
    return np.maximum(1 / np.arange(1, fields + 1), 0.2)


def write_release(
    folder: Path,
    places: Places,
    districts: list[str] | None = None,
    *,
    start: date = date(2007, 9, 10),
    days: int = 7,
    tz: str = "Europe/Paris",
    step: str = "1h",
    seed: int = 1,
    sd: float = 12.0,
    manifest: dict[str, Any] | None = None,
    with_zones: bool = True,
    counts: np.ndarray | None = None,
    intervals: bool | list[np.ndarray] = True,
    medians: bool = False,
    sums: bool | dict[str, Any] = False,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    grid = TimeGrid.between(start, start + timedelta(days=days), step, tz)
    rng = np.random.default_rng([seed, 7])
    if counts is None:
        truth = week(len(places), grid, seed)
        counts = np.maximum(truth + rng.normal(0, sd, truth.shape), 0)
    half = 1.96 * sd * (0.8 + 0.4 * rng.random((len(places), 1)))
    n = len(places)
    further = {"lower": np.maximum(counts - half, 0), "upper": counts + half} if intervals else {}
    if isinstance(intervals, list):
        further = dict(zip(("lower", "median", "upper"), intervals, strict=True))
        medians = True
    elif medians:
        further["median"] = np.maximum(counts - 0.1 * half, 0)
    write_parquet(folder / "density.parquet", long_table(places.ids, grid, counts, **further))
    if sums:
        made = made_posterior(counts, sd, rng) if sums is True else sums
        write_arrays(folder / POSTERIOR, made)
    if with_zones:
        features = [
            {
                "type": "Feature",
                "properties": {
                    "zone_id": str(places.ids[k]),
                    "name": str(places.names[k]),
                    "district": districts[k] if districts else None,
                },
                "geometry": json.loads(shapely.to_geojson(places.geometry[k])),
            }
            for k in range(n)
        ]
        collection = {"type": "FeatureCollection", "features": features}
        (folder / "zones.geojson").write_text(json.dumps(collection), "utf-8")
    about = {"grid": GridFacts.of(grid).model_dump(), "released": {"kind": "zones", "count": n}}
    scheme = MANIFEST["scheme"] | {"median": medians}
    return seal(folder, MANIFEST | {"scheme": scheme} | about | (manifest or {}))


def city_release(folder: Path, zones: int, **options: Any) -> Path:
    """A release about a generated city of so many zones."""
    city = build_city(CityPlan(users=2_000, towers=max(60, zones), zones=zones, seed=7))
    names = [str(name) for name in city.zones.names]
    return write_release(folder, city.zones, [n.partition(",")[0] for n in names], **options)


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty zones, one week, hourly."""
    return city_release(tmp_path_factory.mktemp("release") / "week-37", 60)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium: one for all tests of pages."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    reason = missing("firefox")
    if reason:
        pytest.skip(reason)
    try:
        made = Firefox(tmp_path_factory.mktemp("firefox"))
    except NotStarted as why:
        pytest.skip(str(why))
    yield made
    made.close()


@pytest.fixture(
    params=[
        pytest.param("browser", id="chromium"),
        pytest.param("firefox", id="firefox", marks=pytest.mark.slow),  # it takes seconds to start
    ]
)
def reader(request: pytest.FixtureRequest) -> Page:
    """Each browser that is installed, by turns; Firefox with `make audit`."""
    made: Page = request.getfixturevalue(request.param)
    return made


@pytest.fixture
def make_release() -> Callable[..., Path]:
    return write_release


@pytest.fixture(scope="session")
def node() -> str:
    """Node.js, which runs the page's own scripts outside a browser."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("Node.js is not installed, so the page's scripts are not tested")
    return found


@pytest.fixture
def read_page(node: str) -> Callable[[Path], list[dict[str, Any]]]:
    """What the page's own script decodes from a page, read without a browser."""

    def read(page: Path) -> list[dict[str, Any]]:
        script = Path(__file__).parent / "js" / "read_page.mjs"
        done = subprocess.run(
            [node, str(script), str(page)], capture_output=True, text=True, check=True
        )
        shown: list[dict[str, Any]] = json.loads(done.stdout)
        return shown

    return read
