"""A published folder, believed as far as its manifest vouches for it.

`manifest.json` lists the SHA-256 of every other file. `open_folder` compares all of them, and what
is parsed later is compared once more, so that no number is used that was not published. Density,
stream and traces have the same manifest and are read by the same code.

A stream has its manifest from its last slot on. Until then
it, `stream.json` is its statement and `stream.ndjson` its numbers, for which no digest vouches.
Such a folder is opened and called unsealed; whoever passes its numbers on must ask.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.io.foreign import arrays, column, contents, digest, document, parquet_file, table
from sfumato.io.write import make_folder, mark_of
from sfumato.model.folded import folded_period
from sfumato.model.formats import Document, OtherFormat, current, steps
from sfumato.model.tiles import give_back
from sfumato.model.time_grid import TimeGrid, zone
from sfumato.published.lines import (
    CITY_TABLE,
    LINES,
    PLACES,
    WHOLE,
    Numbers,
    Table,
    last_lines,
    no_folder,
    read_lines,
    shown_ids,
)
from sfumato.published.manifest import MANIFEST_NAME, MOST_STATED, GridFacts, Manifest, manifest_in
from sfumato.published.statement import why_not_believed

TABLE, STATEMENT, MEASUREMENTS = "density.parquet", "stream.json", "measurements.npz"


def is_published(folder: Path) -> bool:
    """Whether a folder holds something that was published, of whatever kind."""
    return any((folder / name).exists() for name in (MANIFEST_NAME, STATEMENT))


def check_internal(folder: Path) -> Path:
    """A folder for what was measured against the truth.

    Raises:
        UsageError: It is a published one, which is uploaded whole.
    """
    if is_published(folder):
        raise UsageError(
            "Internal results do not go into a published folder.", remedy="Choose another `out`."
        )
    return folder


def make_internal_folder(folder: Path) -> Path:
    """The same, made if need be."""
    return make_folder(check_internal(folder))


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """Names and outlines in the order of the table's places."""

    names: tuple[str, ...]
    districts: tuple[str, ...]
    """Empty texts where the places have none."""
    geometry: NDArray[np.object_] | None
    """WGS84; `None` where none were published, and an entry where a tower moved."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Where it is, its statement, and whether digests vouch for all of it."""

    path: Path
    manifest: Manifest
    sealed: bool = True

    def holds(self, name: str) -> bool:
        """Whether a file is part of what was published.

        Of a stream that is unsealed the lines and their places are, as far as they go.
        """
        growing = not self.sealed and name in (LINES, PLACES) and (self.path / name).exists()
        return growing or name in self.manifest.files

    def read(self, name: str) -> bytes:
        """A file's content, refused unless it is the one that was published.

        Raises:
            InputError: It is absent, altered, or not in the manifest's list.
        """
        path, wanted = self.path / name, self.manifest.files.get(name)
        if not self.holds(name):
            raise InputError("the manifest does not list it.", file=str(path), remedy=WHOLE)
        try:
            content = contents(path)
        except OSError:
            raise _missing(path) from None
        if wanted is not None and hashlib.sha256(content).hexdigest() != wanted:
            raise _altered(path)
        return content

    def check(self) -> None:
        """Compare every file of the manifest's list.

        Raises:
            InputError: One of them is absent or altered; it is named.
        """
        for name, wanted in sorted(self.manifest.files.items()):
            path = self.path / name
            if Path(name).name != name:
                raise InputError("the manifest lists a file elsewhere.", file=str(self.path))
            try:
                found = digest(path)
            except OSError:
                raise _missing(path) from None
            if found != wanted:
                raise _altered(path)


def open_folder(path: Path) -> Folder:
    """The folder with its statement, every listed file compared.

    Args:
        path: What `release`, `stream` or `sanitise` made.

    Raises:
        InputError: It is no such folder, or a file of it is absent or altered.
    """
    try:
        stated = document(contents(path / MANIFEST_NAME, MOST_STATED))
    except FileNotFoundError:
        return _open_unsealed(path)
    except (OSError, ValueError):
        raise no_folder(path) from None
    folder = Folder(path, _manifest(stated, path))
    folder.check()
    return folder


def read_numbers(folder: Folder, last: int | None = None) -> Numbers:
    """The arrays of a density or a stream.

    Args:
        folder: What was published.
        last: Only so many of the last slots; of a stream that goes on no other is read.

    Raises:
        InputError: The table does not hold every place and slot of the manifest once, in order.
        UsageError: Traces were published, which have no such table.
    """
    manifest = folder.manifest
    if manifest.kind == "traces":
        raise UsageError(
            "These are sanitised traces, not counts by place and time slot.",
            remedy="Take the reports as they are: the table of traces.parquet.",
        )
    if manifest.kind == "stream" and not folder.holds(TABLE):
        some = last is not None and not folder.sealed
        lines = last_lines(folder.path / LINES, last or 1) if some else folder.read(LINES)
        found = read_lines(lines, folder.read(PLACES), manifest.grid, folder.path)
        if folder.sealed and found.grid.slots != manifest.grid.slots:
            raise _not_whole(folder.path / LINES)
    else:
        found = _from_table(folder, manifest, folder.path / TABLE)
        if manifest.kind == "stream" and folder.holds(CITY_TABLE):
            found = replace(found, total=_sums(folder, manifest.grid.slots))
    return found if last is None else found.last(last)


