"""Lines and fields: the compiled splitter and the scanner say what slow ones say."""

from __future__ import annotations

import io
import json
from codecs import BOM_UTF8

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.io import lines
from sfumato.io.json_lines import json_values
from sfumato.io.lines import LONGEST, cut_csv, whole_lines

STEADY = settings(derandomize=True, deadline=None, max_examples=80)
CSV_TEXT = st.text('"""",,,\n\n\r\rab;é\0 \ufeff', max_size=60).map(str.encode)


def slow_fields(line: bytes, delimiter: bytes) -> list[bytes] | None:
    """One line by the rules, letter by letter; nothing where it is malformed."""
    found, rest = [], line
    while True:
        if rest.startswith(b'"'):
            field, k = b"", 1
            while True:
                if k >= len(rest):
                    return None
                letter = rest[k : k + 1]
                if letter == b'"' and rest[k + 1 : k + 2] == b'"':
                    field, k = field + b'"', k + 2
                elif letter == b'"':
                    k += 1
                    break
                else:
                    field, k = field + letter, k + 1
            rest = rest[k:]
            if rest and not rest.startswith(delimiter):
                return None
        else:
            field, _, _ = rest.partition(delimiter)
            rest = rest[len(field) :]
        found.append(field)
        if not rest:
            return found
        rest = rest[1:]


def slow_rows(data: bytes, delimiter: bytes, fields: int) -> tuple[list[list[bytes | None]], int]:
    rows, malformed = [], 0
    for line in data.split(b"\n"):
        line = line.removesuffix(b"\r")
        if not line:
            continue
        fits = len(line) <= LONGEST
        while line.startswith(BOM_UTF8):
            line = line.removeprefix(BOM_UTF8)
        found = slow_fields(line, delimiter) if fits else None
        if found is None or len(found) != fields:
            malformed += 1
        else:
            rows.append([field or None for field in found])
    return rows, malformed


@STEADY
@given(CSV_TEXT | st.binary(max_size=60), st.integers(1, 4), st.sampled_from(",;\t|"), st.data())
def test_csv_is_cut_as_letter_by_letter(
    data: bytes, fields: int, delimiter: str, draw: st.DataObject
) -> None:
    wanted = draw.draw(st.permutations(range(fields)))[: draw.draw(st.integers(1, fields))]
    data = data.replace(b",", delimiter.encode()) + b"\n"
    cut = cut_csv(data, delimiter, fields, list(wanted))
    rows, malformed = slow_rows(data, delimiter.encode(), fields)
    assert (cut.rows, cut.malformed) == (len(rows), malformed)
    for column, k in zip(cut.columns, wanted, strict=True):
        assert column.to_pylist() == [row[k] for row in rows]


@STEADY
@given(st.lists(st.text("abc,\"\r", max_size=30).map(str.encode), max_size=12), st.integers(1, 9),
       st.booleans())  # fmt: skip
