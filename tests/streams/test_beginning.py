"""A feed whose beginning is public: zeros before it, and nothing of them is measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato.audits.streams import stream_rows
from sfumato.errors import ReservationRefused, UsageError
from sfumato.model.time_grid import Calendar
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, windows_to_show
from sfumato.streams.replay import boxed
from sfumato.streams.scheme import Finished, Meter, Publication, StreamScheme
from sfumato.streams.schemes.comb.scheme import Comb
from sfumato.streams.schemes.profile import Profile
from sfumato.streams.schemes.rhythm.scheme import Rhythm
from sfumato.streams.schemes.smoother.scheme import Smoother
from sfumato.streams.statement import _intervals

SLOTS, CELLS = 24, 64


def published(
    scheme: StreamScheme, days: int, begins: int, unit: str, before: int = 0
) -> list[Publication]:
    """Thirty people in every cell from the beginning on, and `before` it so many."""
    calendar = Calendar.regular(days * SLOTS, SLOTS)
    facts = StreamFacts(CELLS, calendar, 4.0, 0.0, Unit.parse(unit), 30 * CELLS, 8, begins=begins)
    counts = np.random.default_rng(4).poisson(30.0, (days * SLOTS, CELLS)).astype(np.int64)
    counts[:begins] = before
    meter = Meter(scheme.plan(facts).accounts, facts)
    publisher, out = scheme.publisher(facts), []
    for slot, row in enumerate(counts):
        wall = Wall.seeded(3, meter)
        if isinstance(publisher, Finished):
            for first, stop in windows_to_show(facts, slot, publisher.ahead):
                publisher.prepare(boxed(counts[first:stop].T, facts), first, wall)
        out.append(publisher.publish(slot, boxed(row, facts), wall, meter))
    return out


@pytest.mark.privacy
@pytest.mark.parametrize("unit", ["user-day", "user-period"])
@pytest.mark.parametrize("days", [1, 3])
@pytest.mark.parametrize("begins", [13, 22])
@pytest.mark.parametrize(
    "scheme",
    [
        *(Comb(), Rhythm(counts=True), Profile(counts=True), Profile(parts=3)),
        *(Smoother(), Smoother(parts=1), Smoother(parts=3)),
    ],
    ids=lambda scheme: scheme.name,
)
def test_nobody_is_published_before_and_everybody_after(
    scheme: StreamScheme, begins: int, days: int, unit: str
) -> None:
    made = published(scheme, days, begins, unit)
    for one in made[:begins]:
        assert not one.values.any()
        assert one.median is None or not one.median.any()
    found = np.array([one.values.sum() for one in made[begins:]])
    assert (np.abs(found / (30 * CELLS) - 1) < 0.25).all()
    # Nobody's rows before it are read.
    crowded = published(scheme, days, begins, unit, before=500)
    assert all(np.array_equal(a.values, b.values) for a, b in zip(made, crowded, strict=True))


@pytest.mark.privacy
@pytest.mark.parametrize("unit", ["user-day", "user-period"])
@pytest.mark.parametrize("scheme", [Profile(parts=2), Smoother(parts=2)])
def test_parts_that_are_shorter_for_it_lose_no_more(
    scheme: StreamScheme, unit: str, facts: Callable[..., StreamFacts]
) -> None:
    given = replace(facts(unit, days=3, per_day=6, cells=4, people=60, columns=2), begins=4)
    loss, *others = stream_rows(scheme, given, seed=7)
    assert not [row for row in others if row.violated]
    assert loss.measured <= loss.claim.value * (1 + 1e-9)


def stream(home: Path, **more: Any) -> Any:
    given = {
        "grid": "5km", "region": "2.0,48.0,2.2,48.2", "start": "2024-03-04T13:00",
        "end": "2024-03-06", "tz": "Europe/Paris", "dataset": "town", "epsilon": 1.0,
        "expected_users": 1000, "out": home / "out", "ledger": home / "ledger.sqlite",
        "clock": "feed",
    }  # fmt: skip
    return sfumato.stream(**(given | more))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    book = Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    book.add_dataset("town", Cap(epsilon=4, delta=0.0), Unit.parse("user-day"))
    return tmp_path


def test_a_scheme_that_would_measure_from_midnight_on_is_refused(home: Path) -> None:
    with pytest.raises(UsageError, match="from midnight on"):
        stream(home, scheme="direct")
    assert not Ledger(home / "ledger.sqlite").book().charges


@pytest.mark.privacy
def test_a_stream_is_bound_to_the_slot_of_its_beginning(home: Path) -> None:
    """Half a minute past the hour is another slot; seven minutes past the one before is not."""
    with stream(home) as publisher:
        publisher.close(0)
    said = json.loads((home / "out" / "stream.json").read_text())["manifest"]
    assert any("begins at 2024-03-04T13:00:00+01:00" in caveat for caveat in said["caveats"])
    assert not any("Nobody said when the feed begins" in caveat for caveat in said["caveats"])
    with pytest.raises(ReservationRefused):
        stream(home, start="2024-03-04T13:00:30", resume=True)
    with stream(home, start="2024-03-04T12:07", resume=True) as publisher:
        assert publisher.next_slot == 1


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        ("comb", "Nobody said when the feed begins"),
        ("smoother", "held 65 % in one run"),
        ("profile", "held 50 % in one run"),
    ],
)
def test_feeds_whose_intervals_do_not_hold_are_among_the_caveats(scheme: str, words: str) -> None:
    asked: Any = SimpleNamespace(
        scheme=SimpleNamespace(name=scheme), facts=SimpleNamespace(begins=0)
    )
    (caveat,) = _intervals(asked)
    assert words in caveat
