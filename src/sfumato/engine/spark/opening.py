"""From what the user points at to a `SparkSource`: a frame, a table's name, or paths.

A frame keeps its own session. A name such as `catalog.db.table` is a table of the session's
catalogue, and so is a path that ends in `.orc`, a format that only Spark reads; every other path
means files (`sfumato.engine.spark.files`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sfumato.engine.spark.describing import describe
from sfumato.engine.spark.errors import without_records
from sfumato.engine.spark.files import Store, address_of, read_files, shown, texts_of
from sfumato.engine.spark.session import is_spark_frame, open_session
from sfumato.engine.spark.source import SparkSource
from sfumato.model.errors import UsageError
from sfumato.model.events import Events
from sfumato.model.places import Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

_TABLE = re.compile(r"(\w+|`[^`]+`)(\.(\w+|`[^`]+`)){0,2}")


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
    options: dict[str, Any] = {"columns": columns, "tz": tz, "time_unit": time_unit}
    try:
        if is_spark_frame(events):
            if master is not None or settings:
                raise UsageError(
                    "A Spark DataFrame has its session already, with its own settings.",
                    remedy="Leave the master and Spark's settings out.",
                )
            described, store = describe(events, **options), Store()
        else:
            session, closing = open_session(master, settings)
            described, store = _read(session, events, options)
        return SparkSource(described, places, grid, store=store, closing=closing, progress=progress)
    except BaseException:
        closing.close()
        raise


def _read(session: Any, events: object, options: dict[str, Any]) -> tuple[Events, Store]:
    texts = texts_of(events)
    first = texts[0]
    label = shown(first)
    if len(texts) == 1 and _TABLE.fullmatch(first) and not Path(first).exists():
        with without_records(label):
            frame = session.table(first)
        return describe(frame, label=label, **options), Store()
    if first.lower().rstrip("/").endswith(".orc"):
        with without_records(label):
            here = [address_of(Path(text)) if Path(text).exists() else text for text in texts]
            frame = session.read.orc(here)
        return describe(frame, label=label, **options), Store()
    return read_files(session, texts, **options)
