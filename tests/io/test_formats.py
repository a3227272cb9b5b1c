"""One registry: the same fixes in every format are the same release, stream and traces.

The folders are small copies of what is distributed: T-Drive, Cabspotting, Geolife, tracks.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.docs.pages import ROOT
from typer.testing import CliRunner, Result

import sfumato
from sfumato.cli.main import app
from sfumato.engine.local import LocalSource
from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.geography.places import PlaceOptions
from sfumato.io.beforehand import of_fleet
from sfumato.io.events import FORMATS, all_rows, format_of, read_events, resolved
from sfumato.io.files import Located
from sfumato.io.inspect import look as inspect
from sfumato.io.traces import read_traces
from sfumato.model.time_grid import period_of

START = datetime(2008, 2, 3, 16, tzinfo=UTC)  # Monday, 00:00 in Beijing
Fix = tuple[str, datetime, float, float]
FIXES: list[Fix] = [
    (
        str(person),
        START + timedelta(minutes=90 * k + 7 * person),
        round(116.31 + (person * 3 + k) % 9 / 100, 5),
        round(39.91 + person * k % 7 / 100, 5),
    )
    for person in range(1, 7)
    for k in range(16)
]
PEOPLE = sorted({fix[0] for fix in FIXES})
BOX = "116.3,39.9,116.42,40.0"
WHEN = ("--from", "2008-02-04", "--to", "2008-02-05")
PLT_HEAD = "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My Track\n0\n"


def of(person: str) -> list[Fix]:
    return [fix for fix in FIXES if fix[0] == person]


def csv(folder: Path, people: list[str]) -> None:
    lines = [f"{u},{t:%Y-%m-%dT%H:%M:%SZ},{x},{y}" for p in people for u, t, x, y in of(p)]
    (folder / "events.csv").write_text("\n".join(["user,time,lon,lat", *lines]) + "\n")


def tdrive(folder: Path, people: list[str]) -> None:
    home = folder / "taxi_log_2008_by_id"
    home.mkdir()
    for person in people:
        lines = [
            f"{u},{t + timedelta(hours=8):%Y-%m-%d %H:%M:%S},{x},{y}" for u, t, x, y in of(person)
        ]
        (home / f"{person}.txt").write_text("\n".join(lines) + "\n")


def cabspotting(folder: Path, people: list[str]) -> None:
    for person in people:
        lines = [f"{y} {x} 0 {int(t.timestamp())}" for _, t, x, y in reversed(of(person))]
        (folder / f"new_{person}.txt").write_text("\n".join(lines) + "\n")


def geolife(folder: Path, people: list[str]) -> None:
    for person in people:
        home = folder / "Data" / person / "Trajectory"
        home.mkdir(parents=True)
        for part, fixes in enumerate((of(person)[:9], of(person)[9:])):
            lines = [f"{y},{x},0,492,39744.12,{t:%Y-%m-%d},{t:%H:%M:%S}" for _, t, x, y in fixes]
            (home / f"2008020{part}.plt").write_text(PLT_HEAD + "\r\n".join(lines) + "\r\n")
        (home.parent / "labels.txt").write_text("Start Time\tEnd Time\tTransportation Mode\n")


def gpx(folder: Path, people: list[str]) -> None:
    for person in people:
        points = "".join(
            f'<trkpt lat="{y}" lon="{x}"><time>{t:%Y-%m-%dT%H:%M:%SZ}</time></trkpt>'
            for _, t, x, y in of(person)
        )
        (folder / f"{person}.gpx").write_text(
            f'<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>{points}</trkseg></trk></gpx>'
        )


def track(folder: Path, people: list[str]) -> None:
    for person in people:
        lines = [f"{int(t.timestamp()) // 60};{x};{y}" for _, t, x, y in of(person)]
        (folder / f"{person}.track").write_text("\n".join(["Model 7", *lines]) + "\n")


def mixed(folder: Path, people: list[str]) -> None:
    for k, write in enumerate((csv, tdrive, cabspotting, geolife, gpx)):
        write(folder, people[k::5])


WRITERS = {write.__name__: write for write in (csv, tdrive, cabspotting, geolife, gpx, mixed)}
NATIVE = [name for name in WRITERS if name != "csv"]


def made(folder: Path, kind: str) -> Path:
    home = folder / kind
    home.mkdir()
    WRITERS[kind](home, PEOPLE)
    return home


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None:
        raise done.exception
    return done


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, where every ledger gives the same keys."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("secrets.token_bytes", lambda size: bytes(range(size)))
    return tmp_path


def ledger(name: str) -> tuple[str, str]:
    book = ("--ledger", f"{name}.sqlite")
    for unit in ("user-period", "user-day", "point:20m"):
        cap = ("--cap-epsilon", "99", "--cap-delta", "1e-6", "--unit", unit)
        run("ledger", "init", "--dataset", "taxis", *cap, *book)
    return book


COUNTED = (*WHEN, "--tz", "Asia/Shanghai", "--slot", "6h", "--grid", "4km", "--region", BOX)
SPENT = ("--dataset", "taxis", "--expected-users", "1000")
RELEASE = (
    *COUNTED,
    *SPENT,
    "--scheme",
    "laplace",
    "--bound",
    "sample:2",
    "--epsilon",
    "1",
    "--anyway",
)
STREAM = (*COUNTED, *SPENT, "--scheme", "sample", "--epsilon", "1")
NOISE = ("--most-reports", "20", "--expected-noise", "100m")
DAYS = ("--from", "2008-02-03", "--to", "2008-02-05")  # of UTC
TRACES = (*DAYS, "--dataset", "taxis", "--name", "t", *NOISE)


def released(source: str, name: str, *more: str) -> list[Any]:
    """What a release, a stream and sanitised traces of a source publish, under the fixed key."""
    book = ledger(name)
    more = (*more, *book)
    run("release", source, *RELEASE, "--delta", "1e-6", "--out", f"{name}-r", "--name", "r", *more)
    run("stream", source, *STREAM, "--out", f"{name}-s", "--name", "s", *more)
    run("sanitise", source, *TRACES, "--out", f"{name}-t", *more)
    slots = sorted(Path(f"{name}-s").rglob("part-0.parquet"))
    traces = pq.read_table(f"{name}-t/traces.parquet").to_pandas()
    return [
        pq.read_table(f"{name}-r/density.parquet").to_pydict(),
        [pq.ParquetFile(slot).read().to_pydict() for slot in slots],
        sorted(map(tuple, traces[["user", "time", "lon", "lat"]].to_numpy().tolist())),
    ]


def test_the_same_fixes_are_the_same_numbers_by_every_command(here: Path) -> None:
    wanted = released(str(made(here, "csv") / "events.csv"), "table")
    assert len(wanted[1]) == 4
    assert len(wanted[2]) == len(FIXES)
    for kind in NATIVE:
        found = released(str(made(here, kind)), f"of-{kind}")
        if kind == "mixed":  # people are met in another order, by which the noise is drawn
            assert len(found.pop()) == len(FIXES)
        assert found == wanted[: len(found)], kind


def test_a_native_folder_from_python_is_released_once(here: Path) -> None:
    folder = made(here, "tdrive")
    ledger("book")
    asked: dict[str, Any] = {
        "start": "2008-02-04", "end": "2008-02-05", "tz": "Asia/Shanghai", "slot": "6h",
        "grid": "4km", "region": BOX, "dataset": "taxis", "expected_users": 1000,
        "scheme": "laplace", "bound": "sample:2", "epsilon": 1.0, "delta": 1e-6,
        "ledger": "book.sqlite", "anyway": True,
    }  # fmt: skip
    first = sfumato.release(folder, out="one", format="tdrive", **asked)
    assert first.how == "new"
    again = sfumato.release(folder, out="one", **asked)
    assert again.how == "already", "recognised by the names as well"
    (folder / "taxi_log_2008_by_id" / "3.txt").write_text("")
    with pytest.raises(SfumatoError):
        sfumato.release(folder, out="one", **asked)


def source_of(folder: Path, **options: Any) -> LocalSource:
    grid = period_of("2008-02-04", "2008-02-05", "6h", "Asia/Shanghai")
    places = PlaceOptions(grid="4km", region=BOX).open(period=grid, tz=grid.tz)
    return LocalSource(read_events(folder, **options), places.counted, grid)


def test_the_fingerprint_is_of_contents_readings_and_whose_file_it_is(tmp_path: Path) -> None:
    folder, key = made(tmp_path, "cabspotting"), bytes(32)
    first = source_of(folder).fingerprint(key)
    moved = folder.rename(tmp_path / "elsewhere")
    assert source_of(moved).fingerprint(key) == first
    (moved / "new_6.txt").rename(moved / "new_7.txt")
    assert source_of(moved).fingerprint(key) != first
    taxis = made(tmp_path, "tdrive")
    prints = {source_of(taxis, format=name).fingerprint(key) for name in ("tdrive", "cabspotting")}
    assert len(prints) == 2


# --- names decide ------------------------------------------------------------------------------


@pytest.mark.privacy
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("1.txt", "tdrive"),
        ("10357.txt", "tdrive"),
        ("123456.txt", "csv"),
        ("20240304.txt", "csv"),
        ("007.txt", "csv"),
        ("1.txt.gz", "csv"),
        ("taxi.txt", "csv"),
        ("new_abboip.txt", "cabspotting"),
        ("new_1.csv", "csv"),
        ("20081023.plt", "geolife"),
        ("Ada.GPX", "gpx"),
        ("part-0.parquet", "parquet"),
        ("x.jsonl", "ndjson"),
        ("part-0", "csv"),
    ],
)
def test_a_file_is_told_by_its_name(tmp_path: Path, name: str, kind: str) -> None:
    for content in (b"", b"user,time,lon,lat\n", b"1,2008-02-02 15:36:08,116.5,39.9\n", b"\xff"):
        (tmp_path / name).write_bytes(content)
        assert format_of(Located(tmp_path / name, named=True)).name == kind


def test_a_format_that_is_said_wins_over_names(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("user,lon,lat,time\na,116.3,39.9,2008-02-04T00:00:00Z\n")
    (tmp_path / "taxi.txt").write_text("9,2008-02-04 08:00:00,116.3,39.9\n")
    for said, person in (("csv", "a"), ("tdrive", "9")):
        traces, _ = read_traces(tmp_path, format=said)
        assert traces.names[traces.user].tolist() == [person], said
    named, _ = read_traces(tmp_path / "taxi.txt", format="tdrive")
    assert named.time.tolist() == [1_202_083_200_000_000]
    assert len(read_traces(tmp_path, format="gpx")[0]) == 0
    with pytest.raises(InputError, match="header"):
        read_traces(tmp_path / "taxi.txt")


def test_columns_that_are_stated_hold_for_files_with_any_name(tmp_path: Path) -> None:
    names = ("0.txt", "1.txt", "24.txt", "new_3.txt")
    for name in names:
        (tmp_path / name).write_text(f"{name},2008-02-04 08:00:00,-46.6,-23.5\n")
    columns = {"user": "1", "time": "2", "lon": "3", "lat": "4"}
    events = read_events(tmp_path, columns=columns, tz="America/Sao_Paulo")
    assert {part.format for part in events.parts} == {"csv"}
    rows, _ = all_rows(resolved(events, zones=True), events.user)
    times = {time for part in rows for found in part for time in found.time.tolist()}
    assert times == {1_202_119_200_000_000}  # 10:00 in UTC, for every file
    assert not of_fleet(str(tmp_path / "1.txt"), None, columns)
    assert of_fleet(str(tmp_path / "1.txt"), None, {"towers.id": "1"})
    (tmp_path / "1.txt").write_text("who,when,lon,lat\na,2008-02-04T08:00:00Z,116.3,39.9\n")
    by_name = read_events(tmp_path / "1.txt", columns={"user": "who", "time": "when"})
    assert by_name.parts[0].reading.columns.user == "who"
    stated = read_events(tmp_path / "24.txt", columns=columns, format="tdrive")
    assert stated.parts[0].reading.tz == "Asia/Shanghai"


def test_formats_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    made(tmp_path, "csv")
    frame = pd.DataFrame({"user": ["a"], "time": ["2008-02-04T00:00:00Z"], "tower": ["t"]})
    for source, said, problem in (
        (tmp_path, "kml", "Use one of tdrive, cabspotting"),
        (tmp_path, "frame", "not a format of files"),
        (frame, "csv", "not of the format 'csv'"),
    ):
        with pytest.raises(UsageError, match=problem):
            read_events(source, format=said)


def test_inspect_tells_native_files_apart(tmp_path: Path) -> None:
    found = inspect(made(tmp_path, "mixed"))
    assert found.people == len(PEOPLE)
    assert found.rows["read"] == len(FIXES)
    assert found.usable
    assert {kind for _, kind, _ in found.columns} >= {"VARCHAR", "tdrive", "cabspotting", "gpx"}
    said = run("inspect", str(tmp_path / "mixed"), "--json")
    assert json.loads(said.stdout)["internal"]["people"] == len(PEOPLE)


# --- one person's file -------------------------------------------------------------------------

CONTENTS = {
    "nothing": b"",
    "not UTF-8": b"\xff\xfe\x00,\x80\n" * 9,
    "no line end": b"1" * 70_000,
    "a header": b"user,time,lon,lat\n",
    "too many columns": b"9,2008-02-04 08:00:00,116.3,39.9,7,8,9,10\n" * 3,
    "too few columns": b"39.9 116.3\n",
    "open quotations": b'"39.9,116.3,0\n"39.9 116.3 0 1\n',
    "an open element": b"<gpx><trk><trkseg>",
    "a document type": b'<!DOCTYPE x [<!ENTITY a "b">]><gpx/>',
    "packed": gzip.compress(b"9,2008-02-04 08:00:00,116.3,39.9\n"),
    "Parquet cut short": b"PAR1 not at all",
    "other people's times": b"9,1970-01-01 00:00:00,116.3,39.9\n9,9999-99-99 99:99:99,0,0\n",
}
NAMES = ("9.txt", "new_9.txt", "Data/9/Trajectory/9.plt", "9.gpx", "9.csv", "9.parquet")
ODD = {
    **{f"{name}: {what}": (name, data) for name in NAMES for what, data in CONTENTS.items()},
    "a folder": ("9.txt/", b""),
    "a name that is no text": (os.fsdecode(b"new_\xff.txt"), b"39.9 116.3 0 1202054400\n"),
}


def rows(folder: Path) -> Counter[tuple[Any, ...]]:
    events = resolved(read_events(folder), zones=True)
    parts, _ = all_rows(events, events.user)
    found: Counter[tuple[Any, ...]] = Counter()
    for some in (some for part in parts for some in part):
        assert some.lon is not None
        assert some.lat is not None
        people = some.user.cast("string").to_pylist()
        found.update(
            zip(people, some.time.tolist(), some.lon.tolist(), some.lat.tolist(), strict=True)
        )
    return found


def put(folder: Path, name: str, data: bytes) -> Callable[[], None]:
    """Write a file, or a folder of that name; what takes it away again."""
    path = folder / name
    if name.endswith("/"):
        path.mkdir()
        return path.rmdir
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path.unlink


@pytest.mark.privacy
@pytest.mark.parametrize("kind", WRITERS)
def test_one_persons_file_leaves_everybody_elses_rows(tmp_path: Path, kind: str) -> None:
    folder = made(tmp_path, kind)
    before = rows(folder)
    assert {row[0] for row in before} == set(PEOPLE)
    for what, (name, data) in ODD.items():
        try:
            remove = put(folder, name, data)
        except OSError:
            continue  # this file system refuses the name
        after = rows(folder)
        remove()
        assert before <= after, what
        assert not {row[0] for row in after - before} & set(PEOPLE), what


@pytest.mark.privacy
def test_all_odd_files_at_once_stop_no_command(here: Path) -> None:
    folder = made(here, "mixed")
    for what, (name, data) in ODD.items():
        if what != "a folder" and name.isprintable():
            put(folder, name, data)
    released(str(folder), "odd", "--quiet")


# --- another format ----------------------------------------------------------------------------


def added(page: str) -> dict[str, str]:
    """The lines that the page's diff adds, by file."""
    diff = page.partition("```diff\n")[2].partition("```")[0]
    files: dict[str, list[str]] = {}
    for line in diff.splitlines():
        if line.startswith("+++ b/"):
            files[line.removeprefix("+++ b/")] = lines = []
        elif line.startswith("+"):
            lines.append(line[1:])
    return {name: "\n".join(lines) for name, lines in files.items()}


def test_a_new_format_is_a_file_and_a_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "decisions" / "formats.md").read_text("utf-8")
    new, registry = added(page).items()
    assert registry[0] == "src/sfumato/io/events.py"
    assert registry[1].split("\n") == ["from sfumato.io.track import Track", "        Track(),"]
    module = ModuleType("sfumato.io.track")
    exec(compile(new[1], new[0], "exec"), module.__dict__)
    monkeypatch.setitem(FORMATS, "track", module.Track())
    folder = here / "tracks"
    folder.mkdir()
    track(folder, PEOPLE)
    wanted = released(str(made(here, "csv")), "table")
    assert released(str(folder), "of-tracks") == wanted
    assert released(str(folder), "said", "--format", "track") == wanted
    before = rows(folder)
    for what, data in CONTENTS.items():
        remove = put(folder, "9.track", data)
        assert before <= rows(folder), what
        remove()
    assert inspect(folder).people == len(PEOPLE)
