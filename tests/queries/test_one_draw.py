"""One draw, one question, one price: kills, second machines, keys that are gone, spent sessions."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.queries.conftest import TOWN, MakeDesk, visits

from sfumato.errors import BudgetRefused, LedgerError, ReservationRefused, UsageError
from sfumato.privacy.ledger import Ledger, Status
from sfumato.privacy.ledger.chain import Keyring
from sfumato.privacy.ledger.records import Cap
from sfumato.privacy.mechanisms import SparseVector
from sfumato.privacy.wall import Wall
from sfumato.queries.desk import Desk
from sfumato.queries.routing import Cube
from sfumato.queries.workload import Row, Workload
from sfumato_lab.queries.mwem import Measured, fitted, plan_mwem
from sfumato_lab.queries.online import plan_session
from sfumato_lab.queries.sitting import Sitting

MORNING = {"measure": "visits", "zones": ["t0", "t1"], "hours": "6-12"}
ASKED = MORNING | {"want": {"plus_minus": 20}}
TOWERS = [{"measure": "visits", "zones": [f"t{k}"]} for k in range(6)]


class Table:
    """As much of a release as a session begins with."""

    def __init__(self, table: np.ndarray, name: str = "week") -> None:
        self.counts, self.name = table, name

    def given_to(self, desk: Desk) -> Desk:
        slots = np.arange(desk.frame.slots)
        desk._cube = Cube(self, slots, self.name, f"id of {self.name}")  # type: ignore[arg-type]
        return desk


WEEK = Table(np.full((6, 48), 30.0))


def charges(ledger: Ledger) -> list[Any]:
    return list(ledger.book().charges.values())


def keys(ledger: Ledger) -> list[Path]:
    return list(ledger.keyring.path.with_suffix(".keys").glob("*"))


def opened(desk: Desk, name: str = "study", **terms: Any) -> Sitting:
    given: dict[str, Any] = {"epsilon": 2.0, "clip": 4, "updates": 2, "threshold": 0}
    return WEEK.given_to(desk).session(name, **given | terms)


@contextlib.contextmanager
def killed_at(owner: type, method: str) -> Iterator[None]:
    """Dies just before the method is run; what it would have done is never done."""
    real = getattr(owner, method)

    def dies(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    setattr(owner, method, dies)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        setattr(owner, method, real)


@pytest.mark.privacy
def test_nothing_is_shown_that_the_ledger_does_not_hold(
    new_desk: MakeDesk, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger that cannot be written gives no answer: not to one, not to many, not to a turn."""

    def full(*_: Any, **__: Any) -> None:
        raise LedgerError("The disk is full.")

    desk = new_desk()
    sitting = opened(desk)
    desk._cube = None
    for method in ("commit", "note"):
        monkeypatch.setattr(Ledger, method, full)
    for ask in (
        lambda: desk.ask(ASKED),
        lambda: desk.together([MORNING], epsilon=1.0),
        lambda: desk.together(TOWERS, epsilon=1.0, method="mwem", rounds=2),
        lambda: WEEK.given_to(desk) and sitting.ask(MORNING),
    ):
        with pytest.raises(LedgerError, match="full"):
            ask()
    assert {one.status for one in charges(ledger)} == {Status.RESERVED}


@pytest.mark.privacy
def test_a_killed_question_meets_no_second_plan(
    new_desk: MakeDesk, ledger: Ledger, drawn_blocks: Any
) -> None:
    """Under another delta, clip, edition or noise it is another reservation with its own key."""
    ledger.set_cap(TOWN, Cap(epsilon=1e3, delta=1e-5))
    fewer = [row for row in visits() if row[0] != 3]
    plans: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"delta": 2e-6}, {}),
        ({"edition": "corrected"}, {}),
        ({"mechanism": "laplace"}, {}),
        ({"rows": fewer}, {}),
        ({"slot": "15min"}, {}),
        ({}, {"clip": 3}),
        ({}, {"want": {"plus_minus": 19}}),
        ({}, {"measure": "unique_people"}),
    ]
    for options, more in plans:
        with killed_at(Ledger, "commit"):
            new_desk(**options).ask(ASKED | more)
    assert drawn_blocks.twice() == 0
    assert len({one.claim.name for one in charges(ledger)}) == len(plans)
    assert {one.status for one in charges(ledger)} == {Status.RESERVED}
    finished = [new_desk(**options).ask(ASKED | more) for options, more in reversed(plans)]
    assert {one.how for one in finished} == {"resumed", "stored"}
    assert len(charges(ledger)) == len(plans)


