"""One reader for densities, streams and traces, and how they show themselves."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import date, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from tests.statements import seal, write_counts

from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.io.write import write_parquet, write_places
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.published import folder as reading
from sfumato.published import read_release, tables
from sfumato.published.manifest import GridFacts
from sfumato.published.release import vouched
from sfumato.reports.page import build_page
from sfumato.streams.facts import StreamFacts
from sfumato.streams.live import LiveStream, StreamRequest
from sfumato.streams.output import Consistency
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import boxed

GRID = TimeGrid.between(date(2024, 3, 30), date(2024, 4, 1), "6h", "Europe/Paris")
IDS = ["a", "b", "<b>c</b>"]
PLACES = Places.of(
    PlaceKind.ZONES,
    IDS,
    [shapely.box(2 + k / 50, 48, 2.02 + k / 50, 48.02) for k in range(3)],
    ["Aa", "Bb", '<script>alert("c")</script>'],
)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A stream that goes on, and the same one when its last slot is out."""
    home = tmp_path_factory.mktemp("stream")
    ledger = Ledger(home / "books" / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("city", Cap(epsilon=1.0, delta=1e-6), Unit.parse("user-day"))
    facts = StreamFacts(3, Calendar.of(GRID), 1.0, 0.0, Unit.parse("user-day"), 100)
    asked = StreamRequest(
        "city", "weekend", stream_scheme("sample"), facts, GRID, PLACES.ids, home / "out",
        consistency=Consistency.NEAREST, reading=(("where places lie", PLACES.fingerprint()),),
        place_kind="zones", released=PLACES,
    )  # fmt: skip
    with LiveStream(ledger, asked) as live:
        for slot in range(GRID.slots):
            if slot == 5:
                shutil.copytree(home / "out", home / "running")
            live.publish(slot, boxed(np.array([40, 10, slot]), facts))
        live.close()
    return home / "running", home / "out"


def counts_of(folder: Path) -> np.ndarray:
    lines = (folder / "stream.ndjson").read_text().splitlines()
    return np.array([json.loads(line)["counts"] for line in lines], dtype=float).T


def test_a_complete_stream_is_a_release(begun: tuple[Path, Path]) -> None:
    found = read_release(begun[1])
    assert (found.kind, found.how, found.sealed) == ("stream", "read", True)
    assert found.grid.fingerprint() == GRID.fingerprint()
    assert found.grid.tz == "Europe/Paris"
    assert found.ids.tolist() == PLACES.ids.tolist()
    assert found.names == tuple(PLACES.names.tolist())
    assert found.lower is None
    assert found.upper is None
    np.testing.assert_array_equal(found.values, counts_of(begun[1]))
    table = pq.read_table(begun[1] / "density.parquet")
    assert table.column_names == ["zone_id", "time_start", "time_end", "count"]
    assert table.schema.field("count").type == pa.int64(), "whole numbers are written as such"
    assert str(table.schema.field("time_start").type.tz) == "Europe/Paris"
    first = (begun[1] / "density.csv").read_text().splitlines()[1]
    assert first.replace('"', "").split(",")[1:3] == [
        "2024-03-30T00:00:00+01:00",
        "2024-03-30T06:00:00+01:00",
    ]
    assert set(found.to_xarray().data_vars) == {"count"}
    shaped = found.to_geopandas()
    assert shaped.geometry.notna().all()
    assert "What is promised." in found.statement()
    assert "HOW TO CITE" not in found.statement()
    assert "no interval stated" in build_page(found)
    assert found.plot("series", zone="b").axes


def test_a_stream_that_goes_on_says_who_is_there_now(begun: tuple[Path, Path]) -> None:
    running = read_release(begun[0])
    found = running.present("2024-03-31T10:00", zones=["b"])
    assert "the last slot that is out, ended Sun 07:00" in found.question
    assert found.estimate.value == running.values[running.ids == "b", 4]
    assert found.at_most is None, "this scheme states no interval"
    assert "Not sealed: no digest vouches for these numbers yet." in found.notes
    later = running.present("2024-04-06T10:00", zones=["b"])
    assert "as Saturdays at 10:00" in later.question


@pytest.mark.privacy
def test_a_stream_that_goes_on_is_read_as_far_as_it_is(begun: tuple[Path, Path]) -> None:
    running, whole = begun
    found = read_release(running)
    assert (found.how, found.sealed) == ("unsealed", False)
    assert found.grid.slots == 5
    np.testing.assert_array_equal(found.values, counts_of(whole)[:, :5])
    assert "5 of 8 slots" in found.manifest.caveats[-1]
    assert "5 of 8 slots" in build_page(found)
    assert "unsealed" in repr(found)
    with pytest.raises(InputError, match="no digest vouches"):
        vouched(found, "It cannot be an earlier release")
    with (running / "README.txt").open("a") as file:
        file.write("no noise")
    with pytest.raises(InputError, match="README"):
        read_release(running)


def test_a_line_that_is_being_written_is_left_out(begun: tuple[Path, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(begun[1], tmp_path / "out")
    (folder / "manifest.json").unlink()
    lines = (folder / "stream.ndjson").read_bytes()
    (folder / "stream.ndjson").write_bytes(lines[:-20])
    assert read_release(folder).grid.slots == 7
    (folder / "stream.ndjson").write_bytes(b"")
    with pytest.raises(InputError, match="no slot of it is out"):
        read_release(folder).values  # noqa: B018 - loaded when asked for


def test_traces_are_a_table_of_reports(tmp_path: Path) -> None:
    noon = pa.array([1_700_000_000_000_000], pa.timestamp("us", tz="UTC"))
    table = pa.table({"user": ["u"], "trip": [0], "time": noon, "lon": [2.3], "lat": [48.8]})
    write_parquet(tmp_path / "traces.parquet", table)
    scheme = {"name": "traces/points", "interval_coverage": 0}
    seal(tmp_path, {"kind": "traces", "scheme": scheme, "privacy": {"method": "per metre"}})
    found = read_release(tmp_path)
    assert found.kind == "traces"
    assert found.table().equals(table)
    assert found.to_geopandas().geometry[0].coords[0] == (2.3, 48.8)
    assert "slots" not in repr(found)
    assert "per metre" in found._repr_html_()
    for ask in (lambda: found.values, lambda: build_page(found), lambda: found.plot("strip")):
        with pytest.raises(UsageError, match="sanitised traces"):
            ask()


def test_towers_that_moved_stand_once_and_have_no_shape(tmp_path: Path) -> None:
    line = {"start": "2024-03-30T00:00:00+01:00", "end": "2024-03-30T06:00:00+01:00"}
    lines = json.dumps(line | {"counts": [1.1, 2.2, 4.0]}).encode() + b"\n"
    moments = [datetime.fromisoformat(line[name]) for name in ("start", "end")]
    edges = np.array([int(moment.timestamp()) * 1_000_000 for moment in moments])
    slots = GridFacts.of(TimeGrid(edges, moments[1] - moments[0], "Europe/Paris"))
    found = reading.read_lines(lines, b'{"zones": ["a", "a", "b"]}', slots, tmp_path)
    assert found.ids.tolist() == ["a", "b"]
    assert found.values.tolist() == [[3.3], [4.0]]
    moved = Places.of(
        PlaceKind.TOWERS,
        ["a", "a", "b"],
        [shapely.Point(2 + k, 48) for k in range(3)],
        valid_from=np.array([0, 10, 0]),
        valid_to=np.array([10, 20, 20]),
    )
    folder = write_counts(tmp_path / "r", ["a", "b"], GRID, np.ones((2, GRID.slots)))
    write_places(folder / "towers.geojson", moved)
    seal(folder, json.loads((folder / "manifest.json").read_text()))
    shapes = read_release(folder).geometry
    assert shapes is not None
    assert shapes[0] is None
    assert shapes[1].x == 4


def test_a_table_in_pieces_is_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, values = np.array([f"z{k}" for k in range(7)]), np.arange(7 * GRID.slots) / 8
    values = values.reshape(7, -1)
    made = []
    for rows in (1 << 20, 2 * GRID.slots):
        monkeypatch.setattr(tables, "_BATCH", rows)
        folder = tmp_path / str(rows)
        folder.mkdir()
        tables.write_long_tables(folder, ids, GRID, values)
        made.append(folder)
    assert pq.ParquetFile(made[1] / "density.parquet").num_row_groups == 4
    whole, pieces = (pq.read_table(folder / "density.parquet") for folder in made)
    assert whole.equals(pieces)
    assert whole.equals(tables.long_table(ids, GRID, values))
    assert len({(folder / "density.csv").read_bytes() for folder in made}) == 1


def test_a_table_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    values = np.ones((2, GRID.slots))
    folder = write_counts(tmp_path / "r", ["a", "b"], GRID, values)
    manifest = json.loads((folder / "manifest.json").read_text())
    table = pq.read_table(folder / "density.parquet")
    order = np.arange(table.num_rows)
    for wrong in (table.slice(1), table.take(pa.array(order[::-1].copy())), table.slice(0, 0)):
        write_parquet(folder / "density.parquet", wrong)
        seal(folder, manifest)
        with pytest.raises(InputError, match="every place and slot"):
            read_release(folder).values  # noqa: B018 - loaded when asked for
    write_parquet(folder / "density.parquet", table.drop_columns(["count"]))
    seal(folder, manifest)
    with pytest.raises(InputError, match="'count'"):
        read_release(folder).values  # noqa: B018 - loaded when asked for


class Tags(HTMLParser):
    """Every tag and every attribute of a piece of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: dict[str, str | None] = {}
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= dict(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("shapes", [True, False], ids=["map", "strip"])
def test_a_notebook_shows_map_label_and_rows_and_asks_for_nothing(
    begun: tuple[Path, Path], shapes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read_release(begun[1])
    if not shapes:
        monkeypatch.setattr(type(found), "geometry", None)
    named: Any = found.manifest.release.model_copy(update={"name": PLACES.names[0]})
    monkeypatch.setattr(found.manifest, "__dict__", found.manifest.__dict__ | {"release": named})
    shown = Tags(found._repr_html_())
    assert ("path" if shapes else "rect") in shown.tags
    assert not shown.tags & {"script", "style", "link", "img", "iframe", "b"} - {"b"}
    assert not [name for name in shown.attributes if name.startswith("on") or name == "href"]
    for word in ("ε = 1", "what one person did on any one day", "stream/sample", "<b>c</b>"):
        assert word in shown.text, word
    assert shown.text.count("2024-03-30 00:00+01:00") >= 1


def test_a_release_fits_on_a_line(tmp_path: Path) -> None:
    long = {"release": {"name": "A very long name of a release that nobody would want to read"}}
    folder = write_counts(tmp_path / "r", IDS, GRID, np.ones((3, GRID.slots)), **long)
    said = repr(read_release(folder))
    assert said == (
        "<density 'A very long name of a r…': 2 towers × 8 slots, 2024-03-30 to 2024-04-01, ε 0.3>"
    )
    assert len(said) < 100


def test_a_manifest_that_contradicts_itself_is_refused(
    begun: tuple[Path, Path], tmp_path: Path
) -> None:
    """No digest protects the manifest; its own list of measurements does."""
    folder = tmp_path / "copy"
    shutil.copytree(begun[1], folder)
    said = json.loads((folder / "manifest.json").read_text())
    said["privacy"]["epsilon"] /= 10
    (folder / "manifest.json").write_text(json.dumps(said))
    with pytest.raises(InputError, match="does not give the loss"):
        read_release(folder)


@pytest.mark.privacy
def test_a_stream_whose_published_line_was_changed_is_not_sealed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("city", Cap(epsilon=1.0, delta=1e-6), Unit.parse("user-day"))
    facts = StreamFacts(3, Calendar.of(GRID), 1.0, 0.0, Unit.parse("user-day"), 100)
    asked = StreamRequest(
        "city", "weekend", stream_scheme("sample"), facts, GRID, PLACES.ids, tmp_path / "out",
        place_kind="zones", released=PLACES,
    )  # fmt: skip
    with LiveStream(ledger, asked) as live:
        for slot in range(GRID.slots):
            live.publish(slot, boxed(np.array([40, 10, slot]), facts))
        lines = tmp_path / "out" / "stream.ndjson"
        lines.write_bytes(lines.read_bytes().replace(b'"slot":0,', b'"slot":7,', 1))
        with pytest.raises(SfumatoError, match="was changed after"):
            live.close()
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_internal_results_do_not_go_into_a_published_folder(begun: tuple[Path, Path]) -> None:
    from sfumato.density.evaluate import Comparison, write_comparison

    empty = Comparison(np.zeros((1, 1)), PLACES, (), ())
    with pytest.raises(UsageError, match="published folder"):
        write_comparison(empty, begun[1])


READ = "import sfumato, sys; print(sfumato.read_release(sys.argv[1]).values.sum())"
THREADS = """
import os, sys
import pyarrow.parquet as pq
import sfumato
from sfumato.published import release

def running():
    return len(os.listdir("/proc/self/task"))

before = running()
read = sfumato.read_release(sys.argv[1])
read.values.sum(), read.table()
after = running()
pq.read_table(sys.argv[1] + "/density.parquet", use_threads=True)
print(before, after, running())
"""


def ended(program: str, folder: Path) -> tuple[int, str, str]:
    command = [sys.executable, "-c", program, str(folder)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    return child.returncode, child.stdout, child.stderr


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_bytes_of_a_release_are_held_by_no_thread_but_pythons(begun: tuple[Path, Path]) -> None:
    """Such a thread may end the process in C++ while Python ends, after all was done."""
    code, threads, said = ended(THREADS, begun[1])
    assert code == 0, said
    before, after, afterwards = map(int, threads.split())
    assert before == after
    assert after < afterwards, "Arrow's threads would not have been seen"


@pytest.mark.slow
def test_three_hundred_processes_end_well(begun: tuple[Path, Path]) -> None:
    for _ in range(300):
        code, _, said = ended(READ, begun[1])
        assert (code, said) == (0, "")
