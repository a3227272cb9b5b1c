"""One run of a stream: a history replayed, a feed followed, or events pushed by a program.

`Stream` is what `sfumato.stream` gives back: where the stream is and how far. Where no events were
named it is also the way in:

    with sfumato.stream(zones=..., out=..., ...) as publisher:
        publisher.add(events)                   # rows of any open slot, as often as they come
        publisher.close(publisher.next_slot)    # by the clock: counted, noised, out for good

**When to close** is the program's to say, and must hang on the clock alone: a slot that closes
because somebody's event came, or did not, tells of that event. On the machine's clock a slot is
refused before its end and its delay are over.

**Nothing is lost, nothing is paid twice.** Slots close in order, each once. Events of open slots
are in memory alone: after a kill, open the stream again with `resume`, and send again what
belongs to `next_slot` and later. Rows that cannot count are dropped and counted for the holder.

The page of a stream that goes on is written again whenever the clock has closed slots: when and
whether is a matter of the clock, what it shows of published numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sfumato.engine.local import DropLog, LocalSource
from sfumato.errors import InputError, ReservationRefused, UsageError
from sfumato.geography.places import OpenedPlaces
from sfumato.io.events import read_events
from sfumato.io.rows import Positions
from sfumato.model.rounding import number_of
from sfumato.model.source import Progress
from sfumato.model.time_grid import MICROSECONDS, TimeGrid
from sfumato.privacy.ledger import Ledger
from sfumato.privacy.transaction import name_of_input
from sfumato.published.release import Release, read_release
from sfumato.streams.input import (
    Dated,
    Item,
    Options,
    Tick,
    Unfit,
    file_rows,
    folder_feed,
    machine_clock,
    record_rows,
    rows_in,
)
from sfumato.streams.kafka import TopicFeed
from sfumato.streams.live import LiveStream, StreamRequest
from sfumato.streams.scheme import Publication
from sfumato.streams.slots import Buffer, Dropped, SlotSource

STOOD_STILL_S = 60
"""Seconds that the machine's clock may be set back, as clocks are when they are corrected."""
Z90 = 1.6449
"""Half width of a 90 % interval, in standard deviations of a Gaussian."""


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """One published slot, for whoever watches: public numbers only."""

    slot: int
    slots: int
    """How many the stream has in all."""
    start: datetime
    end: datetime
    made: Publication
    spent: float
    """Share of the window's budget that is spent."""
    noise_of_sum: float
    """Standard deviation of the noise in the sum, as far as public facts tell."""

    @property
    def left(self) -> float:
        """Share of the window's budget that is left."""
        return 1 - self.spent

    @property
    def sum(self) -> float:
        """Of all published counts of the slot."""
        return self.made.total.value if self.made.total else float(self.made.values.sum())

    @property
    def plus_minus(self) -> float | None:
        """Half of the 90 % interval of the sum; of its noise alone where none is stated."""
        total = self.made.total
        if total is not None:
            return total.plus_minus
        known = math.isfinite(self.noise_of_sum) and self.noise_of_sum > 0
        return Z90 * self.noise_of_sum if known else None

    @property
    def words(self) -> str:
        """The sum as tables and answers print it; where no interval is stated, with its noise."""
        if self.made.total is not None:
            return str(self.made.total)
        noise = "" if self.plus_minus is None else f" ± {self.plus_minus:,.0f} of noise"
        return f"{self.sum:,.0f}{noise}"  # how far it is from the truth nobody says


