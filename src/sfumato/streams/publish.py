"""`sfumato.stream`: publish slot after slot, from a history, a folder, a pipe, or what is pushed.

Here a call becomes a request; `streams.run` runs it. Killed at any instant and run again with
`resume`, a stream goes on with the same numbers and pays once (`streams.live`). A finished history
is bound to the reservation by its fingerprint; events that are yet to come cannot be.

Towers that are spread over zones: positions are counted at towers and mapped to zones by public
shares, after the noise or, where zones swallow many towers, before it (`streams.spreading`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from sfumato.engine.local import DropLog
from sfumato.errors import InputError, UsageError
from sfumato.geography.border import FIRST
from sfumato.geography.places import OpenedPlaces, PlaceOptions
from sfumato.io.beforehand import require_possible
from sfumato.io.write import folder_to_fill
from sfumato.model.places import PlaceKind
from sfumato.model.source import Progress
from sfumato.model.time_grid import Calendar, TimeGrid, day_of, parse_step
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Ledger
from sfumato.published.about import about, csv_form
from sfumato.published.release import one_or_many
from sfumato.streams.facts import StreamFacts, grid_columns, unit_in_slots
from sfumato.streams.fitness import require_fit
from sfumato.streams.input import Options, Unfit, ndjson_feed
from sfumato.streams.kafka import Topic, TopicFeed, client_settings, is_topic
from sfumato.streams.live import StreamRequest
from sfumato.streams.output import Consistency
from sfumato.streams.overdue import overdue
from sfumato.streams.public_inputs import holidays_in, read_public_inputs
from sfumato.streams.registry import default_name, stream_scheme
from sfumato.streams.run import Runner, Stream, Told
from sfumato.streams.slots import Dropped
from sfumato.streams.spreading import BEFORE_NOISE, splits

PIPE = "-"
_ENDLESS_DAYS = 3653
"""Ten years: what an endless stream is planned for."""
CLOCKS = ("machine", "feed", "broker")


def stream(
    events: object = None,
    *,
    out: str | os.PathLike[str],
    dataset: str,
    epsilon: float,
    start: date | datetime | str,
    tz: str,
    end: date | str | None = None,
    slot: str = "1h",
    delta: float = 0.0,
    unit: str = "user-day",
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
    scheme: str | None = None,
    parameter: Mapping[str, bool | int | float | str] | None = None,
    roads: object = None,
    adjacency: object = None,
    earlier: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    holidays: str | os.PathLike[str] | date | Sequence[str | os.PathLike[str] | date] = (),
    expected_users: int | None = None,
    delay: str = "0",
    consistency: Consistency | str = Consistency.NONE,
    csv: str = "auto",
    title: str | None = None,
    publisher: str | None = None,
    licence: str | None = None,
    contact: str | None = None,
    follow: bool = False,
    resume: bool = False,
    anyway: bool = False,
    name: str | None = None,
    column: Mapping[str, str] | None = None,
    format: str | None = None,
    time_unit: str | None = None,
    events_tz: str | None = None,
    clock: str = "machine",
    kafka_config: Mapping[str, object] | str | os.PathLike[str] | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    begin: Callable[[StreamFacts, Sequence[str]], None] | None = None,
    watch: Callable[[Told], None] | None = None,
    internal: Callable[[DropLog | Dropped | Unfit], None] | None = None,
    progress: Progress | None = None,
) -> Stream:
    """Publish counts while people move. Killed and resumed, it goes on with the same numbers.

    Args:
        events: A history (whatever `release` takes), a folder with `follow`, or NDJSON from a
            pipe: an open binary file, or `-` for standard input; or a Kafka topic:
            `kafka://broker-1:9092,broker-2:9092/positions`, one JSON object a record. None: they
            are pushed to what comes back, by `add` and `close`.
        out: Folder to write to.
        dataset: Whose people these are, as the ledger knows them.
        epsilon: Privacy loss of one unit.
        start: First day, such as 2007-09-10; or when the feed begins on it, as its operator says
            publicly: 2007-09-10T13:00. Slots of that day before are zeros, and cost nothing.
        tz: Time zone of days and slots.
        end: First day that is no longer part of it; none: endless.
        slot: Length of a time slot: 15min, 1h.
        delta: Well below one over the people; 0 is pure.
        unit: Whose contribution is hidden: user-period, user-day, w-event:48, event.
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
        scheme: How the numbers are made; default: comb, or smoother for a finished history.
        parameter: Settings of the scheme's own, such as `{"cutoff": 4}`; `stream --schemes` and
            `docs/streams.md` list them.
        roads: Lines of a public road map, for the schemes of Fan et al.
        adjacency: Table of two columns: ids of places that lie side by side, for the same.
        earlier: Folders of what was published before, which costs nothing: streams of comb, whose
            vectors comb begins with, or days for dynamic-hybrid.
        holidays: Dates that are free days whatever their weekday, or files of such: a date a line,
            or iCalendar. From a public calendar, never from the events.
        expected_users: How many people, from public knowledge, rounded.
        delay: How long a slot stays open after its end.
        consistency: none, nearest or random: non-negative whole counts.
        csv: The text table: yes, gz (compressed), no; auto compresses what no spreadsheet opens.
        title: What readers call it; default: its name.
        publisher: Who publishes it.
        licence: Of the stream: an SPDX identifier such as CC-BY-4.0, or an address.
        contact: Mail or web address for questions.
        follow: `events` is a folder that fills.
        resume: Go on with a stream begun before.
        anyway: Publish it although public facts say that it would be of no use.
        name: Name of the stream; default: that of the folder.
        column: Which column is what: `{"user": "imsi", "time": "ts"}`.
        format: Format of the events where their names do not tell: csv, gpx, tdrive, …
        time_unit: Unit of epoch numbers: s, ms, us or ns.
        events_tz: Clock of event times that carry no offset; default: `tz`.
        clock: Whose clock decides what is late: machine; feed, for lines of a pipe that state it;
            broker, for the stamps of a topic's broker. Where events are pushed, machine refuses
            to close a slot before its end and delay are over.
        kafka_config: Settings of the Kafka client by name, or a file of `name=value`.
        ledger: The ledger, its file or address; default: a file in your data folder.
        begin: Told the public facts before anything is reserved, and what to take note of: slots
            that are over already.
        watch: Told each slot when it is out.
        internal: Told what was read and dropped: for the holder's eyes only.
        progress: Told the stage and its share.

    Returns:
        Where the stream is and how far. Without `events` it is open (use it in a `with`): `add`
        takes events, `close` publishes a slot.

    Raises:
        UsageError: What is asked for does not go together, or the period of a folder or a pipe
            is over by the machine's clock.
        InputError: A file cannot be read.
        Unfit: It would be of no use, and `anyway` does not ask for it. Nothing was spent.
        BudgetRefused: It would pass the cap of the data set.

    Example:
        >>> sfumato.stream(                                                # doctest: +SKIP
        ...     "events.parquet", zones="zones.geojson", start="2007-09-10", end="2007-09-17",
        ...     tz="Europe/Paris", dataset="metro subscribers", epsilon=1, delta=1e-7,
        ...     unit="user-day", out="streams/week-37",
        ... )
        >>> with sfumato.stream(                                           # doctest: +SKIP
        ...     zones="zones.geojson", start="2024-03-04", tz="Europe/Paris", out="streams/metro",
        ...     dataset="metro subscribers", epsilon=1, delta=1e-7, resume=True,
        ... ) as publisher:
        ...     publisher.add([{"user": "7", "time": "2024-03-04T08:00Z", "lon": 2.3, "lat": 48.8}])
        ...     publisher.close(publisher.next_slot)
    """
    form, told = csv_form(csv), about(title, publisher, licence, contact)
    pipe = events == PIPE if isinstance(events, str) else hasattr(events, "read")
    if end is None and not (unit.startswith("w-event") or unit in ("event", "user-day")):
        raise UsageError(
            "An endless stream cannot have the unit user-period.",
            remedy="Give `end`, or the `unit` user-day or w-event:N.",
        )
    topic = Topic.at(str(events)) if is_topic(events) else None
    if clock not in CLOCKS or clock == ("broker" if topic is None else "feed"):
        raise UsageError(
            f"{clock!r} is not a clock of these events.",
            remedy="The `clock` is machine, feed for a pipe, or broker for a topic.",
        )
    first, opens = _beginning(start)
    last = first + timedelta(days=_ENDLESS_DAYS) if end is None else day_of(end)
    slots = TimeGrid.between(first, last, slot, tz)
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
    coming = pipe or follow or topic is not None or events is None
    # What is yet to come says nothing by the names of what is there.
    there = None if coming else events
    require_possible(
        there, format, column, zones=towers is None, period=slots.period, clock=events_tz
    )
    folder = folder_to_fill(out)
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    before, begun = _begun_with(book, dataset, name or folder.name)
    if said.spreads and border is None and begun is not None:
        said = replace(said, border=str(begun.get("border", FIRST)))
    # Towers without a cell stay: what is counted is bound by the whole list.
    places = said.open(period=slots, tz=tz, keep_all=True)
    counted = places.counted
    split = places.shares is not None and splits(places.shares)
    measured = places.released if split else counted
    free_days = holidays_in(holidays, slots)
    facts = StreamFacts(
        len(measured),
        Calendar.of(slots, free_days),
        epsilon,
        delta,
        unit_in_slots(Unit.parse(unit), slots),
        expected_users,
        grid_columns(measured),
        begins=_slot_of_beginning(slots, first, opens),
    )
    reading = Options(
        counted.kind is PlaceKind.ZONES,
        dict(column or {}),
        events_tz or tz,
        time_unit,
        slots.period,
        clock == "feed",
        format,
        clock == "broker",
    )
    # Defaults change; a stream goes on with the one it was begun with.
    chosen = scheme or before or default_name(facts, finished=not coming)
    recipe = stream_scheme(chosen, parameter)
    if facts.begins and "begins" not in recipe.declares.reads:
        raise UsageError(
            f"The scheme {chosen} measures from midnight on, whenever the feed begins.",
            remedy="Give the day alone as `start`, or choose another `scheme`.",
        )
    beside = read_public_inputs(
        recipe,
        measured,
        places.released,
        slots,
        roads=roads,
        adjacency=adjacency,
        earlier=one_or_many(earlier),
        holidays=bool(free_days),
    )
    facts = beside.put_into(facts)
    request = StreamRequest(
        dataset=dataset,
        name=name or folder.name,
        scheme=recipe,
        facts=facts,
        grid=slots,
        place_ids=counted.ids,
        out=folder,
        consistency=_consistency(consistency),
        delay_seconds=0 if delay == "0" else int(parse_step(delay).total_seconds()),
        reading=(
            *_read_as(reading, places, slots, topic, split),
            *beside.named,
            *((("holidays", " ".join(map(str, free_days))),) if free_days else ()),
            *_feed_begins(slots, facts.begins),
        ),
        place_kind=counted.kind.value,
        released=places.released,
        shares=places.shares,
        split=split,
        border={} if places.loss is None else places.loss.facts(),
        csv=form,
        about=told,
    )
    if request.scheme.finished and coming:
        raise UsageError(
            f"{chosen} needs each window as a whole before its first slot leaves.",
            remedy="Give it a finished history, or choose another `scheme`.",
        )
    book.require_room(request.claim())
    if begun is None:
        _require_empty(folder)
    source = "topic" if topic is not None else "pipe" if pipe else "folder" if follow else ""
    inbox = Path(str(events)) if source == "folder" else None
    if inbox is not None and not inbox.is_dir():
        raise InputError("this is not a folder.", file=str(events))
    notes: list[str] = []
    if begun is None and recipe.declares.little:
        notes = [f"{chosen} is there to compare with: {recipe.declares.little}."]
    if begun is None and clock == "machine" and source:
        notes += overdue(slots, request.delay_seconds, facts.begins, source, inbox)
    if not anyway and begun is None:  # what was begun is paid for, and goes on
        require_fit(chosen, facts, grid)
    if begin is not None:
        begin(facts, notes)
    run = Runner(book, request, places, reading, resume, watch, internal)
    if events is None:
        return run.pushed()
    if topic is not None:
        client = client_settings(kafka_config)
        feed = TopicFeed(topic, reading, slots, request.delay_seconds, settings=client)
        if book.book().find(dataset, request.name) is None:
            feed.open()  # a stream is bound to its topic, so that it is there comes first
        return run.followed(topic=feed)
    if pipe:
        return run.followed(ndjson_feed(_binary(events), reading))
    if inbox is not None:
        return run.followed(folder=inbox)
    return run.replayed(events, progress)


def _beginning(start: date | str) -> tuple[date, time]:
    """The first day, and when the feed begins on it."""
    if isinstance(start, str) and "T" in start:
        try:
            start = datetime.fromisoformat(start)
        except ValueError:
            raise UsageError(
                f"{start!r} is no time of a day.", remedy="Write 2007-09-10T13:00."
            ) from None
    if not isinstance(start, datetime):
        return day_of(start), time()
    if start.tzinfo is not None:
        raise UsageError(
            "When the feed begins is said by the clock of `tz`, without an offset.",
            remedy="Write 2007-09-10T13:00.",
        )
    return day_of(start.date()), start.time()


def _slot_of_beginning(grid: TimeGrid, day: date, opens: time) -> int:
    """The first slot of the first day that begins no earlier than the feed."""
    for slot in range(grid.slots):
        begins = grid.start(slot)
        if begins.date() != day:
            break
        if begins.time() >= opens:
            return slot
    raise UsageError(
        "No slot of the first day begins after the feed does.", remedy="Start a day later."
    )


def _feed_begins(grid: TimeGrid, slot: int) -> tuple[tuple[str, str], ...]:
    """The first slot of the feed, by its clock, for the reservation."""
    begins = grid.start(slot).replace(tzinfo=None)
    return (("feed begins", begins.isoformat()),) if slot else ()


def _binary(events: Any) -> BinaryIO:
    file: BinaryIO = sys.stdin.buffer if events == PIPE else events
    return file


def _begun_with(
    book: Ledger, dataset: str, name: str
) -> tuple[str | None, Mapping[str, str] | None]:
    """Scheme of the stream begun under this name and how it reads events; none if none was."""
    known = book.book().find(dataset, name)
    if known is None or "stream" not in known.claim.config:
        return None, None
    config = known.claim.config
    return str(config["stream"]), dict(config["reading"])


def _require_empty(folder: Path) -> None:
    """A new stream has its folder to itself: what has the names of its files would be lost."""
    if folder.is_dir() and any(not one.name.startswith(".") for one in folder.iterdir()):
        raise UsageError(f"{folder} is not empty.", remedy="Name a folder of its own with `out`.")


def _consistency(said: Consistency | str) -> Consistency:
    if said not in list(Consistency):
        raise UsageError(
            f"{said!r} is not a form of consistency.", remedy="Write none, nearest or random."
        )
    return Consistency(said)


def _read_as(
    reading: Options, places: OpenedPlaces, grid: TimeGrid, topic: Topic | None, split: bool
) -> tuple[tuple[str, str], ...]:
    """What else a resumed run must have in common, as far as it differs from the default."""
    said = dict(reading.columns)
    if reading.tz != grid.tz:
        said["events_tz"] = str(reading.tz)
    if reading.time_unit is not None:
        said["time_unit"] = reading.time_unit
    if reading.format is not None:
        said["format"] = reading.format
    if topic is not None:  # offsets of one topic mean nothing in another; brokers come and go
        said |= {"topic": topic.name, "clock": "broker" if reading.broker_clock else "machine"}
    if places.shares is not None:
        said["where zones lie"] = places.released.fingerprint()
    if places.border is not None:
        said["border"] = places.border
    if split:
        said[BEFORE_NOISE] = "before the noise"
    return (("where places lie", places.counted.fingerprint()), *sorted(said.items()))
