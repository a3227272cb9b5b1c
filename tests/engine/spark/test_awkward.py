"""Awkward values mean the same on Spark as on one machine, and what fails is not written down."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from sfumato.engine.local import LocalSource
from sfumato.engine.spark.files import shown
from sfumato.engine.spark.source import open_source
from sfumato.errors import InputError
from sfumato.io.events import read_events
from sfumato.model.counts import Counting
from sfumato.model.places import PlaceKind, Places

pytestmark = pytest.mark.xdist_group("spark")


def test_the_latest_moment_does_not_stop_a_local_count(town: Any) -> None:
    moments = pa.array([1704110400000000, (1 << 63) - 2], pa.timestamp("us"))
    table = pa.table({"user": [1, 2], "time": moments, "tower": ["t0", "t0"]})
    events = read_events(table, tz="America/New_York")
    assert LocalSource(events, town.towers(1), town.grid()).drops.kept == 1


def compared(town: Any, given: Any, places: Places, **reading: Any) -> Any:
    """Counts and drops, the same from both engines."""
    local = LocalSource(read_events(given, **reading), places, town.grid(1, "12h"))
    source = open_source(given, places, town.grid(1, "12h"), **reading)
    try:
        values = town.opened(source.exact(Counting.VISITS)).values
        assert values.tolist() == town.opened(local.exact(Counting.VISITS)).values.tolist()
        assert source.drops.dropped == local.drops.dropped
    finally:
        source.close()
    return values.tolist()


@pytest.mark.usefixtures("spark")
def test_old_timestamps_are_instants(town: Any, tmp_path: Path) -> None:
    """96 bits, as Spark, Hive and Impala write them: not the clock of the release."""
    moments = [datetime(2024, 1, 1, 11, 30, tzinfo=UTC), datetime(2024, 1, 1, 12, tzinfo=UTC)]
    table = pa.table({"user": [1, 2], "time": pa.array(moments), "tower": ["t0", "t0"]})
    file = tmp_path / "old.parquet"
    pq.write_table(table, file, use_deprecated_int96_timestamps=True)
    assert compared(town, file, town.towers(1), tz="Europe/Paris") == [[1, 1]]


def test_names_of_folders_are_text_on_a_session_that_guesses(
    town: Any, spark: Any, tmp_path: Path
) -> None:
    """Tower 007 is not tower 7."""
    for number, tower in enumerate(("007", "7")):
        folder = tmp_path / f"tower={tower}"
        folder.mkdir()
        pq.write_table(town.table([(number, 1.0, None)]).drop(["tower"]), folder / "a.parquet")
    towers = Places.of(
        PlaceKind.TOWERS, ["007", "7"], [shapely.Point(2, 48), shapely.Point(2.1, 48)]
    )
    key = "spark.sql.sources.partitionColumnTypeInference.enabled"
    before = spark.conf.get(key)
    spark.conf.set(key, "true")
    try:
        assert compared(town, tmp_path, towers) == [[1, 0], [1, 0]]
        assert spark.conf.get(key) == "true"
    finally:
        spark.conf.set(key, before)


def test_a_collation_joins_no_users_and_no_towers(town: Any, spark: Any) -> None:
    table = pa.table(
        {
            "user": ["A", "a", "b", "B "],
            "time": ["2024-01-01T05:00Z", "2024-01-01T05:00:00+0000"] * 2,
            "tower": ["t1", "t1", "T1", "t1 "],
        }
    )
    local = LocalSource(read_events(table), town.towers(2), town.grid())
    frame = spark.createDataFrame(table).selectExpr(
        "user COLLATE UNICODE_CI AS user",
        "time COLLATE UNICODE_CI AS time",
        "tower COLLATE UTF8_LCASE_RTRIM AS tower",
    )
    source = open_source(frame, town.towers(2), town.grid())
    try:
        answer = town.opened(source.exact(Counting.VISITS)).values
        assert answer.tobytes() == town.opened(local.exact(Counting.VISITS)).values.tobytes()
        assert answer.sum() == 2
    finally:
        source.close()


def test_an_error_that_quotes_a_record_is_not_logged(
    town: Any, spark: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """pyspark has loggers of its own, which write what it raises on standard error."""
    frame = spark.createDataFrame(town.table([(7, 1.0, "SECRET")]))
    casting = frame.selectExpr("CAST(tower AS INT) AS user", "time", "tower")
    with pytest.raises(InputError, match="CAST_INVALID_INPUT"):
        open_source(casting, town.towers(1), town.grid()).fingerprint(town.key)
    heard = capfd.readouterr()
    assert "SECRET" not in heard.out + heard.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("s3a://ACCESS:SECRET@bucket/week/*.parquet", "s3a://bucket/week/*.parquet"),
        ("abfss://data@store.example/week?sig=SECRET", "abfss://store.example/week"),
        ("jdbc:postgresql://h/d?password=SECRET", "jdbc:…"),
        ("postgresql+psycopg:/me:SECRET@h/d", "postgresql+psycopg:…"),
        ("x://[SECRET", "the address given"),
        ("hdfs:///data/week", "hdfs:/data/week"),
        ("data/week?.parquet", "data/week?.parquet"),
        ("catalog.db.table", "catalog.db.table"),
    ],
)
def test_what_messages_call_the_events(given: str, said: str) -> None:
    assert shown(given) == said