@pytest.mark.privacy
def test_what_was_paid_is_finished_though_no_budget_is_left(
    new_desk: MakeDesk, ledger: Ledger
) -> None:
    """The cap holds one of each; killed, each is finished, and nothing new is let in."""
    ledger.set_cap(TOWN, Cap(epsilon=4.0, delta=1e-5))
    ledger.set_allowance(TOWN, "ana", Cap(epsilon=1.5, delta=1e-5))
    asked = MORNING | {"want": {"epsilon": 1.4}}
    together: list[dict[str, Any]] = [
        {"epsilon": 1.4},
        {"epsilon": 1.4, "method": "mwem", "rounds": 2},
    ]
    with killed_at(Ledger, "commit"):
        new_desk(analyst="ana").ask(asked)
    for how in together:
        with killed_at(Ledger, "commit"):
            new_desk().together(TOWERS, **how)
    ledger.set_cap(TOWN, Cap(epsilon=1.5, delta=1e-5))
    with pytest.raises(BudgetRefused):
        new_desk(analyst="ana").ask(MORNING | {"want": {"epsilon": 0.3}})
    with pytest.raises(BudgetRefused):
        new_desk().together(TOWERS[:3], epsilon=1.4)
    fewer = [row for row in visits() if row[0] != 3]
    with pytest.raises(BudgetRefused):
        new_desk(fewer).ask(asked)
    assert new_desk(analyst="ana").plan(asked).refusal is None
    assert new_desk(analyst="ana").ask(asked).how == "resumed"
    for how in together:
        first, again = (new_desk().together(TOWERS, **how) for _ in range(2))
        assert [{one.how for one in found} for found in (first, again)] == [{"resumed"}, {"stored"}]
    assert len(charges(ledger)) == 3


@pytest.mark.privacy
def test_mwem_is_bound_to_the_table_it_begins_with(new_desk: MakeDesk, ledger: Ledger) -> None:
    month = Table(np.full((6, 48), 60.0), "month")
    for table in (WEEK, month):
        found = table.given_to(new_desk()).together(TOWERS, epsilon=1.0, method="mwem", rounds=2)
        assert {one.how for one in found} == {"new"}
    again = WEEK.given_to(new_desk()).together(TOWERS, epsilon=1.0, method="mwem", rounds=2)
    assert {one.how for one in again} == {"stored"}
    assert len(charges(ledger)) == 2


@pytest.mark.privacy
def test_the_key_goes_even_if_the_kill_came_after_the_commit(
    new_desk: MakeDesk, ledger: Ledger
) -> None:
    with killed_at(Keyring, "destroy"):
        new_desk().ask(ASKED)
    assert [one.status for one in charges(ledger)] == [Status.COMMITTED]
    assert len(keys(ledger)) == 1
    assert new_desk().ask(ASKED).how == "stored"
    assert keys(ledger) == []


