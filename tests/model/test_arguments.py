"""What a verb is given is held against its signature: named, of the right kind, never shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import sfumato
from sfumato.errors import UsageError
from sfumato.model.arguments import checked

if TYPE_CHECKING:
    from sfumato.privacy.ledger import Ledger

Hours = int | str | Iterable[int]


@checked
def verb(
    events: object,
    *,
    out: str | os.PathLike[str],
    epsilon: float = 1.0,
    users: int | None = None,
    start: date | str = "2024-03-25",
    exact: bool = False,
    hours: Hours | None = None,
    column: Mapping[str, str] | None = None,
    parameter: Mapping[str, bool | int | float | str] | None = None,
    region: str | tuple[float, float, float, float] | None = None,
    earlier: str | Sequence[str] = (),
    ledger: Ledger | str | None = None,
    progress: Callable[[str, float], None] | None = None,
    name: str | None = None,
) -> dict[str, object]:
    """What it was given."""
    return dict(locals())


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"epsilon": 1}, 1.0),
        ({"epsilon": np.float32(0.5)}, 0.5),
        ({"users": 2e6}, 2_000_000),
        ({"users": np.int64(7)}, 7),
        ({"start": date(2024, 3, 25)}, date(2024, 3, 25)),
        ({"hours": 7}, 7),
        ({"hours": "6-12"}, "6-12"),
        ({"hours": np.array([6, 7])}, (6, 7)),
        ({"column": {"user": "imsi"}}, {"user": "imsi"}),
        ({"parameter": {"a": True, "b": 3, "c": "x"}}, {"a": True, "b": 3, "c": "x"}),
        ({"region": [2, 48, 3, 49.5]}, (2.0, 48.0, 3.0, 49.5)),
        ({"earlier": ["a", "b"]}, ("a", "b")),
        ({"out": Path("x")}, Path("x")),
        ({"out": "bytes-\udcff"}, "bytes-\udcff"),
        ({"progress": print}, print),
    ],
)
def test_what_fits_is_taken(given: dict[str, object], taken: object) -> None:
    (name,) = given
    found = verb(None, **({"out": "x"} | given))[name]
    assert found == taken
    assert type(found) is type(taken)


def test_a_class_that_is_imported_for_type_checkers_alone() -> None:
    ledger = sfumato.Ledger("books/ledger.sqlite")
    assert verb(None, out="x", ledger=ledger)["ledger"] is ledger


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": True},
        {"epsilon": "u007"},
        {"epsilon": None},
        {"epsilon": 10**400},
        {"users": 1.5},
        {"users": float("nan")},
        {"start": 20240325},
        {"exact": 1},
        {"hours": {"a": 1}},
        {"column": {"user": 3}},
        {"column": "user=imsi"},
        {"parameter": {"a": [1]}},
        {"region": (1, 2, 3)},
        {"earlier": [b"x"]},
        {"out": b"x"},
        {"out": pd.DataFrame({"user_id": ["u007"]})},
        {"ledger": Path("x")},
        {"progress": "u007"},
        {"name": "\udcff"},
    ],
)
def test_what_does_not_fit_is_named_and_not_shown(given: dict[str, object]) -> None:
    (name,) = given
    with pytest.raises(UsageError) as error:
        verb(None, **({"out": "x"} | given))
    assert f"`{name}`" in str(error.value)
    assert "u007" not in str(error.value)


def test_words_that_a_verb_does_not_have_are_pythons_own_error() -> None:
    with pytest.raises(TypeError, match="epsilom"):
        verb(None, out="x", epsilom=1)


def test_a_list_that_is_needed_is_not_empty() -> None:
    with pytest.raises(UsageError, match="releases"):
        sfumato.evaluate([], events="events.csv")


def test_the_door_checks_and_hands_out_one_object() -> None:
    assert sfumato.plan is sfumato.plan
    with pytest.raises(UsageError, match="`epsilon` takes a number, and was given one of type str"):
        sfumato.plan(
            epsilon="1", delta=1e-6, expected_users=1000, start="2024-03-25", end="2024-03-26",
            tz="UTC", tower_count=5,
        )  # fmt: skip


@pytest.mark.parametrize("day", [datetime(2024, 3, 25), pd.Timestamp("2024-03-25", tz="UTC")])
def test_a_day_may_be_its_midnight(day: datetime) -> None:
    from sfumato.model.time_grid import day_of

    assert day_of(day) == date(2024, 3, 25)


@pytest.mark.parametrize("day", [datetime(2024, 3, 25, 12), pd.NaT])
def test_other_times_are_no_day(day: datetime) -> None:
    from sfumato.model.time_grid import day_of

    with pytest.raises(UsageError, match="not a date"):
        day_of(day)
