"""The registry of file formats: which files one reads, what their schema is, and their rows.

A format is one class here and one entry in `FORMATS`. It reads the schema from a header or a
footer, never from rows, and gives rows in Arrow columns to `sfumato.io.rows`. `Damaged` is raised
where the file itself is broken; nothing is raised because of what a row holds.
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import InputError
from sfumato.io.files import CsvDialect, Unreadable, open_text, read_dialect, read_piece, unreadable
from sfumato.io.json_lines import json_values
from sfumato.io.lines import cut_csv, whole_lines
from sfumato.io.rows import SWOLLEN, Positions, RowRules, longest_entry
from sfumato.io.tables import INT96, Column, arrow_columns, refuse_repeated
from sfumato.model.events import EventFile, FileFormat

BATCH = 1 << 15
"""Rows of Parquet at a time. Larger batches of text are mapped and unmapped, which costs more."""
_BUFFER = 1 << 20


class Damaged(InputError):
    """The file is broken: its bytes cannot be unpacked or decoded to the end."""


@dataclass(frozen=True, slots=True)
class FileSchema:
    """Columns of a file, and how a CSV file is cut. `open_names`: every line names its own."""

    columns: tuple[Column, ...]
    delimiter: str = ","
    header: tuple[str, ...] = ()
    open_names: bool = False


class Format(Protocol):
    """What a format of event files has to know."""

    kind: FileFormat

    def schema(self, path: Path, chosen: Collection[str]) -> FileSchema | None:
        """Columns from header or footer; nothing where the file is empty."""

    def positions(self, file: EventFile, rules: RowRules) -> Iterator[Positions]:
        """The rows, batch by batch."""

    def expected_rows(self, path: Path) -> int:
        """Rows by the file's metadata, for progress only; 0 where not known."""


class Parquet:
    """Apache Parquet through Arrow, which leaves the bytes of texts unjudged (DuckDB does not)."""

    kind = FileFormat.PARQUET

    def schema(self, path: Path, chosen: Collection[str]) -> FileSchema | None:  # noqa: ARG002
        with _Parquet(path) as file:
            names = file.schema_arrow.names
            if not names:
                raise InputError("the file has no columns.", file=str(path))
            refuse_repeated(list(names), str(path))
            old = {
                column.path
                for k in range(len(file.schema))
                if (column := file.schema.column(k)).physical_type == INT96
            }
            columns = arrow_columns(file.schema_arrow)
        return FileSchema(
            tuple(Column(c.name, INT96 if c.name in old else c.type) for c in columns)
        )

    def positions(self, file: EventFile, rules: RowRules) -> Iterator[Positions]:
        keys = dict(file.keys)
        stored = [name for name in rules.used if name not in keys]
        place = rules.reading.columns.place
        coded = [place] if rules.dictionaries and place in stored else []
        coded += [name for name in _swelling(file.path, stored) if name not in coded]
        with _Parquet(file.path, coded) as opened:
            # Threads here would hold whole row groups in memory and save no work.
            batches = opened.iter_batches(BATCH, columns=stored, use_threads=False)
            while True:
                try:
                    batch = next(batches, None)
                except (pa.ArrowException, OSError, ValueError, EOFError):
                    raise _damaged(file.path) from None
                if batch is None:
                    return
                columns = {name: batch.column(name) for name in stored}
                stated = constants(keys, rules, batch.num_rows)
                yield from rules.batches(columns | stated, batch.num_rows)

    def expected_rows(self, path: Path) -> int:
        with _Parquet(path) as file:
            return int(file.metadata.num_rows)


