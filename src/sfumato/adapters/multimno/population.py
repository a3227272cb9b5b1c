"""Present population per zone, as multimno's own last step writes it.

Columns `zone_id` (text), `population` (32-bit float), `timestamp` (UTC), partitioned by
`dataset_id`, `level`, `year`, `month`, `day` (of UTC). Every zone and slot has a row: nothing was
deleted or set to -1. The manifest travels as `_sfumato-NAME.json`, which Spark does not read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from sfumato.adapters.multimno.zones import Zoning
from sfumato.adapters.published import PublishedCounts
from sfumato.io.writers import write_bytes
from sfumato.model.errors import InputError, UsageError
from sfumato.model.places import PlaceKind

_DAY = 86_400_000_000
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


def write_population(found: PublishedCounts, out: Path, zoning: str | None) -> list[Path]:
    """Write the release below `out`, a folder for each day; a day that is there is not replaced."""
    if found.kind is not PlaceKind.ZONES:
        raise UsageError(
            "multimno publishes zones, and this release is about antennas.",
            remedy="Make the release with --zoning.",
        )
    into = Zoning.parse(zoning)
    folder = out / f"dataset_id={into.dataset}" / f"level={into.level}"
    days = found.starts // _DAY
    targets = {int(day): folder / _day_folder(int(day)) for day in np.unique(days)}
    for target in targets.values():
        if target.exists():
            raise InputError(
                "this day is there already.", file=str(target), remedy="Remove it first."
            )
    name = found.manifest.release.name
    written = [out / f"_sfumato-{''.join(c if c.isalnum() else '-' for c in name)}.json"]
    out.mkdir(parents=True, exist_ok=True)
    write_bytes(written[0], found.statement())
    for day, target in targets.items():
        target.mkdir(parents=True)
        path = target / "part-00000.parquet"
        pq.write_table(_rows(found, days == day), path, compression="snappy")
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


def _rows(found: PublishedCounts, slots: np.typing.NDArray[np.bool_]) -> pa.Table:
    starts = np.tile(found.starts[slots], found.ids.size)
    times = pa.array(starts, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    zones = pa.array(np.repeat(found.ids, int(slots.sum())).tolist(), pa.string())
    numbers = pa.array(found.counts[:, slots].ravel().astype(np.float32))
    return pa.Table.from_arrays([zones, numbers, times], schema=SCHEMA)
