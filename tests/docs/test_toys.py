"""The toy diffs of docs/decisions/house.md, applied to a copy of the source and published with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

import sfumato

PAGE = ROOT / "docs" / "decisions" / "house.md"
TOYS = re.findall(r"```diff\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def changed(diff: str) -> list[tuple[str, list[str]]]:
    """Path to the lines of its hunks, for every file of a diff."""
    parts = re.split(r"^diff --git a/\S+ b/(\S+)\n", diff, flags=re.MULTILINE)[1:]
    return [
        (path, re.split(r"^@@ .*\n", text, flags=re.MULTILINE)[1:])
        for path, text in zip(parts[::2], parts[1::2], strict=True)
    ]


def apply(diff: str, tree: Path) -> None:
    for path, hunks in changed(diff):
        target = tree / path
        text = target.read_text("utf-8") if target.exists() else ""
        for hunk in hunks:
            lines = hunk.splitlines()
            old = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
            new = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
            if old:
                assert old in text, f"{path} is not as the page has it: {old!r}"
            text = text.replace(old, new, 1) if old else new
        target.write_text(text, "utf-8")


@pytest.mark.parametrize("toy", TOYS, ids=["density scheme", "stream scheme", "flag"])
def test_a_toy_touches_at_most_two_source_files(toy: str) -> None:
    assert len(changed(toy)) <= 2


def test_the_toys_of_the_page_publish(tmp_path: Path) -> None:
    package = Path(sfumato.__file__).parent
    copied = tmp_path / "src" / "sfumato"
    shutil.copytree(package, copied, ignore=shutil.ignore_patterns("*.pyc"))
    for toy in TOYS:
        apply(toy, tmp_path)
    (tmp_path / "towers.csv").write_text("tower_id,lon,lat\na,2.3,48.8\nb,2.4,48.9\n")
    rows = "".join(f"{k},2024-03-04T{k % 24:02d}:00:00Z,{'ab'[k % 2]}\n" for k in range(96))
    (tmp_path / "events.csv").write_text(f"user,time,tower\n{rows}")
    code = """
import sfumato
from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap
from typer.testing import CliRunner

assert sfumato.__file__.startswith(HOME), sfumato.__file__
book = sfumato.Ledger(HOME + "/ledger.sqlite")
book.initialise()
book.add_dataset("town", Cap(epsilon=9, delta=1e-4))
book.add_dataset("town", Cap(epsilon=9, delta=1e-4), Unit.parse("user-day"))
said = dict(towers=HOME + "/towers.csv", start="2024-03-04", end="2024-03-05", slot="6h",
            tz="UTC", dataset="town", epsilon=1.0, ledger=book, internal=lambda _: None)
made = sfumato.release(HOME + "/events.csv", delta=1e-6, expected_users=90, scheme="even",
                       anyway=True, out=HOME + "/even", **said)
assert made.values.shape == (2, 4) and (made.values == made.values[0, 0]).all()
done = sfumato.stream(HOME + "/events.csv", scheme="rarely", out=HOME + "/rarely", **said)
assert sfumato.read_release(done.folder).values.shape == (2, 4)
flags = ["--towers", said["towers"], "--from", "2024-03-04", "--to", "2024-03-05", "--tz", "UTC",
         "--dataset", "town", "--epsilon", "1", "--delta", "1e-6", "--expected-users", "90",
         "--ledger", HOME + "/ledger.sqlite", "--out", HOME + "/no", "--fewest-people", "1000"]
refused = CliRunner().invoke(app, ["release", HOME + "/events.csv", *flags]).exception
assert isinstance(refused, UsageError) and "--fewest-people" in refused.remedy, refused
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    subprocess.run(
        [sys.executable, "-c", f"HOME = {str(tmp_path)!r}\n{code}"], env=environment, check=True
    )
