"""What is optional: said once, loaded where it is used, and named by the error where it is absent.

A module is hidden as if it were not installed, and the verb that needs it is called.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from tests.install.hiding import hide
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.model import extras
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap

PACKAGE = Path(sfumato.__file__).parent
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
OTHERS = {"all", "dev", "docs"}
"""All extras in one, and those for who works on sfumato: no part of it asks for them."""
WITH_OTHERS = {"markupsafe", "pydantic-core"}
"""Imported and a part of another that is declared: jinja2's safe texts, pydantic's JSON."""
NOT_IMPORTED = {"pyogrio", "tzdata"}
"""Needed all the same: geopandas reads files with the one, zoneinfo its clocks from the other."""


def named(requirement: str) -> str:
    return re.split(r"[\[><=;! ]", requirement)[0].lower().replace("_", "-")


def test_extras_are_those_of_the_project() -> None:
    said = {name: {named(one) for one in held} for name, held in _extras().items()}
    assert set(extras.EXTRAS) == set(said)
    owners = packages_distributions()
    for extra, modules in extras.EXTRAS.items():
        for module in modules:
            if module in owners:
                assert {named(owner) for owner in owners[module]} & said[extra], (extra, module)
    assert {name: tuple(held) for name, held in _extras().items()} == extras.PACKAGES
    (together,) = PROJECT["optional-dependencies"]["all"]
    assert set(re.findall(r"\w+", together.partition("[")[2])) == set(extras.EXTRAS) - {"rnn"}
    assert "sfumato[all,docs]" in PROJECT["optional-dependencies"]["dev"]


def _extras() -> dict[str, list[str]]:
    held: dict[str, list[str]] = PROJECT["optional-dependencies"]
    return {name: held[name] for name in held if name not in OTHERS}


_IMPORT = re.compile(r"^( *)(?:import (\w+)|from (\w+)[\w.]* import )", re.MULTILINE)


def imported() -> Iterator[tuple[Path, str, bool]]:
    """Every package that a file of sfumato imports, and whether loading the file loads it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for inside, one, other in _IMPORT.findall(path.read_text("utf-8")):
            yield path, one or other, not inside


def test_nothing_optional_is_loaded_with_a_file_and_nothing_needed_is_unsaid() -> None:
    optional = {module for modules in extras.EXTRAS.values() for module in modules}
    owners = packages_distributions()
    needed = {named(one) for one in PROJECT["dependencies"]}
    used = set()
    for path, module, at_once in imported():
        if module in sys.stdlib_module_names or module == "sfumato":
            continue
        assert not (at_once and module in optional), f"{path.name} loads {module}"
        if module not in optional:
            found = {named(owner) for owner in owners[module]}
            assert found & (needed | WITH_OTHERS), f"{path.name}: {module} is not declared"
            used |= found
    assert needed - used <= NOT_IMPORTED, "a dependency that nothing imports"


@pytest.fixture
def town(tmp_path: Path) -> dict[str, Any]:
    """A little town, released."""
    rows = "".join(f"{k % 40},2024-03-04T{k % 24:02d}:00:00Z,{'ab'[k % 2]}\n" for k in range(960))
    (tmp_path / "events.csv").write_text(f"user,time,tower\n{rows}")
    (tmp_path / "towers.csv").write_text("tower_id,lon,lat\na,2.3,48.8\nb,2.4,48.9\n")
    book = sfumato.Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    book.add_dataset("town", Cap(epsilon=9, delta=1e-4))
    # A stream's unit: without a cap it would be refused for that, before anything else.
    book.add_dataset("town", Cap(epsilon=9, delta=1e-4), Unit.parse("user-day"))
    day: dict[str, Any] = {"start": "2024-03-04", "end": "2024-03-05", "slot": "6h", "tz": "UTC"}
    day |= {"towers": tmp_path / "towers.csv", "ledger": book, "dataset": "town"}
    made = sfumato.release(tmp_path / "events.csv", out=tmp_path / "day", epsilon=1.0, delta=1e-6,
                           scheme="laplace", **day)  # fmt: skip
    return {"folder": tmp_path, "made": made, "events": tmp_path / "events.csv", "day": day}


