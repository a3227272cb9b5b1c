"""Events from every kind of file, and an error without a record for every bad one."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.io.planted import SECRET, SECRET_NUMBER, refused

from sfumato.io.events import read_events
from sfumato.model.errors import InputError, UsageError
from sfumato.model.events import FileFormat, FileSource, TimeEncoding, UserEncoding

Written = Callable[..., Path]
ROWS = "007,2020-01-01 00:00:00+01:00,a\n008,2020-01-01 00:05:00Z,b\n"


def table(**other: object) -> dict[str, object]:
    columns: dict[str, object] = {
        "user": pa.array([1, 2]),
        "time": pa.array([0, 1], pa.timestamp("us", "UTC")),
        "bs": pa.array([1, 2]),
    }
    return columns | other


def test_csv_is_text_throughout(csv_file: Written) -> None:
    path = csv_file("User;TIME;Tower\r\n" + ROWS.replace(",", ";").replace("\n", "\r\n"))
    events = read_events(path)
    source = events.source
    assert isinstance(source, FileSource)
    assert source.format is FileFormat.CSV
    assert source.csv is not None
    assert (source.csv.delimiter, source.csv.columns) == (";", ("User", "TIME", "Tower"))
    assert (events.columns.user, events.columns.time, events.columns.place) == source.csv.columns
    assert (events.user, events.time, events.time_is_text) == ("text", "instant", True)
    assert "'Tower' is read as the place" in events.notes


def test_csv_with_byte_order_mark_quotes_and_compression(csv_file: Written) -> None:
    text = '\ufeff"user","time","place, by name"\n' + ROWS
    packed = csv_file(gzip.compress(text.encode()), "calls.csv.gz")
    events = read_events(packed, columns={"place": "place, by name"})
    assert events.columns.place == "place, by name"
    assert events.user is UserEncoding.TEXT


@pytest.mark.parametrize(
    ("ids", "encoding"),
    [
        (pa.array([1, 2], pa.int8()), UserEncoding.INTEGER),
        (pa.array([1, 2**64 - 1], pa.uint64()), UserEncoding.INTEGER),
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
        ("user", pa.array([1.0, 2.5]), "cannot name a user"),
        ("user", pa.array([True, False]), "cannot name a user"),
        ("user", pa.array([Decimal(1), Decimal(2)], pa.decimal128(38, 0)), "64 bits at most"),
        ("bs", pa.array([1.0, float("nan")]), "cannot be read as a place"),
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
        assert isinstance(events.source, FileSource)
        assert events.source.hive
        assert [path.name for path in events.source.paths] == ["a.parquet", "b.parquet"]


def test_a_partition_key_can_be_the_place(parquet_file: Written, tmp_path: Path) -> None:
    columns = table()
    del columns["bs"]
    parquet_file(columns, "site_id=007/a.parquet")
    assert read_events(tmp_path).columns.place == "site_id"


def test_files_of_one_source_agree(parquet_file: Written, csv_file: Written) -> None:
    first = parquet_file(table())
    other_type = parquet_file(table(user=pa.array(["a", "b"])), "other.parquet")
    assert "the type is VARCHAR here and BIGINT in" in refused(
        lambda: read_events([first, other_type])
    )
    lacking = parquet_file({k: v for k, v in table().items() if k != "bs"}, "lacking.parquet")
    assert "column 'bs': the column is missing here" in refused(
        lambda: read_events([first, lacking])
    )
    more = parquet_file(table(accuracy=pa.array([1.0, 2.0])), "more.parquet")
    assert len(read_events([first, more]).source.paths) == 2  # type: ignore[union-attr]
    text = csv_file("user,time,bs\n" + ROWS)
    assert "not Parquet" in refused(lambda: read_events([first, text]))
    turned = csv_file("time,user,bs\n" + ROWS, "turned.csv")
    assert "header differs" in refused(lambda: read_events([text, turned]))


def test_coordinates_as_whole_numbers(parquet_file: Written) -> None:
    path = parquet_file(
        {
            "cab": pa.array([1, 2], pa.int16()),
            "t_utc_s": pa.array([1211033530, 1211033614], pa.int32()),
            "lon_e5": pa.array([-12239447, 0], pa.int32()),
            "lat_e5": pa.array([3775153, None], pa.int32()),
        }
    )
    events = read_events(path)
    assert events.columns.degrees_scale == 1e5
    assert events.time is TimeEncoding.EPOCH_S
    assert events.columns.place is None


def test_metres_are_not_degrees(parquet_file: Written) -> None:
    metres = {"x": pa.array([652000.0, 652100.0]), "y": pa.array([6862000.0, 6862100.0])}
    with_place = parquet_file(table(**metres))
    events = read_events(with_place)
    assert events.columns.lon is None
    assert "'x' and 'y' are not degrees and are not used" in events.notes
    columns = table(**metres)
    del columns["bs"]
    without = parquet_file(columns, "gps.parquet")
    assert "column 'x': most of the first rows" in refused(lambda: read_events(without))
    assert "degrees" in refused(lambda: read_events(with_place, columns={"lon": "x", "lat": "y"}))


def test_swapped_coordinates_are_suspected(csv_file: Written) -> None:
    path = csv_file("uid,timestamp_s,lat,lng\n" + "1,1600000000,-122.4,37.7\n" * 3)
    assert "may also be swapped" in refused(lambda: read_events(path))


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
    with pytest.raises(UsageError, match="parquet or csv"):
        read_events(path, format="xlsx")


def test_bad_files(csv_file: Written, parquet_file: Written) -> None:
    good = parquet_file(table(user=pa.array([SECRET, "b"]))).read_bytes()
    cases = {
        "empty.csv": (b"", "is empty"),
        "empty.parquet": (b"", "is empty"),
        "cut.parquet": (good[:-20], "damaged or cut short"),
        "half.parquet": (good[: len(good) // 2], "damaged or cut short"),
        "text.parquet": (f"user,time,bs\n{SECRET},1,2\n".encode(), "not a Parquet file"),
        "junk.csv": (bytes(range(256)) * 8, "neither text nor Parquet"),
        "wide.csv": ("user,time\n".encode("utf-16"), "UTF-16"),
        "latin.csv": (f"user,time,bs\n1,2,3\n{SECRET},é,3\n".encode("latin-1"), "not UTF-8"),
        "header.csv": (b"user,time,bs\n", "no rows"),
        "header2.csv": (b"user,time,bs", "no rows"),
        "blank.csv": (b"\n\n", "first line is empty"),
        "twice.csv": (f"user,User,time\n{SECRET},1,2\n".encode(), "same name"),
        "headless.csv": (f"{SECRET},2020-01-01 00:00:00,{SECRET_NUMBER}\n".encode(), "header"),
        "headless2.csv": (f"{SECRET},Monday,{SECRET}\nb,Monday,c\n".encode(), "may be a record"),
        "mixed.csv": (b"user,time,bs\r\n1,2,3\n1,2,3\n", "line ends are mixed"),
        "quote.csv": (b'user,"time\n1,2\n', "unfinished quotation"),
        "damaged.csv.gz": (gzip.compress(b"user,time,bs\n1,2,3\n")[:-9], "damaged"),
    }
    for name, (content, problem) in cases.items():
        path = csv_file(content, name)
        text = refused(lambda path=path: read_events(path))
        assert problem in text, name
        assert str(path) in text, name
    no_rows = parquet_file(pa.table(table()).slice(0, 0), "none.parquet")
    assert "no rows" in refused(lambda: read_events(no_rows))
    bare = parquet_file(pa.table({}), "bare.parquet")
    assert "no columns" in refused(lambda: read_events(bare))
    doubled = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["user", "User"])
    twice = parquet_file(doubled, "twice.parquet")
    assert "same name" in refused(lambda: read_events(twice))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"{SECRET},2", "row 2: the line has 2 fields, the header 3"),
        (f"{SECRET},2,3,4", "row 2: the line has 4 fields, the header 3"),
        (f'{SECRET},"2,3', "row 2: a quotation is opened and never closed"),
    ],
)
def test_bad_lines_are_named_by_their_number(line: str, problem: str, csv_file: Written) -> None:
    path = csv_file(f"user,time_s,bs\n1,1600000000,3\n{line}\n1,1600000000,3\n")
    text = refused(lambda: read_events(path))
    assert f"{path}, {problem}" in text


def test_nested_parquet_columns_are_no_doubles(parquet_file: Written) -> None:
    nested = pa.array([{"user": 1, "time": 2}, None])
    assert read_events(parquet_file(table(extra=nested))).columns.user == "user"


def test_96_bit_timestamps_are_instants_and_mix_with_no_other(tmp_path: Path) -> None:
    """As Spark, Hive and Impala wrote them: UTC, whatever zone the release has."""
    rows = pa.table(table())
    pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    events = read_events(tmp_path / "a.parquet", tz="Europe/Paris")
    assert (events.time, events.tz) == (TimeEncoding.NAIVE, "UTC")
    assert any("96-bit" in note for note in events.notes)
    naive = rows.set_column(1, "time", rows["time"].cast(pa.timestamp("us")))
    pq.write_table(naive, tmp_path / "b.parquet")
    with pytest.raises(InputError, match="INT96"):
        read_events(tmp_path, tz="Europe/Paris")
