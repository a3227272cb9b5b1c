"""What is in the box stays in the box: every usual way of looking at a value is refused.

Each test puts a number in the box that is easy to recognise, and looks for it in whatever
came out, be it a result, a message, a log line or a traceback.
"""

from __future__ import annotations

import copy
import json
import logging
import operator
import pickle
import pprint
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sfumato.errors import PrivateNumbers, UsageError
from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.privacy.door import open_private

pytestmark = pytest.mark.privacy

SECRET = 731_731


@pytest.fixture
def box() -> Private[Any]:
    return Private(np.array([[SECRET, SECRET]], dtype=np.int64), "tower x hour counts")


READING = {
    "np.asarray": np.asarray,
    "np.array": np.array,
    "np.array in a list": lambda b: np.array([b], dtype=np.int64),
    "np.frombuffer": np.frombuffer,
    "np.fromiter": lambda b: np.fromiter(b, dtype=np.int64),
    "np.sum": np.sum,
    "np.add": lambda b: np.add(b, 1),
    "array + box": lambda b: np.ones((1, 2)) + b,
    "array == box": lambda b: np.ones((1, 2)) == b,
    "np.save": lambda b: np.save("/dev/null", b),
    "np.copyto": lambda b: np.copyto(np.empty((1, 2)), b),
    "np.nditer": np.nditer,
    "assignment into an array": lambda b: operator.setitem(np.empty((1, 2)), 0, b),
    "memoryview": memoryview,
    "bytes": bytes,
    "float": float,
    "int": int,
    "complex": complex,
    "bool": bool,
    "round": round,
    "len": len,
    "iter": iter,
    "list": list,
    "tuple unpacking": lambda b: [*b],
    "sum": sum,
    "max": max,
    "sorted": sorted,
    "sorted with others": lambda b: sorted([b, b]),
    "enumerate": lambda b: dict(enumerate(b)),
    "reversed": reversed,
    "index": lambda b: b[0],
    "slice": lambda b: b[:, 0],
    "in": lambda b: 0 in b,
    "in a list": lambda b: 0 in [b],
    "as an index": lambda b: [1, 2, 3][b],
    "range": range,
    "hash": hash,
    "dict key": lambda b: {b: 1},
    "set": lambda b: {b},
    "==": lambda b: b == 0,
    "!=": lambda b: b != 0,
    "<": lambda b: b < 0,
    ">=": lambda b: b >= 0,
    "+": lambda b: b + 1,
    "1 -": lambda b: 1 - b,
    "*": lambda b: b * 0,
    "@": lambda b: b @ np.ones(2),
    "@ from the left": lambda b: np.ones((2, 1)) @ b,
    "/": lambda b: b / 1,
    "//": lambda b: b // 1,
    "1 //": lambda b: 1 // b,
    "%": lambda b: b % 10,
    "divmod": lambda b: divmod(b, 10),
    "**": lambda b: b**1,
    "-": operator.neg,
    "abs": abs,
    "&": lambda b: b & 1,
    "~": operator.invert,
    "json.dumps": json.dumps,
    "pickle.dumps": pickle.dumps,
    "pickle protocol 0": lambda b: pickle.dumps(b, protocol=0),
    "pickle in a dict": lambda b: pickle.dumps({"counts": b}),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "deepcopy in a list": lambda b: copy.deepcopy([b]),
    "vars": vars,
    "__dict__": lambda b: b.__dict__,
    ".values": lambda b: b.values,
    ".content": lambda b: b.content,
    ".__content": lambda b: getattr(b, "__content"),
    "call": lambda b: b(),
    "with": lambda b: b.__enter__(),
    "pa.array": pa.array,
    "pa.array in a list": lambda b: pa.array([b]),
    "pa.table": lambda b: pa.table({"counts": b}),
    "pa.RecordBatchReader": pa.RecordBatchReader.from_stream,
    "pd.DataFrame": pd.DataFrame,
    "pd.Series of numbers": lambda b: pd.Series(b, dtype="int64"),
    "pd.to_numeric": lambda b: pd.to_numeric([b]),
    "%d": lambda b: "%d" % b,  # noqa: UP031 - one of the ways people write it
    "bytes format": lambda b: b"%b" % b,
    "struct": lambda b: __import__("struct").pack("q", b),
    "if": lambda b: 1 if b else 0,
    "assert": lambda b: operator.not_(b),
}


