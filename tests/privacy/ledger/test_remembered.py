"""What a process remembers of a ledger never stands in for rows that it has not checked."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable

import pytest
from sqlalchemy import text
from tests.privacy.ledger.test_chain import tamper

from sfumato.errors import BudgetRefused, LedgerBroken
from sfumato.privacy.ledger import Cap, Claim, Ledger, remembered
from sfumato.privacy.ledger.chain import seal
from sfumato.privacy.ledger.records import Kind
from sfumato.privacy.ledger.views import verify

pytestmark = pytest.mark.privacy

Claims = Callable[..., Claim]
RAISED = "UPDATE sfumato_entries SET payload = replace(payload, '0.0078125', '9.0') WHERE seq = 3"


def look(ledger: Ledger, times: int) -> None:
    for _ in range(times):
        ledger.book()


@pytest.fixture
def used(ledger: Ledger, claim: Claims) -> Ledger:
    """Twelve rows: the cap is the third, then releases of rho 2^-12, reserved and committed."""
    for week in range(4):
        ledger.commit(ledger.reserve(claim(f"week-{week}", week=week, rho=2**-12)).id, {})
    ledger.reserve(claim("open", rho=2**-12))
    return ledger


def note(ledger: Ledger, length: int, digest: str) -> None:
    """Put another note of the head in the place of the one there is."""
    path = ledger.keyring.path.with_suffix(".head")
    path.write_text(f'{{"length": {length}, "hash": "{digest}"}}\n')


def test_an_old_row_that_is_altered_changes_nothing_and_is_found_in_its_turn(
    used: Ledger, claim: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "SLICE", 2)
    monkeypatch.setattr(remembered._memory, "turn", 4)
    tamper(used, RAISED)
    with pytest.raises(BudgetRefused):  # the cap is what it was
        used.reserve(claim("large", rho=1.0))
    assert not verify(used).sound
    with pytest.raises(LedgerBroken, match="row 3 was edited"):
        look(used, 6)  # twelve rows, two at a time


def test_the_next_process_finds_an_altered_row_at_once(
    used: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "SLICE", 1)
    monkeypatch.setattr(remembered._memory, "turn", 8)
    tamper(used, RAISED)
    used.book()
    remembered.forget()
    with pytest.raises(LedgerBroken, match="row 3 was edited"):
        used.book()


@pytest.mark.parametrize("seq", [1, 6, 12])
def test_no_old_row_can_go_missing_for_long(
    used: Ledger, seq: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "SLICE", 5)
    used.book()
    tamper(used, f"DELETE FROM sfumato_entries WHERE seq = {seq}")
    with pytest.raises(LedgerBroken):
        look(used, 3)


def test_a_ledger_shorter_than_what_was_seen_is_not_used_whatever_its_note_says(
    used: Ledger, claim: Claims
) -> None:
    rows = used.entries()
    tamper(used, "DELETE FROM sfumato_entries WHERE seq > 10")
    note(used, 10, rows[9].hash)
    with pytest.raises(LedgerBroken, match="it has 10 rows, but 12 were seen before"):
        used.reserve(claim("again", rho=2**-12))


def test_a_copy_that_went_another_way_is_not_taken_for_the_ledger(
    used: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sealed with the right key, of the same length, and noted as the head."""
    rows, key = used.entries(), used.keyring.load()
    other = seal(key, 12, "trust", rows[-1].time, '{"rows":11}', rows[10].hash)
    tamper(
        used,
        f"UPDATE sfumato_entries SET kind = 'trust', payload = '{other.payload}', "
        f"hash = '{other.hash}' WHERE seq = 12".replace(":11", "\\:11"),
    )
    monkeypatch.setattr(remembered, "SLICE", 1)
    monkeypatch.setattr(remembered._memory, "turn", 3)
    with pytest.raises(LedgerBroken):
        used.book()
    note(used, 12, other.hash)
    with pytest.raises(LedgerBroken):
        used.book()
    remembered.forget()
    assert len(used.book().charges) == 4  # to a process that has not seen the other it is whole


def test_a_row_that_came_since_is_added_only_with_its_seal(used: Ledger, claim: Claims) -> None:
    last, payload = used.entries()[-1], '{"cap":{"delta":null,"epsilon":null,"rho":9.0},'
    payload += '"dataset":"city","unit":"user-period"}'
    forged = seal(b"\1" * 32, last.seq + 1, "cap", last.time, payload, last.hash)
    with used.database.writing() as connection:
        connection.execute(
            text("INSERT INTO sfumato_entries VALUES (:a, :b, :c, :d, :e, :f)"),
            dict(zip("abcdef", (getattr(forged, n) for n in forged.__slots__), strict=True)),
        )
    with pytest.raises(LedgerBroken, match="row 13 was edited, or sealed with another key"):
        used.reserve(claim("large", rho=1.0))


def _elsewhere(location: str, key: str, claims: list[Claim]) -> None:
    for claim in claims:
        Ledger(location, key=key).reserve(claim)


def test_what_other_processes_charge_counts(ledger: Ledger, location: str, claim: Claims) -> None:
    """The cap has room for four; this process remembers one."""
    ledger.reserve(claim("mine"))
    theirs = [claim(f"theirs-{n}", week=n) for n in range(3)]
    other = multiprocessing.get_context("fork").Process(
        target=_elsewhere, args=(location, str(ledger.keyring.path), theirs)
    )
    other.start()
    other.join(60)
    assert other.exitcode == 0
    with pytest.raises(BudgetRefused):
        ledger.reserve(claim("more", rho=2**-30))
    assert len(ledger.book().charges) == 4


def _raise_the_cap_and_fail(ledger: Ledger) -> None:
    content = {"dataset": "city", "unit": "user-period", "cap": Cap(rho=9).to_json()}
    with remembered.Change(ledger.database, ledger.keyring) as change:
        change.append(Kind.CAP, content)
        raise ZeroDivisionError


def test_a_change_that_fails_is_not_remembered(used: Ledger, claim: Claims) -> None:
    before = used.entries()
    with pytest.raises(ZeroDivisionError):
        _raise_the_cap_and_fail(used)
    assert used.entries() == before
    with pytest.raises(BudgetRefused):
        used.reserve(claim("large", rho=1.0))
    used.reserve(claim("small", rho=2**-12))
    assert verify(used).sound


def test_what_is_remembered_cannot_be_changed_by_whoever_looks(used: Ledger) -> None:
    book = used.book()
    book.caps["city"]["user-period"] = Cap(rho=9.0)
    charge = book.find("city", "open")
    assert charge is not None
    with pytest.raises(TypeError, match="cannot be changed"):
        charge.claim.config["epsilon"] = 9.0
    book.charges.clear()
    again = used.book()
    assert again.caps["city"]["user-period"] == Cap(rho=2**-7)
    assert len(again.charges) == 5


def test_threads_of_one_process_pass_no_cap(ledger: Ledger, claim: Claims) -> None:
    outcomes: list[str] = []

    def race(number: int) -> None:
        try:
            ledger.reserve(claim(f"racer-{number}", week=number))
            outcomes.append("reserved")
        except BudgetRefused:
            outcomes.append("refused")

    threads = [threading.Thread(target=race, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 4 + ["reserved"] * 4
    assert verify(ledger).sound
