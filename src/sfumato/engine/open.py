"""`opened_source`: events of any kind as a source of bounded counts, on the engine where they are.

A Spark DataFrame is counted on its own session, everything else on this machine unless Spark is
asked for. What is opened here is closed at the end; events described before stay their owner's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.io.events import read_events
from sfumato.io.files import is_address
from sfumato.io.tables import is_spark_frame
from sfumato.model.events import Events
from sfumato.model.places import Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid

if TYPE_CHECKING:
    from sfumato.engine.spark.source import SparkSource


def engine_of(
    events: object, engine: str | None, master: str | None, spark: Mapping[str, str] | None
) -> bool:
    """Whether Spark is to count: asked for, or where the events are already."""
    if engine not in (None, "local", "spark"):
        raise UsageError(f"There is no engine {engine!r}.", remedy="Use local or spark.")
    on_spark = engine == "spark" or is_spark_frame(events)
    if on_spark and engine == "local":
        raise UsageError(
            "A Spark DataFrame is counted on Spark.", remedy="Leave the engine out, or give a path."
        )
    if on_spark and is_address(events):
        raise UsageError(
            "A table in PostgreSQL is counted on this machine, not on Spark.",
            remedy="Leave `engine` out, or give Spark an export of it.",
        )
    if not on_spark and (master is not None or spark):
        raise UsageError(
            "A master and Spark's settings are for the Spark engine.",
            remedy="Add `engine='spark'`.",
        )
    return on_spark


@contextmanager
def opened_source(
    events: object,
    places: Places,
    grid: TimeGrid,
    *,
    engine: str | None = None,
    master: str | None = None,
    spark: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    format: str | None = None,
    progress: Progress | None = None,
) -> Iterator[LocalSource | SparkSource]:
    """The source, let go of at the end. `spark` are settings of a session started on `master`."""
    reading: dict[str, Any] = {"columns": columns, "tz": tz, "time_unit": time_unit}
    reading |= {"format": format, "progress": progress}
    if engine_of(events, engine, master, spark):
        from sfumato.engine.spark.source import open_source

        cluster = open_source(events, places, grid, master=master, settings=spark, **reading)
        try:
            yield cluster
        finally:
            cluster.close()
        return
    described = (
        events if isinstance(events, Events) else read_events(events, period=grid.period, **reading)
    )
    source = LocalSource(described, places, grid, progress=progress)
    try:
        yield source
    finally:
        source.close()
        if described is not events:
            described.close()
