"""What is concluded from sizes alone."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely

from sfumato.engine.spark import files
from sfumato.engine.spark.files import LITTLE, is_little
from sfumato.engine.spark.rows import Recipe, alike, positions
from sfumato.engine.spark.session import _JAVA_SET_UP, _SET_UP, settings_for
from sfumato.engine.spark.source import (
    CROWDED,
    MOST_PARCELLED,
    MOST_TASKS,
    ROWS_PER_TASK,
    SHORT_ROW,
    are_short,
    excess,
    tasks_for,
)
from sfumato.engine.spark.survey import Survey
from sfumato.io.datasets import TDrive
from sfumato.io.formats import ReadOptions
from sfumato.io.rows import Positions
from sfumato.model.events import EventColumns, EventFile, Reading, TimeEncoding, UserEncoding
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import period_of


def test_many_rows_are_not_one_busy_user() -> None:
    """A year of a nation, by a sample: every bucket is large. One device on top of it shows."""
    share = 1e-3
    even = [17_000] * 4095
    assert even[0] / share > CROWDED
    assert excess([*even, 17_400], share) < CROWDED
    assert excess([*even, 27_400], share) > CROWDED
    assert excess([9_000_000], 1.0) > CROWDED
    assert excess([], 1.0) == 0


def test_tasks_follow_the_rows_until_there_are_very_many() -> None:
    asked = [0, ROWS_PER_TASK * 3, ROWS_PER_TASK * 3 + 1, 70_000_000_000]
    assert [tasks_for(rows, ROWS_PER_TASK) for rows in asked] == [2, 3, 4, MOST_TASKS]
    assert tasks_for(100, ROWS_PER_TASK, 1) == 1


def test_batches_are_measured_where_one_could_be_large() -> None:
    def short(rows: int, longest: int) -> bool:
        return are_short(Survey({"": (rows, 0, 0, 0, 0)}, longest), ROWS_PER_TASK, CROWDED)

    assert short(0, 0)
    assert short(1_000, SHORT_ROW)
    assert not short(1_000, SHORT_ROW + 1)
    assert short(30_000_000_000, 60)
    assert not short(30_000_000, MOST_PARCELLED // (ROWS_PER_TASK + CROWDED))
    assert not short(1 << 40, 0), "tasks have grown"


def test_little_is_told_by_the_files_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/1.csv").write_bytes(b"x" * 10)
    assert is_little(tmp_path)
    assert is_little([str(tmp_path / "a/1.csv"), tmp_path / "a"])
    with (tmp_path / "a/2.csv").open("wb") as file:
        file.truncate(LITTLE)
    assert not is_little(tmp_path)
    for elsewhere in ("db.table", "hdfs://host/file", "x" * 5000, 7, tmp_path / "none"):
        assert not is_little(elsewhere)


def test_a_quick_start_is_never_above_what_somebody_has_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, setup = "spark.driver.extraJavaOptions", "spark.sql.adaptive.enabled"
    for variable in ("SPARK_HOME", "SPARK_CONF_DIR", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(variable, raising=False)
    for master in (None, "local", "local[2]", "local[*]"):
        assert "SerialGC" in settings_for(master, {}, short=True)[name]
        assert name not in settings_for(master, {}, short=False)
    found = settings_for("local[2]", {name: "-Xss9m", setup: "true"}, short=True)
    assert (found[name], found[setup]) == ("-Xss9m", "true")
    for master in ("yarn", "spark://host:7077", "local-cluster[2,1,1024]"):
        assert name not in settings_for(master, {}, short=True)
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert name not in settings_for(None, {}, short=True)


def test_files_of_this_machine_are_listed_here_and_share_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten thousand files were ten thousand tasks to list, and hundreds to read, each time."""
    for name in (*_SET_UP, *_JAVA_SET_UP):
        monkeypatch.delenv(name, raising=False)
    listing = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    for short in (True, False):
        assert int(settings_for("local[2]", {}, short)[listing]) > 10_325
        assert listing not in settings_for("yarn", {}, short)
        assert settings_for("local[2]", {listing: "7"}, short)[listing] == "7"


