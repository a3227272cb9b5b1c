"""`sfumato.release`: from events to a published density, in one call.

The budget is reserved in the ledger before the noise is drawn; run again after an interruption,
the call finishes the same release and pays once.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from sfumato.density.common import spread
from sfumato.density.fitness import Case, Fitness, fitness
from sfumato.density.folder import write_release
from sfumato.density.registry import DEFAULT, scheme_named
from sfumato.density.request import Request, request
from sfumato.density.scheme import Density, Parameter, Plan
from sfumato.density.suggest import suggestions
from sfumato.engine.local import DropLog, LocalSource
from sfumato.engine.open import engine_of, opened_source
from sfumato.errors import BudgetRefused, SfumatoError, Unfit, UsageError
from sfumato.geography.border import FIRST
from sfumato.geography.places import PlaceOptions
from sfumato.io.beforehand import of_fleet, require_possible
from sfumato.io.write import folder_to_fill
from sfumato.model.counts import Bound, Counting
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid, period_of
from sfumato.privacy.events import PrivacyEvent
from sfumato.privacy.last_resort import HearingWall, refined
from sfumato.privacy.ledger import Ledger, Reservation
from sfumato.privacy.ledger.limits import check
from sfumato.privacy.ledger.totals import Spend, compose
from sfumato.privacy.transaction import name_of_input, publish
from sfumato.privacy.wall import Wall
from sfumato.published.manifest import MANIFEST_NAME, read_manifest
from sfumato.published.release import Release

if TYPE_CHECKING:
    from sfumato.engine.spark.source import SparkSource


def release(
    events: object,
    *,
    out: str | os.PathLike[str],
    dataset: str,
    epsilon: float,
    delta: float,
    start: date | str,
    end: date | str,
    tz: str,
    slot: str = "1h",
    fold: str | None = None,
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
    pipeline: str | None = None,
    zoning: str | None = None,
    scheme: str = DEFAULT,
    parameter: Mapping[str, Parameter] | None = None,
    bound: Bound | str | None = None,
    count: Counting | str = Counting.VISITS,
    expected_users: int | None = None,
    hierarchy: object = None,
    hierarchy_column: str | None = None,
    integers: bool = False,
    csv: str = "auto",
    title: str | None = None,
    publisher: str | None = None,
    licence: str | None = None,
    contact: str | None = None,
    earlier: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    name: str | None = None,
    column: Mapping[str, str] | None = None,
    format: str | None = None,
    time_unit: str | None = None,
    events_tz: str | None = None,
    engine: str | None = None,
    master: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    anyway: bool = False,
    keep_key: bool = False,
    internal: Callable[[DropLog], None] | None = None,
    progress: Progress | None = None,
) -> Release:
    """Publish a density of `events` in the folder `out`, charged to the ledger first.

    Args:
        events: Files, a folder, the address of a table, an Arrow table or a data frame; a Spark
            DataFrame is counted on its own session.
        out: Folder to make; it must not exist yet.
        dataset: Whose people these are, as the ledger knows them.
        epsilon: Privacy loss of this release.
        delta: Well below one over the number of people.
        start: First day, such as 2007-09-10: a public choice, never read from the data.
        end: First day that is no longer part of it.
        tz: Time zone of days and slots.
        slot: Length of a time slot: 15min, 1h, 1d.
        fold: `week` or `day`: the period folded to a typical one, for sparse data. A person counts
            once in a place and slot of it, in however many weeks; all of them are charged.
        towers: Towers that the events name.
        zones: Zones to publish numbers for.
        grid: Cells to publish numbers for: 500m, 1km@EPSG:3035, h3:8, geohash:6.
        region: What the grid covers: a file of polygons, or west,south,east,north.
        zone_id: Column of the zones' ids.
        zone_name: Column of the zones' names.
        layer: Layer of the zones' or the region's file.
        repair_zones: Make crossing outlines valid.
        drop_bad_towers: Leave out towers without a usable position.
        border: How far the towers' cells reach beyond the zones: 0, 500m or reach (half the way
            to the next towers); default: 0 where no tower stands outside the zones, else 3km.
        pipeline: `events` is the lakehouse of multimno, or the FlowDB of flowkit.
        zoning: Zones of the pipeline: nuts:3, INSPIRE_1km, admin3.
        scheme: How the numbers are made.
        parameter: Settings of the scheme's own, by name.
        bound: What one person may contribute: weight:3 or sample:30.
        count: What is counted: visits or people.
        expected_users: How many people, from public knowledge, rounded.
        hierarchy: Table of zone_id and parent_id: adds districts and the city.
        hierarchy_column: The same from a column of the zones' file.
        integers: Whole numbers only.
        csv: The text table: yes, gz (compressed), no; auto compresses what no spreadsheet opens.
        title: What readers call it; default: its name.
        publisher: Who publishes it.
        licence: Of the release: an SPDX identifier such as CC-BY-4.0, or an address.
        contact: Mail or web address for questions.
        earlier: Folders of earlier releases whose measurements to read together; they cost nothing.
        name: Name of the release; default: that of the folder.
        column: Which column is what: `{"user": "imsi", "time": "ts"}`.
        format: Format of the events where their names do not tell: csv, gpx, tdrive, …
        time_unit: Unit of epoch numbers: s, ms, us or ns.
        events_tz: Clock of event times that carry no offset; default: `tz`.
        engine: Where to count: local (default) or spark.
        master: Spark's master, for a session of its own.
        spark_conf: Settings of that session.
        ledger: The ledger, its file or address; default: a file in your data folder.
        anyway: Publish it although a forecast says that it would be of no use.
        keep_key: Keep the key, with which the noise can be redrawn.
        internal: Told, before anything is reserved, how many rows were read and why some do not
            count: for the holder's eyes only.
        progress: Told the stage and its share.

    Returns:
        The release; `how` says whether it is new, resumed, or was there already.

    Raises:
        UsageError: What is asked for does not go together.
        InputError: A file cannot be read.
        Unfit: A forecast from public facts says that it would be of no use; nothing was spent.
        BudgetRefused: It would pass the cap of the data set.

    Example:
        >>> made = sfumato.release(                                        # doctest: +SKIP
        ...     "events.parquet", towers="towers.csv", zones="zones.geojson",
        ...     start="2007-09-10", end="2007-09-17", tz="Europe/Paris",
        ...     dataset="metro subscribers", expected_users=2_000_000,
        ...     epsilon=0.3, delta=1e-7, out="releases/week-37",
        ... )
    """
    engine_of(events, engine, master, spark_conf)  # refused before anything else is looked at
    folder = folder_to_fill(out)
    slots = period_of(start, end, slot, tz, fold)
    said = PlaceOptions(
        towers,
        zones,
        grid,
        region,
        zone_id,
        zone_name,
        layer,
        repair_zones,
        drop_bad_towers,
        border,
        column,
    )
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    called = name if name is not None else folder.name
    inputs = opened_inputs(
        events, said, pipeline, zoning, slots, progress, events_tz, format, time_unit
    )
    with inputs as (found, places):
        if places.spreads and places.border is None:
            places = replace(places, border=begun_with(book, dataset, called))
        asked = request(
            places=places,
            grid=slots,
            dataset=dataset,
            epsilon=epsilon,
            delta=delta,
            name=called,
            scheme=scheme,
            bound=bound,
            count=count,
            expected_users=expected_users,
            parameter=parameter,
            hierarchy=hierarchy,
            hierarchy_column=hierarchy_column,
            integers=integers,
            csv=csv,
            title=title,
            publisher=publisher,
            licence=licence,
            contact=contact,
            earlier=earlier,
            tz=tz,
        )
        book.require_room(asked.claim("", folder), lambda least: _events_at(asked, least))
        fleet = of_fleet(events, format, column)
        forecast = checked_fitness(asked, book, anyway, grid, progress, fleet)
        with opened_source(
            found(),
            asked.counted,
            slots,
            engine=engine,
            master=master,
            spark=spark_conf,
            columns=column,
            tz=events_tz or tz,
            format=format,
            time_unit=time_unit,
            progress=progress,
        ) as source:
            return publish_request(
                asked, source, book, folder, keep_key, internal, progress, forecast
            )


def checked_fitness(
    asked: Request,
    book: Ledger,
    anyway: bool = False,
    cells: str | None = None,
    progress: Progress | None = None,
    fleet: bool = False,
) -> Fitness | None:
    """The forecast of a release, which is refused here if it would be of no use.

    Decided from public facts, before any record is read and anything is reserved. What was
    reserved already is paid for, and goes on.

    Args:
        asked: The release.
        book: The ledger.
        anyway: The holder wants it all the same.
        cells: The grid of its zones, if they are one, to suggest a coarser.
        progress: Told the stage.
        fleet: Whether the events' format is that of a fleet.

    Raises:
        Unfit: It would be of no use.
    """
    book.require_dataset(asked.dataset)
    asked.plan()  # settings that make no sense are refused as such
    case = Case.of(asked.scheme, asked.facts, fleet=fleet)
    if case is None:
        return None
    if progress is not None:
        progress("forecasting on made-up people", -1.0)
    found = fitness(case)
    if not anyway and _refused(found, asked, book):
        raise unfit(case, found, cells, progress)
    return found


def _refused(found: Fitness, asked: Request, book: Ledger) -> bool:
    return found.useless and book.book().find(asked.dataset, asked.name) is None


def unfit(
    case: Case, found: Fitness, cells: str | None = None, progress: Progress | None = None
) -> Unfit:
    """The refusal of a release, with what would work."""
    working = [made.in_python for made in suggestions(case, cells, progress)]
    works = f"Of use would be {', or '.join(working)}. " if working else ""
    if case.scheme == DEFAULT and not case.stated:
        _, low, high = case.activity
        works += (
            f"The forecast takes {low:.3g} to {high:.3g} visits of an average person in the "
            "period: where people are seen more or less often, say so with "
            "`parameter={'visits': N}`. "
        )
    return Unfit(
        "A forecast from public facts says that this release would be of no use: "
        f"{'; '.join(found.reasons)}. Nothing was read and nothing was spent.",
        remedy=f"{works}See `sfumato.plan(suggest=True)`. `anyway` publishes it all the same.",
    )


def begun_with(book: Ledger, dataset: str, name: str) -> str | None:
    """The border of a release that was begun under this name; none if none was.

    One that names no border was begun by the usual rule.
    """
    known = book.book().find(dataset, name)
    return None if known is None else str(known.claim.config.get("border", FIRST))


@dataclass(frozen=True, slots=True)
class Price:
    """What a release would cost, and whether the ledger has room for it."""

    plan: Plan
    spend: Spend
    budget: BudgetRefused | None
    """Why the ledger would refuse it, if it would."""
    fitness: Fitness | None
    """What is forecast of its use; None where nobody says how many people there are."""
    refusal: Unfit | None
    """Why it would be refused, if it would be of no use."""


def price(
    asked: Request,
    book: Ledger,
    anyway: bool = False,
    cells: str | None = None,
    progress: Progress | None = None,
    fleet: bool = False,
) -> Price:
    """What a release that was asked for would be charged; nothing is read and nothing spent."""
    plan, state = asked.plan(), book.book()
    if asked.dataset not in state.caps:
        raise UsageError(
            f"The ledger knows no data set {asked.dataset!r}.",
            remedy="Name it first with sfumato ledger init.",
        )
    claim = asked.claim("", Path())
    forecast, refusal, budget = None, None, None
    if not state.caps_of(asked.dataset, claim.unit):
        budget = BudgetRefused(
            f"{asked.dataset!r} has no cap for the unit {claim.unit}.",
            remedy="Give it one with sfumato ledger init.",
        )
    else:
        try:
            check(state, claim, lambda epsilon: _events_at(asked, epsilon))
        except BudgetRefused as refused:
            budget = refused
    if (case := Case.of(asked.scheme, asked.facts, fleet=fleet)) is not None:
        if progress is not None:
            progress("forecasting on made-up people", -1.0)
        forecast = fitness(case)
        if not anyway and _refused(forecast, asked, book):
            refusal = unfit(case, forecast, cells, progress)
    spend = compose(list(plan.events.values()), asked.facts.delta)
    return Price(plan, spend, budget, forecast, refusal)


def _events_at(asked: Request, epsilon: float) -> list[PrivacyEvent]:
    """What the same release would be charged for at another epsilon."""
    plan = scheme_named(asked.scheme).plan(replace(asked.facts, epsilon=epsilon))
    return list(plan.events.values())


@contextmanager
def opened_inputs(
    events: object,
    places: PlaceOptions,
    pipeline: str | None,
    zoning: str | None,
    grid: TimeGrid,
    progress: Progress | None,
    events_tz: str | None = None,
    format: str | None = None,
    time_unit: str | None = None,
) -> Iterator[tuple[Callable[[], object], PlaceOptions]]:
    """Events (opened when asked for) and places: those given, or those that a pipeline holds."""
    if pipeline is None:
        if zoning is not None:
            raise UsageError(
                "A `zoning` is that of a `pipeline`.", remedy="Give `zones`, a file, instead."
            )
        require_possible(
            events,
            format,
            places.column,
            zones=places.towers is None,
            period=grid.period,
            clock=events_tz,
        )
        yield lambda: events, places
        return
    if places.given or places.column or format or time_unit:
        raise UsageError("A pipeline has places and columns of its own.", remedy="Give none.")
    from sfumato.published.export import open_pipeline  # brings what few releases need

    held = open_pipeline(pipeline, str(events), grid, zoning, events_tz)
    opened: list[Any] = []

    def described() -> object:
        opened.append(held.open_events(progress))
        return opened[-1]

    try:
        yield described, places.with_places(held.towers, held.zones)
    finally:
        for one in opened:
            one.close()


def publish_request(
    asked: Request,
    source: LocalSource | SparkSource,
    book: Ledger,
    out: Path,
    keep_key: bool = False,
    internal: Callable[[DropLog], None] | None = None,
    progress: Progress | None = None,
    forecast: Fitness | None = None,
) -> Release:
    """Reserve, draw, persist, commit."""
    book.require_dataset(asked.dataset)
    scheme, facts, plan = scheme_named(asked.scheme), asked.facts, asked.plan()
    tell = progress or (lambda *_: None)

    def fingerprint() -> str:
        return name_of_input(source, book, asked.dataset, asked.name)

    def measured(wall: Wall) -> Density:
        tell("measuring and refining", -1.0)
        with threadpool_limits(1):  # one order of summation on every machine: the same bytes
            density = scheme.run(source, wall, facts)
        if isinstance(source, LocalSource):
            source.close()  # nothing is asked of the rows any more, and what follows needs room
        if density.tainted:
            raise SfumatoError("Noise from a test seed is never published.")
        tell("writing tables and page", -1.0)
        return density

    def persist(held: Reservation, folder: Path) -> None:
        counted, released, finish = asked.counted, asked.released, asked.finish
        wall = HearingWall(held, held.key)
        about = held, counted, released, forecast

        def read() -> None:
            # The density has no name here: it is let go before the page is made.
            write_release(folder, facts, plan, finish, measured(wall), *about)

        def otherwise() -> None:
            for path in folder.iterdir():
                path.unlink()
            made = spread(facts, scheme.declares.margins, wall.heard)
            write_release(folder, facts, plan, finish, made, *about)

        refined("release", read, otherwise)

    outcome = publish(
        book,
        asked.claim(fingerprint(), out),
        out,
        fingerprint,
        persist,
        check_input=lambda: _read(source, internal),
        keep_key=keep_key,
        replan=lambda epsilon: _events_at(asked, epsilon),
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
