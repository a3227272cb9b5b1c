"""Feeds: what one person's record can do to the others' is nothing."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.model.errors import InputError
from sfumato.stream.feeds import Rows, Tick, folder_feed, ndjson_feed
from sfumato.stream.lines import rows_of

TIME = "2024-03-04T08:00:00Z"


def row(user: object, **more: object) -> bytes:
    return json.dumps({"user": user, "time": TIME, "place": "x"} | more).encode() + b"\n"


def fed(*lines: bytes) -> list[Rows | Tick]:
    clock = json.dumps({"clock": TIME}).encode() + b"\n"
    return list(ndjson_feed(io.BytesIO(clock + b"".join(lines)), {}, coordinates=False))


def users(items: list[Rows | Tick]) -> list[str]:
    return [u for item in items if isinstance(item, Rows) for u in item.table["user"].to_pylist()]


BROKEN = (
    b"{broken\n",
    b"\xff\xfe\n",
    b"[1, 2]\n",
    b"null\n",
    row(None),
    row(True),
    row(7.5),
    row("\ud800"),
    row({"a": 1}),
    row("b", time="soon"),
    row("b", time=10**400),
    row("b", place=None),
    b'{"user": "b", "time": "2024-03-04T08:00:00Z"}\n',
    b"[" * 5000 + b"\n",
)


@pytest.mark.parametrize("broken", BROKEN)
def test_a_line_that_is_no_row_is_dropped_alone(broken: bytes) -> None:
    for lines in ((broken,), (row("a"), broken, row("c")), (broken, row("a"), row("c"))):
        items = fed(*lines)
        assert users(items) == ["a", "c"][: len(lines) - 1]
        assert sum(item.unreadable for item in items if isinstance(item, Rows)) == 1


def test_a_person_called_clock_moves_no_clock() -> None:
    items = fed(row("clock"), row("a", clock="2030-01-01T00:00:00Z"))
    assert users(items) == ["clock", "a"]
    assert sum(isinstance(item, Tick) for item in items) == 1
    with pytest.raises(InputError, match="not an instant"):
        fed(b'{"clock": "noon"}\n')


LINES = st.one_of(
    st.sampled_from(BROKEN),
    st.builds(
        row,
        st.one_of(st.text(max_size=3), st.integers(-9, 2**70), st.floats(-9, 9)),
        time=st.one_of(st.just(TIME), st.integers(0, 2 * 10**9), st.floats(0, 2e9), st.text()),
        extra=st.one_of(st.none(), st.text(max_size=2), st.lists(st.integers(), max_size=2)),
    ),
    st.builds(lambda a, b: row(a).strip() + row(b), st.text(max_size=2), st.text(max_size=2)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=5))
def test_lines_are_read_together_as_each_is_read_alone(lines: list[bytes]) -> None:
    """So nobody's line changes what is made of another's."""

    def read(block: bytes) -> list[Any]:
        return rows_of(block, {}, coordinates=False)[0].to_pylist()

    assert read(b"".join(lines)) == [found for line in lines for found in read(line)]


def test_one_person_is_one_id_in_every_file(tmp_path: Path) -> None:
    """With types guessed from the rows 007 would be 7 in one file and 007 in the other."""
    (tmp_path / "1.csv").write_text(f"user,time,place\n007,{TIME},01\n")
    (tmp_path / "2.csv").write_text(f"user,time,place\n007,{TIME},01\nx9,{TIME},01\n")
    (tmp_path / "3.csv").write_text(f"user,time,place\n007,1709539200,01\na,b\n,{TIME},01\n")
    once = iter([True, False, False])
    items = list(folder_feed(tmp_path, {}, coordinates=False, more=lambda: next(once)))
    assert users(items) == ["007", "007", "x9", "007"]
    assert items[0].table["place"].to_pylist() == ["01"]  # type: ignore[union-attr]
    assert items[2].unreadable == 1  # type: ignore[union-attr]


def test_a_record_that_names_a_place_does_not_make_the_others_do_so() -> None:
    """Zones are found by coordinates unless the holder says otherwise; rows do not decide."""
    there = json.dumps({"user": "a", "time": TIME, "lon": 2.0, "lat": 48.0}).encode() + b"\n"
    found, unreadable = rows_of(there + row("b") + there, {}, coordinates=True)
    assert found.column_names == ["user", "time", "lon", "lat"]
    assert found["user"].to_pylist() == ["a", "a"]
    assert unreadable == 1


def test_who_states_the_clock_begins_with_it() -> None:
    """Otherwise the number of rows before it would decide what the machine's clock closes."""
    clock = b'\n{"clock": "2024-03-04T08:00:00Z"}\n'
    with pytest.raises(InputError, match="after the first line"):
        list(ndjson_feed(io.BytesIO(row("a") + clock), {}, coordinates=False))
    ticks = list(ndjson_feed(io.BytesIO(clock), {}, coordinates=False))
    assert [tick.clock_us for tick in ticks if isinstance(tick, Tick)] == [1_709_539_200_000_000]
    (rows, tick, end) = ndjson_feed(io.BytesIO(row("a")), {}, coordinates=False)
    assert isinstance(rows, Rows)
    assert isinstance(tick, Tick)
    assert isinstance(end, Tick)