Given = dict[str, Any]
NEEDS: dict[str, tuple[str, Callable[[Given], object]]] = {
    "the earth mover's distance": (
        "emd",
        lambda t: sfumato.evaluate(
            t["made"], t["events"], towers=t["day"]["towers"], earth_mover=True
        ),
    ),
    "recovery by flows between cells": (
        "emd",
        lambda t: sfumato.attack(
            t["made"], t["events"], towers=t["day"]["towers"], group=0, solver="cells"
        ),
    ),
    "an H3 grid": (
        "h3",
        lambda _: sfumato.plan(
            epsilon=1, delta=1e-6, expected_users=40, grid="h3:7", region="2.2,48.7,2.5,49.0",
            start="2024-03-04", end="2024-03-05", tz="UTC", rehearse=False,
        ),
    ),
    "a figure": ("plots", lambda t: t["made"].plot("series")),
    "figures beside the page": (
        "plots",
        lambda t: sfumato.report(t["made"], out=t["folder"] / "a.html", figures=t["folder"]),
    ),
    "an answer drawn": ("plots", lambda t: sfumato.ask(t["made"], by="slot").plot()),
    "a dataset of arrays": ("xarray", lambda t: t["made"].to_xarray()),
    "a topic": (
        "kafka",
        lambda t: sfumato.stream(
            "kafka://localhost:9/x", out=t["folder"] / "s", epsilon=1, **t["day"]
        ),
    ),
    "records in PostgreSQL": (
        "postgres",
        lambda _: sfumato.inspect("postgresql://nobody@localhost:9/x/events"),
    ),
    "a ledger in PostgreSQL": (
        "postgres",
        lambda _: sfumato.Ledger("postgresql://nobody@localhost:9/x"),
    ),
    "counting on a cluster": (
        "spark",
        lambda t: sfumato.release(
            t["events"], out=t["folder"] / "c", epsilon=1, delta=1e-6, scheme="laplace",
            engine="spark", **t["day"],
        ),
    ),
    "the recurrent classifier": ("rnn", lambda _: _classified()),
}  # fmt: skip


def _classified() -> object:
    from sfumato_lab.attacks.traces import classifier

    return classifier._torch()


@pytest.mark.parametrize("what", NEEDS)
def test_what_is_absent_is_named_with_the_line_that_installs_it(
    what: str, town: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra, call = NEEDS[what]
    hide(monkeypatch, extra)
    with pytest.raises(UsageError) as refused:
        call(town)
    assert "not installed" in refused.value.problem
    assert extras.line_for(extra) in refused.value.remedy
    assert "sfumato[" not in refused.value.remedy, "an index may know no sfumato"


STUDIES = {
    "frontier": ("emd", "plots"),
    "paris": ("emd", "plots"),
    "recovery": ("emd", "plots"),
    "chapter": ("plots",),
    "moving": ("plots",),
    "queries": ("plots",),
    "synthesis": ("plots",),
}


@pytest.mark.parametrize(("study", "extra"), [(s, e) for s, held in STUDIES.items() for e in held])
def test_a_study_asks_for_what_it_needs_before_it_works(
    study: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, extra)
    result = CliRunner().invoke(app, ["reproduce", study, "--out", str(tmp_path / "out")])
    assert isinstance(result.exception, UsageError)
    assert extras.line_for(extra) in result.exception.remedy
    assert not (tmp_path / "out").exists(), "nothing was begun"


_ASKED_FIRST = """
import sys
sys.modules["ot"] = None
from typer.testing import CliRunner
from sfumato.cli.main import app
result = CliRunner().invoke(app, ["reproduce", sys.argv[1], "--out", sys.argv[2]])
assert "POT" in str(result.exception), result.exception
heavy = {"numba", "pandas", "scipy", "pyarrow", "shapely"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.parametrize("study", ["paris", "recovery"])
def test_a_study_asks_before_it_loads_what_takes_seconds(study: str, tmp_path: Path) -> None:
    run = [sys.executable, "-c", _ASKED_FIRST, study, str(tmp_path / "out")]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_pot_an_evaluation_leaves_the_distance_out_and_says_so(
    town: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, "emd")
    said: dict[str, Any] = {"towers": town["day"]["towers"]}
    found = sfumato.evaluate(town["made"], town["events"], **said)
    assert "earth_mover_m" not in found.evaluations[0].overall
    assert found.evaluations[0].overall["mean_relative_error"] >= 0
    (remark,) = found.remarks
    assert extras.line_for("emd") in remark
    assert "pip install" in found._repr_html_()
    assert sfumato.evaluate(town["made"], town["events"], earth_mover=False, **said).remarks == ()


def test_with_pot_the_distance_is_there_without_being_asked_for(town: Given) -> None:
    pytest.importorskip("ot")
    found = sfumato.evaluate(town["made"], town["events"], towers=town["day"]["towers"])
    assert np.isfinite(found.evaluations[0].overall["earth_mover_m"])
    assert found.remarks == ()


def test_other_grids_need_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    from sfumato.geography.grids import grid_places

    hide(monkeypatch, "h3")
    region = shapely.box(2.30, 48.85, 2.32, 48.86)
    assert len(grid_places("500m", region)) > 1
    assert len(grid_places("geohash:6", region)) > 1
