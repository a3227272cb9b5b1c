"""`sfumato.synth`: people who do not exist, charged to the ledger like every release.

Reserve, draw, persist, commit: the noise comes from the reservation's key, the people from a public
seed, so that a run which is killed and started again writes the same bytes and pays once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from sfumato.density.folder import seal
from sfumato.density.scheme import Parameter
from sfumato.engine.local import DropLog
from sfumato.engine.open import engine_of, opened_source
from sfumato.errors import SfumatoError, UsageError
from sfumato.geography.places import PlaceOptions
from sfumato.io.beforehand import require_possible
from sfumato.io.traces import read_traces
from sfumato.io.write import folder_to_fill
from sfumato.model.source import Progress
from sfumato.model.time_grid import period_of
from sfumato.model.traces import Found
from sfumato.privacy.last_resort import REMARK, refined
from sfumato.privacy.ledger import Ledger, Reservation
from sfumato.privacy.transaction import name_of_input, publish
from sfumato.privacy.wall import Wall
from sfumato.published.about import about
from sfumato.published.manifest import MANIFEST_NAME, read_manifest
from sfumato.published.release import Release
from sfumato.synthesis.fitness import forecast
from sfumato.synthesis.folder import synthetic_manifest, write_people
from sfumato.synthesis.free import people_of_release
from sfumato.synthesis.method import Reads
from sfumato.synthesis.registry import DEFAULT, method_named
from sfumato.synthesis.request import SynthRequest, synth_request
from sfumato.synthesis.spread import Spread
from sfumato.traces.bounds import TraceSource


def synth(
    events: object = None,
    *,
    out: str | os.PathLike[str],
    dataset: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    start: date | str | None = None,
    end: date | str | None = None,
    tz: str | None = None,
    release: str | os.PathLike[str] | Release | None = None,
    on: str | os.PathLike[str] | Release | None = None,
    method: str = DEFAULT,
    people: int | None = None,
    seed: int = 0,
    expected_users: int | None = None,
    parameter: Mapping[str, Parameter] | None = None,
    slot: str = "1h",
    towers: object = None,
    zones: object = None,
    grid: str | None = None,
    region: object = None,
    zone_id: str | None = None,
    zone_name: str | None = None,
    layer: str | None = None,
    repair_zones: bool = False,
    drop_bad_towers: bool = False,
    border: str | float | None = None,
    title: str | None = None,
    publisher: str | None = None,
    licence: str | None = None,
    contact: str | None = None,
    name: str | None = None,
    column: Mapping[str, str] | None = None,
    format: str | None = None,
    time_unit: str | None = None,
    events_tz: str | None = None,
    engine: str | None = None,
    master: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    keep_key: bool = False,
    anyway: bool = False,
    internal: Callable[[DropLog | Found], None] | None = None,
    progress: Progress | None = None,
) -> Release:
    """Publish records of made-up people in the folder `out`.

    From `events`, charged to the ledger: everything in one run, or `on` top of a release whose
    table the people then carry. From a `release` alone: free, nothing is read or charged.

    Args:
        events: Files, a folder, the address of a table, an Arrow table or a data frame; a Spark
            DataFrame is counted on its own session. None with `release`.
        out: Folder to make; it must not exist yet.
        dataset: Whose people these are, as the ledger knows them.
        epsilon: Privacy loss of this call, all of its measurements together.
        delta: Well below one over the number of people.
        start: First day, such as 2007-09-10: a public choice, never read from the data.
        end: First day that is no longer part of it; a day later at least.
        tz: Time zone of days and slots.
        release: A release to make people from, at no cost.
        on: A release of the same places and slots, whose table the people are matched to.
        method: How people are made up.
        people: How many to make up; default: `expected_users`.
        seed: Of the people; public, and apart from the noise.
        expected_users: How many people there are, from public knowledge, rounded.
        parameter: Settings of the method's own, by name.
        slot: Length of a time slot: 15min, 1h.
        towers: Antennas that the events name.
        zones: Zones that events lie in, or that towers are spread over.
        grid: Cells instead of zones: 500m, 1km@EPSG:3035, h3:8, geohash:6.
        region: What the grid covers: a file of polygons, or west,south,east,north; of methods for
            traces their public box.
        zone_id: Column of the zones' ids.
        zone_name: Column of the zones' names.
        layer: Layer of the zones' or the region's file.
        repair_zones: Make crossing outlines valid.
        drop_bad_towers: Leave out towers without a usable position.
        border: How far the towers' cells reach beyond the zones: 0, 500m or reach.
        title: What readers call it; default: its name.
        publisher: Who publishes it.
        licence: An SPDX identifier such as CC-BY-4.0, or an address.
        contact: Mail or web address for questions.
        name: Name of the release; default: that of the folder.
        column: Which column is what: `{"user": "imsi", "time": "ts"}`.
        format: Format of the events where their names do not tell: csv, gpx, tdrive, …
        time_unit: Unit of epoch numbers: s, ms, us or ns.
        events_tz: Clock of event times that carry no offset; default: `tz`.
        engine: Where to count: local (default) or spark.
        master: Spark's master, for a session of its own.
        spark_conf: Settings of that session.
        ledger: The ledger, its file or address; default: a file in your data folder.
        keep_key: Keep the key, with which the noise can be redrawn.
        anyway: Publish it although a forecast says that it would be of no use.
        internal: Told, before anything is reserved, what was wrong with rows: for the holder's
            eyes only.
        progress: Told the stage and its share.

    Returns:
        The release, of kind `synthetic`; its records are in `events.parquet`, which
        `sfumato.release` reads like any other events.

    Raises:
        UsageError: What is asked for does not go together; nothing was read.
        InputError: A file cannot be read, or the release was altered.
        Unfit: A forecast from public facts says that it would be of no use; nothing was spent.
        BudgetRefused: It would pass the cap of the data set.

    Example:
        >>> made = sfumato.synth(                                          # doctest: +SKIP
        ...     "events.parquet", towers="towers.csv", zones="zones.geojson",
        ...     start="2007-09-10", end="2007-09-17", tz="Europe/Paris",
        ...     dataset="metro subscribers", expected_users=200_000,
        ...     epsilon=1, delta=1e-7, out="releases/made-up-37",
        ... )
    """
    if release is not None:
        if events is not None or on is not None or dataset is not None or epsilon is not None:
            raise UsageError(
                "From a release alone nothing is read or charged.",
                remedy="Give `release` alone, or `events` with `on`.",
            )
        return people_of_release(
            release,
            out=out,
            method=method,
            people=people,
            seed=seed,
            parameter=parameter,
            name=name,
            about=about(title, publisher, licence, contact),
            progress=progress,
        )
    check_given(events, dataset, epsilon, delta, start, end, tz)
    assert dataset is not None
    assert epsilon is not None
    assert delta is not None
    assert start is not None
    assert end is not None
    assert tz is not None
    engine_of(events, engine, master, spark_conf)  # refused before anything else is looked at
    declared = method_named(method).declares
    folder = folder_to_fill(out)
    slots = period_of(start, end, slot, tz)
    traces = declared.reads is Reads.TRACES
    said = PlaceOptions(
        towers,
        zones,
        grid,
        None if traces else region,
        zone_id,
        zone_name,
        layer,
        repair_zones,
        drop_bad_towers,
        border,
        column,
    )
    zoned = said.towers is None
    require_possible(events, format, column, zones=zoned, period=slots.period, clock=events_tz)
    asked = synth_request(
        places=said,
        grid=slots,
        dataset=dataset,
        epsilon=epsilon,
        delta=delta,
        name=name if name is not None else folder.name,
        method=method,
        people=people,
        seed=seed,
        expected_users=expected_users,
        parameter=parameter,
        on=on,
        region=region,
        about=about(title, publisher, licence, contact),
        tz=tz,
    )
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    book.require_room(asked.claim("", folder))
    expected = forecast(asked.method, asked.facts)
    begun = book.book().find(dataset, asked.name) is not None  # what is paid for goes on
    if expected is not None and expected.useless and not anyway and not begun:
        raise expected.refusal()
    reading: dict[str, Any] = {"columns": column, "tz": events_tz or tz, "format": format}
    reading |= {"time_unit": time_unit}
    if traces:
        # The unit has one meaning for all files of all people: pauses cut trips, nothing else.
        true, found = read_traces(events, own_trips=False, **reading)
        source = TraceSource(true)
        del true  # from here on in boxes
        told = internal or (lambda _: None)
        return publish_people(
            asked, source, book, folder, lambda: told(found), keep_key=keep_key, progress=progress
        )
    assert asked.counted is not None
    opened = opened_source(
        events,
        asked.counted,
        slots,
        engine=engine,
        master=master,
        spark=spark_conf,
        progress=progress,
        **reading,
    )
    with opened as counts:

        def check() -> None:
            log = counts.drops
            if internal is not None:
                internal(log)

        return publish_people(
            asked, counts, book, folder, check, keep_key=keep_key, progress=progress
        )


def check_given(
    events: object = None,
    dataset: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    start: date | str | None = None,
    end: date | str | None = None,
    tz: str | None = None,
) -> None:
    """Refuse to measure people where something that this needs is missing."""
    needed = dict(locals())
    lacking = [f"`{word}`" for word, value in needed.items() if value is None]
    if lacking:
        raise UsageError(
            f"To measure people, {', '.join(lacking)} must be given.",
            remedy="Or give `release`, to make people from it alone.",
        )


def publish_people(
    asked: SynthRequest,
    source: Any,
    book: Ledger,
    out: Path,
    check_input: Callable[[], None] = lambda: None,
    *,
    keep_key: bool = False,
    progress: Progress | None = None,
) -> Release:
    """Reserve, draw, persist, commit."""
    tell = progress or (lambda *_: None)
    secret = book.fingerprint_key()
    named = isinstance(source, TraceSource)

    def fingerprint() -> str:
        if named:
            return str(source.fingerprint(secret))
        return name_of_input(source, book, asked.dataset, asked.name)

    def persist(reservation: Reservation, folder: Path) -> None:
        def written(request: SynthRequest, remarks: tuple[str, ...]) -> None:
            tell("measuring", -1.0)
            wall, method = Wall(reservation, reservation.key), request.method
            with threadpool_limits(1):  # one order of summation on every machine: the same bytes
                noisy = method.measure(source, wall, request.facts)
                if wall.tainted:
                    raise SfumatoError("Noise from a test seed is never published.")
                tell("making synthetic people", -1.0)
                write_people(folder, request, noisy, method.generate(noisy, request.facts))
            made = request, reservation, noisy
            seal(folder, lambda files: synthetic_manifest(*made, files, remarks))

        def otherwise() -> None:
            for path in folder.iterdir():
                path.unlink()
            written(replace(asked, method=Spread(asked.method)), (REMARK,))

        refined("synth", lambda: written(asked, ()), otherwise)

    outcome = publish(
        book,
        asked.claim(fingerprint(), out),
        out,
        fingerprint,
        persist,
        check_input=check_input,
        keep_key=keep_key,
    )
    return Release(out, read_manifest(out / MANIFEST_NAME), outcome.how)
