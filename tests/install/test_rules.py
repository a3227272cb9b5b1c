"""The rules of the source bind the laboratory as well as the product: faults planted in both."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PACKAGES = ("sfumato", "sfumato_lab")


def ran(tool: str, *arguments: str, cwd: Path = ROOT, text: str = "") -> tuple[int, str]:
    if not (BIN / tool).exists():
        pytest.skip(f"{tool} is not installed: make test does")
    path = os.environ | {"PYTHONPATH": str(cwd / "src")}
    words = [str(BIN / tool), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, input=text, cwd=cwd, env=path)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_ruff_reads_both(package: str) -> None:
    name = f"src/{package}/toy.py"
    code, output = ran("ruff", "check", "--stdin-filename", name, "-", text="import os\n")
    assert code == 1
    assert "F401" in output


@pytest.mark.parametrize("package", PACKAGES)
def test_mypy_is_strict_in_both(package: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in PACKAGES:
        (tmp_path / "src" / name).mkdir(parents=True)
        (tmp_path / "src" / name / "__init__.py").touch()
    assert ran("mypy", cwd=tmp_path)[0] == 0
    (tmp_path / "src" / package / "toy.py").write_text("def look(box):\n    return box\n")
    code, output = ran("mypy", cwd=tmp_path)
    assert code == 1
    assert f"src/{package}/toy.py:1: error: Function is missing a type annotation" in output


PLANTED = {
    "sfumato_lab/toy.py": (
        "from sfumato.privacy.door import open_private\n",
        "private boxes are opened by the wall alone BROKEN",
    ),
    "sfumato/density/toy.py": (
        "from sfumato_lab.offers import OFFERS\n",
        "the product does without its laboratory BROKEN",
    ),
}


@pytest.mark.slow
@pytest.mark.privacy
@pytest.mark.parametrize("name", PLANTED)
def test_the_import_rules_read_both(name: str, tmp_path: Path) -> None:
    text, broken = PLANTED[name]
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "src" / name).write_text(text)
    code, output = ran("lint-imports", "--no-cache", cwd=tmp_path)
    assert code == 1
    assert broken in output
