"""Streams: one sequence whatever the portions, no two purposes alike, nothing spent twice."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import UsageError
from sfumato.privacy.noise import BitStream, KeyedStream, SeededStream, SystemStream

pytestmark = pytest.mark.privacy

KEY = bytes(range(32))
GOLDEN = ["ae7b614da97eb1d8", "b2809dcde22199b5", "edb15cfff85c8f5e"]


@given(st.lists(st.integers(0, 700), max_size=12))
def test_the_sequence_does_not_depend_on_the_portions(portions: list[int]) -> None:
    parts = KeyedStream(KEY, "a")
    got = np.concatenate([np.empty(0, np.uint64), *(parts.words(n) for n in portions)])
    assert (got == KeyedStream(KEY, "a").words(sum(portions))).all()


def test_the_words_are_shake_256_over_length_prefixed_parts() -> None:
    parts = [b"sfumato/noise/keyed/1", KEY, "Größe".encode(), b"x"]
    head = (4).to_bytes(8, "little")
    head += b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    blocks = [
        hashlib.shake_256(head + n.to_bytes(8, "little")).digest(size)
        for n, size in enumerate([1024, 2048, 4096])
    ]
    expected = np.frombuffer(b"".join(blocks), "<u8")
    assert (KeyedStream(KEY, "Größe").child("x").words(expected.size) == expected).all()


def test_golden_words() -> None:
    assert [f"{word:016x}" for word in KeyedStream(KEY, "golden").words(3)] == GOLDEN


def test_different_keys_labels_and_kinds_give_unrelated_words() -> None:
    streams: list[BitStream] = [
        KeyedStream(KEY, "a"),
        KeyedStream(KEY[::-1], "a"),
        KeyedStream(KEY, "b"),
        KeyedStream(KEY, "a").child("b"),
        KeyedStream(KEY, "ab"),
        KeyedStream(KEY, "a/b"),
        KeyedStream(KEY, "a").child("b").child("c"),
        KeyedStream(KEY, "a").child("bc"),
        KeyedStream(KEY, "a").child("b/c"),
        SeededStream(0),
        SeededStream(1),
        SeededStream(0).child("a"),
        SystemStream(),
        SystemStream(),
        SystemStream().child("a"),
    ]
    words = np.concatenate([stream.words(1000) for stream in streams])
    assert np.unique(words).size == words.size


def test_bits_are_balanced_and_uncorrelated() -> None:
    words = KeyedStream(KEY, "balance").words(20_000)
    bits = np.unpackbits(words.view(np.uint8)).astype(int)
    n = bits.size
    assert abs(bits.sum() - n / 2) < 5 * (n / 4) ** 0.5
    assert abs((bits[1:] ^ bits[:-1]).sum() - n / 2) < 5 * (n / 4) ** 0.5
    bytes_ = np.bincount(words.view(np.uint8), minlength=256)
    assert ((bytes_ - n / 2048) ** 2 / (n / 2048)).sum() < 255 + 6 * (2 * 255) ** 0.5


def test_a_child_does_not_depend_on_what_its_parent_has_spent() -> None:
    parent = KeyedStream(KEY, "a")
    before = parent.child("b").words(5)
    parent.words(100)
    assert (parent.child("b").words(5) == before).all()


@pytest.mark.parametrize("stream", [KeyedStream(KEY, "a"), SystemStream(), SeededStream(1)])
def test_a_stream_cannot_be_copied_or_pickled(stream: BitStream) -> None:
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(UsageError, match="cannot be copied"):
            attempt(stream)


def test_a_stream_refuses_to_work_in_a_forked_process() -> None:
    stream = SystemStream()
    stream.words(1)
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            stream.words(1)
        except UsageError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    stream.words(1)


def test_threads_never_get_the_same_words() -> None:
    stream = KeyedStream(KEY, "threads")
    got: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: got.extend(stream.words(97) for _ in range(50)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = np.concatenate(got)
    assert (np.sort(together) == np.sort(KeyedStream(KEY, "threads").words(4 * 50 * 97))).all()


def test_only_seeded_streams_and_their_children_are_tainted() -> None:
    assert SeededStream(3).tainted
    assert SeededStream(3).child("a").tainted
    assert not KeyedStream(KEY, "a").child("b").tainted
    assert not SystemStream().child("b").tainted


def test_a_stream_does_not_show_its_key() -> None:
    stream = KeyedStream(KEY, "a")
    for text in (repr(stream), str(stream), f"{stream}"):
        assert KEY.hex() not in text
        assert repr(KEY)[2:-1] not in text
    assert "'a'" in repr(stream)


@pytest.mark.parametrize("key", [b"", bytes(16), bytes(33), "0" * 32, bytearray(32)])
def test_keys_of_the_wrong_size_or_kind_are_refused(key: bytes) -> None:
    with pytest.raises(UsageError, match="32 bytes"):
        KeyedStream(key, "a")


def test_labels_are_required() -> None:
    for make in (lambda: KeyedStream(KEY, ""), lambda: KeyedStream(KEY, "a").child("")):
        with pytest.raises(UsageError, match="label"):
            make()
    with pytest.raises(UsageError, match="non-negative"):
        KeyedStream(KEY, "a").words(-1)


@pytest.mark.parametrize("spent", [0, 1, 2, 3, 4, 5, 511, 512, 513])
def test_words_after_a_sampler_skip_the_word_it_has_begun(spent: int) -> None:
    def step(_: np.ndarray, at: np.ndarray, done: int) -> int:
        at[0] = 1
        return done + 1

    stream = KeyedStream(KEY, "a")
    stream.consume(spent, step)
    begun = -(-spent // 4)
    assert stream.words(1)[0] == KeyedStream(KEY, "a").words(begun + 1)[-1]


def test_an_item_that_needs_more_digits_than_shown_gets_them() -> None:
    """An item of 10,000 digits: the run grows until it fits, and nothing is lost."""
    shown: list[int] = []

    def step(digits: np.ndarray, at: np.ndarray, done: int) -> int:
        shown.append(digits.size)
        if digits.size < 10_000:
            return done
        at[0] = 10_000
        return done + 1

    stream = KeyedStream(KEY, "a")
    stream.consume(1, step)
    assert all(later >= 2 * earlier for earlier, later in pairwise(shown))
    assert stream.words(1)[0] == KeyedStream(KEY, "a").words(2501)[-1]
