"""A desk under attack: the same batch in other words, sums that are no clip of anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import shapely
from tests.queries.conftest import TOWN, MakeDesk, Visit, true_answer

from sfumato.privacy.ledger import Ledger
from sfumato.privacy.ledger.records import Cap
from sfumato.queries.store import _lie_elsewhere

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
def test_no_delta_is_no_delta_in_whatever_type(new_desk: MakeDesk) -> None:
    """In the name of a question 0 and 0.0 are one number."""
    assert type(new_desk(delta=0).asking.delta) is float


def test_a_sum_of_answers_tells_no_clip(new_desk: MakeDesk, ledger: Ledger) -> None:
    """Somebody at two towers in an hour counts in both parts: no clip of the whole is that."""
    ledger.set_cap(TOWN, Cap(epsilon=1e9, delta=1e-5))
    rows: list[Visit] = [(user, 8, (user + k) % 6) for user in range(300) for k in (0, 1)]
    hour = {"measure": "visits", "to": "2024-01-02", "hours": "8-9"}
    halves = [["t0", "t1", "t2"], ["t3", "t4", "t5"]]
    desk = new_desk(rows)
    parts = [desk.ask({**hour, "zones": half, "want": {"plus_minus": 0.05}}) for half in halves]
    assert [one.clip for one in parts] == [1, 1]
    both = desk.ask({**hour, "want": {"plus_minus": 0.5}})
    assert (both.how, both.clip, len(both.sources)) == ("stored", None, 2)
    assert both.value == pytest.approx(400, abs=0.5)  # of 600 visits, by 300 people
    whole = new_desk(rows, edition="measured whole").ask({**hour, "want": {"plus_minus": 0.05}})
    assert (whole.how, whole.clip) == ("new", 1)
    assert whole.value == pytest.approx(true_answer(rows, set(range(6)), {8}, 1), abs=0.5)


@pytest.mark.privacy
def test_a_question_that_names_its_clip_is_answered_by_that_clip_alone(
    new_desk: MakeDesk, ledger: Ledger
) -> None:
    """Its interval is about the people so clipped: no sum of others is, however narrow."""
    ledger.set_cap(TOWN, Cap(epsilon=1e9, delta=1e-5))
    rows: list[Visit] = [(user, 8, (user + k) % 6) for user in range(300) for k in (0, 1)]
    hour = {"measure": "visits", "to": "2024-01-02", "hours": "8-9"}
    desk = new_desk(rows)
    for half in (["t0", "t1", "t2"], ["t3", "t4", "t5"]):
        desk.ask({**hour, "zones": half, "want": {"plus_minus": 0.05}})
    clipped = {**hour, "clip": 1, "want": {"plus_minus": 0.5}}
    assert desk.plan(clipped).known is None
    found = desk.ask(clipped)
    assert (found.how, found.clip, len(found.sources)) == ("new", 1, 1)
    assert found.value == pytest.approx(300, abs=3)
    assert desk.ask(clipped).how == "stored"


@pytest.mark.privacy
def test_a_release_of_places_that_lie_elsewhere_is_no_release_of_these() -> None:
    """Names alone do not make two maps one: what a zone was then is not what it is now."""

    def lie_elsewhere(ours: Any, theirs: Any) -> bool:
        made = [SimpleNamespace(geometry=np.array([one], object)) for one in (ours, theirs)]
        return _lie_elsewhere(made[1], made[0])  # type: ignore[arg-type]

    zone = shapely.box(2, 48, 2.1, 49)
    assert lie_elsewhere(zone, shapely.box(2, 48, 2.2, 49))
    assert lie_elsewhere(zone, shapely.box(2.2, 48, 2.3, 49))
    assert lie_elsewhere(shapely.Point(2, 48), shapely.Point(2, 48.001))
    assert not lie_elsewhere(zone, shapely.box(2 + 4e-8, 48, 2.1, 49))
    assert not lie_elsewhere(zone, shapely.segmentize(zone, 0.05))
    assert not lie_elsewhere(shapely.Point(2.05, 48.5), zone)  # a tower and its cell
