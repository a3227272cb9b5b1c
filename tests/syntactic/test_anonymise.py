"""`anonymise counts` and `anonymise traces`: what leaves is labelled, and refusals are clear."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.syntactic import definitions as by_hand
from tests.syntactic.books import town
from typer.testing import CliRunner

import sfumato_lab
from sfumato.cli.main import app
from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato_lab.attacks.anonymised.run import attack_anonymised
from sfumato_lab.syntactic.published import Counts, Items, Paths, internal_folder, read_anonymised
from sfumato_lab.syntactic.registry import METHODS, settings_of
from sfumato_lab.syntactic.statement import LABEL

SECRET = "imsi-208-01-4711"
DAY: dict[str, Any] = {"start": "2024-03-04", "end": "2024-03-05", "slot": "6h", "tz": "UTC"}
FLAGS = ["--from", "2024-03-04", "--to", "2024-03-05", "--slot", "6h", "--tz", "UTC"]
NAMES = "abcdefgh"
MAP = {"roads": "neighbours", "sensitive": "a", "parameter": {"p": 0.6}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """80 people in eight places on a line, a day in four slots; one person has a single record."""
    folder = tmp_path_factory.mktemp("town")
    rng = np.random.default_rng(1)
    rows = [f"{SECRET}-0,2024-03-04T01:00:00Z,h"]
    for u in range(1, 80):
        start = int(rng.integers(8))
        for t in range(4):
            place = NAMES[min(7, max(0, start + int(rng.integers(-1, 2))))]
            rows.append(f"{SECRET}-{u},2024-03-04T{6 * t + 1:02d}:00:00Z,{place}")
    (folder / "events.csv").write_text("user,time,tower\n" + "\n".join(rows) + "\n")
    towers = [f"{name},{2.3 + k / 100},48.8" for k, name in enumerate(NAMES)]
    (folder / "towers.csv").write_text("tower_id,lon,lat\n" + "\n".join(towers) + "\n")
    return folder


def traces(home: Path, out: Path, method: str, **more: Any) -> Any:
    said: dict[str, Any] = {"attack": False, "seed": 3} | DAY | more
    if METHODS[method].needs_k:
        said = {"k": 3} | said
    if METHODS[method].needs_map:
        said = MAP | said
    return sfumato_lab.anonymise_traces(
        home / "events.csv", method=method, out=out, **town(home) | said
    )


def records_of(table: Items) -> list[list[tuple[int, int, int]]]:
    rows = list(zip(table.area.tolist(), table.first.tolist(), table.last.tolist(), strict=True))
    bounds = zip(table.offsets[:-1], table.offsets[1:], strict=True)
    return [rows[low:high] for low, high in bounds]


@pytest.mark.parametrize("method", METHODS)
def test_what_leaves_says_what_it_is_not(home: Path, tmp_path: Path, method: str) -> None:
    made = traces(home, tmp_path / "out", method)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["kind"] == "anonymised"
    assert manifest["method"] == method == made.promise.method
    assert manifest["privacy"]["differential_privacy"] is False
    assert manifest["privacy"]["label"] == LABEL
    assert manifest["privacy"]["helps_against"]
    assert manifest["privacy"]["broken_by"]
    readme = (tmp_path / "out" / "README.txt").read_text()
    assert LABEL in readme
    assert "What breaks it" in readme
    assert "\n" not in repr(made)
    assert LABEL in made._repr_html_()
    # Ids are in the holder's own folder alone, which nobody else may enter.
    published = [path.read_bytes() for path in (tmp_path / "out").iterdir()]
    assert not any(SECRET.encode() in content for content in published)
    own = internal_folder(tmp_path / "out")
    assert own.stat().st_mode & 0o077 == 0
    key = pq.read_table(own / "key.internal.parquet").to_pydict()
    assert len(key["user"]) == 80
    assert sorted(one for one in key["record"] if one >= 0) == list(range(manifest["records"]))
    assert json.loads((own / "figures.internal.json").read_text())["left_out"] == key[
        "record"
    ].count(-1)
    assert "diversity" in made.internal_figures


@pytest.mark.privacy
@pytest.mark.parametrize("method", METHODS)
def test_the_published_folder_keeps_its_promise(home: Path, tmp_path: Path, method: str) -> None:
    """The definitions hold of what is read back from the files."""
    traces(home, tmp_path / "out", method)
    table = read_anonymised(tmp_path / "out").table
    if isinstance(table, Paths):
        east, north = 111_320 * np.cos(np.radians(48.8)), 111_200
        records = [
            [(float(x) * east, float(y) * north) for x, y in zip(*one, strict=True)]
            for one in zip(table.lon, table.lat, strict=True)
        ]
        assert by_hand.k_delta_anonymous(records, 3, 2_000 * 1.001)
        return
    assert isinstance(table, Items)
    records = records_of(table)
    if method in ("generalise", "suppress"):
        assert by_hand.k_anonymous(records, 3)
    elif method == "km-distance":
        assert by_hand.km_anonymous_in_order(
            [[area for area, _, _ in one] for one in records], 3, 2
        )
    elif method in ("km", "km-local"):
        assert by_hand.km_anonymous([set(one) for one in records], 3, 2)
    elif method == "probabilistic-km":
        assert by_hand.shares_in_k_records([set(one) for one in records], 3, 4)[0] >= 0.97
    else:
        assert (table.first < 0).all()  # no times
    assert table.areas.labels[0] in ("a", "b", *NAMES) or "group" in table.areas.labels[0]
    assert np.unique(table.areas.places).tolist() == list(range(8))


def test_the_same_seed_gives_the_same_files(home: Path, tmp_path: Path) -> None:
    for method in ("never-walk-alone", "probabilistic-km"):
        one = traces(home, tmp_path / f"{method}-1", method).manifest
        other = traces(home, tmp_path / f"{method}-2", method).manifest
        assert one["files"] == other["files"]
        assert traces(home, tmp_path / f"{method}-2", method, seed=4).manifest["records"] > 0
    text = (home / "events.csv").read_text().replace(f"{SECRET}-", "10")
    (tmp_path / "events.csv").write_text(text)  # ids that are numbers are read in another order
    (tmp_path / "towers.csv").write_bytes((home / "towers.csv").read_bytes())
    files = [traces(tmp_path, tmp_path / n, "never-walk-alone").manifest["files"] for n in "xyz"]
    assert files[0] == files[1] == files[2]


@pytest.mark.privacy
def test_whoever_tries_seeds_does_not_read_people_from_the_order(
    home: Path, tmp_path: Path
) -> None:
    """The order of records is no function of the seed and the ids alone."""
    ranks = []
    for name in ("one", "other"):  # the same people, one of whom has another record
        (tmp_path / name).mkdir()
        for file in ("events.csv", "towers.csv"):
            (tmp_path / name / file).write_text((home / file).read_text())
    with (tmp_path / "other" / "events.csv").open("a") as events:
        events.write(f"{SECRET}-7,2024-03-04T08:00:00Z,a\n")
    for name in ("one", "other"):
        made = traces(tmp_path / name, tmp_path / name / "out", "km", seed=1)
        key = pq.read_table(internal_folder(made.folder) / "key.internal.parquet")
        ranks.append(key["record"].to_pylist())
    assert ranks[0] != ranks[1]
    assert ranks[0] != np.argsort(np.random.default_rng(1).permutation(80)).tolist()


def test_counts_below_k_are_not_published(home: Path, tmp_path: Path) -> None:
    def made(**more: Any) -> tuple[Counts, Any]:
        found = sfumato_lab.anonymise_counts(
            home / "events.csv",
            **town(home),
            k=6,
            out=tmp_path / "out",
            attack=False,
            **DAY,
            **more,
        )
        table = read_anonymised(found.folder).table
        assert isinstance(table, Counts)
        return table, found

    plain, found = made()
    assert plain.of_place is None
    assert (plain.people[plain.people >= 0] >= 6).all()
    assert (plain.people < 0).any()
    assert found.internal_figures["suppressed"]["secondary"] == 0
    naive, found = made(totals=True, secondary=False)
    assert naive.of_all is not None
    assert found.internal_figures["suppressed"]["determined"] > 0
    safe, found = made(totals=True)
    assert found.internal_figures["suppressed"]["determined"] == 0
    assert ((safe.people < 0) >= (naive.people < 0)).all()
    rounded, found = made(rounding="random", base=10, seed=1)
    assert (rounded.people[rounded.people >= 0] % 10 == 0).all()
    assert found.manifest["parameters"]["base"] == 10


def test_it_is_attacked_at_once(home: Path, tmp_path: Path) -> None:
    made = traces(home, tmp_path / "out", "km", attack=True)
    assert made.internal_figures["attacks"]
    own = json.loads((internal_folder(tmp_path / "out") / "figures.internal.json").read_text())
    assert own["attacks"] == made.internal_figures["attacks"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"method": "km", "k": 81}, "k = 81 people cannot be alike"),
        ({"method": "km", "k": 1}, "at least 2"),
        ({"method": "km", "k": None}, "at least 2"),
        ({"method": "blur"}, "There is no method 'blur'"),
        ({"method": "km", "parameter": {"m": 0}}, "The parameter m is a whole number"),
        ({"method": "km", "parameter": {"delta": 5}}, "has no parameter 'delta'"),
        ({"method": "km", "parameter": {"items": "cars"}}, "one of visits, places"),
        ({"method": "p-confidentiality", "k": None, "roads": None}, "needs a map of roads"),
        ({"method": "p-confidentiality", "k": 4}, "has no k"),
        ({"method": "p-confidentiality", "k": None, "sensitive": None}, "No place is sensitive"),
        ({"method": "p-confidentiality", "k": None, "parameter": {"p": 0.01}}, "half of the map"),
        ({"method": "km", "roads": "neighbours"}, "needs no map"),
        ({"method": "p-confidentiality", "k": None, "sensitive": ["z"]}, "not among those given"),
    ],
)
def test_what_cannot_be_is_refused(
    home: Path, tmp_path: Path, said: dict[str, Any], words: str
) -> None:
    method = said["method"]
    base: dict[str, Any] = {"k": 3, "attack": False} | DAY
    if method == "p-confidentiality":
        base |= MAP
    with pytest.raises(SfumatoError, match=words) as caught:
        sfumato_lab.anonymise_traces(
            home / "events.csv", out=tmp_path / "out", **town(home) | base | said
        )
    assert SECRET not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("a,x\nb,x\nc,x\nd,x\ne,y\nf,y\ng,y\nh,y\nx,top\ny,top", None),
        ("a,x\na,y\nb,x\nc,x\nd,x\ne,y\nf,y\ng,y\nh,y\nx,top\ny,top", "two areas"),
        ("a,x\nb,x\nc,x\nd,x\ne,y\nf,y\ng,y\nx,top\ny,top", "1 places lie in nothing"),
        ("a,x\nb,x\nc,x\nd,x\ne,y\nf,y\ng,y\nh,y", "exactly one area"),
        ("a,x\nb,x\nc,x\nd,x\ne,y\nf,y\ng,y\nh,y\nx,y\ny,x\nz,top", "circle"),
        ("a,b\nb,x\nc,x\nd,x\ne,x\nf,x\ng,x\nh,x", "something below it"),
    ],
)
def test_a_hierarchy_is_a_tree(home: Path, tmp_path: Path, rows: str, words: str | None) -> None:
    (tmp_path / "tree.csv").write_text(f"child,parent\n{rows}\n")
    if words is None:
        made = traces(home, tmp_path / "out", "generalise", hierarchy=tmp_path / "tree.csv")
        assert made.manifest["parameters"]["hierarchy"] == "given"
        labels = read_anonymised(tmp_path / "out").table.areas.labels  # type: ignore[union-attr]
        assert set(labels) <= {*NAMES, "x", "y", "top"}
        return
    with pytest.raises(InputError, match=words):
        traces(home, tmp_path / "out", "generalise", hierarchy=tmp_path / "tree.csv")


def test_a_trace_of_one_point_is_left_out_and_counted(home: Path, tmp_path: Path) -> None:
    made = traces(home, tmp_path / "out", "never-walk-alone")
    assert made.internal_figures["without_a_trajectory"] == 1
    (home / "single.csv").write_text(
        "user,time,tower\n" + "".join(f"{u},2024-03-04T01:00:00Z,a\n" for u in range(9))
    )
    for method in ("never-walk-alone", "wait-for-me"):
        with pytest.raises(UsageError, match="cannot be alike where there are fewer"):
            sfumato_lab.anonymise_traces(
                home / "single.csv",
                **town(home),
                method=method,
                k=3,
                out=tmp_path / "none",
                attack=False,
                **DAY,
            )


def test_a_folder_that_holds_something_else_is_left_alone(home: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds something else"):
        traces(home, tmp_path / "out", "km")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


@pytest.mark.privacy
def test_a_folder_written_again_holds_one_release(home: Path, tmp_path: Path) -> None:
    """Tables of an earlier run by another method would be a second release of the same people."""
    traces(home, tmp_path / "out", "generalise")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    traces(home, tmp_path / "out", "never-walk-alone")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"manifest.json", "README.txt", "paths.parquet", "notes.txt"}
    sfumato_lab.anonymise_counts(
        home / "events.csv", k=3, out=tmp_path / "out", **town(home), **DAY
    )
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"manifest.json", "README.txt", "counts.parquet", "notes.txt"}


@pytest.mark.parametrize("rounding", ["nearest", "random"])
def test_rounded_tables_are_attacked_as_well(home: Path, tmp_path: Path, rounding: str) -> None:
    """Rounded sums contradict rounded counts by up to their rounding, and no more."""
    said = {"towers": home / "towers.csv", **DAY}
    sfumato_lab.anonymise_counts(
        home / "events.csv",
        k=6,
        totals=True,
        rounding=rounding,
        seed=4,
        attack=False,
        out=tmp_path / "out",
        **town(home) | said,
    )
    found = attack_anonymised(home / "events.csv", release=tmp_path / "out", points=2, **said)
    assert [one.release for one in found.tables][1:] == ["out"]


def test_an_altered_folder_is_refused(home: Path, tmp_path: Path) -> None:
    traces(home, tmp_path / "out", "km")
    (tmp_path / "out" / "README.txt").write_text("differentially private")
    with pytest.raises(InputError, match="altered"):
        read_anonymised(tmp_path / "out")
    with pytest.raises(InputError, match="not a folder of anonymised"):
        read_anonymised(tmp_path)


def test_the_commands_print_the_label_and_mark_what_is_internal(home: Path, tmp_path: Path) -> None:
    book = ["--dataset", "town", "--ledger", str(town(home)["ledger"])]
    place = ["--towers", str(home / "towers.csv"), *FLAGS, *book, "--no-attack", "--seed", "1"]
    method = ["--method", "never-walk-alone", "-k", "3", "--parameter", "delta=1000"]
    walks, counts = (["--out", str(tmp_path / name)] for name in ("walks", "counts"))
    events = str(home / "events.csv")
    made = CliRunner().invoke(app, ["anonymise", "traces", events, *place, *method, *walks])
    assert made.exit_code == 0, made.output
    assert LABEL in made.stdout
    assert "NOT k-anonymity (Definition 1)" in made.stdout.replace("\n  ", " ")
    assert all(line.startswith("internal:") for line in made.stderr.splitlines() if "trash" in line)
    told = ["-k", "5", "--json", *counts]
    made = CliRunner().invoke(app, ["anonymise", "counts", events, *place, *told])
    said = json.loads(made.stdout)
    assert said["privacy"]["differential_privacy"] is False
    assert "suppressed" in said["internal"]


def test_every_parameter_has_a_default_in_its_range() -> None:
    for name in METHODS:
        assert settings_of(name, None) == settings_of(name, settings_of(name, None))
