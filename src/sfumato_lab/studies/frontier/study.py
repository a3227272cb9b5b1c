"""`sfumato reproduce frontier`: all methods, cities, sizes and epsilons, drawn and judged.

Also judged: how well a one-off crowd is told (the cells that a match fills, released over true),
and our schemes on the population of real aggregates, apart by the size of zones.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.attacks.report import study_page
from sfumato.city.write import STATEMENT
from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Density, PublicFacts
from sfumato.io.write import write_bytes
from sfumato.model.counts import WeightBound
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.wall import Wall
from sfumato.utility import density
from sfumato.utility.density import interval_coverage
from sfumato.utility.earth_mover import earth_mover_series
from sfumato_lab.studies.frontier.cities import (
    FILE,
    SEEDS,
    SMALL_USERS,
    Kind,
    plan_of,
    real_aggregates,
)
from sfumato_lab.studies.frontier.methods import (
    BAYES,
    METHODS,
    PAPER_STEPS,
    PARIS,
    PRINTED,
    Found,
    Method,
    Setting,
)
from sfumato_lab.studies.frontier.oracle import Oracle
from sfumato_lab.studies.frontier.output import Record, Row, as_markdown, draw_frontier
from sfumato_lab.studies.paris.setup import Stage, make_city, open_city

Table = NDArray[np.float64]
TIMES_USUAL = 3.0
"""A cell belongs to the crowd where it holds this many times what it does on other days."""


def crowd_cells(folder: Path, grid: TimeGrid, truth: Table) -> NDArray[np.bool_] | None:
    """Zone x slot: where and when the match was; None for a city without one."""
    match = json.loads((folder / STATEMENT).read_text("utf-8"))["plan"]["match"]
    if match is None:
        return None
    starts = grid.starts()
    day = np.array([(s.date() - starts[0].date()).days for s in starts])
    hour = np.array([s.hour for s in starts])
    within = (hour >= match["hour"]) & (hour < match["hour"] + match["hours"])
    found = np.zeros(truth.shape, dtype=np.bool_)
    usual = np.array(
        [truth[:, (hour == h) & (day != match["day"])].mean(axis=1) for h in range(24)]
    )
    for slot in np.flatnonzero(within & (day == match["day"])):
        base = usual[hour[slot]]
        found[:, slot] = truth[:, slot] > TIMES_USUAL * np.maximum(base, 1.0)
    return found


def crowd_bias(truth: Table, released: Table, cells: NDArray[np.bool_] | None) -> float | None:
    """Relative error of the crowd's total."""
    if cells is None or not cells.any():
        return None
    return float(released[cells].sum() / truth[cells].sum() - 1.0)


SERVED = 5.0
"""Mean visits an hour from which relative errors of a zone mean something."""
LARGE = f"real aggregates, zones of {SERVED:g} and more an hour"
SMALL = "real aggregates, smaller zones"
SCHEMES = ("gaussian", "paris", "bayes")
EPSILONS = (0.1, 0.3, 1.0)
REAL_DELTA, DRAWS, SEED = 2e-6, 2, 16
GAUSSIAN_LIMIT = 4.0


def real_study(data: Path, record: Record, tell: Callable[[str, float], None]) -> None:
    """Draw what the record lacks."""
    made = real_aggregates(data, SEED, EPSILONS[0], REAL_DELTA)
    people = made.facts.expected_users or 0
    large = made.truth.mean(axis=1) >= SERVED
    todo = [
        (draw, epsilon, name)
        for draw in range(DRAWS)
        for epsilon in EPSILONS
        for name in SCHEMES
        if not record.has((LARGE, people, epsilon, name, draw))
    ]
    for done, (draw, epsilon, name) in enumerate(todo):
        tell(f"real aggregates: {name}, ε {epsilon:g}", done / len(todo))
        facts: PublicFacts = replace(made.facts, epsilon=epsilon)
        if name == "gaussian":
            facts = replace(facts, bound=WeightBound(GAUSSIAN_LIMIT))
        wall = Wall.seeded(zlib.crc32(f"{name}|{draw}".encode()))
        start = time.process_time()
        with threadpool_limits(1):
            found = scheme_named(name).run(made.source, wall, facts)
        cpu = time.process_time() - start
        for city, rows in ((LARGE, large), (SMALL, ~large)):
            truth, table = made.truth[rows], np.asarray(found.values, dtype=np.float64)[rows]
            figures = (
                float(density.mean_relative_error(truth, table).mean()),
                float(density.pearson(truth, table).mean()),
            )
            coverage = _coverage(truth, found, rows)
            record.add(
                [Row(city, people, epsilon, name, draw, *figures, None, coverage, None, cpu)]
            )


def _coverage(
    truth: NDArray[np.float64], found: Density, rows: NDArray[np.bool_] | slice = slice(None)
) -> float | None:
    """Share of counts published from 20 inside their interval; `None` where there is none."""
    if found.lower is None or found.upper is None:
        return None
    values = np.asarray(found.values[rows], dtype=np.float64)
    judged = interval_coverage(truth, found.lower[rows], found.upper[rows], values)
    return judged.get("coverage_from_20")


