"""How one release is judged: error beside simpler answers, level, and what its intervals hold.

Cells are told apart by the *published* count and by hour of day: whoever selects cells by the true
count fails an exact posterior too. All sums are kept, so that releases are averaged afterwards.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from benchmarks._levels_people import Population
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.density.registry import scheme_named
from sfumato.density.scheme import Density, PublicFacts
from sfumato.privacy.wall import Wall

Table = NDArray[np.float64]
BINS = (0.0, 1.0, 5.0, 20.0, 100.0, np.inf)
BIN_NAMES = ("0–1", "1–5", "5–20", "20–100", "> 100")
HOURS = 24
RIVAL = "paris"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One release beside the truth. Tallies are (cells, held, truth above, truth below)."""

    draw: int
    truth: float
    mae_median: float
    mae_count: float
    mae_margins: float | None
    total: float
    """The published total over the true one."""
    total_low: float | None
    total_high: float | None
    bins: list[list[int]] | None
    hours: list[list[int]] | None
    busy_hours: list[list[int]] | None
    """Hours of day, of cells with a published count of one or more."""
    asymmetric: list[int] | None
    """Misses of cells whose interval does not begin at zero, where a truth can be below it."""
    cpu: float

    @property
    def inside(self) -> bool | None:
        """Whether the true total lies in its interval."""
        if self.total_low is None or self.total_high is None:
            return None
        return self.total_low <= 1.0 <= self.total_high

    @property
    def half_width(self) -> float | None:
        """Half of the total's interval over the published total."""
        if self.total_low is None or self.total_high is None:
            return None
        return (self.total_high - self.total_low) / (2 * max(self.total, 1e-9))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def interval_of_total(density: Density) -> tuple[float, float] | None:
    """The 90 % interval of the sum of all counts, where a density has one."""
    if density.posterior is None:
        return None
    found = density.posterior.total(0.90)
    return found.lower, found.upper


def product_of_margins(density: Density, facts: PublicFacts) -> Table | None:
    """Noisy place totals times noisy slot totals of the release itself, at its own total.

    Negative totals become zero; towers are spread over zones by area. `None` for a scheme that
    measures no margins.
    """
    taken = {measured.label: measured for measured in density.measurements}
    if not {"place totals", "slot totals"} <= taken.keys():
        return None
    places, slots = (taken[label].estimate() for label in ("place totals", "slot totals"))
    if facts.overlay is not None:
        places = facts.overlay.to_zones(places)
    places, slots = np.maximum(places, 0.0), np.maximum(slots, 0.0)
    mass = max(float(places.sum() * slots.sum()), 1e-9)
    return np.outer(places, slots) * (float(density.values.sum()) / mass)


def seed_of(*parts: object) -> int:
    """Noise of one draw: another for every release that is judged."""
    return zlib.crc32("|".join(map(str, ("levels", *parts))).encode())


def judge(people: Population, density: Density, facts: PublicFacts, draw: int) -> Verdict:
    """One release beside the truth."""
    truth = people.truth
    values = np.asarray(density.values, dtype=np.float64)
    median = getattr(density, "median", None)
    margins = product_of_margins(density, facts)
    interval = interval_of_total(density)
    total = float(truth.sum())
    bins = hours = busy = asymmetric = None
    if density.lower is not None:
        above, below = truth > density.upper, truth < density.lower
        which = np.digitize(values, BINS[1:-1])
        clock = np.broadcast_to(
            np.array([start.hour for start in facts.grid.starts()]), values.shape
        )
        bins = _tally(which, len(BIN_NAMES), above, below)
        hours = _tally(clock, HOURS, above, below)
        some = values >= BINS[1]
        busy = _tally(clock[some], HOURS, above[some], below[some])
        (asymmetric,) = _tally((density.lower <= 0).astype(np.int64), 2, above, below)[:1]
    return Verdict(
        draw=draw,
        truth=total,
        mae_median=_mae(truth, values if median is None else median),
        mae_count=_mae(truth, values),
        mae_margins=None if margins is None else _mae(truth, margins),
        total=float(values.sum()) / total,
        total_low=None if interval is None else interval[0] / total,
        total_high=None if interval is None else interval[1] / total,
        bins=bins,
        hours=hours,
        busy_hours=busy,
        asymmetric=asymmetric,
        cpu=0.0,
    )


def drawn(
    people: Population, scheme: str, facts: PublicFacts, draws: Iterable[int], *name: object
) -> list[Verdict]:
    """Releases of one population, each judged, with the CPU-seconds each took."""
    found = []
    for draw in draws:
        wall = Wall.seeded(seed_of(*name, scheme, facts.epsilon, draw))
        start = time.process_time()
        with threadpool_limits(1):
            density = scheme_named(scheme).run(people.source, wall, facts)
        cpu = time.process_time() - start
        verdict = judge(people, density, facts, draw)
        found.append(Verdict(**{**verdict.as_json(), "cpu": cpu}))
    return found


def _mae(truth: Table, table: Table | NDArray[np.int64]) -> float:
    return float(np.abs(truth - table).mean())


def _tally(
    which: NDArray[np.int64], kinds: int, above: NDArray[np.bool_], below: NDArray[np.bool_]
) -> list[list[int]]:
    def count(mask: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        chosen = which.ravel() if mask is None else which[mask]
        return np.bincount(chosen, minlength=kinds)

    cells, high, low = count(None), count(above), count(below)
    table = np.column_stack((cells, cells - high - low, high, low))
    return [[int(x) for x in row] for row in table]


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over releases and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean:
        array = np.asarray(list(values), dtype=np.float64)
        error = array.std(ddof=1) / np.sqrt(array.size) if array.size > 1 else 0.0
        return cls(float(array.mean()), float(error))


def held(tallies: Iterable[list[int]]) -> Mean | None:
    """Coverage of pooled cells; the standard error takes each release as one observation.

    Where nearly all cells are of one or two releases nothing is known of it: the error is infinite.
    """
    table = np.asarray(list(tallies), dtype=np.float64)
    if not table.size or table[:, 0].sum() == 0:
        return None
    cells = table[:, 0]
    mean = table[:, 1].sum() / cells.sum()
    releases = cells.sum() ** 2 / np.square(cells).sum()
    if releases < _FEW_RELEASES:
        return Mean(float(mean), float("inf"))
    off = np.square(table[:, 1] - mean * cells).sum() * releases / (releases - 1)
    return Mean(float(mean), float(np.sqrt(off) / cells.sum()))


_FEW_RELEASES = 3.0
"""Releases, weighted by their cells, that a standard error needs."""


def pooled(tallies: Iterable[list[int]]) -> list[int]:
    """Sums over releases."""
    return [int(x) for x in np.sum(np.asarray(list(tallies), dtype=np.int64), axis=0)]


def one_sided(tallies: Iterable[list[int]]) -> bool:
    """Whether misses on one side exceed twice those on the other by more than two errors.

    A release's misses hang together (its level is off for all cells), so releases are what varies.
    """
    table = np.asarray(list(tallies), dtype=np.float64)
    if not table.size or table[:, 0].sum() == 0:
        return False
    more, less = (2, 3) if table[:, 2].sum() >= table[:, 3].sum() else (3, 2)
    beyond = Mean.of((table[:, more] - 2 * table[:, less]) / table[:, 0].mean())
    return beyond.mean > max(2 * beyond.error, _FEW_MISSES)


_FEW_MISSES = 0.01
"""Share of cells: less than this on the fuller side is no leaning."""


def verdict_of(row: Mapping[str, Any]) -> Verdict:
    """A verdict from its JSON form."""
    return Verdict(**row)
