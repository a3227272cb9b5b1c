"""A crowd of well-behaved people, and a zoo of people whose records would break a careless reader.

`CROWD` is D: what must come out of it is known here, without reading. `ZOO` is the text of
poison people as CSV and as JSON lines, `ODD` what they hold in typed columns. No line here names
a member of the crowd: the line is the unit, and it belongs to the id that it names.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sfumato.io.events import read_events, resolved, rows_of, without_damaged
from sfumato.io.files import Damaged
from sfumato.io.rows import Positions
from sfumato.model.events import Events, UserEncoding

START = datetime(2024, 1, 1, tzinfo=UTC)
FIELDS = ("user", "time", "tower", "lon", "lat")
BY_NAME, BY_POSITION = {"place": "tower"}, {"lon": "lon", "lat": "lat"}
Lines = Sequence[bytes]
Seen = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Record:
    """One good record, in the forms in which the sources write it."""

    number: int
    minutes: int
    place: int

    @property
    def moment(self) -> datetime:
        return START + timedelta(minutes=self.minutes)

    @property
    def fields(self) -> tuple[str, str, str, str, str]:
        lon, lat = self.degrees
        time = self.moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        return str(self.number), time, f"t{self.place}", repr(lon), repr(lat)

    @property
    def degrees(self) -> tuple[float, float]:
        return 2.05 + self.place / 10, 48.05

    @property
    def micro(self) -> int:
        return int(self.moment.timestamp()) * 1_000_000

    def seen(self, *, by_name: bool) -> tuple[Any, ...]:
        where = f"t{self.place}".encode() if by_name else self.degrees
        return str(self.number).encode(), self.micro, where


CROWD = tuple(
    Record(7_000_000_001 + k % 11, (k * 137) % 2_880, k % 3) for k in range(33)
)  # ids that no random line hits
NAMES = frozenset(str(record.number).encode() for record in CROWD)


def wanted(*, by_name: bool = True) -> Seen:
    """What must come out of the crowd."""
    return Counter(record.seen(by_name=by_name) for record in CROWD)


def found(events: Events, *, zones: bool = False) -> Seen:
    """The rows of the crowd among all rows of `events`, a damaged file of a folder left out."""
    events = resolved(events, zones)
    while True:
        try:
            return gathered(rows_of(events), events.user)
        except Damaged as error:
            events = without_damaged(events, error)


def gathered(batches: Iterable[Positions], held: UserEncoding) -> Seen:
    """The rows of the crowd among these; `held`: how their ids are held."""
    there: Seen = Counter()
    for batch in batches:
        users = batch.user.to_pylist()
        times = batch.time.tolist()
        valid = batch.time_valid.tolist() or [True] * len(times)
        if batch.lon is not None and batch.lat is not None:
            where: list[Any] = list(zip(batch.lon.tolist(), batch.lat.tolist(), strict=True))
        else:
            where = [_canonical(value, UserEncoding.TEXT) for value in batch.place.to_pylist()]
        for user, time, known, place in zip(users, times, valid, where, strict=True):
            name = _canonical(user, held)
            if name in NAMES:
                there[name, time if known else None, place] += 1
    return there


def _canonical(value: Any, held: UserEncoding) -> bytes | None:
    if isinstance(value, bytes):
        return value.hex().encode() if held is UserEncoding.BINARY else value
    return None if value is None else str(value).encode()


def described(source: object, *, zones: bool, **options: Any) -> Events:
    return read_events(source, columns=BY_POSITION if zones else BY_NAME, **options)


# --- text --------------------------------------------------------------------------------------

GOOD = ("poison", "2024-01-01T05:00:00Z", "t1", "2.15", "48.05")
"""What a poison person holds where it is not poison."""


def csv_line(fields: Sequence[str | bytes], delimiter: bytes = b",") -> bytes:
    return delimiter.join(f if isinstance(f, bytes) else f.encode() for f in fields)


def crowd_csv(delimiter: bytes = b",") -> list[bytes]:
    return [csv_line(record.fields, delimiter) for record in CROWD]


def crowd_json() -> list[bytes]:
    lines = []
    for k, record in enumerate(CROWD):
        user, time, tower, lon, lat = record.fields
        whom: object = record.number if k % 2 else user
        when: object = record.micro // 1_000_000 if k % 3 == 0 else time
        value = {"user": whom, "time": when, "tower": tower, "lon": float(lon), "lat": lat}
        lines.append(json.dumps(value, ensure_ascii=k % 2 == 0).encode())
    return lines


def _with(**odd: str | bytes) -> list[str | bytes]:
    return [odd.get(name, good) for name, good in zip(FIELDS, GOOD, strict=True)]


_ODD_TEXTS: dict[str, dict[str, str | bytes]] = {
    "empty id": {"user": ""},
    "white space id": {"user": "  \t "},
    "id 007": {"user": "007"},
    "id 7.0": {"user": "7.0"},
    "id 1e3": {"user": "1e3"},
    "id -0": {"user": "-0"},
    "huge number": {"user": "9" * 400},
    "above 64 bits": {"user": str(2**64)},
    "below 64 bits": {"user": str(-(2**63) - 1)},
    "nul id": {"user": b"a\x00b"},
    "only nul": {"user": b"\x00"},
    "bad utf-8": {"user": b"\xff\xfe\xfd", "tower": b"\xc3"},
    "overlong utf-8": {"user": b"\xc0\xaf"},
    "surrogate bytes": {"user": b"\xed\xa0\x80", "tower": b"\xed\xbf\xbf"},
    "beyond unicode": {"user": b"\xf4\x90\x80\x80"},
    "byte order mark": {"user": b"\xef\xbb\xbfpoison"},
    "utf-16": {"user": "poison".encode("utf-16")},
    "right to left": {"user": "\u202epoison\u2066"},
    "line separators": {"user": "a\u2028b\u2029c\x85d\x0be\x0cf"},
    "carriage returns": {"user": b"a\rb", "lat": b"48.05\r\r"},
    "comment sign": {"user": "# poison"},
    "equals": {"user": "=cmd|' /C calc'!A0"},
    "backslash": {"user": "a\\", "tower": "\\"},
    "a megabyte": {"user": "x" * ((1 << 20) - 100)},
    "exactly the longest": {"user": "x" * ((1 << 20) - len(csv_line(GOOD)) + len("poison"))},
    "one too long": {"user": "x" * ((1 << 20) - len(csv_line(GOOD)) + len("poison") + 1)},
    "three megabytes": {"tower": "y" * (3 << 20)},
    "epoch 0": {"time": "0"},
    "negative epoch": {"time": "-1"},
    "epoch in ms": {"time": "1704067200000"},
    "epoch of 400 digits": {"time": "1" * 400},
    "not a number": {"time": "NaN", "lon": "nan", "lat": "NaN"},
    "infinite": {"time": "inf", "lon": "-inf", "lat": "1e999"},
    "text in numbers": {"lon": "n/a", "lat": "-"},
    "decimal comma": {"lon": "2;15", "lat": "48;05"},
    "hexadecimal": {"lon": "0x1p3", "lat": "0b1"},
    "underscores": {"lon": "2_0", "lat": "4_8"},
    "far coordinates": {"lon": "652000.0", "lat": "6862000.0"},
    "swapped coordinates": {"lon": "48.05", "lat": "2.15"},
    "thousand digits": {"lon": "2." + "1" * 1000, "lat": "0" * 1000 + "48"},
    "other digits": {"time": "٢٠٢٤-01-01T00:00:00Z", "lon": "٢"},
    "february 30": {"time": "2024-02-30T00:00:00Z"},
    "leap second": {"time": "2016-12-31T23:59:60Z"},
    "24:00": {"time": "2024-01-01T24:00:00Z"},
    "24:01": {"time": "2024-01-01T24:01:00Z"},
    "offset +18": {"time": "2024-01-01T00:00:00+18:00"},
    "offset -99": {"time": "2024-01-01T00:00:00-99:99"},
    "ten digits": {"time": "2024-01-01T00:00:00.1234567890Z"},
    "a zone's name": {"time": "2024-01-01 00:00:00 Mars/Phobos"},
    "a week date": {"time": "2024-W01-1T00:00:00Z"},
    "american": {"time": "01/02/2024 3:04 PM"},
    "year 0": {"time": "0000-01-01T00:00:00Z"},
    "year 9999": {"time": "9999-12-31T23:59:59.999999+00:00"},
    "no time": {"time": ""},
    "no place": {"tower": "", "lon": "", "lat": ""},
    "null words": {"user": "NULL", "time": "null", "tower": "\\N", "lon": "None"},
}

_RAW_CSV: dict[str, list[bytes]] = {
    "opens a quote, closes it at the end": [
        b'"poison,2024-01-01T05:00:00Z,t1,2.15,48.05',
        b"poison,2024-01-01T06:00:00Z,t1,2.15,48.05",
        b'poison,2024-01-01T07:00:00Z,t1,2.15,48.05"',
    ],
    "opens a quote in the last field": [b'poison,2024-01-01T05:00:00Z,t1,2.15,"48.05', b'"'],
    "opens and never closes": [b'"'],
    "text behind a quote": [b'"poison"x,2024-01-01T05:00:00Z,t1,2.15,48.05'],
    "odd quotes": [b'"""poison"",2024-01-01T05:00:00Z,t1,2.15,48.05', b'po"son,"a"b"c",d,e,f'],
    "a line break in a field": [b'"poi', b'son",2024-01-01T05:00:00Z,t1,2.15,48.05'],
    "too few fields": [b"poison"],
    "too many fields": [csv_line(GOOD) + b",x" * 5000],
    "only delimiters": [b",,,,", b"," * (1 << 16)],
    "the header again": [b"user,time,tower,lon,lat"],
    "another header": [b"time;user;lat;lon;tower"],
    "blank lines": [b"", b"\r", b" ", b"\t"],
    "only nulls": [b"\x00" * 5000],
    "sub and escape": [b"\x1a", b"\x1b[2J", b"\x04"],
    "gzip inside": [gzip.compress(b"user,time,tower\n", mtime=0).replace(b"\n", b"")],
    "parquet inside": [b"PAR1", b"PARE"],
    "a huge line of quotes": [b'"' * (1 << 20)],
    "two megabytes without a field": [b"z" * (2 << 20), b'"' + b"z" * (3 << 20)],
    "escaped with a backslash": [b'"poi\\"son",2024-01-01T05:00:00Z,t1,2.15,48.05', b"\\"],
}

