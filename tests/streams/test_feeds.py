"""Feeds: what one person's record can do to the others' is nothing."""

from __future__ import annotations

import gzip
import io
import json
import os
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InputError, UsageError
from sfumato.io.formats import json_positions
from sfumato.io.rows import Positions
from sfumato.io.values import BAD, validity
from sfumato.streams.input import Item, Options, Tick, Unfit, folder_feed, line_rules, ndjson_feed

pytestmark = pytest.mark.privacy

TIME = "2024-03-04T08:00:00Z"
EIGHT = 1_709_539_200_000_000
CLOCK = json.dumps({"clock": TIME}).encode() + b"\n"
TOWERS = Options(zones=False, tz="UTC")
ZONES = Options(zones=True, tz="UTC")
Found = tuple[bytes, int, Any]


def row(user: object, **more: object) -> bytes:
    return json.dumps({"user": user, "time": TIME, "place": "x"} | more).encode() + b"\n"


def whole(found: Positions) -> list[Found]:
    """Who, when and where of the rows that say so, in order."""
    there = validity(found.user)
    where: Iterable[Any]
    if found.lon is not None and found.lat is not None:
        where = zip(found.lon.tolist(), found.lat.tolist(), strict=True)
    else:
        where = found.place.to_pylist()
    times = [
        None if (found.time_valid.size and not found.time_valid[k]) or at == BAD else at
        for k, at in enumerate(found.time.tolist())
    ]
    rows = zip(found.user.to_pylist(), times, where, strict=True)
    assert not there.size or there.size == found.rows
    return [(u, t, p) for u, t, p in rows if u is not None and t is not None and p is not None]


def rows(items: Iterable[Item]) -> list[Found]:
    return [one for item in items if isinstance(item, Positions) for one in whole(item)]


def users(items: Iterable[Item]) -> list[str]:
    return [user.decode() for user, _, _ in rows(items)]


def unreadable(items: Iterable[Item]) -> int:
    """Lines that gave no row."""
    found = [item for item in items if isinstance(item, Positions)]
    return sum(item.rows + item.unreadable - len(whole(item)) for item in found)


def fed(*lines: bytes, options: Options = TOWERS) -> list[Item]:
    stated = replace(options, fed_clock=True)
    return list(ndjson_feed(io.BytesIO(CLOCK + b"".join(lines)), stated))


def followed(folder: Path, options: Options = TOWERS) -> list[Item]:
    once = iter([True, False, False])
    return list(folder_feed(folder, options, more=lambda: next(once)))


def unfit(items: Iterable[Item]) -> list[str]:
    return [item.name for item in items if isinstance(item, Unfit)]


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
    row("b", time="1709539200"),
    row("b", time=[TIME]),
    row("b", time=10**400),
    row("b", place=None),
    row("b", place=["x"]),
    row("b").replace(b'"b"', b'"\xff"'),
    b'{"user": "b", "time": "2024-03-04T08:00:00Z"}\n',
    b'{"user": "b", "time": "2024-03-04T08:00:00Z", "place": "x"\n',
    b'"user": "b", "time": "2024-03-04T08:00:00Z", "place": "x"}\n',
    row("b").strip() + row("c"),
    row("b" * (1 << 20)),
    b"[" * 5000 + b"\n",
)


@pytest.mark.parametrize("broken", BROKEN, ids=range(len(BROKEN)))
def test_a_line_that_is_no_row_is_dropped_alone(broken: bytes) -> None:
    for lines in ((broken,), (row("a"), broken, row("c")), (broken, row("a"), row("c"))):
        items = fed(*lines)
        assert users(items) == ["a", "c"][: len(lines) - 1]
        assert unreadable(items) == 1


LINES = st.one_of(
    st.sampled_from([line for line in BROKEN if len(line) < 9999]),
    st.builds(
        row,
        st.one_of(st.text(max_size=3), st.integers(-9, 2**70), st.floats(-9, 9)),
        time=st.one_of(st.just(TIME), st.integers(0, 2 * 10**9), st.floats(0, 2e9), st.text()),
        extra=st.one_of(st.none(), st.text(max_size=2), st.lists(st.integers(), max_size=2)),
    ),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=5))
def test_lines_are_read_together_as_each_is_read_alone(lines: list[bytes]) -> None:
    """So nobody's line changes what is made of another's."""
    rules = line_rules(TOWERS)

    def read(block: bytes) -> Counter[Found]:
        return Counter(whole(json_positions(block, rules)))

    assert read(b"".join(lines)) == sum((read(line) for line in lines), Counter[Found]())


