"""Apache Parquet through Arrow, which leaves the bytes of texts unjudged (DuckDB does not).

**A footer is trusted where Arrow has opened the columns behind it, and no earlier.** Arrow's reader
answers what is impossible in a footer with an error. What it shows to Python of a column of a row
group does not: a codec that there is none of, or a histogram of a wrong length, ends the process
in C++, and one damaged file in a folder would end every run that meets it. So only `_trusted` asks
for it, and has Arrow's reader open just these columns first; everything else here reads the schema
and numbers of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import InputError
from sfumato.io.files import PARQUET_ENDINGS, Damaged, head, unreadable
from sfumato.io.formats import FileSchema, TableFormat, constants
from sfumato.io.rows import SWOLLEN, Positions, RowRules, is_text, longest_entry
from sfumato.io.tables import INT96, Column, arrow_columns, refuse_repeated
from sfumato.model.events import EventFile

BATCH = 1 << 15
"""Rows at a time. Larger batches of text are mapped and unmapped, which costs more."""
_NUMBERS = 1 << 16
"""The same where no texts are spelled out: each batch costs some, and this many stay in a cache."""
_BUFFER = 1 << 20


class Parquet(TableFormat):
    """Parquet files; the schema is their footer's."""

    name = "parquet"
    endings = PARQUET_ENDINGS

    def schema(self, path: Path, chosen: Collection[str]) -> FileSchema | None:  # noqa: ARG002
        _check_start(path)
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
        footer, swollen = _judged(file.path, stored)
        coded += [name for name in swollen if name not in coded]
        with _Parquet(file.path, coded, footer) as opened:
            kinds = (opened.schema_arrow.field(name).type for name in stored if name not in coded)
            size = BATCH if any(map(is_text, kinds)) else _NUMBERS
            for batch in _arrow_batches(opened, file.path, None, stored, size):
                columns = {name: batch.column(name) for name in stored}
                columns |= constants(keys, rules, batch.num_rows)
                yield from rules.batches(columns, batch.num_rows)

    def expected_rows(self, path: Path) -> int:
        with _Parquet(path) as file:
            return max(0, int(file.metadata.num_rows))  # a footer may say anything


Chunks = dict[str, Any]
"""What the footer says of columns of a row group, by their names."""


def _trusted(opened: Any, path: Path, group: int, names: list[str]) -> Chunks:
    """What the footer says of columns of a row group, which Arrow's reader has opened first.

    Nothing of a row group without a row: what it says of its columns is of no use.
    """
    about = opened.metadata.row_group(group)
    paths = [opened.schema.column(k).path for k in range(len(opened.schema))]
    columns = {name: k for k, name in enumerate(paths) if name in names}
    if not columns or about.num_rows <= 0:
        return {}
    # To give no row at all, the reader opens the columns, judges their codecs and levels by the
    # very code that would end the process below, and reads no page: a row would cost a page.
    _read_on(opened.reader.iter_batches(0, [group], [*columns.values()], False), path)
    return {name: about.column(k) for name, k in columns.items()}


def _arrow_batches(
    opened: Any, path: Path, groups: list[int] | None, names: list[str], size: int
) -> Iterator[Any]:
    """Arrow's batches, with errors that show nothing of what is read."""
    # Threads here would hold whole row groups in memory and save no work.
    batches = opened.iter_batches(size, row_groups=groups, columns=names, use_threads=False)
    while (batch := _read_on(batches, path)) is not None:
        yield batch


def _read_on(batches: Iterator[Any], path: Path) -> Any:
    """The next batch, or None behind the last."""
    try:
        return next(batches, None)
    except (pa.ArrowException, OSError, ValueError, EOFError):
        raise _damaged(path) from None


def _judged(path: Path, names: Sequence[str]) -> tuple[Any, list[str]]:
    """The footer, and which columns of texts swell.

    These have a text so long that rows spelled out would not fit into memory. A page names a text
    of its dictionary by a number: one of a megabyte, written once and named by one person's
    thousands of rows, is gigabytes in a batch, and the system would end the program. Such columns
    stay dictionaries until they are cut into pieces (`RowRules.batches`). One row of a row group
    brings its dictionary; ordinary columns cost no more than that.
    """
    with _Parquet(path) as file:
        kinds = {c.path: c.physical_type for c in map(file.schema.column, range(len(file.schema)))}
        texts = [name for name in names if kinds.get(name) == "BYTE_ARRAY"]
        groups = [_trusted(file, path, group, texts) for group in range(file.num_row_groups)]
        footer = file.metadata
    swollen: set[str] = set()
    with _Parquet(path, texts, footer) as file:
        for group, chunks in enumerate(groups):
            # Pages that name texts of a dictionary; others cannot swell.
            coded = [n for n, c in chunks.items() if any("DICT" in text for text in c.encodings)]
            rows = _arrow_batches(file, path, [group], coded, 1)
            if coded and (first := next(rows, None)) is not None:
                swollen |= {n for n in coded if longest_entry(first.column(n)) > SWOLLEN // BATCH}
    return footer, [name for name in texts if name in swollen]


def parquet_layout(path: Path) -> str:
    """The schema in the footer to the last detail: files that share it are read alike."""
    _check_start(path)
    with _Parquet(path) as file:
        refuse_repeated(list(file.schema_arrow.names), str(path))
        return repr(file.schema).partition("\n")[2]  # the first line is an address in memory


def _check_start(path: Path) -> None:
    """Refuse what is called Parquet and does not begin like it, or cannot be read by anybody."""
    start = head(path, 4)
    if start == b"PARE":
        raise InputError("the Parquet file is encrypted.", file=str(path), remedy="Decrypt it.")
    if start != b"PAR1":
        raise InputError(
            "this is not a Parquet file: it does not begin like one.",
            file=str(path),
            remedy="Copy it again, or give it the ending of what it is.",
        )


class _Parquet:
    """A Parquet file that is closed again, with errors that show nothing of it."""

    def __init__(
        self, path: Path, dictionaries: Sequence[str | None] = (), footer: Any = None
    ) -> None:
        try:
            self._file = pq.ParquetFile(
                path.absolute(),  # `week:37.parquet` alone would be an address to Arrow
                metadata=footer,  # where it was read before; else from the file
                coerce_int96_timestamp_unit="us",
                pre_buffer=False,  # else all of it stays in memory
                buffer_size=_BUFFER,
                read_dictionary=list(dictionaries) or None,
                page_checksum_verification=True,  # where a page has one
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
