"""What a stream writes: consistent counts, partitions and lines, the page, the finished folder.

**Consistency**: non-negative whole numbers that keep the noisy total, Algorithm 3 of Chen et al.,
two ways. `random_decrements` has the distribution of the printed loop (pick a cell at random, take
one away if there is one, until the negatives' mass is gone) without the loop: unit picks that hit
an empty cell are simply drawn again, so whole batches of picks can be drawn at once. A batch
of r picks over the positive cells is multinomial; picks beyond what a cell holds are the ones
the loop would have rejected, and they are drawn again among the cells that still hold
something. A negative total cannot be kept; it becomes zeros. `nearest_counts` is the exact answer
to the same question: the closest non-negative histogram with that total (simplex projection), made
whole by largest remainders. Both read noisy numbers and their own coins only: post-processing.

**Files.** `slots/slot=00012/part-0.parquet` (zone_id, count, and where the scheme states them
median, lower, upper) appears in one step; `stream.ndjson` grows by a line a slot. Both are written
from bytes that are already in the ledger's database, so writing them again changes nothing.
`places.json` names the zones in the order of the lines' values; outlines, `README.txt` for readers
and `stream.json`, the statement for machines, are there from the first slot on.

**The page** of a stream that goes on shows its last slots, as many as a browser likes, and says as
of when. It is replaced in one step, so whoever loads it sees a whole page. It is made of lines that
are out, which hold numbers with noise, and of so many at most: it costs the same in the tenth year.

A stream that is complete has the folder of a release: `density.parquet`, the same as text, a page
of the whole, `manifest.json` with the digest of every file but the partitions, and where the scheme
can use them later the noisy measurements that it remembers (`streams.kept`). All of it is made
of the lines and the state after the last one, so a run that was killed here makes the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.density.refine.margins import project_to_simplex, round_keeping_totals
from sfumato.errors import InputError, SfumatoError
from sfumato.io.write import (
    marked,
    sweep_temporaries,
    write_arrays,
    write_places,
    write_places_parquet,
)
from sfumato.model.places import Places
from sfumato.published.folder import MEASUREMENTS, STATEMENT, TABLE
from sfumato.published.lines import CITY_TABLE, LINES, PLACES, read_lines
from sfumato.published.manifest import MANIFEST_NAME, Manifest, manifest_text
from sfumato.published.posterior import POSTERIOR
from sfumato.published.release import UNSEALED, Release
from sfumato.published.tables import csv_of, write_city_table, write_long_tables
from sfumato.streams.scheme import Joint, Publication, Values
from sfumato.streams.state import Standing, chained


class Consistency(StrEnum):
    NONE = "none"
    RANDOM = "random"
    NEAREST = "nearest"


def random_decrements(values: Values, rng: np.random.Generator) -> NDArray[np.int64]:
    """Algorithm 3 as printed, in its vectorised form."""
    # Cut where a sum of all cells could wrap: far more than there are people.
    most = float((1 << 62) // values.size)
    whole = np.rint(np.clip(values, -most, most)).astype(np.int64)
    missing = int(-whole[whole < 0].sum())
    whole = np.maximum(whole, 0)
    if missing >= whole.sum():
        return np.zeros_like(whole)
    while missing > 0:
        positive = np.flatnonzero(whole)
        picks = rng.multinomial(missing, np.full(positive.size, 1 / positive.size))
        taken = np.minimum(picks, whole[positive])
        whole[positive] -= taken
        missing -= int(taken.sum())
    return whole


def nearest_counts(values: Values) -> NDArray[np.int64]:
    """The closest non-negative histogram of the same (rounded) total, in whole numbers."""
    total = np.array([max(np.rint(values.sum()), 0.0)])
    return round_keeping_totals(project_to_simplex(values[:, None], total))[:, 0]


def consistent(values: Values, how: Consistency, seed: bytes) -> Values:
    """The values made consistent; `seed` gives the coins of the random form."""
    if how is Consistency.NONE:
        return values
    if how is Consistency.NEAREST:
        return nearest_counts(values).astype(np.float64)
    rng = np.random.default_rng(int.from_bytes(seed, "little"))
    return random_decrements(values, rng).astype(np.float64)


@dataclass(slots=True, eq=False)
class Steady:
    """Makes publications consistent, and one that is repeated the same again.

    The random form draws coins, so what is published again without change keeps those of before.
    """

    how: Consistency
    before: Values | None = None
    raw: Values | None = None
    """What `before` was made of, where coins were drawn."""

    def made(self, made: Publication, seed: bytes) -> Publication:
        """The publication in whole non-negative counts; ends of intervals move outwards."""
        if self.how is Consistency.NONE:
            return made
        drawn = self.raw if self.how is Consistency.RANDOM and not made.fresh else None
        if self.before is None or drawn is None or not np.array_equal(drawn, made.values):
            self.before = consistent(made.values, self.how, seed)
            self.raw = made.values
        return replace(
            made,
            values=self.before,
            median=None if made.median is None else np.maximum(np.rint(made.median), 0.0),
            lower=None if made.lower is None else np.maximum(np.floor(made.lower), 0.0),
            upper=None if made.upper is None else np.maximum(np.ceil(made.upper), 0.0),
        )


README = "README.txt"
LAYERS = ("median", "lower", "upper")
_NO_INTEGER = 2.0**63
"""From here on a number is written as it is."""
_PAGE_MOST = 20_000_000
"""Counts beyond which a page would be tens of megabytes, which no browser shows."""
_PAGE_LIVE = 400_000
"""Counts on a page that is written again with every slot: about a CPU-second with intervals (a day
of half hours of 8,010 cells; a million took 2.5)."""


def table_bytes(ids: NDArray[np.str_], made: Publication) -> bytes:
    """The slot's partition as a Parquet file. Whole numbers are written as such."""
    columns = {"zone_id": pa.array(ids.tolist()), "count": _column(made.values)}
    for name in LAYERS:
        layer = getattr(made, name)
        if layer is not None:
            columns[name] = _column(layer)
    sink = pa.BufferOutputStream()
    table = pa.table(columns)
    pq.write_table(table.cast(marked(table.schema)), sink, write_page_checksum=True)
    return bytes(sink.getvalue())


