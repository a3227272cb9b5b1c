"""The last steps of a released density: whole numbers on request, levels that add up.

Post-processing: reads released numbers only. Sums are exact, because counts have at most
three decimals and are added as whole thousandths. No interval is given for a sum: the errors
of zones hang together (shared totals, shared shapes, zones around one tower), and by how much
is not part of the release.

A density as a long table: every place and every slot, empty ones too. The keys are public.

Times in the Parquet form are instants in the grid's zone; in the CSV form they are local
times with their offset, so that the two hours called 02:00 in October stay apart.

`README.txt` of a release: for the people who use the data, in plain text.

Made from the manifest and the names of the files alone, so a rerun writes the same bytes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.density.common import DECIMALS
from sfumato.density.refine.margins import add_up, round_keeping_totals
from sfumato.density.scheme import Density
from sfumato.model.time_grid import TimeGrid
from sfumato.published.manifest import Manifest
from sfumato.published.statement import statement


def density_table(density: Density, grid: TimeGrid) -> pa.Table:
    """zone_id, time_start, time_end, count, lower, upper; places in order, then slots."""
    places, slots = density.values.shape
    starts, ends = grid_times(grid, places)
    return pa.table(
        {
            "zone_id": pa.array(np.repeat(density.place_ids, slots).tolist(), type=pa.string()),
            "time_start": starts,
            "time_end": ends,
            "count": density.values.ravel(),
            "lower": density.lower.ravel(),
            "upper": density.upper.ravel(),
        }
    )


def grid_times(grid: TimeGrid, places: int) -> tuple[pa.Array, pa.Array]:
    """Starts and ends of all slots, once for each place, as instants in the grid's zone."""
    instant = pa.timestamp("us", tz=grid.tz)
    starts, ends = (
        pa.array(np.tile(np.asarray(edges), places), type=pa.int64()).cast(instant)
        for edges in (grid.edges[:-1], grid.edges[1:])
    )
    return starts, ends


def with_local_times(table: pa.Table, grid: TimeGrid) -> pa.Table:
    """The same table with times as text, for CSV."""
    places = table.num_rows // grid.slots

    def texts(times: Sequence[datetime]) -> pa.Array:
        return pa.array([time.isoformat() for time in times] * places, type=pa.string())

    table = table.set_column(1, "time_start", texts(grid.starts()))
    return table.set_column(2, "time_end", texts(grid.ends()))


CITY = "city"
_UNITS = 10**DECIMALS


def whole_numbers(density: Density) -> Density:
    """Counts as integers that keep each slot's rounded total; intervals widen outwards."""
    return replace(
        density,
        values=round_keeping_totals(np.asarray(density.values, dtype=np.float64)),
        lower=np.floor(density.lower),
        upper=np.ceil(density.upper),
    )


def level_table(
    density: Density, parents: NDArray[np.str_], grid: TimeGrid, column: str
) -> pa.Table:
    """`column`, time_start, time_end, count: the sums of each parent's zones."""
    ids, which = np.unique(parents, return_inverse=True)
    thousandths = np.rint(np.asarray(density.values, dtype=np.float64) * _UNITS)
    sums = add_up(thousandths, which.astype(np.int64))
    counts = (sums / _UNITS).astype(np.int64) if density.values.dtype == np.int64 else sums / _UNITS
    starts, ends = grid_times(grid, ids.size)
    return pa.table(
        {
            column: pa.array(np.repeat(ids, grid.slots).tolist(), type=pa.string()),
            "time_start": starts,
            "time_end": ends,
            "count": counts.ravel(),
        }
    )


def whole_city(density: Density) -> NDArray[np.str_]:
    """The one parent of all zones."""
    return np.full(density.place_ids.size, CITY)


_FILES = {
    "density.parquet": "the numbers: zone_id, time_start, time_end, count, lower, upper",
    "density.csv": "the same as text; local times with their offset from UTC",
    "density-districts.parquet": "sums of the zones of each district: district_id, time_start, "
    "time_end, count",
    "density-city.parquet": "sums of all zones: city_id, time_start, time_end, count",
    "zones.geojson": "outlines of the zones (WGS84); join by zone_id",
    "zones.parquet": "the same as GeoParquet",
    "towers.geojson": "positions of the towers (WGS84); their tower_id is the zone_id of the table",
    "towers.parquet": "the same as GeoParquet",
    "index.html": "the numbers to look at: open it in a browser, it needs no network",
    "manifest.json": "the privacy statement for machines, and the digest of every other file",
    "README.txt": "this text",
}


