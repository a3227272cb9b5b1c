"""Partition folders whose names are people: a name that is no text costs its own rows."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.io.events import all_rows, read_events, resolved

CSV = "time,tower\n2024-03-30T12:00:00Z,t1\n"


def people(folder: Path) -> list[bytes | None]:
    events = resolved(read_events(folder, tz="UTC"), zones=False)
    parts, _ = all_rows(events, events.user)
    return [who for part in parts for rows in part for who in rows.user.to_pylist()]


@pytest.mark.privacy
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_with_an_odd_name_leaves_the_others(tmp_path: Path, kind: str) -> None:
    for name in (b"user=anna", b"user=u\xff", b"user=bo"):
        home = tmp_path / os.fsdecode(name)
        try:
            home.mkdir()
        except OSError:
            pytest.skip("this file system refuses the name")
        if kind == "csv":
            (home / "d.csv").write_text(CSV)
        else:
            table = pa.table({"time": ["2024-03-30T12:00:00Z"], "tower": ["t1"]})
            with (home / "d.parquet").open("wb") as file:
                pq.write_table(table, file)
    assert [who for who in people(tmp_path) if who is not None] == [b"anna", b"bo"]


@pytest.mark.privacy
def test_two_names_that_are_no_text_are_not_one_person(tmp_path: Path) -> None:
    for name in ("user=%61nna", "user=%ff", "user=%fe"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "d.csv").write_text(CSV)
    assert people(tmp_path) == [b"anna", None, None]
