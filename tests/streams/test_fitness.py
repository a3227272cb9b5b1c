"""Streams that would be of no use are refused before they cost, by public facts alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sfumato
from sfumato.errors import Unfit
from sfumato.model.time_grid import Calendar
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.streams.facts import StreamFacts
from sfumato.streams.fitness import fitness, require_fit


def week(people: int | None, cells: int, epsilon: float, days: int = 7) -> StreamFacts:
    calendar = Calendar.regular(24 * days, 24)
    return StreamFacts(cells, calendar, epsilon, 0.0, Unit.parse("user-day"), people)


@pytest.mark.parametrize(
    ("people", "cells", "epsilon", "useless"),
    [
        (500, 8_010, 0.4, True),
        (500, 8_010, 1.0, True),
        (540, 1_728, 0.4, False),
        (540, 1_728, 1.0, False),
        (5_000, 8_010, 0.4, False),
        (130_000, 8_010, 0.1, False),
    ],
)
def test_hardly_anybody_in_a_cell_is_useless(
    people: int, cells: int, epsilon: float, useless: bool
) -> None:
    found = fitness("rhythm", week(people, cells, epsilon))
    assert found is not None
    assert found.useless is useless
    assert bool(found.caveats) is useless


def test_nothing_is_said_of_other_schemes_and_of_unknown_numbers_of_people() -> None:
    assert fitness("sample", week(500, 8_010, 0.4)) is None
    assert fitness("rhythm", week(None, 8_010, 0.4)) is None
    require_fit("sample", week(500, 8_010, 0.4))


def test_more_days_are_worth_more_up_to_a_week() -> None:
    signals = [fitness("comb", week(900, 1_000, 1.0, days)) for days in (1, 4, 7, 70)]
    found = [one.signal for one in signals if one is not None]
    assert found[0] < found[1] < found[2] == found[3]


@pytest.mark.parametrize(
    ("unit", "windows"), [("w-event:24", 7), ("w-event:168", 1), ("event", 42)]
)
def test_windows_are_those_of_the_first_week(unit: str, windows: float) -> None:
    """Seven windows of a week each are seven weeks. One event may move a slot by 2."""
    long = replace(week(1_000, 1_000, 1.0, 70), unit=Unit.parse(unit))
    found = fitness("rhythm", long)
    assert found is not None
    assert found.signal == pytest.approx(windows**0.5, rel=0.05)


def test_what_would_be_of_use_is() -> None:
    with pytest.raises(Unfit) as refused:
        require_fit("rhythm", week(500, 8_010, 1.0), "500m")
    assert 'grid="750m"' in refused.value.remedy
    assert "epsilon=2" in refused.value.remedy
    require_fit("rhythm", week(500, round(8_010 / 1.5**2), 1.0))
    require_fit("rhythm", week(500, 8_010, 2.0))
    with pytest.raises(Unfit) as refused:
        require_fit("rhythm", week(500, 8_010, 1.0))
    assert "at most 4," in refused.value.remedy
    with pytest.raises(Unfit) as refused:  # one person: nothing helps
        require_fit("rhythm", week(1, 8_010, 0.1))
    assert "Of use" not in refused.value.remedy


def stream(home: Path, **more: Any) -> Any:
    given = {
        "grid": "500m", "region": "2.0,48.0,2.2,48.2", "start": "2024-03-04",
        "end": "2024-03-05", "tz": "UTC", "slot": "6h", "dataset": "town", "epsilon": 1.0,
        "expected_users": 20, "out": home / "out", "ledger": home / "ledger.sqlite",
    }  # fmt: skip
    return sfumato.stream(**(given | more))


@pytest.mark.privacy
def test_it_is_refused_before_it_costs_and_published_anyway(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    book.add_dataset("town", Cap(epsilon=4, delta=0.0), Unit.parse("user-day"))
    with pytest.raises(Unfit, match="no use"):
        stream(tmp_path)
    assert not book.book().charges
    with stream(tmp_path, anyway=True) as publisher:
        publisher.close(0)
    assert len(book.book().charges) == 1
    said = json.loads((tmp_path / "out" / "stream.json").read_text())["manifest"]
    assert any("published all the same" in caveat for caveat in said["caveats"])
    with stream(tmp_path, resume=True) as publisher:  # it is paid for: nobody asks again
        assert publisher.next_slot == 1
