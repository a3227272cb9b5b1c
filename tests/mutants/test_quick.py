"""Some planted faults, each noticed by a privacy test; and the runner itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
AREAS = {"audit", "bounds", "charges", "labels", "noise", "refinement"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "run.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.privacy
def test_some_planted_faults_are_noticed() -> None:
    """`make mutants` plants all of them."""
    done = run("--quick", "--unchecked")
    assert done.returncode == 0, done.stdout + done.stderr
    noticed, planted = map(int, re.findall(r"([0-9]+) of ([0-9]+) faults were", done.stdout)[-1])
    assert noticed == planted >= 8


@pytest.fixture
def runner():
    import importlib.util

    spec = importlib.util.spec_from_file_location("mutants_run", HERE / "run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants_run"] = module  # a dataclass looks its module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mutants_run"]


def test_every_fault_can_still_be_planted(runner) -> None:
    """One whose fragment is gone says nothing any more: write it anew for the code as it is."""
    listed = runner.faults()
    assert len(listed) >= 25
    assert {fault.area for fault in listed} >= AREAS
    for fault in listed:
        assert fault.planted(fault.text())
        for test in fault.tests:
            assert (runner.ROOT / test.partition("::")[0]).exists(), test


def test_a_fault_that_cannot_be_planted_stops_the_run(runner) -> None:
    fault = runner.Fault("gone", "labels", "wall.py", "no such line", "x")
    with pytest.raises(SystemExit, match="stands 0 times"):
        fault.planted("text without it")
    with pytest.raises(SystemExit, match="stands 2 times"):
        runner.Fault("twice", "labels", "wall.py", "a", "b").planted("a a")
    with pytest.raises(SystemExit, match="there is already a"):
        runner.Fault("new", "labels", "sfumato_lab/offers.py", "", "b").text()
    with pytest.raises(SystemExit, match=r"no waves/wall\.py"):
        runner.Fault("gone", "labels", "waves/wall.py", "a", "b").text()


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        ({"code": 1, "failed": "tests/x.py::t", "broken": "", "passed": 0}, "killed"),
        ({"code": 0, "failed": "", "broken": "", "passed": 3}, "SURVIVED"),
        ({"code": 5, "failed": "", "broken": "", "passed": 0}, "BROKEN"),
        ({"code": 2, "failed": "", "broken": "tests/x.py", "passed": 0}, "BROKEN"),
    ],
)
def test_only_a_failing_privacy_test_kills(runner, found, outcome) -> None:
    assert runner.judged(found)[0] == outcome


def test_the_page_lists_every_fault_with_its_killer(runner) -> None:
    page = runner.PAGE.read_text(encoding="utf-8")
    section = page.partition(runner.HEAD)[2]
    missing = [fault.name for fault in runner.faults() if f"| {fault.name} |" not in section]
    assert not missing, "run `make mutants` to write the table"
    assert "SURVIVED" not in section
    assert "BROKEN" not in section
