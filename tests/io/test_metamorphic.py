"""The gate: the rows of D come out of D ∪ u as they come out of D, whoever u is.

The unit is the line: it belongs to the id that it names. For every reader and every poison
person u, wherever u's records stand and however files are split, the multiset of (canonical id,
microsecond, place) without u's own is what `poison.CROWD` says it is.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io import poison
from tests.io.poison import PLACEMENTS, csv_zoo, described, found, json_zoo, wanted, written

from sfumato.io.events import rows_of

pytestmark = pytest.mark.privacy
HEADER = b"user,time,tower,lon,lat"
CSV, JSON = csv_zoo(), json_zoo()
CROWD_CSV, CROWD_JSON = poison.crowd_csv(), poison.crowd_json()


def check(source: object, what: object, **options: str) -> None:
    for zones in (False, True):
        events = described(source, zones=zones, **options)
        assert found(events, zones=zones) == wanted(by_name=not zones), what


def test_the_zoo_is_large_enough() -> None:
    assert len(CSV) >= 40
    assert len(JSON) >= 40


QUICK = (("head", 1), ("middle", 2), ("around", 5))
ALL = tuple((place, files) for place in PLACEMENTS for files in (1, 2, 5))


def everywhere(
    kind: str, u: list[bytes], tmp_path: Path, where: tuple[tuple[str, int], ...]
) -> None:
    """u at these places among the crowd, in a folder of so many files, and in a file named."""
    crowd, header = (CROWD_CSV, HEADER) if kind == "csv" else (CROWD_JSON, None)
    for place, files in where:
        folder, lines = tmp_path / f"{place}{files}", PLACEMENTS[place](crowd, u)
        cut = place in ("end", "around")
        written(folder, lines, files=files, header=header, ending=f".{kind}", cut=cut)
        # Alone in its folder a file must be read as it is when it is named.
        check(folder / f"part-0.{kind}" if files == 1 else folder, (place, files))


@pytest.mark.parametrize("name", CSV)
def test_csv(name: str, tmp_path: Path) -> None:
    everywhere("csv", CSV[name], tmp_path, QUICK)


@pytest.mark.parametrize("name", JSON)
def test_ndjson(name: str, tmp_path: Path) -> None:
    everywhere("ndjson", JSON[name], tmp_path, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_everywhere(kind: str, tmp_path: Path) -> None:
    for k, u in enumerate((CSV if kind == "csv" else JSON).values()):
        everywhere(kind, u, tmp_path / str(k), ALL)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv.gz", "ndjson.gz"])
def test_packed(kind: str, tmp_path: Path) -> None:
    crowd, zoo, header = (CROWD_CSV, CSV, HEADER) if kind == "csv.gz" else (CROWD_JSON, JSON, None)
    for k, (name, u) in enumerate(zoo.items()):
        lines = PLACEMENTS["around"](crowd, u)
        check(written(tmp_path / str(k), lines, files=2, header=header, ending=f".{kind}"), name)


def mixed(crowd: list[bytes], zoo: dict[str, list[bytes]]) -> list[bytes]:
    """The whole zoo among the crowd."""
    lines = [line for u in zoo.values() for line in u]
    step = len(lines) // len(crowd) + 1
    made: list[bytes] = []
    for k, line in enumerate(crowd):
        made += [*lines[k * step : (k + 1) * step], line]
    return made


@pytest.mark.parametrize("delimiter", [b";", b"\t", b"|"])
def test_the_whole_zoo_with_other_delimiters(delimiter: bytes, tmp_path: Path) -> None:
    lines = mixed(poison.crowd_csv(delimiter), csv_zoo(delimiter))
    header = HEADER.replace(b",", delimiter)
    check(written(tmp_path, lines, files=2, header=header, ending=".csv"), delimiter)


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_the_whole_zoo_at_once(ending: bytes, tmp_path: Path) -> None:
    """Several megabytes, so that blocks end in the middle of people too."""
    for kind, crowd, zoo, header in (
        ("csv", CROWD_CSV, CSV, HEADER),
        ("ndjson", CROWD_JSON, JSON, None),
    ):
        lines = [*([header] if header else []), *mixed(crowd, zoo)]
        path = tmp_path / f"all.{kind}"
        path.write_bytes(ending.join(lines))
        check(path, kind)
        packed = tmp_path / f"packed.{kind}.gz"
        packed.write_bytes(gzip.compress(ending.join(lines), 1))
        check(packed, kind)


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_a_byte_order_mark_belongs_to_the_file(kind: str, tmp_path: Path) -> None:
    lines = [HEADER, *CROWD_CSV] if kind == "csv" else CROWD_JSON
    path = tmp_path / f"marked.{kind}"
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))
    check(path, kind)


ALIKE = (
    *("7", "07", "007", " 7", "7 ", "\t7", "+7", "7.0", "7e0", "0", "00", "-0", "a", "A", "ä"),
    *("a\u0308", "\u00a07", "7\0", "x" * 16, "x" * 17, "x" * 200 + "1", "x" * 200 + "2"),
)


@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet"])
def test_ids_that_look_alike_are_different_people(kind: str, tmp_path: Path) -> None:
    """If two were one, the records of the one would decide which of the other's are counted."""
    path, time = tmp_path / f"alike.{kind}", "2024-03-04T08:00:00Z"
    if kind == "csv":
        path.write_text("\n".join(["user,time,tower", *(f"{u},{time},x" for u in ALIKE)]))
    elif kind == "ndjson":
        records = ({"user": user, "time": time, "tower": "x"} for user in ALIKE)
        path.write_text("\n".join(map(json.dumps, records)))
    else:
        same = {"time": [time] * len(ALIKE), "tower": ["x"] * len(ALIKE)}
        pq.write_table(pa.table({"user": ALIKE, **same}), path)
    rows = rows_of(described(path, zones=False))
    read = [user for part in rows for user in part.user.to_pylist()]
    assert sorted(read) == sorted(user.encode() for user in ALIKE)


STEADY = settings(derandomize=True, deadline=None, max_examples=25)
ANY_LINE = st.binary(max_size=60).map(lambda line: line.replace(b"\n", b"\r"))
CSV_ISH = st.text(alphabet='""",,\r\0ax1-:TZ .\\;\'\t#\ufeff\u2028é', max_size=60).map(str.encode)
JSON_ISH = st.text(alphabet='""""{}[]:,\\/ue1-.0 tfn\r\t\0é\u2028', max_size=60).map(str.encode)
JSON_VALUE = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
JSON_RECORD = st.dictionaries(st.sampled_from(poison.FIELDS), JSON_VALUE).map(
    lambda record: poison.json.dumps(record).encode()
)


@STEADY
@given(st.lists(ANY_LINE | CSV_ISH, min_size=1, max_size=6), st.sampled_from(list(PLACEMENTS)))
def test_any_lines_in_csv(
    tmp_path_factory: pytest.TempPathFactory, u: list[bytes], place: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    lines = PLACEMENTS[place](CROWD_CSV, u)
    check(written(folder, lines, files=2, header=HEADER, ending=".csv"), u)


@STEADY
@given(
    st.lists(ANY_LINE | JSON_ISH | JSON_RECORD, min_size=1, max_size=6),
    st.sampled_from(list(PLACEMENTS)),
)
def test_any_lines_in_ndjson(
    tmp_path_factory: pytest.TempPathFactory, u: list[bytes], place: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    lines = PLACEMENTS[place](CROWD_JSON, u)
    check(written(folder, lines, files=2, header=None, ending=".ndjson"), u)