def taxis(number: int) -> dict[int, EventFile]:
    """Files of T-Drive by their numbers; the seventh is read in a way of its own."""
    columns = EventColumns("user", "time", lon="lon", lat="lat")
    return {
        taxi: EventFile(
            Path(f"/taxis/{taxi}.txt"),
            "tdrive",
            Reading(columns, TimeEncoding.ISO, UserEncoding.TEXT, "Asia/Shanghai"),
            header=TDrive.header,
            keys=(("user", "of its own"),) if taxi == 7 else (),
            ahead=0,
        )
        for taxi in range(number)
    }


def recipe_of(parts: dict[int, EventFile]) -> Recipe:
    town = Places.of(PlaceKind.ZONES, ["z"], [shapely.box(2, 48, 3, 49)])
    grid = period_of("2024-01-01", "2024-01-02", "1h", "UTC")
    return Recipe(alike(parts), (), True, True, UserEncoding.TEXT, town, grid, 1, 5)


def test_ten_thousand_files_that_are_read_alike_are_described_once() -> None:
    """Every task gets all parts: of T-Drive's files that was a megabyte, and as many rules."""
    parts = taxis(10_325)
    recipe = recipe_of(parts)
    assert len(pickle.dumps(recipe.parts)) < 100_000
    assert len({id(part) for part in recipe.parts.values()}) == 2
    assert recipe.parts[7].keys == parts[7].keys
    rules = recipe.rules()
    assert rules.keys() == parts.keys()
    assert len({id(each) for each in rules.values()}) == 1


def test_lines_of_files_that_are_read_alike_are_cut_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file at a time, ten thousand files took five times as long as their rows in one."""
    calls: list[bytes] = []
    rows = TDrive.rows

    def counted(self: TDrive, data: bytes, *rest: Any) -> Positions:
        calls.append(data)
        return rows(self, data, *rest)

    monkeypatch.setattr(TDrive, "rows", counted)
    parts = taxis(1000)
    headed = {**parts, 990: replace(parts[990], ahead=1)}
    lines = [
        line
        for taxi in headed
        for line in (f"{taxi},2024-01-01 10:00:00,2.5,48.5\n".encode(), f"{taxi}\n".encode(), None)
    ]
    files = np.repeat(np.arange(1000), 3)
    columns = [pa.array(lines, pa.binary()), pa.array(files), pa.array(np.zeros(3000, np.int64))]
    batch = pa.RecordBatch.from_arrays(columns, names=["line", "file", "at"])
    read = list(positions(iter([batch.slice(0, 1500), batch.slice(1500)]), recipe_of(headed)))
    assert len(calls) == 6  # before the seventh, it, after it; the next batch: before, it, after
    users = [user for each in read for user in each.user.to_pylist()]
    whose = [b"of its own" if taxi == 7 else str(taxi).encode() for taxi in parts]
    assert users == [user for taxi, user in enumerate(whose) if taxi != 990]
    assert sum(each.unreadable for each in read) == 2 * 1000  # a short line and one too long


@pytest.mark.xdist_group("spark")
def test_numbers_of_files_are_those_of_spark_which_opens_one(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark was asked for the number of each, and took a millisecond of all its time for one."""
    (tmp_path / "a b").mkdir()
    plain = [tmp_path / f"{taxi}.txt" for taxi in range(40)]
    odd = [tmp_path / "a b/41.txt", tmp_path / "é.txt", tmp_path / "x_.txt", tmp_path / "4,2.txt"]
    for path in (*plain, *odd):
        path.write_text("7,2008-02-04 10:00:00,116.4,39.9\n")
    asked: list[str] = []
    numbered = files._numbered

    def counted(session: Any, paths: Sequence[str], label: str) -> list[tuple[str, int]]:
        asked.extend(paths)
        return numbered(session, paths, label)

    monkeypatch.setattr(files, "_numbered", counted)
    _, store = files.read_files(spark, [str(tmp_path)], ReadOptions(tz="UTC"), "tdrive")
    assert len(asked) == 4  # one of the plain ones, of which x_.txt is one, and the other three
    pairs = numbered(spark, [files.address_of(path) for path in (*plain, *odd)], "all")
    theirs = {files._plainly(address)[1]: number for address, number in pairs}
    assert store.numbers == theirs

    # Where Spark had another way to number, it would be asked for all.
    asked.clear()
    monkeypatch.setattr(files, "of_text", len)
    _, store = files.read_files(spark, [str(tmp_path)], ReadOptions(tz="UTC"), "tdrive")
    assert store.numbers == theirs
