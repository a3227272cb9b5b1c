"""The folder that `anonymise` writes: tables, README, a manifest that says what it is not.

`manifest.json` has `"kind": "anonymised"`, the `method` with its `parameters`, the statement under
`privacy`, `places` and `grid` as every release has them, the digests of all `files`, and `table`:

=========  ==================  =====================================================================
table      file                columns
=========  ==================  =====================================================================
`counts`   `counts.parquet`    `place` (text), `slot` (number), `people`; none in `place` or `slot`
                               is the total over all of them, none in `people` is suppressed
`paths`    `paths.parquet`     `record` (number), `lon` and `lat`: lists with a number for each slot
                               of the grid, NaN where the record has no position
`items`    `items.parquet`     `record`, `step` (from 0, in the record's order), `area` (number),
                               `first` and `last` slot (both included; none: time is withheld)
           `areas.parquet`     `area`, `label`, `place`: a row for each place that an area covers
=========  ==================  =====================================================================

Records are numbered by lot: their order tells nothing. Beside the folder, never in it, stands
`NAME-internal` for the holder alone: `key.internal.parquet` (`record`, `user`, `group`, with the
record -1 for people who were left out) and `figures.internal.json`, what was measured against the
truth, attacks among it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato import __version__
from sfumato.errors import InputError, UsageError
from sfumato.io import foreign
from sfumato.io.write import (
    PARQUET,
    folder_to_fill,
    make_folder,
    sweep_temporaries,
    write_atomically,
    write_bytes,
    write_parquet,
)
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid
from sfumato.published.manifest import MANIFEST_NAME, GridFacts
from sfumato_lab.syntactic.statement import LABEL, README, filled

KIND = "anonymised"
KEY, FIGURES = "key.internal.parquet", "figures.internal.json"
ROWS = 1 << 16
"""Records that are written at a time."""
NO_TIME = -1
"""First and last slot of an item whose time is withheld."""
LEFT_OUT = -1
"""The record of somebody who was left out, and the group of a record that is in none."""
Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """People by place and slot, -1 where suppressed, and the totals where they are published."""

    people: Ints
    of_place: Ints | None = None
    of_slot: Ints | None = None
    of_all: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Records x slots of longitude and latitude in degrees; NaN where there is no position."""

    lon: NDArray[np.floating[Any]]
    lat: NDArray[np.floating[Any]]

    def __len__(self) -> int:
        return len(self.lon)


@dataclass(frozen=True, slots=True, eq=False)
class Areas:
    """What published items name: area i covers `places[offsets[i]:offsets[i + 1]]`, by number."""

    labels: Sequence[str]
    offsets: Ints
    places: Ints

    @classmethod
    def of(cls, labels: Sequence[str], area_of: Ints, places: Ints) -> Areas:
        """From pairs of an area and a place that it covers."""
        order = np.lexsort((places, area_of))
        offsets = np.searchsorted(area_of[order], np.arange(len(labels) + 1))
        return cls(labels, offsets.astype(np.int64), places[order].astype(np.int64))

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Record i is `offsets[i]:offsets[i + 1]` of areas with first and last slot, in its order."""

    offsets: Ints
    area: Numbers
    first: Numbers
    last: Numbers
    areas: Areas

    def __len__(self) -> int:
        return int(self.offsets.size) - 1


Table = Counts | Paths | Items
TABLES: Mapping[str, type] = {"counts": Counts, "paths": Paths, "items": Items}
TABLE_FILES = frozenset({"counts.parquet", "paths.parquet", "items.parquet", "areas.parquet"})


@dataclass(frozen=True, slots=True)
class Promise:
    """What a method promises and what it does not: the words of manifest, README and command."""

    method: str
    says: str
    """The promise in a sentence, with its numbers."""
    helps_against: tuple[str, ...]
    broken_by: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What a reader must know about the definition, such as that (k, delta) is not Definition 1."""

    def text(self) -> str:
        """The statement for readers."""
        what = "Counts of people" if self.method == "counts" else "Records of people"
        lines = [
            filled(f"{what}, anonymised by the method `{self.method}`. {self.says}"),
            "",
            filled(
                f"{LABEL}. No noise was paid for and no budget bounds what this tells about a "
                "person; a second release about the same people may undo it. It stands in the "
                "holder's ledger without a bound, and what is published later about these people "
                "says that its epsilon does not cover this. What must hold "
                "against everybody, whatever they know, is published by `sfumato release`."
            ),
            "",
            "It helps against:",
            *(filled(one, "* ") for one in self.helps_against),
            "",
            "What breaks it (`sfumato attack anonymised` measures it on your own data):",
            *(filled(one, "* ") for one in self.broken_by),
        ]
        if self.notes:
            lines += ["", "About the definition:", *(filled(one, "* ") for one in self.notes)]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "differential_privacy": False,
            "label": LABEL,
            "promise": self.says,
            "helps_against": list(self.helps_against),
            "broken_by": list(self.broken_by),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """A folder of anonymised records, read back: its manifest and its table."""

    folder: Path
    manifest: Mapping[str, Any]
    table: Table = field(repr=False)

    @property
    def method(self) -> str:
        """By which method it was made."""
        return str(self.manifest["method"])

    @property
    def internal(self) -> Path:
        """The holder's own folder beside it."""
        return internal_folder(self.folder)


