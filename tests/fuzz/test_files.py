"""A quick part of the files of `make fuzz`: 500 damaged ones, and no reader dies of any."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from tests.fuzz import files

from sfumato.io.events import FORMATS

FILES = 500
FIRST = 7_000_000


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("good")
    files.good_files(home)
    return home


def test_every_format_is_tried_under_each_of_its_endings(good: Path) -> None:
    paths = [path for path in good.rglob("*") if path.is_file()]
    tried = {(files.kind_of(path), path.name[path.name.index(".") :]) for path in paths}
    for each in FORMATS.values():
        endings = each.endings[:1] if each.name == files.Parquet.name else each.endings
        assert {(each.name, ending) for ending in endings} <= tried


def test_good_files_are_read_to_the_last_row(good: Path, tmp_path: Path) -> None:
    for number, path in enumerate(path for path in good.rglob("*") if path.is_file()):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copy(path, folder / path.name)
        beside = shutil.copy(path, folder / f"a {path.name}")
        rows = files.read(Path(beside), path)
        wanted = 0 if files.EMPTY in path.name else files.ROWS
        assert rows == (9 if files.kind_of(path) in files.PLACES else wanted), path.name


def test_no_reader_dies_of_a_damaged_file(good: Path) -> None:
    verdicts = files.tried(good, FIRST, FILES)
    assert not verdicts.faults, verdicts.faults
    assert verdicts.outcomes.total() == FILES
    # A fuzzer that damages everything, or nothing, would show nothing.
    read = sum(n for (_, outcome), n in verdicts.outcomes.items() if outcome == files.ROWS_READ)
    assert FILES // 10 < read < FILES * 9 // 10


DIES = """
import os, signal, sys
for seed in range(int(sys.argv[2]), int(sys.argv[3])):
    print("begun", seed, "csv", flush=True)
    if seed == 3:
        os.kill(os.getpid(), signal.SIGABRT)
    print(*(("fault", seed, "csv", "no row") if seed == 5 else ("rows", seed, "csv")))
"""


def test_a_reader_that_dies_is_a_failure_and_the_files_behind_it_are_tried(tmp_path: Path) -> None:
    verdicts = files.tried(tmp_path, 1, 6, (sys.executable, "-c", DIES))
    assert verdicts.outcomes == {("csv", files.ROWS_READ): 4, ("csv", files.FAULT): 2}
    assert verdicts.faults == {3: "exit -6: ", 5: "no row"}
