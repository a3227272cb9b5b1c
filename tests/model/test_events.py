"""What a description of events refuses, and what its text patterns accept."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from sfumato.model.errors import UsageError
from sfumato.model.events import (
    INSTANT_TEXT,
    NAIVE_TEXT,
    NUMBER_TEXT,
    CsvDialect,
    EventColumns,
    Events,
    FileFormat,
    FileSource,
    TimeEncoding,
    UserEncoding,
)

FILES = FileSource((Path("a.parquet"),), FileFormat.PARQUET)
COLUMNS = EventColumns("user", "time", "bs")


def test_naive_times_need_a_zone() -> None:
    with pytest.raises(UsageError, match="--tz"):
        Events(FILES, COLUMNS, TimeEncoding.NAIVE, UserEncoding.TEXT)
    assert Events(FILES, COLUMNS, TimeEncoding.NAIVE, UserEncoding.TEXT, "UTC").tz == "UTC"


def test_a_place_or_both_coordinates() -> None:
    with pytest.raises(UsageError, match="neither"):
        EventColumns("user", "time")
    with pytest.raises(UsageError, match="both"):
        EventColumns("user", "time", lon="lon")
    assert EventColumns("user", "time", lon="x", lat="y").place is None


def test_files_come_with_their_dialect() -> None:
    with pytest.raises(UsageError, match="at least one"):
        FileSource((), FileFormat.PARQUET)
    with pytest.raises(UsageError, match="dialect"):
        FileSource((Path("a.csv"),), FileFormat.CSV)
    with pytest.raises(UsageError, match="dialect"):
        FileSource((Path("a"),), FileFormat.PARQUET, csv=CsvDialect(",", ("a",)))


NAIVE = ["2020-01-02 03:04", "2020-01-02T03:04:05", "2020-01-02 03:04:05.123456789"]
INSTANTS = ["2020-01-02T03:04Z", "2020-01-02 03:04:05+02", "2020-01-02 03:04:05.5-05:30",
            "2020-01-02 03:04:05 UTC", "2020-01-02 03:04:05+0530"]  # fmt: skip
NUMBERS = ["0", "-12", "1577934245", "1577934245.25"]
NEITHER = ["", "2020-01-02", "02/01/2020 03:04", "2020-01-02 03:04:05 Europe/Paris", "1e9", "nan",
           "1,5", "٢٠٢٠-01-02 03:04", "2020-01-02 03:04:05+2"]  # fmt: skip


@pytest.mark.parametrize("text", NAIVE + INSTANTS + NUMBERS + NEITHER)
def test_a_text_is_one_kind_of_time_or_none_also_for_duckdb(text: str) -> None:
    for pattern, kind in ((NAIVE_TEXT, NAIVE), (INSTANT_TEXT, INSTANTS), (NUMBER_TEXT, NUMBERS)):
        assert bool(re.fullmatch(pattern, text)) == (text in kind)
        found = duckdb.execute("SELECT regexp_full_match(?, ?)", [text, pattern]).fetchall()
        assert found == [(text in kind,)]


@pytest.mark.parametrize("text", NAIVE + INSTANTS)
def test_duckdb_can_cast_what_the_patterns_accept(text: str) -> None:
    kind = "TIMESTAMP" if text in NAIVE else "TIMESTAMPTZ"
    assert duckdb.execute(f"SELECT epoch_us(CAST(? AS {kind})) > 0", [text]).fetchall() == [(True,)]
