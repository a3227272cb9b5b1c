"""The first line of a CSV file: a header, or a record that must not be shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.io.planted import SECRET, SECRET_NUMBER, refused

from sfumato.io.files import CsvDialect, read_dialect

pytestmark = pytest.mark.privacy
Written = Callable[..., Path]


def columns(path: Path, *chosen: str) -> tuple[str, ...]:
    dialect = read_dialect(path, chosen)
    assert dialect is not None
    return dialect.columns


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_and_line_ends(delimiter: str, end: str, csv_file: Written) -> None:
    lines = [["user", "time", "bs"], ["1", "2", "3"]]
    path = csv_file(end.join(delimiter.join(line) for line in lines) + end)
    assert read_dialect(path) == CsvDialect(delimiter, ("user", "time", "bs"))


def test_quoted_names_and_names_that_are_missing(csv_file: Written) -> None:
    path = csv_file('"",user,"a, ""b""",time\n0,1,2,3\n')
    assert columns(path) == ("column0", "user", 'a, "b"', "time")


def test_names_that_only_the_user_knows(csv_file: Written) -> None:
    path = csv_file("kunde,zeit,ort\na,b,c\n")
    assert "may be a record" in refused(lambda: read_dialect(path))
    assert columns(path, "kunde") == ("kunde", "zeit", "ort")


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
    assert columns(path) == ("user", "time", "bs")


def test_a_file_without_a_byte_has_no_header_and_is_no_error(csv_file: Written) -> None:
    assert read_dialect(csv_file("")) is None


def test_no_line_behind_the_header_is_looked_at(csv_file: Written) -> None:
    for behind in (b"", b'"', b"\0\xff\xfe", b"time;user;bs\n" * 9):
        path = csv_file(b"user,time,bs\n" + behind)
        assert read_dialect(path) == CsvDialect(",", ("user", "time", "bs"))
