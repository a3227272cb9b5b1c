"""A small city, its people, the extreme person who joins them, and files that hold their records.

Every input of a comparison is `PEOPLE`, or `PEOPLE` and what one more unit did. What that unit does
strains the readers (spelling, ends of time and place, rows that cannot be read), what is bounded
(many rows, every place, one place all the time) and what is public (sizes, types, names of files).
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

import pyarrow as pa
import pyarrow.parquet as pq

DAYS, SLOTS = 2, 48
BEGINNING = datetime(2024, 3, 4)
TOWERS = {f"t{k}": (2.30 + 0.02 * (k % 3), 48.80 + 0.02 * (k // 3)) for k in range(6)}
REGION = "2.28,48.78,2.36,48.84"
EXPECTED = 300


class Row(NamedTuple):
    """A record as text, at a tower and at the same place in degrees."""

    user: str
    time: str
    tower: str
    lon: str
    lat: str


def at(user: str, minute: float, tower: int, zone: str = "Z") -> Row:
    """A record so many minutes after the period begins."""
    name = f"t{tower}"
    time = (BEGINNING + timedelta(minutes=minute)).isoformat(timespec="seconds")
    return Row(user, time + zone, name, *map(str, TOWERS[name]))


def crowd(seed: int, people: int) -> list[Row]:
    """People with a home who take short ways; the same seed gives the same people."""
    luck = random.Random(seed)
    rows = []
    for user in range(people):
        home = luck.randrange(6)
        for hour in range(SLOTS):
            if luck.random() < 0.2:
                minute = 60 * hour + luck.randrange(45)
                for step in range(luck.randrange(1, 4)):
                    tower = home if luck.random() < 0.7 else luck.randrange(6)
                    rows.append(at(str(1000 + user), minute + 5 * step, tower))
    luck.shuffle(rows)
    return rows


REGULAR = "1000"
"""Somebody who is among the people on the second day alone, so that a unit of the first is new."""
PEOPLE = [row for row in crowd(5, 60) if row.user != REGULAR or row.time >= "2024-03-05"]
MODEL = crowd(11, 80)
"""Other people, as a public model makes them: what answers that look true are taken from."""


# What one more person does. Each is one user's whole record.

LONG = "~" * 70_000
"""An id longer than a reader's line or a page of a column chunk, which sorts last."""


def heavy() -> list[Row]:
    """Every place in every slot, and one record four thousand times over."""
    rows = [at("one", 60 * hour + 5 * tower, tower) for hour in range(SLOTS) for tower in range(6)]
    return rows + [at("one", 61, 1)] * 4000


def settled() -> list[Row]:
    """One place in every slot."""
    return [at("one", 60 * hour + 5, 0) for hour in range(SLOTS)]


def roaming() -> list[Row]:
    """A new place in every slot."""
    return [at("one", 60 * hour + 5, hour % 6) for hour in range(SLOTS)]


