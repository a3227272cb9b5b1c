"""The gate for typed sources: whatever u holds in a typed column, the rows of D stay what they are.

A typed column can hold what its type allows, a data frame's column of objects anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from tests.io import poison
from tests.io.poison import CROWD, described, found, wanted

from sfumato.io import events, rows
from sfumato.io.events import read_events, resolved, rows_of
from sfumato.model.events import UserEncoding

pytestmark = pytest.mark.privacy
HEADER = b"user,time,tower,lon,lat\n"
INT64 = (-(2**63), 2**63 - 1)
ODD_BYTES = [b"", b" ", b"\xff", b"\xed\xa0\x80", b"a\0b", b"7", b"7.0", b"\xf0\x9f\x92\xa3", None]
ODD_BYTES += [b"x" * (1 << 20), b"\xef\xbb\xbf7", b"'; DROP", b"a\nb", b"NULL", b"n/a", b"1e400"]
ODD_TIMES = [b"0", b"2024-02-30T00:00:00Z", b"24:00", b"2024-01-01T00:00:00+18:00", b"9" * 400]
ODD_FLOATS = [float("nan"), float("inf"), float("-inf"), 1e300, -1e300, 5e-324, 0.5, -0.0, None]
ODD_INTS = [0, -1, *INT64, 2**53 + 1, 1_704_067_200_000, None]


def texts(values: list[bytes | None], kind: pa.DataType) -> pa.Array:
    """Bytes as a column of any kind of text; nobody checks that they are UTF-8."""
    raw = pa.array(values, pa.large_binary())
    large = raw.view(pa.large_string())
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.binary()).view(pa.string()).dictionary_encode()
    if kind == pa.string():
        return pa.array(values, pa.binary()).view(pa.string())
    if kind in (pa.large_string(), pa.string_view()):
        return large if kind == pa.large_string() else large.cast(kind)
    return pa.array(values, kind)


TEXTS = {
    "string": pa.string(),
    "large": pa.large_string(),
    "view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}
STAMPS = {
    "instants": (pa.timestamp("us", "Europe/Paris"), 1),
    "seconds": (pa.timestamp("s", "UTC"), 10**6),
    "nanoseconds": (pa.timestamp("ns", "UTC"), None),
    "naive": (pa.timestamp("ms"), 10**3),
}
Columns = dict[str, pa.Array]


def _crowd(user: pa.Array, time: pa.Array, tower: pa.Array, degrees: pa.DataType) -> Columns:
    lon, lat = zip(*(record.degrees for record in CROWD), strict=True)
    return {
        "user": user,
        "time": time,
        "tower": tower,
        "lon": pa.array(lon, pa.float64()).cast(degrees),
        "lat": pa.array(lat, pa.float64()).cast(degrees),
    }


def _odd(user: pa.Array, time: pa.Array, tower: pa.Array, degrees: pa.Array) -> Columns:
    """All combinations are too many: columns are repeated to a common length."""
    size = max(map(len, (user, time, tower, degrees)))
    made = {"user": user, "time": time, "tower": tower, "lon": degrees, "lat": degrees}
    return {
        name: pa.concat_arrays([column] * (size // len(column) + 1)).slice(0, size)
        for name, column in made.items()
    }


def _columns() -> Iterator[tuple[str, ...]]:
    return zip(*(record.fields for record in CROWD), strict=True)


def text_people(kind: pa.DataType) -> tuple[Columns, Columns]:
    fields = [[value.encode() for value in column] for column in _columns()]
    user, time, tower = (texts(list(column), kind) for column in fields[:3])
    odd = [texts(ODD_BYTES, kind), texts(ODD_BYTES + ODD_TIMES, kind), texts(ODD_BYTES, kind)]
    crowd = _crowd(user, time, tower, pa.float64())
    if not pa.types.is_dictionary(kind):
        crowd |= {name: texts(list(fields[k]), kind) for k, name in ((3, "lon"), (4, "lat"))}
        return crowd, _odd(*odd, texts(ODD_BYTES, kind))
    return crowd, _odd(*odd, pa.array(ODD_FLOATS))


def stamped(kind: pa.DataType, scale: int | None) -> tuple[Columns, Columns]:
    micro = [record.micro for record in CROWD]
    stored = [m * 1000 if scale is None else m // scale for m in micro]
    tower = pa.array([f"t{record.place}" for record in CROWD])
    user = pa.array([record.number for record in CROWD], pa.int64())
    crowd = _crowd(user, pa.array(stored, pa.int64()).cast(kind), tower, pa.float64())
    times = pa.array(ODD_INTS, pa.int64()).cast(kind)
    return crowd, _odd(pa.array(ODD_INTS, pa.int64()), times, texts(ODD_BYTES, pa.string()),
                       pa.array(ODD_FLOATS))  # fmt: skip


def numbered(user: pa.DataType, time: pa.DataType, degrees: pa.DataType) -> tuple[Columns, Columns]:
    def fitting(values: list[Any], kind: pa.DataType) -> pa.Array:
        good = []
        for value in values:
            try:
                good.append(pa.array([value], kind))
            except (pa.ArrowException, OverflowError, TypeError, ValueError):
                continue
        return pa.concat_arrays(good)

    whom = fitting([record.number for record in CROWD], user)
    when = fitting([record.micro // 10**6 for record in CROWD], time)
    tower = pa.array([f"t{record.place}" for record in CROWD])
    odd = [*ODD_INTS, *ODD_FLOATS, 2**64 - 1, 2**63]
    odd += [Decimal("1e17"), Decimal("0.001"), Decimal("-999")]
    users, times, where = (fitting(odd, kind) for kind in (user, time, degrees))
    crowd = _crowd(whom, when, tower, pa.float64())
    if degrees != pa.float64():
        lon, lat = zip(*(record.degrees for record in CROWD), strict=True)
        crowd |= {"lon": _decimals(lon, degrees), "lat": _decimals(lat, degrees)}
    return crowd, _odd(users, times, texts(ODD_BYTES, pa.string()), where)


def _decimals(values: Any, kind: pa.DataType) -> pa.Array:
    return pa.array([Decimal(repr(value)) for value in values], kind)


TYPED: dict[str, Callable[[], tuple[Columns, Columns]]] = {
    **{name: (lambda kind=kind: text_people(kind)) for name, kind in TEXTS.items()},
    **{name: (lambda how=how: stamped(*how)) for name, how in STAMPS.items()},
    "integers": lambda: numbered(pa.int64(), pa.int64(), pa.float64()),
    "unsigned": lambda: numbered(pa.uint64(), pa.uint64(), pa.float64()),
    "doubles": lambda: numbered(pa.float64(), pa.float64(), pa.float64()),
    "decimals": lambda: numbered(pa.decimal128(18, 0), pa.int64(), pa.decimal128(30, 12)),
}


def tables(crowd: Columns, odd: Columns) -> Iterator[tuple[str, list[pa.Table]]]:
    """u at the head, in the middle, at the end and around, in one, two, five and three parts."""
    d, u = pa.table(crowd), pa.table(odd)
    for k, (name, parts) in enumerate(
        {
            "head": [u, d],
            "middle": [d.slice(0, 16), u, d.slice(16)],
            "end": [d, u],
            "around": [u.slice(0, 1), d, u.slice(1)],
        }.items()
    ):
        whole = pa.concat_tables(parts)
        files = (1, 2, 5, 3)[k]
        ends = [j * whole.num_rows // files for j in range(files + 1)]
        yield name, [whole.slice(a, b - a) for a, b in pairwise(ends)]


def check(source: object, what: object, **options: Any) -> None:
    for zones in (False, True):
        events = described(source, zones=zones, **options)
        assert found(events, zones=zones) == wanted(by_name=not zones), what


def options_of(kind: str) -> dict[str, str]:
    options = {"tz": "UTC"}
    if kind in ("integers", "unsigned", "doubles", "decimals"):
        options["time_unit"] = "s"
    return options


@pytest.mark.parametrize("kind", TYPED)
def test_arrow_tables(kind: str) -> None:
    for what, parts in tables(*TYPED[kind]()):
        table = pa.concat_tables(parts)
        check(table, what, **options_of(kind))


@pytest.mark.parametrize("kind", [kind for kind in TYPED if kind != "seconds"])  # nor has Parquet
def test_parquet(kind: str, tmp_path: Path) -> None:
    for what, parts in tables(*TYPED[kind]()):
        folder = tmp_path / what
        folder.mkdir()
        for k, part in enumerate(parts):
            path = folder / f"{k}.parquet"
            pq.write_table(part, path, row_group_size=9, use_dictionary=k % 2 == 0)
        check(folder, what, **options_of(kind))
    check([*sorted(folder.iterdir())], "named", **options_of(kind))


def test_binary_ids_with_every_length(tmp_path: Path) -> None:
    """Held as bytes where all parts are; their canonical text is hex, beside a text file too."""
    ids = [bytes.fromhex(str(record.number)) for record in CROWD]  # ten digits are five bytes
    time = pa.array([record.micro for record in CROWD], pa.timestamp("us", "UTC"))
    tower = pa.array([f"t{record.place}" for record in CROWD])
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        crowd = _crowd(pa.array(ids, kind), time, tower, pa.float64())
        odd = _odd(pa.array(ODD_BYTES, kind), time.slice(0, 1), tower.slice(0, 1), pa.array([0.0]))
        for what, parts in tables(crowd, odd):
            check(pa.concat_tables(parts), (kind, what))
    folder = tmp_path / "beside"
    folder.mkdir()
    fixed = pa.table(crowd).set_column(0, "user", pa.array(ids, pa.binary(5)))
    pq.write_table(fixed, folder / "a.parquet")
    check(folder, "alone")
    (folder / "u.csv").write_bytes(HEADER + b"poison,2024-01-01T05:00:00Z,t1,2.15,48.05\n")
    check(folder, "with a text file")


# --- data frames -------------------------------------------------------------------------------


class Odd:
    """An object that does not want to be looked at."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


