"""The disk is full where the output should go: a clear error, no rubbish, paid once."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sfumato.privacy.ledger import Status

pytestmark = pytest.mark.privacy

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two pages, where this machine lets us mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_a_reservation_that_the_next_run_finishes(
    zygote: Run, new_place: Callable[[], Any], tiny_disk: Path
) -> None:
    place = replace(new_place(), out=tiny_disk / "day")
    failed = zygote(place)
    assert "disk is full" in failed["error"] or "No space left" in failed["error"]
    assert list(tiny_disk.iterdir()) == []
    (charge,) = place.book().book().charges.values()
    assert charge.status is Status.RESERVED
    subprocess.run(["mount", "-o", "remount,size=1m", str(tiny_disk)], check=True)
    assert zygote(place)["how"] == "resumed"
    (charge,) = place.book().book().charges.values()
    assert charge.status is Status.COMMITTED
    assert charge.files.keys() == {path.name for path in place.out.iterdir()}
    assert {"README.txt", "density.csv", "index.html", "manifest.json"} <= charge.files.keys()
