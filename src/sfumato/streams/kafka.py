"""Events of a Kafka topic, each record once: offsets are kept with the stream's own state.

A record's value is one event as a JSON object, read as a line of NDJSON is: what is made of it
depends on that record, its stamp and the holder's options alone. One that is no event, names no
known place or bears no time is dropped and counted.

**Exactly once.** With every published slot the stream keeps, in the same transaction, the offset
of each partition from which on records may belong to slots that are still open. Killed at any
instant it reads on from there: what belongs to slots that are out is passed over, what was in
memory is read again. No offsets are committed to the broker and no consumer group is joined, so
nothing outside the ledger's database can disagree with it. Kafka's own "exactly once" ends at what
is written back to Kafka: no client commits offsets together with a charge in another database.

**When slots close.** A look reads the machine's clock first and then asks every partition for its
end; when all is read up to there, the clock ticks. So a slot closes by the clock, whether or not
anything came, and never before what was in the topic by then is counted. While no broker answers
the clock does not tick: slots wait, and nothing is lost.

**Which records are late** is a public choice:

* `machine` (default): by the look in which it is read, as in a folder. After an outage of the
  reader more records are in time than without one.
* `broker`: by the stamp that the broker put on the record itself. The topic must stamp records on
  arrival (`message.timestamp.type=LogAppendTime`); stamps by producers are refused, because a
  wrong one would be somebody's row that says what time it is. A record counts if its stamp lies
  before the end of its slot and the delay, whoever reads it when: an outage, a kill or reading the
  topic again a week later give the same bytes.

**A date in the future closes nothing and holds nothing up.** The clock is never taken from events,
and a record whose event lies more than `AHEAD_S` after it came is dropped: otherwise one record
for next year would keep a year of the topic from being passed over.

Why this client, and what its own test cluster can and cannot show: docs/decisions/kafka.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.io.files import unreadable
from sfumato.io.formats import json_positions
from sfumato.model.extras import optional
from sfumato.model.time_grid import MICROSECONDS, TimeGrid
from sfumato.streams.input import Dated, Item, Options, Tick, line_rules, machine_clock

T = TypeVar("T")
Offsets = NDArray[np.int64]
SCHEME = "kafka://"
AHEAD_S = 600
"""How far clocks of senders may run ahead. What is read again after a kill begins this long before
the first open slot, so it is short; phones and masts are seconds apart."""
APART_S = 5
"""By how much clocks of brokers and of this machine may differ where the broker's stamps count:
slots close so much later, so that no record stamped before their end comes after it."""
PATIENCE_S = 30.0
"""How long no broker may answer before the run ends with an error; a leader is elected in less."""
_RECORDS = 10_000
"""Records taken from the client at a time."""
_MOMENT_S = 0.05
"""How long the client gathers records before it gives what it has."""
_MILLISECOND = 1_000
_OURS = {
    "enable.auto.commit": False,  # offsets are the state's
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # a partition may end in marks of transactions, not records
    "allow.auto.create.topics": False,  # a name that is misspelt is an error
}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic by its brokers and its name: `kafka://broker-1:9092,broker-2:9092/positions`."""

    servers: str
    name: str

    @classmethod
    def at(cls, address: str) -> Topic:
        """Read an address.

        Raises:
            UsageError: It names no broker or no topic.
        """
        servers, _, name = address.removeprefix(SCHEME).partition("/")
        if not servers or not name or "/" in name:
            raise UsageError(
                f"{address!r} is not the address of a topic.",
                remedy="Write kafka://broker-1:9092,broker-2:9092/positions.",
            )
        return cls(servers, name)


def is_topic(events: object) -> bool:
    """Whether events are named by the address of a topic."""
    return isinstance(events, str) and events.startswith(SCHEME)


def client_settings(
    said: Mapping[str, object] | str | os.PathLike[str] | None,
) -> dict[str, object]:
    """Settings of the client (`security.protocol`, `sasl.username` …), or a file of `name=value`.

    Raises:
        InputError: The file cannot be read or has a line that is no setting.
    """
    if said is None or isinstance(said, Mapping):
        return dict(said or {})
    try:
        lines = Path(said).read_text("utf-8", errors="replace").splitlines()
    except OSError as error:
        raise unreadable(Path(said), error) from None
    found: dict[str, object] = {}
    for row, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            name, equals, value = text.partition("=")
            if not equals:  # the line may hold a password: its number is enough
                raise InputError(
                    "this line is not of the form name=value.", file=str(said), row=row
                )
            found[name.strip()] = value.strip()
    return found


