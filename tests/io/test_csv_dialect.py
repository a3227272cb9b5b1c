"""The first line of a CSV file: a header, or a record that must not be shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.io.planted import SECRET, SECRET_NUMBER, refused

from sfumato.io.csv_dialect import read_dialect
from sfumato.model.events import CsvDialect

Written = Callable[..., Path]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_delimiters_and_line_ends(delimiter: str, end: str, csv_file: Written) -> None:
    lines = [["user", "time", "bs"], ["1", "2", "3"]]
    path = csv_file(end.join(delimiter.join(line) for line in lines) + end)
    assert read_dialect(path) == CsvDialect(delimiter, ("user", "time", "bs"))


def test_quoted_names_and_names_that_are_missing(csv_file: Written) -> None:
    path = csv_file('"",user,"a, ""b""",time\n0,1,2,3\n')
    assert read_dialect(path).columns == ("column0", "user", 'a, "b"', "time")


def test_names_that_only_the_user_knows(csv_file: Written) -> None:
    path = csv_file("kunde,zeit,ort\na,b,c\n")
    assert "may be a record" in refused(lambda: read_dialect(path))
    assert read_dialect(path, ["kunde"]).columns == ("kunde", "zeit", "ort")


@pytest.mark.parametrize(
    "first",
    [
        f"{SECRET},2020-01-01 00:00:00,T1",
        f"{SECRET_NUMBER},x,y",
        f"{SECRET};Mon Jan 1;antenna 7",
        f"user,{SECRET_NUMBER},-2.5",  # a user called user
    ],
)
def test_a_record_in_the_place_of_the_header_stays_hidden(first: str, csv_file: Written) -> None:
    path = csv_file(f"{first}\n{first}\n")
    assert f"{path}: the first line" in refused(lambda: read_dialect(path))


def test_a_line_without_an_end_is_no_header(csv_file: Written) -> None:
    path = csv_file("user," * 100_000)
    assert "too long" in refused(lambda: read_dialect(path))


def test_a_long_file_is_cut_between_letters(csv_file: Written) -> None:
    path = csv_file("user,time,bs\n" + "é" * (1 << 18))
    assert read_dialect(path).columns == ("user", "time", "bs")
