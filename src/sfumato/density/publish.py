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
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from sfumato.density.folder import write_release
from sfumato.density.registry import scheme_named
from sfumato.density.request import Request, bound_text, day_of, parse_bound, period_of, request
from sfumato.engine.local import DropLog, LocalSource
from sfumato.engine.open import engine_of, opened_source
from sfumato.errors import SfumatoError
from sfumato.model.source import Progress
from sfumato.privacy.events import PrivacyEvent
from sfumato.privacy.ledger import Ledger, Reservation
from sfumato.privacy.transaction import names_of_input, publish
from sfumato.privacy.wall import Wall
from sfumato.published.manifest import MANIFEST_NAME, read_manifest
from sfumato.published.release import Release

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
    events_tz: str | None = None,
    internal: Callable[[DropLog], None] | None = None,
    keep_key: bool = False,
    progress: Progress | None = None,
    engine: str | None = None,
    master: str | None = None,
    spark: Mapping[str, str] | None = None,
    **settings: Any,
) -> Release:
    """Publish a density of `events` in the folder `out`; the other settings are `request`'s.

    `columns`, `time_unit` and `events_tz` (the clock of times without an offset; default: `tz`)
    say how the events are to be read where their schema does not.
    A Spark DataFrame is counted on its own session; `engine="spark"` counts a path or table there,
    on the active session or on `master`, a new session with the settings `spark`. `internal` is
    told, before anything is reserved, how many rows were read and why some do not count: for the
    holder's eyes only.
    """
    engine_of(events, engine, master, spark)  # refused before anything else is looked at
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
    with opened_source(
        events,
        asked.counted,
        asked.facts.grid,
        engine=engine,
        master=master,
        spark=spark,
        columns=columns,
        tz=events_tz or tz or asked.facts.grid.tz,
        time_unit=time_unit,
        progress=progress,
    ) as source:
        return publish_request(asked, source, book, folder, keep_key=keep_key, internal=internal)


def publish_request(
    asked: Request,
    source: LocalSource | SparkSource,
    book: Ledger,
    out: Path,
    *,
    keep_key: bool = False,
    internal: Callable[[DropLog], None] | None = None,
) -> Release:
    """Reserve, draw, persist, commit."""
    scheme, facts, plan = scheme_named(asked.scheme), asked.facts, asked.plan()

    def fingerprint() -> str:
        return names_of_input(source, book, asked.dataset, asked.name)[0]

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

    bound, read = names_of_input(source, book, asked.dataset, asked.name)
    claim = replace(asked.claim(bound, out), read=read)
    outcome = publish(
        book,
        claim,
        out,
        fingerprint,
        persist,
        check_input=lambda: _read(source, internal),
        keep_key=keep_key,
        replan=replan,
    )
    return Release(out, read_manifest(out / MANIFEST_NAME), outcome.how)


def _read(source: LocalSource | SparkSource, internal: Callable[[DropLog], None] | None) -> None:
    """Read all events now: damage is found, and the holder told, before anything is paid."""
    log = source.drops
    if internal is not None:
        internal(log)
    elif not log.kept:
        # Nobody listens, and what follows is paid for and publishes noise alone.
        warnings.warn(f"internal: {log.internal_lines()[0]}", stacklevel=4)
