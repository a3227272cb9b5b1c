"""A topic is read as lines are, each record once, and what goes wrong with it loses nothing."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

confluent_kafka = pytest.importorskip("confluent_kafka")

from tests.streams.mock_kafka import Cluster  # noqa: E402
from tests.streams.test_kills import Place, Run, storm, zygote  # noqa: E402
from tests.streams.zygote import TOWERS  # noqa: E402

import sfumato  # noqa: E402
from sfumato.errors import InputError, ReservationRefused, UsageError  # noqa: E402
from sfumato.model.time_grid import TimeGrid  # noqa: E402
from sfumato.privacy.door import open_private  # noqa: E402
from sfumato.privacy.events import Unit  # noqa: E402
from sfumato.privacy.ledger import Cap, Ledger  # noqa: E402
from sfumato.streams import kafka  # noqa: E402
from sfumato.streams.input import Dated, Options, Tick  # noqa: E402
from sfumato.streams.kafka import Topic, TopicFeed, client_settings  # noqa: E402
from sfumato.streams.slots import Buffer  # noqa: E402

pytestmark = [pytest.mark.privacy, pytest.mark.xdist_group("kafka")]

START = datetime(2024, 3, 4, tzinfo=UTC)
GRID = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 6), "6h", "UTC")
READING = Options(zones=False, tz="UTC", broker_clock=True)
STAMPED = SimpleNamespace(
    **vars(confluent_kafka) | {"TIMESTAMP_LOG_APPEND_TIME": confluent_kafka.TIMESTAMP_CREATE_TIME}
)
"""The client, but for the stamps of producers, which are taken for the broker's."""
QUICK = {"socket.timeout.ms": "1000", "max.partition.fetch.bytes": "2000"}
"""Partitions come in small pieces, so that slots close while a topic is read."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def row(user: object, hours: float, place: str = "t0") -> dict[str, Any]:
    return {"user": user, "time": at(hours).isoformat(), "place": place}


def crowd(seed: int, records: int = 400) -> list[tuple[dict[str, Any], datetime]]:
    """Events of two days, and when each came: mostly soon, some late, some before they were."""
    rng = random.Random(seed)
    found = []
    for _ in range(records):
        hours = rng.uniform(0, 48)
        came = hours + rng.choice([0.01, 0.2, 0.9, 2.0, 9.0, -0.1, -3.0])
        found.append((row(rng.randrange(60), hours, f"t{rng.randrange(4)}"), at(came)))
    return sorted(found, key=lambda one: one[1])


class Counted:
    """What a stream counts in each slot, before any noise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slots: dict[int, list[int]] = {}
        close = Buffer.close

        def closed(buffer: Buffer, key: bytes) -> Any:
            slot, box = buffer.next_slot, close(buffer, key)
            self.slots[slot] = open_private(box).values.tolist()
            return box

        monkeypatch.setattr(Buffer, "close", closed)

    def publish(self, events: object, home: Path, **more: Any) -> dict[str, int]:
        """Run a stream and say what it dropped."""
        home.mkdir(exist_ok=True, parents=True)
        book, told = Ledger(home / "ledger.sqlite"), []
        if not (home / "ledger.sqlite").exists():
            book.initialise()
            book.add_dataset("city", Cap(epsilon=1.0, delta=1e-6), Unit.parse("user-day"))
        said: dict[str, Any] = {
            "towers": TOWERS,
            "start": "2024-03-04",
            "end": "2024-03-06",
            "slot": "6h",
            "tz": "UTC",
            "dataset": "city",
            "epsilon": 1.0,
            "scheme": "direct",
            "out": home / "out",
            "ledger": book,
            "internal": told.append,
        }
        sfumato.stream(events, **said | more)
        dropped: dict[str, int] = told[-1].internal_counts()["rows_dropped"]
        return dropped


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def test_records_are_read_as_lines_are_and_bad_ones_are_counted(
    cluster: Cluster, tmp_path: Path, counted: Counted
) -> None:
    address = cluster.create("bad", 3)
    good = [row(k, k % 48, f"t{k % 4}") for k in range(300)]
    spread = json.dumps(row("over lines", 1), indent=2).encode()
    bad = [
        b"{broken",
        b"",
        None,
        b"\xff\xfe",
        row("nobody's", 3, "no such place"),
        row("timeless", 3) | {"time": "soon"},
        row("yet to come", 24 * 365 * 4),
        {"clock": "2024-03-05T00:00:00Z"},
        json.dumps(row("two", 1)).encode() + b"\n" + json.dumps(row("in one", 1)).encode(),
    ]
    cluster.send("bad", [*good[:100], *bad, *good[100:], spread])
    dropped = counted.publish(address, tmp_path / "topic")
    counts = dict(counted.slots)
    lines = [json.dumps(one) for one in (*good, row("over lines", 1))]
    pipe = io.BytesIO("\n".join([*lines, '{"clock": "2024-03-07T00:00:00Z"}']).encode())
    counted.publish(pipe, tmp_path / "pipe", clock="feed")
    assert counts == counted.slots
    assert sum(map(sum, counts.values())) == len(lines)
    assert sum(dropped.values()) == len(bad), dropped
    assert dropped["outside"] == 1
    assert dropped["late"] == 0


