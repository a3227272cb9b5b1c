"""Commits that only move code publish what their parents published; and how that is compared."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tools import moves

DIGESTING = """
import hashlib, json, os, pathlib
folder = pathlib.Path(os.environ["PYTHONPATH"])
digest = lambda path: hashlib.sha256(path.read_bytes()).hexdigest()
print(json.dumps({path.name: digest(path) for path in sorted(folder.rglob("*.py"))}))
"""
"""In the place of the golden tool: a digest of every file by its name, wherever it is."""


def test_the_newest_commit_that_moves_code_publishes_the_same_bytes() -> None:
    """In a few cases: `make moves` compares them all. A tree is run once in an environment."""
    try:
        commit, subject = next(moves.commits(None), ("", ""))
    except moves.NoHistory as reason:
        pytest.skip(str(reason))
    if not commit:
        pytest.skip("No commit says that it moves code.")
    assert moves.verdict(commit, subject, quick=True).differing == ()


WHO = {
    f"GIT_{role}_{part}": "holder@town.example"
    for role in ("AUTHOR", "COMMITTER")
    for part in ("NAME", "EMAIL")
}


def in_git(folder: Path, *arguments: str) -> None:
    words = ["git", "-C", str(folder), *arguments]
    subprocess.run(words, check=True, capture_output=True, env=os.environ | WHO)


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of four commits: one that is what it says, and one that changes a file, too."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    clone, tool = tmp_path / "clone", tmp_path / "golden.py"
    tool.write_text(DIGESTING)
    source = clone / "src" / "sfumato"
    source.mkdir(parents=True)
    in_git(tmp_path, "init", "-q", str(clone))

    def commit(message: str) -> None:
        in_git(clone, "add", "-A")
        in_git(clone, "commit", "-q", "-m", message)

    (source / "noise.py").write_text("SCALE = 2\n")
    commit("Noise: a scale")
    (source / "privacy").mkdir()
    (source / "noise.py").rename(source / "privacy" / "noise.py")
    commit("Move: noise is in privacy")
    (source / "privacy" / "noise.py").write_text("SCALE = 1\n")
    commit("Move: noise, and half of its scale")
    (source / "words.py").write_text("HELLO = 1\n")
    commit("Words: Move: is not at the head of this message")
    monkeypatch.setattr(moves, "ROOT", clone)
    monkeypatch.setattr(moves, "GOLDEN", tool)
    monkeypatch.setattr(moves, "SHELF", tmp_path / "shelf")
    return clone


def test_a_move_that_changes_something_is_told_from_one_that_does_not(history: Path) -> None:
    del history
    listed = list(moves.commits(None))
    changing, moving = (moves.verdict(*named, quick=True) for named in listed)
    assert [subject for _, subject in listed] == [changing.subject, moving.subject]
    assert moving.differing == ()
    assert changing.differing == ("noise.py",)
    page = moves.table([changing, moving])
    assert "| **1 differ**: `noise.py` |" in page
    assert f"| `{moving.commit[:8]}` | Move: noise is in privacy | 1 | equal |" in page
    assert len(list(moves.SHELF.glob("*.json"))) == 3, "a tree that two of them share is run once"
    assert list(moves.commits("HEAD~1")) == []


def test_where_there_is_no_history_it_is_said_why(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(moves.NoHistory, match="no-such-commit"):
        list(moves.commits("no-such-commit"))
    shallow = tmp_path / "shallow"
    in_git(tmp_path, "clone", "-q", "--depth", "1", f"file://{history}", str(shallow))
    monkeypatch.setattr(moves, "ROOT", shallow)
    with pytest.raises(moves.NoHistory, match="a shallow clone"):
        list(moves.commits(None))
    shutil.rmtree(shallow / ".git")
    with pytest.raises(moves.NoHistory, match="an archive of the sources, without git"):
        list(moves.commits(None))
