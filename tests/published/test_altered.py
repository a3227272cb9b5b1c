"""An altered, exchanged or missing file is refused by everything that reads what was published."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sfumato
from sfumato.attacks.run import attack
from sfumato.city.crowd import CrowdPlan
from sfumato.city.write import write_crowd
from sfumato.cli.main import app
from sfumato.density.evaluate import evaluate
from sfumato.errors import InputError
from sfumato.privacy.ledger import Ledger
from sfumato.published import Release, read_release
from sfumato.published.export import export
from sfumato.reports.figures import plot, write_figures
from sfumato.reports.page import build_page, write_page

pytestmark = [pytest.mark.privacy, pytest.mark.xdist_group("altered")]  # one fixture, made once

PERIOD = {"start": "2008-02-04", "end": "2008-02-05", "tz": "Asia/Shanghai"}
NEXT = {"start": "2008-02-05", "end": "2008-02-06", "tz": "Asia/Shanghai"}
FLAGS = ["--from", PERIOD["start"], "--to", PERIOD["end"], "--tz", PERIOD["tz"]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small crowd, a release of its day (`week`) and a stream of it (`live`)."""
    folder = tmp_path_factory.mktemp("altered")
    write_crowd(CrowdPlan(people=60, days=1, columns=8, rows=8), folder / "crowd")
    book = ["--ledger", str(folder / "ledger.db"), "--dataset", "town"]
    cap = ["--cap-epsilon", "9", "--cap-delta", "1e-3", *book]
    made = [str(folder / "crowd" / "events.parquet"), "--epsilon", "1", "--delta", "1e-4"]
    made += ["--zones", str(folder / "crowd" / "zones.geojson"), *FLAGS, *book, "--quiet"]
    for command in (
        ["ledger", "init", *cap],
        ["ledger", "init", "--unit", "user-day", *cap],
        ["release", *made, "--out", str(folder / "week"), "--expected-users", "60", "--anyway"],
        ["stream", *made, "--out", str(folder / "live"), "--scheme", "sample"],
    ):
        run(command)
    return folder


def run(command: list[str]) -> None:
    done = CliRunner().invoke(app, command)
    if isinstance(done.exception, Exception):
        raise done.exception
    assert done.exit_code == 0, done.output


class Inputs:
    """What the readers are given beside the folder."""

    def __init__(self, home: Path, scratch: Path) -> None:
        self.home, self.scratch = home, scratch
        self.events = str(home / "crowd" / "events.parquet")
        self.zones = home / "crowd" / "zones.geojson"

    @property
    def files(self) -> list[str]:
        return ["--events", self.events, "--zones", str(self.zones)]

    @property
    def out(self) -> list[str]:
        return ["--out", str(self.scratch / "out"), "--quiet"]


Reader = Callable[[Path, Inputs], object]


def _earlier(folder: Path, given: Inputs) -> None:
    """The command with --earlier; nothing is charged where it is refused."""
    ledger = str(given.home / "ledger.db")
    before = len(Ledger(ledger).book().charges)
    out = given.scratch / "next"
    command = ["release", given.events, "--zones", str(given.zones), "--out", str(out), "--anyway"]
    command += ["--from", NEXT["start"], "--to", NEXT["end"], "--tz", NEXT["tz"], "--quiet"]
    command += ["--epsilon", "0.1", "--delta", "1e-4", "--dataset", "town", "--ledger", ledger]
    command += ["--name", str(given.scratch.name), "--expected-users", "60", "--anyway"]
    try:
        run([*command, "--earlier", str(folder)])
    except InputError:
        assert len(Ledger(ledger).book().charges) == before
        assert not out.exists()
        raise


READERS: dict[str, Reader] = {
    "read_release": lambda f, _: sfumato.read_release(f).values,
    "Release.plot": lambda f, _: read_release(f).plot("series"),
    "build_page": lambda f, _: build_page(f),
    "write_page": lambda f, given: write_page(f, given.scratch / "page.html"),
    "plot": lambda f, _: plot(f, "map"),
    "write_figures": lambda f, given: write_figures(f, given.scratch / "figures"),
    "export": lambda f, given: export(f, given.scratch / "x", to="flowkit"),
    "evaluate": lambda f, given: evaluate(f, given.events, zones=given.zones, earth_mover=False),
    "attack": lambda f, given: attack(f, given.events, zones=given.zones, seeds=1, group=0),
    "refine": lambda f, given: sfumato.refine(f, out=given.scratch / "again"),
    "sfumato refine": lambda f, given: run(
        ["refine", str(f), "--out", str(given.scratch / "again"), "--quiet"]
    ),
    "sfumato report": lambda f, given: run(
        ["report", str(f), "--out", str(given.scratch / "page.html"), "--quiet"]
    ),
    "sfumato report --figures": lambda f, given: run(
        ["report", str(f), "--out", str(given.scratch / "p"), "--figures", str(given.scratch / "f")]
    ),
    "sfumato evaluate": lambda f, given: run(
        ["evaluate", str(f), *given.files, *given.out, "--no-earth-mover"]
    ),
    "sfumato attack": lambda f, given: run(
        ["attack", str(f), *given.files, *given.out, "--seeds", "1", "--group", "0"]
    ),
    "sfumato export --to flowkit": lambda f, given: run(
        ["export", str(f), str(given.scratch / "x"), "--to", "flowkit", "--geojson", "--quiet"]
    ),
    "sfumato export --to multimno": lambda f, given: run(
        ["export", str(f), str(given.scratch / "x"), "--to", "multimno", "--zoning", "a:1"]
    ),
    "sfumato release --earlier": _earlier,
}  # fmt: skip
"""Everything that reads a release or a stream: a new reader belongs here."""
OF_MEASUREMENTS = ("refine", "sfumato refine", "sfumato release --earlier")
"""Those that need more than a table, which a stream does not keep."""


