"""One person's record decides about that record: nothing is refused and nobody else is lost.

Through `sfumato release`, with neighbouring data. Each of these pairs once moved everybody's
numbers or stopped the release, which tells that the person is there.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from typer.testing import CliRunner, Result

from sfumato.cli.main import app

pytestmark = pytest.mark.privacy
PEOPLE = 300
NOISE = 40
"""At ε 1 and one record a person, a cell is off by this once in e⁴⁰ releases."""
NOON = "2024-03-04T12:00:00Z"
SECONDS = 1_709_553_600
TOWERS = ("t0", "t1", "t2")


def position(k: int) -> tuple[float, float]:
    return 2.05 + (k % 3) / 10, 48.05


class Holder:
    """Places, a ledger with room, and releases of one day with three cells."""

    def __init__(self, home: Path) -> None:
        self.home = home
        rows = "".join(f"{name},{2.05 + k / 10},48.05\n" for k, name in enumerate(TOWERS))
        (home / "towers.csv").write_text("cell_id,lon,lat\n" + rows)
        features = [
            {
                "type": "Feature",
                "properties": {"zone_id": name},
                "geometry": json.loads(
                    shapely.to_geojson(shapely.box(2 + k / 10, 48, 2.1 + k / 10, 48.1))
                ),
            }
            for k, name in enumerate(TOWERS)
        ]
        collection = {"type": "FeatureCollection", "features": features}
        (home / "zones.geojson").write_text(json.dumps(collection))
        self._numbers = count()
        caps = ("--cap-epsilon", "100", "--cap-delta", "1e-3")
        self._run("ledger", "init", "--dataset", "city", *caps)

    def _run(self, *arguments: str) -> Result:
        ledger = str(self.home / "books" / "ledger.sqlite")
        return CliRunner().invoke(app, [*arguments, "--ledger", ledger])

    def release(self, events: Path, *more: str, places: str = "towers") -> list[float] | None:
        """The published numbers by place, or nothing if it was refused."""
        out = self.home / f"out{next(self._numbers)}"
        place = "towers.csv" if places == "towers" else "zones.geojson"
        settings = {
            f"--{places}": str(self.home / place),
            "--from": "2024-03-04",
            "--to": "2024-03-05",
            "--slot": "1d",
            "--tz": "UTC",
            "--epsilon": "1",
            "--delta": "1e-6",
            "--dataset": "city",
            "--scheme": "laplace",
            "--bound": "sample:1",
            "--out": str(out),
        }
        flags = [text for pair in settings.items() for text in pair]
        result = self._run("release", str(events), *flags, *more)
        assert result.exit_code == (0 if out.exists() else result.exit_code)
        if result.exit_code:
            assert "Traceback" not in result.output
            return None
        with (out / "density.csv").open() as file:
            rows = sorted(csv.DictReader(file), key=lambda row: row["zone_id"])
        return [float(row["count"]) for row in rows]


@pytest.fixture
def holder(tmp_path: Path) -> Holder:
    return Holder(tmp_path)


def everybody(numbers: list[float] | None, people: int = PEOPLE) -> bool:
    return numbers is not None and all(abs(n - people / 3) < NOISE for n in numbers)


def crowd_csv(time: Callable[[int], str] = lambda _: NOON) -> list[str]:
    return [f"p{k},{time(k)},t{k % 3}" for k in range(PEOPLE)]


def put(path: Path, header: str, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_one_record_without_coordinates_does_not_turn_names_into_places(holder: Holder) -> None:
    """A place and coordinates, in zones: which of them counts is said, not seen in the rows."""
    header = "user,time,cell,lon,lat"
    crowd = []
    for k in range(PEOPLE):
        lon, lat = position(k)
        crowd.append(f"p{k},{NOON},antenna{k},{lon},{lat}")
    odd = [f"u,{NOON},t0,n/a,48.05"]
    for u in ([], odd * 600):
        events = put(holder.home / f"e{len(u)}.csv", header, [*u, *crowd])
        assert holder.release(events, places="zones") is None
        said = ("--column", "lon=lon", "--column", "lat=lat")
        assert everybody(holder.release(events, *said, places="zones")), len(u)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_unit_of_epochs_is_not_seen_in_the_rows(kind: str, holder: Holder) -> None:
    said = ("--time-unit", "s")
    odd = [("u", -(2**63) + k) for k in range(500)] + [("u", SECONDS * 1000)] * 600
    for u in ([], odd):
        rows = [*u, *((f"p{k}", SECONDS) for k in range(PEOPLE))]
        events = holder.home / f"e{len(u)}.{kind}"
        where = [f"t{k % 3}" for k in range(len(rows))]
        if kind == "csv":
            lines = [f"{a},{t},{p}" for (a, t), p in zip(rows, where, strict=True)]
            put(events, "user,time,tower", lines)
            # A column of text is ISO 8601 where nothing says that numbers are written in it.
            assert everybody(holder.release(events), 0)
        else:
            users, times = zip(*rows, strict=True)
            columns = {"user": users, "time": pa.array(times, pa.int64()), "tower": where}
            pq.write_table(pa.table(columns), events)
            assert holder.release(events) is None
        assert everybody(holder.release(events, *said)), len(u)


def test_a_quote_that_one_person_opens_and_closes_swallows_nobody(holder: Holder) -> None:
    first, last = [f'"u,{NOON},t0'], [f'u,{NOON},t0"']
    crowd = crowd_csv()
    for k, lines in enumerate(([*first, *crowd, *last], [*first, *crowd], [*crowd, *last])):
        events = put(holder.home / f"e{k}.csv", "user,time,tower", lines)
        assert everybody(holder.release(events)), k


def test_lines_of_json_stand_alone(holder: Holder) -> None:
    crowd = [
        json.dumps({"user": f"p{k}", "time": NOON, "tower": f"t{k % 3}"}) for k in range(PEOPLE)
    ]
    odd = ['{"user": 7, "time": 0, "tower": 3}', '{"user": "u", "x": {']
    path = holder.home / "e.ndjson"
    path.write_text("\n".join([*odd, *crowd, "}}"]))
    assert everybody(holder.release(path, "--column", "place=tower"))


ODD_RECORDS = {
    "one unclosed quote": '"',
    "one epoch": "u,1709553600,t0",
    "one odd epoch": "u,-99999999999999999999999,t0",
    "one unparsable time": "u,yesterday,t0",
    "no time": "u,,t0",
    "more fields": f"u,{NOON},t0,t1",
    "fewer fields": "u",
    "one long record": "u" * (3 << 20),
    "a null": f"u\0,{NOON},t0",
}


def test_odd_records_stop_no_release(holder: Holder) -> None:
    lines = [*ODD_RECORDS.values(), *crowd_csv(), *reversed(ODD_RECORDS.values())]
    assert everybody(holder.release(put(holder.home / "e.csv", "user,time,tower", lines)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD_RECORDS)
def test_one_odd_record_stops_no_release(name: str, holder: Holder) -> None:
    header, crowd = "user,time,tower", crowd_csv()
    for k, lines in enumerate(([ODD_RECORDS[name], *crowd], [*crowd, ODD_RECORDS[name]])):
        events = put(holder.home / f"e{k}.csv", header, lines)
        assert everybody(holder.release(events))


def test_one_byte_that_is_no_text_stops_no_release(holder: Holder) -> None:
    odd = f"\udcff\udcfe,{NOON},t0\nu,{NOON},\udce9".encode(errors="surrogateescape")
    path = holder.home / "e.csv"
    path.write_bytes("\n".join(["user,time,tower", *crowd_csv()]).encode() + b"\n" + odd)
    assert everybody(holder.release(path))
    users = pa.array([*(f"p{k}".encode() for k in range(PEOPLE)), b"\xff"]).view(pa.string())
    columns = {
        "user": users,
        "time": pa.array([SECONDS * 10**6] * (PEOPLE + 1), pa.timestamp("us", "UTC")),
        "tower": [f"t{k % 3}" for k in range(PEOPLE + 1)],
    }
    pq.write_table(pa.table(columns), holder.home / "e.parquet")
    assert everybody(holder.release(holder.home / "e.parquet"))


def test_one_odd_coordinate_stops_no_release(holder: Holder) -> None:
    for k, odd in enumerate((f"u,{NOON},east,north", f"u,{NOON},1e999,nan", f"u,{NOON},,")):
        crowd = [f"p{k},{NOON},{position(k)[0]},{position(k)[1]}" for k in range(PEOPLE)]
        events = put(holder.home / f"e{k}.csv", "user,time,lon,lat", [odd, *crowd])
        assert everybody(holder.release(events, places="zones"))


def test_nobody_is_an_answer_too(holder: Holder) -> None:
    """Header only, no bytes at all, an empty folder, no rows: zeros and noise, not a refusal."""
    header = put(holder.home / "header.csv", "user,time,tower", [])
    (holder.home / "nothing.csv").write_bytes(b"")
    (holder.home / "empty").mkdir()
    none = pa.table(
        {
            "user": pa.array([], pa.string()),
            "time": pa.array([], pa.timestamp("us", "UTC")),
            "tower": pa.array([], pa.string()),
        }
    )
    pq.write_table(none, holder.home / "none.parquet")
    one = put(holder.home / "one.csv", "user,time,tower", [f"u,{NOON},t0"])
    for name in ("nothing.csv", "empty", "none.parquet"):
        assert everybody(holder.release(holder.home / name), 0), name
    assert everybody(holder.release(header), 0)
    assert everybody(holder.release(one), 0)


OWN_FILES = {
    "u.csv": b"",
    "v.csv": b"user,time,tower\n",
    "w.csv": b"time;tower;user\n2024-03-04T12:00:00Z;t0;u\n",
    "x.csv": b"a,b,c\n1,2,3\n",
    "y.csv.gz": gzip.compress(b"user,time,tower\n" * 99)[:-9],
    "z.parquet": b"PAR1",
}


def folder_of_people(holder: Holder) -> Path:
    folder = holder.home / "people"
    for k in range(0, PEOPLE, 10):
        put(folder / f"p{k:03}.csv", "user,time,tower", crowd_csv()[k : k + 10])
    return folder


def test_with_a_file_per_person_no_file_stops_the_others(holder: Holder) -> None:
    folder = folder_of_people(holder)
    for name, content in OWN_FILES.items():
        (folder / name).write_bytes(content)
    assert everybody(holder.release(folder))


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN_FILES)
def test_with_a_file_per_person_one_file_stops_nobody(name: str, holder: Holder) -> None:
    folder = folder_of_people(holder)
    (folder / name).write_bytes(OWN_FILES[name])
    assert everybody(holder.release(folder))