def parquet_table(folder: Folder, name: str) -> pa.Table:
    """A Parquet file of the folder, as today's format has it."""
    content = folder.read(name)
    with _as_parquet(folder.path / name):
        rows = table(content)
    with _of_today(folder.path / name):
        return current("table", mark_of(rows.schema), rows)


@contextmanager
def _of_today(path: Path) -> Iterator[None]:
    """Says what to do with a file of another format, in place of its own error."""
    try:
        yield
    except OtherFormat as other:
        raise InputError(other.problem, file=str(path), remedy=other.remedy) from None


@contextmanager
def _as_parquet(path: Path) -> Iterator[None]:
    try:
        yield
    except ValueError:
        raise InputError(
            "it cannot be read as Parquet, or is far larger than it should be.", file=str(path)
        ) from None


def read_arrays(
    folder: Folder, name: str = MEASUREMENTS, most: int | None = None
) -> dict[str, NDArray[Any]]:
    """The arrays of a file of numpy's, by name; `most` is how many bytes they may be."""
    path = folder.path / name
    try:
        numbers = arrays(folder.read(name), most)
        kind: Document = "measurements" if name == MEASUREMENTS else "posterior"
        with _of_today(path):
            found: dict[str, NDArray[Any]] = current(kind, str(numbers.get("format")), numbers)
            return found
    except ValueError:
        raise InputError("it cannot be read as arrays.", file=str(path), remedy=WHOLE) from None


def _from_table(folder: Folder, manifest: Manifest, path: Path) -> Numbers:
    """One column after the other: of a year of hours all of them at once would be a gigabyte."""
    slots, content = manifest.grid.slots, folder.read(TABLE)
    with _as_parquet(path):
        file = parquet_file(content)
        schema, rows = file.schema_arrow, file.metadata.num_rows
    names, whole = set(schema.names), None
    with _of_today(path):
        if steps("table", mark_of(schema)):
            whole = parquet_table(folder, TABLE)
            names = set(whole.column_names)

    def read(name: str) -> pa.ChunkedArray:
        with _as_parquet(path):
            return column(file, name) if whole is None else whole[name]

    for name in ("zone_id", "time_start", "time_end", "count"):
        if name not in names:
            raise InputError("the column is missing.", file=str(path), column=name)
    if not rows or rows % slots:
        raise _not_whole(path)
    ids = _ids(read("zone_id"), slots, path)
    starts, edges = _same_of_all(_microseconds(read("time_start"), path).reshape(-1, slots))
    ends, until = _same_of_all(_microseconds(read("time_end"), path).reshape(-1, slots))
    if not (starts and ends and (np.diff(edges) > 0).all()):
        raise _not_whole(path)
    edges = np.append(edges, until[-1])
    try:
        grid = _grid(edges, manifest.grid)
    except (ValueError, OverflowError, SfumatoError):
        raise _not_whole(path) from None
    if grid.fingerprint() != manifest.grid.sha256 or not np.array_equal(grid.edges, edges):
        raise InputError("its times are not those of the manifest.", file=str(path), remedy=WHOLE)

    def layer(name: str) -> Table | None:
        if name not in names:
            return None
        with _as_parquet(path):
            numbers = _floats(read(name))
        values = numbers.reshape(-1, slots)
        found = np.ascontiguousarray(values, dtype=np.float64)
        if np.isinf(found).any():
            raise InputError("it holds an infinite number.", file=str(path), column=name)
        del values, numbers
        give_back(found.shape)
        return found

    values = layer("count")
    assert values is not None
    return Numbers(ids, grid, values, layer("lower"), layer("upper"), layer("median"))


def _ids(names: pa.ChunkedArray, slots: int, path: Path) -> NDArray[np.str_]:
    """The place of every run of `slots` rows; each stands once, and can be shown."""
    if names.null_count:
        raise _not_whole(path)
    if not pa.types.is_dictionary(names.type):
        names = pc.cast(names, pa.string()).dictionary_encode()
    coded = names.unify_dictionaries().combine_chunks()
    which = coded.indices.to_numpy().reshape(-1, slots)
    first = which[:, 0].copy()
    if not (which == first[:, None]).all() or np.unique(first).size != first.size:
        raise _not_whole(path)
    return shown_ids(coded.dictionary.take(pa.array(first)).to_pylist(), path)


def _floats(numbers: pa.ChunkedArray) -> NDArray[np.float64]:
    try:
        found: NDArray[np.float64] = pc.cast(numbers, pa.float64()).to_numpy()
    except pa.ArrowException as error:
        raise ValueError("no numbers") from error
    return found


