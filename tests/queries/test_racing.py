"""Analysts at one desk, each in a process: no cap or allowance passed, each answer paid once.

Every analyst has questions of their own and one that all ask at the same instant. The cap has room
for about half of what they want, the allowances together for more than the cap. Whoever fits is
answered, whoever does not is refused, and in the end the ledger adds up to what was answered.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.queries.conftest import TOWN, table, towers, visits

from sfumato.errors import BudgetRefused
from sfumato.privacy.events import USER_PERIOD
from sfumato.privacy.ledger import Cap, Ledger, Status
from sfumato.privacy.ledger.limits import standing
from sfumato.privacy.ledger.views import verify
from sfumato.queries.desk import Desk

pytestmark = pytest.mark.privacy
COMMON = {"measure": "unique_people", "zones": ["t0"], "want": {"plus_minus": 10}}
EACH = 3
"""Questions of an analyst's own."""
ALLOWED = 2
"""How many of these the allowance has room for."""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger can be made: a new file, or an empty database of a real server."""
    if request.param == "sqlite":
        return str(tmp_path / "books" / "ledger.sqlite")
    new: Callable[[], str] = request.getfixturevalue("new_postgres")
    return new()


def own(analyst: int, number: int) -> dict[str, Any]:
    """A question that nobody else asks: a tower in an hour of a day."""
    rest, hour = divmod(analyst * EACH + number, 24)
    tower, day = divmod(rest, 2)
    return {
        "measure": "unique_people",
        "zones": [f"t{1 + tower}"],
        "from": f"2024-01-0{1 + day}",
        "to": f"2024-01-0{2 + day}",
        "hours": f"{hour}-{hour + 1}",
        "want": {"plus_minus": 10},
    }


def desk_of(location: str, key: str, analyst: str | None) -> Desk:
    """As a process of its own opens it."""
    return Desk(table(visits(people=40)), towers=towers(), dataset=TOWN, start="2024-01-01",
                end="2024-01-03", tz="UTC", delta=1e-6, analyst=analyst,
                ledger=Ledger(location, key=key))  # fmt: skip


DRAWN = ("new", "resumed")
Told = tuple[str, bool, str, float]
"""Who asked, whether it was the question of all, how it was answered, and the number."""


def race(location: str, key: str, analyst: int, gate: Any, results: Any) -> None:
    told: list[Told] = []
    who, wrong = f"analyst-{analyst}", ""
    try:
        with desk_of(location, key, who) as desk:
            desk.source()
            gate.wait(timeout=120)
            for question in (COMMON, *(own(analyst, n) for n in range(EACH))):
                try:
                    found = desk.ask(question)
                    told.append((who, question is COMMON, found.how, found.value))
                except BudgetRefused:
                    told.append((who, question is COMMON, "refused", 0.0))
    except BaseException:
        wrong = traceback.format_exc()
    results.put((told, wrong))


@pytest.mark.parametrize("analysts", [6, pytest.param(32, marks=pytest.mark.slow)])
def test_analysts_race_and_pass_neither_allowance_nor_cap(
    location: str, tmp_path: Path, analysts: int
) -> None:
    key = str(tmp_path / "keys" / "ledger.key")
    for folder in ("books", "keys"):
        (tmp_path / folder).mkdir(mode=0o700)
    ledger = Ledger(location, key=key)
    ledger.initialise()
    ledger.add_dataset(TOWN, Cap(rho=1.0))
    with desk_of(location, key, None) as desk:
        price = desk.plan(COMMON).price
        assert price is not None
        one = price.spend.rho
        assert one is not None
    room = analysts * 3 // 2
    ledger.set_cap(TOWN, Cap(rho=one * (room + 0.5)))
    for n in range(analysts):
        ledger.set_allowance(TOWN, f"analyst-{n}", Cap(rho=one * (ALLOWED + 0.5)))

    context = multiprocessing.get_context("fork")
    gate, results = context.Barrier(analysts), context.Queue()
    workers = [
        context.Process(target=race, args=(location, key, n, gate, results))
        for n in range(analysts)
    ]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=500) for _ in workers]
    for worker in workers:
        worker.join()
    assert [wrong for _, wrong in found if wrong] == []
    told = [row for rows, _ in found for row in rows]
    assert len(told) == analysts * (1 + EACH)

    # The question of all: one draw, one price, whoever came first. Who reserves it need not be who
    # holds its key first: then another one draws, and says that it finished what was begun.
    common = [(how, value) for _, all_, how, value in told if all_]
    assert len({value for _, value in common}) == 1
    assert sum(how in DRAWN for how, _ in common) == 1
    assert {how for how, _ in common} <= {*DRAWN, "stored"}

    rows = list(ledger.book().charges.values())
    paid = [row for row in told if row[2] in DRAWN]
    assert len(rows) == len(paid) == room  # nobody who fits is turned away
    assert all(row.status is Status.COMMITTED and row.answer is not None for row in rows)
    assert len({row.claim.name for row in rows}) == len(rows)
    spent = [row.claim.analyst for row in rows]
    assert max(spent.count(f"analyst-{n}") for n in range(analysts)) <= ALLOWED
    state = standing(ledger.book(), TOWN, USER_PERIOD, 1e-6)
    assert state.lifetime.rho == pytest.approx(room * one)
    assert state.lifetime.rho <= one * (room + 0.5)
    assert not list(Path(key).with_suffix(".keys").glob("*"))
    assert verify(ledger).sound
