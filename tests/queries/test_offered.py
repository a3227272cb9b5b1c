"""What a reservation binds of code that others offer: no other code finishes what it began."""

from __future__ import annotations

from typing import Any

import pytest
from tests.queries.conftest import MakeDesk, visits
from tests.queries.test_sitting import QUESTIONS, charges, cube, opened  # noqa: F401

from sfumato.errors import ReservationRefused
from sfumato.model import extensions
from sfumato.privacy.ledger import Ledger, Status
from sfumato.published.release import Release
from sfumato.queries.desk import Desk
from sfumato_lab.queries import mwem

pytestmark = pytest.mark.privacy
CROWD = visits(seed=5, people=3_000, each=6)


class Killed(BaseException):
    """The process is gone."""


def killed(*_: Any) -> None:
    raise Killed


def with_another_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "digest_of", lambda *_: "0" * 64)


def ask(desk: Desk) -> list[Any]:
    return desk.together(QUESTIONS, epsilon=0.5, method="mwem", rounds=2)


def test_another_code_does_not_finish_questions_that_this_one_began(
    new_desk: MakeDesk, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once they are answered nothing is drawn any more, and the answers are those of all code."""
    desk = new_desk(CROWD)
    with monkeypatch.context() as patch:
        patch.setattr(mwem, "run_mwem", killed)
        with pytest.raises(Killed):
            ask(desk)
    (row,) = charges(ledger)
    assert row.status is Status.RESERVED
    code = row.claim.config["code"]
    assert (code["distribution"], len(code["modules"])) == ("sfumato", 64)
    with monkeypatch.context() as patch:
        with_another_code(patch)
        with pytest.raises(ReservationRefused, match="was begun with code of sfumato"):
            ask(desk)
    answers = ask(desk)
    assert {answer.how for answer in answers} == {"resumed"}
    with monkeypatch.context() as patch:
        with_another_code(patch)
        again = ask(desk)
    assert {answer.how for answer in again} == {"stored"}
    assert [answer.value for answer in again] == [answer.value for answer in answers]
    assert len(charges(ledger)) == 1


def test_another_code_does_not_go_on_with_a_session(
    new_desk: MakeDesk,
    cube: Release,  # noqa: F811
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = new_desk(CROWD, release=cube)
    opened(desk).ask(QUESTIONS[0])
    with monkeypatch.context() as patch:
        with_another_code(patch)
        with pytest.raises(ReservationRefused, match="was begun with code of sfumato"):
            opened(desk)
    assert len(opened(desk).turns) == 1
    (row,) = charges(ledger)
    assert row.claim.config["code"]["distribution"] == "sfumato"


def test_questions_of_the_product_bind_no_code(new_desk: MakeDesk, ledger: Ledger) -> None:
    new_desk(CROWD).together(QUESTIONS, epsilon=0.5)
    (row,) = charges(ledger)
    assert "code" not in row.claim.config
