"""The rolling budget: no window of a day bears more than its cap."""

from __future__ import annotations

import multiprocessing
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BudgetRefused, UsageError
from sfumato.model.traces import MICROSECONDS
from sfumato.privacy.ledger.database import Database
from sfumato.privacy.ledger.rolling import HOUR_S, RollingBudget, allow, canonical_id, units_up

pytestmark = pytest.mark.privacy


def test_a_device_is_refused_until_the_day_is_over(tmp_path: Path) -> None:
    budget = RollingBudget.on_device(tmp_path / "budget.sqlite", cap_per_metre=0.05)
    noon = 1_225_540_800.0
    budget.ask(0.02, now=noon)
    budget.ask(0.02, now=noon + 60)
    with pytest.raises(BudgetRefused):
        budget.ask(0.02, now=noon + 3600)
    budget.ask(0.005, now=noon + 3600)
    budget.ask(0.02, now=noon + 26 * 3600)


def test_a_day_that_begins_and_ends_within_an_hour_is_a_day_too(tmp_path: Path) -> None:
    """24 hours touch 25 hours of the clock."""
    budget = RollingBudget.on_device(tmp_path / "budget.sqlite", cap_per_metre=0.05)
    late = 1_225_540_800.0 + 59 * 60
    budget.ask(0.03, now=late)
    with pytest.raises(BudgetRefused):
        budget.ask(0.03, now=late + 86_400 - 60)
    budget.ask(0.03, now=late + 86_400 + 3600)


def test_losses_are_rounded_up_to_whole_units() -> None:
    for loss in (2 / 300, 1 / 7, 2e-6 / 3, 0.4):
        assert Fraction(units_up(loss), 10**12) >= Fraction(loss) * (1 - Fraction(1, 10**15))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 80), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(-30, 110), st.integers(1, 4)), max_size=10),
)
def test_no_run_of_hours_exceeds_the_cap(hours: list[int], past: list[tuple[int, int]]) -> None:
    hour = np.sort(np.array(hours, np.int64))
    spent = np.array([(0, h, n) for h, n in past], np.int64).reshape(-1, 3)
    passed = allow(1, np.zeros(hour.size, np.int64), hour, spent, 25, 2, 10)
    load = np.zeros(400)
    np.add.at(load, hour[passed] + 150, 2)
    for h, n in past:
        load[h + 150] += n
    before = np.zeros(400)
    for h, n in past:
        before[h + 150] += n
    for s in range(375):
        # A run may be over the cap from the past alone; then nothing more is let in.
        assert load[s : s + 25].sum() <= max(10, before[s : s + 25].sum())
    # Greedy is not timid: each refusal had a reason.
    for at in hour[~passed]:
        starts = range(at + 150 - 24, at + 151)
        assert any(load[s : s + 25].sum() + 2 > 10 for s in starts)


def test_noting_twice_counts_once(tmp_path: Path) -> None:
    database = Database(tmp_path / "ledger.sqlite")
    database.prepare()
    budget = RollingBudget(database, b"key", 0.05)
    user, at = np.zeros(2, np.int64), np.array([0, 60 * MICROSECONDS])
    for _ in range(2):
        budget.note("release-1", 3, [budget.tag("ada")], user, at, 0.02)
    later = np.array([3600 * MICROSECONDS] * 2)
    assert budget.allowed([budget.tag("ada")], user, later, 0.005, before=9).tolist() == [
        True,
        True,
    ]
    assert budget.allowed([budget.tag("ada")], user, later, 0.02, before=9).tolist() == [
        False,
        False,
    ]
    # A rerun of release 1 itself does not see its own rows.
    assert budget.allowed([budget.tag("ada")], user, at, 0.02, before=3).all()
    assert budget.allowed([budget.tag("bob")], user, at, 0.02, before=9).all()
    assert "ada" not in budget.tag("ada")


def test_seven_and_the_text_seven_are_one_person(tmp_path: Path) -> None:
    """A CSV file says "7" and a Parquet file 7: a daily level was spent twice."""
    budget = RollingBudget(Database(tmp_path / "x.sqlite"), b"key", 0.05)
    for same in (7, "7", 7.0, np.int64(7)):
        assert budget.tag("city", same) == budget.tag("city", 7)
    assert budget.tag("city", "07") != budget.tag("city", 7)
    assert budget.tag("town", 7) != budget.tag("city", 7)
    assert (
        canonical_id(b"7") == "37" == canonical_id("37")
    )  # bytes are their hex, as readers have it


def test_two_spellings_in_one_file_share_one_budget(tmp_path: Path) -> None:
    database = Database(tmp_path / "ledger.sqlite")
    database.prepare()
    budget = RollingBudget(database, b"key", 0.05)
    tags = [budget.tag("city", name) for name in (7, "7")]
    user, at = np.array([0, 1, 0, 1]), np.arange(4) * 60 * MICROSECONDS
    passed = budget.allowed(tags, user, at, 0.02, 9)
    assert passed.tolist() == [True, True, False, False]


def _asking(path: Path, per_metre: float, queue: Any) -> None:
    passed = 0
    for _ in range(4):
        try:
            RollingBudget.on_device(path, cap_per_metre=0.1).ask(per_metre, now=1_225_540_800.0)
            passed += 1
        except BudgetRefused:
            pass
    queue.put(passed)


def test_processes_that_ask_at_once_get_what_fits_and_no_more(tmp_path: Path) -> None:
    """Room for 5 reports; three transactions and a reused number let 8 to 12 pass."""
    path = tmp_path / "budget.sqlite"
    RollingBudget.on_device(path, cap_per_metre=0.1)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    asking = [context.Process(target=_asking, args=(path, 0.02, queue)) for _ in range(4)]
    for process in asking:
        process.start()
    passed = sum(queue.get(timeout=60) for _ in asking)
    for process in asking:
        process.join()
    assert passed == 5
    with sqlite3.connect(path) as rows:
        numbers = [row[0] for row in rows.execute("SELECT seq FROM sfumato_rolling")]
    assert sorted(numbers) == [1, 2, 3, 4, 5]


def test_a_device_asks_and_notes_in_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two transactions another report could see the same room: whatever the timing is."""
    budget = RollingBudget.on_device(tmp_path / "budget.sqlite", cap_per_metre=0.1)
    opened: list[str] = []
    for name in ("writing", "reading"):
        real = getattr(Database, name)

        def counted(self: Database, *, real: Any = real, name: str = name) -> Any:
            opened.append(name)
            return real(self)

        monkeypatch.setattr(Database, name, counted)
    budget.ask(0.02, now=1_225_540_800.0)
    assert opened == ["writing"]


def test_windows_are_whole_hours(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        RollingBudget(Database(tmp_path / "x.sqlite"), b"k", 0.1, HOUR_S + 1)