def travelling() -> list[Row]:
    """On the way all day long, a place every five minutes."""
    return [at("one", 360 + minute, minute // 5 % 6) for minute in range(0, 600, 5)]


def once() -> list[Row]:
    """One record."""
    return [at("one", 370, 1)]


def unreadable() -> list[Row]:
    """The ends of time and of the globe, fields that are none, and ids that are hard to tell."""
    user, good = LONG, at(LONG, 0, 0)
    times = (
        *("2024-03-03T23:59:59.999999Z", "2024-03-05T23:59:59.999999Z", "2024-03-06T00:00:00Z"),
        *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "1970-01-01", "", "NaT", "noon"),
        *("1709510400", "1709510400000", "1e400", "-9223372036854775808", "2024-03-04 06:00:00+14"),
        *("04.03.2024 06:00", "2024-02-30T00:00:00Z", "2024-03-04T24:00:00Z", "٢٠٢٤-٠٣-٠٤"),
    )
    coordinates = (
        *(("180", "90"), ("-180.0000001", "-90"), ("181", "91"), ("nan", "inf"), ("2,30", "48,80")),
        *(("2.32", "48.81"), ("2.28", "48.78"), ("2.36", "48.84"), ("0x1p3", "1e308"), ("", "")),
        *(("−2.3", "4８.8"), ("2.3 ", " 48.8"), ("TRUE", "NULL"), ("1" * 400, "-0")),
    )
    towers = ("", "t9", "T0", "t0 ", "t\u0000", 't"0', "t0\nt1", "\u202et0", "\\N", "é" * 5000)
    return [
        *(good._replace(time=time) for time in times),
        *(good._replace(lon=lon, lat=lat) for lon, lat in coordinates),
        *(good._replace(tower=tower) for tower in towers),
        *[at(user, 2879.5, 5)] * 5,
    ]


def nameless() -> list[Row]:
    """An id that sorts first and is hardly there, with records at the very ends of the period."""
    return [
        at(" ", minute, tower, zone)
        for minute, tower, zone in (
            (0, 0, "Z"),
            (2879.99, 5, "+00:00"),
            (120, 3, "z"),
            (2999, 2, "+02:00"),
        )
    ]


def everything() -> list[Row]:
    """All of it under one id, the last of all."""
    parts = (unreadable(), heavy(), travelling(), nameless())
    return [row._replace(user=LONG[:300]) for part in parts for row in part]


PERSONS: Mapping[str, Callable[[], list[Row]]] = {
    each.__name__: each
    for each in (
        everything, heavy, settled, roaming, travelling, once, unreadable, nameless
    )
}  # fmt: skip


SPELLED = ("everything", "unreadable", "nameless")
"""Those whose records strain readers: they stay whole, whatever the unit is."""


def one_unit(unit: str, rows: Sequence[Row]) -> list[Row]:
    """The part of a person's records that is one unit, of somebody who is there at other times.

    Of a day, those of the first; of a window of six hours, those of the first window; of an event,
    one of the first day; of a trip, those before the first pause of more than twenty minutes.
    """
    end = BEGINNING + timedelta(hours={"user-day": 24, "event": 24}.get(unit, 6))
    mine: list[Row] = []
    for row in sorted(rows, key=lambda row: row.time):
        time = datetime.fromisoformat(row.time).replace(tzinfo=None)
        pause = time - datetime.fromisoformat(mine[-1].time).replace(tzinfo=None) if mine else None
        if time >= end or (unit == "event" and mine):
            break
        if unit == "trajectory" and pause is not None and pause > timedelta(minutes=20):
            break
        mine.append(row._replace(user=REGULAR))
    return mine


# Of traces it is hidden where somebody was, and not when: neighbours differ in places alone.

CORNERS = (("180", "90"), ("-180", "-90"), ("0", "0"), ("2.28", "48.84"), ("179.9999999", "-89.99"))


def moved(where: str) -> list[Row]:
    """One person's records at the same instants, still, nearby or all over the globe."""
    rows = [at("one", 30 * k, 0) for k in range(2 * SLOTS)]
    if where == "nearby":  # within 150 m
        step = 0.001
        return [
            row._replace(lon=f"{2.30 + step * (k % 3 - 1)}", lat=f"{48.80 + step * (k % 2)}")
            for k, row in enumerate(rows)
        ]
    if where == "anywhere":
        return [
            row._replace(lon=CORNERS[k % 5][0], lat=CORNERS[k % 5][1]) for k, row in enumerate(rows)
        ]
    return rows


def elsewhere(rows: Sequence[Row], seed: int) -> list[Row]:
    """The same people at the same instants at other places."""
    luck = random.Random(seed)
    places = list(TOWERS.items())
    return [
        row._replace(tower=name, lon=str(lon), lat=str(lat))
        for row in rows
        for name, (lon, lat) in (luck.choice(places),)
    ]


# Files. Each format says how the person's records are kept beside the others'.

Writer = Callable[[Path, Sequence[Row], Sequence[Row]], Path]
HEADER = ("who", "when", "tower", "lon", "lat")
COLUMNS = {"user": "who", "time": "when", "place": "tower", "lon": "lon", "lat": "lat"}


def _mixed(people: Sequence[Row], person: Sequence[Row]) -> list[Row]:
    """The person's first record comes first, the others anywhere among everybody's."""
    rows = [*people, *person[1:]]
    random.Random(9).shuffle(rows)
    return [*person[:1], *rows]


def _text(rows: Sequence[Row]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
    return file.getvalue()


_BROKEN = b'"\nno fields\n,,,,,,,,,\n\xff\xfe\x00,"a\n' + b"x" * 100_000 + b"\n"
"""Lines of a person that are no records at all."""


def write_csv(folder: Path, people: Sequence[Row], person: Sequence[Row]) -> Path:
    """One text file."""
    path = folder / "events.csv"
    broken = _BROKEN if len(person) > 1 else b""
    path.write_bytes(_text(_mixed(people, person)).encode() + broken)
    return path


def write_gzip(folder: Path, people: Sequence[Row], person: Sequence[Row]) -> Path:
    """A compressed text file: its size says how alike records are."""
    path = folder / "events.csv.gz"
    path.write_bytes(gzip.compress(_text(_mixed(people, person)).encode(), mtime=0))
    return path


def write_folder(folder: Path, people: Sequence[Row], person: Sequence[Row]) -> Path:
    """A folder in which the person has a file alone, and one that is empty."""
    path = folder / "events"
    path.mkdir()
    (path / "part-1.csv").write_text(_text(people))
    if person:
        (path / "part-0.csv").write_text(_text(person))
        (path / "part-2.csv").write_text("")
    return path


def write_ndjson(folder: Path, people: Sequence[Row], person: Sequence[Row]) -> Path:
    """Lines of JSON; the person's are of other types, nested, or no JSON."""
    path = folder / "events.ndjson"
    lines = [json.dumps(dict(zip(HEADER, row, strict=True))) for row in _mixed(people, person)]
    if len(person) > 1:
        lines += ['{"who": 1, "when": 2, "tower": [], "lon": {}}', "[1]", "nonsense", "{" * 300]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _table(rows: Sequence[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * 5
    return pa.table(
        {name: pa.array(c, pa.string()) for name, c in zip(HEADER, columns, strict=True)}
    )


def write_parquet(folder: Path, people: Sequence[Row], person: Sequence[Row]) -> Path:
    """Columns of text with dictionaries, in small groups; the person's make them overflow."""
    path = folder / "events.parquet"
    pq.write_table(_table(_mixed(people, person)), path, row_group_size=700,
                   dictionary_pagesize_limit=2048, compression="zstd")  # fmt: skip
    return path


def write_parts(folder: Path, people: Sequence[Row], person: Sequence[Row]) -> Path:
    """A folder of Parquet in which the person has files alone, one without a row."""
    path = folder / "events"
    path.mkdir()
    pq.write_table(_table(people), path / "b.parquet")
    if person:
        pq.write_table(_table(person), path / "a.parquet", use_dictionary=False)
        pq.write_table(_table([]), path / "c.parquet")
    return path


# Formats with a file a person, whose places are coordinates alone.


def _file_of(user: str) -> str:
    """The number in a file's name; the extreme person's is the last that can be."""
    return user if user.isdecimal() and user.isascii() else "99999"


def _instant(time: str) -> datetime | None:
    try:
        instant = datetime.fromisoformat(time)
        return instant.astimezone(UTC) if 1900 < instant.year < 9000 else None
    except ValueError:
        return None


def _by_file(people: Sequence[Row], person: Sequence[Row]) -> dict[str, list[Row]]:
    files: dict[str, list[Row]] = {}
    for row in (*people, *person):
        files.setdefault(_file_of(row.user), []).append(row)
    return files


def write_tdrive(folder: Path, people: Sequence[Row], person: Sequence[Row]) -> Path:
    """Text files of taxis; the person's has lines of all kinds."""
    path = folder / "events"
    path.mkdir()
    for name, rows in _by_file(people, person).items():
        beijing = timedelta(hours=8)
        times = [_instant(row.time) for row in rows]
        lines = [
            f"{name},{row.time if t is None else f'{t + beijing:%Y-%m-%d %H:%M:%S}'},"
            f"{row.lon},{row.lat}\n"
            for row, t in zip(rows, times, strict=True)
        ]
        (path / f"{name}.txt").write_text("".join(lines), "utf-8")
    return path


def write_cabspotting(folder: Path, people: Sequence[Row], person: Sequence[Row]) -> Path:
    """Text files of cabs, seconds since 1970."""
    path = folder / "events"
    path.mkdir()
    for name, rows in _by_file(people, person).items():
        times = [_instant(row.time) for row in rows]
        lines = [
            f"{row.lat} {row.lon} 0 {row.time if t is None else f'{t.timestamp():.0f}'}\n"
            for row, t in zip(rows, times, strict=True)
        ]
        (path / f"new_{name}.txt").write_text("".join(lines), "utf-8")
    return path


def write_geolife(folder: Path, people: Sequence[Row], person: Sequence[Row]) -> Path:
    """A folder a person; the extreme one has a trip of garbage besides."""
    path = folder / "events"
    for name, rows in _by_file(people, person).items():
        trips = path / name / "Trajectory"
        trips.mkdir(parents=True)
        times = [_instant(row.time) for row in rows]
        lines = [
            f"{row.lat},{row.lon},0,0,0,{row.time if t is None else f'{t:%Y-%m-%d,%H:%M:%S}'}\n"
            for row, t in zip(rows, times, strict=True)
        ]
        (trips / "20240304.plt").write_text("header\n" * 6 + "".join(lines), "utf-8")
        if name == "99999":
            (trips / "20240305.plt").write_bytes(_BROKEN)
    return path


def write_gpx(folder: Path, people: Sequence[Row], person: Sequence[Row]) -> Path:
    """A track a person; the extreme one has a file that is no XML besides."""
    path = folder / "events"
    path.mkdir()
    for name, rows in _by_file(people, person).items():
        points = "".join(
            f"<trkpt lon={quoteattr(row.lon)} lat={quoteattr(row.lat)}><time>"
            f"{escape(row.time)}</time></trkpt>"
            for row in rows
        )
        track = f"<gpx><trk><trkseg>{points}</trkseg></trk></gpx>"
        (path / f"{name}.gpx").write_text(track, "utf-8")
        if name == "99999":
            (path / f"{name}0.gpx").write_bytes(_BROKEN)
    return path


NATIVE: Mapping[str, Writer] = {
    "tdrive": write_tdrive,
    "cabspotting": write_cabspotting,
    "geolife": write_geolife,
    "gpx": write_gpx,
}
FORMATS: Mapping[str, Writer] = {
    "csv": write_csv,
    "csv.gz": write_gzip,
    "folder of csv": write_folder,
    "ndjson": write_ndjson,
    "parquet": write_parquet,
    "folder of parquet": write_parts,
    **NATIVE,
}


def write_city(folder: Path) -> None:
    """The public files: towers and zones."""
    lines = [f"{name},{lon},{lat}\n" for name, (lon, lat) in TOWERS.items()]
    (folder / "towers.csv").write_text("tower_id,lon,lat\n" + "".join(lines))
    squares = [(2.29 + 0.03 * (k % 2), 48.79 + 0.03 * (k // 2)) for k in range(4)]
    zones = [
        {
            "type": "Feature",
            "properties": {"zone_id": f"z{k}"},
            "geometry": {
                "type": "Polygon",
                "coordinates": [
                    [[x, y], [x + 0.03, y], [x + 0.03, y + 0.03], [x, y + 0.03], [x, y]]
                ],
            },
        }
        for k, (x, y) in enumerate(squares)
    ]
    collection = {"type": "FeatureCollection", "features": zones}
    (folder / "zones.geojson").write_text(json.dumps(collection))
