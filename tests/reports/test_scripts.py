"""The page's scripts: their own unit tests in Node.js, and their types."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "js"


def test_the_scripts_own_tests_pass(node: str) -> None:
    files = sorted(str(path) for path in HERE.glob("*.test.mjs"))
    done = subprocess.run([node, "--test", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_scripts_have_sound_types(node: str) -> None:
    del node
    here = os.environ.get("VIRTUAL_ENV", str(Path(__file__).parents[2] / ".venv"))
    local = Path(here) / "typescript" / "node_modules" / ".bin" / "tsc"
    checker = str(local) if local.exists() else shutil.which("tsc")
    if checker is None:
        pytest.skip("TypeScript is not installed; tools/ensure_typescript.sh installs it")
    done = subprocess.run([checker, "-p", str(HERE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