def _swelling(path: Path, names: Sequence[str]) -> list[str]:
    """Columns with a text so long that rows spelled out would not fit into memory.

    A page names a text of its dictionary by a number: one of a megabyte, written once and named
    by one person's thousands of rows, is gigabytes in a batch, and the system would end the
    program. Such columns stay dictionaries until they are cut into pieces (`RowRules.batches`).
    One row of a row group brings its dictionary; ordinary columns cost no more than that.
    """
    with _Parquet(path) as file:
        kinds = {c.path: c.physical_type for c in map(file.schema.column, range(len(file.schema)))}
    texts = [name for name in names if kinds.get(name) == "BYTE_ARRAY"]
    found: set[str] = set()
    with _Parquet(path, texts) as file:
        for group in range(file.num_row_groups):
            named = _with_dictionary(file.metadata.row_group(group), texts)
            if not named:
                continue
            try:
                rows = file.iter_batches(1, row_groups=[group], columns=named, use_threads=False)
                first = next(rows, None)
            except (pa.ArrowException, OSError, ValueError, EOFError):
                raise _damaged(path) from None
            if first is not None:
                found |= {n for n in named if longest_entry(first.column(n)) > SWOLLEN // BATCH}
    return [name for name in texts if name in found]


def _with_dictionary(group: Any, names: Sequence[str]) -> list[str]:
    """Those of the columns whose pages name texts of a dictionary; others cannot swell."""
    chunks = [group.column(k) for k in range(group.num_columns)]
    coded = {c.path_in_schema for c in chunks if any("DICT" in text for text in c.encodings)}
    return [name for name in names if name in coded]


def parquet_layout(path: Path) -> str:
    """The schema in the footer to the last detail: files that share it are read alike."""
    with _Parquet(path) as file:
        refuse_repeated(list(file.schema_arrow.names), str(path))
        return repr(file.schema).partition("\n")[2]  # the first line is an address in memory


class _Parquet:
    """A Parquet file that is closed again, with errors that show nothing of it."""

    def __init__(self, path: Path, dictionaries: Sequence[str | None] = ()) -> None:
        try:
            self._file = pq.ParquetFile(
                path,
                coerce_int96_timestamp_unit="us",
                pre_buffer=False,  # else all of it stays in memory
                buffer_size=_BUFFER,
                read_dictionary=list(dictionaries) or None,
            )
        except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
            raise unreadable(path, error) from None
        except (pa.ArrowException, OSError, ValueError, EOFError):
            raise _damaged(path) from None

    def __enter__(self) -> Any:
        return self._file

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _damaged(path: Path) -> Damaged:
    return Damaged(
        "the Parquet file is damaged or cut short.",
        file=str(path),
        remedy="Copy or write it again.",
    )


def constants(keys: Mapping[str, str | None], rules: RowRules, rows: int) -> dict[str, Any]:
    """Columns that the partition folders state, as bytes: a path need not be UTF-8."""
    stated = {name: keys[name] for name in rules.used if name in keys}
    return {
        name: pa.repeat(pa.scalar(None if text is None else os.fsencode(text), pa.binary()), rows)
        for name, text in stated.items()
    }


def text_blocks(path: Path, ahead: int = 0) -> Iterator[tuple[bytes, int]]:
    """Whole lines of a text file behind the first `ahead`, and how many over-long ones follow."""
    with open_text(path) as opened:

        def read(size: int) -> bytes:
            try:
                return read_piece(opened, path, size)
            except Unreadable:
                raise
            except InputError:
                raise Damaged("the compressed file is damaged.", file=str(path)) from None

        for block in whole_lines(read):
            data, skipped = block.data, block.skipped
            while ahead and data:
                data, ahead = data[data.find(b"\n") + 1 :], ahead - 1
            heads = min(ahead, skipped)
            ahead -= heads
            yield data, skipped - heads


class Csv:
    """Lines cut by `sfumato.io.lines`; every field is text and nothing is guessed."""

    kind = FileFormat.CSV

    def schema(self, path: Path, chosen: Collection[str]) -> FileSchema | None:
        dialect = read_dialect(path, chosen)
        return None if dialect is None else csv_schema(dialect)

    def positions(self, file: EventFile, rules: RowRules) -> Iterator[Positions]:
        for data, skipped in text_blocks(file.path, file.ahead):
            yield csv_positions(data, file, rules, skipped)

    def expected_rows(self, path: Path) -> int:  # noqa: ARG002
        return 0


def csv_schema(dialect: CsvDialect) -> FileSchema:
    """The schema that a header states."""
    columns = tuple(Column(name, "VARCHAR") for name in dialect.columns)
    return FileSchema(columns, dialect.delimiter, dialect.columns)


def csv_positions(data: bytes, file: EventFile, rules: RowRules, skipped: int = 0) -> Positions:
    """Rows of whole lines of a CSV file, its header not among them."""
    keys = dict(file.keys)
    stored = [name for name in rules.used if name not in keys]
    wanted = [file.header.index(name) for name in stored]
    cut = cut_csv(data, file.delimiter, len(file.header), wanted)
    return rules.positions(
        dict(zip(stored, cut.columns, strict=True)) | constants(keys, rules, cut.rows),
        unreadable=cut.malformed + skipped,
    )


class NdJson:
    """One JSON object a line; the names of its members are those of the options."""

    kind = FileFormat.NDJSON

    def schema(self, path: Path, chosen: Collection[str]) -> FileSchema | None:  # noqa: ARG002
        return FileSchema((), open_names=True)

    def positions(self, file: EventFile, rules: RowRules) -> Iterator[Positions]:
        start = True
        for data, skipped in text_blocks(file.path):
            # A byte order mark belongs to the file, not to whoever's line stands first.
            yield json_positions(data.removeprefix(BOM_UTF8) if start else data, rules, skipped)
            start = False

    def expected_rows(self, path: Path) -> int:  # noqa: ARG002
        return 0


def json_positions(data: bytes, rules: RowRules, skipped: int = 0) -> Positions:
    """Rows of whole lines of NDJSON."""
    names = rules.reading.columns
    ids = [name for name in (names.user, names.place) if name is not None]
    found = json_values(data, rules.used, ids)
    return rules.positions(
        found.columns,
        numeric_times=found.numeric[names.time],
        unreadable=found.malformed + skipped,
    )


FORMATS: dict[FileFormat, Format] = {each.kind: each for each in (Parquet(), Csv(), NdJson())}
