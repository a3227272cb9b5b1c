"""Export: a release as a package for portals, or as FlowKit or multimno publish; their names.

For each pipeline this says how it is opened (`open_pipeline`) and how a release is written for it
(`export`).

**FlowKit's aggregates** are `pcod,date,hour,value`, and GeoJSON for each slot. The columns are
those of its counts by location and interval: `date`, then `hour` for slots below a day and `min`
for slots below an hour, on the clock of the release. Every region and interval has a row; none was
dropped for being 15 or fewer. An hour that the clock repeats is one row, the sum of both, as
FlowKit's grouping by hour has it. Antennas are `location_id` instead of `pcod`.

**multimno's present population** per zone is written as its own last step writes it: columns
`zone_id` (text), `population` (32-bit float), `timestamp` (UTC), partitioned by `dataset_id`,
`level`, `year`, `month`, `day` (of UTC). Every zone and slot has a row: nothing was deleted or set
to -1. The manifest travels as `_sfumato-NAME.json`, which Spark does not read.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.io.events import Inputs
from sfumato.io.files import is_address
from sfumato.io.flowkit import open_flowkit
from sfumato.io.multimno import Zoning, open_multimno
from sfumato.io.write import folder_to_fill, make_folder, write_bytes, write_csv
from sfumato.model.places import PlaceKind
from sfumato.model.time_grid import TimeGrid, zone
from sfumato.published.about import about
from sfumato.published.manifest import manifest_text
from sfumato.published.release import Release, as_release, vouched

COUNTS, MAPS, STATEMENT = "counts.csv", "geojson", "sfumato-manifest.json"
_PROJ4 = "+proj=longlat +datum=WGS84 +no_defs"
_HOUR, _DAY = 3600, 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_aggregates(found: Release, out: Path, *, geojson: bool = False) -> list[Path]:
    """Write `counts.csv`, the manifest and, if asked, `geojson/2016-01-01T05-00.geojson`, …"""
    if out.is_dir() and any(out.iterdir()):
        raise InputError("the folder is not empty.", file=str(out), remedy="Choose another.")
    shapes = found.geometry if geojson else None
    if geojson and shapes is None:
        raise UsageError("This release has no outlines.", remedy="Leave `geojson` out.")
    make_folder(out)
    columns, slot_of = _intervals(found)
    counts = np.zeros((found.ids.size, len(columns["date"])))
    for k, interval in enumerate(slot_of):
        counts[:, interval] += found.values[:, k]
    written = [out / COUNTS, out / STATEMENT]
    write_csv(out / COUNTS, _table(found, columns, counts))
    write_bytes(out / STATEMENT, _statement(found))
    if shapes is not None:
        (out / MAPS).mkdir()
        for k in range(counts.shape[1]):
            parts = [str(columns["date"][k])]
            parts += [f"{columns[name][k]:02d}" for name in ("hour", "min") if name in columns]
            path = out / MAPS / f"{parts[0]}{'T' if parts[1:] else ''}{'-'.join(parts[1:])}.geojson"
            write_bytes(path, _feature_collection(found, shapes, counts[:, k]))
            written.append(path)
    return written


def read_aggregates(folder: Path) -> pa.Table:
    """`counts.csv` as a table: ids as text, dates as text, hours as whole numbers."""
    texts = dict.fromkeys(("pcod", "location_id", "date"), pa.string())
    options = pa_csv.ConvertOptions(column_types=texts | {"value": pa.float64()})
    return pa_csv.read_csv(folder / COUNTS, convert_options=options)


def _statement(found: Release) -> bytes:
    """The manifest as it was published, to travel with every other form of the numbers."""
    return manifest_text(found.manifest).encode()  # as it was checked, whatever lies there now


def _key(found: Release) -> str:
    return "pcod" if found.manifest.released.kind == PlaceKind.ZONES else "location_id"


def _intervals(found: Release) -> tuple[dict[str, list[object]], NDArray[np.int64]]:
    """Columns of the intervals, and which of them each slot falls in."""
    step, tz = found.manifest.grid.step_seconds, zone(found.manifest.grid.tz)
    names = ("date", *(["hour"] if step < _DAY else []), *(["min"] if step < _HOUR else []))
    known: dict[tuple[object, ...], int] = {}
    slot_of = np.empty(found.grid.edges[:-1].size, np.int64)
    for k, start in enumerate(found.grid.edges[:-1]):
        local = (_EPOCH + timedelta(microseconds=int(start))).astimezone(tz)
        key = (local.date().isoformat(), local.hour, local.minute)[: len(names)]
        slot_of[k] = known.setdefault(key, len(known))
    return {name: [key[i] for key in known] for i, name in enumerate(names)}, slot_of


def _table(
    found: Release, columns: dict[str, list[object]], counts: NDArray[np.float64]
) -> pa.Table:
    places, intervals = counts.shape
    rows = {_key(found): np.repeat(found.ids, intervals).tolist()}
    rows |= {name: values * places for name, values in columns.items()}
    whole = bool((counts == np.rint(counts)).all())
    values = np.round(counts.ravel(), 3)
    return pa.table({**rows, "value": values.astype(np.int64) if whole else values})


def _feature_collection(
    found: Release, shapes: NDArray[np.object_], values: NDArray[np.float64]
) -> bytes:
    middles = shapely.to_geojson(shapely.centroid(shapes))
    outlines = shapely.to_geojson(shapes)
    features = [
        {
            "type": "Feature",
            "id": k + 1,
            "geometry": json.loads(outlines[k] or "null"),  # a tower that moved has no one place
            "properties": {
                _key(found): str(found.ids[k]),
                "value": round(float(values[k]), 3),
                "centroid": json.loads(middles[k] or "null"),
            },
        }
        for k in range(found.ids.size)
    ]
    whole = {"properties": {"crs": _PROJ4}, "type": "FeatureCollection", "features": features}
    return json.dumps(whole, ensure_ascii=False).encode()


_DAY_MICROSECONDS = 86_400_000_000
SCHEMA = pa.schema(
    [
        pa.field("zone_id", pa.string(), nullable=False),
        pa.field("population", pa.float32(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
PARTITIONS = pa.schema(
    [
        ("dataset_id", pa.string()),
        ("level", pa.int8()),
        ("year", pa.int16()),
        ("month", pa.int8()),
        ("day", pa.int8()),
    ]
)


def write_population(found: Release, out: Path, zoning: str | None) -> list[Path]:
    """Write the release below `out`, a folder for each day; a day that is there is not replaced."""
    if found.manifest.released.kind != PlaceKind.ZONES:
        raise UsageError(
            "multimno publishes zones, and this release is about towers.",
            remedy="Make the release with `zoning`.",
        )
    into = Zoning.parse(zoning)
    folder = out / f"dataset_id={into.dataset}" / f"level={into.level}"
    days = found.grid.edges[:-1] // _DAY_MICROSECONDS
    targets = {int(day): folder / _day_folder(int(day)) for day in np.unique(days)}
    for target in targets.values():
        if target.exists():
            raise InputError(
                "this day is there already.", file=str(target), remedy="Remove it first."
            )
    name = found.manifest.release.name
    written = [out / f"_sfumato-{''.join(c if c.isalnum() else '-' for c in name)}.json"]
    make_folder(out)
    write_bytes(written[0], _statement(found))
    for day, target in targets.items():
        target.mkdir(parents=True)
        path = target / "part-00000.parquet"
        pq.write_table(
            _rows(found, days == day), path, compression="snappy", write_page_checksum=True
        )
        written.append(path)
    return written


def read_population(folder: Path) -> pa.Table:
    """What `write_population` wrote, by zone and time."""
    partitioning = ds.partitioning(PARTITIONS, flavor="hive")
    table = ds.dataset(folder, format="parquet", partitioning=partitioning).to_table()
    return table.sort_by([("zone_id", "ascending"), ("timestamp", "ascending")])


def _day_folder(day: int) -> Path:
    """As Spark names partitions: plain numbers."""
    moment = np.datetime64(day, "D").item()
    return Path(f"year={moment.year}") / f"month={moment.month}" / f"day={moment.day}"


def _rows(found: Release, slots: np.typing.NDArray[np.bool_]) -> pa.Table:
    starts = np.tile(found.grid.edges[:-1][slots], found.ids.size)
    times = pa.array(starts, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    zones = pa.array(np.repeat(found.ids, int(slots.sum())).tolist(), pa.string())
    numbers = pa.array(found.values[:, slots].ravel().astype(np.float32))
    return pa.Table.from_arrays([zones, numbers, times], schema=SCHEMA)


PIPELINES = ("multimno", "flowkit")
PACKAGE = "package"


def open_pipeline(
    name: str,
    where: str,
    grid: TimeGrid,
    zoning: str | None = None,
    events_tz: str | None = None,
) -> Inputs:
    """Find events, towers and zones: multimno in its lakehouse, FlowKit in FlowDB or an export.

    `zoning` says which zones: `nuts:3` or `INSPIRE_1km` for multimno, `admin3` for FlowKit. Without
    it, FlowKit's antennas are released themselves.
    """
    _check(name)
    if name == "multimno":
        if is_address(where):  # taken for a path it would be repeated in messages
            raise UsageError(
                "multimno's data is a lakehouse folder, not a database.",
                remedy="Point to the folder that holds bronze and silver.",
            )
        return open_multimno(Path(where), grid, zoning, events_tz)
    return open_flowkit(where, grid, zoning, events_tz)


def export(
    release: str | os.PathLike[str] | Release,
    out: str | os.PathLike[str],
    *,
    to: str,
    zoning: str | None = None,
    geojson: bool = False,
    title: str | None = None,
    publisher: str | None = None,
    licence: str | None = None,
    contact: str | None = None,
) -> list[Path]:
    """Write a release as a package for portals, or as another pipeline would have published it.

    Nothing is read but the release.

    Args:
        release: The release, or its folder.
        out: Folder to write into.
        to: package, multimno or flowkit.
        zoning: multimno: what the zones are called there, such as nuts:3.
        geojson: flowkit: also a map of every slot.
        title: package: what readers call it; default: as in the release, or its name.
        publisher: package: who publishes it; default: as in the release.
        licence: package: an SPDX identifier such as CC-BY-4.0, or an address; likewise.
        contact: package: mail or web address for questions; likewise.

    Returns:
        The files that were written, the privacy statement among them.

    Raises:
        InputError: The release is not as it was published.
        UsageError: There is no such pipeline, or it has no such form; or a package has no
            publisher or licence.

    Example:
        >>> sfumato.export("releases/week-37", "out", to="flowkit")        # doctest: +SKIP
    """
    said = about(title, publisher, licence, contact)
    if to == PACKAGE:
        if zoning is not None or geojson:
            raise UsageError(
                "A package has its outlines and needs no name of a zoning.",
                remedy="Leave `zoning` and `geojson` out.",
            )
        from sfumato.published.package import write_package  # it draws maps in

        return write_package(vouched(as_release(release), "It cannot be exported"), Path(out), said)
    _check(to, (PACKAGE, *PIPELINES))
    if said is not None:
        raise UsageError(
            f"{to} has no place for title, publisher, licence and contact.",
            remedy="Leave them out, or export to package.",
        )
    found = vouched(as_release(release), "It cannot be exported")
    if found.grid.fold is not None:
        raise UsageError(
            f"A typical {found.grid.fold} has no dates of its own, and {to} publishes by date.",
            remedy="Use density.parquet of the release.",
        )
    if to == "multimno":
        if geojson:
            raise UsageError("multimno has no GeoJSON form.", remedy="Leave `geojson` out.")
        return write_population(found, folder_to_fill(out), zoning)
    if zoning is not None:
        raise UsageError(
            "FlowKit's aggregates do not say their zoning.", remedy="Leave `zoning` out."
        )
    return write_aggregates(found, folder_to_fill(out), geojson=geojson)


def _check(name: str, known: tuple[str, ...] = PIPELINES) -> None:
    if name not in known:
        raise UsageError(
            f"{name!r} is not a pipeline that sfumato knows.",
            remedy=f"Choose from {', '.join(known)}.",
        )
