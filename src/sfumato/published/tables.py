"""The tables of a published folder and its `README.txt`, for densities and for streams.

A table is long: every place and every slot, empty ones too; the keys are public. Times in the
Parquet form are instants in the grid's zone; in the CSV form they are local times with their
offset, so that the two hours called 02:00 in October stay apart.

`README.txt` is for the people who use the data, in plain text. It is made from the manifest and
the names of the files alone, so a rerun writes the same bytes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.io.write import PARQUET, marked, write_atomically, write_csv_parts
from sfumato.model.rounding import number_of, percent, rounded_up
from sfumato.model.time_grid import TimeGrid
from sfumato.published.about import COMPRESSED, CSV, About, csv_name, licence_named
from sfumato.published.lines import CITY_TABLE
from sfumato.published.manifest import Manifest
from sfumato.published.statement import noise, statement, take_note

_BATCH = 1 << 20
"""Rows that are written at once: a stream of a year is never held as text as a whole."""
_DAY = 86_400


def long_table(
    ids: NDArray[np.str_],
    grid: TimeGrid,
    values: NDArray[Any],
    *,
    median: NDArray[Any] | None = None,
    lower: NDArray[Any] | None = None,
    upper: NDArray[Any] | None = None,
) -> pa.Table:
    """zone_id, time_start, time_end, count, any median, lower, upper; places, then slots."""
    starts, ends = grid_times(grid, ids.size)
    columns = {
        "zone_id": pa.array(np.repeat(ids, grid.slots).tolist(), type=pa.string()),
        "time_start": starts,
        "time_end": ends,
        "count": values.ravel(),
    }
    for name, layer in (("median", median), ("lower", lower), ("upper", upper)):
        if layer is not None:
            columns[name] = layer.ravel()
    return pa.table(columns)


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


def write_city_table(
    folder: Path, grid: TimeGrid, values: NDArray[np.float64], total: NDArray[np.float64]
) -> None:
    """`density-city.parquet` of a stream: each slot's sum, and the ends of its interval."""
    starts, ends = grid_times(grid, 1)
    columns = {
        "city_id": pa.array(["city"] * grid.slots, type=pa.string()),
        "time_start": starts,
        "time_end": ends,
        "count": np.round(values.sum(axis=0), 3),
        "lower": total[:, 0],
        "upper": total[:, 1],
    }
    table = pa.table(columns)
    table = table.cast(marked(table.schema))
    write_atomically(
        folder / CITY_TABLE, lambda path: pq.write_table(table, path, write_page_checksum=True)
    )