class TopicFeed:
    """Rows and ticks of a topic, from where a stream stands. `begin`, then `items`.

    Args:
        topic: Where it is.
        options: How records are read; `broker_clock` says whose clock decides what is late.
        grid: The slots of the stream.
        delay_seconds: How long a slot stays open after its end.
        settings: Of the client, as librdkafka names them. `auto.offset.reset=earliest` goes on
            where records that were not counted yet are gone; without it that is an error.
        patience: Seconds without an answer before it is an error.
        wait: Seconds between looks.
        client: The client's module, for tests.
    """

    def __init__(
        self,
        topic: Topic,
        options: Options,
        grid: TimeGrid,
        delay_seconds: int,
        *,
        settings: Mapping[str, object] | None = None,
        patience: float = PATIENCE_S,
        wait: float = 1.0,
        client: Any = None,
    ) -> None:
        self._topic, self._patience, self._wait = topic, patience, wait
        self._once = min(patience, 10.0)  # seconds that one question may take
        self._rules, self._stamped = line_rules(options), options.broker_clock
        self._starts = grid.edges[:-1] - AHEAD_S * MICROSECONDS
        self._closing = grid.edges[1:] + delay_seconds * MICROSECONDS
        self._client = client or _client()
        said = {"log_level": 0, "group.id": "sfumato", **(settings or {})}
        self._reset = said.pop("auto.offset.reset", "error") in ("earliest", "smallest")
        self._said = said | _OURS | {"auto.offset.reset": "error", "error_cb": self._heard}
        self._said["bootstrap.servers"] = topic.servers
        self._consumer: Any = None
        self._asking: Any = None
        self._begun, self._trouble = False, ""
        self._next: dict[int, int] = {}
        """Partition to the offset after the last record read."""
        self._eof: dict[int, int] = {}
        """Partition to the offset before which the client has given all records."""
        self._waiting: list[Any] = []
        """Records for the next look."""
        self._closed = 0
        """Slots that stamps have closed."""
        self._came: dict[int, int] = {}
        """Partition to the latest stamp read, in microseconds."""
        self._opened: dict[int, list[tuple[int, int]]] = {}
        """Partition to (slots that records can be of, offset from which on), rising."""

    def open(self) -> None:
        """Ask for the topic: a name that is misspelt is noticed before anything is reserved.

        Raises:
            UsageError: A setting of the client is wrong.
            InputError: No broker answers, or there is no such topic.
        """
        try:
            self._consumer = self._client.Consumer(self._said)
            # Asks on connections of its own: on those that fetch, questions wait for what comes.
            self._asking = self._client.Consumer(self._said)
        except (self._client.KafkaException, TypeError, ValueError) as error:
            said = error.args[0] if error.args else None
            which = said.str() if isinstance(said, self._client.KafkaError) else "a wrong type"
            raise UsageError(f"The Kafka client refuses its settings: {which}.") from None
        self._partitions()

    def begin(self, kept: Any) -> None:
        """Go to where the stream stands.

        Args:
            kept: What `kept` gave with the last slot that is out; none at the beginning.

        Raises:
            UsageError: A setting of the client is wrong.
            InputError: No broker answers, there is no such topic, or it lost what was not counted.
        """
        self._begun = True
        if self._asking is None:
            self.open()
        self._next = {int(p): int(at) for p, at in (kept or {}).get("offsets", {}).items()}
        self._join(self._partitions())

    def items(self, more: Callable[[], bool]) -> Iterator[Item]:
        """Rows and ticks, while `more` says so.

        Raises:
            InputError: No broker answers, or the topic vanished or lost what was not counted.
        """
        looked = False
        try:
            while more():
                if looked:
                    # At fixed instants, as in a folder: nobody's record makes a look come sooner.
                    time.sleep(self._wait - time.time() % self._wait)
                looked = True
                now = machine_clock()
                there = self._partitions()
                if set(there) != set(self._next):
                    self._join(there)
                yield from self._read({p: self._ends(p)[1] for p in there}, now)
                yield Tick(now - APART_S * MICROSECONDS if self._stamped else now)
        finally:
            self._consumer.close()
            self._asking.close()

    def kept(self, next_slot: int) -> dict[str, Any]:
        """Where to read on once slots before `next_slot` are out: goes with the stream's state."""
        found = {}
        for partition, after in self._next.items():
            marks = [mark for mark in self._opened[partition] if mark[0] > next_slot]
            self._opened[partition] = marks
            found[str(partition)] = marks[0][1] if marks else after
        return {"topic": self._topic.name, "offsets": found}

    def _join(self, there: list[int]) -> None:
        """Read these partitions: from where the stream stands, or from their beginning."""
        if set(self._next) - set(there) and not self._reset:
            self._lost("has fewer partitions than were read of it: it was made anew")
        begun, self._next = self._next, {}
        for partition in there:
            low, high = self._ends(partition)
            at = begun.get(partition, low)
            if at > high and not self._reset:
                self._lost("holds less than was read of it: it was made anew or cut off")
            if at < low and not self._reset:
                self._lost("lost records before they were counted: its retention is too short")
            self._next[partition] = at if low <= at <= high else low
            self._opened.setdefault(partition, [])
        # The client begins anew at these offsets, with what was held back too.
        self._waiting, self._eof = [], {}
        place = self._client.TopicPartition
        self._consumer.assign([place(self._topic.name, p, at) for p, at in self._next.items()])

    def _read(self, ends: Mapping[int, int], now: int) -> Iterator[Item]:
        """All rows up to the ends, and ticks between them where stamps say how late it was."""
        answered, found = time.monotonic(), self._waiting
        while True:
            # What lies beyond waits for the next look. Were it taken along because there was
            # something to read before it, somebody's record would decide if another's is late.
            part = np.array([record.partition() for record in found], np.int64)
            offset = np.array([record.offset() for record in found], np.int64)
            due = offset < np.array([ends[p] for p in part.tolist()], np.int64)
            beyond = [found[k] for k in np.flatnonzero(~due)]
            self._waiting = beyond if found is self._waiting else self._waiting + beyond
            if due.any():
                records = found if due.all() else [found[k] for k in np.flatnonzero(due)]
                yield from self._rows(records, part[due], offset[due], now)
            for partition, end in ends.items():
                if self._eof.get(partition, 0) >= end:  # marks of transactions are no records
                    self._next[partition] = max(self._next[partition], end)
            behind = [p for p, end in ends.items() if self._next[p] < end]
            if not behind:
                return
            if self._stamped and due.any():
                clock = min(self._came.get(p, 0) for p in behind) - APART_S * MICROSECONDS
                slots = int(np.searchsorted(self._closing, clock, side="right"))
                if slots > self._closed:
                    self._closed = slots
                    yield Tick(clock)
            found = self._fetched()
            if found:
                answered = time.monotonic()
            elif time.monotonic() - answered > self._patience:
                self._partitions()  # says if the topic vanished, or nobody answers
                self._end("its broker has records and does not deliver them.", "When it does")

    def _fetched(self) -> list[Any]:
        """Records that are here within a moment."""
        found = self._consumer.consume(_RECORDS, _MOMENT_S)
        for record in found:
            if record.error() is not None:
                self._notice(record)
        return [record for record in found if record.error() is None]

    def _rows(self, records: list[Any], part: Offsets, offset: Offsets, now: int) -> Iterator[Item]:
        """Rows of records, together where the same slots are open to them."""
        if self._stamped:
            came = self._stamps(records)
            first = np.searchsorted(self._closing, came, side="right")
        else:
            came = np.full(len(records), now)
            first = np.zeros(len(records), np.int64)  # what is closed is late, and nothing else
        stop = np.searchsorted(self._starts, came, side="right")
        for partition in np.unique(part).tolist():
            own = part == partition
            self._advance(partition, offset[own], came[own], stop[own])
        for some in _alike(first, stop):
            values = [records[k].value() for k in some.tolist()]
            # A line break is white space in JSON, and a record is one event whatever it holds.
            lines = [value.replace(b"\n", b" ") for value in values if value]
            data = b"\n".join(lines) + b"\n"
            rows = json_positions(data, self._rules, len(values) - len(lines))
            yield Dated(rows, int(first[some[0]]), int(stop[some[0]]))

    def _advance(self, partition: int, offset: Offsets, came: Offsets, stop: Offsets) -> None:
        """Note how far a partition is read, and from which record on each slot may be meant."""
        marks = self._opened[partition]
        so_far = np.maximum.accumulate(np.append(marks[-1][0] if marks else -1, stop))
        for k in np.flatnonzero(np.diff(so_far)).tolist():
            marks.append((int(so_far[k + 1]), int(offset[k])))
        self._next[partition] = int(offset[-1]) + 1
        self._came[partition] = max(int(came.max()), self._came.get(partition, 0))

    def _stamps(self, records: list[Any]) -> Offsets:
        """When the broker got each record, in microseconds."""
        kinds, stamps = zip(*[record.timestamp() for record in records], strict=True)
        if set(kinds) != {self._client.TIMESTAMP_LOG_APPEND_TIME}:
            raise InputError(
                "records bear the stamps of producers, and the broker's clock was to count.",
                file=f"topic {self._topic.name}",
                remedy="Set message.timestamp.type=LogAppendTime for the topic, or take the "
                "`clock` machine.",
            )
        return np.array(stamps, np.int64) * _MILLISECOND

    def _notice(self, record: Any) -> None:
        """What the client reports instead of a record."""
        known, error = self._client.KafkaError, record.error()
        if error.code() == known._PARTITION_EOF:
            self._eof[record.partition()] = record.offset()
        elif error.code() == known._AUTO_OFFSET_RESET:
            self._join(sorted(self._next))  # says what is wrong, or begins anew if it may
        elif error.code() in (known.UNKNOWN_TOPIC_OR_PART, known._UNKNOWN_TOPIC):
            self._gone()
        elif error.fatal() or not _passing(known, error):
            self._refused(error)

    def _partitions(self) -> list[int]:
        """The topic's partitions, asked for anew: a topic can grow."""
        name = self._topic.name
        found = self._asked(lambda: self._asking.list_topics(name, timeout=self._once)).topics
        error = found[name].error if name in found else None
        if name not in found or (error and error.code() == error.UNKNOWN_TOPIC_OR_PART):
            self._gone()
        if error:
            self._refused(error)
        return sorted(found[name].partitions)

    def _ends(self, partition: int) -> tuple[int, int]:
        """First offset and the one after the last, of transactions that are done."""
        place = self._client.TopicPartition(self._topic.name, partition)
        found: tuple[int, int] = self._asked(
            lambda: self._asking.get_watermark_offsets(place, timeout=self._once)
        )
        return found

    def _asked(self, question: Callable[[], T]) -> T:
        """An answer of the brokers, waited for as long as patience lasts."""
        begun, known = time.monotonic(), self._client.KafkaError
        while True:
            try:
                return question()
            except self._client.KafkaException as raised:
                error = raised.args[0]
                if error.code() == known.UNKNOWN_TOPIC_OR_PART:
                    self._gone()
                if not _passing(known, error):
                    self._refused(error)
                if time.monotonic() - begun >= self._patience:
                    self._away()
                time.sleep(min(0.2, self._patience))

    def _heard(self, error: Any) -> None:
        """The client tells of troubles with connections as they come; the last is passed on."""
        self._trouble = str(error.name())

    def _gone(self) -> NoReturn:
        self._end("there is no such topic.", "Check its name and who may read it; when it is there")

    def _away(self) -> NoReturn:
        why = f" ({self._trouble})" if self._trouble else ""
        self._end(f"no broker of {self._topic.servers} answers{why}.", "When one is back")

    def _refused(self, error: Any) -> NoReturn:
        self._end(f"the broker refuses: {error.name()}.", "When this is mended")

    def _end(self, problem: str, when: str) -> NoReturn:
        again = "go on with `resume`: nothing is lost and nothing is paid again."
        raise InputError(
            problem,
            file=f"topic {self._topic.name}",
            remedy=f"{when}, {again if self._begun else 'run it again: nothing was charged.'}",
        )

    def _lost(self, what: str) -> NoReturn:
        raise InputError(
            f"it {what}.",
            file=f"topic {self._topic.name}",
            remedy="Bring the records back and go on with `resume`; or go on without them, with "
            "the client's setting auto.offset.reset=earliest.",
        )


def _client() -> Any:
    return optional("confluent_kafka", "Reading a topic")


def _passing(known: Any, error: Any) -> bool:
    """Whether a trouble may be over soon: connections, time limits, elections of a leader."""
    ours = (known._TRANSPORT, known._ALL_BROKERS_DOWN, known._TIMED_OUT, known._RESOLVE)
    return error.code() in ours or bool(error.retriable())


def _alike(first: Offsets, stop: Offsets) -> list[Offsets]:
    """Indices of records to which the same slots are open."""
    order = np.lexsort((stop, first))
    turns = np.flatnonzero(np.diff(first[order]) | np.diff(stop[order])) + 1
    return [np.asarray(some) for some in np.split(order, turns)]
