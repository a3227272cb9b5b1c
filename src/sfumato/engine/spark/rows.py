"""What Spark scans, and what a worker makes of it: rows judged by the rules of every path.

Spark only brings rows to workers: typed columns as they are stored (texts as their bytes), or
lines of text files, cut at LF and otherwise untouched. A worker runs `sfumato.io.rows` and the
`Judge` of one machine on them and gives (u, cell) for each row that counts, and what it dropped
as rows without a user: so no rule is written twice, and no value can stop a query.

A `Scan` is one frame whose rows arrive alike: the Parquet files of one schema, all text files,
or a table. Where several parts share it, each row has the number of its file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.local import DropLog, DropReason, Judge
from sfumato.engine.spark.files import NUMBER, Store, is_text, types_of
from sfumato.engine.spark.session import guarded, without_records
from sfumato.io.events import FORMATS
from sfumato.io.formats import LineFormat, constants
from sfumato.io.lines import LONGEST
from sfumato.io.parquet import Parquet
from sfumato.io.rows import Positions, RowRules
from sfumato.io.tables import quoted
from sfumato.io.values import bytes_of, numbers, validity
from sfumato.model.events import EventFile, Events, EventTable, UserEncoding
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid

Part = EventFile | EventTable
_ALONE = 0
"""Number of the part in a scan that has one."""
_TALLY = 50
"""Bits of a number of rows in a cell that counts what was dropped."""
_REASONS = tuple(DropReason)
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """A frame, and by the number of its file the part that each row belongs to."""

    frame: Any
    parts: dict[int, Part]
    types: dict[str, str]
    """Column to Spark type; empty for lines."""
    by_file: bool

    @property
    def is_lines(self) -> bool:
        return not self.types

    @property
    def one(self) -> Part:
        """Any part: typed ones of a scan differ in their folders' names alone."""
        return next(iter(self.parts.values()))

    @property
    def stored(self) -> tuple[str, ...]:
        """Typed columns that play a part and stand in the rows themselves."""
        keys = keys_of(self.one)
        return tuple(name for name in self.one.reading.columns.used if name not in keys)

    def sent(self) -> Any:
        """What workers get of the frame: a line, or the columns, then the number of the file."""
        if self.is_lines:
            # A record that is too long is not sent, but counted: it arrives as NULL.
            line = "concat(CAST(value AS BINARY), X'0A')"
            line = f"IF(octet_length(value) <= {LONGEST + 1}, {line}, NULL) AS line"
            return self.frame.selectExpr(
                line, f"{NUMBER} AS file", "_metadata.file_block_start AS at"
            )
        picked = [f"{self._column(name)} AS c{k}" for k, name in enumerate(self.stored)]
        return self.frame.selectExpr(*picked, *([f"{NUMBER} AS file"] if self.by_file else []))

    def _column(self, name: str) -> str:
        kind, column = self.types[name], quoted(name, "`")
        if is_text(kind) or kind == "void":
            return f"CAST({column} AS BINARY)"  # without a collation, and not judged yet
        if kind == "decimal(20,0)" and name == self.one.reading.columns.time:
            near = f"greatest(least({column}, {_LARGEST}), -{_LARGEST})"
            return f"IF({column} IS NULL, NULL, TRY_CAST({near} AS BIGINT))"
        return column


def keys_of(part: Part) -> dict[str, str | None]:
    """What the folders of a part say."""
    return dict(part.keys) if isinstance(part, EventFile) else {}


