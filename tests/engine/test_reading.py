"""Who, when and where: encodings, clocks, validity, coordinates, and what is dropped."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from tests.engine.reference import RelationalSource, open_connection

from sfumato.city import CityPlan, build_city, generate_events
from sfumato.engine.local import DropReason, LocalSource
from sfumato.errors import InputError, UsageError
from sfumato.io.events import read_events
from sfumato.model.counts import Counting, SampleBound, WeightBound
from sfumato.model.events import EventColumns, Events, TimeEncoding, UserEncoding
from sfumato.model.places import ALWAYS_TO, PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

ENGINES = pytest.mark.parametrize("engine", [LocalSource, RelationalSource])


def hours_of(town: Any, source: Any) -> list[int]:
    """Slots with a visit, one entry a visit."""
    counts = town.opened(source.exact(Counting.VISITS)).values.sum(axis=0)
    return [int(slot) for slot in np.repeat(np.arange(counts.size), counts)]


def timed(
    column: pa.Array,
    encoding: TimeEncoding,
    *,
    tz: str | None = None,
    is_text: bool = False,
) -> Events:
    """One user a row, all at tower t0."""
    table = pa.table(
        {"user": np.arange(len(column)), "time": column, "tower": ["t0"] * len(column)}
    )
    return Events.of_table(
        table,
        EventColumns("user", "time", "tower"),
        encoding,
        UserEncoding.INTEGER,
        tz=tz,
        time_is_text=is_text,
    )


NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
SECONDS = int(NOON.timestamp())


@ENGINES
@pytest.mark.parametrize(
    ("column", "encoding", "is_text"),
    [
        (pa.array([NOON], pa.timestamp("us", "UTC")), TimeEncoding.INSTANT, False),
        (pa.array([NOON], pa.timestamp("s", "Asia/Tokyo")), TimeEncoding.INSTANT, False),
        (pa.array([NOON], pa.timestamp("ns", "UTC")), TimeEncoding.INSTANT, False),
        (pa.array([SECONDS]), TimeEncoding.EPOCH_S, False),
        (pa.array([SECONDS], pa.int32()), TimeEncoding.EPOCH_S, False),
        (pa.array([SECONDS + 0.25]), TimeEncoding.EPOCH_S, False),
        (pa.array([SECONDS * 1000]), TimeEncoding.EPOCH_MS, False),
        (pa.array([SECONDS * 10**6]), TimeEncoding.EPOCH_US, False),
        (pa.array([SECONDS * 10**9 + 999]), TimeEncoding.EPOCH_NS, False),
        (pa.array([f"{SECONDS}.999999999"]), TimeEncoding.EPOCH_S, True),
        (pa.array([f"{SECONDS}000"]), TimeEncoding.EPOCH_MS, True),
        (pa.array([f"{SECONDS}000000999"]), TimeEncoding.EPOCH_NS, True),
        (pa.array(["2024-01-01T12:00:00Z"]), TimeEncoding.ISO, True),
        (pa.array(["2024-01-01 13:00:00.5+01:00"]), TimeEncoding.ISO, True),
        (pa.array(["2024-01-01 08:30-0330"]), TimeEncoding.ISO, True),
        (pa.array(["2024-01-01 12:59:59.999999999 UTC"]), TimeEncoding.ISO, True),
        (pa.array(["2024-01-01T14:00+02"]), TimeEncoding.ISO, True),
    ],
)
def test_every_encoding_of_noon(
    town: Any, engine: Any, column: pa.Array, encoding: TimeEncoding, is_text: bool
) -> None:
    source = engine(timed(column, encoding, is_text=is_text), town.towers(1), town.grid())
    assert hours_of(town, source) == [12]


@ENGINES
def test_times_are_rounded_down_never_to_the_nearest(town: Any, engine: Any) -> None:
    """The last nanosecond before an hour belongs to the hour before, also before 1970."""
    grid = TimeGrid.between(date(1969, 12, 31), date(1970, 1, 2), "1h", "UTC")
    cases = [
        (pa.array([-1, 0, 3_600 * 10**9 - 1]), TimeEncoding.EPOCH_NS, False),
        (pa.array([-1, 0, 3_600 * 10**9 - 1], pa.timestamp("ns", "UTC")), "instant", False),
        (pa.array(["-0.000000001", "0", "3599.9999999"]), TimeEncoding.EPOCH_S, True),
        (pa.array([-1e-7, 0.0, 3599.9999]), TimeEncoding.EPOCH_S, False),
    ]
    for column, encoding, is_text in cases:
        events = timed(column, TimeEncoding(encoding), is_text=is_text)
        assert hours_of(town, engine(events, town.towers(1), grid)) == [23, 24, 24]


@ENGINES
def test_a_week_with_a_clock_change_on_the_wall_clock(town: Any, engine: Any) -> None:
    """Paris, 27 October 2024: 25 hours; 02:30 happens twice and is read as the first."""
    grid = TimeGrid.between(date(2024, 10, 21), date(2024, 10, 28), "1h", "Europe/Paris")
    assert grid.slots == 169
    readings = ["2024-10-26 23:30:00", "2024-10-27 01:30:00", "2024-10-27 02:30:00"]
    readings += ["2024-10-27 03:30:00", "2024-10-27 23:59:59", "2024-10-28 00:00:00"]
    expected = [143, 145, 146, 148, 168]
    text = timed(pa.array(readings), TimeEncoding.ISO, tz="Europe/Paris", is_text=True)
    assert hours_of(town, engine(text, town.towers(1), grid)) == expected
    stamps = pa.array([datetime.fromisoformat(r) for r in readings], pa.timestamp("us"))
    column = timed(stamps, TimeEncoding.NAIVE, tz="Europe/Paris")
    assert hours_of(town, engine(column, town.towers(1), grid)) == expected


@ENGINES
def test_every_instant_of_a_clock_change_falls_in_its_hour(town: Any, engine: Any) -> None:
    for day, hours in ((date(2024, 3, 31), 23), (date(2024, 10, 27), 25)):
        grid = TimeGrid.between(day, day + timedelta(days=1), "1h", "Europe/Paris")
        first = int(grid.edges[0]) // 10**6
        column = pa.array([first + 1800 * k for k in range(2 * hours)])
        source = engine(timed(column, TimeEncoding.EPOCH_S), town.towers(1), grid)
        assert hours_of(town, source) == [k // 2 for k in range(2 * hours)]


@ENGINES
def test_slots_of_unequal_length(town: Any, engine: Any) -> None:
    """Steps of 5 hours start afresh each day: the fifth slot of a day has 4."""
    rows = [(k, h, "t0") for k, h in enumerate([0, 4.99, 5, 19.99, 20, 23.99, 24, 28.99, 47.99])]
    source = engine(town.events(rows), town.towers(1), town.grid(2, "5h"))
    assert hours_of(town, source) == [0, 0, 1, 3, 4, 4, 5, 5, 9]


@pytest.mark.privacy
@ENGINES
@pytest.mark.parametrize(
    ("text", "encoding", "tz"),
    [
        ("2024-01-01 12:00:00", TimeEncoding.ISO, None),
        ("2024-13-01 12:00:00", TimeEncoding.ISO, "UTC"),
        ("yesterday", TimeEncoding.ISO, "UTC"),
        ("1704110400", TimeEncoding.ISO, "UTC"),
        ("1e9", TimeEncoding.EPOCH_S, None),
        ("", TimeEncoding.EPOCH_S, None),
        ("2024-01-01 12:00:00Z", TimeEncoding.EPOCH_S, None),
    ],
)
def test_a_text_that_is_no_time_costs_its_own_row(
    town: Any, engine: Any, text: str, encoding: TimeEncoding, tz: str | None
) -> None:
    good = "2024-01-01 12:00:00Z" if encoding is TimeEncoding.ISO else "1704110400"
    events = timed(pa.array([good, good, text, good]), encoding, tz=tz, is_text=True)
    source = engine(events, town.towers(1), town.grid())
    assert hours_of(town, source) == [12, 12, 12]
    assert source.drops.dropped == {DropReason.NOT_A_TIME: 1}


@ENGINES
def test_infinite_and_absurd_times_are_outside_the_period(town: Any, engine: Any) -> None:
    far = pa.array([float("inf"), float("nan"), -1e300, float(SECONDS)])
    source = engine(timed(far, TimeEncoding.EPOCH_S), town.towers(1), town.grid())
    assert hours_of(town, source) == [12]
    assert source.drops.dropped == {DropReason.OUTSIDE_PERIOD: 3}
    far = pa.array([2**63 - 1, -(2**63), SECONDS])
    for encoding in (TimeEncoding.EPOCH_S, TimeEncoding.EPOCH_MS, TimeEncoding.EPOCH_NS):
        source = engine(timed(far, encoding), town.towers(1), town.grid())
        assert source.drops.kept == (1 if encoding is TimeEncoding.EPOCH_S else 0)


@ENGINES
def test_a_tower_that_moved_is_another_place_from_then_on(town: Any, engine: Any) -> None:
    noon = town.grid().edges[12]
    places = Places.of(
        PlaceKind.TOWERS,
        ["b", "a", "a"],
        [shapely.Point(0, 0), shapely.Point(1, 0), shapely.Point(2, 0)],
        valid_from=np.array([town.grid().edges[6], np.iinfo(np.int64).min, noon]),
        valid_to=np.array([town.grid().edges[18], noon, ALWAYS_TO]),
    )
    rows = [(1, 11.99, "a"), (2, 12.0, "a"), (3, 5.9, "b"), (4, 6.0, "b"), (5, 18.0, "b")]
    source = engine(town.events(rows), places, town.grid())
    counts = town.opened(source.exact(Counting.VISITS)).values
    assert source.place_ids.tolist() == ["a", "a", "b"]
    assert [tuple(map(int, cell)) for cell in np.argwhere(counts)] == [(0, 11), (1, 12), (2, 6)]
    assert source.drops.dropped == {DropReason.NOT_VALID_THEN: 2}


@ENGINES
@pytest.mark.parametrize("kind", [pa.int64(), pa.int16(), pa.uint32(), pa.uint64(), pa.string()])
def test_towers_are_matched_as_text(town: Any, engine: Any, kind: pa.DataType) -> None:
    """The number 7 is the tower `7`, and not `07`, `7.0` or `+7`."""
    ids = ["7", "07", "+7", "7.0", "12", "x", "99999999999999999999"]
    places = Places.of(PlaceKind.TOWERS, ids, [shapely.Point(k, 0) for k in range(7)])
    values = [7, 12, 8] if kind != pa.string() else ["7", "12", "8"]
    table = town.table([(k, 1.0, None) for k in range(3)]).set_column(
        2, "tower", pa.array(values, kind)
    )
    source = engine(town.described(table), places, town.grid())
    counts = town.opened(source.exact(Counting.VISITS)).values[:, 1]
    assert dict(zip(places.ids.tolist(), counts.tolist(), strict=True)) == {
        **dict.fromkeys(ids, 0),
        "7": 1,
        "12": 1,
    }
    assert source.drops.dropped == {DropReason.UNKNOWN_PLACE: 1}


def squares() -> Places:
    """Three squares of a tenth of a degree side by side."""
    boxes = [shapely.box(2 + k / 10, 48, 2.1 + k / 10, 48.1) for k in range(3)]
    return Places.of(PlaceKind.ZONES, ["east0", "east1", "east2"], boxes)


def fixes(lon: pa.Array, lat: pa.Array, scale: float = 1.0) -> Events:
    count = len(lon)
    table = pa.table({"user": np.arange(count), "time": [SECONDS] * count, "lon": lon, "lat": lat})
    columns = EventColumns("user", "time", lon="lon", lat="lat", degrees_scale=scale)
    return Events.of_table(table, columns, TimeEncoding.EPOCH_S, UserEncoding.INTEGER)


@ENGINES
def test_positions_count_in_their_zone(town: Any, engine: Any) -> None:
    nan = float("nan")
    lon = pa.array([2.05, 2.15, 2.16, 5.0, nan, 200.0, None])
    lat = pa.array([48.05, 48.05, 48.01, 48.05, 48.0, 48.05, 48.0])
    source = engine(fixes(lon, lat), squares(), town.grid())
    assert town.opened(source.exact(Counting.VISITS)).values[:, 12].tolist() == [1, 2, 0]
    assert source.drops.dropped == {
        DropReason.BAD_COORDINATES: 3,
        DropReason.OUTSIDE_ZONES: 1,
    }


@ENGINES
def test_scaled_integer_positions_and_many_fixes_in_an_hour(town: Any, engine: Any) -> None:
    """A user counts once per zone and hour however many fixes there are."""
    events = fixes(pa.array([205_000, 215_000], pa.int32()), pa.array([4_805_000] * 2), 1e5)
    reading = events.parts[0].reading
    table = events.parts[0].table.set_column(0, "user", pa.array([9, 9]))
    events = Events.of_table(
        pa.concat_tables([table] * 50), reading.columns, reading.time, reading.user
    )
    source = engine(events, squares(), town.grid())
    assert town.opened(source.exact(Counting.VISITS)).values[:, 12].tolist() == [1, 1, 0]
    assert town.opened(source.sampled(SampleBound(5), town.key)).values.sum() == 1


@pytest.mark.privacy
@ENGINES
def test_a_coordinate_that_is_no_number_costs_its_own_row(town: Any, engine: Any) -> None:
    events = fixes(pa.array(["2.05", "two", "2.15"]), pa.array(["48.05", "48.05", "48.05"]))
    source = engine(events, squares(), town.grid())
    assert town.opened(source.exact(Counting.VISITS)).values[:, 12].tolist() == [1, 1, 0]
    assert source.drops.dropped == {DropReason.BAD_COORDINATES: 1}


def test_towers_need_a_tower_column(town: Any) -> None:
    events = fixes(pa.array([2.05]), pa.array([48.05]))
    with pytest.raises(UsageError, match="zones"):
        LocalSource(events, town.towers(2), town.grid()).exact(Counting.VISITS)


@ENGINES
def test_what_was_dropped_is_counted_and_not_shown(town: Any, engine: Any) -> None:
    rows = [(None, 1, "t0"), (1, 99, "t0"), (1, 99, None), (2, 1, None), (3, 1, "nowhere")]
    rows += [(None, 99, None), (4, 1, "t0")]
    table = town.table(rows)
    times = table.column("time").to_pylist()
    times[6] = None
    table = table.set_column(1, "time", pa.array(times, pa.timestamp("us", "UTC")))
    log = engine(town.described(table), town.towers(1), town.grid()).drops
    assert (log.rows, log.kept) == (7, 0)
    assert log.dropped == {
        DropReason.NO_USER: 2,
        DropReason.NO_TIME: 1,
        DropReason.OUTSIDE_PERIOD: 2,
        DropReason.NO_PLACE: 1,
        DropReason.UNKNOWN_PLACE: 1,
    }
    if engine is LocalSource:
        assert log.first_row[DropReason.OUTSIDE_PERIOD] == 2
        assert log.first_row[DropReason.NO_TIME] == 7
    assert repr(log) == str(log) == "<internal drop log>"
    assert log.internal_lines()[0].startswith("WARNING")


@ENGINES
@pytest.mark.parametrize("rows", [[], [(1, 99.0, "t0")], [(None, 1.0, "t0")]])
def test_nothing_to_count_is_an_answer_of_zeros(town: Any, engine: Any, rows: Any) -> None:
    """An error would tell that nobody was there."""
    source = engine(town.events(rows), town.towers(2), town.grid())
    for counts in town.answers(source).values():
        assert counts.values.sum() == 0
        assert counts.values.size


def csv(path: Path, text: str) -> Events:
    path.write_text(text)
    return read_events(path, tz="UTC")


@ENGINES
def test_csv_ids_stay_as_they_are_written(town: Any, engine: Any, tmp_path: Path) -> None:
    rows = ["007,2024-01-01 01:00:00,t0", "7,2024-01-01 01:30:00,t0", ",2024-01-01 01:00,t0"]
    rows += ['"a ""b""",2024-01-01 01:00:00,t1', "c,,t1", "d,2024-01-01 01:00:00,"]
    events = csv(tmp_path / "e.csv", "\n".join(["user,time,tower", *rows]) + "\n")
    source = engine(events, town.towers(2), town.grid())
    assert town.opened(source.exact(Counting.VISITS)).values[:, 1].tolist() == [2, 1]
    assert sum(source.drops.dropped.values()) == 3


