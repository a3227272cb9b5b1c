"""Allowances inside the cap, answers in the ledger, notes of open sessions. On both databases."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest

from sfumato.errors import BudgetRefused, ReservationRefused, UsageError
from sfumato.privacy.events import USER_PERIOD, Unit
from sfumato.privacy.ledger import Cap, Charge, Claim, Ledger, Reservation, Status, remembered
from sfumato.privacy.ledger.limits import standing
from sfumato.privacy.ledger.views import history, show, verify

pytestmark = pytest.mark.privacy

Claims = Callable[..., Claim]
ANSWER = {"value": 412, "plus_minus": 38.5, "zones": ["a", "b"], "sigma2": "529/4"}


def reserve(ledger: Ledger, claim: Claim) -> Reservation:
    found = ledger.reserve(claim)
    assert isinstance(found, Reservation)
    return found


def test_a_claim_names_its_analyst(claim: Claims) -> None:
    """Rows of the holder's own releases name none."""
    assert claim().to_json()["analyst"] is None
    named = claim(analyst="ann")
    assert named.to_json() == {**claim().to_json(), "analyst": "ann"}
    assert Claim.from_json(named.to_json()).analyst == "ann"
    assert Claim.from_json(claim().to_json()).analyst is None


def test_an_allowance_binds_its_analyst_beside_the_cap(ledger: Ledger, claim: Claims) -> None:
    """The cap has room for four, each of three analysts for two: allowances may sum above it."""
    for who in ("ann", "bob", "cem"):
        ledger.set_allowance("city", who, Cap(rho=2**-8))
    for number in range(2):
        reserve(ledger, claim(f"ann-{number}", week=number, analyst="ann"))
    with pytest.raises(BudgetRefused, match="the allowance for the unit user-period") as refused:
        ledger.reserve(claim("ann-2", rho=2**-30, analyst="ann"))
    assert refused.value.remaining_rho == 0
    assert "bob" not in str(refused.value)
    reserve(ledger, claim("bob-0", week=3, analyst="bob"))
    reserve(ledger, claim("the holder's own", week=4))
    with pytest.raises(BudgetRefused, match="the cap for the unit user-period"):
        ledger.reserve(claim("cem-0", rho=2**-30, analyst="cem"))
    assert len(ledger.book().charges) == 4


def test_an_analyst_without_an_allowance_is_refused_where_somebody_has_one(
    ledger: Ledger, claim: Claims
) -> None:
    reserve(ledger, claim("before", analyst="eve"))  # nobody has one yet: the cap alone binds
    ledger.set_allowance("city", "ann", Cap(rho=2**-8))
    with pytest.raises(BudgetRefused, match="'eve' has no allowance"):
        ledger.reserve(claim("after", analyst="eve", rho=2**-30))
    reserve(ledger, claim("the holder's own"))
    ledger.set_allowance("city", "eve", Cap(rho=2**-9))
    with pytest.raises(BudgetRefused):  # what was charged before counts
        ledger.reserve(claim("after", analyst="eve", rho=2**-30))


def test_an_allowance_for_another_unit_does_not_do(ledger: Ledger, claim: Claims) -> None:
    """A charge for single records does not count in the account of whole ones."""
    ledger.add_dataset("city", Cap(rho=1.0), Unit.parse("event"))
    ledger.set_allowance("city", "ann", Cap(rho=2**-8))
    with pytest.raises(BudgetRefused, match="for the unit event"):
        ledger.reserve(claim(unit=Unit.parse("event"), analyst="ann", rho=2**-30))
    ledger.set_allowance("city", "ann", Cap(rho=2**-8), Unit.parse("event"))
    with pytest.raises(BudgetRefused, match="the allowance for the unit event"):
        ledger.reserve(claim(analyst="ann", rho=2**-9))  # a whole record: rho four times there
    reserve(ledger, claim(analyst="ann", rho=2**-10))