def test_an_object_does_not_run_on_over_a_line_end_and_one_integer_id_flips_nothing() -> None:
    """Before, a block was read at once until one id was a number, and then line by line."""
    over = [b'{"user": "a",\n', f'"time": "{TIME}", "place": "x"}} {{"q": 0}}\n'.encode()]
    crowd = [row(f"u{k}") for k in range(50)]
    lone = fed(*over, *crowd)
    assert users(lone) == [f"u{k}" for k in range(50)]
    for at in (0, 25, 52):
        lines = [*over, *crowd]
        lines.insert(at, row(7))
        assert Counter(users(fed(*lines))) - Counter(["7"]) == Counter(users(lone))


def test_a_record_longer_than_a_megabyte_is_skipped_in_constant_memory() -> None:
    class Endless(io.RawIOBase):
        """One line of 40 MB between two that are whole."""

        pieces = iter([CLOCK + row("a"), *([b"x" * (1 << 20)] * 40), b"\n" + row("c")])

        def read(self, size: int = -1, /) -> bytes:  # noqa: ARG002
            return next(self.pieces, b"")

    feed = ndjson_feed(Endless(), replace(TOWERS, fed_clock=True))  # type: ignore[arg-type]
    tracemalloc.start()
    items = list(feed)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert users(items) == ["a", "c"]
    assert unreadable(items) == 1
    assert peak < 16 << 20


def test_a_live_pipe_gives_what_is_there_at_once() -> None:
    out, into = os.pipe()
    with os.fdopen(out, "rb") as reading, os.fdopen(into, "wb", buffering=0) as writing:
        feed = ndjson_feed(reading, replace(TOWERS, fed_clock=True))
        writing.write(CLOCK + row("a") + row("b")[:9])
        assert next(feed) == Tick(EIGHT)
        assert users([next(feed)]) == ["a"]
        writing.write(row("b")[9:])
        assert users([next(feed)]) == ["b"]


def test_times_of_lines() -> None:
    """Text is ISO 8601, with its offset or on the clock of the option; numbers count seconds."""
    lines = [row("a", time=t) for t in ("2024-03-04T09:00:00+01:00", 1709539200, 1709539200.25)]
    naive = row("b", time="2024-03-04T09:00:00")
    paris = Options(zones=False, tz="Europe/Paris")
    assert [t for _, t, _ in rows(fed(*lines, naive, options=paris))] == [
        *(EIGHT, EIGHT, EIGHT + 250_000),
        EIGHT,
    ]
    thousandths = Options(zones=False, tz="UTC", time_unit="ms")
    assert rows(fed(row("a", time=1709539200_000), options=thousandths)) == [(b"a", EIGHT, b"x")]


def test_a_person_called_clock_moves_no_clock() -> None:
    items = fed(row("clock"), row("a", clock="2030-01-01T00:00:00Z"))
    assert users(items) == ["clock", "a"]
    assert sum(isinstance(item, Tick) for item in items) == 1
    with pytest.raises(InputError, match="not an instant"):
        fed(b'{"clock": "noon"}\n')


def test_a_byte_order_mark_is_nobodys() -> None:
    stated = replace(TOWERS, fed_clock=True)
    items = list(ndjson_feed(io.BytesIO(b"\xef\xbb\xbf" + CLOCK + row("a")), stated))
    assert items[0] == Tick(EIGHT)
    assert users(items) == ["a"]


def test_whose_clock_counts_is_said_beforehand() -> None:
    """Were it the first line's to say, whose line is first would decide what closes when."""
    stated = replace(TOWERS, fed_clock=True)
    for lines in (row("a") + CLOCK, CLOCK + row("a")):
        items = list(ndjson_feed(io.BytesIO(lines), stated))
        assert users(items) == ["a"]
        assert [item for item in items if isinstance(item, Tick)] == [Tick(EIGHT)]
        with pytest.raises(InputError, match="machine's clock was to count"):
            list(ndjson_feed(io.BytesIO(lines), TOWERS))
    (tick, found, end) = ndjson_feed(io.BytesIO(row("a")), TOWERS)
    assert isinstance(tick, Tick)
    assert isinstance(found, Positions)
    assert isinstance(end, Tick)


