"""One person is one user, whichever of their ids' spellings begin with a byte order mark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engine.local import LocalSource
from sfumato.io.events import read_events, rows_of
from sfumato.model.counts import Counting, SampleBound

pytestmark = pytest.mark.privacy

MARK = "\ufeff"
HOURS = tuple(f"2024-01-01T{hour:02d}:00:00Z" for hour in range(12))


def write_marked(folder: Path, name: str) -> int:
    """One row of a person in files of every kind, with and without marks. How many rows."""
    whose = [name, MARK + name, 2 * MARK + name]
    hours = iter(HOURS * 9)
    for k, who in enumerate(whose):
        (folder / f"first{k}.csv").write_text(f"user,time,tower\n{who},{next(hours)},t0\n")
        (folder / f"second{k}.csv").write_text(f"time,user,tower\n{next(hours)},{who},t0\n")
        (folder / f"quoted{k}.csv").write_text(f'user,time,tower\n"{who}",{next(hours)},t0\n')
        row = {"user": who, "time": next(hours), "place": "t0"}
        (folder / f"object{k}.ndjson").write_text(json.dumps(row) + "\n")
        row = {"user": who, "time": next(hours), "place": "t0"}
        (folder / f"as-is{k}.ndjson").write_text(json.dumps(row, ensure_ascii=False) + "\n")
        time = pa.array([pd.Timestamp(next(hours))], pa.timestamp("us", "UTC"))
        for kind, held in (
            ("plain", pa.array([who])),
            ("few", pa.array([who]).dictionary_encode()),
        ):
            table = pa.table({"user": held, "time": time, "tower": ["t0"]})
            pq.write_table(table, folder / f"{kind}{k}.parquet")
    (folder / "whole.csv").write_text(f"{MARK}user,time,tower\n{name},{next(hours)},t0\n")
    return 7 * len(whose) + 1


@pytest.mark.parametrize("name", ["amelie", "7", "Zoë"])
def test_one_person_is_one_user_in_every_column_and_format(
    tmp_path: Path, town: Any, name: str
) -> None:
    rows = write_marked(tmp_path, name)
    source = LocalSource(read_events(tmp_path), town.towers(1), town.grid())
    assert (source.drops.rows, source.drops.kept) == (rows, rows)
    assert town.opened(source.sampled(SampleBound(1), town.key)).values.sum() == 1
    assert town.opened(source.capped_total(1, Counting.VISITS)).values.sum() == 1


def test_what_the_mark_stands_before_is_the_id(tmp_path: Path) -> None:
    """Only at the beginning; and nothing but marks is nobody, as an empty field is."""
    given = [MARK + "a", "a" + MARK, MARK, "", None, "b", MARK + "é" + MARK, 40 * MARK + "c"]
    expected = [b"a", ("a" + MARK).encode(), None, b"", None, b"b", ("é" + MARK).encode(), b"c"]
    table = pa.table(
        {
            "user": pa.array(given),
            "time": pa.array(np.zeros(len(given), np.int64), pa.timestamp("us", "UTC")),
            "tower": pa.array(["t0"] * len(given)),
        }
    )
    path = tmp_path / "events.parquet"
    pq.write_table(table, path)
    kinds = (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))
    held = [table.set_column(0, "user", table[0].cast(kind)) for kind in kinds]
    for source in (path, table, *held):
        users = [user for part in rows_of(read_events(source)) for user in part.user.to_pylist()]
        assert users == expected
    some = table.slice(3, 4)
    users = [user for part in rows_of(read_events(some)) for user in part.user.to_pylist()]
    assert users == expected[3:7]


def test_binary_ids_are_their_bytes() -> None:
    """A column of bytes is no text: nothing is taken from it."""
    given = [MARK.encode() + b"a", b"a"]
    time = pa.array([0, 0], pa.timestamp("us", "UTC"))
    table = pa.table({"user": pa.array(given, pa.binary()), "time": time, "tower": ["t0", "t0"]})
    users = [user for part in rows_of(read_events(table)) for user in part.user.to_pylist()]
    assert users == given