def test_allowances_and_charges_of_linked_data_sets_count(ledger: Ledger, claim: Claims) -> None:
    ledger.add_dataset("other operator", Cap(rho=1.0))
    ledger.set_allowance("city", "ann", Cap(rho=2**-8))
    reserve(ledger, claim("a", dataset="other operator", analyst="eve"))
    reserve(ledger, claim("b", dataset="other operator", analyst="ann", rho=2**-9))
    ledger.link(["city", "other operator"])
    with pytest.raises(BudgetRefused, match="'eve' has no allowance"):
        ledger.reserve(claim("c", dataset="other operator", analyst="eve", rho=2**-30))
    reserve(ledger, claim("d", dataset="other operator", analyst="ann", rho=2**-9))
    for dataset in ("city", "other operator"):
        with pytest.raises(BudgetRefused, match="'ann'"):
            ledger.reserve(claim("e", dataset=dataset, analyst="ann", rho=2**-30))


def test_abandoned_questions_of_an_analyst_stay_charged_to_that_one(
    ledger: Ledger, claim: Claims
) -> None:
    ledger.set_allowance("city", "ann", Cap(rho=2**-9))
    ledger.abandon(reserve(ledger, claim(analyst="ann")).id)
    remembered.forget()
    with pytest.raises(BudgetRefused, match="'ann'"):
        ledger.reserve(claim("again", analyst="ann", rho=2**-30))


def test_a_paraphrase_by_another_analyst_finds_the_first_ones_release(
    ledger: Ledger, claim: Claims
) -> None:
    """Whoever asks second pays nothing, also where nothing is left to pay with."""
    ledger.set_allowance("city", "ann", Cap(rho=2**-7))
    ledger.set_allowance("city", "bob", Cap(rho=2**-40))
    first = reserve(ledger, claim(analyst="ann"))
    again = reserve(ledger, claim(analyst="bob"))
    assert (again.id, again.key, again.resumed) == (first.id, first.key, True)
    ledger.commit(first.id, {}, answer=ANSWER)
    for who in ("ann", "bob", "eve", None):
        found = ledger.reserve(claim(analyst=who))
        assert isinstance(found, Charge)
        assert (found.answer, found.claim.analyst) == (ANSWER, "ann")
    spent = {who["analyst"]: who for who in show(ledger.book())["datasets"][0]["analysts"]}
    assert spent["ann"]["units"][0]["spent"]["rho"] == 2**-9
    assert (spent["bob"]["releases"], spent["bob"]["units"][0]["spent"]["rho"]) == (0, 0)


def test_an_answer_stands_in_the_row_and_the_first_one_stays(ledger: Ledger, claim: Claims) -> None:
    first = reserve(ledger, claim())
    assert ledger.book().answered == {}
    assert ledger.commit(first.id, {}, answer=ANSWER).answer == ANSWER
    assert ledger.commit(first.id, {}, answer={"value": 9}).answer == ANSWER
    ledger.commit(reserve(ledger, claim("table", week=1)).id, {"density.csv": "0" * 64})
    remembered.forget()
    book = ledger.book()
    assert book.answered == {"city": [first.id]}
    assert book.charges[first.id].answer == ANSWER
    assert book.named["city", "week-0"] == first.id
    assert json.loads(ledger.entries()[4].payload)["answer"] == ANSWER
    assert [row["answer"] for row in history(book)] == [ANSWER, None]
    assert verify(ledger).sound


def test_an_answer_needs_a_charge_that_is_open(ledger: Ledger, claim: Claims) -> None:
    with pytest.raises(UsageError, match="knows no release"):
        ledger.commit("0" * 32, {}, answer=ANSWER)
    given_up = reserve(ledger, claim())
    ledger.abandon(given_up.id)
    with pytest.raises(ReservationRefused, match="abandoned"):
        ledger.commit(given_up.id, {}, answer=ANSWER)
    assert ledger.book().answered == {}
    assert [row.kind for row in ledger.entries()].count("commit") == 0