@pytest.mark.privacy
@ENGINES
def test_a_broken_csv_row_costs_itself(town: Any, engine: Any, tmp_path: Path) -> None:
    rows = ["a,2024-01-01 01:00:00,t0", "b,2024-01-01 01:00:00", '"c,2024-01-01 01:00:00,t0']
    events = csv(tmp_path / "e.csv", "\n".join(["user,time,tower", *rows, rows[0]]) + "\n")
    source = engine(events, town.towers(1), town.grid())
    assert hours_of(town, source) == [1]
    assert source.drops.dropped == {DropReason.UNREADABLE: 2}
    assert source.drops.rows == 4


def test_a_damaged_file_is_refused_where_named_and_gives_no_rows_where_found(
    town: Any, tmp_path: Path
) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(town.table([(k, 1.0, "t0") for k in range(5000)]), path)
    (tmp_path / "f.csv").write_text("user,time,tower\n1,2024-01-01 01:00:00,t0\n")
    good = path.read_bytes()
    named, found = read_events(path), read_events(tmp_path, tz="UTC")
    path.write_bytes(good[:1000] + bytes(200) + good[1200:])  # after it was described
    with pytest.raises(InputError, match=r"e\.parquet"):
        LocalSource(named, town.towers(1), town.grid()).exact(Counting.VISITS)
    source = LocalSource(found, town.towers(1), town.grid())
    assert hours_of(town, source) == [1]
    assert (source.drops.rows, source.drops.unfit) == (1, 1)