OBJECTS: list[Any] = [
    *(None, float("nan"), pd.NA, pd.NaT, True, False, 0, -1, 2**63, 2**64, 10**5000, 0.5, 7.0),
    *(float("inf"), Decimal("7.0"), Decimal("NaN"), Decimal("sNaN"), 1 + 2j, b"\xff", b"7"),
    *("\ud800", "", " ", "a\0b", "x" * (1 << 20), "7", "n/a", "\ufeff", (), [], [1, 2], {"a": 1}),
    *({1}, object(), Odd(), Odd, len, date(2024, 1, 1), timedelta(1), np.float32(7), np.int8(7)),
    *(np.bool_(True), np.datetime64("2024-01-01"), np.datetime64("NaT"), np.timedelta64(1, "s")),
    *(np.array([1, 2]), np.str_("7"), np.bytes_(b"7"), pd.Timestamp("2024-01-01", tz="UTC")),
    *(pd.Timestamp("2024-01-01"), datetime.min, datetime.max, pd.Period("2024-01"), range(3)),
    *(datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-23, minutes=-59))), bytearray(b"7")),
]


def frame_of_crowd() -> pd.DataFrame:
    rows = [
        (
            record.number if k % 2 else str(record.number),
            record.moment if k % 3 else record.fields[1],
            f"t{record.place}",
            record.degrees[0] if k % 2 else record.fields[3],
            record.degrees[1],
        )
        for k, record in enumerate(CROWD)
    ]
    return pd.DataFrame(rows, columns=list(poison.FIELDS), dtype=object)