def internal_folder(folder: Path) -> Path:
    """Where the holder's own files about a folder are: beside it, never in it."""
    return folder.parent / f"{folder.name}-internal"


def checked_out(out: str | os.PathLike[str]) -> Path:
    """A folder that may be filled: new, or one of a run of this kind, which is written again.

    Raises:
        UsageError: Something else is there.
    """
    folder = folder_to_fill(out)
    manifest = folder / MANIFEST_NAME
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        try:
            kind = foreign.document(foreign.contents(manifest)).get("kind")
        except (OSError, ValueError, AttributeError):
            kind = None
        if kind != KIND:
            raise UsageError(
                f"{folder} holds something else: what is anonymised does not go there.",
                remedy="Choose another `out`.",
            )
    return folder


def write_anonymised(
    out: Path,
    promise: Promise,
    parameters: Mapping[str, Any],
    table: Table,
    places: Places,
    grid: TimeGrid,
    facts: Mapping[str, Any],
) -> Path:
    """Tables, README and, last, the manifest with their digests.

    Args:
        out: The folder, made if need be.
        promise: What is promised, and what not.
        parameters: Of the method, all public.
        table: What is published.
        places: What the items and counts are about.
        grid: The slots.
        facts: What else the manifest states: `records`, how many were published, among it.

    Returns:
        The folder.
    """
    folder = make_folder(checked_out(out))
    kind = next(name for name, of in TABLES.items() if isinstance(table, of))
    names = _write_table(folder, table, places)
    sweep_temporaries(folder)
    for name in TABLE_FILES - set(names):
        # Of an earlier run by another method: two releases of the same people in one folder are
        # what breaks either.
        (folder / name).unlink(missing_ok=True)
    write_bytes(folder / README, promise.text().encode())
    digests = {name: foreign.digest(folder / name) for name in sorted([*names, README])}
    about = {"kind": str(places.kind), "count": len(places), "sha256": places.fingerprint()}
    manifest = {
        "kind": KIND,
        "format": 1,
        "sfumato": __version__,
        "method": promise.method,
        "parameters": dict(parameters),
        "privacy": promise.to_json(),
        "table": kind,
        "places": about,
        "grid": GridFacts.of(grid).model_dump(),
        **facts,
        "files": digests,
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    write_bytes(folder / MANIFEST_NAME, text.encode())
    return folder


def _write_table(folder: Path, table: Table, places: Places) -> list[str]:
    if isinstance(table, Counts):
        write_parquet(folder / "counts.parquet", _count_rows(table, places))
        return ["counts.parquet"]
    if isinstance(table, Paths):
        _write_in_parts(folder / "paths.parquet", len(table), lambda a, b: _path_rows(table, a, b))
        return ["paths.parquet"]
    _write_in_parts(folder / "items.parquet", len(table), lambda a, b: _item_rows(table, a, b))
    covers = table.areas
    area = np.repeat(np.arange(len(covers)), np.diff(covers.offsets))
    labels = pa.array(list(covers.labels), pa.string())
    names = pa.array(places.ids.tolist(), pa.string())
    rows = {
        "area": pa.array(area, pa.int32()),
        "label": labels.take(pa.array(area)),
        "place": names.take(pa.array(covers.places)),
    }
    write_parquet(folder / "areas.parquet", pa.table(rows))
    return ["areas.parquet", "items.parquet"]


def _count_rows(table: Counts, places: Places) -> pa.Table:
    ids = pa.array(places.ids.tolist(), pa.string())
    n, slots = table.people.shape
    place = [np.repeat(np.arange(n), slots)]
    slot = [np.tile(np.arange(slots), n)]
    people = [table.people.ravel()]
    for totals, of in ((table.of_place, place), (table.of_slot, slot)):
        if totals is not None:
            known, other = (place, slot) if of is place else (slot, place)
            known.append(np.arange(totals.size))
            other.append(np.full(totals.size, -1))
            people.append(totals)
    if table.of_all is not None:
        place.append(np.array([-1]))
        slot.append(np.array([-1]))
        people.append(np.array([table.of_all]))
    where, when, many = (np.concatenate(one) for one in (place, slot, people))
    return pa.table(
        {
            "place": ids.take(pa.array(where, mask=where < 0)),
            "slot": pa.array(when, pa.int32(), mask=when < 0),
            "people": pa.array(many, pa.int64(), mask=many < 0),
        }
    )


def _path_rows(table: Paths, low: int, high: int) -> pa.Table:
    slots = table.lon.shape[1]
    ends = pa.array(np.arange(0, (high - low) * slots + 1, slots), pa.int32())
    lists = {
        name: pa.ListArray.from_arrays(
            ends, pa.array(np.asarray(getattr(table, name)[low:high], np.float64).ravel())
        )
        for name in ("lon", "lat")
    }
    return pa.table({"record": pa.array(np.arange(low, high), pa.int64()), **lists})


def _item_rows(table: Items, low: int, high: int) -> pa.Table:
    offsets = table.offsets[low : high + 1]
    rows = slice(int(offsets[0]), int(offsets[-1]))
    many = np.diff(offsets)
    step = np.arange(rows.stop - rows.start) - np.repeat(offsets[:-1] - offsets[0], many)
    first, last = table.first[rows], table.last[rows]
    return pa.table(
        {
            "record": pa.array(np.repeat(np.arange(low, high), many), pa.int64()),
            "step": pa.array(step, pa.int32()),
            "area": pa.array(table.area[rows], pa.int32()),
            "first": pa.array(first, pa.int32(), mask=first < 0),
            "last": pa.array(last, pa.int32(), mask=last < 0),
        }
    )


def _write_in_parts(path: Path, records: int, rows: Any) -> None:
    """Some records at a time: the whole as Arrow would be as large again."""

    def fill(temporary: Path) -> None:
        with pq.ParquetWriter(temporary, rows(0, 0).schema, **PARQUET) as sink:
            for low in range(0, records, ROWS):
                sink.write_table(rows(low, min(low + ROWS, records)))

    write_atomically(path, fill)


def write_internal(
    folder: Path, users: Any, record: Ints, group: Ints, figures: Mapping[str, Any]
) -> Path:
    """The holder's own files about a folder: who is which record, and what was measured."""
    own = internal_folder(folder)
    make_folder(own).chmod(0o700)
    key = {"record": pa.array(record), "user": users, "group": pa.array(group)}
    write_parquet(own / KEY, pa.table(key), 0o600)
    text = json.dumps({"internal": True, **figures}, indent=2, ensure_ascii=False) + "\n"
    write_bytes(own / FIGURES, text.encode(), 0o600)
    return own


def read_manifest(where: Path) -> dict[str, Any]:
    """The manifest of a folder that `anonymise` wrote.

    Raises:
        InputError: It is no such folder.
    """
    try:
        manifest: dict[str, Any] = foreign.document(foreign.contents(where / MANIFEST_NAME))
        right = manifest["kind"] == KIND and manifest["table"] in TABLES
    except (OSError, ValueError, KeyError, TypeError):
        right = False
    if not right:
        raise InputError(
            "this is not a folder of anonymised records.",
            file=str(where),
            remedy="Give a folder that `sfumato anonymise` wrote.",
        )
    return manifest


def read_anonymised(folder: str | os.PathLike[str]) -> Published:
    """A folder that `anonymise` wrote; every file is checked against its digest.

    Raises:
        InputError: It is no such folder, or was altered.
    """
    where = Path(folder)
    manifest = read_manifest(where)
    for name, wanted in manifest["files"].items():
        try:
            same = Path(name).name == name and foreign.digest(where / name) == wanted
        except OSError:
            same = False
        if not same:
            raise InputError(
                "the file is missing or was altered since it was written.",
                file=str(where / name),
            )
    try:
        return Published(where, manifest, _read_table(where, manifest))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, OSError,
            pa.ArrowException):  # fmt: skip
        raise InputError(
            "its table is not the one that its manifest is about.", file=str(where)
        ) from None


