"""Spark `local[2]` gives the bytes that one machine gives, and says what is wrong as it does."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from tests.engine.conftest import asked
from tests.engine.reference import RelationalSource

from sfumato.density.registry import SCHEMES
from sfumato.density.scheme import Density, PublicFacts
from sfumato.engine.base import BoundBroken
from sfumato.engine.local import LocalSource
from sfumato.engine.spark import session
from sfumato.engine.spark.session import open_session
from sfumato.engine.spark.source import SparkSource, open_source
from sfumato.errors import InputError, UsageError
from sfumato.geography.overlay import Layout
from sfumato.io.events import read_events
from sfumato.io.tables import is_spark_frame
from sfumato.model.counts import Counting, SampleBound, WeightBound
from sfumato.model.masks import Masks, Measure
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid, period_of
from sfumato.privacy.wall import Wall

pytestmark = pytest.mark.xdist_group("spark")
TOWERS = 7


@pytest.fixture(scope="module")
def rows() -> list[tuple[Any, float, Any]]:
    """3,000 rows of 40 users, some far busier than any bound, and a few that do not count."""
    rng = np.random.default_rng(7)
    users = (rng.pareto(0.8, 3000) * 3).astype(int) % 40
    found: list[tuple[Any, float, Any]] = [
        (int(u) * 1_000_003 - 5, float(h), f"t{t}")
        for u, h, t in zip(users, rng.uniform(-1, 49, 3000), rng.integers(0, 8, 3000), strict=True)
    ]
    return [*found, (None, 3.0, "t1"), (12, 3.0, None)]


def same(town: Any, first: Any, second: Any) -> None:
    one, two = town.answers(first), town.answers(second)
    for name in one:
        assert one[name].values.tobytes() == two[name].values.tobytes(), name
        assert (one[name].l1, one[name].l2) == (two[name].l1, two[name].l2)
        assert one[name].units_per_count == two[name].units_per_count


def some(town: Any, source: Any) -> list[bytes]:
    """Two questions that between them read every id, slot and place."""
    asked = (
        source.sampled(SampleBound(2), town.key),
        source.weighted(WeightBound(1.7), Counting.PEOPLE),
    )
    return [town.opened(private).values.tobytes() for private in asked]


def density_bytes(found: Density) -> list[bytes]:
    further = (found.lower, found.upper, found.median)
    arrays = [found.values, *further, *(m.values for m in found.measurements)]
    return [array.tobytes() for array in arrays if array is not None]


def facts_for(towers: Places, grid: TimeGrid, bound: Any) -> PublicFacts:
    line = np.column_stack((np.arange(len(towers)) * 500.0, np.zeros(len(towers))))
    layout = Layout(line, np.ones(len(towers)))
    return PublicFacts(towers.ids, grid, 1.0, 1e-6, bound=bound, layout=layout, expected_users=1000)


def scheme_runs(source: Any, towers: Places, grid: TimeGrid) -> dict[str, list[bytes]]:
    """Every scheme, with each bound where it takes one: noisy integers and finished table."""
    runs: dict[str, list[bytes]] = {}
    for name, scheme in SCHEMES.items():
        for bound in (WeightBound(2.0), SampleBound(3)):
            facts = facts_for(towers, grid, bound)
            try:
                found = scheme.run(source, Wall.seeded(3), facts)
            except UsageError:  # not every scheme takes both
                continue
            runs[f"{name} {bound}"] = density_bytes(found)
    return runs


def test_every_answer_from_files_split_and_shuffled(
    town: Any, spark: Any, rows: Any, tmp_path: Path
) -> None:
    table = town.table(rows)
    for number, start in enumerate(range(0, len(rows), 700)):
        pq.write_table(table.slice(start, 700), tmp_path / f"part-{number}.parquet")
    shuffled = open_source(
        spark.read.parquet(str(tmp_path)).orderBy("tower", "time"),
        town.towers(TOWERS),
        town.grid(2),
    )
    found = SparkSource(shuffled.events, town.towers(TOWERS), town.grid(2), rows_per_task=1200)
    one = LocalSource(town.events(rows), town.towers(TOWERS), town.grid(2), threads=1)
    try:
        same(town, one, found)
        assert found.drops.dropped == one.drops.dropped
        assert found.drops.rows == one.drops.rows
    finally:
        found.close()
    assert spark.catalog.listTables() == []
    assert spark._jsc.getPersistentRDDs().size() == 0  # close let the blocks go


def test_every_scheme_gives_the_same_bytes_on_every_engine(
    town: Any, spark: Any, rows: Any
) -> None:
    towers, grid, events = town.towers(TOWERS), town.grid(2), town.events(rows)
    here = scheme_runs(LocalSource(events, towers, grid, threads=1), towers, grid)
    assert {name.split()[0] for name in here} == set(SCHEMES)
    assert here == scheme_runs(LocalSource(events, towers, grid, threads=2), towers, grid)
    assert here == scheme_runs(RelationalSource(events, towers, grid), towers, grid)
    source = open_source(spark.createDataFrame(town.table(rows)), towers, grid)
    try:
        assert here == scheme_runs(source, towers, grid)
    finally:
        source.close()


def test_questions_get_the_same_bytes_on_every_engine(
    town: Any, spark: Any, rows: Any, tmp_path: Path
) -> None:
    """One clipped question, people, batches of several words; text ids, files in parts."""
    towers, grid = town.towers(TOWERS), town.grid(2)
    table = town.table([(f"person {row[0]}", *row[1:]) for row in rows], pa.string())
    for number, start in enumerate(range(0, len(rows), 900)):
        pq.write_table(table.slice(start, 900), tmp_path / f"part-{number}.parquet")
    shape = (TOWERS, grid.slots)
    one, many = (Masks.of(*shape, [asked(shape, k) for k in range(n)]) for n in (1, 130))
    questions: list[tuple[Masks, Measure, int | WeightBound]] = [
        (one, Measure.VISITS, 3),
        (one, Measure.UNIQUE_PEOPLE, 1),
        (many, Measure.VISITS, WeightBound(7.5)),
        (many, Measure.UNIQUE_PEOPLE, WeightBound(2.5)),
    ]
    cluster = open_source(spark.read.parquet(str(tmp_path)), towers, grid)
    try:
        for question in questions:
            found = town.opened(cluster.answers(*question))
            for here in (LocalSource, RelationalSource):  # each reads for this question alone
                wanted = town.opened(here(read_events(tmp_path), towers, grid).answers(*question))
                assert found.values.tobytes() == wanted.values.tobytes()
                assert (found.l1, found.l2, found.what) == (wanted.l1, wanted.l2, wanted.what)
    finally:
        cluster.close()


@pytest.mark.slow
def test_every_scheme_gives_the_same_bytes_on_two_worker_processes(
    town: Any, cluster: Any, rows: Any
) -> None:
    towers, grid, events = town.towers(TOWERS), town.grid(2), town.events(rows)
    here = scheme_runs(LocalSource(events, towers, grid), towers, grid)
    shuffled = cluster.createDataFrame(town.table(rows)).repartition(6)
    source = open_source(shuffled, towers, grid)
    try:
        assert here == scheme_runs(source, towers, grid)
    finally:
        source.close()


@pytest.mark.parametrize("kind", ["string", "binary", "decimal(20,0)"])
def test_ids_of_every_kind(town: Any, spark: Any, rows: Any, kind: str) -> None:
    arrow = {"string": pa.string(), "binary": pa.binary(), "decimal(20,0)": pa.uint64()}[kind]
    given = [
        (
            u if u is None else {"string": f"é{u}", "binary": b"%d" % u}.get(kind, abs(u) + 2**63),
            hour,
            tower,
        )
        for u, hour, tower in rows[:600]
    ]
    table = town.table(given, arrow)
    local = LocalSource(read_events(table), town.towers(TOWERS), town.grid(2))
    sent = (
        table.set_column(0, "user", table["user"].cast(pa.decimal128(20, 0)))
        if (kind == "decimal(20,0)")
        else table
    )
    source = open_source(spark.createDataFrame(sent), town.towers(TOWERS), town.grid(2))
    try:
        assert some(town, source) == some(town, local)
    finally:
        source.close()


@pytest.mark.parametrize("crowded", [1 << 40, 10])
def test_positions_are_found_in_zones(town: Any, spark: Any, crowded: int) -> None:
    rng = np.random.default_rng(3)
    size = 2000
    squares = [shapely.box(2 + k / 10, 48, 2.1 + k / 10, 48.1) for k in range(5)]
    zones = Places.of(PlaceKind.ZONES, [f"z{k}" for k in range(5)], squares)
    lon, lat = rng.uniform(1.95, 2.55, size), rng.uniform(47.98, 48.12, size)
    lon[:3], lat[:2] = (np.nan, 400.0, 2.1), (48.05, 48.05)
    instants = [town.start + timedelta(minutes=float(m)) for m in rng.uniform(0, 2880, size)]
    table = pa.table(
        {
            "user": rng.integers(0, 50, size),
            "time": pa.array(instants, pa.timestamp("us", "UTC")),
            "lon": lon,
            "lat": lat,
        }
    )
    local = LocalSource(read_events(table), zones, town.grid(2))
    opened = open_source(spark.createDataFrame(table), zones, town.grid(2))
    source = SparkSource(opened.events, zones, town.grid(2), crowded=crowded)
    try:
        assert some(town, source) == some(town, local)
        assert source.drops.dropped == local.drops.dropped
    finally:
        source.close()


def test_towers_that_move_and_slots_of_unequal_length(town: Any, spark: Any, rows: Any) -> None:
    half = int(town.grid(1).edges[-1])
    ends = np.iinfo(np.int64)
    towers = Places.of(
        PlaceKind.TOWERS,
        ["t0", "t1", "t1", "t2"],
        [shapely.Point(2 + k / 10, 48) for k in range(4)],
        valid_from=np.array([ends.min, ends.min, half, half]),
        valid_to=np.array([ends.max, half, ends.max, ends.max]),
    )
    grid = town.grid(2, "7h")  # each day ends with a slot of three hours
    local = LocalSource(town.events(rows), towers, grid)
    source = open_source(spark.createDataFrame(town.table(rows)), towers, grid)
    try:
        assert some(town, source) == some(town, local)
        assert source.drops.dropped == local.drops.dropped
    finally:
        source.close()


@pytest.mark.usefixtures("spark")
def test_folded_days_in_files_without_a_header_on_another_clock(
    town: Any, rows: Any, tmp_path: Path
) -> None:
    """Columns by number, times of Tokyo's wall clock, the days of Paris folded to one."""
    tokyo = timezone(timedelta(hours=9))
    for part in range(2):
        lines = [
            f"{'' if user is None else user}\t-\t"
            f"{(town.start + timedelta(hours=hour)).astimezone(tokyo):%Y-%m-%d %H:%M:%S}"
            f"\t{tower or ''}{chr(9) + 'more' if user == 7 else ''}\n"
            for user, hour, tower in rows[part::2]
        ]
        (tmp_path / f"part-{part}.tsv").write_text("".join(lines))
    columns = {"user": "1", "time": "3", "place": "4", "towers.id": "mast"}
    reading: dict[str, Any] = {"columns": columns, "tz": "Asia/Tokyo"}
    grid = period_of("2024-01-01", "2024-01-03", "6h", "Europe/Paris", "day")
    local = LocalSource(read_events(tmp_path, **reading), town.towers(TOWERS), grid)
    source = open_source(tmp_path, town.towers(TOWERS), grid, **reading)
    try:
        assert some(town, source) == some(town, local)
        assert town.opened(source.exact(Counting.VISITS)).values.sum() > 100
        assert source.drops.dropped == local.drops.dropped
        aware = LocalSource(town.events(rows), town.towers(TOWERS), grid)
        assert aware.drops.kept == local.drops.kept  # the same instants, said otherwise
    finally:
        source.close()


