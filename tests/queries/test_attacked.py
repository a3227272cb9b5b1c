"""A desk under attack: the same batch in other words, sums that are no clip of anything."""

from __future__ import annotations

from typing import Any

import pytest
from tests.queries.conftest import TOWN, MakeDesk, Visit, true_answer

from sfumato.privacy.ledger import Ledger
from sfumato.privacy.ledger.records import Cap

TOWERS = [{"measure": "visits", "zones": [f"t{k}"], "hours": "0-12"} for k in range(3)]


@pytest.mark.privacy
@pytest.mark.parametrize("method", ["batch", "mwem"])
def test_a_batch_in_other_words_is_one_draw_and_one_price(
    new_desk: MakeDesk, ledger: Ledger, method: str
) -> None:
    """Numbers of another type, questions in another order or twice: averaging would be paid for."""
    options: dict[str, Any] = {"method": method, "rounds": 2}
    first = new_desk().together(TOWERS, epsilon=1, visits=30, **options)
    turned = new_desk().together([*TOWERS[::-1], TOWERS[2]], epsilon=1.0, visits=30.0, **options)
    assert [one.value for one in turned] == [first[k].value for k in (2, 1, 0, 2)]
    assert [one.question for one in turned] == [first[k].question for k in (2, 1, 0, 2)]
    assert {one.how for one in turned} == {"stored"}
    assert len(ledger.book().charges) == 1


@pytest.mark.privacy
def test_no_delta_is_no_delta_in_whatever_type(new_desk: MakeDesk, ledger: Ledger) -> None:
    """Under a session's name or a question's, 0 and 0.0 are one number."""
    names = {new_desk(delta=delta).asking.delta for delta in (0, 0.0)}
    assert {type(delta) for delta in names} == {float}
