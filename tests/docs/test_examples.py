"""The examples of README and of the commands' pages, run as they are printed."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from tests.docs.pages import PAGES, ROOT, blocks, named, run

import sfumato
from sfumato.city import CityPlan, write_city
from sfumato.city.plan import Fixes
from sfumato.privacy.ledger import Cap, Ledger

DOCS = ROOT / "docs"
ELSEWHERE = {
    "docs/tutorial.md",
    "docs/howto/index.md",  # where the other how-to pages begin
    "docs/adapters/flowkit.md",  # tests/published, with the pipelines' own files
    "docs/adapters/multimno.md",
    "docs/howto/add-a-scheme.md",  # tests/model, with a distribution of its own
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and a ledger of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_from_records_to_a_page(here: Path) -> None:
    run(ROOT / "README.md")
    assert (here / "toy" / "map.png").is_file()
    run(DOCS / "commands" / "evaluate.md")
    run(DOCS / "commands" / "refine.md")
    for copied in ("week-35", "week-36", "week-38"):
        shutil.copytree(here / "releases" / "week-37", here / "releases" / copied)
    run(DOCS / "asking.md")
    run(DOCS / "commands" / "ask.md")
    run(DOCS / "commands" / "report.md")
    assert (here / "weeks.html").is_file()
    assert any((here / "figures").iterdir())


def test_a_release_from_the_command_line_and_from_python(here: Path) -> None:
    write_city(CityPlan(users=500, towers=24, zones=16, area_km2=8, seed=5), here)
    run(DOCS / "commands" / "inspect.md")
    run(DOCS / "commands" / "release.md")
    assert (here / "releases" / "week-37" / "index.html").is_file()


def test_questions_to_the_data(here: Path) -> None:
    write_city(CityPlan(users=500, towers=24, zones=16, area_km2=8, seed=5), here)
    run(DOCS / "commands" / "query.md")
    shutil.rmtree(here / "data-home")
    run(DOCS / "querying.md")
    run(DOCS / "commands" / "anonymise.md")
    assert "NOT differential privacy" in (here / "answers" / "README.txt").read_text()


def test_what_breaks_an_auditor(here: Path) -> None:
    run(DOCS / "auditing.md")
    found = (here / "attacked" / "log-attack.internal.html").read_text()
    assert "question 1: places market, quay, school" in found


def test_a_package_for_a_portal(here: Path) -> None:
    write_city(CityPlan(users=500, towers=24, zones=16, area_km2=8, seed=5), here)
    run(DOCS / "publishing.md")
    assert (here / "portal" / "week-37" / "registry.yaml").is_file()


def test_people_who_do_not_exist(here: Path) -> None:
    write_city(CityPlan(users=500, towers=24, zones=16, area_km2=8, seed=5), here)
    book = Ledger(here / "other.sqlite")
    book.initialise()
    book.add_dataset("town", Cap(epsilon=2, delta=1e-4))
    sfumato.release(
        here / "events.parquet", towers=here / "towers.csv", zones=here / "zones.geojson",
        dataset="town", expected_users=500, epsilon=2, delta=1e-4, start="2007-09-10",
        end="2007-09-17", tz="Europe/Paris", scheme="gaussian", anyway=True, ledger=book,
        out=here / "releases" / "made-of",
    )  # fmt: skip
    run(DOCS / "commands" / "synth.md")
    assert (here / "releases" / "made-up" / "events.parquet").is_file()
    assert (here / "releases" / "free" / "index.html").is_file()


def test_files_as_they_come(here: Path) -> None:
    write_city(CityPlan(users=20, towers=24, zones=16, area_km2=8, seed=5), here)
    run(DOCS / "files.md")


def test_every_verb_in_python(here: Path) -> None:
    write_city(CityPlan(users=500, towers=24, zones=16, area_km2=8, seed=5), here)
    run(DOCS / "python.md")
    assert (here / "week.html").is_file()


def test_a_stream(here: Path) -> None:
    people = CityPlan(
        users=200,
        towers=4,
        zones=16,
        area_km2=8,
        start=date(2024, 3, 4),
        days=7,
        fixes=Fixes.GPS,
    )
    write_city(people, here)
    (here / "events.parquet").rename(here / "history.parquet")
    run(DOCS / "commands" / "stream.md")
    assert len(list((here / "streams" / "week-10" / "slots").iterdir())) == 7 * 24


def test_people_of_one_operator_and_of_two(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Released once for each page; whether it is of use is not asked."""
    monkeypatch.setattr("sfumato.density.publish.checked_fitness", lambda *_: None)
    people = CityPlan(users=400, towers=24, zones=16, area_km2=8, seed=5, days=2)
    write_city(people, here)
    events = pq.read_table(here / "events.parquet")
    half = pc.equal(pc.bit_wise_and(events["user_id"], 1), 0)
    ledger = Ledger(here / "ledger.sqlite")
    ledger.initialise()
    for name, rows in (("red", half), ("blue", pc.invert(half))):
        ledger.add_dataset(name, Cap(epsilon=8, delta=1e-4))
        sfumato.release(
            events.filter(rows), dataset=name, expected_users=200, epsilon=2, delta=1e-6,
            start="2007-09-10", end="2007-09-12", tz="Europe/Paris", count="people", ledger=ledger,
            towers=here / "towers.csv", zones=here / "zones.geojson", out=here / name / "week-37",
        )  # fmt: skip
    shutil.copytree(here / "red" / "week-37", here / "releases" / "week-37")
    ids = sfumato.read_release("red/week-37").ids.tolist()
    pa_csv.write_csv(pa.table({"area": ids, "people": [90] * len(ids)}), here / "census.csv")
    pa_csv.write_csv(pa.table({"area": ids, "share": [0.3] * len(ids)}), here / "red.csv")
    run(DOCS / "commands" / "weigh.md")
    run(DOCS / "commands" / "combine.md")
    run(DOCS / "people.md")
    assert (here / "releases" / "week-37-people" / "weights.csv").is_file()
    assert (here / "city" / "week-37" / "index.html").is_file()