INSTANTS = ["2024-01-01T05:00Z", "2024-01-01 05:59:59.9999999+0100", "2024-01-01 23:00:00 UTC"]
CLOCK = ["2024-01-01T05:00", "2024-01-01 05:59:59.9999999", "1969-12-31 23:59:59.5"]
NUMBERS = ["1704085200", "1704085199.9999999", "+1704088800.", "-1.5"]


@pytest.mark.parametrize(
    "times",
    [
        # Texts: many more forms of them are in test_poison.
        pytest.param(pa.array(INSTANTS), marks=pytest.mark.slow),
        pytest.param(pa.array(CLOCK), marks=pytest.mark.slow),
        pytest.param(pa.array(NUMBERS), marks=pytest.mark.slow),
        pa.array([1704085200.25, float("nan"), float("inf"), 1704099999.9999999]),
        pa.array([1704085200000, 1704088799999, None, 0]),
        pa.array([1704085200123456789, 1704088799999999999, -1]),
        pa.array([datetime(2024, 1, 1, 2, 30), datetime(1960, 1, 1)], pa.timestamp("us")),
        pa.array([datetime(2024, 1, 1, 2, tzinfo=UTC)], pa.timestamp("us", "Europe/Paris")),
    ],
    ids=["instants", "clock", "numbers", "double", "ms", "ns", "naive", "aware"],
)
def test_times_are_read_as_on_one_machine(town: Any, spark: Any, times: pa.Array) -> None:
    text = times.type == pa.string()
    unit = "s" if times.type == pa.float64() or (text and "-0" not in times[0].as_py()) else None
    table = pa.table({"user": list(range(len(times))), "time": times, "tower": ["t0"] * len(times)})
    reading = {"tz": "Europe/Paris", "time_unit": unit}
    if pa.types.is_int64(times.type):
        reading["time_unit"] = "ms" if times[0].as_py() < 10**15 else "ns"
    grid = TimeGrid.between(town.start.date(), (town.start + timedelta(1)).date(), "1h", "UTC")
    local = LocalSource(read_events(table, **reading), town.towers(2), grid)
    frame = spark.createDataFrame(table)
    if times.type == pa.timestamp("us"):  # Spark takes it for an instant unless told otherwise
        frame = frame.selectExpr("user", "CAST(time AS TIMESTAMP_NTZ) AS time", "tower")
    source = open_source(frame, town.towers(2), grid, **reading)
    try:
        answer = town.opened(source.exact(Counting.VISITS)).values
        assert answer.tobytes() == town.opened(local.exact(Counting.VISITS)).values.tobytes()
        assert answer.sum() > 0
        assert source.drops.dropped == local.drops.dropped
    finally:
        source.close()


