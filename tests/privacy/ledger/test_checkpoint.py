"""A checkpoint spares reading. Altered, of another ledger or alone it is never believed."""

from __future__ import annotations

import hmac
import shutil
import stat
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text
from tests.privacy.ledger.test_chain import tamper
from tests.privacy.ledger.test_remembered import look, note

from sfumato.errors import BudgetRefused, LedgerBroken
from sfumato.privacy.events import USER_PERIOD, Unit
from sfumato.privacy.ledger import Cap, Claim, Ledger, Reservation, checkpoint, remembered
from sfumato.privacy.ledger.chain import subkey
from sfumato.privacy.ledger.limits import losses, standing
from sfumato.privacy.ledger.records import Book
from sfumato.privacy.ledger.tally import tally_of
from sfumato.privacy.ledger.views import verify

pytestmark = pytest.mark.privacy

Claims = Callable[..., Claim]
UNITS = ("user-period", "user-day@Europe/Paris", "w-event:24h/1h", "event")
HOUR = 3_600_000_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints of ledgers that tests have time to fill."""
    monkeypatch.setattr(checkpoint, "LEAST", 12)
    monkeypatch.setattr(checkpoint, "STEP", 8)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were read, look by look."""
    seen: list[int] = []
    rows = remembered._rows

    def counted(*settings: Any, **places: int) -> Any:
        found = rows(*settings, **places)
        seen.append(len(found))
        return found

    monkeypatch.setattr(remembered, "_rows", counted)
    monkeypatch.setattr(remembered, "SLICE", 2)
    return seen


def ask(ledger: Ledger, claim: Claim) -> None:
    found = ledger.reserve(claim)
    assert isinstance(found, Reservation)
    ledger.commit(found.id, {}, answer={"value": 7})


@pytest.fixture
def used(ledger: Ledger, claim: Claims) -> Ledger:
    """Some twenty rows of all kinds, and a checkpoint of them all but the last two."""
    for name in UNITS[1:]:
        ledger.add_dataset("city", Cap(rho=1.0), Unit.parse(name))
    ledger.set_allowance("city", "ann", Cap(rho=2**-8))
    for number, name in enumerate(UNITS):
        period = ((3 * number) * 24 * HOUR - HOUR, (3 * number + 5) * 24 * HOUR - HOUR)
        unit = Unit.parse(name)
        who = "ann" if unit == USER_PERIOD else None
        made = claim(f"q-{number}", rho=2**-12, unit=unit, period=period, analyst=who)
        ask(ledger, made)
    session = ledger.reserve(claim("session", rho=2**-12, week=1))
    ledger.note(session.id, {"asked": [1]}, expected=0)
    fresh(ledger)
    ask(ledger, claim("last", rho=2**-12, analyst="ann"))
    assert place(ledger).exists()
    fresh(ledger)
    return ledger


def fresh(ledger: Ledger) -> Ledger:
    """As a process has it that was just started."""
    remembered.forget()
    return ledger


def place(ledger: Ledger) -> Path:
    return ledger.keyring.path.with_suffix(".checkpoint")


def figures(book: Book) -> dict[str, Any]:
    """Everything that a book says and adds up to."""
    said = {f.name: getattr(book, f.name) for f in fields(book) if f.name != "tallies"}
    said["charges"] = list(book.charges.values())
    said["losses"] = losses(book, "city", 1e-6)
    said["standing"] = [standing(book, "city", Unit.parse(name), 1e-6) for name in UNITS]
    for analyst in (None, "ann"):
        tally = tally_of(book, "city", analyst)
        said[f"sums of {analyst}"] = [len(tally), tally.least_delta, tally.sorts, tally.kinds] + [
            (account, [part.tolist() for part in (c.begin, c.end, c.rho, c.pure, c.small)])
            for account, c in sorted(tally.accounts.items(), key=str)
        ]
    return said