@pytest.mark.privacy
def test_a_second_machine_with_the_same_key_draws_nothing(
    new_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where locks do not reach, the ledger lets one of two questions have the turn."""
    here, there = opened(new_desk(), updates=5), opened(new_desk(), updates=5)
    assert here.charge == there.charge
    monkeypatch.setattr(Keyring, "hold", lambda *_: contextlib.nullcontext())
    real, drawn = Sitting._read, []

    def meanwhile(self: Sitting, row: Any) -> Any:
        found = real(self, row)
        if self is here and not drawn:
            drawn.append(there.ask(TOWERS[1]))
        return found

    monkeypatch.setattr(Sitting, "_read", meanwhile)
    with pytest.raises(ReservationRefused, match="another process came first"):
        here.ask(TOWERS[0])
    monkeypatch.setattr(Sitting, "_read", real)
    assert [turn.question.places for turn in here.turns] == [(1,)]
    here.ask(TOWERS[0])
    assert [turn.number for turn in here.turns] == [1, 2]


@pytest.mark.privacy
def test_the_threshold_of_a_session_is_drawn_once_and_for_all(
    new_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every process and in every turn; a threshold for each test would be paid for once."""
    real, bars = SparseVector.above, []

    def heard(self: SparseVector, *given: Any) -> bool:
        bars.append(self._bar)
        return real(self, *given)

    monkeypatch.setattr(SparseVector, "above", heard)
    for question in TOWERS[:4]:
        opened(new_desk(), updates=9).ask(question)
    assert len(bars) == 4
    assert len(set(bars)) == 1


@pytest.mark.privacy
def test_a_turn_is_noted_with_its_question_before_anything_is_drawn(
    new_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And with its answer before that is shown."""
    seen: list[str] = []
    note, test = Ledger.note, Wall.sparse_vector

    def noting(self: Ledger, release: str, content: Any, *, expected: int) -> Any:
        seen.append("question" if "question" in content else "answer")
        return note(self, release, content, expected=expected)

    def drawing(self: Wall, **terms: Any) -> Any:
        seen.append("drawn")
        return test(self, **terms)

    monkeypatch.setattr(Ledger, "note", noting)
    monkeypatch.setattr(Wall, "sparse_vector", drawing)
    sitting = opened(new_desk(), updates=9)
    for question in TOWERS[:3]:
        sitting.ask(question)
    assert seen == ["question", "drawn", "answer"] * 3


@pytest.mark.privacy
def test_the_same_sets_in_any_order_are_one_question(new_desk: MakeDesk, ledger: Ledger) -> None:
    """Killed, and finished by whoever writes it another way: one draw, one price."""
    desk = new_desk()
    one, other = (
        desk.frame.question("visits", places, slots)
        for places, slots in (([2, 0], [5, 4, 9]), ([0, 2, 2], [9, 4, 5]))
    )
    assert one == other
    with killed_at(Ledger, "commit"):
        desk.together([one], epsilon=1.0)
    assert [found.how for found in new_desk().together([other], epsilon=1.0)] == ["resumed"]
    assert len(charges(ledger)) == 1


@pytest.mark.privacy
def test_a_session_ends_when_its_updates_are_used_up(new_desk: MakeDesk, ledger: Ledger) -> None:
    """Its key is of no more use to it, and of much to a thief."""
    sitting = opened(new_desk())
    for question in TOWERS * 5:
        sitting.ask(question)
    assert sitting.updates_left == 0
    assert [one.status for one in charges(ledger)] == [Status.COMMITTED]
    assert keys(ledger) == []


def test_the_table_is_the_same_before_and_after_the_end(new_desk: MakeDesk) -> None:
    uneven = np.full((6, 48), 30.0)
    uneven[2], uneven[3] = 0.0, -5.0
    week = Table(uneven)
    desk = week.given_to(new_desk())
    sitting = desk.session("study", epsilon=2.0, clip=4, updates=2, threshold=10**6)
    by_turn = [sitting.ask(question).value for question in TOWERS]
    sitting.close()
    assert [sitting.ask(question).value for question in TOWERS] == pytest.approx(by_turn)


def test_who_waits_for_a_session_that_is_closed_is_answered(
    new_desk: MakeDesk, ledger: Ledger
) -> None:
    waiting, other = opened(new_desk()), opened(new_desk())
    with ledger.keyring.hold(waiting.charge):
        found: list[Any] = []
        asks = threading.Thread(target=lambda: found.append(waiting.ask(TOWERS[0])))
        asks.start()
        time.sleep(0.2)
        ledger.commit(other.charge, {}, answer={"turns": 0})
    asks.join(timeout=20)
    assert [one.how for one in found] == ["session"]
    other.close()


def test_a_key_that_goes_while_it_is_taken_is_a_refusal(
    ledger: Ledger, new_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge = opened(new_desk()).charge
    ring = ledger.keyring
    real = ring.release_key

    def read_and_gone(release: str) -> bytes:
        found = real(release)
        ring.destroy(release)
        return found

    monkeypatch.setattr(ring, "release_key", read_and_gone)
    with pytest.raises(ReservationRefused, match="destroyed"), ring.hold(charge):
        pass


def test_answers_that_are_all_noise_leave_a_table() -> None:
    rows = Workload.of(
        (3, 4), [Row((0, 1, 2), (0, 1, 2, 3)), Row((0,), (0, 1)), Row((1, 2), (0, 1, 2, 3))]
    )
    rng = np.random.default_rng(0)
    for _ in range(6):
        measured = [
            Measured(int(rng.integers(3)), float(rng.choice([-1e9, 1e9, 0, 5]))) for _ in range(200)
        ]
        found = fitted(np.full((3, 4), 5.0), rows, measured)
        assert np.isfinite(found).all()
        assert found.sum() == pytest.approx(60)


@pytest.mark.parametrize("epsilon", [float("nan"), float("inf"), -1.0, 0.0, 1e300])
def test_no_epsilon_that_is_none(new_desk: MakeDesk, ledger: Ledger, epsilon: float) -> None:
    desk = new_desk()
    for method in ("batch", "mwem"):
        with pytest.raises(UsageError):
            desk.together(TOWERS, epsilon=epsilon, method=method)
    with pytest.raises(UsageError):
        opened(desk, epsilon=epsilon)
    with pytest.raises(UsageError):
        plan_mwem([Row((0,), (0,))], (6, 48), epsilon=epsilon, delta=1e-6)
    with pytest.raises(UsageError):
        plan_session(epsilon=1.0, clip=1 << 60, updates=1)
    assert not charges(ledger)
    assert TOWN in ledger.book().caps
