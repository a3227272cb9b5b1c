"""`hotspots`: where to place antennas, kiosks or stops, from published traces alone.

The first use of the study of geo-indistinguishable traces: of the cells of a public grid, choose
those that serve the most traffic (after Oliveira & Viana). Reports lie about as far from where
people were as the noise is strong, so the cells with the most *reports* are not those with the most
visits; the iterative Bayesian update (`sfumato.utility.ibu`) takes the noise, whose law is
published, out of the counts of cells before they are ranked.

Everything here reads what was published and nothing else: it costs nothing, and may be published.
What comes out is an estimate without an interval: the manifest of traces states the noise of one
report, and how reports of one person hang together is not known to readers.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.io.traces import read_traces
from sfumato.io.write import folder_to_fill, make_folder, write_bytes
from sfumato.model.source import Progress
from sfumato.model.traces import Box, Traces
from sfumato.privacy.noise.planar import Strength, parse_metres
from sfumato.published.folder import is_published
from sfumato.published.release import Release, as_release
from sfumato.traces.cells import HOTSPOT_SIDE_M, Cells
from sfumato.utility.hotspots import greedy_cover
from sfumato.utility.ibu import (
    Channel,
    Observation,
    early_steps,
    iterative_bayesian_update,
    margin_for,
)

if TYPE_CHECKING:
    import pandas as pd

VISITS, PEOPLE = "visits", "people"
MOST_CELLS = 4_000_000
"""Above it a step of the update takes seconds and maps gigabytes: a larger side will do."""
_BLOCKS = 60
_PLAIN = ("gaussian",)
"""Kinds of noise whose channel is not planar Laplace: their reports are ranked as they are."""


@dataclass(frozen=True, slots=True)
class HotSpot:
    """A chosen cell: its rank from 1, its centre in degrees, what it is chosen for."""

    rank: int
    lon: float
    lat: float
    share: float
    """By visits the estimated share of all locations in the cell; by people the share of users
    reached by this cell and those before it."""
    reports: int


@dataclass(frozen=True, slots=True, eq=False)
class HotSpots:
    """Chosen cells, best first, and how they were chosen."""

    cells: tuple[HotSpot, ...]
    by: str
    side_m: float
    region: Box
    steps: int
    """Steps of the update; 0 where reports were ranked as they are."""
    noise_m: float
    signature: str
    """The release they come from, and its privacy loss."""
    background: NDArray[np.float64]
    """Estimated traffic in blocks of cells from the south-west, for the map of the page."""
    block_m: float

    @property
    def covered(self) -> float:
        """Estimated share of all locations (or of users) that the chosen cells serve."""
        if not self.cells:
            return 0.0
        return self.cells[-1].share if self.by == PEOPLE else sum(c.share for c in self.cells)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before a site is rented."""
        taken = (
            f"The noise of the reports ({self.noise_m:.0f} m) was taken out in {self.steps} steps "
            "of the iterative Bayesian update."
            if self.steps
            else f"Reports were ranked as they are, about {self.noise_m:.0f} m from where "
            "people were."
        )
        return (
            *(() if self.cells else (NO_REPORTS,)),
            taken,
            "Estimates without an interval. Cells that differ by little may have changed places.",
        )

    def to_pandas(self) -> pd.DataFrame:
        """A row a cell: rank, lon, lat, share, reports."""
        import pandas as pd

        return pd.DataFrame([_row(one) for one in self.cells])

    def to_geojson(self) -> dict[str, Any]:
        """The cells as squares (WGS84)."""
        grid = Cells.over(self.region, self.side_m)
        half = self.side_m / 2
        features = []
        for one in self.cells:
            x, y = grid.metres(np.array([one.lon]), np.array([one.lat]))
            corners = np.array([[-half, -half], [half, -half], [half, half], [-half, half]])
            lon, lat = grid.degrees(x + corners[:, 0], y + corners[:, 1])
            ring = [[round(a, 7), round(b, 7)] for a, b in zip(lon, lat, strict=True)]
            features.append(
                {
                    "type": "Feature",
                    "geometry": {"type": "Polygon", "coordinates": [[*ring, ring[0]]]},
                    "properties": _row(one),
                }
            )
        return {"type": "FeatureCollection", "features": features}

    def __repr__(self) -> str:
        return f"<HotSpots: {len(self.cells)} cells of {self.side_m:.0f} m, by {self.by}>"


