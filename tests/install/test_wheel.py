"""The wheel: the same bytes each time, everything in it, and it installs on every Python here."""

from __future__ import annotations

import runpy
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.install.pythons import clean, environment, pythons

pytest.importorskip("hatchling", reason="the build backend is not installed: make test does")
ROOT = Path(__file__).resolve().parents[2]
dist = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "dist.py")))
PYTHONS = pythons()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source archive and the wheel, as `make dist` makes them."""
    archive, wheel = sorted(
        dist.build(ROOT, tmp_path_factory.mktemp("dist")), key=lambda path: path.suffix
    )
    return archive, wheel


def test_built_again_elsewhere_later_and_by_another_user_it_is_the_same_bytes(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    again = dist.build(dist.copied(tmp_path), tmp_path / "dist")
    assert {p.name: dist.digest(p) for p in again} == {p.name: dist.digest(p) for p in built}


def test_every_file_of_the_package_is_in_it_and_nothing_else(built: tuple[Path, Path]) -> None:
    ours = {
        path.relative_to(ROOT / "src").as_posix()
        for package in ("sfumato", "sfumato_lab")
        for path in (ROOT / "src" / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"sfumato/py.typed", "sfumato/reports/words/en.json"} <= ours
    assert any(name.endswith("public.html") for name in ours)
    held = set(zipfile.ZipFile(built[1]).namelist())
    assert {name for name in held if ".dist-info/" not in name} == ours
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in ours} <= names
    assert {"LICENSE", "README.md", "CHANGELOG.md", "constraints.txt"} <= names


def test_an_index_would_take_it(built: tuple[Path, Path]) -> None:
    pytest.importorskip("twine", reason="twine is not installed: make test does")
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("version", PYTHONS)
def test_it_installs_and_loads(version: str, built: tuple[Path, Path], tmp_path: Path) -> None:
    """The wheel alone, in an environment that sees the packages of this one where it can."""
    python = environment(PYTHONS[version], tmp_path / "environment", pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    pip += ["--no-deps", "--no-index", "--disable-pip-version-check", str(built[1])]
    subprocess.run([*pip, "--no-compile"], check=True, env=clean())
    code = "import sfumato; print(sfumato.__file__, sfumato.__version__, len(dir(sfumato)))"
    done = _ran(python, "-I", "-c", code)
    assert done.startswith(str(tmp_path)), "it is the installed one that was loaded"
    if version != f"{sys.version_info[0]}.{sys.version_info[1]}":
        return  # packages that were built for another Python do not load
    theirs = next((tmp_path / "environment").glob("lib/python*/site-packages")) / "theirs.pth"
    theirs.write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    code = "from sfumato.cli.main import run; from sfumato.reports.page import asset, bundle; "
    code += "from sfumato.published.manifest import json_schema; import sfumato.density.publish; "
    code += "print(len(asset('html/public.html')), len(bundle('main')), len(json_schema()))"
    assert min(map(int, _ran(python, "-c", code).split())) > 1000
    code = "from sfumato.model import extensions, private; "
    code += "print(extensions.offers('command')['reproduce'].module, extensions.failures(), "
    code += "private.is_bound('sfumato_lab.toy'))"
    assert _ran(python, "-c", code).strip() == "sfumato_lab.cli.reproduce () True"


def _ran(python: Path, *arguments: str) -> str:
    done = subprocess.run(
        [python, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=clean(),
        cwd=python.parents[1],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


CITY = ("--users", "2000", "--towers", "12", "--zones", "9", "--days", "2", "--out", "town")
PLACES = ("--towers", "town/towers.csv", "--zones", "town/zones.geojson")
DAYS = ("--from", "2007-09-10", "--to", "2007-09-12", "--tz", "Europe/Paris")
BOOK = ("--ledger", "book.sqlite", "--dataset", "town")
LOSS = ("--epsilon", "1", "--delta", "1e-6", "--expected-users", "2000")
QUESTION = '{"measure": "unique_people", "hours": "8-10", "want": {"epsilon": 0.5}}'
MANY = '{"measure": "visits", "hours": "8-10"}'
COMMANDS = {
    "city": CITY,
    "ledger init": (*BOOK, "--cap-epsilon", "9", "--cap-delta", "1e-3"),
    "ledger init --unit user-day": (*BOOK, "--cap-epsilon", "9", "--cap-delta", "1e-3"),
    "release": ("town/events.parquet", *PLACES, *DAYS, *BOOK, *LOSS, "--anyway", "--out", "week"),
    "report": ("week", "--out", "page.html"),
    "ask": ("week", "--hours", "8-10"),
    "query": ("town/events.parquet", *PLACES, *DAYS, *BOOK, "--delta", "1e-8",
              "--question", QUESTION),
    "query --together mwem": ("town/events.parquet", *PLACES, *DAYS, *BOOK, "--delta", "1e-8",
                              "--question", MANY, "--epsilon", "0.5", "--rounds", "2"),
    "anonymise counts": ("town/events.parquet", *PLACES[:2], *DAYS, *BOOK, "-k", "3",
                         "--out", "few"),
    "reproduce chapter": ("--part", "john", "--no-figures", "--out", "john"),
    "stream": ("town/events.parquet", *PLACES, *DAYS, *BOOK, *LOSS, "--out", "live"),
    "stream --scheme threshold": ("town/events.parquet", *PLACES, *DAYS, *BOOK, *LOSS,
                                  "--out", "threshold"),
    "release --scheme grouping": ("town/events.parquet", *PLACES, *DAYS, *BOOK, *LOSS, "--anyway",
                                  "--out", "grouping"),
    "evaluate": ("week", "--events", "town/events.parquet", *PLACES),
    "export": ("week", "portal", "--to", "package", "--publisher", "town hall",
               "--licence", "CC0-1.0"),
    "doctor": ("--ledger", "book.sqlite"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("version", PYTHONS)
def test_a_clean_install_does_the_days_work(
    version: str, built: tuple[Path, Path], tmp_path: Path
) -> None:
    """`pip install sfumato` and no more, from the index; skipped where there is none."""
    python = environment(PYTHONS[version], tmp_path / "environment", pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pinned = ["-c", str(ROOT / "constraints.txt"), str(built[1])]
    installed = subprocess.run([*pip, *pinned], capture_output=True, text=True, env=clean())
    if installed.returncode and not _reachable(python):
        pytest.skip("no package index can be reached")
    assert installed.returncode == 0, installed.stderr
    _ran(python, "-m", "pip", "check")
    said = {}
    for command, options in COMMANDS.items():
        done = subprocess.run(
            [python.parent / "sfumato", *command.split(), *options],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=clean() | {"HOME": str(tmp_path), "SFUMATO_TRACEBACK": "1"},
        )
        assert done.returncode == 0, (command, done.stderr)
        said[command] = done.stdout + done.stderr
    assert "pip install 'POT>=" in said["evaluate"]
    assert "earth mover's distance (m)" not in said["evaluate"]
    assert "pip install 'h3>=" in said["doctor"]
    assert (tmp_path / "page.html").stat().st_size > 10_000


def _reachable(python: Path) -> bool:
    asked = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", "tzdata"]
    return not subprocess.run(asked, capture_output=True, env=clean(), check=False).returncode