def test_what_whoever_looks_does_with_an_answer_changes_no_ledger(
    ledger: Ledger, claim: Claims
) -> None:
    first = reserve(ledger, claim())
    ledger.note(first.id, {"asked": [1, 2]}, expected=0)
    ledger.commit(first.id, {}, answer=ANSWER)
    book = ledger.book()
    seen: Any = book.charges[first.id].answer
    seen["zones"].append("c")
    book.charges[first.id].notes[0]["asked"].append(3)
    book.answered["city"].clear()
    again = ledger.book()
    assert again.charges[first.id].answer == ANSWER
    assert again.charges[first.id].notes == ({"asked": [1, 2]},)
    assert again.answered == {"city": [first.id]}


def test_notes_are_appended_by_whoever_has_read_all_of_them(ledger: Ledger, claim: Claims) -> None:
    session = reserve(ledger, claim())
    assert ledger.note(session.id, {"question": 1}, expected=0).notes == ({"question": 1},)
    with pytest.raises(ReservationRefused, match="has 1 notes, not 0"):
        ledger.note(session.id, {"question": "another"}, expected=0)
    ledger.note(session.id, {"question": 2}, expected=1)
    remembered.forget()
    row = ledger.book().charges[session.id]
    assert row.notes == ({"question": 1}, {"question": 2})
    assert row.status is Status.RESERVED
    ledger.commit(session.id, {})
    with pytest.raises(ReservationRefused, match="is committed"):
        ledger.note(session.id, {"question": 3}, expected=2)
    assert len(ledger.book().charges[session.id].notes) == 2
    assert verify(ledger).sound


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201])
def test_an_analyst_needs_a_name(ledger: Ledger, claim: Claims, name: str) -> None:
    with pytest.raises(UsageError, match="printable name"):
        ledger.set_allowance("city", name, Cap(rho=1.0))
    with pytest.raises(UsageError, match="printable name"):
        ledger.reserve(claim(analyst=name))
    assert ledger.book().allowances == {}


def test_an_allowance_is_for_a_data_set_that_is_known(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="knows no data set"):
        ledger.set_allowance("town", "ann", Cap(rho=1.0))


def _race(location: str, key: str, claims: list[Claim], gate: Any, results: Any) -> None:
    gate.wait()
    for claim in claims:
        try:
            Ledger(location, key=key).reserve(claim)
            results.put((claim.analyst, "reserved"))
        except BudgetRefused:
            results.put((claim.analyst, "refused"))


@pytest.mark.parametrize(
    ("analysts", "each"),
    [(8, 3), pytest.param(32, 8, marks=pytest.mark.slow)],
)
def test_analysts_race_and_pass_neither_allowance_nor_cap(
    ledger: Ledger, location: str, claim: Claims, analysts: int, each: int
) -> None:
    """Each may have two and asks for more; together they would pass the cap, which has room for
    one and a half each. Nobody who fits is turned away."""
    names = [f"analyst-{n}" for n in range(analysts)]
    room = analysts * 3 // 2
    ledger.set_cap("city", Cap(rho=room * 2**-12))
    for who in names:
        ledger.set_allowance("city", who, Cap(rho=2 * 2**-12))
    context = multiprocessing.get_context("fork")
    gate, results = context.Barrier(analysts), context.Queue()
    workers = []
    for who in names:
        claims = [claim(f"{who} {n}", rho=2**-12, week=n, analyst=who) for n in range(each)]
        settings = (location, str(ledger.keyring.path), claims, gate, results)
        workers.append(context.Process(target=_race, args=settings))
    for worker in workers:
        worker.start()
    outcomes = [results.get(timeout=240) for _ in range(analysts * each)]
    for worker in workers:
        worker.join()
    got = [who for who, outcome in outcomes if outcome == "reserved"]
    assert len(got) == room
    assert max(got.count(who) for who in names) <= 2
    state = standing(ledger.book(), "city", USER_PERIOD, 2e-6)
    assert (state.lifetime.releases, state.lifetime.rho) == (room, room * 2**-12)
    assert verify(ledger).sound
