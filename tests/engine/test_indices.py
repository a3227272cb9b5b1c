"""Compiled readers and counters with every index checked: they stay within their arrays.

numba checks indices only in what it compiles under NUMBA_BOUNDSCHECK=1, and what an earlier process
compiled it takes as it is. So all of this runs in processes of their own, which begin with an empty
folder for compiled code.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.privacy]

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("engine", "io")
"""Spark's own need a session: `tests/engine/spark`."""
PLANTED = """
import numpy as np
from sfumato.io.values import doubles

print(doubles(np.array([0, 8]), np.frombuffer(b"12345678", np.uint8)))
doubles(np.array([0, 9]), np.frombuffer(b"12345678", np.uint8))
"""
TESTS = (
    "tests/engine/test_answers.py",
    "tests/engine/test_bounds.py",
    "tests/engine/test_digest.py",
    "tests/engine/test_fingerprint.py",
    "tests/engine/test_ids.py",
    "tests/engine/test_order.py",
    "tests/engine/test_reading.py",
    "tests/engine/test_same_bytes.py",
    "tests/engine/test_text_ids.py",
    "tests/io/test_lines.py",
    "tests/io/test_values.py",
    "tests/synthesis/test_people.py",
)
FUZZ = """
import sys
from pathlib import Path
from tests.fuzz.files import good_files, main

home = Path(sys.argv[1])
home.mkdir()
good_files(home)
main(home, 0, 200)
"""


def checked(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python on these arguments, with every index checked."""
    env = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(folder / "compiled")}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)


def test_an_index_behind_the_end_is_an_error(tmp_path: Path) -> None:
    done = checked(tmp_path, "-c", PLANTED)
    assert "[12345678.]" in done.stdout
    assert "IndexError: index is out of bounds" in done.stderr
    assert done.returncode == 1


def test_readers_and_counters_stay_within_their_arrays(tmp_path: Path) -> None:
    """Their tests, and spoiled files; then each compiled function was compiled here."""
    done = checked(tmp_path, "-m", "pytest", "-q", "-x", "-n", "0", "-m", "not slow", *TESTS)
    assert done.returncode == 0, done.stdout[-3000:]
    spoiled = checked(tmp_path, "-c", FUZZ, str(tmp_path / "good"))
    assert spoiled.returncode == 0, spoiled.stderr[-3000:]
    assert spoiled.stdout.count("begun") == 200
    assert "fault" not in spoiled.stdout, spoiled.stdout[-3000:]
    there = {path.name.split("-")[0] for path in (tmp_path / "compiled").rglob("*.nbi")}
    wanted = {
        f"{path.stem}.{name}"
        for room in ROOMS
        for path in (ROOT / "src" / "sfumato" / room).glob("*.py")
        for name in re.findall(r"^@compiled\ndef (\w+)", path.read_text(), re.MULTILINE)
    }
    assert wanted <= there, sorted(wanted - there)
