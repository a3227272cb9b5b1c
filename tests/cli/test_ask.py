"""`sfumato ask`: text, JSON, table and picture; errors that say what there is to ask about."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from tests.published.asked import MONDAY, daily, hours, published
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.errors import InputError, SfumatoError, UsageError

WEEK = hours(MONDAY, MONDAY + timedelta(days=7))


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(tmp_path_factory.mktemp("ask") / "week", WEEK, daily(WEEK)).folder


def asked(*words: object) -> str:
    result = CliRunner().invoke(app, ["ask", *map(str, words)])
    if isinstance(result.exception, Exception):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_sum_in_words_and_in_json(week: Path) -> None:
    said = asked(week, "--zones", "a,b", "--hours", "8-10", "--weekdays", "mon-fri")
    assert "± " in said.splitlines()[0]
    assert "visits in a, b, 10 of 168 slots between Mon 2024-03-04 08:00" in said
    told = json.loads(asked(week, "--zones", "a", "--zones", "b", "--hours", "8-10", "--json"))
    (row,) = told["rows"]
    assert row["total"]["lower"] < row["total"]["value"] < row["total"]["upper"]
    assert row["slots"] == 14


@pytest.mark.parametrize(
    ("words", "heads"),
    [
        (["--by", "hour"], "hour"),
        (["--by", "hour", "--below", "100"], "surely below"),
        (["--rank", "zone", "--top", "2", "--demand", "7-10=2", "--demand", "12=1"], "zone id"),
        (["--rank", "hour", "--quietest", "--window", "2h"], "before next"),
        (["--weekdays", "mon-fri", "--against", "weekdays=sat-sun"], "difference"),
        (["--zones", "a", "--against", "zones=b,c"], "ratio"),
        (["--zones", "a", "--share-of", "zones=all"], "of the whole"),
        (["--at", "2024-03-05T12:10", "--sure", "0.99"], "at most"),
        (["--from", "2024-03-05", "--to", "2024-03-06"], "24 of 168"),
        (["--sql", "SELECT count(*) AS n FROM density"], "1 row"),
        (["--sql", "SELECT count(*) AS n FROM density"], "\n672\n"),
        (["--rank", "zones", "--zones", "a, b"], "of 2 by"),
    ],
)
def test_every_use_has_words(week: Path, words: list[str], heads: str) -> None:
    assert heads in asked(week, *words)


def test_sql_in_json_has_every_row(week: Path) -> None:
    told = json.loads(asked(week, "--sql", "FROM density", "--json"))
    assert len(told["rows"]) == 4 * 168
    assert told["rows"][0]["time_start"] == "2024-03-04T00:00:00+01:00"


def test_unusual_hours_against_earlier_weeks(week: Path, tmp_path: Path) -> None:
    after = hours(MONDAY + timedelta(days=7), MONDAY + timedelta(days=14))
    values = daily(after)
    values[:, 12] *= 2
    now = published(tmp_path / "now", after, values, seed=3).folder
    said = asked(now, "--unusual", "--earlier", week, "--figures", tmp_path / "figures")
    assert said.startswith("1 of 168 slots unusual; most Mon 2024-03-11 12:00")
    assert (tmp_path / "figures" / "answer.png").is_file()


def test_tables(week: Path, tmp_path: Path) -> None:
    for name, read in (("day.csv", pa_csv.read_csv), ("day.parquet", pq.read_table)):
        assert asked(week, "--by", "hour", "--out", tmp_path / name, "--quiet") == ""
        assert read(tmp_path / name).column_names[:3] == ["hour", "average", "average_lower"]


@pytest.mark.parametrize(
    ("words", "problem", "remedy"),
    [
        (["--zones", "z"], "no zone 'z'", "a, b, c and 1 others"),
        (["--polygon", "0,0,1,1"], "no outlines", "Name the zones"),
        (["--polygon", "POLYGON EMPTY"], "no area", "west,south,east,north"),
        (["--from", "2025-01-01"], "outside", "from Mon 2024-03-04 00:00 to Mon 2024-03-11"),
        (["--hours", "26"], "not understood", "from 0 to 23"),
        (["--weekdays", "someday"], "not understood", "mon-fri"),
        (["--by", "moon"], "'moon'", "hour, weekday, day, slot, zone, district"),
        (["--top", "3"], "--top", "--rank"),
        (["--by", "hour", "--unusual"], "--by and --unusual", "one after the other"),
        (["--unusual"], "nothing to compare", "--earlier"),
        (["--rank", "zone", "--demand", "9"], "--demand 7-10=2", ""),
        (["--rank", "zone", "--demand", "9=much"], "--demand 7-10=2", ""),
        (["--against", "weekends"], "--against weekdays=sat-sun", ""),
        (["--sql", "DELETE FROM density"], "nothing is written", "slots (slot, time_start"),
        (["--out", "x.xlsx"], "--out is a table", ".csv or .parquet"),
        (["--at", "soon"], "not a time", "now"),
    ],
)
def test_bad_questions_are_told_what_there_is(
    week: Path, words: list[str], problem: str, remedy: str
) -> None:
    with pytest.raises(SfumatoError) as told:
        asked(week, *words)
    assert problem in told.value.problem
    assert remedy in told.value.remedy
    assert told.value.exit_code in (1, 2)


def test_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sfumato.cli.main", "ask", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "not a release folder" in done.stderr
    assert "Traceback" not in done.stderr
    with pytest.raises(SfumatoError, match="no such folder"):
        sfumato.read_release(tmp_path / "missing")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--zones", ""], "is empty"),
        (["--zones", " , "], "No zone is named"),
        (["--polygon", ""], "is empty"),
        (["--polygon", "POINT (2 48)"], "no area"),
        (["--polygon", "2,48,2,48"], "no area"),
        (["--at", "now", "--hours", "8-10"], "A moment and hours"),
        (["--at", "now", "--weekdays", "sat"], "A moment and hours"),
        (["--by", "hour", "--below", "nan"], "not a number"),
        (["--share-of", "release=elsewhere"], "one and the same release"),
        (["--rank", "zone", "--demand", "7-10=-1"], "how much they matter"),
        (["--against", "foo=bar"], "no word 'foo'"),
    ],
)
def test_words_that_say_nothing_are_refused(week: Path, words: list[str], problem: str) -> None:
    """None of them is passed over: the answer would be to another question."""
    with pytest.raises(UsageError, match=problem):
        asked(week, *words)


def test_a_release_is_not_held_against_itself(week: Path) -> None:
    with pytest.raises(UsageError, match="given twice"):
        asked(week, "--unusual", "--earlier", week / ".." / week.name)


def test_a_file_is_no_folder_of_pictures(week: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="cannot be made"):
        asked(week, "--by", "hour", "--figures", tmp_path / "file")
