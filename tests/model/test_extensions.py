"""What other distributions add is found by their entry points, and cannot take anything along."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from importlib import invalidate_caches
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sfumato.cli.config import settings
from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.model import extensions

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a distribution with one module where Python imports from."""
    monkeypatch.syspath_prepend(tmp_path)

    def put(name: str, *rows: tuple[str, ...], module: str = "", version: str = "1.0") -> None:
        (tmp_path / f"{name}.py").write_text(module)
        (tmp_path / f"{name}_offers.py").write_text(f"OFFERS = {rows!r}\n")
        home = tmp_path / f"{name}-{version}.dist-info"
        home.mkdir()
        (home / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        (home / "entry_points.txt").write_text(
            f"[console_scripts]\n{name} = {name}:main\n\n"
            f"[{extensions.GROUP}]\n# its table\n{name} = {name}_offers:OFFERS\n"
        )
        invalidate_caches()
        extensions._tables.cache_clear()

    yield put
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)
    extensions._tables.cache_clear()


COMMAND = ("command", "ripple", "Rings in the water.", "waves:ripple")
RIPPLE = "def ripple() -> None:\n    print('splash')\n"


def test_the_same_entry_points_are_read_as_by_the_library(install: Install) -> None:
    install("waves", COMMAND, module=RIPPLE, version="2.1")
    points = entry_points(group=extensions.GROUP)
    assert extensions._points() == sorted(
        (point.dist.name, point.dist.version, point.value) for point in points if point.dist
    )


def test_a_command_of_others_is_listed_and_runs(install: Install) -> None:
    install("waves", COMMAND, module=RIPPLE)
    listed = CliRunner().invoke(app, ["--help"]).output
    assert "added by waves" in listed
    assert "Rings in the water." in listed
    assert CliRunner().invoke(app, ["ripple"]).output == "splash\n"
    assert extensions.offers("command")["ripple"].provenance()["version"] == "1.0"


def test_names_of_the_product_cannot_be_taken(install: Install) -> None:
    taken = [("command", "release", "", "waves:ripple"), ("attack", "traces", "", "waves:ripple")]
    install("waves", *taken, module=RIPPLE)
    for words in (["release", "-h"], ["attack", "traces", "-h"]):
        assert "--out" in CliRunner().invoke(app, words).output
    assert "added by waves" not in CliRunner().invoke(app, ["--help"]).output


@pytest.mark.parametrize("module", ["import nothing_of_that_name", "1 / 0", "def ripple(:"])
def test_what_does_not_load_is_a_line_of_doctor(
    install: Install, tmp_path: Path, module: str
) -> None:
    install("waves", COMMAND, module=module)
    install("foam", ("command", "ripple"))
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0
    (tmp_path / "sfumato.toml").write_text("ripples = 1\n")
    with pytest.raises(UsageError, match="there is no option 'ripples'"):
        settings(tmp_path / "sfumato.toml", ["release"], typer.main.get_command(app))
    with pytest.raises(UsageError, match="command ripple of waves does not load"):
        extensions.offered("command", "ripple").load()
    book = str(tmp_path / "ledger.sqlite")
    done = CliRunner().invoke(app, ["doctor", "--ledger", book, "--json"])
    checks = {
        (check["check"], check["status"]): check["found"]
        for check in json.loads(done.output)["checks"]
    }
    assert "ripple" in checks["added by waves", "wrong"]
    assert "table of offers" in checks["added by foam", "wrong"]
    assert "offers" in checks["added by sfumato", "ok"]


@pytest.mark.parametrize(
    "table",
    [
        "import sys\nsys.exit(3)",
        "OFFERS = (('command', ['ripple'], '', 'waves:ripple'),)",
        "OFFERS = (('command', 5, '', 'waves:ripple'),)",
        "OFFERS = (('command', 'two words', '', 'waves:ripple'),)",
        "OFFERS = (('command', '\\ud800', '', 'waves:ripple'),)",
    ],
)
def test_no_table_takes_the_other_commands_along(
    install: Install, tmp_path: Path, table: str
) -> None:
    install("waves")
    (tmp_path / "waves_offers.py").write_text(f"{table}\n")
    extensions._tables.cache_clear()
    listed = CliRunner().invoke(app, ["--help"])
    assert listed.exit_code == 0, listed.exception
    assert "added by waves" not in listed.output
    assert [failure.distribution for failure in extensions.failures()] == ["waves"]


def test_what_leaves_while_it_loads_does_not_take_doctor_along(install: Install) -> None:
    install("waves", COMMAND, module="import sys\nsys.exit(0)")
    with pytest.raises(UsageError, match="command ripple of waves does not load"):
        extensions.offered("command", "ripple").load()


def test_help_of_others_breaks_no_list(install: Install) -> None:
    install("waves", ("command", "ripple", "Rings [/red].", "waves:ripple"))
    listed = CliRunner().invoke(app, ["--help"])
    assert listed.exit_code == 0, listed.exception
    assert "Rings [ /red]." in listed.output


@pytest.mark.privacy
@pytest.mark.parametrize(
    "changed",
    ["__init__.py", "noise.py", "deep/__init__.py", "deep/floor.py", "deep/tides.py", "far.py"],
)
def test_the_digest_holds_relative_imports_and_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "swell"
    (package / "deep").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "deep/__init__.py": "",
        "deep/tides.py": "from . import floor\nfrom ..noise import sd\nfrom .. import far\n",
        "deep/floor.py": "depth = 1\n",
        "noise.py": "sd = 1\n",
        "far.py": "away = 1\n",
    }
    for name, text in files.items():
        (package / name).write_text(text)
    invalidate_caches()
    before = extensions.digest_of("swell.deep.tides")
    (package / changed).write_text(f"{files[changed]}more = 1\n")
    assert extensions.digest_of("swell.deep.tides") != before
    for name in [name for name in sys.modules if name.partition(".")[0] == "swell"]:
        del sys.modules[name]