def scans_of(events: Events, store: Store) -> tuple[Scan, ...]:
    """The scans that give all rows of resolved events."""
    scans: list[Scan] = []
    lines: list[EventFile] = []
    groups: dict[Any, list[EventFile]] = {}
    for part in events.parts:
        if isinstance(part, EventTable):
            with without_records(part.label):
                types = types_of(part.table.schema)
            bare = replace(part, table=None)
            scans.append(Scan(part.table, {_ALONE: bare}, types, by_file=False))
        elif part.format == Parquet.name:
            schema = store.schemas[part.label]
            key = (schema.json(), tuple(name for name, _ in part.keys))
            groups.setdefault(key, []).append(part)
        else:
            lines.append(part)
    for group in groups.values():
        used = set(group[0].reading.columns.used)
        by_file = any(name in used for name, _ in group[0].keys)
        parts = {store.numbers[p.label]: p for p in group} if by_file else {_ALONE: group[0]}
        with without_records(group[0].label):
            frame, types = store.typed(group), types_of(store.schemas[group[0].label])
        scans.append(Scan(frame, dict(parts), types, by_file))
    if lines:
        with without_records(lines[0].label):
            frame = store.lines(lines)
        scans.append(Scan(frame, {store.numbers[p.label]: p for p in lines}, {}, by_file=True))
    return tuple(scans)


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """What a worker needs to know. Public things only: of `parts` no path, see `alike`."""

    parts: Mapping[int, Part]
    stored: tuple[str, ...]
    is_lines: bool
    by_file: bool
    held: UserEncoding
    places: Places
    grid: TimeGrid
    place_bits: int
    slot_bits: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a cell on its way."""
        return np.dtype(np.int32 if self.place_bits + self.slot_bits <= 31 else np.int64)

    def rules(self) -> dict[int, RowRules]:
        """By the number of a part; parts that are read alike share theirs."""
        rules = {
            reading: RowRules(
                reading,
                self.held,
                coordinates=reading.columns.lon is not None,
                period=self.grid.period,
            )
            for reading in {part.reading for part in self.parts.values()}
        }
        return {number: rules[part.reading] for number, part in self.parts.items()}


def alike(parts: Mapping[int, Part]) -> dict[int, Part]:
    """Parts without the paths of their files, which no worker opens: those that are then equal are
    one, and sent once. Every task gets all parts, and ten thousand files are a megabyte."""
    bare = {
        number: replace(part, path=Path()) if isinstance(part, EventFile) else part
        for number, part in parts.items()
    }
    distinct = {part: part for part in bare.values()}
    return {number: distinct[part] for number, part in bare.items()}


def judged(scan: Scan, recipe: Recipe, fraction: float = 1.0) -> Any:
    """The lazy frame of `(u, cell)`; of a sample of the rows where `fraction` is below 1."""

    def work(batches: Any) -> Any:
        return cells(batches, recipe)

    kind = "BIGINT" if recipe.held is UserEncoding.INTEGER else "BINARY"
    with without_records(scan.one.label):
        sent = scan.sent()
        if fraction < 1.0:
            sent = sent.sample(fraction, seed=1)
        return sent.mapInArrow(guarded(work), f"u {kind}, cell BIGINT")


def cells(batches: Iterator[Any], recipe: Recipe) -> Iterator[Any]:
    """In a worker: (u, cell) of the rows that count, then what became of the others."""
    kind = pa.int64() if recipe.held is UserEncoding.INTEGER else pa.binary()
    for user, cell in judged_cells(batches, recipe):
        yield _batch(pa.nulls(cell.size, kind) if user is None else user, cell)


def judged_cells(
    batches: Iterator[Any], recipe: Recipe
) -> Iterator[tuple[Any | None, NDArray[np.int64]]]:
    """Users and cells of the rows that count; at last no users, and tallies of what did not."""
    judge: Judge | None = None
    kind = pa.int64() if recipe.held is UserEncoding.INTEGER else pa.binary()
    for located in positions(batches, recipe):
        if judge is None:
            judge = Judge(recipe.places, recipe.grid, recipe.place_bits)
        cell = judge.cells(located)
        kept = cell >= 0
        user = located.user
        if not kept.all():
            user, cell = user.filter(pa.array(kept)), cell[kept]
        yield user if user.type == kind else user.cast(kind), cell
    if judge is not None:
        yield None, tallies(judge.log())


def _batch(user: Any, cell: NDArray[np.int64]) -> Any:
    return pa.RecordBatch.from_arrays([user, pa.array(cell)], names=["u", "cell"])


def tallies(log: DropLog) -> NDArray[np.int64]:
    """How many rows were read, and dropped for each reason, as negative cells."""
    counts = [log.rows, *(log.dropped.get(reason, 0) for reason in _REASONS)]
    return np.array([-((k + 1) << _TALLY | n) for k, n in enumerate(counts) if n], np.int64)


def add_tallies(packed: NDArray[np.int64], times: NDArray[np.int64], total: NDArray[Any]) -> None:
    """Add negative cells, each seen so many times, to rows read and dropped."""
    which, count = -packed >> _TALLY, -packed & ((1 << _TALLY) - 1)
    np.add.at(total, which - 1, count * times)


def log_of(total: NDArray[np.int64], unfit: int) -> DropLog:
    """The log that the sums of all tallies are. Rows of a cluster have no number."""
    dropped = {r: int(n) for r, n in zip(_REASONS, total[1:], strict=True) if n}
    return DropLog(int(total[0]), dropped, dict.fromkeys(dropped), unfit)


TALLIES = 1 + len(_REASONS)


def positions(batches: Iterator[Any], recipe: Recipe) -> Iterator[Positions]:
    """In a worker: the rows of every batch, each by the rules of its part."""
    rules = recipe.rules()
    if recipe.is_lines:
        yield from _from_lines(batches, recipe, rules)
        return
    for batch in batches:
        for low, high, number in _runs(batch, recipe) if batch.num_rows else ():
            part, its = recipe.parts[number], rules[number]
            some = batch.slice(low, high - low)
            columns = dict(zip(recipe.stored, some.columns, strict=False))
            yield its.positions(columns | constants(keys_of(part), its, some.num_rows))


def _runs(batch: Any, recipe: Recipe) -> Iterator[tuple[int, int, int]]:
    """Rows of one part that follow one another: first, behind the last, the part's number."""
    if not recipe.by_file:
        yield 0, batch.num_rows, _ALONE
        return
    file = numbers(batch.column("file"), np.int64)
    starts = np.flatnonzero(np.diff(file, prepend=~file[:1])).tolist()
    for low, high in zip(starts, [*starts[1:], file.size], strict=True):
        yield low, high, int(file[low])


