"""T-Drive and Cabspotting as they are distributed, faults included."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import InputError, UsageError
from sfumato.model.events import Events, EventTable
from sfumato.model.traces import Box
from sfumato_lab.studies.fleets import Dropped, read_cabspotting, read_tdrive


def table_of(events: Events) -> pa.Table:
    (part,) = events.parts
    assert isinstance(part, EventTable)
    return part.table


def rows(events: Events) -> list[tuple[str, str, float, float]]:
    table = table_of(events)
    return [
        (row["user"], row["time"].isoformat(), row["lon"], row["lat"]) for row in table.to_pylist()
    ]


def test_tdrive_drops_what_is_no_fix(tmp_path: Path) -> None:
    (tmp_path / "taxi").mkdir()
    (tmp_path / "taxi" / "1.txt").write_text(
        "1,2008-02-02 15:36:08,116.51172,39.92123\n"
        "1,2008-02-02 15:36:08,116.51172,39.92123\n"
        "1,2008-02-02 15:46:08,0.0,0.0\n"
        "1,2008-02-02 15:56:08,120.51,39.92\n"
    )
    (tmp_path / "taxi" / "2.txt").write_text("2,2008-02-08 00:00:01,116.40,39.90\n")
    (tmp_path / "taxi" / "3.txt").write_text("")
    events, dropped = read_tdrive(tmp_path)
    assert rows(events) == [
        ("1", "2008-02-02T07:36:08+00:00", 116.51172, 39.92123),
        ("2", "2008-02-07T16:00:01+00:00", 116.4, 39.9),
    ]
    assert dropped == Dropped(duplicates=1, zero=1, outside=1, missing=0)


GOOD = "1,2008-02-02 15:36:08,116.51172,39.92123\n"
CAB = "37.75134 -122.39488 0 1213084687\n"


@pytest.mark.privacy
@pytest.mark.parametrize(
    "line",
    [
        b"7,noon,116.5,39.9",
        b'"7,2008-02-02 15:36:08,116.5,39.9',
        b"7,2008-02-02 15:36:08,116.5",
        b"7,2008-02-02 15:36:08,116.5,39.9,1",
        b",2008-02-02 15:36:08,116.5,39.9",
        b"\xff,2008-02-02 15:36:08,116.5,39.9",
        b"7,2008-02-30 15:36:08,116.5,39.9",
        b"7,2008-02-02 15:36:08,1e999,39.9",
        b"7" * 1_100_000 + b",2008-02-02 15:36:08,116.5,39.9",
    ],
)
def test_a_bad_line_of_a_taxi_costs_itself(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "1.txt").write_bytes(line + b"\n" + GOOD.encode() + line)
    (tmp_path / "2.txt").write_text(GOOD.replace("1,", "2,", 1))
    events, dropped = read_tdrive(tmp_path)
    assert [row[0] for row in rows(events)] == ["1", "2"]
    assert dropped == Dropped(duplicates=0, zero=0, outside=0, missing=2)


@pytest.mark.privacy
@pytest.mark.parametrize(
    "line",
    [
        b"north -122.39 0 1213084687",
        b'"37.75 -122.39 0 1213084687',
        b"37.75 -122.39 0 1213084687 ",
        b"37.75 -122.39 0 99999999999999999999",
        b"37.75 -122.39 0 2008-06-10T07:57:39Z",
        b"\0",
    ],
)
def test_a_bad_line_of_a_cab_costs_itself(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "new_u.txt").write_bytes(line + b"\n" + CAB.encode() + line)
    (tmp_path / "new_v.txt").write_text(CAB)
    events, dropped = read_cabspotting(tmp_path)
    assert [row[0] for row in rows(events)] == ["u", "v"]
    assert dropped.missing == 2


def test_cabspotting_text_and_parquet_agree(tmp_path: Path) -> None:
    (tmp_path / "new_abboip.txt").write_text(
        "37.75134 -122.39488 0 1213084687\n37.75136 -122.39527 1 1213084659\n"
    )
    (tmp_path / "new_enyenewl.txt").write_text("37.80000 -122.41000 0 1211018404\n")
    text, _ = read_cabspotting(tmp_path)
    pq.write_table(
        pa.table(
            {
                "cab": ["abboip", "abboip", "enyenewl"],
                "t_utc_s": np.array([1213084687, 1213084659, 1211018404]),
                "lon_e5": np.array([-12239488, -12239527, -12241000], dtype=np.int32),
                "lat_e5": np.array([3775134, 3775136, 3780000], dtype=np.int32),
            }
        ),
        tmp_path / "cabs.parquet",
    )
    parquet, _ = read_cabspotting(tmp_path / "cabs.parquet")
    assert rows(text) == rows(parquet)
    assert rows(text)[0] == ("abboip", "2008-06-10T07:57:39+00:00", -122.39527, 37.75136)


def test_empty_folders_are_empty_and_missing_ones_refused(tmp_path: Path) -> None:
    for read in (read_tdrive, read_cabspotting):
        assert rows(read(tmp_path)[0]) == []
        with pytest.raises(InputError, match="no such file"):
            read(tmp_path / "nowhere")
    with pytest.raises(UsageError):
        Box(2.0, 48.0, 1.0, 49.0)


@pytest.mark.real_data
@pytest.mark.slow
def test_real_cabs() -> None:
    folder = os.environ.get("SFUMATO_DATA")
    if folder is None:
        pytest.skip("SFUMATO_DATA does not point to the public data sets")
    events, dropped = read_cabspotting(
        Path(folder) / "cabspotting_sf" / "cabspotting_sf_2008.parquet"
    )
    table = table_of(events)
    assert len(set(table["user"].unique().to_pylist())) <= 537
    kept = table.num_rows + dropped.duplicates + dropped.zero + dropped.outside + dropped.missing
    assert kept == 11_220_058