def test_data_frames_of_objects() -> None:
    crowd = frame_of_crowd()
    good = list(poison.GOOD)
    for k, thing in enumerate(OBJECTS):
        rows: list[list[Any]] = []
        for column in range(len(good)):
            row: list[Any] = list(good)
            row[column] = thing
            rows.append(row)
        u = pd.DataFrame(index=range(len(rows)), columns=list(poison.FIELDS), dtype=object)
        for row_number, row in enumerate(rows):
            for column, value in enumerate(row):
                u.iat[row_number, column] = value
        both = [u, crowd] if k % 2 else [crowd, u]
        check(pd.concat(both, ignore_index=True), type(thing))


def test_data_frames_of_categories() -> None:
    crowd = frame_of_crowd().map(
        lambda value: value.isoformat() if isinstance(value, datetime) else value
    )
    u = pd.DataFrame([poison.GOOD], columns=list(poison.FIELDS), dtype=object)
    u = pd.concat([u] * 3, ignore_index=True)
    u["user"], u["tower"] = [7.5, "\ud800", (1, 2)], [None, "n/a", 7]
    both = pd.concat([crowd, u], ignore_index=True)
    for name in ("user", "tower"):
        both[name] = both[name].astype("category")
    check(both, "categories")
    halves = crowd.assign(user=crowd["user"].map(str))
    half = pd.Series(["\ud800", *poison.GOOD[1:]], index=poison.FIELDS, dtype=object)
    halves = pd.concat([halves, half.to_frame().T], ignore_index=True)
    halves["user"] = halves["user"].astype("string[python]")
    check(halves, "strings")