_RAW_JSON: dict[str, list[bytes]] = {
    "an object over lines": [b'{"user": "poison",', b'"time": 0, "tower":', b'"t1"}'],
    "an open object": [b'{"user": "poison", "more": {"a": ['],
    "an open text": [b'{"user": "poi', b'son", "time": 0}'],
    "closing brackets": [b"]}]}", b"}"],
    "a list": [b'[{"user": "poison", "time": 0, "tower": "t1"}]'],
    "two objects": [b'{"user": "poison"} {"user": "poison"}', b'{"user": "poison"},'],
    "words": [b"null", b"true", b"NaN", b"Infinity", b"undefined"],
    "numbers": [b"7", b"1e400", b"-", b"01"],
    "nested values": [
        b'{"user": {"user": "poison"}, "time": [0], "tower": {"t": 1}, "lon": [2], "lat": {}}',
        b'{"user": ["poison"], "time": {"$date": 0}, "tower": ["t1"]}',
    ],
    "duplicate keys": [
        b'{"user": "poison", "user": 7, "user": null, "time": 0, "time": "x", "tower": "t1"}',
        b'{"time": 0, "tower": "t1", "user": "a", "user": "poison"}',
    ],
    "deep nesting": [b'{"user": "poison", "x": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"],
    "deep nesting with an escape": [b'{"user": "\\u0070", "x": ' + b"[" * 50_000 + b"]" * 50_000],
    "every type as id": [
        b'{"user": ' + value + b', "time": 0, "tower": "t1", "lon": 2, "lat": 48}'
        for value in (
            *(b"true", b"false", b"null", b"7", b"7.0", b"-0", b"1e3", b"1e400", b"0.5", b"{}"),
            *(b"[]", b'""', b'" "', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u0000"', b"0e-99999"),
            *(b"9" * 5000, b"0e-999999999", b"1e-999999999", b"1e999999999", b"NaN", b"-Infinity"),
        )
    ],
    "every type as time": [
        b'{"user": "poison", "time": ' + value + b', "tower": "t1", "lon": 2, "lat": 48}'
        for value in (
            *(b"true", b"null", b"1e3", b"1e400", b"-1e18", b"0.1234567891", b"{}", b"[]", b'""'),
            *(b'"0"', b'"2024-01-01"', b"9" * 5000, b'"2024-01-01T05:00:00"', b"1704067200000000"),
        )
    ],
    "every type as place": [
        b'{"user": "poison", "time": 0, "tower": ' + v + b', "lon": ' + v + b', "lat": ' + v + b"}"
        for v in (b"true", b"null", b"7", b"1e400", b"{}", b"[]", b'"n/a"', b'"2.15"', b"-0.0")
    ],
    "other quotes": [b"{'user': 'poison'}", b'{user: "poison"}', b'{"user": "poison",}'],
    "control letters": [b'{"user": "a\x00b"}', b'{"user": "a\tb"}', b"\x00", b"\x1e{}"],
    "byte order mark": [b'\xef\xbb\xbf{"user": "poison", "time": 0, "tower": "t1"}'],
    "bad utf-8": [b'{"user": "\xff", "time": 0}', b'{"\xc3": "\\u0041", "user": "\xed\xa0\x80"}'],
    "a key of another case": [b'{"User": "poison", "TIME": 0, "tower": "t1"}'],
    "blank lines": [b"", b"\r", b" ", b"\t"],
    "parquet inside": [b"PARE", b"PAR1"],
    "gzip inside": [b"\x1f\x8b\x08"],
    "a megabyte": [b'{"user": "' + b"x" * ((1 << 20) - 100) + b'", "time": 0}'],
    "three megabytes": [b'{"user": "poison", "x": "' + b"y" * (3 << 20) + b'"}'],
}


def _json_of(odd: Mapping[str, str | bytes]) -> bytes:
    """The same odd values as JSON text; bytes that are no UTF-8 stay such bytes."""
    parts = []
    for name, value in zip(FIELDS, _with(**odd), strict=True):
        raw = value.encode() if isinstance(value, str) else value
        for letter in range(32):
            raw = raw.replace(bytes([letter]), rb"\u%04x" % letter)
        parts.append(b'"%s": "%s"' % (name.encode(), raw))
    return b"{" + b", ".join(parts) + b"}"


def csv_zoo(delimiter: bytes = b",") -> dict[str, list[bytes]]:
    """Poison people as CSV lines."""
    good = csv_line(GOOD, delimiter)
    zoo = {}
    for name, odd in _ODD_TEXTS.items():
        fields = [f if isinstance(f, bytes) else f.encode() for f in _with(**odd)]
        zoo[name] = [delimiter.join(fields), good, delimiter.join(fields)]
    raw = {name: [x.replace(b",", delimiter) for x in lines] for name, lines in _RAW_CSV.items()}
    return zoo | {f"raw: {name}": lines for name, lines in raw.items()}


def json_zoo() -> dict[str, list[bytes]]:
    """Poison people as lines of JSON."""
    good = _json_of({})
    zoo = {name: [_json_of(odd), good, _json_of(odd)] for name, odd in _ODD_TEXTS.items()}
    return zoo | {f"raw: {name}": lines for name, lines in _RAW_JSON.items()}


# --- where u stands, and how lines become files ------------------------------------------------


def _around(crowd: Lines, u: Lines) -> list[bytes]:
    return [*u[:1], *crowd, *u[1:]]


PLACEMENTS: dict[str, Callable[[Lines, Lines], list[bytes]]] = {
    "head": lambda crowd, u: [*u, *crowd],
    "middle": lambda crowd, u: [*crowd[:16], *u, *crowd[16:]],
    "end": lambda crowd, u: [*crowd, *u],
    "around": _around,
}


def split(lines: Lines, files: int) -> Iterator[list[bytes]]:
    """Contiguous parts of nearly equal size: with two files, a person in the middle is cut."""
    for k in range(files):
        yield list(lines[k * len(lines) // files : (k + 1) * len(lines) // files])


def written(
    folder: Path, lines: Lines, *, files: int, header: bytes | None, ending: str, cut: bool = False
) -> Path:
    """A folder of text files with these lines; `cut`: the last line has no end."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, part in enumerate(split(lines, files)):
        whole = [header, *part] if header is not None else part
        data = b"".join(line + b"\n" for line in whole)
        if cut and part:
            data = data[:-1]
        path = folder / f"part-{k}{ending}"
        path.write_bytes(gzip.compress(data, 1) if ending.endswith(".gz") else data)
    return folder
