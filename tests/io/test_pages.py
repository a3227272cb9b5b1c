"""Texts that are unpacked here are Arrow's, and whatever is not as expected is left to Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io.footers import ROW_GROUP, restate

from sfumato.io.pages import _SLACK, TextPages, can_be_read, texts, unpack

STEADY = settings(derandomize=True, deadline=None)
IDS = [f"{k * 7919 % 5000:032x}" for k in range(9_000)]
SNAPPY = pa.Codec("snappy")


def read(path: Path, column: int = 0) -> list[Any]:
    """What is read here of each row group; None where it is left to Arrow."""
    found = []
    with pq.ParquetFile(path) as file, path.open("rb", buffering=0) as raw:
        pages = TextPages(raw)
        about, kind = file.schema.column(column), file.schema_arrow.field(column).type
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group)
            chunk = rows.column(column)
            optional = about.max_definition_level > 0
            can = can_be_read(about, kind)
            found.append(pages.read(chunk, kind, optional, rows.num_rows) if can else None)
    return found


def write(path: Path, values: Any, kind: Any = None, **options: Any) -> Path:
    table = pa.table({"id": pa.array(values, kind or pa.string())})
    usual: dict[str, Any] = {"compression": "snappy", "use_dictionary": False}
    pq.write_table(table, path, **(usual | options))
    return path


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
@pytest.mark.parametrize(
    "options",
    [{}, {"row_group_size": 1_000}, {"data_page_size": 500}, {"write_page_checksum": True}],
    ids=["one page", "row groups", "many pages", "checksums"],
)
def test_texts_are_those_that_arrow_reads(tmp_path: Path, kind: Any, options: Any) -> None:
    values = [*IDS, "", "a", "é" * 40, "x" * 100_000, *["same"] * 3_000]
    path = write(tmp_path / "a.parquet", values, kind, **options)
    found = read(path)
    assert all(each is not None for each in found)
    with pq.ParquetFile(path) as file:
        for group, each in enumerate(found):
            each.validate(full=True)
            assert each.equals(file.read_row_group(group).column(0).combine_chunks())


def test_the_files_of_duckdb_are_read(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    sql = "SELECT md5(CAST(i AS VARCHAR)) AS id FROM range(200000) t(i)"
    duckdb.connect().execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")
    whole = pa.concat_arrays(read(path))
    assert whole.equals(pq.read_table(path).column(0).combine_chunks())


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([*IDS, None], {}),
        (IDS, {"compression": "zstd"}),
        (IDS, {"use_dictionary": True}),
        (IDS, {"data_page_version": "2.0"}),
        (IDS, {"column_encoding": {"id": "DELTA_LENGTH_BYTE_ARRAY"}}),
    ],
    ids=["missing", "zstd", "dictionary", "second pages", "other encoding"],
)
def test_everything_else_is_left_to_arrow(tmp_path: Path, values: Any, options: Any) -> None:
    assert read(write(tmp_path / "a.parquet", values, **options)) == [None]


def test_other_types_are_left_to_arrow(tmp_path: Path) -> None:
    for values, kind in ((IDS, pa.large_string()), ([1, 2], pa.int64()), ([["a"]], None)):
        table = pa.table({"id": pa.array(values, kind)})
        pq.write_table(table, tmp_path / "a.parquet", compression="snappy", use_dictionary=False)
        assert read(tmp_path / "a.parquet") == [None]


@pytest.mark.parametrize("checksum", [True, False])
def test_damaged_pages_are_read_as_arrow_reads_them(tmp_path: Path, checksum: bool) -> None:
    """Bytes of the column flipped: the same texts, or left to Arrow, which finds the damage."""
    path = write(tmp_path / "a.parquet", IDS[:400], data_page_size=4_000,
                 write_page_checksum=checksum)  # fmt: skip
    sound = path.read_bytes()
    size = pq.ParquetFile(path).metadata.row_group(0).column(0).total_compressed_size
    random = np.random.default_rng(5)
    for _ in range(400):
        damaged = bytearray(sound)
        for at in random.integers(4, 4 + size, random.integers(1, 4)):
            damaged[at] ^= 1 << int(random.integers(0, 8))
        path.write_bytes(damaged)
        (found,) = read(path)
        if found is not None:
            there = pq.read_table(path, page_checksum_verification=True).column(0)
            assert found.cast(pa.binary()).equals(there.combine_chunks().cast(pa.binary()))


def unpacked(packed: bytes, size: int) -> bytes | None:
    """Between bytes that must stay as they are."""
    data = np.frombuffer(packed + bytes(_SLACK), np.uint8)
    room = np.full(size + _SLACK + 64, 7, np.uint8)
    done = unpack(data, 0, len(packed), room[: size + _SLACK], size)
    assert (room[size + _SLACK :] == 7).all()
    return room[:size].tobytes() if done else None


def length_of(size: int) -> bytes:
    """What Snappy writes in front."""
    head = bytearray()
    while size >= 128:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes(head) + bytes([size])


@settings(STEADY, max_examples=200)
@given(st.binary(min_size=1, max_size=200) | st.text("ab01", min_size=1, max_size=3_000))
def test_what_snappy_packs_is_unpacked(text: bytes | str) -> None:
    raw = text.encode() if isinstance(text, str) else text
    packed = SNAPPY.compress(raw, asbytes=True)
    assert unpacked(packed.removeprefix(length_of(len(raw))), len(raw)) == raw


def spelled(text: bytes) -> tuple[bytes, int]:
    size = len(text) - 1
    return (bytes([size << 2]) if size < 60 else bytes([60 << 2, size])) + text, len(text)


def copied(length: int, back: int, kind: int) -> tuple[bytes, int]:
    if kind == 1:
        length = 4 + length % 8
        return bytes([length - 4 << 2 | 1, back]), length
    return bytes([length - 1 << 2 | kind]) + back.to_bytes(2 * kind - 2, "little"), length


pieces = st.lists(
    st.builds(spelled, st.binary(min_size=1, max_size=70))
    | st.builds(copied, st.integers(1, 64), st.integers(0, 99), st.integers(1, 3)),
    max_size=60,
)


@settings(STEADY, max_examples=300)
@given(
    st.binary(max_size=60)
    | pieces.map(lambda found: b"".join(piece for piece, _ in found))
    | st.binary(min_size=60, max_size=600),
    st.integers(1, 300) | st.integers(300, 4_000),
    st.binary(max_size=4),
)
def test_what_snappy_did_not_pack_stays_within_bounds(
    packed: bytes, size: int, rest: bytes
) -> None:
    found = unpacked(packed + rest, size)
    if found is not None:
        whole = length_of(size) + packed + rest
        assert SNAPPY.decompress(whole, size, asbytes=True) == found


@settings(STEADY, max_examples=300)
@given(pieces)
def test_pieces_that_snappy_itself_would_not_choose(found: list[tuple[bytes, int]]) -> None:
    """Every kind and length, in any order: unpacked, or refused, as Snappy's own library does."""
    found = [spelled(bytes(range(99))), *found]
    packed, size = b"".join(piece for piece, _ in found), sum(length for _, length in found)
    try:
        whole = SNAPPY.decompress(length_of(size) + packed, size, asbytes=True)
    except OSError:
        whole = None
    assert unpacked(packed, size) == whole