def test_what_a_checkpoint_holds_is_what_all_rows_say(used: Ledger, read: list[int]) -> None:
    with_it = used.book()
    assert max(read) < len(used.entries()) - 8
    place(used).unlink()
    without = fresh(used).book()
    assert max(read) == len(used.entries())
    for account in [*tally_of(with_it, "city").accounts]:  # those that were asked for before
        tally_of(without, "city").columns(account)
    for account in [*tally_of(with_it, "city", "ann").accounts]:
        tally_of(without, "city", "ann").columns(account)
    assert figures(with_it) == figures(without)


def test_rows_after_the_checkpoint_count(used: Ledger, claim: Claims) -> None:
    """The allowance has room for sixteen of these; an older copy of the checkpoint is kept."""
    copy = place(used).read_bytes()
    ask(used, claim("large", rho=2**-8 - 3 * 2**-12, analyst="ann"))
    place(used).write_bytes(copy)
    with pytest.raises(BudgetRefused, match="'ann'"):
        fresh(used).reserve(claim("more", rho=2**-11, analyst="ann"))
    assert verify(used).sound


def forged(ledger: Ledger, key: bytes | None = None) -> bytes:
    """A checkpoint with raised caps, sealed with another key, or not at all."""
    loaded = checkpoint.load(ledger.keyring, ledger.keyring.load())
    assert loaded is not None
    seals, book = loaded
    book.caps["city"]["user-period"] = Cap(rho=9.0)
    book.allowances["city"]["ann"]["user-period"] = Cap(rho=9.0)
    body = checkpoint._packed(seals, book)
    tag = place(ledger).read_bytes()[:32]
    if key is not None:
        tag = hmac.digest(subkey(key, "checkpoint"), body, "sha256")
    return tag + body


def test_one_that_is_altered_is_not_believed(used: Ledger, claim: Claims, read: list[int]) -> None:
    content = place(used).read_bytes()
    rows = len(used.entries())
    altered = [
        *(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in (0, 31, 32, 50)),
        *(content[:-1], content + b" ", content[32:], b"", b"\0" * len(content)),
        content.replace(b'"rho":0.0078125', b'"rho":9.0078125'),
        *(forged(used), forged(used, b"\1" * 32)),
    ]
    assert content not in altered
    for one in altered:
        place(used).write_bytes(one)
        read.clear()
        with pytest.raises(BudgetRefused):
            fresh(used).reserve(claim("large", rho=1.0, analyst="ann"))
        assert max(read) == rows
    place(used).write_bytes(content)
    read.clear()
    fresh(used).book()
    assert max(read) < rows


def test_one_of_another_ledger_is_not_believed(
    used: Ledger, claim: Claims, tmp_path: Path, read: list[int]
) -> None:
    """Also where both have one key: it names rows that the other does not have."""
    other = Ledger(tmp_path / "other" / "ledger.sqlite")
    (tmp_path / "other").mkdir(mode=0o700)
    shutil.copy(used.keyring.path, other.keyring.path)
    other.initialise()
    other.add_dataset("city", Cap(rho=2**-9))
    for number in range(12):
        ask(other, claim(f"q-{number}", rho=2**-14, week=number))
    for give, take in ((used, other), (other, used)):
        fresh(give).book()
        held = place(give).read_bytes() if place(give).exists() else b""
        mine = place(take).read_bytes() if place(take).exists() else b""
        place(take).write_bytes(held)
        rows = len(take.entries())
        read.clear()
        with pytest.raises(BudgetRefused):
            fresh(take).reserve(claim("large", rho=2**-7))
        assert max(read) == rows
        place(take).write_bytes(mine)