class Arriving(io.RawIOBase):
    """Lines that come at given minutes after nine, by the machine's clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lines: dict[int, bytes]) -> None:
        self._lines = iter(sorted(lines.items()))
        self._minute = 0
        now = lambda: EIGHT + (60 + self._minute) * 60_000_000  # noqa: E731
        monkeypatch.setattr("sfumato.streams.input.machine_clock", now)

    def read(self, size: int = -1, /) -> bytes:  # noqa: ARG002
        self._minute, line = next(self._lines, (self._minute, b""))
        return line


def test_a_row_that_comes_closes_no_slot_for_those_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row is late by the clock at which it was read, not by whether another came before."""

    def in_time(lines: dict[int, bytes]) -> list[str]:
        """Whose rows of the hour before nine come before the clock says nine."""
        clock, found = 0, []
        for item in ndjson_feed(Arriving(monkeypatch, lines), TOWERS):  # type: ignore[arg-type]
            if isinstance(item, Tick):
                clock = item.clock_us
            elif clock < EIGHT + 3_600_000_000:
                found += users([item])
        return found

    others = {-30: row("a"), 5: row("b") + row("c")}
    assert in_time(others) == ["a"]
    assert in_time(others | {2: row("u", time="2024-03-04T09:02:00Z")}) == ["a"]


def test_the_clock_goes_on_while_nobody_sends() -> None:
    """Otherwise a slot would be published when somebody's row comes, and tell that it came."""
    out, into = os.pipe()
    with os.fdopen(out, "rb") as reading, os.fdopen(into, "wb", buffering=0) as writing:
        feed = ndjson_feed(reading, TOWERS, wait=0.01)
        writing.write(row("a"))
        assert isinstance(next(feed), Tick)
        assert users([next(feed)]) == ["a"]
        assert isinstance(next(feed), Tick)
        assert isinstance(next(feed), Tick)