def test_geometries_that_are_no_points() -> None:
    lon, lat = zip(*(record.degrees for record in CROWD), strict=True)
    points: list[Any] = [*shapely.points(lon, lat)]
    odd = [None, shapely.Point(), shapely.box(2, 48, 3, 49), shapely.LineString([(0, 0), (1, 1)])]
    odd += [shapely.Point(float("inf"), 0), shapely.MultiPoint([(2, 48)]), shapely.Point(1e300, 1)]
    frame = geopandas.GeoDataFrame(
        {
            "user": [*(record.number for record in CROWD), *range(len(odd))],
            "time": pd.to_datetime(
                [*(r.fields[1] for r in CROWD), *["2024-01-01T00:00:00Z"] * len(odd)]
            ),
        },
        geometry=[*points, *odd],
        crs="EPSG:4326",
    )
    assert found(read_events(frame), zones=True) == wanted(by_name=False)


@pytest.mark.parametrize("kind", ["VARCHAR", "ENUM ('t0', 't1', 't2')"])
def test_relations_of_duckdb(kind: str) -> None:
    crowd = ", ".join(
        f"('{r.number}', TIMESTAMPTZ '{r.fields[1]}', 't{r.place}', {r.degrees[0]!r}::DOUBLE, "
        f"{r.degrees[1]!r}::DOUBLE)"
        for r in CROWD
    )
    odd = "(NULL, 'infinity'::TIMESTAMPTZ, NULL, 'nan'::DOUBLE, 'inf'::DOUBLE), "
    odd += "('', NULL, 't1', NULL, -1e300), (chr(0), '-infinity'::TIMESTAMPTZ, 't1', 1e308, 0)"
    with duckdb.connect() as db:
        for rows in (f"{crowd}, {odd}", f"{odd}, {crowd}"):
            sql = (
                f"SELECT u AS user, t AS time, CAST(p AS {kind}) AS tower, x AS lon, y AS lat "
                f"FROM (VALUES {rows}) AS v(u, t, p, x, y)"
            )
            for zones in (False, True):
                events = described(db.sql(sql), zones=zones)
                assert found(events, zones=zones) == wanted(by_name=not zones)


