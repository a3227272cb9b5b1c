"""Calls of the Python door from a seed: good ones with one or two arguments spoiled.

The same world and the same rules as for command lines (`tests.fuzz.program`): a verb returns, or
raises an error of ours with at most ten lines that shows neither a record nor a password. Values
are of every kind that a notebook holds: numbers that are none, arrays, frames with somebody's
record in them, functions, dates, bytes.
"""

from __future__ import annotations

import inspect
import random
import warnings
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.fuzz.program import PERSON, SECRET, WORDS, Verdict, World, grown, in_time

import sfumato
import sfumato_lab
from sfumato.errors import SfumatoError

TIME = {"start": "2024-03-25", "end": "2024-03-27", "slot": "6h", "tz": "UTC"}
BOOK = {"ledger": "books/ledger.sqlite", "dataset": "city"}
WHO = {**BOOK, "expected_users": 1000, "epsilon": 0.01, "delta": 1e-6}
TOWERS = {"events": "events.csv", "towers": "towers.csv", **TIME}
GOOD: dict[str, dict[str, Any]] = {
    "release": {**TOWERS, **WHO, "out": "OUT", "anyway": True, "scheme": "gaussian"},
    "plan": {
        "towers": "towers.csv",
        **TIME,
        "expected_users": 1000,
        "epsilon": 1,
        "delta": 1e-6,
        "scheme": "gaussian",
    },
    "stream": {**TOWERS, **WHO, "out": "OUT", "scheme": "sample", "unit": "user-day"},
    "sanitise": {
        "traces": "fixes.csv",
        "start": "2024-03-25",
        "end": "2024-03-27",
        **BOOK,
        "expected_noise": "200m",
        "most_reports": 3,
        "out": "OUT",
    },
    "inspect": {"events": "events.parquet", "towers": "towers.geojson"},
    "query": {**TOWERS, **BOOK, "delta": 1e-6, "question": "question.json"},
    "Desk": {**TOWERS, **BOOK, "delta": 1e-6},
    "Ledger": {"location": "books/ledger.sqlite"},
    "ask": {"release": "learnt", "zones": "T01", "hours": "6-12"},
    "read_release": {"folder": "rel"},
    "report": {"releases": "rel", "out": "OUT"},
    "export": {"release": "rel", "out": "OUT", "to": "flowkit"},
    "evaluate": {
        "releases": "rel",
        "events": "events.csv",
        "towers": "towers.csv",
        "out": "OUT",
        "earth_mover": False,
    },
    "attack": {"releases": "rel", "events": "events.csv", "towers": "towers.csv", "rounds": 8},
    "refine": {"release": "learnt", "out": "OUT"},
    "weigh": {"release": "rel", "shares": 0.4, "out": "OUT"},
    "combine": {
        "releases": ["learnt", "theirs"],
        "shares": [0.4, 0.4],
        "overlap": 0.05,
        "out": "OUT",
    },
    "hotspots": {"traces": "reports", "number": 3, "out": "OUT"},
    "spread": {"traces": "reports", "slot": "1min", "out": "OUT"},
    "synth": {**TOWERS, **WHO, "people": 20, "anyway": True, "out": "OUT"},
    "anonymise_answers": {
        **TOWERS,
        **BOOK,
        "question": "bare.json",
        "auditor": "anyone",
        "expected_users": 1000,
        "least": 2,
        "log": "OUT.internal.jsonl",
    },
    "anonymise_counts": {**TOWERS, **BOOK, "k": 3, "out": "OUT", "attack": False},
    "anonymise_traces": {**TOWERS, **BOOK, "k": 2, "method": "km", "out": "OUT", "attack": False},
    "audit": {"scheme": "gaussian", "epsilon": [1.0], "runs": 64},
}
"""A good call of each verb. `demo` makes a city of 1,000 people at least, and `foreach_batch` needs
Spark: they have tests of their own."""
MANY = {"runs", "people", "rounds", "batch", "threads"}
"""How much work there is: larger numbers are good ones that take long."""

ODD: tuple[Callable[[], object], ...] = (
    *(
        lambda value=value: value
        for value in (
            None, True, False, 0, -1, 1.5, 1e308, float("nan"), float("inf"), 10**400, b"\xff",
            b"events.csv", (), 3 + 4j, date(2024, 3, 25), datetime(2024, 3, 25, 12),
            timedelta(hours=1), np.float64(0.5), np.int64(3), pd.Timestamp("2024-03-25", tz="UTC"),
            pd.NaT, Path("events.csv"), Path("no"), "é\udcff", range(3), object(),
        )
    ),
    list,
    dict,
    lambda: set(),
    lambda: [1, 2],
    lambda: [None],
    lambda: {"a": 1},
    lambda: {"user": 3},
    lambda: {3: "x"},
    lambda: iter(()),
    lambda: np.array([1, 2]),
    lambda: np.array(["events.csv"]),
    lambda: pd.DataFrame({"user_id": [PERSON], "x": [object()]}),
    lambda: pd.Series(["x"]),
    lambda: print,
)  # fmt: skip


def call(seed: int, number: int) -> tuple[str, dict[str, Any], str]:
    """A verb, its spoiled arguments, and what was done to them."""
    chance = random.Random(seed)
    verb = chance.choice(list(GOOD))
    given = {name: named(value, number) for name, value in GOOD[verb].items()}
    door = verb_named(verb)
    names = [*inspect.signature(door).parameters, *given, *given]
    done = []
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice(names)
        value = chance.choice(ODD)() if chance.random() < 0.6 else chance.choice(WORDS)
        if name in MANY and isinstance(value, int) and value > 1:
            value = 1
        if name in ("dataset", "analyst", "name", "title") and isinstance(value, str):
            value = value.replace(SECRET, "x")  # these are shown, that is what they are for
        if (verb, name) == ("stream", "end") and value is None:
            value = ""  # a stream without an end goes on to this day, which takes long
        if verb == "audit" and isinstance(value, str) and value == "bayes":
            value = "gaussian"  # a good audit, which takes long
        given[name] = value
        done.append(name)
    return verb, given, ", ".join(done)


def verb_named(name: str) -> Callable[..., Any]:
    """The verb of that name, of the product or of its laboratory."""
    verb: Callable[..., Any] = getattr(sfumato if name in sfumato.__all__ else sfumato_lab, name)
    return verb


def named(value: object, number: int) -> object:
    """An argument; an output gets its number."""
    return value.replace("OUT", f"out-{number}") if isinstance(value, str) else value


def judge(world: World, seed: int) -> Verdict:
    """Call the verb of a seed, and say which rule it broke."""
    number = world.next_number()
    verb, given, what = call(seed, number)
    before, fault, said, code = grown(), "", "", 0
    with world.inside(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            in_time(lambda: verb_named(verb)(**given))
        except SfumatoError as error:
            said, code = str(error), error.exit_code
        except BaseException as error:
            fault = f"{type(error).__name__}: {str(error)[:200]}"
    line = (f"{verb}()", *(f"{name}={_shown(value)}" for name, value in given.items()))
    return world.verdict(Verdict(seed, line, what, code, fault), said, before)


def _shown(value: object) -> str:
    return ascii(value)[:60]
