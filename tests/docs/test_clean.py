"""The pages that a reader begins with, in the environment that each tells the reader to make.

A copy of the sources, a new environment, the page's own install line, an empty folder, and then
every block as printed: shell lines by a shell, programs by that environment's Python. Slow; what
the install lines leave out is also hidden where the tests run these pages in one process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import FRONT, ROOT, begins_at, blocks, installed, named
from tests.install.pythons import clean, environment

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("clean")]


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Environments:
    return Environments(tmp_path_factory.mktemp("clean"))


class Environments:
    """One environment for each install line, made when a page first asks for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[frozenset[str], Path] = {}
        self.clone = folder / "clone"
        listed = ["git", "-C", str(ROOT), "ls-files", "-z"]
        for name in subprocess.run(listed, capture_output=True, check=True).stdout.split(b"\0"):
            source = ROOT / name.decode()
            if name and source.is_file():
                target = self.clone / name.decode()
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)

    def programs(self, extras: set[str]) -> Path:
        """The folder of programs of an environment with these extras."""
        key = frozenset(extras)
        if key not in self._made:
            folder = self._folder / ("-".join(sorted(extras)) or "plain")
            python = environment(Path(sys.executable), folder, pip=True)
            what = f".[{','.join(sorted(extras))}]" if extras else "."
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            pip += ["-c", str(ROOT / "constraints.txt"), what]
            done = subprocess.run(
                pip, cwd=self.clone, env=clean(), capture_output=True, text=True, check=False
            )
            if done.returncode and "connection" in done.stderr.lower():
                pytest.skip("no package index can be reached")
            assert done.returncode == 0, done.stderr
            self._made[key] = python.parent
        return self._made[key]


def _play(page: Path, folder: Path, around: dict[str, str]) -> None:
    for kind, text in blocks(page):
        if kind == "toml":
            (folder / "sfumato.toml").write_text(text)
            continue
        command = ["bash", "-euo", "pipefail", "-c", text] if kind == "sh" else ["python", "-"]
        done = subprocess.run(
            command,
            input=None if kind == "sh" else text,
            stdin=subprocess.DEVNULL if kind == "sh" else None,
            cwd=folder,
            env=around,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{named(page)}:\n{text}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr


FILES = "add-a-scheme.md"
"""Its blocks are the files of a distribution, which tests/model installs and runs."""
PAGES = [page for page in FRONT if blocks(page) and page.name != FILES]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_runs_where_its_reader_stands(
    page: Path, environments: Environments, tmp_path: Path
) -> None:
    programs = environments.programs(installed(page))
    home, folder = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    folder.mkdir()
    kept = {k: v for k, v in clean().items() if not k.startswith(("XDG_", "SFUMATO_"))}
    around = kept | {"HOME": str(home), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    before = begins_at(page)
    for one in (page,) if before is None else (before, page):
        _play(one, folder, around)
