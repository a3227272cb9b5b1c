"""The city that the studies of Paris are about, and its histograms of towers (Figure 6).

The city is public geometry, counts asked once, and the truth. Figure 6: the towers' shares from one
random visit of each user, or from all visits.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.city import CityPlan, write_city
from sfumato.city.write import EVENTS, STATEMENT, TOWERS, ZONES
from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.geography.cover import Cover, minimum_cover
from sfumato.geography.overlay import Overlay, layout_of_cells, layout_of_zones, overlay
from sfumato.geography.voronoi import Cells, voronoi_cells
from sfumato.io.events import read_events
from sfumato.io.towers import read_towers
from sfumato.io.zones import read_zones
from sfumato.model.counts import Counting, SampleBound
from sfumato.model.places import Places
from sfumato.model.source import RememberingSource
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.door import open_private
from sfumato.utility import density
from sfumato_lab.as_printed.paris import VISIT_CAP, Ground, OpenedCounts

Table = NDArray[np.float64]


@dataclass(frozen=True)
class Stage:
    """A city with its zones, towers and records. It holds true counts."""

    users: int
    towers: Places
    zones: Places
    grid: TimeGrid
    source: RememberingSource
    cells: Cells
    seed: int
    zone: str | None = None

    @cached_property
    def overlay(self) -> Overlay:
        return overlay(self.cells, self.zones)

    @cached_property
    def cover(self) -> Cover:
        return minimum_cover(self.overlay)

    @cached_property
    def at_towers(self) -> NDArray[np.int64]:
        """True visits, tower x slot."""
        return open_private(self.source.exact(Counting.VISITS)).values

    @cached_property
    def truth(self) -> Table:
        """True visits, zone x slot, by the shares of the towers' cells."""
        return self.overlay.to_zones(self.at_towers)

    @cached_property
    def metres(self) -> Table:
        """Distances between the centres of zones."""
        centres = layout_of_zones(self.zones).centres
        found: Table = np.linalg.norm(centres[:, None] - centres[None], axis=2)
        return found

    @cached_property
    def ground(self) -> Ground:
        """The public side, as the printed schemes want it."""
        return Ground(
            self.overlay,
            self.cover,
            layout_of_zones(self.zones),
            layout_of_cells(self.cells),
            self.grid.starts(),
        )

    def one_visit(self, repetition: int = 0) -> NDArray[np.int64]:
        """One random visit of each user, by tower."""
        key = self._key(f"one visit|{repetition}")
        drawn = open_private(self.source.sampled(SampleBound(1), key))
        return np.asarray(drawn.values.sum(axis=1))

    def opened(self, limit: int, repetition: int = 0) -> OpenedCounts:
        """The printed schemes' input: each repetition has samples of its own.

        All methods and every epsilon of a repetition share them, so they are drawn once.
        """
        key = self._key(f"series|{repetition}")
        drawn = open_private(self.source.sampled(SampleBound(limit), key))
        total = int(self.at_towers.sum())
        return OpenedCounts(drawn.values, limit, self.one_visit(repetition), self.users, total)

    def facts(self, epsilon: float, delta: float) -> PublicFacts:
        """What a corrected scheme is told; the number of people is rounded, as a holder would."""
        rough = round(self.users, 1 - len(str(self.users)))
        return PublicFacts(
            self.towers.ids,
            self.grid,
            epsilon,
            min(delta, 0.5 / rough),
            rough,
            overlay=self.overlay,
            layout=layout_of_cells(self.cells),
            zone_layout=layout_of_zones(self.zones),
        )

    @property
    def example(self) -> int:
        """The zone of the single-zone figures: the chosen one, or that with the median total."""
        if self.zone is not None:
            return int(np.flatnonzero(self.zones.ids == self.zone)[0])
        totals = self.truth.sum(axis=1)
        return int(np.argsort(totals, kind="stable")[totals.size // 2])

    @property
    def outlines(self) -> NDArray[np.object_]:
        """Zones on the plane, for maps."""
        return np.asarray(self.cells.projection.shapes(self.zones.geometry), dtype=object)

    @property
    def tower_outlines(self) -> NDArray[np.object_]:
        """Cells of towers on the plane; empty where a tower has none."""
        shapes = np.array(self.cells.epochs[0].polygons, dtype=object)
        shapes[shapely.is_missing(shapes)] = shapely.Polygon()
        return shapes

    def _key(self, label: str) -> bytes:
        return hashlib.sha256(f"reproduction|{self.seed}|{label}".encode()).digest()


def make_city(plan: CityPlan, folder: Path) -> None:
    """Write the city, unless the folder already holds that very one."""
    if (folder / STATEMENT).is_file():
        known = json.loads((folder / STATEMENT).read_text("utf-8"))["plan"]
        wanted: dict[str, Any] = {"users": plan.users, "seed": plan.seed, "days": plan.days}
        wanted["geometry"] = plan.geometry.value
        if any(known.get(key) != value for key, value in wanted.items()):
            raise UsageError(
                f"{folder} holds another city.", remedy="Remove it, or choose another `out`."
            )
        return
    write_city(plan, folder)


def open_city(folder: Path, seed: int = 1, zone: str | None = None) -> Stage:
    """A folder that `sfumato city` made; `zone` is the one that single-zone figures show."""
    statement = json.loads((folder / STATEMENT).read_text("utf-8"))
    plan = statement["plan"]
    defaults = CityPlan()
    grid = CityPlan(
        start=type(defaults.start).fromisoformat(plan["start"]), days=plan["days"], tz=plan["tz"]
    ).grid
    zones = read_zones(folder / ZONES)
    if zone is not None and zone not in zones.ids:
        raise UsageError(
            f"There is no zone {zone!r}.", remedy=f"They are called like {zones.ids[0]}."
        )
    towers = read_towers(folder / TOWERS, zones=zones)
    source = LocalSource(read_events(folder / EVENTS), towers, grid)
    return Stage(
        users=int(statement["scale"]["users"]),
        towers=towers,
        zones=zones,
        grid=grid,
        source=RememberingSource(source),
        cells=voronoi_cells(towers, zones, period=grid),
        seed=seed,
        zone=zone,
    )


@dataclass(frozen=True, slots=True)
class HistogramScore:
    """Means over repetitions of the divergence of shares (bits) and of the totals' MRE."""

    epsilon: float
    sampling: bool
    divergence: float
    mre: float


def histogram_study(
    stage: Stage, epsilons: tuple[float, ...], repetitions: int
) -> list[HistogramScore]:
    """Both ways at each epsilon, which is the scaling's own budget."""
    truth = stage.at_towers.sum(axis=1).astype(np.float64)
    rng = np.random.default_rng([stage.seed, 6])
    return [
        _score(truth, epsilon, sampling, repetitions, stage, rng)
        for epsilon in epsilons
        for sampling in (True, False)
    ]


def _score(
    truth: Table,
    epsilon: float,
    sampling: bool,
    repetitions: int,
    stage: Stage,
    rng: np.random.Generator,
) -> HistogramScore:
    divergence, error = [], []
    for repetition in range(repetitions):
        if sampling:
            drawn = stage.one_visit(repetition) + rng.laplace(0, 2 / epsilon, truth.size)
            found = drawn / stage.users * (truth.sum() + rng.laplace(0, 2 * VISIT_CAP / epsilon))
        else:
            found = truth + rng.laplace(0, 2 * VISIT_CAP / epsilon, truth.size)
        found = np.maximum(found, 0.0)
        divergence.append(float(density.jensen_shannon(truth[:, None], found[:, None])[0]))
        error.append(float(density.relative_error(truth[:, None], found[:, None]).mean()))
    return HistogramScore(epsilon, sampling, float(np.mean(divergence)), float(np.mean(error)))
