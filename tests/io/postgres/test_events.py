"""Events out of a real PostgreSQL: the same description and the same bytes as from a file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from tests.engine.reference import RelationalSource

from sfumato.engine.fingerprint import fingerprint
from sfumato.engine.local import LocalSource
from sfumato.errors import InputError, UsageError
from sfumato.io.events import read_events
from sfumato.io.inspect import look as inspect
from sfumato.io.postgres.events import condition
from sfumato.io.traces import read_traces
from sfumato.model.counts import Counting, SampleBound
from sfumato.model.events import (
    EventColumns,
    EventFile,
    Events,
    Reading,
    TimeEncoding,
    UserEncoding,
)
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

pytestmark = pytest.mark.postgres
KEY = bytes(range(32))
GRID = TimeGrid.between(date(2024, 3, 30), date(2024, 4, 1), "1h", "Europe/Paris")
TOWERS = Places.of(
    PlaceKind.TOWERS,
    [f"t{k}" for k in range(5)],
    [shapely.Point(2 + k / 100, 48) for k in range(5)],
)


def records(rows: int = 4000, seed: int = 1) -> pa.Table:
    """Four days of records around a change of the clock, two of them in the period."""
    rng = np.random.default_rng(seed)
    start = np.datetime64("2024-03-29T00:00:00", "us").astype(np.int64)
    instants = start + rng.integers(0, 4 * 86_400_000_000, rows)
    return pa.table(
        {
            "msisdn": pa.array([f"{u:04x}" for u in rng.integers(0, 300, rows)]),
            "datetime": pa.array(instants, pa.timestamp("us", tz="UTC")),
            "location_id": pa.array([f"t{k}" for k in rng.integers(0, 6, rows)]),
        }
    )


def snapshot(events: Events) -> Path:
    """The file that holds the rows of a single table."""
    (part,) = events.parts
    assert isinstance(part, EventFile)
    return part.path


def answers(
    events: Events, source: type[LocalSource] | type[RelationalSource] = LocalSource
) -> Any:
    asked = source(events, TOWERS, GRID)
    try:
        some = asked.sampled(SampleBound(4), KEY)._through_the_door().values
        return some.tobytes() + asked.exact(Counting.PEOPLE)._through_the_door().values.tobytes()
    finally:
        asked.close()


def test_a_table_with_coordinates_is_traces_and_can_be_looked_at(bureau: Any) -> None:
    table = records(400).append_column("lon", pa.array(np.full(400, 2.3)))
    bureau.load(table.append_column("lat", pa.array(np.full(400, 48.8))), "events", "fixes")
    address = bureau.address("events.fixes")
    traces, found = read_traces(address)
    assert (len(traces), found.dropped) == (400, 0)
    looked = inspect(address)
    assert (looked.rows["read"], looked.people) == (400, len(traces.names))
    assert not any(secret in repr(looked) for secret in bureau.secrets())
    bureau.load(records(4), "events", "calls")
    with pytest.raises(InputError, match="traces need coordinates"):
        read_traces(bureau.address("events.calls"))


def test_the_same_bytes_as_from_parquet(bureau: Any, tmp_path: Path) -> None:
    bureau.load(records(), "events", "calls")
    pq.write_table(records(), tmp_path / "calls.parquet")
    ours = read_events(bureau.address("events.calls"), period=GRID.period)
    theirs = read_events(tmp_path / "calls.parquet")
    assert (ours.parts[0].reading, ours.notes) == (theirs.parts[0].reading, theirs.notes)
    assert answers(ours) == answers(theirs)
    assert answers(ours, RelationalSource) == answers(theirs)
    ours.close()


def test_rows_outside_the_period_stay_on_the_server(bureau: Any) -> None:
    table = records()
    bureau.load(table, "events", "calls")
    found = read_events(bureau.address("events.calls"), period=GRID.period)
    first, last = GRID.period
    instants = table["datetime"].cast(pa.int64()).to_numpy()
    inside = int(((instants >= first) & (instants < last)).sum())
    assert pq.read_metadata(snapshot(found)).num_rows == inside
    found.close()
    whole = read_events(bureau.address("events.calls"))
    assert pq.read_metadata(snapshot(whole)).num_rows == table.num_rows
    whole.close()


TIMES = {
    "timestamptz": ("datetime", TimeEncoding.INSTANT, None, None),
    "timestamp": (
        *("(datetime AT TIME ZONE 'Europe/Paris')", TimeEncoding.NAIVE),
        *("Europe/Paris", None),
    ),
    "text": (
        *("to_char(datetime AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')", TimeEncoding.ISO),
        *("UTC", None),
    ),
    "bigint": (
        *("(extract(epoch FROM datetime) * 1000000)::bigint", TimeEncoding.EPOCH_US),
        *(None, "us"),
    ),
    "integer": (
        *("floor(extract(epoch FROM datetime))::integer", TimeEncoding.EPOCH_S),
        *(None, "s"),
    ),
    "double": (
        *("extract(epoch FROM datetime)::double precision", TimeEncoding.EPOCH_S),
        *(None, "s"),
    ),
    "numeric of any length": ("extract(epoch FROM datetime)", TimeEncoding.EPOCH_S, None, "s"),
    "numeric": (
        *("floor(extract(epoch FROM datetime) * 1000)::numeric(16)", TimeEncoding.EPOCH_MS),
        *(None, "ms"),
    ),
}


@pytest.mark.parametrize("kind", TIMES)
def test_every_kind_of_time_is_filtered_without_losing_a_row(bureau: Any, kind: str) -> None:
    """A clock change lies in the period; what the server leaves out could not have counted."""
    expression, encoding, tz, unit = TIMES[kind]
    bureau.load(records(), "events", "raw")
    bureau.run(
        f"CREATE VIEW events.calls AS SELECT msisdn, {expression} AS time, location_id "
        "FROM events.raw"
    )
    address = bureau.address("events.calls")
    some = read_events(address, tz=tz, time_unit=unit, period=GRID.period)
    whole = read_events(address, tz=tz, time_unit=unit)
    assert some.parts[0].reading.time is encoding
    assert answers(some) == answers(whole)
    counted = [pq.read_metadata(snapshot(e)).num_rows for e in (some, whole)]
    assert (counted[0] < counted[1]) == (kind != "text")
    some.close()
    whole.close()


def test_types_of_ids_and_places(bureau: Any) -> None:
    """Whatever the server stores, the description is that of a file of the same table."""
    bureau.run(
        "CREATE TYPE events.colour AS ENUM ('red', 'blue')",
        "CREATE DOMAIN events.hashed AS bytea",
        "CREATE TABLE events.many (a bigint, b smallint, c numeric(12), d text, e varchar(9), "
        "f char(6), g uuid, h events.hashed, i events.colour, j numeric, t timestamptz, k text, "
        "n integer)",
        "INSERT INTO events.many VALUES (1, 2, 3, 'x', 'y', 'z', gen_random_uuid(), '\\x00ff', "
        "'red', 1.5, '2024-03-30 12:00+00', 't1', 7)",
    )
    wanted = dict.fromkeys("abc", UserEncoding.INTEGER) | {"h": UserEncoding.BINARY}
    address = bureau.address("events.many")
    for name in "abcdefghi":
        columns = {"user": name, "time": "t", "place": "k"}
        found = read_events(address, columns=columns)
        assert found.user is wanted.get(name, UserEncoding.TEXT)
        drops = LocalSource(found, TOWERS, GRID).drops
        assert drops.kept == 1
        found.close()
    with pytest.raises(InputError, match="cannot name a user"):
        read_events(address, columns={"user": "j", "time": "t", "place": "k"})
    by_number = read_events(address, columns={"user": "a", "time": "t", "place": "n"})
    places = Places.of(PlaceKind.TOWERS, ["7"], [shapely.Point(2, 48)])
    assert LocalSource(by_number, places, GRID).drops.kept == 1
    by_number.close()


def test_odd_values_are_dropped_as_from_a_file(bureau: Any) -> None:
    bureau.run(
        "CREATE TABLE events.odd (uid text, t timestamptz, tower text)",
        "INSERT INTO events.odd VALUES ('a', 'infinity', 't1'), ('b', '-infinity', 't1'), "
        "('c', NULL, 't1'), (NULL, '2024-03-30 12:00+00', 't1'), "
        "('d', '2024-03-30 12:00+00', NULL), ('e', '2024-03-30 12:00+00', 't2')",
    )
    for period in (None, GRID.period):
        found = read_events(bureau.address("events.odd"), period=period)
        assert LocalSource(found, TOWERS, GRID).drops.kept == 1
        found.close()


def test_names_keep_their_letters(bureau: Any) -> None:
    bureau.run(
        'CREATE TABLE events."My ""Calls"" 1" (uid int, "Time" timestamptz, tower text)',
        'INSERT INTO events."My ""Calls"" 1" VALUES (1, \'2024-03-30 12:00+00\', \'t1\')',
    )
    found = read_events(bureau.address("events.My%20%22Calls%22%201"))
    assert found.parts[0].reading.columns.time == "Time"
    assert LocalSource(found, TOWERS, GRID).drops.kept == 1
    found.close()


def test_coordinates_are_located_and_metres_lie_nowhere(bureau: Any) -> None:
    bureau.run(
        "CREATE TABLE events.gps (uid int, t timestamptz, lon numeric(9, 6), lat real)",
        "INSERT INTO events.gps VALUES (1, '2024-03-30 12:00+00', 2.005, 48.0)",
        "CREATE VIEW events.metres AS SELECT uid, t, lon * 1e6 AS lon, lat * 1e6 AS lat "
        "FROM events.gps",
    )
    zones = Places.of(PlaceKind.ZONES, ["z"], [shapely.box(2, 47.9, 2.1, 48.1)])
    for table, kept in (("gps", 1), ("metres", 0)):
        found = read_events(bureau.address(f"events.{table}"), period=GRID.period)
        assert LocalSource(found, zones, GRID).drops.kept == kept
        found.close()


def test_several_tables_are_one_input_at_one_moment(bureau: Any) -> None:
    """What is inserted while the first table is read is not seen in the second."""
    halves = records().slice(0, 2000), records().slice(2000)
    for name, half in zip(("calls", "sms"), halves, strict=True):
        bureau.load(half, "events", name)
    told: list[str] = []

    def meddle(what: str, share: float) -> None:
        if not told:
            bureau.run("INSERT INTO events.sms VALUES ('late', '2024-03-30 12:00+00', 't1')")
        told.append(f"{what} {share}")

    address = bureau.address("events.calls,events.sms")
    found = read_events(address, period=GRID.period, progress=meddle)
    assert told
    both = read_events(records())
    assert answers(found) == answers(both)
    found.close()


def test_the_fingerprint_knows_the_rows_and_not_their_order(bureau: Any) -> None:
    bureau.load(records(), "events", "calls")
    bureau.run(
        "CREATE VIEW events.backwards AS SELECT * FROM events.calls ORDER BY msisdn, datetime DESC",
        "CREATE VIEW events.short AS SELECT * FROM events.calls "
        "WHERE datetime <> (SELECT max(datetime) FROM events.calls WHERE datetime < '2024-03-31')",
        "CREATE VIEW events.moved AS SELECT msisdn, datetime, "
        "CASE WHEN location_id = 't1' THEN 't2' ELSE location_id END AS location_id "
        "FROM events.calls",
    )

    def of(table: str, key: bytes = KEY) -> str:
        found = read_events(bureau.address(table), period=GRID.period)
        try:
            return fingerprint(found, TOWERS, GRID, key)
        finally:
            found.close()

    first = of("events.calls")
    assert of("events.calls") == of("events.backwards") == first
    assert of("events.calls", b"another") != first
    assert len({first, of("events.short"), of("events.moved")}) == 3


@pytest.mark.privacy
def test_an_empty_period_and_an_empty_table_are_zeros(bureau: Any) -> None:
    bureau.load(records(), "events", "calls")
    never = TimeGrid.between(date(2031, 1, 1), date(2031, 1, 2), "1h", "UTC")
    found = read_events(bureau.address("events.calls"), period=never.period)
    source = LocalSource(found, TOWERS, never)
    assert not source.exact(Counting.VISITS)._through_the_door().values.any()
    assert fingerprint(found, TOWERS, never, KEY)
    found.close()
    bureau.run("TRUNCATE events.calls")
    found = read_events(bureau.address("events.calls"), period=GRID.period)
    source = LocalSource(found, TOWERS, GRID)
    assert not source.exact(Counting.VISITS)._through_the_door().values.any()
    found.close()


def test_nothing_is_written_on_the_server(bureau: Any) -> None:
    bureau.load(records(50), "events", "calls")
    bureau.run(
        "CREATE TABLE events.log (said text)",
        "CREATE FUNCTION events.meddle() RETURNS text LANGUAGE sql VOLATILE SECURITY DEFINER AS "
        "$$ INSERT INTO events.log VALUES ('here') RETURNING said $$",
        "CREATE VIEW events.sly AS SELECT events.meddle() AS uid, datetime, location_id "
        "FROM events.calls",
    )
    with pytest.raises(InputError, match="would write"):
        read_events(bureau.address("events.sly"))
    assert bureau.ask("SELECT count(*) FROM events.log") == [(0,)]
    before = bureau.ask("SELECT count(*) FROM pg_class")
    found = read_events(bureau.address("events.calls"))
    found.close()
    assert bureau.ask("SELECT count(*) FROM pg_class") == before
    assert bureau.ask("SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'clerk%'") == [(0,)]


def test_each_table_is_read_by_its_own_schema(bureau: Any) -> None:
    """Other names, other types, another unit: neither decides about the other."""
    bureau.load(records(50), "events", "calls")
    bureau.run(
        "CREATE VIEW events.other AS SELECT (100 + row_number() OVER ())::int AS uid, "
        "(extract(epoch FROM datetime) * 1000)::bigint AS t_ms, location_id AS tower "
        "FROM events.calls",
    )
    alone = [
        LocalSource(read_events(bureau.address(f"events.{name}")), TOWERS, GRID)
        .exact(Counting.PEOPLE)
        ._through_the_door()
        .values
        for name in ("calls", "other")
    ]
    both = read_events(bureau.address("events.calls,events.other"))
    together = LocalSource(both, TOWERS, GRID).exact(Counting.PEOPLE)._through_the_door().values
    assert np.array_equal(together, alone[0] + alone[1])
    both.close()


def test_what_the_schema_leaves_open_is_refused(bureau: Any) -> None:
    bureau.load(records(50), "events", "calls")
    bureau.run(
        "CREATE VIEW events.thin AS SELECT msisdn, datetime FROM events.calls",
        "CREATE VIEW events.clock AS SELECT msisdn, datetime::timestamp, location_id "
        "FROM events.calls",
        "CREATE VIEW events.number AS SELECT msisdn, 1::bigint AS time, location_id "
        "FROM events.calls",
    )
    with pytest.raises(InputError, match="place"):
        read_events(bureau.address("events.calls,events.thin"))
    with pytest.raises(UsageError, match="part that a column can play"):
        read_events(bureau.address("events.calls"), columns={"colour": "x"})
    with pytest.raises(InputError, match="no time zone"):
        read_events(bureau.address("events.clock"))
    with pytest.raises(InputError, match="unit"):
        read_events(bureau.address("events.number"))


def test_a_snapshot_goes_when_it_is_forgotten(
    bureau: Any, scratch: Callable[[], list[str]]
) -> None:
    bureau.load(records(50), "events", "calls")
    found = read_events(bureau.address("events.calls"))
    folder = Path(scratch()[0])
    assert folder.stat().st_mode & 0o077 == 0
    del found
    assert scratch() == []


def test_the_latest_moment_is_microseconds_exact(bureau: Any) -> None:
    """The last microsecond of the period counts, the first after it does not."""
    end = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=GRID.period[1])
    with psycopg.connect(bureau.owner) as connection:
        connection.execute("CREATE TABLE events.edge (uid int, t timestamptz, tower text)")
        for k, moment in enumerate((end - timedelta(microseconds=1), end)):
            connection.execute("INSERT INTO events.edge VALUES (%s, %s, 't1')", (k, moment))
    found = read_events(bureau.address("events.edge"), period=GRID.period)
    assert pq.read_table(snapshot(found))["uid"].to_pylist() == [0]
    assert LocalSource(found, TOWERS, GRID).drops.kept == 1
    found.close()


def test_partitions_outside_the_period_are_not_even_opened(bureau: Any) -> None:
    """The condition is a constant, so the planner leaves them out."""
    bureau.run(
        "CREATE TABLE events.parted (uid text, t timestamptz, tower text) PARTITION BY RANGE (t)",
        "CREATE TABLE events.march PARTITION OF events.parted "
        "FOR VALUES FROM ('2024-03-01') TO ('2024-04-01')",
        "CREATE TABLE events.may PARTITION OF events.parted "
        "FOR VALUES FROM ('2024-05-01') TO ('2024-06-01')",
        "INSERT INTO events.parted VALUES ('a', '2024-03-30 12:00+00', 't1'), "
        "('b', '2024-05-02 12:00+00', 't1')",
    )
    columns = EventColumns("uid", "t", "tower")
    reading = Reading(columns, TimeEncoding.INSTANT, UserEncoding.TEXT)
    where = condition("t", "", reading, GRID.period)
    plan = bureau.ask(f"EXPLAIN SELECT * FROM events.parted WHERE {where}")
    told = " ".join(line for (line,) in plan)
    assert "march" in told
    assert "may" not in told