def _same_of_all(times: NDArray[np.int64]) -> tuple[bool, NDArray[np.int64]]:
    """Whether all places have the times of the first one, and these."""
    return bool((times == times[0]).all()), times[0].copy()


def _sums(folder: Folder, slots: int) -> Table:
    """Ends of the intervals of a stream's sums, slot x 2."""
    sums = parquet_table(folder, CITY_TABLE)
    if sums.num_rows != slots or not {"lower", "upper"} <= set(sums.column_names):
        raise _not_whole(folder.path / CITY_TABLE)
    with _as_parquet(folder.path / CITY_TABLE):
        ends = [_floats(sums[name]) for name in ("lower", "upper")]
    return np.stack(ends, axis=1)


def _grid(edges: NDArray[np.int64], facts: GridFacts) -> TimeGrid:
    """The slots of a table, and the period that they are folded from where it was."""
    step, fold = timedelta(seconds=facts.step_seconds), facts.fold
    if fold is None:
        return TimeGrid(edges, step, facts.tz)
    days = (date.fromisoformat(fold.start[:10]), date.fromisoformat(fold.end[:10]))
    return folded_period(*days, step, facts.tz, fold.to)


def read_shapes(folder: Folder, ids: NDArray[np.str_]) -> Shapes:
    """Names, districts and outlines by id; of the properties only these are used, as text."""
    keys = tuple(ids.tolist())
    name = f"{folder.manifest.released.kind}.geojson"
    if not folder.holds(name):
        return Shapes(keys, tuple("" for _ in keys), None)
    try:
        features = document(folder.read(name))["features"]
        found: dict[str, tuple[str, str, Any]] = {}
        for feature in features:
            properties = feature.get("properties") or {}
            key = str(properties.get("zone_id", properties.get("tower_id", feature.get("id"))))
            called, shape = properties.get("name"), feature.get("geometry")
            if key in found:  # a tower that moved: no one shape is that of all its numbers
                shape = None
            district = str(properties.get("district") or "")
            found[key] = (key if called in (None, "") else str(called), district, shape)
        known = [found.get(key, (key, "", None)) for key in keys]
        texts = [None if shape is None else json.dumps(shape) for _, _, shape in known]
        geometry = shapely.from_geojson(np.array(texts, dtype=object), on_invalid="ignore")
    except (ValueError, KeyError, TypeError, AttributeError, shapely.errors.ShapelyError):
        raise InputError("it cannot be read as GeoJSON.", file=str(folder.path / name)) from None
    return Shapes(tuple(k[0] for k in known), tuple(k[1] for k in known), geometry)


def _open_unsealed(path: Path) -> Folder:
    """A stream by its own statement; what that lists is compared all the same."""
    try:
        stated = document(contents(path / STATEMENT, MOST_STATED))
    except (OSError, ValueError):
        raise no_folder(path) from None
    manifest = _manifest(stated.get("manifest") if isinstance(stated, dict) else None, path)
    folder = Folder(path, manifest, sealed=False)
    folder.check()
    out = folder.read(LINES).count(b"\n") if folder.holds(LINES) else 0
    note = (
        f"This stream was read before it was complete: {out} of {manifest.grid.slots} slots, and "
        "no digest vouches for its numbers yet."
    )
    told = manifest.model_copy(update={"caveats": [*manifest.caveats, note]})
    return Folder(path, told, sealed=False)


def _manifest(stated: object, path: Path) -> Manifest:
    """A statement that can be believed as far as it goes: its own list gives what it claims."""
    try:
        with _of_today(path):
            manifest = manifest_in(stated)
        zone(manifest.grid.tz)
        step = manifest.grid.step_seconds
        if not (manifest.grid.slots > 0 and manifest.released.count > 0 and 0 < step < math.inf):
            raise ValueError("a table of nothing")
    except InputError:
        raise
    except (ValueError, SfumatoError):
        raise no_folder(path) from None
    problem = why_not_believed(manifest)
    if problem:
        raise InputError(
            problem, file=str(path), remedy="Take the folder from where it was published."
        )
    return manifest


def _microseconds(times: pa.ChunkedArray, path: Path) -> NDArray[np.int64]:
    if times.null_count or not pa.types.is_timestamp(times.type):
        raise InputError("its times are not timestamps.", file=str(path))
    unit = pa.timestamp("us", tz=times.type.tz)
    with _as_parquet(path):
        try:
            result: NDArray[np.int64] = pc.cast(pc.cast(times, unit), pa.int64()).to_numpy()
        except pa.ArrowException as error:
            raise ValueError("no times") from error
    return result


def _missing(path: Path) -> InputError:
    return InputError(
        "the manifest lists it, and it cannot be read here.", file=str(path), remedy=WHOLE
    )


def _altered(path: Path) -> InputError:
    return InputError(
        "it is not as it was published: its digest is not the one in the manifest.",
        file=str(path),
        remedy=WHOLE,
    )


def _not_whole(path: Path) -> InputError:
    return InputError(
        "it does not hold every place and slot of the manifest once, in order.",
        file=str(path),
        remedy=WHOLE,
    )
