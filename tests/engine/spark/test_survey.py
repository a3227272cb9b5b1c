"""What is concluded from sizes alone."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import shapely

from sfumato.engine.spark.files import LITTLE, is_little
from sfumato.engine.spark.rows import Recipe, alike
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


def test_ten_thousand_files_that_are_read_alike_are_described_once() -> None:
    """Every task gets all parts: of T-Drive's files that was a megabyte, and as many rules."""
    columns = EventColumns("user", "time", lon="lon", lat="lat")
    parts = {
        number: EventFile(
            Path(f"/taxis/{number}.txt"),
            "tdrive",
            Reading(columns, TimeEncoding.ISO, UserEncoding.TEXT, "Asia/Shanghai"),
            keys=(("user", "of its own"),) if number == 7 else (),
        )
        for number in range(10_325)
    }
    town = Places.of(PlaceKind.ZONES, ["z"], [shapely.box(2, 48, 3, 49)])
    grid = period_of("2024-01-01", "2024-01-02", "1h", "UTC")
    recipe = Recipe(alike(parts), (), True, True, UserEncoding.TEXT, town, grid, 1, 5)
    assert len(pickle.dumps(recipe.parts)) < 100_000
    assert len({id(part) for part in recipe.parts.values()}) == 2
    assert recipe.parts[7].keys == parts[7].keys
    rules = recipe.rules()
    assert rules.keys() == parts.keys()
    assert len({id(each) for each in rules.values()}) == 1