Tell = Callable[[str, float], None]
DELTA = 2e-6
NUMBERS, TABLE, PLOT = (
    "frontier.internal.jsonl",
    "frontier.internal.md",
    "frontier.internal.png",
)
BARRED = (PRINTED, PAPER_STEPS, PARIS, BAYES)


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is to be done."""

    users: tuple[int, ...] = (2_000_000, 200_000)
    kinds: tuple[Kind, ...] = tuple(Kind)
    epsilons: tuple[float, ...] = (0.1, 0.3, 1.0)
    draws: int = 5
    """Of the methods in the ordinary city that bars are stated for."""
    draws_elsewhere: int = 2
    emd_every: int = 7
    """Of 168 hours every seventh meets each hour of the day once."""
    towers: int = 1_303
    zones: int = 989

    def covers(self, row: Row) -> bool:
        """Whether these settings would draw that row; real aggregates are always drawn."""
        if row.city not in tuple(Kind):
            return True
        right_size = row.city == Kind.SMALL or row.users in self.users
        return row.city in self.kinds and right_size and row.epsilon in self.epsilons

    def draws_of(self, kind: Kind, method: Method) -> int:
        """More where a bar is stated: our own forms in the ordinary city."""
        barred = kind is Kind.ORDINARY and method.labels[0] in BARRED
        return max(self.draws, self.draws_elsewhere) if barred else self.draws_elsewhere


@dataclass(frozen=True, slots=True)
class _City:
    kind: Kind
    users: int
    folder: Path


def study(settings: Settings, out: Path, record: Record, tell: Tell) -> None:
    """Draw what the record lacks; every draw is on the disk before the next one begins."""
    todo = [city for city in _cities(settings, out) if _missing(settings, city, record)]
    whole = sum(len(_missing(settings, city, record)) for city in todo)
    done = 0
    for city in todo:
        name = f"{city.kind}, {city.users:,} people"
        tell(name, done / whole)
        plan = plan_of(city.kind, city.users, towers=settings.towers, zones=settings.zones)
        make_city(plan, city.folder)
        stage = open_city(city.folder, SEEDS[city.kind])
        judge = Judge(stage, city, settings.emd_every)
        for epsilon, method, number in _missing(settings, city, record):
            tell(f"{name}: {method.labels[0]}, ε {epsilon:g}", done / whole)
            setting = Setting(stage, judge.oracle, epsilon, DELTA, number)
            start = time.process_time()
            with threadpool_limits(1):
                found = method.draw(setting)
            spent = time.process_time() - start
            record.add(judge.row(label, found[label], setting, spent) for label in found)
            done += 1
    tell("done", 1.0)


def _cities(settings: Settings, out: Path) -> Iterator[_City]:
    for kind in settings.kinds:
        for users in (SMALL_USERS,) if kind is Kind.SMALL else settings.users:
            yield _City(kind, users, out / "cities" / f"{kind.folder}-{users}")


def _missing(settings: Settings, city: _City, record: Record) -> list[tuple[float, Method, int]]:
    return [
        (epsilon, method, draw)
        for draw in range(max(settings.draws, settings.draws_elsewhere))
        for epsilon in settings.epsilons
        for method in METHODS
        if draw < settings.draws_of(city.kind, method)
        and not all(
            record.has((city.kind.value, city.users, epsilon, label, draw))
            for label in method.labels
        )
    ]


def finish(
    record: Record, out: Path, data: Path | None, tell: Tell, *, figures: bool = True
) -> None:
    """Real aggregates where they are, then the table and the plot."""
    if data is not None and (data / FILE).is_file():
        tell("real aggregates", 0.0)
        real_study(data, record, tell)
    write_bytes(out / TABLE, as_markdown(record.rows).encode())
    if figures:
        draw_frontier(record.rows, out / PLOT)
    study_page(out / TABLE, [out / PLOT] if figures else [])


class Judge:
    """The truth of one city."""

    def __init__(self, stage: Stage, city: _City, emd_every: int) -> None:
        self._stage, self._city, self._every = stage, city, emd_every
        self._crowd: NDArray[np.bool_] | None = crowd_cells(city.folder, stage.grid, stage.truth)
        self.oracle = Oracle(stage.truth)

    def row(self, label: str, found: Found, setting: Setting, cpu: float) -> Row:
        """Figures of one table."""
        truth, every = self._stage.truth, self._every
        table = np.asarray(found.values if isinstance(found, Density) else found, dtype=np.float64)
        moved = earth_mover_series(truth[:, ::every], table[:, ::every], self._stage.metres).metres
        coverage = _coverage(truth, found) if isinstance(found, Density) else None
        return Row(
            city=self._city.kind.value,
            users=self._city.users,
            epsilon=setting.epsilon,
            method=label,
            draw=setting.repetition,
            mre=float(density.mean_relative_error(truth, table).mean()),
            pearson=float(density.pearson(truth, table).mean()),
            emd=float(np.nanmean(moved)) if np.isfinite(moved).any() else None,
            coverage=coverage,
            crowd=crowd_bias(truth, table, self._crowd),
            cpu=cpu,
        )
