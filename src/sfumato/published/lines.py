"""The lines of a stream: numbers that grow slot by slot, read back as place x slot.

`stream.ndjson` has a line a slot and `places.json` the order of its numbers. A stream that goes on
is read from them alone, its last slots without what is before them; a complete one has a table too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, SfumatoError, is_printable
from sfumato.io.foreign import document, opened
from sfumato.model.time_grid import TimeGrid
from sfumato.published.estimate import Estimate
from sfumato.published.manifest import GridFacts, Manifest

LINES, PLACES, CITY_TABLE = "stream.ndjson", "places.json", "density-city.parquet"
WHOLE = "Take the whole folder as it was published, from its publisher or from a copy."
Table = NDArray[np.float64]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Place x slot, and what both are; no interval or median where the publisher states none."""

    ids: NDArray[np.str_]
    grid: TimeGrid
    values: Table
    lower: Table | None = None
    upper: Table | None = None
    median: Table | None = None
    total: Table | None = None
    """Lower and upper end of each slot's sum (slot x 2), where a stream states them."""

    def stated(self, places: Table, slots: Table, facts: Manifest) -> Estimate:
        """A sum without a posterior: an interval where the very sum is printed with one.

        That is a single count, the sum of a slot (of streams), the sum of everything.
        """
        value = float(places @ self.values @ slots)
        coverage, of_sums = facts.scheme.interval_coverage, facts.scheme.coverage_of_sums
        whole = bool((places == 1).all())
        everything = whole and (slots == 1).all() and self.grid.slots == facts.grid.slots
        if everything and facts.total is not None:  # not where the last slots alone were read
            total = facts.total
            return Estimate(value, total.lower, total.upper, total.coverage)
        slot, place = np.flatnonzero(slots), np.flatnonzero(places)
        if of_sums and slot.size == 1 and slots[slot[0]] == 1:
            if whole and self.total is not None:
                low, high = self.total[slot[0]].tolist()
                return Estimate(value, low, high, of_sums)
            alone = place.size == 1 and places[place[0]] == 1
            if coverage and alone and self.lower is not None and self.upper is not None:
                at = (place[0], slot[0])
                return Estimate(value, float(self.lower[at]), float(self.upper[at]), coverage)
        return Estimate(value)

    def last(self, slots: int) -> Numbers:
        """The last slots alone."""
        if slots >= self.grid.slots:
            return self
        kept = {
            name: None if layer is None else np.ascontiguousarray(layer[:, -slots:])
            for name in ("lower", "upper", "median")
            for layer in [getattr(self, name)]
        }
        grid = TimeGrid(self.grid.edges[-slots - 1 :], self.grid.step, self.grid.tz)
        total = None if self.total is None else self.total[-slots:]
        return Numbers(self.ids, grid, self.values[:, -slots:], **kept, total=total)


def last_lines(path: Path, lines: int) -> bytes:
    """The last whole lines of a file that grows, without reading what is before them."""
    block, found = 1 << 20, b""
    try:
        with opened(path) as (file, size):
            at = size
            while at > 0 and found.count(b"\n") <= lines:
                piece = min(block, at)
                at -= piece
                file.seek(at)
                found = file.read(piece) + found
                block *= 2
    except OSError:
        raise no_folder(path.parent) from None
    end = found.rfind(b"\n") + 1  # the last may still be being written
    return b"".join(found[:end].splitlines(keepends=True)[-lines:])


def read_lines(lines: bytes, places: bytes, facts: GridFacts, path: Path) -> Numbers:
    """The arrays of a stream from its lines, as far as they go.

    Rows of one id, a tower that moved, are added up: the tables of a release hold each id once.

    Args:
        lines: `stream.ndjson`; a last line that is still being written is left out.
        places: `places.json`.
        facts: The slots of the manifest.
        path: The folder, for messages.

    Raises:
        InputError: They are damaged, or no slot is out yet.
    """
    try:
        rows = list(document(places)["zones"])
        records = [document(line) for line in lines.split(b"\n")[:-1]]
        if len(records) * len(rows) > len(lines):  # no number takes less than a byte
            raise ValueError("numbers are missing")
        layers = {
            name: _layer(records, name, len(rows))
            for name in ("counts", "lower", "upper", "median")
            if name == "counts" or any(name in record for record in records)
        }
        total = None
        if any("total" in record for record in records):
            total = _layer(records, "total", 3)[:, 1:]
        moments = [datetime.fromisoformat(record["start"]) for record in records]
        moments.append(datetime.fromisoformat(records[-1]["end"]))
        edges = np.array([(at - _EPOCH) // timedelta(microseconds=1) for at in moments])
        grid = TimeGrid(edges, timedelta(seconds=facts.step_seconds), facts.tz)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, SfumatoError):
        raise InputError(
            "this stream cannot be read, or no slot of it is out yet.",
            file=str(path),
            remedy="Name the folder that sfumato stream writes to.",
        ) from None
    if grid.slots == facts.slots and grid.fingerprint() != facts.sha256:
        raise InputError("its times are not those of the manifest.", file=str(path), remedy=WHOLE)
    named = shown_ids(rows, path)
    ids, row = np.unique(named, return_inverse=True)
    if ids.size == len(rows):
        ids = named
        tables = {name: np.ascontiguousarray(layer.T) for name, layer in layers.items()}
    else:
        tables = {}
        for name, layer in layers.items():
            tables[name] = np.zeros((ids.size, grid.slots))
            np.add.at(tables[name], row, layer.T)
            tables[name] = np.round(tables[name], 3)
    return Numbers(ids, grid, tables.pop("counts"), **tables, total=total)


def shown_ids(ids: list[Any], path: Path) -> NDArray[np.str_]:
    """Ids of places as they are. They are keys, so none is changed to something that can be shown.

    Raises:
        InputError: One is no text, or holds what commands a terminal.
    """
    if not all(isinstance(key, str) and is_printable(key) for key in ids):
        raise InputError(
            "an id of its places holds characters that cannot be shown.", file=str(path)
        )
    return np.asarray(ids, dtype=np.str_)


def _layer(records: list[dict[str, Any]], name: str, width: int) -> Table:
    """Slot x place of one list of the lines; a slot that states none is NaN."""
    found = np.full((len(records), width), np.nan)
    for slot, record in enumerate(records):
        if name in record or name == "counts":
            found[slot] = record[name]
    return found


def no_folder(path: Path) -> InputError:
    return InputError(
        "this is not a release folder, or its manifest is damaged."
        if path.exists()
        else "there is no such folder.",
        file=str(path),
        remedy="Name the folder that sfumato release, stream or sanitise made.",
    )