@pytest.mark.parametrize("name", READING)
def test_reading_is_refused(box: Private[Any], name: str) -> None:
    with pytest.raises(Exception) as caught:
        READING[name](box)
    assert not isinstance(caught.value, AssertionError | SystemError)
    assert str(SECRET) not in "".join(traceback.format_exception(caught.value))


SHOWING: dict[str, Callable[[Any], str]] = {
    "repr": repr,
    "str": str,
    "f-string": lambda b: f"{b} {b!r} {b!s} {b!a}",
    "f-string with a format": lambda b: f"{b:,.2f} {b:>40}",
    "%s": lambda b: "%s %r" % (b, b),  # noqa: UP031
    "str.format": lambda b: "{} {0}".replace("{}", "").format(b),
    "pprint": pprint.pformat,
    "ascii": ascii,
    "json with default=str": lambda b: json.dumps({"counts": b}, default=str),
    "a list of boxes": lambda b: repr([b, {"counts": b}]),
    "pandas object column": lambda b: pd.Series([b], dtype=object).to_csv(),
    "dir": lambda b: repr(dir(b)),
}


@pytest.mark.parametrize("name", SHOWING)
def test_showing_says_only_that_it_is_private(box: Private[Any], name: str) -> None:
    text = SHOWING[name](box)
    assert str(SECRET) not in text.replace(",", "")
    if name != "dir":
        assert "<private tower x hour counts>" in text


def test_logs_show_only_the_label(box: Private[Any], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("sfumato").info("counted %s and %r", box, {"counts": box})
    assert str(SECRET) not in caplog.text
    assert "<private tower x hour counts>" in caplog.text


def test_a_traceback_with_local_variables_shows_only_the_label(box: Private[Any]) -> None:
    def somewhere(counts: Private[Any]) -> None:
        assert counts.label
        raise RuntimeError("something else went wrong")

    with pytest.raises(RuntimeError) as caught:
        somewhere(box)
    shown = "".join(
        traceback.TracebackException.from_exception(caught.value, capture_locals=True).format()
    )
    assert "<private tower x hour counts>" in shown
    assert str(SECRET) not in shown


def test_computing_stays_in_the_box(box: Private[Any]) -> None:
    doubled = box.map(lambda values: values * 2, "twice the counts")
    assert repr(doubled) == "<private twice the counts>"
    assert repr(box.map(np.sum)) == "<private tower x hour counts>"


def test_an_error_inside_the_box_does_not_carry_the_content_out(box: Private[Any]) -> None:
    def careless(values: np.ndarray) -> int:
        raise KeyError(f"no user {values[0, 0]}")

    with pytest.raises(PrivateNumbers, match="failed with KeyError") as caught:
        box.map(careless)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    shown = "".join(
        traceback.TracebackException.from_exception(caught.value, capture_locals=True).format()
    )
    assert str(SECRET) not in shown


def test_our_own_errors_pass_as_they_are(box: Private[Any]) -> None:
    def strict(values: np.ndarray) -> Counts:
        return Counts(values.astype(np.float64), 1, 1.0, 1.0, Counting.VISITS, "counts")

    with pytest.raises(UsageError, match="64-bit integers"):
        box.map(strict)


def test_the_refusal_says_what_to_do(box: Private[Any]) -> None:
    with pytest.raises(PrivateNumbers, match=r"has not passed the wall.*Take a measurement"):
        np.asarray(box)


def test_identity_is_the_one_question_a_box_answers(box: Private[Any]) -> None:
    assert box is not None
    assert isinstance(box, Private)
    assert box.label == "tower x hour counts"


def test_a_thread_is_nobodys_way_around_the_door() -> None:
    """What calls on behalf of somebody is looked through; where nobody is behind it, refused."""
    box = Private([1, 2, 3], "numbers")
    with ThreadPoolExecutor(1) as pool, pytest.raises(PrivateNumbers):
        pool.submit(box._through_the_door).result()
    with ThreadPoolExecutor(1) as pool, pytest.raises(PrivateNumbers):
        pool.submit(open_private, box).result()