def test_the_folder_for_spilled_records_is_private_and_goes() -> None:
    with open_connection(threads=1, memory_limit=1 << 28) as connection:
        found = connection.execute("SELECT current_setting('temp_directory')").fetchone()
        assert found is not None
        folder = Path(str(found[0]))
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()


def test_spilled_rows_go_with_the_source(town: Any) -> None:
    source = town.local([(k, 1.0, "t0") for k in range(100)], 1, memory_limit=1)
    source.exact(Counting.VISITS)
    folder = Path(source._rows()[0]._folder.name)
    assert folder.stat().st_mode & 0o077 == 0
    assert any(folder.iterdir())
    source.close()
    assert not folder.exists()


def test_progress_is_told_while_reading(town: Any) -> None:
    told: list[tuple[str, float]] = []
    source = town.local(
        [(k, 1.0, "t0") for k in range(10)],
        1,
        progress=lambda what, share: told.append((what, share)),
    )
    source.exact(Counting.VISITS)
    assert told[-2:] == [("reading events", 1.0), ("counting", -1.0)]
    before = len(told)
    source.weighted(WeightBound(1), Counting.PEOPLE)
    assert told[before:] == [("counting", -1.0)]  # the second question does not read again


def test_progress_is_told_while_reading_parquet(tmp_path: Path) -> None:
    """With a progress bar, as on a terminal: the row count must not keep the file busy."""
    city = build_city(CityPlan(users=200, towers=12, zones=8, seed=1))
    table = pa.Table.from_batches(list(generate_events(city)))
    pq.write_table(table, tmp_path / "events.parquet")
    told: list[str] = []
    source = LocalSource(
        read_events(tmp_path / "events.parquet"),
        city.towers,
        city.plan.grid,
        progress=lambda what, share: told.append(what),  # noqa: ARG005
    )
    assert source.exact(Counting.VISITS)._through_the_door().values.sum() == table.num_rows
    assert told