@pytest.mark.parametrize("kind", ["table", "chunks", "parquet"])
def test_long_texts_in_dictionaries_are_not_spelled_out_at_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,200 records with an id of a megabyte would be a small file and too much for Arrow; here a
    kilobyte and a small limit stand for them."""
    crowd, _ = text_people(TEXTS["dictionary"])
    many = 2200
    user = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(many, np.int32)), pa.array(["x" * 1_000])
    )
    rest = {name: pa.repeat(crowd[name][0], many) for name in ("time", "tower", "lon", "lat")}
    u = pa.table({"user": user} | rest).cast(pa.table(crowd).schema)
    table = pa.concat_tables([u, pa.table(crowd), u.slice(0, 5)])
    monkeypatch.setattr(rows, "SWOLLEN", 1 << 14)
    monkeypatch.setattr(events, "SWOLLEN", 1 << 10 if kind == "chunks" else 1 << 40)
    source: object = table
    if kind == "parquet":
        source = tmp_path / "long.parquet"
        pq.write_table(table, source)
    described_once = resolved(described(source, zones=False), zones=False)
    assert next(rows_of(described_once)).rows <= 17
    assert found(described_once) == wanted()


def test_doubles_that_cannot_tell_ids_apart_name_nobody() -> None:
    """2^53 and 2^53 + 1 are one double: two people would be one, and each the other's bound."""
    large = [2.0**53, -(2.0**53), 2.0**60, 1e300, float("inf"), float("nan"), 0.5]
    users = pa.array([7.0, *large, 2.0**53 - 1, None])
    table = pa.table({"user": users, "time_s": [0] * len(users), "tower": ["x"] * len(users)})
    for held, same in ((None, int), (UserEncoding.TEXT, lambda n: str(n).encode())):
        (only,) = rows_of(resolved(read_events(table), zones=False), held=held)
        expected = [same(7), *[None] * len(large), same(2**53 - 1), None]
        assert only.user.to_pylist() == expected


@pytest.mark.parametrize("kind", [pa.decimal32(9, 0), pa.decimal64(18, 0), pa.decimal128(18, 0)])
def test_decimals_with_more_digits_than_their_type_name_nobody(kind: pa.DataType) -> None:
    """Arrow refuses a whole column for one of them, and every number of 32 bits."""
    width = kind.byte_width
    odd = min(10**18, 256**width // 2 - 1) if width < 9 else 2**100
    wrong = odd if odd >= 10**18 else None
    numbers = [7, odd, 8] if wrong is not None else [7, 8]
    stored = b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
    column = pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(stored)])
    for name, other in (("user", "tower"), ("tower", "user")):
        table = pa.table({name: column, "time_s": [0] * len(numbers), other: ["x"] * len(numbers)})
        for held in (None, UserEncoding.TEXT):
            (only,) = rows_of(resolved(read_events(table), zones=False), held=held)
            found = only.user if name == "user" else only.place
            expected = [None if number == wrong else str(number) for number in numbers]
            assert found.cast(pa.string()).to_pylist() == expected


def test_one_odd_object_does_not_make_names_of_fractions() -> None:
    """pandas holds 7.5 as a number until one person's text is among them; then it was a name."""
    frame = pd.DataFrame({"user": [1.5, 2.0, 3.0], "time_s": [0, 0, 0], "tower": [1.0, 7.5, 2.0]})
    odd = pd.DataFrame({"user": ["u"], "time_s": [0], "tower": ["north"]})
    for source in (frame, pd.concat([frame, odd]), pd.concat([frame, odd]).set_index("tower")):
        (only,) = rows_of(resolved(read_events(source), zones=False), held=UserEncoding.TEXT)
        assert only.user.to_pylist()[:3] == [None, b"2", b"3"]
        places = [None if name is None else str(name) for name in only.place.to_pylist()][:3]
        assert [text and text.strip("b'") for text in places] == ["1", None, "2"]