def hotspots(
    traces: str | os.PathLike[str] | Release,
    *,
    number: int = 20,
    by: str = VISITS,
    apart: str | float = 0.0,
    side: str | float | None = None,
    region: str | tuple[float, float, float, float] | None = None,
    steps: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> HotSpots:
    """Choose cells that serve the most traffic, from sanitised traces. Nothing is spent.

    Args:
        traces: What `sanitise` published: its folder, or the release read from it.
        number: How many cells to choose.
        by: `visits` (the cells with the most locations) or `people` (cells that together reach the
            most users; lazy greedy cover, within 1 - 1/e of the best, on reports as they are).
        apart: Least distance between the centres of chosen cells. Busy cells lie side by side: the
            study takes them all (0), whoever places sites wants one of them.
        side: Side of a cell; default: a square with the area of a circle of 50 m.
        region: West, south, east, north in degrees; default: where the reports lie.
        steps: Steps of the update that takes the noise out; 0 ranks reports as they are. Default:
            4.5 for every cell side of expected noise, since more of them fit the noise.
        out: Folder for `hotspots.csv`, `hotspots.geojson` and `index.html`; none: nothing is
            written.
        progress: Told the name of the stage and the share that is done.

    Returns:
        The cells, best first.

    Raises:
        InputError: It is no release of traces, or was altered.
        UsageError: A word or number makes no sense.

    Example:
        >>> sfumato.hotspots("out/cabs", number=10).to_pandas()  # doctest: +SKIP
    """
    if number < 1:
        raise UsageError("At least one cell is chosen.", remedy="Give `number` a positive number.")
    if by not in (VISITS, PEOPLE):
        raise UsageError(f"Cells are not chosen by {by!r}.", remedy="Choose visits or people.")
    if steps is not None and not 0 <= steps <= 1000:
        raise UsageError("The update takes 0 to 1,000 steps.")
    between = parse_metres(apart)
    if between > 0 and by == PEOPLE:
        raise UsageError("A distance between cells is for visits: people are reached by any cell.")
    release, reports = published_reports(traces)
    box = Box.parse(region) if region is not None else _around(reports)
    side_m = HOTSPOT_SIDE_M if side is None else parse_metres(side)
    grid = _grid(box, side_m)
    folder = None if out is None else folder_of_its_own(out)
    noise = float(str(release.manifest.scheme.parameters["expected_noise_m"]))
    plain = release.manifest.scheme.name.rpartition("/")[2] in _PLAIN
    strength = Strength.from_noise(noise)
    taken = 0
    if by == VISITS and len(reports) and not plain:
        taken = early_steps(grid, strength) if steps is None else steps
    if progress is not None:
        progress("counting reports", 0.0)
    seen = grid.count(reports.lon, reports.lat)
    if by == PEOPLE:
        weight = seen
        chosen, share = _for_people(grid, reports, number)
    else:
        weight = _without_noise(grid, reports, strength, taken, progress) if taken else seen
        chosen, share = _for_visits(grid, weight, number, between)
    found = HotSpots(
        _cells(grid, chosen, share, seen.ravel()),
        by,
        side_m,
        box,
        taken,
        noise,
        release.label,
        *_coarse(grid, weight),
    )
    if folder is not None:
        make_folder(folder)
        _write(found, folder)
    return found


NO_REPORTS = "There is not a single report in this release: nobody had a fix in its period."


def published_reports(given: str | os.PathLike[str] | Release) -> tuple[Release, Traces]:
    """The release and its reports; what is no release of traces is refused."""
    release = as_release(given)
    if release.kind != "traces":
        raise InputError(
            f"it is a {release.kind}, not a release of traces.",
            file=str(release.folder),
            remedy="Give the folder that `sfumato sanitise` made.",
        )
    return release, read_traces(release.table(), tz="UTC")[0]


def folder_of_its_own(out: str | os.PathLike[str]) -> Path:
    """A folder for what is made of a release, which is none of a release itself.

    Raises:
        UsageError: It holds a release: its page would be lost, and its digests would not fit.
    """
    folder = folder_to_fill(Path(out))
    if is_published(folder):
        raise UsageError(f"{folder} holds a release.", remedy="Choose another `out`.")
    return folder


def _around(reports: Traces) -> Box:
    """Where published reports lie; the outermost two hundredths would make the map mostly empty."""
    if len(reports) == 0:
        return Box(-0.01, -0.01, 0.01, 0.01)
    (west, east), (south, north) = (
        np.quantile(values, [0.01, 0.99]) for values in (reports.lon, reports.lat)
    )
    return Box(
        max(float(west) - 1e-3, -180.0),
        max(float(south) - 1e-3, -90.0),
        min(float(east) + 1e-3, 180.0),
        min(float(north) + 1e-3, 90.0),
    )


def _grid(box: Box, side_m: float) -> Cells:
    if not side_m > 0:
        raise UsageError("The side of a cell is positive.", remedy="Write 100m.")
    grid = Cells.over(box, side_m)
    if grid.size > MOST_CELLS:
        raise UsageError(
            f"{grid.size:,} cells are more than can be ranked at once.",
            remedy="Give a smaller `region`, or a larger `side`.",
        )
    return grid


def _without_noise(
    grid: Cells, reports: Traces, strength: Strength, steps: int, progress: Progress | None
) -> NDArray[np.float64]:
    """Estimated shares of locations in the cells."""
    margin = margin_for(grid, strength)
    channel = Channel.planar_laplace(grid, strength, margin)
    counts = grid.count(reports.lon, reports.lat, margin)
    if not counts.sum() > 0:
        return grid.count(reports.lon, reports.lat)

    def tick(step: int, _: float) -> None:
        if progress is not None:
            progress("taking the noise out", step / steps)

    return iterative_bayesian_update(Observation(channel, counts), steps=steps, tick=tick).p


def _for_visits(
    grid: Cells, weight: NDArray[np.float64], number: int, between: float
) -> tuple[NDArray[np.int64], Sequence[float]]:
    """The cells with the largest weights; ties go to the cell with the smaller number."""
    flat = weight.ravel().copy()
    total = max(float(flat.sum()), 1e-300)
    if between <= 0:
        order = np.lexsort((np.arange(flat.size), -flat))[:number]
        order = order[flat[order] > 0]
        return order.astype(np.int64), [float(v) / total for v in flat[order]]
    row, column = np.divmod(np.arange(flat.size), grid.columns)
    chosen: list[int] = []
    share: list[float] = []
    while len(chosen) < number and flat.max(initial=0.0) > 0:
        best = int(flat.argmax())
        chosen.append(best)
        share.append(float(flat[best]) / total)
        away = np.hypot(row - row[best], column - column[best]) * grid.side_m
        flat[(away < between) | (np.arange(flat.size) == best)] = 0.0
    return np.array(chosen, np.int64), share


def _coarse(grid: Cells, weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Sums over square blocks of cells, at most `_BLOCKS` a side, and how wide a block is."""
    block = -(-max(weight.shape) // _BLOCKS)
    rows, columns = (-(-size // block) for size in weight.shape)
    padded = np.zeros((rows * block, columns * block))
    padded[: weight.shape[0], : weight.shape[1]] = weight
    return padded.reshape(rows, block, columns, block).sum(axis=(1, 3)), block * grid.side_m


def _for_people(
    grid: Cells, reports: Traces, number: int
) -> tuple[NDArray[np.int64], Sequence[float]]:
    cell = grid.index(reports.lon, reports.lat)
    chosen, reached = greedy_cover(cell, reports.user, number)
    users = max(int(np.unique(reports.user).size), 1)
    return chosen, [float(v) / users for v in reached]


def _cells(
    grid: Cells, chosen: NDArray[np.int64], share: Sequence[float], seen: NDArray[np.float64]
) -> tuple[HotSpot, ...]:
    row, column = np.divmod(chosen, grid.columns)
    lon, lat = grid.degrees((column + 0.5) * grid.side_m, (row + 0.5) * grid.side_m)
    return tuple(
        HotSpot(rank + 1, float(lon[rank]), float(lat[rank]), share[rank], int(seen[cell]))
        for rank, cell in enumerate(chosen)
    )


def _row(one: HotSpot) -> dict[str, float | int]:
    return {
        "rank": one.rank,
        "lon": round(one.lon, 6),
        "lat": round(one.lat, 6),
        "share": round(one.share, 6),
        "reports": one.reports,
    }


def _write(found: HotSpots, folder: Path) -> None:
    from sfumato.reports.uses import hotspots_page

    text = io.StringIO()
    table = csv.DictWriter(text, ["rank", "lon", "lat", "share", "reports"], lineterminator="\n")
    table.writeheader()
    table.writerows(_row(one) for one in found.cells)
    shapes = json.dumps(found.to_geojson(), separators=(",", ":"))
    write_bytes(folder / "hotspots.csv", text.getvalue().encode())
    write_bytes(folder / "hotspots.geojson", shapes.encode())
    write_bytes(folder / "index.html", hotspots_page(found).encode())