def _one_count_more(folder: Path) -> str:
    """One count of the table, by one: the same shape, the same columns."""
    table = pq.read_table(folder / "density.parquet")
    counts = table["count"].to_numpy().copy()
    counts[17] += 1
    at = table.schema.get_field_index("count")
    pq.write_table(table.set_column(at, "count", pa.array(counts)), folder / "density.parquet")
    return "density.parquet"


def _another_name(folder: Path) -> str:
    zones = json.loads((folder / "zones.geojson").read_text())
    zones["features"][3]["properties"]["name"] = "elsewhere"
    (folder / "zones.geojson").write_text(json.dumps(zones))
    return "zones.geojson"


def _gone(name: str) -> Callable[[Path], str]:
    def remove(folder: Path) -> str:
        (folder / name).unlink()
        return name

    return remove


FAULTS: dict[str, Callable[[Path], str]] = {
    "a count altered": _one_count_more,
    "a zone altered": _another_name,
    "the table missing": _gone("density.parquet"),
    "the zones missing": _gone("zones.geojson"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["week", "live"])
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_what_was_not_published(
    reader: str, kind: str, fault: str, home: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(home / kind, tmp_path / kind)
    name = FAULTS[fault](folder)
    with pytest.raises(InputError) as refused:
        READERS[reader](folder, Inputs(home, tmp_path))
    assert refused.value.file == str(folder / name)
    assert "as it was published" in str(refused.value)


@pytest.mark.parametrize("kind", ["week", "live"])
@pytest.mark.parametrize("reader", [name for name in READERS if name != "write_figures"])  # slow
def test_every_reader_takes_it_as_it_is(reader: str, kind: str, home: Path, tmp_path: Path) -> None:
    if kind == "live" and reader in OF_MEASUREMENTS:
        with pytest.raises(InputError, match=r"keeps no measurements|counts people"):
            READERS[reader](home / kind, Inputs(home, tmp_path))
    else:
        READERS[reader](home / kind, Inputs(home, tmp_path))


def test_altered_measurements_are_refused(home: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(home / "week", tmp_path / "week")
    content = bytearray((folder / "measurements.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "measurements.npz").write_bytes(content)
    for reader in OF_MEASUREMENTS:
        with pytest.raises(InputError, match=r"measurements\.npz: it is not as it was published"):
            READERS[reader](folder, Inputs(home, tmp_path))


def test_an_altered_line_of_a_stream_is_refused(home: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(home / "live", tmp_path / "live")
    lines = (folder / "stream.ndjson").read_bytes()
    (folder / "stream.ndjson").write_bytes(lines.replace(b'"slot":3', b'"slot":4'))
    with pytest.raises(InputError, match=r"stream\.ndjson: it is not as it was published"):
        read_release(folder)


def test_what_is_altered_after_it_was_opened_is_refused(home: Path, tmp_path: Path) -> None:
    """Arrays are loaded when they are asked for, and compared then once more."""
    folder = shutil.copytree(home / "week", tmp_path / "week")
    found = read_release(folder)
    _one_count_more(folder)
    for ask in (lambda: found.values, found.table, found.to_pandas, found._repr_html_):
        with pytest.raises(InputError, match="not as it was published"):
            ask()


def test_a_table_that_the_manifest_does_not_list_is_not_believed(
    home: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(home / "week", tmp_path / "week")
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["files"]["density.parquet"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="does not list it"):
        read_release(folder).values  # noqa: B018 - loaded when asked for
    manifest["files"]["../ledger.db"] = "0" * 64
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="elsewhere"):
        read_release(folder)


def test_noise_from_a_test_seed_does_not_enter_the_next_release(home: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(home / "week", tmp_path / "week")
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"tainted": True}))
    assert isinstance(read_release(folder), Release)
    for reader in ("sfumato release --earlier", "refine", "export"):
        with pytest.raises(InputError, match="test seed"):
            READERS[reader](folder, Inputs(home, tmp_path))