@dataclass(eq=False, repr=False)
class Stream:
    """A stream: its folder, how far it is, and the way in where events are pushed.

    `finished` when its last slot is out and the reservation committed.
    """

    folder: Path
    request: StreamRequest = field(repr=False)
    _run: Runner = field(repr=False)
    _live: LiveStream | None = field(default=None, repr=False)
    finished: bool = False
    next_slot: int = 0
    """The slot to close next; those before it are out for good."""
    _held: ExitStack = field(default_factory=ExitStack)
    _buffer: Buffer | None = None
    _key: bytes = b""

    @property
    def grid(self) -> TimeGrid:
        """All slots of the stream: when each begins and ends."""
        return self.request.grid

    @property
    def position(self) -> Any:
        """What `close` was last told of where the source stands; none at the beginning."""
        return None if self._live is None else self._live.kept

    def add(self, events: object) -> None:
        """Take up events of slots that are open.

        Args:
            events: An Arrow table, a data frame, a list of records as mappings (`user`, `time` and
                `place`, or `lon` and `lat`), or the path of a file. Rows that cannot be read, name
                no known place or belong to no open slot are dropped and counted for the holder
                (`internal_counts`); so is a file that cannot be read.

        Raises:
            InputError: A table lacks a column, or leaves open how it is read: its columns are the
                feeder's, not a person's.
            UsageError: Nothing is pushed to this stream, or it has ended.
        """
        _, buffer = self._open()
        reading = self._run.reading
        if isinstance(events, list | tuple):
            found: list[Positions] | list[Unfit] = [record_rows(events, reading)]
        elif isinstance(events, str | Path):
            found = file_rows(Path(events), reading)
        else:
            found = rows_in(events, reading) or []
        for item in found:
            self._run.take(item, buffer)

    def close(self, slot: int, position: Any = None) -> Told:
        """Publish one slot: count its events, add noise, write it out. In order, each once.

        Args:
            slot: Its number, `next_slot`. A retry that names the same slot again is refused rather
                than taken for the next one.
            position: Where the program's own source stands, as JSON has it: kept with the slot in
                one transaction, and found again in `position` when the stream goes on.

        Returns:
            What was published, and what the window has spent.

        Raises:
            UsageError: It is out already, another comes first, or it is not over yet.
        """
        live, buffer = self._open()
        if slot < self.next_slot:
            raise UsageError(
                f"Slot {slot} is out already; a slot is closed once.",
                remedy=f"The slot to close next is {self.next_slot}.",
            )
        if slot > self.next_slot:
            raise UsageError(
                f"Slot {slot} cannot be closed before slot {self.next_slot}.",
                remedy="Close slots in order, also those in which nothing came.",
            )
        request, run = self.request, self._run
        now = machine_clock()
        if not run.reading.fed_clock and not buffer.closes(slot, now, request.delay_seconds):
            over = int(self.grid.edges[slot + 1]) / MICROSECONDS + request.delay_seconds - now / 1e6
            raise UsageError(
                f"Slot {slot} is not over by the machine's clock: {over:.0f} seconds are left.",
                remedy="Close it when its end and the `delay` have passed, or say that the feed "
                "keeps the time: `clock='feed'`.",
            )
        told = run.closed(live, buffer, self._key, position)
        self.next_slot = live.next_slot
        if self.next_slot < self.grid.slots:
            live.page()
        else:
            self.finished, _ = run.finish(live)
            self.stop()
        return told

    def stop(self) -> None:
        """Let go of the stream; it can be gone on with by `resume`. Closed slots stay out."""
        if self._live is not None and self._buffer is not None:
            self._run.confide(self._buffer.dropped)
        self._live = None
        self._held.close()

    def internal_counts(self) -> dict[str, Any]:
        """Rows that were read and dropped so far. For the holder's eyes only."""
        return {} if self._buffer is None else self._buffer.dropped.internal_counts()

    def release(self) -> Release:
        """What is out, read back and checked (`sfumato.read_release`)."""
        return read_release(self.folder)

    def _open(self) -> tuple[LiveStream, Buffer]:
        if self._live is None or self._buffer is None:
            if self.finished:
                raise UsageError(
                    "The stream has ended: its last slot is out.",
                    remedy="Later days are a stream of their own, from its `end` on.",
                )
            raise UsageError(
                "This stream takes no events any more.",
                remedy="Open it without `events` and with `resume=True` to push to it.",
            )
        return self._live, self._buffer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        how = "finished" if self.finished else "more may come"
        return (
            f"<stream {self.folder.name!r}: {number_of(self.next_slot, 'slots')} published, {how}>"
        )

    def _repr_html_(self) -> str:
        return self.release()._repr_html_() if self.next_slot else escape(repr(self))