def _from_lines(
    batches: Iterator[Any], recipe: Recipe, rules: Mapping[int, RowRules]
) -> Iterator[Positions]:
    """Lines come in the order of their file within a task; its first ones may be a header.

    A file's beginning is where rows that stand in its first block follow others. Lines of files
    that are read alike and follow one another are cut together: each is read by itself.
    """
    before: tuple[int, int] | None = None
    ahead = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        at = numbers(batch.column("at"), np.int64)
        lines = _Lines(batch.column("line"))
        read: int | None = None
        for low, high, number in _runs(batch, recipe):
            if read is not None and recipe.parts[read] is not recipe.parts[number]:
                yield lines.positions(recipe.parts[read], rules[read])
            read = number
            edges = [low, *(low + 1 + np.flatnonzero(np.diff(at[low:high]))).tolist(), high]
            for first, behind in pairwise(edges):
                part, here = recipe.parts[number], (number, int(at[first]))
                assert isinstance(part, EventFile)
                if here != before:
                    ahead = part.ahead if here[1] == 0 else 0
                start = min(first + ahead, behind)
                ahead, before = ahead - (start - first), here
                lines.add(start, behind)
        assert read is not None
        yield lines.positions(recipe.parts[read], rules[read])


class _Lines:
    """Lines of a batch, put together until they are read."""

    def __init__(self, column: Any) -> None:
        self._ends, self._data = bytes_of(column)
        self._there = validity(column)
        self._pieces: list[Any] = []
        self._long = 0

    def add(self, start: int, behind: int) -> None:
        self._pieces.append(self._data[int(self._ends[start]) : int(self._ends[behind])])
        if self._there.size:
            self._long += int(np.count_nonzero(~self._there[start:behind]))

    def positions(self, part: Part, rules: RowRules) -> Positions:
        """Of the lines since the last time."""
        assert isinstance(part, EventFile)
        kind = FORMATS[part.format]
        assert isinstance(kind, LineFormat)
        data, long = b"".join(self._pieces), self._long
        self._pieces, self._long = [], 0
        return kind.rows(data, part, rules, long)
