"""The fingerprint of a file's bytes: every bit counts, and nothing that the file system says."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely

from sfumato.engine.fingerprint import PIECE, fingerprint
from sfumato.engine.local import LocalSource
from sfumato.io.events import read_events
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

KEY = bytes(range(32))


def named(path: Path, data: bytes, key: bytes = KEY) -> str:
    """The fingerprint of a file of these bytes; they mean nothing to a reader."""
    path.write_bytes(b"user,time,place\n" + data)
    grid = TimeGrid.between(date(2024, 1, 1), date(2024, 1, 2), "1h", "UTC")
    return fingerprint(read_events(path), one_tower(), grid, key)


def one_tower() -> Places:
    return Places.of(PlaceKind.TOWERS, ["t"], [shapely.Point(2.3, 48.8)])


@pytest.mark.parametrize("size", [0, 1, PIECE - 17, PIECE - 16, PIECE + 5])
def test_lengths_keys_and_the_last_byte_matter(size: int, tmp_path: Path) -> None:
    """Of files around the length that is read at once."""
    path, data = tmp_path / "events.csv", np.random.default_rng(1).bytes(size)
    known = named(path, data)
    assert known == named(path, data)
    assert known != named(path, data + b"\0")
    assert known != named(path, data, key=bytes(32))
    if size:
        assert known not in (named(path, data[:-1]), named(path, data[:-1] + b"x"))


@pytest.mark.privacy
def test_every_bit_counts(tmp_path: Path) -> None:
    """Of both pieces of a file, and pieces changed for one another."""
    path = tmp_path / "events.csv"
    data = bytearray(np.random.default_rng(2).bytes(2 * PIECE - 16))
    known = {named(path, bytes(data))}
    places = [0, 1, PIECE - 17, PIECE - 16, 2 * PIECE - 17]
    for at in places:
        for bit in (0, 7):
            data[at] ^= 1 << bit
            known.add(named(path, bytes(data)))
            data[at] ^= 1 << bit
    known.add(named(path, bytes(data[PIECE:] + data[:PIECE])))
    assert len(known) == 2 * len(places) + 2


@pytest.mark.privacy
def test_a_file_that_keeps_its_size_and_time_is_still_another(town: Any, tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,time,place\n" + "7,2024-01-01T00:30:00Z,t0\n" * 1000)
    source = LocalSource(read_events(path), town.towers(2), town.grid())
    before, stamp = source.fingerprint(KEY), path.stat()
    assert source.fingerprint(KEY) == before
    with path.open("r+b") as file:
        file.seek(-2, 2)
        file.write(b"1")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert path.stat().st_size == stamp.st_size
    assert source.fingerprint(KEY) != before
