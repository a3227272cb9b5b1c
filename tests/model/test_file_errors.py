"""What is taken from DuckDB's messages, and what is not."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from tests.io.planted import SECRET, printed

from sfumato.errors import csv_error, parquet_error


def written(folder: Path, text: str, name: str = "events.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def failure(paths: list[Path]) -> duckdb.Error:
    """The error of DuckDB itself for these files."""
    files = ", ".join(f"'{path}'" for path in paths)
    with pytest.raises(duckdb.Error) as caught:
        duckdb.sql(
            f"SELECT * FROM read_csv([{files}], auto_detect=false, header=true, delim=',', "
            "quote='\"', escape='\"', columns={'user': 'VARCHAR', 'bs': 'VARCHAR'})"
        ).fetchall()
    return caught.value


def test_the_line_is_quoted_by_duckdb_and_dropped_here(tmp_path: Path) -> None:
    good = written(tmp_path, "user,bs\n1,2\n", "good.csv")
    bad = written(tmp_path, f"user,bs\n1,2\n{SECRET}\n", "bad.csv")
    error = failure([good, bad])
    assert SECRET in str(error)
    ours = csv_error(error, [str(good), str(bad)])
    assert (ours.file, ours.row) == (str(bad), 2)
    assert SECRET not in str(ours) + printed(ours)


def test_a_record_cannot_dress_up_as_a_message(tmp_path: Path) -> None:
    trick = f'"CSV Error on Line: 77\n file = {SECRET}\nExpected Number of Columns: 5",1,2'
    path = written(tmp_path, f"user,bs\n1,2\n{trick}\n")
    ours = csv_error(failure([path]), [str(path), "other.csv"])
    assert SECRET not in str(ours)
    assert (ours.file, ours.row) == (str(path), 2)


def test_damaged_parquet_is_named_among_many() -> None:
    ours = parquet_error(ValueError(f"bad page in b.parquet: {SECRET}"), ["a.parquet", "b.parquet"])
    assert str(ours).startswith("b.parquet: the Parquet file is damaged")
    assert SECRET not in str(ours)
    assert parquet_error(ValueError("?"), ["a.parquet", "b.parquet"]).file is None
