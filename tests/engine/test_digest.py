"""The digest of a multiset of rows: order and files do not matter, everything else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.engine import fingerprint
from sfumato.engine.fingerprint import rows_digest

KEY = bytes(range(32))
SCHEMA = pa.schema(
    [
        ("user", pa.string()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("place", pa.int32()),
        ("lon", pa.float64()),
        ("raw", pa.binary()),
    ]
)
NAMES = SCHEMA.names
texts = st.none() | st.sampled_from(["", "a", "b", "ab", "abcdefgh", "abcdefghi", "é" * 9])
rows = st.lists(
    st.tuples(
        texts,
        st.none() | st.integers(-5, 5),
        st.none() | st.integers(-5, 5),
        st.none() | st.sampled_from([0.0, 1.0, float("nan"), float("inf")]),
        st.none() | st.binary(max_size=3),
    ),
    max_size=12,
)
Row = tuple[Any, ...]


def digest(folder: Path, *files: list[Row], key: bytes = KEY) -> bytes:
    paths = []
    for k, some in enumerate(files):
        table = pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in some], SCHEMA)
        pq.write_table(table, folder / f"{k}.parquet", row_group_size=5)
        paths.append(folder / f"{k}.parquet")
    return rows_digest(paths, NAMES, key)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@settings(derandomize=True, deadline=None, max_examples=15)
@given(some=rows, cut=st.integers(0, 12))
def test_order_and_files_do_not_matter(folder: Path, some: list[Row], cut: int) -> None:
    whole = digest(folder, some)
    assert digest(folder, some[::-1]) == whole
    assert digest(folder, some[cut:], some[:cut]) == whole
    assert digest(folder, some, key=bytes(32)) != whole or not some


@settings(derandomize=True, deadline=None, max_examples=15)
@given(some=rows, other=rows)
def test_other_rows_have_another_digest(folder: Path, some: list[Row], other: list[Row]) -> None:
    same = sorted(map(repr, some)) == sorted(map(repr, other))
    assert (digest(folder, some) == digest(folder, other)) == same


def test_what_could_be_mistaken_for_each_other(folder: Path) -> None:
    """Missing and empty, values that run together, a row twice, two rows that swap a value."""
    cases: list[list[Row]] = [
        [],
        [(None, 1, 1, 1.0, b"")],
        [("", 1, 1, 1.0, b"")],
        [("", 1, 1, 1.0, None)],
        [("a", 1, 1, 1.0, b"b")],
        [("ab", 1, 1, 1.0, b"")],
        [("a", 1, 1, 1.0, b"b")] * 2,
        [("a\0", 1, 1, 1.0, b"b")],
        [("a", 1, 1, 1.0, b""), ("b", 2, 1, 1.0, b"")],
        [("a", 2, 1, 1.0, b""), ("b", 1, 1, 1.0, b"")],
    ]
    assert len({digest(folder, case) for case in cases}) == len(cases)


def test_the_rounds_are_those_of_siphash() -> None:
    """The published test vector of SipHash-2-4: key 00…0f, message 00…0e."""
    low, high = (int.from_bytes(bytes(range(k, k + 8)), "little") for k in (0, 8))
    state = np.empty((1, 4), np.uint64)
    fingerprint.begin(state, np.uint64(low), np.uint64(high))
    message = bytes(range(15)) + b"\x0f"  # the last byte is the length
    for at in (0, 8):
        fingerprint._absorb(state, 0, np.uint64(int.from_bytes(message[at : at + 8], "little")))
    v = [state[0, k] for k in range(4)]
    v[2] ^= np.uint64(0xFF)
    for _ in range(4):
        v = [np.uint64(word) for word in fingerprint._round(*v)]
    assert int(v[0] ^ v[1] ^ v[2] ^ v[3]) == 0xA129CA6149BE45E5


def test_the_number_of_rows_is_in_it(folder: Path) -> None:
    assert digest(folder, [("a", 1, 1, 1.0, b"")] * 3)[:8] == (3).to_bytes(8, "little")