def _column(values: Values) -> pa.Array:
    return pa.array(values.astype(np.int64) if _whole(values) else values)


def _whole(values: Values) -> bool:
    return bool(((values == np.rint(values)) & (np.abs(values) < _NO_INTEGER)).all())


def line_bytes(slot: int, start: str, end: str, made: Publication) -> bytes:
    """The slot as one line: when, whether it was measured anew, and the counts in order."""
    record: dict[str, Any] = {
        "slot": slot,
        "start": start,
        "end": end,
        "fresh": made.fresh,
        "sd": None if not np.isfinite(made.sd) else round(made.sd, 6),
        "counts": _listed(made.values),
    }
    for name in LAYERS:
        layer = getattr(made, name)
        if layer is not None:
            record[name] = _listed(layer)
    if made.total is not None:
        ends = (made.total.value, *made.total.ends)
        record["total"] = [round(float(value), 3) for value in ends]
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _listed(values: Values) -> list[Any]:
    found: list[Any] = (values.astype(np.int64) if _whole(values) else np.round(values, 3)).tolist()
    return found


class Outputs:
    """The folder of one stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(
        self, ids: NDArray[np.str_], statement: str, places: Places | None = None
    ) -> dict[str, str]:
        """Make the folder, its places and its plain words, and return their digests.

        The same bytes on every start.
        """
        made = {PLACES: _json({"zones": ids.tolist()}), README: statement.encode()}
        try:
            (self.folder / "slots").mkdir(parents=True, exist_ok=True)
            if places is not None:
                write_places(self.folder / f"{places.kind}.geojson", places)
                write_places_parquet(self.folder / f"{places.kind}.parquet", places)
            said = {name: self._digest(name) for name in shape_names(places)}
        except OSError as error:
            raise self._failed(error) from error
        for name, content in made.items():
            said |= self._put(name, content)
        return said

    def state(self, statement: dict[str, Any]) -> None:
        """The statement for machines, before the first slot leaves."""
        self._put(STATEMENT, _json(statement))

    def page(self, manifest: Manifest) -> None:
        """The page of what is out so far, in place of the one before."""
        from sfumato.reports.page import PAGE_NAME, build_page

        last = max(1, _PAGE_LIVE // manifest.released.count)
        try:
            page = build_page(Release(self.folder, manifest, UNSEALED, last=last))
        except InputError:  # noise so large that no page can show it; the one before says its time
            return
        self._put(PAGE_NAME, page.encode())

    def end(
        self,
        manifest: Manifest,
        places: Places | None,
        kept: Mapping[str, NDArray[Any]] | None = None,
        joint: Joint | None = None,
    ) -> dict[str, str]:
        """The folder of a stream whose last slot is out; returns all digests, the manifest's too.

        `kept` are the noisy measurements that serve later streams, where the scheme has such, and
        `joint` says how errors of the published counts hang together.
        The manifest comes last: until it is there, the stream is not complete for any reader.
        """
        from sfumato.reports.page import PAGE_NAME, build_page

        sweep_temporaries(self.folder)  # what a run that was killed here left behind
        try:
            lines, ids = ((self.folder / name).read_bytes() for name in (LINES, PLACES))
            numbers = read_lines(lines, ids, manifest.grid, self.folder)
            write_long_tables(
                self.folder,
                numbers.ids,
                numbers.grid,
                numbers.values,
                median=numbers.median,
                lower=numbers.lower,
                upper=numbers.upper,
                csv=csv_of(manifest),
            )
            if manifest.scheme.coverage_of_sums:
                none = np.full((numbers.grid.slots, 2), np.nan)
                total = none if numbers.total is None else numbers.total
                write_city_table(self.folder, numbers.grid, numbers.values, total)
            if kept is not None:
                write_arrays(self.folder / MEASUREMENTS, kept)
            if joint is not None:
                coverage = manifest.scheme.interval_coverage
                write_arrays(self.folder / POSTERIOR, joint.arrays(coverage))
            names = final_names(manifest, places, kept is not None) - {PAGE_NAME}
            files = {name: self._digest(name) for name in sorted(names)}
        except OSError as error:
            raise self._failed(error) from error
        vouched = manifest.model_copy(update={"files": files})
        small = manifest.released.count * manifest.grid.slots <= _PAGE_MOST
        last = None if small else max(1, _PAGE_LIVE // manifest.released.count)
        page = build_page(Release(self.folder, vouched, last=last))
        files |= self._put(PAGE_NAME, page.encode())
        whole = manifest.model_copy(update={"files": files})
        return files | self._put(MANIFEST_NAME, manifest_text(whole).encode())

    def chain(self) -> bytes:
        """The hash of all lines, each on top of those before it."""
        with (self.folder / "stream.ndjson").open("rb") as lines:
            return reduce(chained, lines, b"")

    def in_use(self) -> bool:
        """Whether lines of some stream are here."""
        return (self.folder / LINES).exists()

    def check(self, standing: Standing) -> None:
        """Refuse to go on from a standing that is older than what was published.

        Files are written after the database, so they never hold more than it knows, unless the
        database was put back to an earlier copy. Going on from there would draw the noise of
        slots that are out already once more, for what may be other events.
        """
        path = self.folder / LINES
        with path.open("rb") if path.exists() else io.BytesIO() as file:
            file.seek(standing.offset)
            written = file.read(len(standing.line) + 1)
        if not standing.line.startswith(written):
            raise SfumatoError(
                f"{path} holds slots that the ledger's database does not know: the database was "
                "put back to an earlier copy, or the file belongs to another stream.",
                remedy="Restore the newest copy of the database. If there is none, give the stream "
                "up with sfumato ledger abandon: a published slot is never drawn again.",
            )

    def write(self, standing: Standing) -> None:
        """Write the last slot's output, whatever of it is there already."""
        if standing.next_slot == 0:
            return
        try:
            home = self.folder / "slots" / f"slot={standing.next_slot - 1:05d}"
            home.mkdir(exist_ok=True)
            self._replace(home / "part-0.parquet", standing.table)
            path = self.folder / LINES
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                if os.fstat(handle).st_size < standing.offset:
                    raise SfumatoError(
                        f"{path} is shorter than it was: lines were cut off.",
                        remedy="Restore it from a copy; published slots cannot be made again.",
                    )
                os.ftruncate(handle, standing.offset)
                os.pwrite(handle, standing.line, standing.offset)
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise self._failed(error) from error

    def _digest(self, name: str) -> str:
        with (self.folder / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _put(self, name: str, content: bytes) -> dict[str, str]:
        """Write one file in one step; its name and digest."""
        try:
            self._replace(self.folder / name, content)
        except OSError as error:
            raise self._failed(error) from error
        return {name: hashlib.sha256(content).hexdigest()}

    def _replace(self, path: Path, content: bytes) -> None:
        temporary = path.with_name(f".sfumato-{path.name}")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _failed(self, error: OSError) -> SfumatoError:
        return SfumatoError(
            f"{self.folder} could not be written: {error.strerror}.",
            remedy="Make room and run again with `resume=True`: nothing is paid twice.",
        )


def _json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, indent=1, sort_keys=True).encode() + b"\n"


def shape_names(places: Places | None) -> tuple[str, ...]:
    """The files of the places' outlines."""
    return () if places is None else (f"{places.kind}.geojson", f"{places.kind}.parquet")


def final_names(manifest: Manifest, places: Places | None, keeps: bool) -> set[str]:
    """What a complete stream's folder holds beside its partitions and its manifest."""
    grown = {PLACES, README, STATEMENT, LINES, TABLE, "index.html"}
    text = csv_of(manifest)
    grown |= set() if text is None else {text}
    city = {CITY_TABLE} if manifest.scheme.coverage_of_sums else set()
    measured = {MEASUREMENTS} if keeps else set()
    stated = manifest.posterior is not None and manifest.posterior.stated
    sums = {POSTERIOR} if stated else set()
    return {*grown, *city, *measured, *sums, *shape_names(places)}
