"""`sfumato.release`: from events to a published density, in one call.

    sfumato.release(
        "events.parquet", towers="towers.csv", start="2007-09-10", end="2007-09-17", slot="1h",
        tz="Europe/Paris", dataset="metro subscribers", epsilon=0.3, delta=2e-7,
        expected_users=2_000_000, out="release/week-37",
    )

The budget is reserved in the ledger before the noise is drawn; run again after an
interruption, the call finishes the same release and pays once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from sfumato.density.registry import scheme_named
from sfumato.engine.local import LocalSource
from sfumato.engine.spark.session import is_spark_frame
from sfumato.io.events import read_events
from sfumato.io.postgres.address import is_address
from sfumato.model.errors import SfumatoError, UsageError
from sfumato.model.events import Events
from sfumato.model.source import Progress
from sfumato.privacy.events import PrivacyEvent
from sfumato.privacy.ledger import Claim, Ledger, Reservation
from sfumato.privacy.manifest import MANIFEST_NAME, read_manifest
from sfumato.privacy.transaction import publish
from sfumato.privacy.wall import Wall
from sfumato.release_folder import write_release
from sfumato.release_request import (
    Request,
    bound_text,
    day_of,
    parse_bound,
    period_of,
    request,
)
from sfumato.released import Release

if TYPE_CHECKING:
    from sfumato.engine.spark.source import SparkSource

__all__ = [
    "Release",
    "Request",
    "bound_text",
    "day_of",
    "parse_bound",
    "period_of",
    "publish_request",
    "release",
    "request",
]


def release(
    events: object,
    *,
    out: str | os.PathLike[str],
    dataset: str,
    epsilon: float,
    delta: float,
    name: str | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    keep_key: bool = False,
    progress: Progress | None = None,
    engine: str | None = None,
    master: str | None = None,
    spark: Mapping[str, str] | None = None,
    **settings: Any,
) -> Release:
    """Publish a density of `events` in the folder `out`; the other settings are `request`'s.

    `columns`, `tz` and `time_unit` say how the events are to be read where they do not tell.
    A Spark DataFrame is counted on its own session; `engine="spark"` counts a path or table there,
    on the active session or on `master`, a new session with the settings `spark`.
    """
    on_spark = engine_of(events, engine, master, spark)
    folder = Path(out).absolute()
    asked = request(
        dataset=dataset,
        epsilon=epsilon,
        delta=delta,
        name=name if name is not None else folder.name,
        tz=tz,
        **settings,
    )
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    if on_spark:
        from sfumato.engine.spark.opening import open_source

        reading: dict[str, Any] = {"columns": columns, "tz": tz, "time_unit": time_unit}
        reading |= {"master": master, "settings": spark, "progress": progress}
        cluster = open_source(events, asked.counted, asked.facts.grid, **reading)
        try:
            return publish_request(asked, cluster, book, folder, keep_key=keep_key)
        finally:
            cluster.close()
    described = (
        events
        if isinstance(events, Events)
        else read_events(
            events,
            columns=columns,
            tz=tz,
            time_unit=time_unit,
            period=asked.facts.grid.period,
            progress=progress,
        )
    )
    source = LocalSource(described, asked.counted, asked.facts.grid, progress=progress)
    try:
        return publish_request(asked, source, book, folder, keep_key=keep_key)
    finally:
        source.close()
        if described is not events:
            described.close()


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
            remedy="Leave --engine out, or give Spark an export of it.",
        )
    if not on_spark and (master is not None or spark):
        raise UsageError(
            "A master and Spark's settings are for the Spark engine.", remedy="Add --engine spark."
        )
    return on_spark


def publish_request(
    asked: Request,
    source: LocalSource | SparkSource,
    book: Ledger,
    out: Path,
    *,
    keep_key: bool = False,
) -> Release:
    """Reserve, draw, persist, commit."""
    scheme, facts, plan = scheme_named(asked.scheme), asked.facts, asked.plan()
    secret = book.fingerprint_key()

    def fingerprint() -> str:
        return source.fingerprint(secret)

    def replan(epsilon: float) -> list[PrivacyEvent]:
        return list(scheme.plan(replace(facts, epsilon=epsilon)).events.values())

    def persist(reservation: Reservation, folder: Path) -> None:
        with threadpool_limits(1):  # one order of summation on every machine: the same bytes
            density = scheme.run(source, Wall(reservation, reservation.key), facts)
        if density.tainted:
            raise SfumatoError("Noise from a test seed is never published.")
        write_release(
            folder,
            facts,
            plan,
            asked.finish,
            density,
            reservation,
            asked.counted,
            asked.released,
        )

    claim = Claim(
        dataset=asked.dataset,
        name=asked.name,
        unit=facts.unit,
        delta=facts.delta,
        period=(int(facts.grid.edges[0]), int(facts.grid.edges[-1])),
        events=tuple(plan.events.items()),
        config=asked.config(),
        fingerprint=fingerprint(),
        out=str(out),
    )
    outcome = publish(
        book,
        claim,
        out,
        fingerprint,
        persist,
        check_input=lambda: _read(source),
        keep_key=keep_key,
        replan=replan,
    )
    return Release(out, read_manifest(out / MANIFEST_NAME), outcome.how)


def _read(source: LocalSource | SparkSource) -> None:
    """Read all events now, so that a fault in them is found before anything is reserved."""
    _ = source.drops