def readme(manifest: Manifest, files: Iterable[str]) -> str:
    """What is here, what a row is, how exact, how private, how to cite."""
    present = sorted({*files, "README.txt", "manifest.json"})
    parts = [
        _title(manifest),
        _section("FILES", *(f"{name}: {_FILES[name]}." for name in present if name in _FILES)),
        _section("WHAT A ROW IS", _row(manifest)),
        _section("UNITS", _unit(manifest), _whole(manifest)),
        _section("INTERVALS", _interval(manifest)),
    ]
    if "density-city.parquet" in present:
        parts.append(_section("LEVELS", _levels()))
    parts += [
        "PRIVACY\n\n" + statement(manifest).rstrip(),
        _section("HOW TO CITE", _cite(manifest)),
    ]
    return "\n\n\n".join(parts) + "\n"


def _title(manifest: Manifest) -> str:
    name = manifest.release.name
    return f"{name}\n{'=' * len(name)}"


def _section(title: str, *paragraphs: str) -> str:
    return "\n\n".join([title, *(textwrap.fill(text, 88) for text in paragraphs if text)])


def _row(manifest: Manifest) -> str:
    grid, kind = manifest.grid, manifest.released.kind
    return (
        f"One row for each of {manifest.released.count} {kind} and each of {grid.slots} time "
        f"slots, from {grid.start} to {grid.end} ({grid.tz}). All of them are there, also where "
        "nobody was, so a missing row is a fault of your copy. A slot runs from time_start to "
        f"just before time_end and lasts {_length(grid.step_seconds)}; where clocks change, a "
        "day has an hour more or less. zone_id is text: leading zeros belong to it."
    )


def _length(seconds: float) -> str:
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds % size == 0:
            n = int(seconds // size)
            return f"{n} {word}{'' if n == 1 else 's'}"
    return f"{seconds:g} seconds"


def _unit(manifest: Manifest) -> str:
    if manifest.privacy.counting == "people":
        text = (
            "count estimates people: someone who was in several places in a slot is one unit "
            "that is divided evenly over them, so a slot's numbers add up to people."
        )
    else:
        text = (
            "count estimates visits: a person counts once in each place where they were seen in "
            "the slot, so one person can count in several places, and adding up slots counts "
            "people again and again."
        )
    return text + " It is about the people in the records, not about the whole population."


def _whole(manifest: Manifest) -> str:
    if manifest.public_inputs.get("integers"):
        return "Counts are whole numbers; each slot's total was kept when they were rounded."
    return "Counts are estimates and need not be whole. Do not round them before you add them up."


def _interval(manifest: Manifest) -> str:
    return (
        f"lower and upper enclose the count that was measured in "
        f"{manifest.scheme.interval_coverage:.0%} of cases: they are about the noise that was "
        "added and, where the method merges or smooths, about what that may have cost. They are "
        "not about people who are missing from the records, and only in part about what the "
        "limit on each person's share left out. Small counts are uncertain: look at the interval "
        "before you rank places. The interval of a sum or a difference is not the sum of "
        "intervals, because errors of neighbouring places and hours hang together."
    )


def _levels() -> str:
    return (
        "Districts and the city are exact sums of the zones as published, so all levels agree. "
        "They carry no interval: how the errors of zones hang together is not part of the "
        "release, and a guess would be too narrow or too wide."
    )


def _cite(manifest: Manifest) -> str:
    release, privacy = manifest.release, manifest.privacy
    year = release.reserved_at[:4]
    version = manifest.software.get("sfumato", "")
    return (
        f"{release.dataset} ({year}). {release.name}: estimated {privacy.counting} by place and "
        f"time, {manifest.grid.start[:10]} to {manifest.grid.end[:10]}. Differentially private "
        f"(epsilon {privacy.epsilon:.3g}, delta {privacy.delta:g}, unit {privacy.unit}), made "
        f"with sfumato {version}, scheme {manifest.scheme.name}. Release {release.id}."
    )
