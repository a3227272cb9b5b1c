"""The gate for a folder with a file per person: no file decides how another is read.

u's file may be of any format and schema, empty, damaged or none at all; the rows of the others
stay what they are and nothing is refused.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io import poison
from tests.io.poison import CROWD, csv_zoo, described, found, json_zoo, wanted

pytestmark = pytest.mark.privacy
HEADER = b"user,time,tower,lon,lat\n"
ONCE = pa.array([0], pa.timestamp("us", "UTC"))


def check(source: object, what: object) -> None:
    for zones in (False, True):
        events = described(source, zones=zones, tz="Europe/Paris")
        assert found(events, zones=zones) == wanted(by_name=not zones), what


def folder_of_people(folder: Path) -> None:
    """Each member of the crowd in a file of their own, all formats and ways of writing."""
    people: dict[int, list[poison.Record]] = {}
    for record in CROWD:
        people.setdefault(record.number, []).append(record)
    for k, (number, records) in enumerate(people.items()):
        rows = [list(record.fields) for record in records]
        path = folder / f"p{number}"
        lines = [poison.csv_line(row) for row in rows]
        if k % 5 == 0:
            path.with_suffix(".csv").write_bytes(HEADER + b"\r\n".join(lines))
        elif k % 5 == 1:
            head = HEADER.replace(b",", b"\t")
            data = head + b"\n".join(line.replace(b",", b"\t") for line in lines)
            path.with_suffix(".tsv.gz").write_bytes(gzip.compress(data))
        elif k % 5 == 2:
            objects = [json.dumps(dict(zip(poison.FIELDS, row, strict=True))) for row in rows]
            path.with_suffix(".ndjson").write_text("\n".join(objects))
        else:
            whom = pa.array([number] * len(rows), pa.int64() if k % 5 == 3 else pa.uint64())
            table = pa.table(
                {
                    "lat": pa.array([record.degrees[1] for record in records]),
                    "lon": pa.array([record.degrees[0] for record in records]),
                    "time": pa.array([r.micro for r in records], pa.timestamp("us", "UTC")),
                    "tower": pa.array([f"t{r.place}" for r in records]),
                    "user": whom,
                }
            )
            pq.write_table(table, path.with_suffix(".parquet"))


def _parquet(**columns: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


GOOD_PARQUET = _parquet(
    user=["poison"],
    time=ONCE,
    tower=["t1"],
    lon=[2.0],
    lat=[48.0],
)
OWN_FILES: dict[str, bytes] = {
    "empty.csv": b"",
    "empty.parquet": b"",
    "empty.ndjson": b"",
    "empty.csv.gz": b"",
    "packed-nothing.csv.gz": gzip.compress(b""),
    "header-only.csv": HEADER,
    "header-without-end.csv": HEADER[:-1],
    "blank.csv": b"\n\n\n",
    "no-header.csv": b"poison,2024-01-01T05:00:00Z,t1,2.15,48.05\n",
    "other-columns.csv": b"a,b,c\n1,2,3\n",
    "fewer-columns.csv": b"user,time\npoison,2024-01-01T05:00:00Z\n",
    "other-order.csv": b"lat,lon,tower,time,user\n48,2,t1,2024-01-01T05:00:00Z,poison\n",
    "twice.csv": b"user,user,time,tower,lon,lat\n",
    "two-users.csv": b"user,uid,time,tower,lon,lat\na,b,2024-01-01T05:00:00Z,t1,2,48\n",
    "open-header.csv": b'user,"time,tower,lon,lat\npoison',
    "utf16.csv": HEADER.decode().encode("utf-16"),
    "latin.csv": "user,time,tower,lon,lat,Straße\n".encode("latin-1"),
    "zeros.csv": bytes(100),
    "long-header.csv": b"user," * 100_000,
    "quote.csv": HEADER + b'"',
    "epoch-names.csv": b"user,time_ms,tower,lon,lat\npoison,1704067200000,t1,2,48\n",
    "scaled.csv": b"user,time,tower,lon_e5,lat_e5\npoison,2024-01-01T05:00:00Z,t1,215000,4805000\n",
    "not-packed.csv.gz": HEADER,
    "cut.csv.gz": gzip.compress(HEADER + b"poison,2024-01-01T05:00:00Z,t1,2,48\n" * 99)[:-9],
    "spoiled.csv.gz": gzip.compress(HEADER + b"poison,x,t1,2,48\n" * 99)[:-8] + bytes(8),
    "more-behind.csv.gz": gzip.compress(HEADER) + b"more",
    "cut.ndjson.gz": gzip.compress(b'{"user": "poison"}\n' * 99)[:-9],
    "no.parquet": b"PAR1",
    "text.parquet": HEADER,
    "encrypted.parquet": b"PARE" + bytes(50) + b"PARE",
    "cut.parquet": GOOD_PARQUET[:-20],
    "half.parquet": GOOD_PARQUET[: len(GOOD_PARQUET) // 2],
    "damaged.parquet": GOOD_PARQUET[:4] + bytes(76) + GOOD_PARQUET[80:],
    "bare.parquet": _parquet(),
    "no-rows.parquet": _parquet(user=pa.array([], pa.string())),
    "bare-epochs.parquet": _parquet(user=[1], time=[1], tower=["t1"], lon=[2.0], lat=[48.0]),
    "other-types.parquet": _parquet(user=[1.5], time=pa.array([0], pa.timestamp("ns")), tower=[7],
                                    lon=["2"], lat=["48"]),
    "nested.parquet": _parquet(user=[{"a": 1}], time=[[1]], tower=["t1"], lon=[2.0], lat=[48.0]),
    "null-columns.parquet": _parquet(**{name: pa.nulls(2) for name in poison.FIELDS}),
    "binary-ids.parquet": _parquet(user=[b"\xff"], time=ONCE,
                                   tower=["t1"], lon=[2.0], lat=[48.0]),
    "json-array.ndjson": b"[" + b'{"user": "poison"},' * 50 + b"]",
    "binary.ndjson": bytes(range(256)) * 40,
    "user=%FF/tower=t9/keys.csv": b"time,lon,lat\n2024-01-01T05:00:00Z,2,48\n",
    "time=yesterday/keys.csv": b"user,tower,lon,lat\npoison,t1,2,48\n",
    "lon=2/lat=__HIVE_DEFAULT_PARTITION__/keys.parquet": GOOD_PARQUET,
}  # fmt: skip


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    folder_of_people(folder)
    return folder


def beside(people: Path, name: str, content: bytes, what: object) -> None:
    """u's file among the others, before all of them and behind."""
    for first in ("a", "z"):
        path = people / first / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        try:
            check(people, what)
        finally:
            path.unlink()


