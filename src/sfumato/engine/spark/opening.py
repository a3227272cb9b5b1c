"""From what the user points at to a `SparkSource`: a frame, a table's name, or paths.

A frame keeps its own session. A name such as `catalog.db.table` is a table of the session's
catalogue; everything else is a path that Spark reads (`s3a://…`, `hdfs://…`, a local file, folder
or pattern), as Parquet unless its ending says CSV or ORC. CSV is read as on one machine: every
column is text, nothing is guessed, an empty field is missing; a line with the wrong fields is an
error. Keys of partition folders (`day=01/`) are text too, whatever the session is set to guess.

An address may hold a password or a token: messages show it without.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sfumato.engine.spark.describing import CORRUPT, describe
from sfumato.engine.spark.errors import without_records
from sfumato.engine.spark.session import is_spark_frame, open_session
from sfumato.engine.spark.source import SparkSource
from sfumato.model.errors import UsageError
from sfumato.model.places import Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

_TABLE = re.compile(r"(\w+|`[^`]+`)(\.(\w+|`[^`]+`)){0,2}")
_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_GUESS = "spark.sql.sources.partitionColumnTypeInference.enabled"


def open_source(
    events: object,
    places: Places,
    grid: TimeGrid,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    progress: Progress | None = None,
) -> SparkSource:
    """Open and describe the events; close the source to let the session go where it is ours."""
    closing = ExitStack()
    try:
        if is_spark_frame(events):
            if master is not None or settings:
                raise UsageError(
                    "A Spark DataFrame has its session already, with its own settings.",
                    remedy="Leave the master and Spark's settings out.",
                )
            frame, label = events, "Spark DataFrame"
        else:
            session, closing = open_session(master, settings)
            frame, label = _read(session, events)
        described = describe(frame, label=label, columns=columns, tz=tz, time_unit=time_unit)
        return SparkSource(described, places, grid, closing=closing, progress=progress)
    except BaseException:
        closing.close()
        raise


def _read(session: Any, events: object) -> tuple[Any, str]:
    given = list(events) if isinstance(events, list | tuple) else [events]
    if not given or not all(isinstance(one, str | os.PathLike) for one in given):
        raise UsageError(
            f"Spark cannot read events from a {type(events).__name__}.",
            remedy="Give a Spark DataFrame, a path, or the name of a table.",
        )
    texts = [os.fspath(one) for one in given]  # type: ignore[arg-type]
    first = str(texts[0])
    label = shown(first)
    with without_records(label):
        if len(texts) == 1 and _TABLE.fullmatch(first) and not Path(first).exists():
            return session.table(first), label
        paths = [_address(str(text)) for text in texts]
        ending = first.lower().rstrip("/")
        if ending.endswith(_CSV):
            return _csv(session, paths, "\t" if ".tsv" in ending else ","), label
        kind = "orc" if ending.endswith(".orc") else "parquet"
        return _typed(session, kind, paths), label


def shown(text: str) -> str:
    """A path or a table's name as it is, an address without user, password and options."""
    if ":/" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return "the address given"
    if parts.netloc:
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    # jdbc:… and the like: nobody knows where the secret stands.
    plain = parts.path.startswith("/") and "@" not in parts.path
    return f"{parts.scheme}:{parts.path if plain else '…'}"


def _typed(session: Any, kind: str, paths: list[str]) -> Any:
    """Files with types of their own; what their folders' names say stays text, as elsewhere.

    Only a session can be told not to guess. One that guesses is told for the moment in which the
    schema is found, and then given that schema.
    """
    if session.conf.get(_GUESS, "true") == "false":
        return session.read.format(kind).load(paths)
    session.conf.set(_GUESS, "false")
    try:
        schema = session.read.format(kind).load(paths).schema
    finally:
        session.conf.set(_GUESS, "true")
    return session.read.format(kind).schema(schema).load(paths)


def _csv(session: Any, paths: list[str], separator: str) -> Any:
    reader = session.read.option("header", True).option("sep", separator).option("escape", '"')
    names = reader.csv(paths).columns
    schema = ", ".join(f"`{name.replace('`', '``')}` STRING" for name in (*names, CORRUPT))
    reader = reader.schema(schema).option("mode", "PERMISSIVE").option("enforceSchema", False)
    return reader.option("columnNameOfCorruptRecord", CORRUPT).csv(paths)


def _address(text: str) -> str:
    """A local file by its full address: the cluster's default may be another file system."""
    if "://" in text or not Path(text).exists():
        return text
    return Path(text).absolute().as_uri()
