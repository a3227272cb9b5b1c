"""What `sfumato attack` is given: released tables, the places they are about, and the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.republish import Stage, StreamStage
from sfumato.attacks.trajectories import Ground, People, trajectories
from sfumato.errors import UsageError
from sfumato.geography.overlay import centres, overlay
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.events import read_events
from sfumato.io.towers import read_towers
from sfumato.io.zones import read_zones
from sfumato.model.places import Places
from sfumato.model.time_grid import Clock, TimeGrid
from sfumato.published.release import Release, read_release

if TYPE_CHECKING:
    from sfumato.model.counts import Bound

Table = NDArray[np.float64]
Republish = Callable[[NDArray[np.int32], np.random.Generator], Table]


@dataclass(frozen=True, slots=True, eq=False)
class Attackable:
    """A table that was published, and enough of its statement to publish others like it."""

    label: str
    ids: NDArray[np.str_]
    grid: TimeGrid
    values: Table
    scheme: str
    epsilon: float
    delta: float
    unit: str
    stream: bool
    parameters: Mapping[str, Any]

    @property
    def whole_record(self) -> bool:
        """Whether epsilon is for all that somebody did in the period."""
        days = len({start.date() for start in self.grid.starts()})
        return self.unit == "user-period" or (self.unit == "user-day" and days == 1)

    def like(self, places: Places, group: int, bound: Bound | None) -> Republish:
        """Publish a group of about `group` people as this table was, with noise from a seed."""
        stage = Stage(places, self.grid)
        per_day = np.unique([start.date().toordinal() for start in self.grid.starts()],
                            return_counts=True)[1]  # fmt: skip
        weekday = self.grid.starts()[0].weekday()
        stream = StreamStage(len(places), None, int(per_day.max()), weekday, self.unit)

        def publish(rows: NDArray[np.int32], rng: np.random.Generator) -> Table:
            seed = int(rng.integers(1 << 31))
            if self.stream:
                return stream.published(
                    rows, self.epsilon, self.delta, seed, scheme=self.scheme, expected=group
                )
            return stage.published(
                self.scheme,
                rows,
                self.epsilon,
                self.delta,
                seed,
                bound=bound,
                parameters=self.parameters,
                expected=group,
            )

        return publish


def attackable(found: Release) -> Attackable:
    """A release or a stream, with what its manifest says about how it was made."""
    manifest = found.manifest
    stream = found.kind == "stream"
    return Attackable(
        found.label,
        found.ids,
        found.grid,
        found.values,
        manifest.scheme.name.removeprefix("stream/"),
        manifest.privacy.epsilon,
        manifest.privacy.delta,
        manifest.privacy.unit,
        stream,
        {} if stream else manifest.scheme.parameters,
    )


def load(
    releases: list[Path],
    events: str,
    zones: Path | None,
    towers: Path | None,
    tz: str | None,
    reading: dict[str, Any],
    tell: Callable[[str, float], None],
) -> tuple[People, list[Attackable], Places]:
    """The truth as trajectories in the releases' places, what was released, and the places."""
    if zones is None and towers is None:
        raise UsageError("Where the places are is missing.", remedy="Give `zones` or `towers`.")
    given = [attackable(read_release(folder, tz=tz)) for folder in releases]
    grid = given[0].grid
    areas = None if zones is None else read_zones(zones)
    sites = None if towers is None else read_towers(towers, zones=areas, tz=tz)
    counted = sites if sites is not None else areas
    released = areas if areas is not None else sites
    assert counted is not None
    assert released is not None
    shares = None
    if sites is not None and areas is not None:
        shares = overlay(voronoi_cells(sites, areas, period=grid), areas)
    for one in given:
        same = np.array_equal(one.ids, released.ids) and np.array_equal(one.grid.edges, grid.edges)
        if not same:
            raise UsageError(
                "The releases are not about these places, or not about one period.",
                remedy="Give the places they were made with, and releases of one period.",
            )
    reading = reading | {"tz": reading["tz"] or grid.tz}
    described = read_events(events, period=grid.period, **reading)
    tell("reading events", -1.0)
    try:
        truth = trajectories(described, counted, grid, zones=shares)
    finally:
        described.close()
    people = People(truth.cells, Ground(centres(released)), Clock.of(grid), truth.filled)
    return people, given, released
