"""Text files without a header: columns by number, and no record decides how others are cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sfumato.errors import InputError, UsageError
from sfumato.io.events import read_events, rows_of
from sfumato.model.events import Events

Written = Callable[..., Path]
COLUMNS = {"user": "1", "time": "3", "place": "2"}
LINES = "7,a,2024-01-01T00:00Z\n8,b,2024-01-01T01:00Z\n"


def rows(events: Events) -> tuple[list[bytes | None], int]:
    """Users in their order, and how many lines were no records."""
    found = list(rows_of(events))
    users = [user for part in found for user in part.user.to_pylist()]
    return users, sum(part.unreadable for part in found)


def test_columns_have_numbers(csv_file: Written) -> None:
    assert rows(read_events(csv_file(LINES), columns=COLUMNS)) == ([b"7", b"8"], 0)
    tabs = csv_file(LINES.replace(",", "\t"), "events.tsv")
    assert rows(read_events(tabs, columns=COLUMNS)) == ([b"7", b"8"], 0)
    for sign, name in ((";", "ssv"), ("|", "psv"), ("\t", "tsv")):
        path = csv_file(LINES.replace(",", sign), "events.txt")
        assert rows(read_events(path, columns=COLUMNS, format=name)) == ([b"7", b"8"], 0)


def test_numbers_may_stand_beside_what_folders_say(csv_file: Written) -> None:
    csv_file("a,2024-01-01T00:00Z\n", "data/cab=7/part.csv")
    path = csv_file("b,2024-01-01T01:00Z\n", "data/cab=8/part.csv").parents[1]
    chosen = {"user": "cab", "place": "1", "time": "2"}
    assert rows(read_events(path, columns=chosen)) == ([b"7", b"8"], 0)


def test_what_is_not_there_is_said_without_a_record(csv_file: Written) -> None:
    path = csv_file("Muster;X;2024-01-01T00:00Z\n")
    with pytest.raises(InputError) as caught:
        read_events(path)
    said = str(caught.value)
    assert "`column={'user': 1, 'time': 2, 'place': 3}`" in said
    assert "Muster" not in said
    with pytest.raises(InputError, match="recognised as the time"):
        read_events(path, columns={"user": "1", "place": "2"})
    with pytest.raises(InputError, match="no such column to use as place"):
        read_events(path, columns={**COLUMNS, "place": "0"})
    with pytest.raises(UsageError, match="at most 4096"):
        read_events(path, columns={**COLUMNS, "place": "5000"})


@pytest.mark.privacy
@pytest.mark.parametrize("odd", [b"PAR1", b"PARE", b"\x1f\x8b"])
def test_no_record_decides_what_a_file_is(odd: bytes, csv_file: Written) -> None:
    """Hadoop's files have no ending. One person's id first, which looks like the first bytes of
    another format, and everybody else's rows were none: found by a pattern without a word."""
    text = odd + b",z,2024-01-01T00:00Z\n" + LINES.encode()
    path = csv_file(text, "out/part-00000")
    for named in (path, path.parent / "part-*"):
        assert rows(read_events(named, columns=COLUMNS))[0][1:] == [b"7", b"8"]


@pytest.mark.privacy
@pytest.mark.parametrize("header", ["", "user,place,time\n"])
@pytest.mark.parametrize("mark", ["\ufeff", "\ufeff\ufeff"])
def test_a_mark_before_a_line_counts_nowhere(header: str, mark: str, csv_file: Written) -> None:
    """Where the first line of a file lost its byte order mark and no other did, removing one
    person gave the next one another name: two people became one, or one two."""
    columns = None if header else COLUMNS
    marked = f"{mark}7,a,2024-01-01T00:00Z\n"
    for text in (marked + LINES, LINES + marked):
        users, malformed = rows(read_events(csv_file(header + text), columns=columns))
        assert (sorted(users), malformed) == ([b"7", b"7", b"8"], 0)


@pytest.mark.privacy
def test_a_mark_before_a_line_is_not_before_its_quotation(csv_file: Written) -> None:
    """Of the line, not of its first field alone: this may be quoted, or be no id at all."""
    quoted = csv_file(LINES + '\ufeff"7",a,2024-01-01T02:00Z\n')
    assert rows(read_events(quoted, columns=COLUMNS)) == ([b"7", b"8", b"7"], 0)
    turned = csv_file("2024-01-01T00:00Z,a,7\n\ufeff2024-01-01T00:00Z,a,8\n")
    events = read_events(turned, columns={"time": "1", "place": "2", "user": "3"})
    (part,) = rows_of(events)
    assert part.time[0] == part.time[1]


@pytest.mark.privacy
def test_a_mark_before_an_object_counts_nowhere(csv_file: Written) -> None:
    lines = [
        f'{{"user": {user}, "time": 0, "place": "a"}}\n' for user in (7, 8, "7.0", '"\\u0037"')
    ]
    for k in range(4):
        text = "".join("\ufeff" + line if n == k else line for n, line in enumerate(lines))
        users, malformed = rows(read_events(csv_file(text, "e.ndjson")))
        assert (sorted(map(bytes, filter(None, users))), malformed) == ([b"7", b"7", b"7", b"8"], 0)


@pytest.mark.privacy
@pytest.mark.parametrize(
    "odd",
    ["9;z;2024-01-01T00:00Z", "9", '"9,z', "9,z,2024-01-01T00:00Z,more,and,more", "", "\x00\xff"],
    ids=["other delimiter", "one field", "open quote", "more fields", "empty", "bytes"],
)
def test_no_record_decides_how_another_is_cut(odd: str, csv_file: Written) -> None:
    """One person's line first, last or absent: the others' rows are the same.

    Unit: a record. The file has no header, so its first line is somebody's.
    """
    before = read_events(csv_file(LINES, "alone.csv"), columns=COLUMNS)
    expected = rows(before)[0]
    for text in (f"{odd}\n{LINES}", f"{LINES}{odd}\n"):
        events = read_events(csv_file(text.encode("latin-1"), "with.csv"), columns=COLUMNS)
        assert [part.reading for part in events.parts] == [p.reading for p in before.parts]
        assert [user for user in rows(events)[0] if user != b"9"] == expected