def write_long_tables(
    folder: Path,
    ids: NDArray[np.str_],
    grid: TimeGrid,
    values: NDArray[np.float64],
    *,
    median: NDArray[np.float64] | None = None,
    lower: NDArray[np.float64] | None = None,
    upper: NDArray[np.float64] | None = None,
    csv: str | None = CSV,
) -> None:
    """`density.parquet` and the text table of a stream; whole numbers are written as such.

    Some places at a time, so that memory is that of the numbers alone. The same bytes for the
    same numbers.
    """
    step = max(1, _BATCH // grid.slots)
    given = {"median": median, "lower": lower, "upper": upper}
    layers = {name: _whole_numbers(layer) for name, layer in given.items() if layer is not None}
    counts = _whole_numbers(values)

    def tables() -> Iterator[pa.Table]:
        for first in range(0, ids.size, step):
            some = slice(first, first + step)
            further = {name: layer[some] for name, layer in layers.items()}
            yield long_table(ids[some], grid, counts[some], **further)

    def parquet(path: Path) -> None:
        with pq.ParquetWriter(path, marked(next(tables()).schema), **PARQUET) as writer:
            for table in tables():
                writer.write_table(table)

    write_atomically(folder / "density.parquet", parquet)
    if csv is not None:
        schema = with_local_times(next(tables()), grid).schema
        write_csv_parts(
            folder / csv, schema, lambda: (with_local_times(table, grid) for table in tables())
        )


def csv_of(manifest: Manifest) -> str | None:
    """The text table of a release, by its manifest's public numbers; `None` where it has none."""
    form = str(manifest.public_inputs.get("csv", "auto"))
    return csv_name(form, manifest.released.count, manifest.grid.slots)


def _whole_numbers(values: NDArray[np.float64]) -> NDArray[Any]:
    whole = bool((values == np.rint(values)).all())
    return values.astype(np.int64) if whole else values


_FILES = {
    "density.parquet": "the numbers: zone_id, time_start, time_end, count{further}",
    CSV: "the same as text; local times with their offset from UTC",
    COMPRESSED: "the same as text, compressed (gzip); local times with their offset from UTC",
    "density-districts.parquet": "sums of the zones of each district: district_id, time_start, "
    "time_end, count",
    CITY_TABLE: "sums of all zones: city_id, time_start, time_end, count{ends}",
    "zones.geojson": "outlines of the zones (WGS84); join by zone_id",
    "zones.parquet": "the same as GeoParquet",
    "towers.geojson": "positions of the towers (WGS84); their tower_id is the zone_id of the table",
    "towers.parquet": "the same as GeoParquet",
    "events.parquet": "the records: user_id, timestamp, and tower_id or lon, lat; nobody in "
    "them exists",
    "figures.json": "what the page shows of the synthetic people beside what was released",
    "measurements.npz": "the noisy measurements that were paid for, from which every number here "
    "follows, to a 32nd of their noise, and the public settings they were taken with: for sfumato "
    "refine, and for the releases of later weeks (--earlier)",
    "posterior.npz": "how errors of places and time slots are correlated, from which the interval "
    "of any sum, difference or ratio follows: for sfumato ask, and Release.sum in Python",
    "weights.csv": "people for one person counted, by area, with an interval and what to distrust",
    "index.html": "the numbers to look at: open it in a browser, it needs no network",
    "manifest.json": "the privacy statement for machines, and the digest of every other file",
    "README.txt": "this text",
    "slots": "a folder with a Parquet file of the numbers of each slot: zone_id, count{further}",
    "stream.ndjson": "the numbers, a line a slot: when it begins and ends, whether it was measured "
    "anew (fresh), the standard deviation of the noise (sd), counts{further} in the order of "
    "places.json{total}",
    "places.json": "the zones in the order of the counts in stream.ndjson",
    "stream.json": "the privacy statement for machines, from the first slot on",
}
_OF_STREAMS = {
    "measurements.npz": "the last noisy vectors that were paid for, to a 32nd of their noise, with "
    "their times and variances: for sfumato stream on later days (--earlier)",
}
_OF_MADE_UP = {
    "density.parquet": "synthetic people by place and time slot: zone_id, time_start, time_end, "
    "count{further}",
    "measurements.npz": "the noisy numbers that were paid for, from which everything here follows",
}
_LATER = ("density.parquet", CSV, COMPRESSED, CITY_TABLE, "measurements.npz", "manifest.json")
"""What a stream has from its last slot on; the page too, unless it goes on by the clock."""


def readme(manifest: Manifest, files: Iterable[str], promise: str | None = None) -> str:
    """What to take note of, what is here, what a row is, how exact, how private, how to cite.

    Args:
        manifest: What was published; its list of files is not looked at.
        files: Names of the files that are there, or will be.
        promise: The privacy statement, where it is not the one of a density.
    """
    present = sorted({*files, "README.txt", "manifest.json"})
    columns = ", median" if manifest.scheme.median else ""
    columns += ", lower, upper" if manifest.scheme.interval_coverage else ""
    sums = manifest.scheme.coverage_of_sums
    total = "; total, the sum and the ends of its interval" if sums else ""
    ends = ", lower, upper" if total and manifest.kind == "stream" else ""
    known = _FILES | (_OF_STREAMS if manifest.kind == "stream" else {})
    known |= _OF_MADE_UP if manifest.kind == "synthetic" else {}
    listed = [
        f"{n}: {known[n]}.".format(further=columns, total=total, ends=ends)
        for n in present
        if n in known
    ]
    if manifest.kind == "stream":
        live = bool(manifest.public_inputs.get("live"))
        later = [n for n in present if n in _LATER or (n == "index.html" and not live)]
        if live:
            listed.append(
                "While the stream goes on, index.html shows its last slots and is replaced as "
                "slots close; it says as of when it is."
            )
        listed.append(f"With the last slot come {', '.join(later[:-1])} and {later[-1]}.")
    note, told = take_note(manifest), promise or statement(manifest)
    parts = [
        f"{manifest.title}\n{'=' * len(manifest.title)}" + (f"\n\n{note}" if note else ""),
        _section("FILES", *listed),
        _section("WHAT A ROW IS", _row(manifest)),
        _section("UNITS", _unit(manifest), _median(manifest), _whole(manifest)),
        _section("INTERVALS", _interval(manifest)),
    ]
    if CITY_TABLE in present and manifest.kind == "density":
        parts.append(_section("LEVELS", _levels(manifest)))
    if manifest.about is not None:
        parts.insert(1, _section("PUBLISHED BY", _published(manifest.about)))
    parts += [
        "PRIVACY\n\n" + told.removeprefix(f"{note}\n\n").rstrip(),
        _section("HOW TO CITE", _cite(manifest)),
    ]
    return "\n\n\n".join(parts) + "\n"


def promise_in(text: str) -> str:
    """The privacy statement in a `README.txt`; all of one that holds nothing else."""
    _, found, rest = text.partition("\nPRIVACY\n\n")
    return rest.partition("\n\n\n")[0] + "\n" if found else text


def _published(about: About) -> str:
    said = []
    if about.publisher is not None:
        said.append(f"{about.publisher}.")
    if about.licence is not None:
        licence = licence_named(about.licence)
        said.append(
            f"Licence: {licence.title} ({licence.address})."
            if licence.title != licence.address
            else f"Licence: {licence.address} ."
        )
    if about.contact is not None:
        said.append(f"Contact: {about.contact} .")
    return " ".join(said)


def _section(title: str, *paragraphs: str) -> str:
    return "\n\n".join([title, *(textwrap.fill(text, 88) for text in paragraphs if text)])


def _row(manifest: Manifest) -> str:
    grid, kind = manifest.grid, manifest.released.kind
    return (
        f"One row for each of {number_of(manifest.released.count, kind)} and each of "
        f"{number_of(grid.slots, 'time slots')}, from {grid.start} to {grid.end} ({grid.tz})"
        f"{_typical(manifest)}. All of them are there, also where nobody was, so a missing row "
        "is a fault of your copy. A slot runs from time_start to "
        f"just before time_end and lasts {_length(grid.step_seconds)}{_changes(manifest)}. "
        "zone_id is text: leading zeros belong to it."
    )


def _changes(manifest: Manifest) -> str:
    """What the length does not tell: every day begins with a slot, also one of 23 or 25 hours."""
    step = manifest.grid.step_seconds
    cut = "; the last slot of a day is shorter" if step < _DAY and _DAY % step else ""
    if manifest.grid.fold is not None:
        return cut
    moved = (
        ": later slots of that day begin an hour earlier or later, and its last ends at midnight"
    )
    return (
        f"{cut}; where clocks change, a day has an hour more or less"
        f"{moved if 3_600 < step < _DAY else ''}"
    )


def _typical(manifest: Manifest) -> str:
    fold = manifest.grid.fold
    return "" if fold is None else f", which stand for {fold.repeats} {fold.to}s: see UNITS"


def _length(seconds: float) -> str:
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds % size == 0:
            n = int(seconds // size)
            return f"{n} {word}{'' if n == 1 else 's'}"
    return f"{seconds:g} seconds"


def _unit(manifest: Manifest) -> str:
    if manifest.kind == "synthetic":
        return (
            "A row of events.parquet is a record of a synthetic person, in the columns that "
            "sfumato release reads. In density.parquet count says how many of the synthetic "
            "people have a record in the place and slot."
        )
    if manifest.made_from is not None:
        text = (
            f"count estimates {manifest.made_from.estimates}, not only those in the records: "
            "numbers of a release were multiplied by weights. weights.csv has them, with what to "
            "distrust."
        )
        return text if manifest.grid.fold is None else f"{text} {manifest.grid.fold.words()}"
    if manifest.kind == "stream":
        text = (
            "count estimates people: in every slot a person counts once, in one place, so a "
            "slot's numbers add up to people."
        )
    elif manifest.privacy.counting == "people":
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
    text += " It is about the people in the records, not about the whole population."
    return text if manifest.grid.fold is None else f"{text} {manifest.grid.fold.words()}"


def _median(manifest: Manifest) -> str:
    if not manifest.scheme.median:
        return ""
    if manifest.scheme.parameters.get("counts"):
        return (
            "median is for reading a single place and slot: the number that is too high as likely "
            "as too low. count is for sums: it holds the medians, and whom they leave out is "
            "spread over neighbourhoods, so that counts add up and medians do not."
        )
    return (
        "median is for reading a single place and slot: the number that is too high as likely as "
        "too low. count is the mean of what the number may be, so counts add up and medians do "
        "not: make sums, averages and shares from count."
    )


def _whole(manifest: Manifest) -> str:
    if manifest.public_inputs.get("consistency", "none") != "none":
        return "Counts are whole numbers."
    if manifest.kind == "synthetic":
        return "Counts are whole numbers."
    if manifest.public_inputs.get("integers"):
        return "Counts are whole numbers; each slot's total was kept when they were rounded."
    return "Counts are estimates and need not be whole. Do not round them before you add them up."


def _interval(manifest: Manifest) -> str:
    if manifest.kind == "synthetic":
        return (
            "None are stated: synthetic people carry what the noisy numbers say "
            f"({noise(manifest)}), and everything else about them is invented."
        )
    if not manifest.scheme.interval_coverage and manifest.kind == "density":
        return (
            f"None are stated. The noise that was added has a known size ({noise(manifest)}), but "
            "counts are further off than that: by what the limit on each person's share left out "
            "and by what the method did to the numbers."
        )
    if manifest.scheme.sum_coverage:
        return (
            f"Each slot's sum has one, which is meant to hold it in "
            f"{percent(manifest.scheme.sum_coverage)} of cases: in {CITY_TABLE}, and under total "
            "in stream.ndjson. Single counts have none: too little is known of them. Do not rank "
            "places by them."
        )
    if not manifest.scheme.interval_coverage:
        return (
            "None are stated. sd in stream.ndjson is the standard deviation of the noise in one "
            "number of a slot, as far as public facts and earlier slots tell. Small counts are "
            "uncertain: look at it before you rank places."
        )
    return (
        "lower and upper are meant to hold the count in "
        f"{percent(manifest.scheme.interval_coverage)} of cases: they are about the noise that was "
        "added, about what merging or smoothing may have cost and, as far as noisy numbers show "
        "it, about what the limit on each person's share left out. "
        f"{_missing_people(manifest)} Small counts are uncertain: look at the interval "
        "before you rank places. The interval of a sum or a difference is not the sum of "
        "intervals, because errors of neighbouring places and hours are correlated."
        + (f" That of each slot's sum is in {CITY_TABLE}." if manifest.kind == "stream" else "")
        + ("" if manifest.total is None else f" All counts together are {manifest.total.words()}.")
    )


def _missing_people(manifest: Manifest) -> str:
    if manifest.made_from is None:
        return "They are not about people who are missing from the records."
    return (
        "They are also about the weights, about where those live who are in a place, and about "
        "people who are missing from the records by chance."
    )


def _levels(manifest: Manifest) -> str:
    median = " They carry no median: medians do not add up." if manifest.scheme.median else ""
    stated = manifest.posterior is not None and manifest.posterior.stated
    why = (
        "posterior.npz has it for any sum, as sfumato ask and Release.sum tell it."
        if stated
        else "how the errors of zones are correlated is not part of the release, and a guess would "
        "be too narrow or too wide."
    )
    return (
        "Districts and the city are exact sums of the zones as published, so all levels agree. "
        f"They carry no interval: {why}{median}"
    )


def _cite(manifest: Manifest) -> str:
    release, privacy = manifest.release, manifest.privacy
    year = release.reserved_at[:4]
    whose = (manifest.about and manifest.about.publisher) or release.dataset
    version = manifest.software.get("sfumato", "")
    return (
        f"{whose} ({year}). {manifest.title}: {_cited(manifest)}, "
        f"{manifest.grid.days()}. Differentially private "
        f"(epsilon {rounded_up(privacy.epsilon)}, delta {rounded_up(privacy.delta)}, unit "
        f"{privacy.unit}), made "
        f"with sfumato {version}, scheme {manifest.scheme.name}. Release {release.id}."
    )


def _cited(manifest: Manifest) -> str:
    if manifest.kind == "synthetic":
        return "records of synthetic people"
    return f"estimated {manifest.privacy.counting} by place and time"