def test_one_made_by_other_code_or_other_time_zones_is_not_believed(
    used: Ledger, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = len(used.entries())
    for name, changed in (("_code", lambda: "other"), ("_days", lambda *_: "other")):
        with monkeypatch.context() as patched:
            patched.setattr(checkpoint, name, changed)
            read.clear()
            fresh(used).book()
            assert max(read) == rows
    read.clear()
    fresh(used).book()
    assert max(read) < rows


def test_it_does_not_stand_in_for_a_row_after_it(used: Ledger, claim: Claims) -> None:
    last = len(used.entries())
    tamper(used, f"UPDATE sfumato_entries SET payload = '{{}}' WHERE seq = {last}")
    with pytest.raises(LedgerBroken, match=f"row {last} was edited"):
        fresh(used).reserve(claim("more", rho=2**-20))


def test_it_does_not_stand_in_for_rows_that_were_cut_off(used: Ledger, claim: Claims) -> None:
    """Below the checkpoint and above it, with the note of the head and with an older one."""
    rows = used.entries()
    tamper(used, f"DELETE FROM sfumato_entries WHERE seq > {len(rows) - 1}")
    with pytest.raises(LedgerBroken, match="cut off"):
        fresh(used).reserve(claim("more", rho=2**-20))
    with used.database.writing() as connection:
        connection.execute(text("DELETE FROM sfumato_entries WHERE seq > 10"))
    with pytest.raises(LedgerBroken, match="cut off"):
        fresh(used).reserve(claim("more", rho=2**-20))
    note(used, 10, rows[9].hash)
    assert len(fresh(used).book().charges) == len(
        [row for row in rows[:10] if row.kind == "reserve"]
    )


def test_a_missing_note_of_the_head_is_a_fault_with_a_checkpoint_too(used: Ledger) -> None:
    used.keyring.path.with_suffix(".head").unlink()
    with pytest.raises(LedgerBroken, match="no note"):
        fresh(used).book()


def test_an_older_row_that_is_edited_changes_nothing_and_is_found(
    used: Ledger, claim: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `verify` at once, and by uses in turn as in a process that remembers."""
    monkeypatch.setattr(remembered, "SLICE", 1)
    monkeypatch.setattr(remembered._memory, "turn", 8)
    raised = "UPDATE sfumato_entries SET payload = replace(payload, '0.0078125', '9.0') "
    tamper(used, f"{raised} WHERE seq = 3")
    with pytest.raises(BudgetRefused):
        fresh(used).reserve(claim("large", rho=1.0))
    assert not verify(used).sound
    with pytest.raises(LedgerBroken, match="row 3 was edited"):
        look(used, 40)


def test_it_is_written_for_its_owner_by_a_process_that_read_much_and_once(
    ledger: Ledger, claim: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    save = checkpoint.save

    def counted(keyring: Any, key: bytes, seals: list[str], book: Book) -> None:
        written.append(len(seals))
        save(keyring, key, seals, book)

    monkeypatch.setattr(checkpoint, "save", counted)
    for number in range(10):  # one process: what it had to read at first was little
        ask(ledger, claim(f"q-{number}", rho=2**-14, week=number))
    assert written == []
    for number in range(10, 20):  # a process each: every fifth finds eight rows since the last one
        ask(fresh(ledger), claim(f"q-{number}", rho=2**-14, week=number))
    assert written == [24, 34]
    assert stat.S_IMODE(place(ledger).stat().st_mode) == 0o600
    assert [path.name for path in place(ledger).parent.glob(".sfumato-*")] == []
    assert verify(ledger).sound


def test_where_it_cannot_be_written_nothing_fails(ledger: Ledger, claim: Claims) -> None:
    place(ledger).mkdir(parents=True)
    for number in range(10):
        ask(fresh(ledger), claim(f"q-{number}", rho=2**-14, week=number))
    assert len(fresh(ledger).book().charges) == 10


def test_links_that_come_after_it_join_the_sums(used: Ledger, claim: Claims) -> None:
    used.add_dataset("suburb", Cap(rho=2**-11))
    used.link(["city", "suburb"])
    with pytest.raises(BudgetRefused):  # city has spent more than the suburb's cap
        fresh(used).reserve(claim("more", rho=2**-30, dataset="suburb"))


def test_sums_from_a_checkpoint_are_those_of_arrays_nobody_can_change(used: Ledger) -> None:
    tally = tally_of(used.book(), "city")
    assert isinstance(tally.charges, np.ndarray)
    with pytest.raises(ValueError, match="read-only"):
        tally.charges[0, 0] = 9