def test_blocks_do_not_change_the_lines(given_lines: list[bytes], size: int, ended: bool) -> None:
    """Blocks of any size, records too long for a small limit: the same lines, the rest counted."""
    data = b"\n".join(given_lines) + (b"\n" if ended else b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", size)
        patch.setattr(lines, "LONGEST", 8)
        blocks = list(whole_lines(io.BytesIO(data).read))
    assert all(block.data.endswith(b"\n") or not block.data for block in blocks)
    skipped = sum(block.skipped for block in blocks)
    kept = b"".join(block.data for block in blocks).split(b"\n")[:-1]
    all_lines = data.split(b"\n")
    fitting = [line for line in all_lines if len(line.removesuffix(b"\r")) <= 8]
    # A record above the limit may still stand in a block, for the splitter to drop and count.
    assert [line for line in kept if line and len(line.removesuffix(b"\r")) <= 8] == [
        line for line in fitting if line
    ]
    too_long = sum(len(line.removesuffix(b"\r")) > 8 for line in kept)
    assert skipped + too_long == len(all_lines) - len(fitting)


def test_the_longest_record_is_read_and_a_longer_one_is_not() -> None:
    for length, rows in ((LONGEST, 1), (LONGEST + 1, 0)):
        for end in (b"\n", b"\r\n"):
            cut = cut_csv(b"x" * (length - 2) + b",y" + end, ",", 2, [0, 1])
            assert (cut.rows, cut.malformed) == (rows, 1 - rows)
            member = b'{"user":"%s"}'
            data = member % (b"x" * (length - len(member) + 2)) + end
            assert json_values(data, ["user"]).rows == rows


def test_a_long_record_takes_no_memory() -> None:
    """A gigabyte without a line end, of which no more than three blocks are ever held."""
    left = 1024

    def read(size: int) -> bytes:
        nonlocal left
        left -= 1
        if left < 0:
            return b""
        return b"x" * size if left else b"x" * (size - 5) + b"\na,b\n"

    blocks = list(whole_lines(read))
    assert sum(block.skipped for block in blocks) == 1
    assert max(len(block.data) for block in blocks) <= 3 * lines.BLOCK
    assert b"".join(block.data for block in blocks) == b"a,b\n"


# --- NDJSON ------------------------------------------------------------------------------------

KEYS = ["user", "time", "place"]
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from([0.0, -0.0, 7.0, 1e3, 1e22, 10**30, "7", "", "\\", '"', "\u2028", "\0"])
)
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
RECORD = st.dictionaries(st.sampled_from([*KEYS, "more", "üser"]), VALUE)
NOISE = st.text('{}[]":,\\ue1-.0 tnrfals\r\t', max_size=40)


def written(record: tuple[dict[str, object], bool]) -> str:
    return json.dumps(record[0], ensure_ascii=record[1])


class Token(str):
    """A number as it is written."""


def first_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return dict(reversed(pairs))