def test_texts_stay_within_the_room_that_the_file_stated() -> None:
    """A first text that takes the whole page, of a file that states next to nothing."""
    page = np.frombuffer((396).to_bytes(4, "little") + bytes(396 + _SLACK), np.uint8)
    room, ends = np.full(8 + _SLACK + 400, 7, np.uint8), np.zeros(101, np.int32)
    assert not texts(page, 0, 400, 100, ends, 0, room[: 8 + _SLACK])
    assert (room[8 + _SLACK :] == 7).all()


@pytest.mark.parametrize("rows", [-(1 << 63), -1, 0, 8_999, 9_001, 1 << 40, 1 << 61, (1 << 63) - 1])
def test_a_footer_that_says_other_numbers_of_texts_is_left_to_arrow(
    tmp_path: Path, rows: int
) -> None:
    """No room is made for texts that cannot be there: each takes four bytes or more."""
    path = write(tmp_path / "a.parquet", IDS, store_schema=False)
    restate(path, len(IDS), 1, {0: rows})
    assert read(path) == [None]


@pytest.mark.parametrize("rows", [1, 8_999, 9_001])
def test_nor_is_a_column_read_that_has_other_rows_than_its_group(tmp_path: Path, rows: int) -> None:
    """Arrow reads as many texts as the row group says it has rows, be there more or fewer."""
    path = write(tmp_path / "a.parquet", IDS, store_schema=False)
    restate(path, len(IDS), 1, {ROW_GROUP: rows})
    assert read(path) == [None]


@pytest.mark.parametrize("field", range(3))
def test_a_header_that_arrow_refuses_is_not_read(tmp_path: Path, field: int) -> None:
    """Encodings of the values and levels as 64-bit numbers: to Arrow they are missing."""
    schema = pa.schema([pa.field("id", pa.string(), nullable=False)])
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": IDS}, schema=schema), path, use_dictionary=False)
    assert read(path) != [None]
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b"\x15\x00\x15\x06\x15\x06") + 2 * field] = 0x16
    path.write_bytes(damaged)
    assert read(path) == [None]
    with pytest.raises(OSError, match="header"):
        pq.ParquetFile(path).read()
