"""Events from every kind of file; a file that is named and does not fit is an error.

What a row holds is never one: `test_values.py` and the gate (`test_metamorphic.py`).
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.io.planted import SECRET, SECRET_NUMBER, refused

from sfumato.errors import InputError, UsageError
from sfumato.io.events import read_events, resolved, rows_of
from sfumato.io.files import Damaged
from sfumato.model.events import EventFile, Events, TimeEncoding, UserEncoding

Written = Callable[..., Path]
ROWS = "007,2020-01-01 00:00:00+01:00,a\n008,2020-01-01 00:05:00Z,b\n"


def table(**other: object) -> dict[str, object]:
    columns: dict[str, object] = {
        "user": pa.array([1, 2]),
        "time": pa.array([0, 1], pa.timestamp("us", "UTC")),
        "bs": pa.array([1, 2]),
    }
    return columns | other


def only(source: object, **options: Any) -> EventFile:
    (part,) = read_events(source, **options).parts
    assert isinstance(part, EventFile)
    return part


def rows(events: Events) -> int:
    return sum(found.rows for found in rows_of(resolved(events, zones=False)))


def test_csv_is_text_throughout(csv_file: Written) -> None:
    path = csv_file("User;TIME;Tower\r\n" + ROWS.replace(",", ";").replace("\n", "\r\n"))
    part = only(path)
    assert (part.format, part.delimiter) == ("csv", ";")
    assert part.header == ("User", "TIME", "Tower") == part.reading.columns.used
    reading = part.reading
    assert (reading.user, reading.time, reading.time_is_text) == ("text", "iso", True)
    assert "'Tower' is read as the place" in read_events(path).notes
    assert rows(read_events(path)) == 2


def test_csv_with_byte_order_mark_quotes_and_compression(csv_file: Written) -> None:
    text = '\ufeff"user","time","place, by name"\n' + ROWS
    packed = csv_file(gzip.compress(text.encode()), "calls.csv.gz")
    reading = only(packed, columns={"place": "place, by name"}).reading
    assert reading.columns.place == "place, by name"
    assert reading.user is UserEncoding.TEXT


@pytest.mark.parametrize(
    ("ids", "encoding"),
    [
        (pa.array([1, 2], pa.int8()), UserEncoding.INTEGER),
        (pa.array([1, 2**64 - 1], pa.uint64()), UserEncoding.TEXT),
        (pa.array([1.0, 2.5]), UserEncoding.INTEGER),
        (pa.array([Decimal(1), Decimal(2)], pa.decimal128(18, 0)), UserEncoding.INTEGER),
        (pa.array(["007", "é"]), UserEncoding.TEXT),
        (pa.array(["a", "b"]).dictionary_encode(), UserEncoding.TEXT),
        (pa.array([b"\x00\xff", b""]), UserEncoding.BINARY),
        (pa.array([b"abcd", b"efgh"], pa.binary(4)), UserEncoding.BINARY),
    ],
)
def test_ids_of_users(ids: pa.Array, encoding: UserEncoding, parquet_file: Written) -> None:
    path = parquet_file(table(user=ids))
    assert read_events(path).user is encoding
    assert read_events(pa.table(table(user=ids))).user is encoding


@pytest.mark.parametrize(
    ("column", "values", "problem"),
    [
        ("user", pa.array([True, False]), "cannot name a user"),
        ("user", pa.array([Decimal(1), Decimal(2)], pa.decimal128(38, 0)), "64 bits at most"),
        ("bs", pa.array([[1], [2]]), "cannot be read as a place"),
        ("time", pa.array([0, 1], pa.date32()), "without a time of day"),
        ("time", pa.array([0, 1], pa.time64("us")), "not a time"),
        ("time", pa.array([1e9, 2e9], pa.float32()), "two minutes"),
    ],
)
def test_types_that_cannot_play_their_part(
    column: str, values: pa.Array, problem: str, parquet_file: Written
) -> None:
    path = parquet_file(table(**{column: values}))
    text = refused(lambda: read_events(path))
    assert problem in text
    assert f"{path}, column '{column}'" in text


def test_folder_glob_and_partitions(parquet_file: Written, tmp_path: Path) -> None:
    parquet_file(table(), "year=2024/month=01/a.parquet")
    parquet_file(table(), "year=2024/month=02/b.parquet")
    for source in (tmp_path, f"{tmp_path}/**/*.parquet", [tmp_path / "year=2024"]):
        events = read_events(source)
        parts = [part for part in events.parts if isinstance(part, EventFile)]
        assert [part.path.name for part in parts] == ["a.parquet", "b.parquet"]
        assert ("month", "01") in parts[0].keys
        assert not parts[0].named
        assert rows(events) == 4


def test_a_partition_key_can_be_the_place(parquet_file: Written, tmp_path: Path) -> None:
    columns = table()
    del columns["bs"]
    parquet_file(columns, "site_id=007/a.parquet")
    assert only(tmp_path).reading.columns.place == "site_id"
    (found,) = rows_of(resolved(read_events(tmp_path), zones=False))
    assert found.place.to_pylist() == [b"007", b"007"]


def test_each_file_is_read_by_its_own_schema(parquet_file: Written, csv_file: Written) -> None:
    paths = [
        parquet_file(table()),
        parquet_file(table(user=pa.array(["a", "b"])), "other.parquet"),
        parquet_file(table(accuracy=pa.array([1.0, 2.0])), "more.parquet"),
        csv_file("user,time,bs\n" + ROWS),
        csv_file("time;user;bs\n2020-01-01T00:00Z;a;b\n", "turned.csv"),
    ]
    events = read_events(paths)
    assert [part.reading.user for part in events.parts] == ["integer", "text", "integer"] + [
        "text"
    ] * 2
    assert events.user is UserEncoding.TEXT
    assert rows(events) == 9
    lacking = parquet_file({k: v for k, v in table().items() if k != "bs"}, "lacking.parquet")
    assert "no column is recognised as the place" in refused(lambda: read_events([*paths, lacking]))
    found = read_events(lacking.parent)  # the same file, found in its folder
    assert len(found.parts) == 5
    assert [path for path, _ in found.unfit] == [str(lacking)]


def test_coordinates_as_whole_numbers(parquet_file: Written) -> None:
    path = parquet_file(
        {
            "cab": pa.array([1, 2], pa.int16()),
            "t_utc_s": pa.array([1211033530, 1211033614], pa.int32()),
            "lon_e5": pa.array([-12239447, 0], pa.int32()),
            "lat_e5": pa.array([3775153, None], pa.int32()),
        }
    )
    reading = only(path).reading
    assert reading.columns.degrees_scale == 1e5
    assert reading.time is TimeEncoding.EPOCH_S
    assert reading.columns.place is None
    (found,) = rows_of(resolved(read_events(path), zones=True))
    assert found.lon is not None
    assert found.lon[0] == pytest.approx(-122.39447)


@pytest.mark.privacy
def test_a_place_and_coordinates_are_told_apart_by_the_options(parquet_file: Written) -> None:
    """Metres or degrees, swapped or not: the numbers decide nothing."""
    for x, y in ((2.3, 48.8), (48.8, 2.3), (652000.0, 6862000.0), (float("nan"), 1e300)):
        path = parquet_file(table(x=pa.array([x, x]), y=pa.array([y, y])))
        assert only(path).reading.columns.lon == "x"
        assert rows(read_events(path)) == 2
        with pytest.raises(UsageError, match="not said"):
            resolved(read_events(path), zones=True)
        chosen = read_events(path, columns={"lon": "x", "lat": "y"})
        (found,) = rows_of(resolved(chosen, zones=True))
        assert found.lon is not None
        assert found.place is None


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"time": [1], "bs": [1]}, "no column is recognised as the user"),
        ({"user": [1], "bs": [1]}, "no column is recognised as the time"),
        ({"user": [1], "time": [1]}, "as the place, and there are no coordinates"),
        ({"user": [1], "time": [1], "lon": [1.0]}, "no column is recognised as the lat"),
        ({"user": [1], "time": [1], "lat": [1.0], "bs": [1]}, "recognised as the lon"),
        ({"user": [1], "time_s": [1], "lon_e5": [1], "lat": [1.0]}, "different scales"),
        ({"user": [1], "uid": [1], "time": [1], "bs": [1]}, "'user', 'uid' could all be"),
    ],
)
def test_columns_that_are_missing_or_doubtful(
    columns: dict[str, object], problem: str, parquet_file: Written
) -> None:
    path = parquet_file(columns)
    text = refused(lambda: read_events(path))
    assert problem in text
    assert str(path) in text


def test_one_column_cannot_play_two_parts(parquet_file: Written) -> None:
    path = parquet_file(table())
    with pytest.raises(InputError, match="two parts"):
        read_events(path, columns={"user": "bs"})
    with pytest.raises(UsageError, match="part that a column"):
        read_events(path, columns={"users": "bs"})
    with pytest.raises(UsageError, match="gpx, parquet, ndjson, csv"):
        read_events(path, format="xlsx")


def test_bad_files(csv_file: Written, parquet_file: Written) -> None:
    """Named ones are refused and found ones give no rows; both without showing a record."""
    good = parquet_file(table(user=pa.array([SECRET, "b"]))).read_bytes()
    cases = {
        "empty.parquet": (b"", "not a Parquet file"),
        "cut.parquet": (good[:-20], "damaged or cut short"),
        "half.parquet": (good[: len(good) // 2], "damaged or cut short"),
        "text.parquet": (f"user,time,bs\n{SECRET},1,2\n".encode(), "not a Parquet file"),
        "junk.csv": (bytes(range(256)) * 8, "neither text nor Parquet"),
        "wide.csv": ("user,time\n".encode("utf-16"), "UTF-16"),
        "latin.csv": (f"user,time,Größe\n{SECRET},é,3\n".encode("latin-1"), "not UTF-8"),
        "blank.csv": (b"\n\n", "first line is empty"),
        "twice.csv": (f"user,User,time\n{SECRET},1,2\n".encode(), "same name"),
        "headless.csv": (f"{SECRET},2020-01-01 00:00:00,{SECRET_NUMBER}\n".encode(), "header"),
        "headless2.csv": (f"{SECRET},Monday,{SECRET}\nb,Monday,c\n".encode(), "may be a record"),
        "quote.csv": (b'user,"time\n1,2\n', "unfinished quotation"),
        "packed.csv.gz": (b"user,time,bs\n", "damaged"),
    }
    for name, (content, problem) in cases.items():
        path = csv_file(content, f"{name}.d/{name}")
        text = refused(lambda path=path: read_events(path))
        assert problem in text, name
        assert str(path) in text, name
        found = read_events(path.parent)
        assert (found.parts, len(found.unfit)) == ((), 1), name
    bare = parquet_file(pa.table({}), "bare.parquet")
    assert "no columns" in refused(lambda: read_events(bare))
    doubled = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["user", "User"])
    twice = parquet_file(doubled, "twice.parquet")
    assert "same name" in refused(lambda: read_events(twice))


def test_a_file_that_breaks_off_is_damaged(csv_file: Written) -> None:
    packed = gzip.compress(("user,time,bs\n" + ROWS * 5000).encode())
    events = read_events(csv_file(packed[:-9], "cut.csv.gz"))
    with pytest.raises(Damaged, match="damaged"):
        rows(events)


@pytest.mark.privacy
def test_no_rows_are_no_error(csv_file: Written, parquet_file: Written, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for source in (
        csv_file("user,time,bs\n"),
        csv_file("user,time,bs", "header.csv"),
        csv_file("", "empty.csv"),
        csv_file("", "empty.ndjson"),
        parquet_file(pa.table(table()).slice(0, 0), "none.parquet"),
        tmp_path / "folder",
        str(tmp_path / "*.none"),
        pa.table(table()).slice(0, 0),
    ):
        assert rows(read_events(source)) == 0, source


@pytest.mark.privacy
@pytest.mark.parametrize("line", [f"{SECRET},2", f"{SECRET},2,3,4", f'{SECRET},"2,3', '"'])
def test_bad_lines_are_counted(line: str, csv_file: Written) -> None:
    good = "1,1600000000,3\n"
    path = csv_file(f"user,time_s,bs\n{good}{line}\n{good}")
    (found,) = rows_of(resolved(read_events(path), zones=False))
    assert (found.rows, found.unreadable) == (2, 1)


def test_nested_parquet_columns_are_no_doubles(parquet_file: Written) -> None:
    nested = pa.array([{"user": 1, "time": 2}, None])
    assert only(parquet_file(table(extra=nested))).reading.columns.user == "user"


def test_96_bit_timestamps_are_instants_and_mix_with_others(tmp_path: Path) -> None:
    """As Spark, Hive and Impala wrote them: UTC, whatever zone the release has."""
    given = pa.table(table())
    pq.write_table(given, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    reading = only(tmp_path / "a.parquet", tz="Europe/Paris").reading
    assert (reading.time, reading.tz) == (TimeEncoding.NAIVE, "UTC")
    assert any("96-bit" in note for note in read_events(tmp_path, tz="Europe/Paris").notes)
    naive = given.set_column(1, "time", given["time"].cast(pa.timestamp("us")))
    pq.write_table(naive, tmp_path / "b.parquet")
    found = list(rows_of(resolved(read_events(tmp_path, tz="Europe/Paris"), zones=False)))
    assert [batch.time.tolist() for batch in found] == [[0, 1], [-3_600_000_000, -3_599_999_999]]
