"""The digest of a file's bytes: the definition in plain numbers, and that every bit counts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.engine.content import PIECE, Content, compress
from sfumato.engine.local import LocalSource
from sfumato.io.events import read_events

KEY = bytes(range(32))


def digest(data: bytes, key: bytes = KEY, pieces: int = 1) -> str:
    content = Content(key)
    step = max(1, -(-len(data) // pieces))
    for start in range(0, len(data), step):
        content.update(memoryview(data)[start : start + step])
    assert content.size == len(data)
    return content.hexdigest()


def random_bytes(size: int, seed: int = 1) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def test_a_block_is_what_the_definition_says() -> None:
    words = np.random.default_rng(2).integers(0, 1 << 64, 1024, np.uint64)
    key = np.random.default_rng(3).integers(0, 1 << 64, 515, np.uint64)
    words[:2], key[:2] = (1 << 64) - 1, (1 << 64) - 1
    out = np.empty((2, 4), np.uint64)
    compress(words, key, out)
    for block, lane in np.ndindex(2, 4):
        total = 0
        for i in range(512):
            word, secret = int(words[512 * block + i]), int(key[i + lane])
            low = (word + secret) % (1 << 32)
            total += low * (((word >> 32) + (secret >> 32)) % (1 << 32))
        assert int(out[block, lane]) == total % (1 << 64)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, PIECE, PIECE + 5])
def test_pieces_do_not_matter_and_lengths_do(size: int) -> None:
    data = random_bytes(size)
    assert digest(data) == digest(data, pieces=7)
    assert digest(data) != digest(data + b"\0")
    assert digest(data) != digest(data, key=bytes(32))
    if size:
        assert digest(data) != digest(data[:-1])


@pytest.mark.privacy
def test_every_bit_counts() -> None:
    """Each place of a block, the last bytes, blocks changed for one another, many keys."""
    data = bytearray(random_bytes(2 * 4096 + 3))
    known = {digest(bytes(data))}
    for at in [*range(0, 4096, 37), 4095, 4096, *range(8192, 8195)]:
        for bit in (0, 7):
            data[at] ^= 1 << bit
            known.add(digest(bytes(data)))
            data[at] ^= 1 << bit
    swapped = bytes(data[4096:8192] + data[:4096] + data[8192:])
    known.add(digest(swapped))
    assert len(known) == 2 * (len(range(0, 4096, 37)) + 5) + 2
    # A linear hash would let two changes cancel; with a secret key nobody can aim.
    first, second = bytearray(8192), bytearray(8192)
    for k in range(200):
        first[8 * k] = second[8 * k + 4] = 1
        assert digest(bytes(first), key=bytes([k])) != digest(bytes(second), key=bytes([k]))


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