def _read_table(folder: Path, manifest: Mapping[str, Any]) -> Table:
    kind = manifest["table"]
    rows = foreign.table(foreign.contents(folder / f"{kind}.parquet"))

    def numbers(name: str, missing: int = -1) -> Any:
        return rows[name].combine_chunks().fill_null(missing).to_numpy(zero_copy_only=False)

    slots = int(manifest["grid"]["slots"])
    if kind == "counts":
        places = int(manifest["places"]["count"])
        people, when = numbers("people"), numbers("slot")
        everywhere = rows["place"].is_null().to_numpy()
        cells = people[~everywhere & (when >= 0)].reshape(places, slots)
        whole = people[everywhere & (when < 0)]
        of_place, of_slot = people[~everywhere & (when < 0)], people[everywhere & (when >= 0)]
        return Counts(
            cells,
            of_place if of_place.size else None,
            of_slot if of_slot.size else None,
            int(whole[0]) if whole.size else None,
        )
    if kind == "paths":
        lon, lat = (
            rows[name].combine_chunks().values.to_numpy().reshape(-1, slots)
            for name in ("lon", "lat")
        )
        return Paths(lon, lat)
    covers = foreign.table(foreign.contents(folder / "areas.parquet"))
    record, records = numbers("record"), int(manifest["records"])
    if not 0 <= records <= foreign.UNPACKED // 8:
        raise ValueError("more records than can be read")
    offsets = np.searchsorted(record, np.arange(records + 1))
    area_of = covers["area"].to_numpy()
    labels = np.unique(area_of, return_index=True)[1]
    # Every place is in some area and places are in the order of their ids: these are their numbers.
    place = np.unique(covers["place"].to_numpy(zero_copy_only=False), return_inverse=True)[1]
    said = covers["label"].take(pa.array(labels)).to_pylist()
    areas = Areas.of(said, area_of.astype(np.int64), place.astype(np.int64))
    return Items(
        offsets.astype(np.int64), numbers("area"), numbers("first"), numbers("last"), areas
    )
