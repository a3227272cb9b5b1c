"""The tutorial's commands and programs, run as they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.pages import ROOT, blocks, run

TUTORIAL = ROOT / "docs" / "tutorial.md"


def test_every_block_of_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert {kind for kind, _ in blocks(TUTORIAL)} == {"toml", "sh", "python"}
    run(TUTORIAL)
    assert (tmp_path / "week-37" / "index.html").is_file()
    assert (tmp_path / "internal-week-37").is_dir()