@dataclass(frozen=True, slots=True, eq=False)
class Runner:
    """What one run of a stream is made of: what comes in, and who is told."""

    book: Ledger
    request: StreamRequest
    places: OpenedPlaces
    reading: Options
    resume: bool
    watch: Callable[[Told], None] | None
    internal: Callable[[DropLog | Dropped | Unfit], None] | None

    def pushed(self) -> Stream:
        """Hold the stream open for a program that adds events and closes slots."""
        made = Stream(self.request.out, self.request, self)
        with ExitStack() as held:
            live = held.enter_context(LiveStream(self.book, self.request, resume=self.resume))
            made.finished, made.next_slot = self.finish(live)
            if not made.finished:
                made._live, made._key = live, live.sampling_key()
                made._buffer = self._buffer(live)
                made._held = held.pop_all()
        return made

    def followed(
        self,
        feed: Iterator[Item] | None = None,
        folder: Path | None = None,
        topic: TopicFeed | None = None,
    ) -> Stream:
        """Publish what a feed, a folder or a topic brings, as its clock closes slots."""
        request = self.request
        with LiveStream(self.book, request, resume=self.resume) as live:
            buffer = self._buffer(live)
            if live.finished:
                return self._ended(live)
            key, last = live.sampling_key(), None
            more: Callable[[], bool] = lambda: buffer.next_slot < request.grid.slots  # noqa: E731
            if topic is not None:
                topic.begin(live.kept)
                feed = topic.items(more)
            elif feed is None:
                assert folder is not None
                feed = folder_feed(folder, self.reading, more=more)
            for item in feed:
                if not isinstance(item, Tick):
                    self.take(item, buffer)
                else:
                    if topic is None:  # partitions of a topic are read one before the other
                        last = _forward(item, last)
                    before = buffer.next_slot
                    while buffer.next_slot < request.grid.slots and buffer.closes(
                        buffer.next_slot, item.clock_us, request.delay_seconds
                    ):
                        kept = None if topic is None else topic.kept(buffer.next_slot + 1)
                        self.closed(live, buffer, key, kept)
                    if before < buffer.next_slot < request.grid.slots:
                        live.page()
            self.confide(buffer.dropped)
            return self._ended(live)

    def replayed(self, events: object, progress: Progress | None) -> Stream:
        """Publish a finished history."""
        reading, request = self.reading, self.request
        described = read_events(
            events,
            columns=reading.columns,
            tz=reading.tz,
            time_unit=reading.time_unit,
            format=reading.format,
            period=reading.period,
            progress=progress,
        )
        source = LocalSource(described, self.places.counted, request.grid, progress=progress)
        try:
            bound = name_of_input(source, self.book, request.dataset, request.name)
            self.confide(source.drops)  # read before anything is reserved
            named = replace(request, fingerprint=bound)
            with LiveStream(self.book, named, resume=self.resume) as live:
                if not live.finished:
                    slots = SlotSource(source, request.facts, live.sampling_key())
                    if name_of_input(source, self.book, request.dataset, request.name) != bound:
                        # The key is bound to one input; what was counted may be another.
                        raise ReservationRefused(
                            "The events changed while they were read, so nothing was published.",
                            remedy="Let nobody write to them, and run the same again.",
                        )
                    for slot in range(live.next_slot, request.grid.slots):
                        for first, stop in live.windows_to_show(slot):
                            live.prepare(slots.window(first, stop), first)
                        self._tell(live, slot, live.publish(slot, slots.slot(slot)))
                return self._ended(live)
        finally:
            source.close()
            described.close()

    def take(self, item: Positions | Dated | Unfit, buffer: Buffer) -> None:
        """Rows for the buffer; a file that gave none is counted."""
        if isinstance(item, Positions):
            buffer.add(item)
        elif isinstance(item, Dated):
            buffer.add(item.rows, item.first, item.stop)
        else:
            buffer.dropped.files += 1
            self.confide(item)

    def closed(self, live: LiveStream, buffer: Buffer, key: bytes, kept: Any = None) -> Told:
        """Publish the next slot of what was buffered, and keep where the source stands."""
        slot = buffer.next_slot
        return self._tell(live, slot, live.publish(slot, buffer.close(key), kept))

    def finish(self, live: LiveStream) -> tuple[bool, int]:
        """Whether the stream is at its end, committed if so, and how far it is."""
        if live.next_slot >= self.request.grid.slots:
            live.close()
            return True, self.request.grid.slots
        return False, live.next_slot

    def confide(self, found: DropLog | Dropped | Unfit) -> None:
        """Tell the holder, and nobody else, what was read and dropped."""
        if self.internal is not None:
            self.internal(found)

    def _buffer(self, live: LiveStream) -> Buffer:
        request = self.request
        return Buffer(request.grid, self.places.counted, request.facts, next_slot=live.next_slot)

    def _ended(self, live: LiveStream) -> Stream:
        finished, after = self.finish(live)
        return Stream(self.request.out, self.request, self, finished=finished, next_slot=after)

    def _tell(self, live: LiveStream, slot: int, made: Publication) -> Told:
        start, end = live.times(slot)
        told = Told(
            slot,
            self.request.grid.slots,
            start,
            end,
            made,
            live.meter.share_spent(slot),
            live.noise_of_sum,
        )
        if self.watch is not None:
            self.watch(told)
        return told


def _forward(tick: Tick, last: Tick | None) -> Tick:
    """The later of two ticks in a row; a clock that runs backwards is refused.

    What a feeder states may not go back at all. The machine's clock is corrected now and then, by
    less than a minute, and then taken to stand still: slots that are out stay out. Only ticks of
    one run are compared: a feed that is sent again begins with the clock of its beginning.
    """
    if last is None or tick.clock_us >= last.clock_us:
        return tick
    back = (last.clock_us - tick.clock_us) / MICROSECONDS
    if tick.stated or back > STOOD_STILL_S:
        whose = "that the feed states" if tick.stated else "of this machine"
        raise InputError(
            f"the clock {whose} ran backwards by {back:.0f} seconds.",
            remedy="Set the clock right and go on with `resume`; published slots stay as they are.",
        )
    return last