def slow_values(line: bytes) -> list[tuple[bytes | None, bool]] | None:
    """What the line holds, by Python's parser. `None`: not an object."""
    try:
        record = json.loads(
            line.decode(),
            parse_int=Token,
            parse_float=Token,
            parse_constant=lambda _: None,
            object_pairs_hook=first_of,
        )
        json.dumps(record, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    return [expected(record.get(key), key) for key in KEYS]


def expected(value: object, key: str) -> tuple[bytes | None, bool]:
    if isinstance(value, Token):
        if value.lstrip("-").isdigit():
            return str(int(value)).encode(), True
        number = float(value)
        if key == "time":
            return repr(number).encode(), True
        whole = abs(number) < 2**53 and number.is_integer()
        return (str(int(number)).encode() if whole else None), True
    return (value.encode(), False) if isinstance(value, str) else (None, False)


def same(value: bytes | None, wanted: bytes | None, numeric: bool) -> bool:
    if value is None or wanted is None or not numeric:
        return value == wanted
    return value == wanted or float(value) == float(wanted)


def compare(data: bytes) -> None:
    read = json_values(data + b"\n", KEYS, ["user", "place"])
    slow = [slow_values(line) for line in data.split(b"\n") if line.strip(b" \t\r")]
    rows = [row for row in slow if row is not None]
    assert (read.rows, read.malformed) == (len(rows), len(slow) - len(rows))
    for k, key in enumerate(KEYS):
        values, numeric = read.columns[key].to_pylist(), read.numeric[key].tolist()
        for value, is_number, row in zip(values, numeric, rows, strict=True):
            assert same(value, *row[k]), (key, value, row[k])
            assert value is None or is_number == row[k][1]


@STEADY
@given(
    st.lists(
        RECORD.map(json.dumps) | RECORD.map(lambda r: json.dumps(r, ensure_ascii=False)) | NOISE,
        max_size=5,
    )
)
def test_lines_of_json_are_what_json_loads_says(records: list[str]) -> None:
    data = "\n".join(text.replace("\n", " ") for text in records)
    compare(data.encode("utf-8", "replace"))


@pytest.mark.parametrize(
    "line",
    [
        *('{"user":1e-50}', '{"time":1e-50}', '{"user":1e40}', '{"user":1e41}', '{"time":1e41}'),
        *("{}", "[]", "7", '""', "null", "{", "}", '{"user"}', '{"user":}', '{"user":1,,}'),
        *('{"user":1 "time":2}', '{,"user":1}', '{"user":01}', '{"user":1.}', '{"user":.5}'),
        *('{"user":-}', '{"user":+1}', '{"user":1e}', '{"user":1e+}', '{"user":tru}'),
        *('{"user":nulll}', '{"user":"a"', '{"user":"a}', '{"user":"a"}}', '{"user":"a"}x'),
        *('{"user":[1,2],"place":{"a":[{}]}}', '{"user":[,]}', '{"user":{"a":,}}', '{"x":[}'),
        *('{"user":"a","user":"b"}', '{"user":"a","user":null}', '{"us\\u0065r":"a"}'),
        *('{"user":"\\ud800"}', '{"user":"\\ud83d\\ude00"}', '{"user":"\\x"}', '{"user":1E3}'),
        *('{"user":-0}', '{"user":-0.0}', '{"user":0e-99999}', '{"time":-0.0}', '{"time":1e-3}'),
        *(' { "user" : 1 } ', '\t{"user":1}\r', '{"user":NaN}', '{"time":Infinity}'),
    ],
)
def test_json_at_the_edge(line: str) -> None:
    compare(line.encode())


def test_what_is_taken_for_json_beyond_its_grammar() -> None:
    """Of that line alone, and it is a record like another."""
    lenient = [b'{"user":1,}', b'{"user":[1,],"time":2}', b'{"time":-Infinity,"user":-inf}']
    for line in lenient:
        read = json_values(line + b"\n{\n" + line + b"\n", KEYS, ["user", "place"])
        assert (read.rows, read.malformed) == (2, 1)
    assert read.columns["user"].to_pylist() == [None, None]


@pytest.mark.parametrize("opened", ["[", '{"":'])
def test_objects_in_objects_to_the_end_of_the_longest_line(opened: str) -> None:
    """Nothing here calls itself for each of them."""
    closed, inside = ("]", "") if opened == "[" else ("}", "1")
    depth = (LONGEST - 40) // len(opened + closed)
    deep = '{"user":7,"more":' + opened * depth + inside + closed * depth + "}"
    for line in (deep, deep.replace("more", "time"), deep[: len(deep) // 2]):
        read = json_values(f'{line}\n{{"user":8}}\n'.encode(), KEYS, ["user"])
        assert read.columns["user"].to_pylist()[-1] == b"8"
        assert read.rows == 1 + (len(line) == len(deep))


def test_members_are_called_as_they_are_written() -> None:
    keys = ["a/b", "", "~x", "it's", "*", "#", "a[0]", "a.b", 'q"', "A", "a", "é", "0"]
    line = json.dumps({key: str(k) for k, key in enumerate(keys)}).encode() + b"\n"
    read = json_values(line + b"[9]\n" + line.replace(b'"0"', b'"8"'), keys)
    assert [read.columns[key].to_pylist()[0] for key in keys] == [
        str(k).encode() for k in range(len(keys))
    ]
    assert (read.rows, read.malformed) == (2, 1)


def test_marks_before_an_object_are_no_part_of_it() -> None:
    """Before any line, and several; a line of nothing else is none."""
    marked = BOM_UTF8 * 2 + b'{"user":"\xef\xbb\xbf"}\n'
    read = json_values(b'{"user":1}\n' + marked + BOM_UTF8 + b" \r\n[]\n", ["user"], ["user"])
    assert read.columns["user"].to_pylist() == [b"1", BOM_UTF8]
    assert (read.rows, read.malformed) == (2, 1)
