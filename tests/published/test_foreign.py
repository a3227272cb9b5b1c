"""Folders of others: whatever they hold is read or refused, in plain words and little memory."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely
from tests.published import hostile
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.errors import InputError, SfumatoError, printable
from sfumato.io import foreign
from sfumato.io.foreign import digest
from sfumato.io.write import write_parquet
from sfumato.published.selection import as_polygon
from sfumato.reports.page import build_page
from sfumato_lab.syntactic.published import read_anonymised

pytestmark = pytest.mark.xdist_group("foreign")
UNSHOWN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
BUDGET = 64 << 20
"""An eighth of what files may unpack to, so that the test has smaller bombs."""
Reader = Callable[[Path, Path], object]


def _everything(path: Path) -> list[object]:
    found = sfumato.read_release(path)
    shown = [repr(found), found.statement(), found._repr_html_(), found.label, found.table()]
    return [*shown, found.values, found.names, found.districts, found.geometry, found.posterior]


READERS: dict[str, Reader] = {
    "read_release": lambda path, _: _everything(path),
    "ask by": lambda path, _: str(sfumato.ask(path, by="zone")),
    "ask rank": lambda path, _: str(sfumato.ask(path, rank="district")),
    "ask polygon": lambda path, _: str(sfumato.ask(path, polygon="0,48,2,49")),
    "report": lambda path, _: build_page(path),
    "export": lambda path, out: sfumato.export(
        path, out / "package", to="package", publisher="me", licence="CC-BY-4.0"
    ),
    "weigh": lambda path, out: sfumato.weigh(path, out=out / "people", shares=0.5),
    "combine": lambda path, out: sfumato.combine(
        [path, path], out=out / "both", shares=[0.5, 0.5], overlap=0.1
    ),
    "refine": lambda path, out: sfumato.refine(path, out=out / "again"),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile.folder(tmp_path_factory.mktemp("foreign") / "week")


@pytest.fixture
def copied(good: Path, tmp_path: Path) -> Iterator[Path]:
    yield shutil.copytree(good, tmp_path / "week")
    shutil.rmtree(tmp_path / "week")


def test_the_folder_as_it_should_be_is_read(copied: Path, tmp_path: Path) -> None:
    for name in ("read_release", "ask by", "ask polygon", "report", "export"):
        READERS[name](copied, tmp_path)


@pytest.mark.privacy
@pytest.mark.parametrize("attack", hostile.REFUSED)
def test_every_reader_refuses_or_reads(attack: str, copied: Path, tmp_path: Path) -> None:
    """Never another error, never without end, and the same by every verb."""
    hostile.REFUSED[attack](copied)
    refused = {}
    for name, read in READERS.items():
        try:
            read(copied, tmp_path)
        except SfumatoError as error:
            refused[name] = str(error)
    assert refused
    assert not UNSHOWN.search("".join(refused.values()))


def test_small_files_that_would_be_large_take_little_memory(good: Path, tmp_path: Path) -> None:
    for k, attack in enumerate(hostile.LARGE.values()):
        attack(shutil.copytree(good, tmp_path / str(k)))
    script = (
        "import resource; from tests.published.test_foreign import _everything\n"
        "from sfumato.errors import InputError\n"
        f"from sfumato.io import foreign; foreign.UNPACKED = {BUDGET}\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10\n"
        f"_everything({str(good)!r}); before = peak()\n"
        f"for k in range({len(hostile.LARGE)}):\n"
        f"    try: _everything({str(tmp_path)!r} + f'/{{k}}'); print('read')\n"
        "    except InputError: print('refused', peak() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) == len(hostile.LARGE), done.stderr[-500:]
    assert all(line.startswith("refused") for line in lines), lines
    assert max(int(line.split()[1]) for line in lines) < 2 * BUDGET >> 20, lines


COMMANDS: dict[str, list[str]] = {
    "sum": ["ask", "WEEK"],
    "sum in JSON": ["ask", "WEEK", "--json"],
    "by zone": ["ask", "WEEK", "--by", "zone"],
    "by district": ["ask", "WEEK", "--by", "district"],
    "rank": ["ask", "WEEK", "--rank", "zone"],
    "sql": ["ask", "WEEK", "--sql", "SELECT * FROM zones, manifest"],
    "sql that makes some": ["ask", "WEEK", "--sql", "SELECT chr(27) || '[2J' AS \"a\x1bb\""],
    "table": ["ask", "WEEK", "--by", "zone", "--out", "table.csv"],
    "no such zone": ["ask", "WEEK", "--zones", "\x1b[31m"],
    "export": ["export", "WEEK", "--out", "package", "--to", "package"],
    "report": ["report", "WEEK", "--out", "page.html"],
    "refine": ["refine", "WEEK", "--out", "again"],
    "weigh": ["weigh", "WEEK", "--shares", "0.5", "--out", "people"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_name_commands_a_terminal(
    command: str, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile.name_everything(copied)
    monkeypatch.chdir(tmp_path)
    words = [str(copied) if word == "WEEK" else word for word in COMMANDS[command]]
    done = CliRunner().invoke(app, words)
    assert done.exception is None or isinstance(done.exception, SfumatoError | SystemExit)
    said = [done.stdout_bytes, done.stderr_bytes, str(done.exception).encode()]
    for path in tmp_path.rglob("*"):
        copies = path.is_relative_to(copied) or path.name in ("README.txt", "zones.geojson")
        if path.suffix in (".csv", ".html", ".json", ".jsonld", ".yaml", ".qml") and not copies:
            said.append(path.read_bytes())
    for raw in said:
        shown = UNSHOWN.search(raw.decode("utf-8"))
        assert shown is None, (command, shown)


def test_no_name_commands_a_notebook_or_a_program(copied: Path) -> None:
    hostile.name_everything(copied)
    found = sfumato.read_release(copied)
    texts = [repr(found), found.label, found.statement(), found._repr_html_(), *found.names]
    answer = sfumato.ask(found, by="zone")
    texts += [str(answer), repr(answer), answer._repr_html_(), json.dumps(answer.numbers())]
    texts += [*found.districts, build_page(copied), found.to_geopandas().to_csv()]
    for text in texts:
        assert UNSHOWN.search(text) is None
    assert printable(hostile.EVIL) in found.names


def test_names_of_other_scripts_stay_as_they_are() -> None:
    for name in (
        "مدينة القدس",
        "می\u200cخواهم",
        "क\u094d\u200dष",
        "🏙️ Söhne",
        "L\u2019Haÿ\u00a0les",
    ):
        assert printable(name) == name


@pytest.mark.parametrize(
    "shape",
    [
        "GEOMETRYCOLLECTION(" * hostile.DEEP + "POINT(0 0)" + ")" * hostile.DEEP,
        hostile._NESTED,
        '{"type":"FeatureCollection","features":[' * hostile.DEEP,
    ],
    ids=["WKT", "GeoJSON", "features"],
)
def test_a_polygon_that_nests_is_refused(shape: str) -> None:
    """GEOS follows it to the end of the stack, and the process is gone."""
    with pytest.raises(SfumatoError, match="cannot be read"):
        as_polygon(shape)


def test_well_known_binary_that_nests_is_refused() -> None:
    point = shapely.to_wkb(shapely.Point(1, 2))
    for kind in (4, 6, 7, 1007, 0x80000007):
        deep = (b"\x01" + kind.to_bytes(4, "little") + b"\x01\0\0\0") * hostile.DEEP + point
        with pytest.raises(ValueError, match="deep"):
            foreign.check_wkb(deep)
    box = shapely.box(0, 0, 1, 1)
    shapes: list[Any] = [shapely.Point(), shapely.Point(1, 2, 3), box, shapely.Polygon()]
    shapes += [shapely.LineString([(0, 0), (1, 1)]), shapely.MultiPolygon([box, box])]
    shapes += [shapely.GeometryCollection([shapely.GeometryCollection([box]), shapely.Point()])]
    shapes += [shapely.set_srid(shapely.force_3d(shape), 4326) for shape in shapes]
    for flavor in ("iso", "extended"):
        for order in (0, 1):
            written = shapely.to_wkb(
                shapes, byte_order=order, include_srid=flavor == "extended", flavor=flavor
            )
            assert shapely.equals(foreign.wkb_shapes(written.tolist()), shapes).all()
    with pytest.raises(ValueError, match="cut short"):
        foreign.check_wkb(shapely.to_wkb(box)[:-1])


def _running(path: Path) -> Path:
    """The same numbers as a stream that still goes on: nothing vouches for its lines."""
    found = sfumato.read_release(path)
    grid, values, ids = found.grid, found.values, found.ids.tolist()
    stated = json.loads((path / "manifest.json").read_text())
    stated |= {"kind": "stream", "files": {}, "caveats": []}
    shutil.rmtree(path)
    path.mkdir()
    times = [*grid.starts(), grid.ends()[-1]]
    lines = [
        {"start": first.isoformat(), "end": last.isoformat(), "counts": counts.tolist()}
        for first, last, counts in zip(times, times[1:], values.T, strict=False)
    ]
    (path / "stream.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path / "places.json").write_text(json.dumps({"zones": ids}))
    (path / "stream.json").write_text(json.dumps({"manifest": stated}))
    return path


def _line(path: Path, **change: Any) -> None:
    *first, last = (path / "stream.ndjson").read_text().splitlines(keepends=True)
    line = json.dumps(json.loads(last) | change) + "\n"
    (path / "stream.ndjson").write_text("".join([*first, line]))


OF_STREAMS: dict[str, Callable[[Path], object]] = {
    **{
        f"{kind} for {name}": lambda path, name=name, make=make: (  # type: ignore[misc]
            (path / name).unlink(),
            make(path / name),
        )
        for name in ("stream.json", "stream.ndjson", "places.json")
        for kind, make in hostile.KINDS.items()
    },
    "a line that nests": lambda path: (path / "stream.ndjson").write_text(
        '{"counts":' + "[" * hostile.DEEP + "\n"
    ),
    "places that nest": lambda path: (path / "places.json").write_text("[" * hostile.DEEP),
    "more places than numbers": lambda path: (path / "places.json").write_text(
        json.dumps({"zones": ["a"] * 1_000_000})
    ),
    "counts of text": lambda path: _line(path, counts=["x"] * 4),
    "counts beyond all": lambda path: _line(path, counts=[10**400] * 4),
    "a time that is none": lambda path: _line(path, start="\x1b[2J"),
    "no loss": lambda path: (path / "stream.json").write_text(
        (path / "stream.json").read_text().replace('"epsilon": 0.3', '"epsilon": 0.0')
    ),
}


@pytest.mark.parametrize("attack", OF_STREAMS)
def test_a_running_stream_is_read_by_the_same_door(attack: str, copied: Path) -> None:
    _running(copied)
    sfumato.read_release(copied, last=3).values.sum()
    OF_STREAMS[attack](copied)
    for last in (None, 3):
        with pytest.raises(SfumatoError):
            sfumato.read_release(copied, last=last).sum()


def test_ids_of_a_running_stream_are_shown_as_escapes(copied: Path) -> None:
    _running(copied)
    (copied / "places.json").write_text(json.dumps({"zones": ["\x1b[2J", "b", "c", "d"]}))
    assert UNSHOWN.search(str(sfumato.ask(copied, by="zone"))) is None


def test_anonymised_folders_are_read_by_the_same_door(tmp_path: Path) -> None:
    rows = {"place": ["a"], "slot": [0], "people": [7]}
    for k, change in enumerate(
        [{}, {"places": {"count": 10**12}}, {"table": "items"}, {"grid": 7}]
    ):
        folder = tmp_path / str(k)
        folder.mkdir()
        write_parquet(folder / "counts.parquet", pa.table(rows))
        stated = {
            "kind": "anonymised",
            "table": "counts",
            "places": {"count": 1},
            "records": 10**15,
        }
        stated |= {
            "grid": {"slots": 1},
            "files": {"counts.parquet": digest(folder / "counts.parquet")},
        }
        (folder / "manifest.json").write_text(json.dumps(stated | change))
        if not change:
            assert read_anonymised(folder).manifest["records"] == 10**15
            continue
        with pytest.raises(InputError):
            read_anonymised(folder)
    for make in hostile.KINDS.values():
        (tmp_path / "0" / "counts.parquet").unlink(missing_ok=True)
        make(tmp_path / "0" / "counts.parquet")
        with pytest.raises(InputError):
            read_anonymised(tmp_path / "0")
        if (tmp_path / "0" / "counts.parquet").is_dir():
            (tmp_path / "0" / "counts.parquet").rmdir()
