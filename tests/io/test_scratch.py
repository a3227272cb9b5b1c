"""Scratch folders go with their process, even when it is killed."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
from pathlib import Path

import pytest

from sfumato.io.write import PREFIX, Scratch


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_folder_is_private_and_goes_when_closed() -> None:
    with Scratch() as name:
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o700
        Path(name, "rows").write_text("private")
    assert not Path(name).exists()


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_stays(tmp_path: Path) -> None:
    held = Scratch()
    pid = os.fork()
    if pid == 0:
        mine = Scratch()
        Path(mine.name, "rows").write_text("private")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 2
    Scratch().cleanup()
    assert [str(path) for path in tmp_path.glob(f"{PREFIX}*")] == [held.name]
    held.cleanup()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_swept_before_it_was_locked_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a sweep in another process can do in the instant before the lock."""
    real, taken = os.open, []

    def late(path: object, flags: int, *more: int) -> int:
        if not taken and PREFIX in str(path) and Path(str(path)).is_dir():
            taken.append(str(path))
            os.rmdir(str(path))
        return real(path, flags, *more)  # type: ignore[arg-type]

    monkeypatch.setattr("sfumato.io.write.sweep", lambda: None)
    monkeypatch.setattr("sfumato.io.write.os.open", late)
    scratch = Scratch()
    assert taken
    assert scratch.name != taken[0]
    assert os.path.isdir(scratch.name)
    scratch.cleanup()