@pytest.mark.parametrize("name", OWN_FILES)
def test_a_file_per_person(name: str, people: Path) -> None:
    beside(people, name, OWN_FILES[name], name)


def zoo_files() -> dict[str, bytes]:
    texts = {f"{k}.csv": b"\n".join([HEADER[:-1], *u]) for k, u in enumerate(csv_zoo().values())}
    lines = {f"{k}.ndjson": b"\n".join(u) for k, u in enumerate(json_zoo().values())}
    return {name: data for name, data in (texts | lines).items() if len(data) < 100_000}


def test_the_zoo_in_files_of_their_own(tmp_path: Path) -> None:
    folder_of_people(tmp_path)
    for name, content in (zoo_files() | OWN_FILES).items():
        path = tmp_path / "m" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    check(tmp_path, "all at once")


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo_files())
def test_each_of_the_zoo_in_a_file(name: str, people: Path) -> None:
    beside(people, name, zoo_files()[name], name)


def test_paths_that_are_no_text(people: Path) -> None:
    name = os.fsdecode(b"user=\xff\xfe/x\xff.csv")
    beside(people, name, b"time,tower,lon,lat\n2024-01-01T05:00:00Z,t1,2,48\n", "path")


def flipped(at: int, by: int) -> bytes:
    return GOOD_PARQUET[:at] + bytes([GOOD_PARQUET[at] ^ by]) + GOOD_PARQUET[at + 1 :]


SPOILED = st.builds(flipped, st.integers(0, len(GOOD_PARQUET) - 1), st.integers(1, 255))
TEXT = st.binary(max_size=80).map(lambda more: HEADER + more)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(
    st.binary(max_size=200) | TEXT | SPOILED,
    st.sampled_from([".csv", ".csv.gz", ".parquet", ".ndjson", ".txt"]),
)
def test_any_bytes_as_a_file(people: Path, content: bytes, ending: str) -> None:
    beside(people, f"any{ending}", content, content)
    if not ending.endswith(".gz"):
        return
    beside(people, f"any{ending}", gzip.compress(content), content)
