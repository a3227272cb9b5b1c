"""A DuckDB connection of our own: bounded memory, private spill folder, nothing left behind.

Spill files hold records, so they live in a folder that only this user can enter and that
goes when the connection does. The session's zone is UTC: no reading may depend on where the
process happens to run. Insertion order is kept, because row numbers in messages need it;
no count depends on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb

from sfumato.io.scratch import Scratch
from sfumato.model.errors import InputError
from sfumato.model.file_errors import csv_error, mentioned


@contextmanager
def open_connection(
    *, threads: int | None = None, memory_limit: int | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory database with its own temporary folder, closed and removed at the end."""
    with Scratch() as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": threads or os.cpu_count() or 1,
            "temp_directory": folder,
            "preserve_insertion_order": "true",
            "autoinstall_known_extensions": "false",
        }
        if memory_limit is not None:
            # Below this DuckDB cannot open a Parquet file with wide row groups at all.
            config["memory_limit"] = f"{max(memory_limit, 128 << 20)}B"
        connection = duckdb.connect(":memory:", config=config)
        try:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET enable_progress_bar = false")
            yield connection
        finally:
            connection.close()


@contextmanager
def without_records(files: Sequence[str]) -> Iterator[None]:
    """Turn the engine's complaints, which quote the record, into errors that do not.

    Taken over are the line number and which of the known `files` it is about.
    """
    try:
        yield
    except duckdb.Error as error:
        if "CSV Error on Line" in str(error):
            raise csv_error(error, files) from None
        raise InputError(
            f"the events could not be read ({type(error).__name__}).",
            file=mentioned(str(error), files),
            remedy="Check that the file is complete and not cut short.",
        ) from None
