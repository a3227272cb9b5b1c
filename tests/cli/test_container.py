"""As in a hardened container: packages and home read-only, another user, no network, umask 077."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sfumato

pytestmark = pytest.mark.skipif(os.name == "nt", reason="users and modes of POSIX")
NOBODY = 65534
Run = Callable[..., "subprocess.CompletedProcess[str]"]


class Container:
    """An installation, a home and a folder for results; only the last can be written."""

    def __init__(self, root: Path) -> None:
        self.packages, self.home = root / "packages", root / "home"
        self.results, self.temporary = root / "results", root / "temporary"
        self.root = os.geteuid() == 0
        shutil.copytree(
            Path(sfumato.__file__).parent,
            self.packages / "sfumato",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        for folder in (self.home, self.results, self.temporary):
            folder.mkdir(parents=True)
        root.chmod(0o755)
        self.close(self.packages)
        self.close(self.home)
        for folder in (self.results, self.temporary):
            if self.root:
                os.chown(folder, NOBODY, NOBODY)

    def close(self, folder: Path) -> None:
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)

    def open(self) -> None:
        for path in (self.packages, *self.packages.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)

    def run(self, *arguments: str, temporary: bool = True) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sfumato", *arguments]
        if self.root:
            another = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
            command = [*another, *command]
            if not subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode:
                command = ["unshare", "--net", *command]
        return subprocess.run(
            command,
            cwd=self.results,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(self.packages),
                "HOME": str(self.home),
                "TMPDIR": str(self.temporary if temporary else self.home),
                "OPENBLAS_NUM_THREADS": "1",
                "SFUMATO_TRACEBACK": "1",
            },
            umask=0o077,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def container() -> Iterator[Container]:
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("as root there is nothing read-only, and no setpriv to become another user")
    # Not in pytest's own folder, which nobody else may enter.
    with tempfile.TemporaryDirectory() as folder:
        made = Container(Path(folder))
        if made.run("--version").returncode:
            pytest.skip("another user cannot run this interpreter")
        yield made
        made.open()


CITY = ("city", "--users", "1200", "--towers", "6", "--zones", "4", "--days", "1", "--out", "town")


def test_commands_run_where_only_the_results_can_be_written(container: Container) -> None:
    """Every command that compiles died there: numba found no folder and gave up."""
    asked = ("plan", "--zone-count", "9", "--expected-users", "2000", "--no-rehearse")
    done = container.run(*asked, "--epsilon", "1", "--delta", "1e-6", temporary=False)
    assert done.returncode == 0, done.stderr
    assert "Cost: epsilon 1" in done.stdout
    done = container.run(*CITY)
    assert done.returncode == 0, done.stderr
    own = next(container.temporary.iterdir())
    assert own.name.startswith("sfumato-compiled-")
    assert own.stat().st_mode & 0o777 == 0o700
    assert any(own.rglob("*.nbi"))
    assert (container.results / "town" / "events.parquet").stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_release_from_an_image_that_was_warmed(container: Container) -> None:
    container.open()
    warmed = subprocess.run(
        [sys.executable, "-m", "sfumato", "doctor", "--warm", "--quiet", "--ledger", "none.sqlite"],
        cwd=container.packages.parent,
        env=os.environ | {"PYTHONPATH": str(container.packages)},
        check=False,
    )
    assert warmed.returncode == 0
    container.close(container.packages)
    assert container.run(*CITY).returncode == 0
    book = ("--ledger", "book.sqlite", "--dataset", "town")
    done = container.run("ledger", "init", *book, "--cap-epsilon", "9", "--cap-delta", "1e-3")
    assert done.returncode == 0, done.stderr
    places = ("--towers", "town/towers.csv", "--zones", "town/zones.geojson")
    days = ("--from", "2007-09-10", "--to", "2007-09-11", "--tz", "Europe/Paris")
    town, loss = ("town/events.parquet", *places, *days), ("--epsilon", "1", "--delta", "1e-6")
    people = ("--expected-users", "1200", *book)
    question = '{"measure": "visits", "hours": "8-10", "want": {"epsilon": 0.1}}'
    asked: dict[str, tuple[str, ...]] = {
        "release/density.parquet": ("release", *town, *loss, *people, "--anyway"),
        "free/events.parquet": ("synth", "--release", "release"),
        "made-up/events.parquet": ("synth", *town, *loss, *people, "--people", "200"),
        "few/manifest.json": ("anonymise", "counts", town[0], *places[:2], *days, *book, "-k", "3"),
    }
    for made, command in asked.items():
        done = container.run(*command, "--out", made.partition("/")[0])
        assert done.returncode == 0, done.stderr
        assert (container.results / made).is_file()
        if made.startswith("release"):
            assert not list(container.temporary.rglob("*.nbc")), "all of it was there already"
    for command in (
        ("query", *town, "--delta", "1e-6", "--question", question, *book),
        ("ask", "release", "--hours", "8-10"),
        ("ledger", "verify", *book[:2]),
    ):
        done = container.run(*command)
        assert done.returncode == 0, done.stderr
        assert done.stdout