def feed(address: str, **more: Any) -> TopicFeed:
    said = {"settings": QUICK, "patience": 20.0, "client": STAMPED} | more
    return TopicFeed(Topic.at(address), READING, GRID, 3600, **said)


def expected(records: list[tuple[dict[str, Any], datetime]]) -> list[int]:
    """The rule, record by record: within its slot and the delay, and not ahead of its clock."""
    found = [0] * 8
    for record, came in records:
        when = datetime.fromisoformat(record["time"])
        slot = int((when - START).total_seconds() // 21600)
        opens, closes = at(6 * slot) - timedelta(seconds=kafka.AHEAD_S), at(6 * slot + 7)
        found[slot] += opens <= came < closes
    return found


class Reader:
    """A stream that only counts rows, in memory that outlives its crashes."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.kept: Any = None
        self.first_reads: list[int] = []

    def run(self, source: TopicFeed, crash_after: int | None = None) -> None:
        open_rows: dict[int, int] = {}
        source.begin(self.kept)
        self.first_reads.append(min(source._next.values()))
        items = source.items(lambda: len(self.counts) < 8)
        for seen, item in enumerate(items):
            if seen == crash_after:
                items.close()
                return
            if isinstance(item, Dated):
                for slot in GRID.slot_of(item.rows.time).tolist():
                    if max(item.first, len(self.counts)) <= slot < item.stop:
                        open_rows[slot] = open_rows.get(slot, 0) + 1
            elif isinstance(item, Tick):
                ends = GRID.edges[1:] + 3_600_000_000
                while len(self.counts) < 8 and item.clock_us >= ends[len(self.counts)]:
                    self.counts.append(open_rows.pop(len(self.counts), 0))
                    self.kept = json.loads(json.dumps(source.kept(len(self.counts))))


def send_stamped(cluster: Cluster, topic: str, records: list[Any], partitions: int) -> None:
    for k, (record, came) in enumerate(records):
        cluster._producer.produce(
            topic,
            value=json.dumps(record).encode(),
            partition=k % partitions,
            timestamp=int(came.timestamp() * 1000),
        )
        if k % 30 == 29:
            cluster._producer.flush(10)
    assert cluster._producer.flush(10) == 0


def test_by_the_brokers_stamps_every_record_is_judged_by_itself_however_often_reading_stops(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late, early, out of order, in any partition: the same rows in the same slots."""
    monkeypatch.setattr(kafka, "_RECORDS", 20)
    records = crowd(1)
    address = cluster.create("stamps", 3)
    send_stamped(cluster, "stamps", records, 3)
    whole, rng = Reader(), random.Random(2)
    whole.run(feed(address))
    assert whole.counts == expected(records)
    assert 0 < sum(whole.counts) < len(records)
    stopped = Reader()
    for _ in range(6):
        stopped.run(feed(address), crash_after=rng.randint(4, 20))
    stopped.run(feed(address))
    assert stopped.counts == whole.counts
    assert stopped.first_reads[-1] > 0, "what is out is not read again"


def test_a_date_in_the_future_closes_nothing_and_holds_nothing_up(cluster: Cluster) -> None:
    address = cluster.create("future", 1)
    records = [(row("now", 1), at(1.0)), (row("next day", 40), at(1.1)), (row("now", 2), at(2.0))]
    records += [(row(k, 7 + k / 100), at(7.1 + k / 100)) for k in range(100)]
    send_stamped(cluster, "future", records, 1)
    source = feed(address)
    source.begin(None)
    items = list(source.items(iter([True, False]).__next__))
    first, second = (item for item in items if isinstance(item, Dated))
    assert (first.rows.rows, first.first, first.stop) == (3, 0, 1)
    assert (second.first, second.stop) == (1, 2)
    assert source.kept(0)["offsets"] == {"0": 0}
    assert source.kept(1)["offsets"] == {"0": 3}, "what is passed over is all of the first slot"
    assert source.kept(2)["offsets"] == {"0": 103}


def test_what_came_after_a_look_waits_for_the_next(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not somebody else's record was there to be read: none decides for another."""
    address = cluster.create("looks", 1)
    cluster.send("looks", [row(k, 1) for k in range(3)])
    source = feed(address, client=confluent_kafka)
    source._stamped = False
    source.begin(None)
    ends = source._ends

    def then_more(partition: int) -> tuple[int, int]:
        found = ends(partition)
        cluster.send("looks", [row(9, 1)])
        return found

    monkeypatch.setattr(source, "_ends", then_more)
    items = source.items(iter([True, True, False]).__next__)
    found = [item.rows.rows if isinstance(item, Dated) else "tick" for item in items]
    assert found == [3, "tick", 1, "tick"]


def test_a_topic_that_grows_is_read_from_the_beginning_of_its_new_partitions(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = cluster.create("grows", 2)
    send_stamped(cluster, "grows", [(row(k, 1), at(1)) for k in range(20)], 2)
    source = feed(address, wait=0.1)
    sizes = iter([[0], [0], [0], [0, 1]])
    monkeypatch.setattr(source, "_partitions", lambda: next(sizes))
    source.begin(None)
    items = source.items(iter([True, True, False]).__next__)
    found = [item.rows.rows if isinstance(item, Dated) else "tick" for item in items]
    assert found == [10, "tick", 10, "tick"]
    assert source.kept(7)["offsets"] == {"0": 10, "1": 10}


def test_stamps_of_producers_are_not_the_brokers_clock(
    cluster: Cluster, tmp_path: Path, counted: Counted
) -> None:
    address = cluster.create("producers", 1)
    cluster.send("producers", [row(1, 1)])
    with pytest.raises(InputError, match="LogAppendTime"):
        counted.publish(address, tmp_path, clock="broker")


def test_troubles_are_said_and_lose_nothing(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: Counted
) -> None:
    """An unknown topic, a broker that is away, one that vanishes: the stream goes on afterwards."""
    said = kafka.TopicFeed.__init__.__kwdefaults__
    monkeypatch.setitem(said, "wait", 0.1)
    address = cluster.create("there", 2)
    cluster.send("there", [row(k, k % 48) for k in range(96)])
    home = tmp_path / "s"
    with pytest.raises(InputError, match=r"no such topic.*nothing was charged"):
        counted.publish(address + "-not", home)
    cluster.stop()
    try:
        monkeypatch.setitem(said, "patience", 0.5)
        with pytest.raises(InputError, match=r"no broker of .* answers"):
            counted.publish(address, home)
    finally:
        cluster.start()
    monkeypatch.setitem(said, "patience", kafka.PATIENCE_S)
    begun = kafka.machine_clock()
    now = [int(at(15).timestamp() * 1e6)]
    monkeypatch.setattr(kafka, "machine_clock", lambda: now[0])

    def vanish(told: Any) -> None:
        if told.slot == 1:
            cluster.take_away("there")

    with pytest.raises(InputError, match=r"no such topic.*nothing is paid again"):
        counted.publish(address, home, watch=vanish)
    cluster.bring_back("there")
    assert len((home / "out" / "stream.ndjson").read_text().splitlines()) == 2
    now[0] = begun
    dropped = counted.publish(address, home, resume=True)
    assert [sum(counted.slots[slot]) for slot in range(8)] == [12] * 8
    rows = [entry.kind for entry in Ledger(home / "ledger.sqlite").entries()]
    assert rows.count("reserve") == rows.count("commit") == 1
    assert sum(dropped.values()) == dropped["late"], "what is out already is passed over"


def test_records_that_were_deleted_before_they_were_counted_are_missed(cluster: Cluster) -> None:
    address = cluster.create("short", 1)
    send_stamped(cluster, "short", [(row(k, k), at(k)) for k in range(20)], 1)
    cluster.delete_before("short", 0, 5)
    kept = {"offsets": {"0": 2}}
    with pytest.raises(InputError, match=r"retention.*auto.offset.reset"):
        feed(address).begin(kept)
    going_on = feed(address, settings=QUICK | {"auto.offset.reset": "earliest"})
    going_on.begin(kept)
    assert going_on._next == {0: 5}
    for offsets, what in (({"0": 99}, "made anew or cut off"), ({"7": 0}, "fewer partitions")):
        with pytest.raises(InputError, match=what):
            feed(address).begin({"offsets": offsets})


def test_a_stream_goes_on_with_its_own_topic_and_clock_alone(
    cluster: Cluster, tmp_path: Path, counted: Counted
) -> None:
    one, other = cluster.create("one", 1), cluster.create("other", 1)
    counted.publish(one, tmp_path)
    with pytest.raises(ReservationRefused):
        counted.publish(other, tmp_path, resume=True)
    with pytest.raises(ReservationRefused):
        counted.publish(one, tmp_path, resume=True, clock="broker")


@pytest.mark.parametrize("address", ["kafka://", "kafka://host:9092", "kafka://host/a/b"])
def test_an_address_names_brokers_and_a_topic(address: str) -> None:
    with pytest.raises(UsageError, match="broker-1:9092"):
        Topic.at(address)


def test_settings_come_from_a_file_and_are_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# ours\nsecurity.protocol = SASL_SSL\n\nsasl.password=a=b\n")
    assert client_settings(file) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}
    file.write_text("sasl.password hunter2\n")
    with pytest.raises(InputError, match="row 1") as shown:
        client_settings(file)
    assert "hunter2" not in str(shown.value)
    with pytest.raises(UsageError, match=r"no.such.setting"):
        feed("kafka://h/t", settings={"no.such.setting": "1"}).begin(None)
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", None)
    with pytest.raises(UsageError, match=r"pip install 'confluent-kafka"):
        TopicFeed(Topic.at("kafka://h/t"), replace(READING), GRID, 0)


@pytest.mark.parametrize("clock", ["feed", "sun"])
def test_a_topics_clock_is_the_machines_or_the_brokers(
    clock: str, tmp_path: Path, counted: Counted
) -> None:
    with pytest.raises(UsageError, match="not a clock of these events"):
        counted.publish("kafka://h/t", tmp_path, clock=clock)
    with pytest.raises(UsageError, match="not a clock of these events"):
        counted.publish(tmp_path, tmp_path, clock="broker", follow=True)


@pytest.fixture(scope="module")
def killed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    address = cluster.create("killed", 3)
    send_stamped(cluster, "killed", crowd(3, 3000), 3)
    with zygote(tmp_path_factory.mktemp("warm"), address) as run:
        yield run


def midway(place: Place) -> bool:
    """Some slots are out and others not: of a kill before or after there is little to fear."""
    lines = place.out / "stream.ndjson"
    return 0 < (len(lines.read_bytes().splitlines()) if lines.exists() else 0) < 24


def killed_midway(run: Run, tmp_path: Path, scheme: str, kills: int, each: int) -> None:
    storm(run, tmp_path, lambda _=None: None, scheme, kills, each, seed=kills, counts=midway)


def test_a_topic_killed_4_times_gives_the_same_bytes_and_pays_once(
    killed: Run, tmp_path: Path
) -> None:
    killed_midway(killed, tmp_path, "threshold", kills=4, each=4)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["threshold", "rhythm", "comb"])
def test_a_topic_killed_50_times(killed: Run, tmp_path: Path, scheme: str) -> None:
    killed_midway(killed, tmp_path, scheme, kills=50, each=6)