def test_traces(here: Path) -> None:
    fixes = range(120)
    traces = {
        "user": ["red cab" if k % 2 else "blue cab" for k in fixes],
        "time": pa.array([1_211_155_200 + 60 * k for k in fixes], pa.timestamp("s", "UTC")),
        "lon": [-122.42 + k / 9000 for k in fixes],
        "lat": [37.77 + k / 7000 for k in fixes],
    }
    pq.write_table(pa.table(traces), here / "traces.parquet")
    run(DOCS / "commands" / "sanitise.md")
    run(DOCS / "traces.md")
    run(DOCS / "commands" / "hotspots.md")
    run(DOCS / "commands" / "spread.md")
    assert (here / "out" / "hotspots" / "index.html").is_file()
    assert (here / "out" / "spread" / "index.html").is_file()
    assert pq.read_table(here / "out" / "cabs" / "traces.parquet").num_rows == 120


def test_from_a_few_questions_to_a_release(here: Path) -> None:
    write_city(CityPlan(users=500, towers=24, zones=16, area_km2=8, seed=5), here)
    run(DOCS / "commands" / "init.md")
    run(DOCS / "commands" / "doctor.md")
    assert (here / "releases" / "first" / "index.html").is_file()


@pytest.mark.parametrize("name", ["city", "demo", "ledger"])
def test_a_page_that_brings_its_own_data(here: Path, name: str) -> None:
    run(DOCS / "commands" / f"{name}.md")
    assert any(here.iterdir())


def test_choosing_needs_no_data(here: Path) -> None:
    run(DOCS / "choosing.md")
    assert not any(here.iterdir())


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page says before you begin, once: how-to pages go on from there."""
    folder = tmp_path_factory.mktemp("released")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder / "data-home"))
        patch.chdir(folder)
        run(DOCS / "howto" / "index.md")
    return folder


@pytest.mark.xdist_group("how-to")  # one process, and so one release to go on from
@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("towers-that-moved", "releases/week-37-dated/index.html"),
        ("zones-added-later", "releases/week-38/index.html"),
        ("next-month", "weeks.html"),
        ("killed", "releases/week-37/index.html"),
        ("move-ledger", "new-place/ledger.key"),
        ("qgis", "portal/week-37/density.gpkg"),
        ("clocks", "events.parquet"),
        ("dpia", "releases/week-37/manifest.json"),
    ],
)
def test_how_to(
    name: str, made: str, released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in a copy of its own: what one page publishes, the next has not."""
    here = tmp_path / "here"
    shutil.copytree(released, here)
    monkeypatch.setenv("XDG_DATA_HOME", str(here / "data-home"))
    monkeypatch.chdir(here)
    run(DOCS / "howto" / f"{name}.md")
    assert (here / made).is_file()


def test_no_page_has_a_block_that_nothing_runs() -> None:
    here = Path(__file__).read_text("utf-8")
    for page in PAGES:
        if blocks(page) and named(page) not in ELSEWHERE:
            assert f'"{page.name}"' in here or f'"{page.stem}"' in here, named(page)