def test_a_folder_is_looked_at_at_fixed_instants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file must not make the next look, and with it the next tick, come sooner."""

    def pauses() -> list[float]:
        slept: list[float] = []
        monkeypatch.setattr("time.sleep", slept.append)
        looks = iter([True, True, False])
        list(folder_feed(tmp_path, TOWERS, wait=1.0, more=lambda: next(looks)))
        return slept

    monkeypatch.setattr("time.time", lambda: 100.25)
    without = pauses()
    (tmp_path / "u.ndjson").write_bytes(row("u"))
    assert pauses() == without == [0.75]


def test_a_record_that_names_a_place_does_not_make_the_others_do_so() -> None:
    """Zones are found by coordinates unless the holder says otherwise; rows do not decide."""
    there = row("a", lon=2.0, lat=48.0)
    odd = row("p", lon="n/a", lat="n/a")
    crowd = [(b"a", EIGHT, (2.0, 48.0))] * 2
    for lines in ((odd, there, there), (there, row("b"), odd, there)):
        found = rows(fed(*lines, options=ZONES))
        assert [one for one in found if one[0] == b"a"] == crowd
    named = Options(zones=True, columns={"place": "place"}, tz="UTC")
    assert rows(fed(there, odd, options=named)) == [(b"a", EIGHT, b"x"), (b"p", EIGHT, b"x")]


def test_one_person_is_one_id_in_every_file(tmp_path: Path) -> None:
    """007 stays 007; 7 is one person in Parquet, CSV and JSON."""
    csv = f"user,time,place\n007,{TIME},01\n7,{TIME},01\nx9,{TIME},01\na,b\n,{TIME},01\n"
    (tmp_path / "1.csv").write_text(csv)
    with gzip.open(tmp_path / "2.csv.gz", "wt") as file:
        file.write(csv)
    (tmp_path / "3.ndjson").write_bytes(row(7, place="01") + row("7", place="01"))
    stamps = pa.array([EIGHT] * 2, pa.timestamp("us", tz="UTC"))
    pq.write_table(
        pa.table({"user": [7, 8], "time": stamps, "place": ["01"] * 2}), tmp_path / "4.parquet"
    )
    gaps = pa.table({"user": [7.0, None], "time": stamps, "place": [1, 1]})
    pq.write_table(gaps, tmp_path / "5.parquet")
    items = followed(tmp_path)
    assert users(items) == ["007", "7", "x9"] * 2 + ["7", "7", "7", "8", "7"]
    assert {t for _, t, _ in rows(items)} == {EIGHT}
    assert not unfit(items)


def test_a_quote_or_a_bad_byte_or_a_long_record_costs_itself_alone(tmp_path: Path) -> None:
    crowd = [f"u{k},{TIME},x\n".encode() for k in range(2000)]
    poison = (
        b'"p,2024-03-04T08:00:00Z,x\n',
        b'p,"2024-03-04T08:00:00Z,x\n',
        b"\xff\xfe,2024-03-04T08:00:00Z,x\n",
        b"p,2024-03-04T08:00:00Z,\xff\n",
        b"p" * (3 << 20) + b",2024-03-04T08:00:00Z,x\n",
        b"p\n",
        b"p,soon,x\n",
    )
    for number, bad in enumerate(poison):
        folder = tmp_path / str(number)
        folder.mkdir()
        lines = [b"user,time,place\n", *crowd]
        lines[1000:1000] = [bad]
        (folder / "1.csv").write_bytes(b"".join(lines))
        items = followed(folder)
        found = [u for u in users(items) if u.startswith("u")]
        assert found == [f"u{k}" for k in range(2000)], number
        assert unreadable(items) == 1, number


def test_a_file_that_cannot_be_read_gives_no_rows_and_stops_nothing(tmp_path: Path) -> None:
    """Whether it is there may be a fact about one person, and so are its rows."""
    good = pa.table({"user": ["a"], "time": [TIME], "place": ["x"]})
    pq.write_table(good, tmp_path / "01.parquet")
    cut = (tmp_path / "01.parquet").read_bytes()
    (tmp_path / "02.parquet").write_bytes(cut[:-9])
    (tmp_path / "03.parquet").write_bytes(b"no such thing")
    (tmp_path / "04.csv").write_bytes(b"")
    (tmp_path / "05.csv").write_text("a,b\n1,2\n")
    packed = gzip.compress(
        b"user,time,place\n" + b"".join(b"z,%s,x\n" % TIME.encode() for _ in range(40))
    )
    (tmp_path / "06.csv.gz").write_bytes(packed[:-20])
    numbers = pa.table({"user": ["a"], "time": [1_709_539_200], "place": ["x"]})
    pq.write_table(numbers, tmp_path / "07.parquet")
    (tmp_path / "08.xlsx").write_bytes(b"PK")
    (tmp_path / "09.parquet").mkdir()
    (tmp_path / "10.ndjson").write_bytes(row("b"))
    (tmp_path / ".11.csv").write_text("being written")
    items = followed(tmp_path)
    assert users(items) == ["a", "b"]
    assert unfit(items) == [
        *("02.parquet", "03.parquet", "04.csv", "05.csv", "06.csv.gz", "07.parquet"),
        *("08.xlsx", "09.parquet"),
    ]
    seconds = Options(zones=False, tz="UTC", time_unit="s")
    assert "07.parquet" not in unfit(followed(tmp_path, seconds))


def test_a_file_that_breaks_behind_its_first_rows_is_not_counted_in_part(tmp_path: Path) -> None:
    ids = np.random.default_rng(1).integers(0, 1 << 62, 30_000).tolist()
    lines = [b"user,time,place\n", *(f"{user},{TIME},x\n".encode() for user in ids)]
    packed = gzip.compress(b"".join(lines), 1)
    (tmp_path / "1.csv.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "2.ndjson").write_bytes(row("b"))
    items = followed(tmp_path)
    assert users(items) == ["b"]
    assert unfit(items) == ["1.csv.gz"]


def test_a_file_that_leaves_names_or_positions_open_gives_no_rows_in_zones(tmp_path: Path) -> None:
    """Before, its rows decided: one record whose lon is no number turned all into names."""
    (tmp_path / "1.csv").write_text(f"user,time,place,lon,lat\na,{TIME},x,2.0,48.0\n")
    (tmp_path / "2.csv").write_text(f"user,time,lon,lat\nb,{TIME},2.0,48.0\np,{TIME},n/a,n/a\n")
    (tmp_path / "3.csv").write_text(f"user,time,place\nc,{TIME},x\n")
    items = followed(tmp_path, ZONES)
    assert unfit(items) == ["1.csv"]
    assert [one for one in rows(items) if one[0] != b"p"] == [
        (b"b", EIGHT, (2.0, 48.0)),
        (b"c", EIGHT, b"x"),
    ]
    chosen = Options(zones=True, columns={"lon": "lon", "lat": "lat"}, tz="UTC")
    assert rows(followed(tmp_path, chosen))[0] == (b"a", EIGHT, (2.0, 48.0))


def test_options_that_cannot_be_are_refused_before_anything_is_read() -> None:
    with pytest.raises(UsageError):
        Options(zones=False, columns={"usr": "imsi"})
    with pytest.raises(UsageError):
        Options(zones=False, time_unit="minutes")