def test_a_user_torn_over_two_tasks_stops_the_count(
    town: Any, spark: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.createDataFrame(town.table(rows)).repartition(4)  # so that parcels are many
    repartition = type(frame).repartition
    torn = lambda self, tasks, *_: repartition(self, tasks)  # noqa: E731 - any rows to any task
    monkeypatch.setattr(type(frame), "repartition", torn)
    source = open_source(frame, town.towers(TOWERS), town.grid(2))
    try:
        with pytest.raises(BoundBroken):
            source.weighted(WeightBound(2.0), Counting.VISITS)
    finally:
        source.close()


def test_workers_with_another_version_count_nothing(
    town: Any, spark: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "__version__", "0.0.1")  # here, on the driver, only
    source = open_source(spark.createDataFrame(town.table(rows)), town.towers(7), town.grid(2))
    with pytest.raises(UsageError, match="another version"):
        source.exact(Counting.VISITS)
    source.close()


def test_the_fingerprint_knows_rows_and_not_their_order(town: Any, spark: Any, rows: Any) -> None:
    def of(given: Any, key: bytes = town.key, parts: int = 1) -> str:
        frame = spark.createDataFrame(town.table(given)).repartition(parts)
        return open_source(frame, town.towers(TOWERS), town.grid(2)).fingerprint(key)

    whole = of(rows)
    assert whole == of(rows[::-1], parts=3)
    changed = [(rows[0][0], rows[0][1], "t6"), *rows[1:]]
    swapped = [(rows[0][0], rows[0][1], rows[1][2]), (*rows[1][:2], rows[0][2]), *rows[2:]]
    others = [rows[1:], [*rows, rows[0]], changed, swapped]
    assert len({whole, of(rows, bytes(32)), *(of(other) for other in others)}) == 6


@pytest.mark.parametrize(
    ("column", "kind", "values", "words"),
    [
        ("time", pa.date32(), [date(2024, 1, 1)] * 2, "time of day"),
        ("time", pa.int64(), [1704085200] * 2, "unit"),
        ("user", pa.bool_(), [True, False], "cannot name a user"),
    ],
)
def test_what_a_schema_leaves_open_is_refused_by_name(
    town: Any, spark: Any, column: str, kind: pa.DataType, values: list[Any], words: str
) -> None:
    size = len(values)
    columns: dict[str, Any] = {
        "user": list(range(size)),
        "time": pa.array([town.start] * size, pa.timestamp("us", "UTC")),
        "tower": ["t0"] * size,
    }
    columns[column] = pa.array(values, kind)
    with pytest.raises(InputError, match=words) as caught:
        open_source(spark.createDataFrame(pa.table(columns)), town.towers(1), town.grid())
    assert column in str(caught.value)


def test_what_spark_itself_complains_about_keeps_the_record_in(town: Any, spark: Any) -> None:
    frame = spark.createDataFrame(town.table([(k, 1.0, "t0") for k in range(3000)]))
    frame = frame.selectExpr(
        "user", "time", "IF(user = 2999, raise_error(concat('SECRET ', user)), tower) AS tower"
    )
    with pytest.raises(InputError, match="could not be read") as caught:
        open_source(frame, town.towers(1), town.grid()).fingerprint(town.key)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_missing_things_are_named(town: Any, spark: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or table"):
        open_source("no_such_db.no_such_table", town.towers(1), town.grid())
    with pytest.raises(InputError, match="no such file or table"):
        open_source(str(tmp_path / "none.parquet"), town.towers(1), town.grid())
    frame = spark.createDataFrame(pa.table({"user": [1], "time": [1]}))
    with pytest.raises(InputError, match="no column is recognised as the place"):
        open_source(frame, town.towers(1), town.grid())
    with pytest.raises(UsageError, match="already"):
        open_session("local[1]")
    for given in (frame, str(tmp_path)):  # settings that would be ignored are refused
        with pytest.raises(UsageError, match="its own settings"):
            open_source(given, town.towers(1), town.grid(), settings={"spark.x": "1"})
    assert is_spark_frame(frame)
    assert not is_spark_frame(pa.table({"user": [1]}))
