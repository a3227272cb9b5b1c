"""The desk: what is free, what is measured, what is charged, and that one draw has one price."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.queries.conftest import TOWN, MakeDesk, table, towers, true_answer, visits

from sfumato.errors import BudgetRefused, InputError, UsageError
from sfumato.model.places import PlaceKind, Places
from sfumato.model.source import RecallingSource
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.ledger import Ledger, Status
from sfumato.privacy.ledger.records import Cap
from sfumato.privacy.wall import Wall
from sfumato.queries.desk import Desk
from sfumato.queries.pricing import HALF_WIDTH, price
from sfumato.queries.question import Frame
from sfumato.queries.routing import Stored, known

MORNING = {"measure": "visits", "zones": ["t0", "t1"], "hours": "6-12"}
PEOPLE = {"measure": "unique_people", "zones": ["t0", "t1"], "hours": "6-12"}


NO_CAP = Cap(epsilon=1e7, delta=1e-5)


def wanting(question: dict[str, Any], **want: float) -> dict[str, Any]:
    return question | {"want": want}


def charges(ledger: Ledger) -> list[Any]:
    return list(ledger.book().charges.values())


def test_an_answer_is_the_truth_and_its_noise(new_desk: MakeDesk, ledger: Ledger) -> None:
    ledger.set_cap(TOWN, NO_CAP)
    rows, desk = visits(), new_desk()
    hours = {h for h in range(48) if 6 <= h % 24 < 12}
    for question, clip in ((MORNING, 12), (MORNING | {"clip": 2}, 2), (PEOPLE, 1)):
        found = desk.ask(wanting(question, plus_minus=0.05))
        assert found.how == "new"
        assert found.clip == clip
        assert found.value == pytest.approx(true_answer(rows, {0, 1}, hours, clip), abs=0.5)
        assert found.estimate.plus_minus == pytest.approx(0.05, rel=1e-6)


@pytest.mark.privacy
def test_a_paraphrase_is_given_what_is_stored(new_desk: MakeDesk, ledger: Ledger) -> None:
    """Other words, other analysts, other processes: one draw, one price."""
    first = new_desk(analyst="ana").ask(wanting(MORNING, plus_minus=20))
    spent = len(charges(ledger))
    for words in (
        {"measure": "visits", "zones": ["t1", "t0", "t0"], "hours": [11, 10, 9, 8, 7, 6]},
        {"measure": "visits", "polygon": "1.99,47,2.015,49", "hours": "6-12"},
        {**MORNING, "from": "2024-01-01", "to": "2024-01-03"},
    ):
        again = new_desk(analyst="bo").ask(wanting(words, plus_minus=20))
        assert (again.value, again.how, again.spend) == (first.value, "stored", None)
    looser = new_desk().ask(wanting(MORNING, plus_minus=50))
    assert (looser.value, looser.how) == (first.value, "stored")
    assert len(charges(ledger)) == spent == 1
    assert charges(ledger)[0].claim.analyst == "ana"


@pytest.mark.privacy
def test_another_scale_and_other_data_are_independent_and_paid(
    new_desk: MakeDesk, ledger: Ledger, drawn_blocks: Any
) -> None:
    """One draw at two scales, or on two inputs, would give the truth away."""
    truth = true_answer(visits(), {0, 1}, {h for h in range(48) if 6 <= h % 24 < 12}, 12)
    wide = new_desk().ask(wanting(MORNING, plus_minus=40))
    narrow = new_desk().ask(wanting(MORNING, plus_minus=20))
    fewer = [row for row in visits() if row[0] != 3]
    changed = new_desk(fewer).ask(wanting(MORNING, plus_minus=15))
    assert [one.how for one in (wide, narrow, changed)] == ["new"] * 3
    assert len(charges(ledger)) == 3
    assert drawn_blocks.twice() == 0
    keys = {(one.claim.name, one.claim.fingerprint) for one in charges(ledger)}
    assert len(keys) == 3
    raw = [one.answer["noisy"] / one.answer["units"] - truth for one in charges(ledger)]
    assert raw[0] / 40 != pytest.approx(raw[1] / 20, rel=1e-3)
    # inverse variance of the two about the same data: 4 parts of the narrow one, 1 of the wide
    assert narrow.value == pytest.approx(truth + (raw[0] + 4 * raw[1]) / 5, rel=1e-6)
    assert narrow.estimate.plus_minus == pytest.approx(20 * math.sqrt(4 / 5), rel=1e-6)
    assert len(changed.sources) == 1  # other data: the older answers are about other records


@pytest.mark.privacy
def test_every_question_is_charged_before_it_is_drawn(
    new_desk: MakeDesk, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, str]] = []
    real = Wall.gaussian

    def listening(self: Wall, *args: Any, **options: Any) -> Any:
        seen.extend((len(charges(ledger)), one.status.value) for one in charges(ledger)[-1:])
        return real(self, *args, **options)

    monkeypatch.setattr(Wall, "gaussian", listening)
    desk = new_desk()
    desk.ask(wanting(PEOPLE, epsilon=0.5))
    desk.together([MORNING, MORNING | {"zones": ["t3"]}], epsilon=0.5)
    assert seen[0] == (1, "reserved")
    assert seen[1] == (2, "reserved")
    assert all(one.status is Status.COMMITTED for one in charges(ledger))
    assert all(one.answer is not None for one in charges(ledger))


@pytest.mark.privacy
def test_a_refusal_comes_before_the_data_is_opened(new_desk: MakeDesk, ledger: Ledger) -> None:
    desk = new_desk()
    desk.source = lambda: pytest.fail("the data was opened")  # type: ignore[method-assign,return-value]
    with pytest.raises(BudgetRefused):
        desk.ask(wanting(MORNING, epsilon=30))
    with pytest.raises(BudgetRefused):
        desk.together([MORNING], epsilon=30)
    assert not charges(ledger)


@pytest.mark.privacy
def test_whether_a_question_is_free_does_not_hang_on_the_data(new_desk: MakeDesk) -> None:
    new_desk().ask(wanting(MORNING, plus_minus=20))
    other = new_desk(visits(seed=99, people=3))
    other.source = lambda: pytest.fail("the data was opened")  # type: ignore[method-assign,return-value]
    assert other.ask(wanting(MORNING, plus_minus=20)).how == "stored"
    assert new_desk(edition="after corrections").plan(wanting(MORNING, plus_minus=20)).free is False


def test_halves_make_a_whole_and_a_whole_less_a_part_the_rest(
    new_desk: MakeDesk, ledger: Ledger
) -> None:
    ledger.set_cap(TOWN, NO_CAP)
    desk = new_desk()
    west = desk.ask({"measure": "visits", "zones": ["t0"], "want": {"plus_minus": 3}})
    east = desk.ask({"measure": "visits", "zones": ["t1"], "want": {"plus_minus": 4}})
    both = desk.ask({"measure": "visits", "zones": ["t0", "t1"], "want": {"plus_minus": 5.1}})
    assert both.how == "stored"
    assert both.value == pytest.approx(west.value + east.value)
    assert both.estimate.plus_minus == pytest.approx(5)
    all_six = desk.ask({"measure": "visits", "want": {"plus_minus": 12}})
    rest = desk.ask({"measure": "visits", "zones": ["t2", "t3", "t4", "t5"]})
    assert rest.how == "stored"
    assert rest.value == pytest.approx(all_six.value - both.value)
    assert rest.estimate.plus_minus == pytest.approx(13)


def test_people_and_clipped_visits_do_not_add_up(new_desk: MakeDesk, ledger: Ledger) -> None:
    ledger.set_cap(TOWN, NO_CAP)
    desk = new_desk()
    for extra in ({"measure": "unique_people"}, {"measure": "visits", "clip": 2}):
        for zone in ("t0", "t1"):
            desk.ask({**extra, "zones": [zone], "want": {"plus_minus": 3}})
        plan = desk.plan({**extra, "zones": ["t0", "t1"], "want": {"plus_minus": 50}})
        assert plan.known is None
        assert not plan.free


def test_a_plan_reads_and_spends_nothing(new_desk: MakeDesk, ledger: Ledger) -> None:
    desk = new_desk()
    desk.source = lambda: pytest.fail("the data was opened")  # type: ignore[method-assign,return-value]
    plan = desk.plan(wanting(PEOPLE, epsilon=1))
    assert plan.price is not None
    assert plan.price.spend.epsilon == pytest.approx(1, rel=1e-3)
    assert plan.plus_minus == pytest.approx(1.6449 * 4.23, rel=0.02)  # delta 1e-6
    assert desk.plan(wanting(PEOPLE, epsilon=50)).refusal is not None
    assert not charges(ledger)


def test_mechanisms(new_desk: MakeDesk) -> None:
    pure = new_desk(mechanism="laplace", delta=0.0)
    plan = pure.plan(wanting(PEOPLE, epsilon=1))
    assert plan.plus_minus == pytest.approx(math.log(10), rel=1e-4)
    assert pure.ask(wanting(PEOPLE, epsilon=1)).how == "new"
    with pytest.raises(UsageError, match="delta"):
        new_desk(delta=0.0).ask(wanting(MORNING, epsilon=1))
    with pytest.raises(UsageError, match="mechanism"):
        new_desk(mechanism="snapping")


@pytest.mark.privacy
def test_allowances_lie_inside_of_the_cap(new_desk: MakeDesk, ledger: Ledger) -> None:
    ledger.set_allowance(TOWN, "ana", Cap(epsilon=1.0, delta=1e-6))
    ana = new_desk(analyst="ana")
    ana.ask(wanting(PEOPLE, epsilon=0.8))
    with pytest.raises(BudgetRefused):
        ana.ask(wanting(MORNING, epsilon=0.8))
    assert ana.ask(wanting(PEOPLE, epsilon=0.5)).how == "stored"
    with pytest.raises(BudgetRefused):
        new_desk(analyst="stranger").ask(wanting(MORNING, epsilon=0.1))
    assert new_desk().ask(wanting(MORNING, epsilon=0.8)).how == "new"


@pytest.mark.privacy
@pytest.mark.parametrize("method", ["batch", "mwem"])
def test_many_together_are_one_charge_and_found_again(
    new_desk: MakeDesk, ledger: Ledger, method: str
) -> None:
    asked = [{"measure": "visits", "zones": [f"t{k}"], "hours": "0-12"} for k in range(6)]
    found = new_desk().together(asked, epsilon=5.0, method=method, rounds=3)
    again = new_desk().together(asked, epsilon=5.0, method=method, rounds=3)
    assert [one.value for one in found] == [one.value for one in again]
    assert {one.how for one in again} == {"stored"}
    assert len(charges(ledger)) == 1
    hours = {h for h in range(48) if h % 24 < 12}
    truth = [true_answer(visits(), {k}, hours, 48) for k in range(6)]
    if method == "batch":  # the level of MWEM is lost in the noise of so few people
        assert np.abs(np.array([one.value for one in found]) - truth).max() < 200
    assert all((one.estimate.plus_minus is None) == (method == "mwem") for one in found)
    with pytest.raises(UsageError, match="share one epsilon"):
        new_desk().together([wanting(MORNING, epsilon=1)], epsilon=1)


def test_dummy_answers_read_and_leave_nothing(ledger: Ledger) -> None:
    desk = Desk(towers=towers(), start="2024-01-01", end="2024-01-03", tz="UTC", delta=1e-6,
                dummy=True, ledger=ledger)  # fmt: skip
    found = desk.ask(wanting(PEOPLE, epsilon=1))
    assert found.how == "dummy"
    assert str(found).startswith("DUMMY")
    assert found.numbers()["dummy"] is True
    assert {one.how for one in desk.together([MORNING], epsilon=1)} == {"dummy"}
    assert not charges(ledger)


def test_towers_are_named_by_zones(new_desk: MakeDesk) -> None:
    import shapely

    boxes = [shapely.box(1.995, 47, 2.015, 49), shapely.box(2.015, 47, 2.2, 49)]
    zones = Places.of(PlaceKind.ZONES, ["west", "east"], [*boxes])
    desk = new_desk(zones=zones)
    assert desk.parse({"measure": "visits", "zones": ["west"]})[0].places == (0, 1)
    with pytest.raises(InputError, match="no zone 't0'"):
        desk.parse({"measure": "visits", "zones": ["t0"]})


@pytest.mark.privacy
def test_a_killed_question_is_answered_once(
    new_desk: MakeDesk, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., None] = Ledger.commit

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        new_desk().ask(wanting(MORNING, epsilon=1))
    monkeypatch.setattr(Ledger, "commit", real)
    assert [one.status for one in charges(ledger)] == [Status.RESERVED]
    found = new_desk().ask(wanting(MORNING, epsilon=1))
    assert found.how == "resumed"
    assert len(charges(ledger)) == 1
    assert new_desk().ask(wanting(MORNING, epsilon=1)).value == found.value


def test_answers_as_json(new_desk: MakeDesk) -> None:
    shown = new_desk().ask(json.dumps(wanting(MORNING, epsilon=1))).numbers()
    assert json.loads(json.dumps(shown))["how"] == "new"
    assert shown["lower"] < shown["value"] < shown["upper"]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_intervals_of_answers_hold(new_desk: MakeDesk, mechanism: str) -> None:
    """Of 90 %, over 3,000 draws: within four deviations."""
    desk = new_desk(mechanism=mechanism)
    question, want = desk.parse(wanting(PEOPLE, epsilon=0.7))
    cost = price(question, want, delta=1e-6, mechanism=mechanism)
    source = RecallingSource(desk.source())
    hours = {h for h in range(48) if 6 <= h % 24 < 12}
    truth = true_answer(visits(), {0, 1}, hours, 1)
    hits = 0
    for seed in range(3_000):
        made = cost.measure(source, desk.frame, Wall.seeded(seed))
        hits += abs(made.estimate()[0] - truth) <= cost.plus_minus
    assert 0.9 * 3_000 - 66 < hits < 0.9 * 3_000 + 66


@pytest.mark.parametrize("seed", range(4))
def test_combined_answers_have_the_interval_that_they_say(seed: int) -> None:
    """Random stored questions about a random table: standardised errors have unit variance."""
    rng = np.random.default_rng(seed)
    grid = TimeGrid(np.arange(9) * 3_600_000_000, timedelta(hours=1), "UTC")
    frame = Frame(np.array([f"p{k}" for k in range(6)]), grid)
    errors = []
    for _ in range(150):
        truth = rng.integers(0, 50, (6, 8))
        stored = []
        for number in range(12):
            places, slots = _some(rng, 6), _some(rng, 8)
            question = frame.question("visits", places, slots)
            sd = float(rng.uniform(1, 9))
            value = truth[np.ix_(places, slots)].sum() + sd * rng.standard_normal()
            stored.append(Stored(str(number), question, len(slots), value, sd**2, HALF_WIDTH * sd))
        target = frame.question("visits", stored[0].question.places, stored[0].question.slots)
        found = known(target, len(target.slots), stored)
        assert found is not None
        assert found.plus_minus <= stored[0].half_width * (1 + 1e-9)
        exact = truth[np.ix_(target.places, target.slots)].sum()
        errors.append((found.estimate.value - exact) / (found.plus_minus / HALF_WIDTH))
    assert np.mean(np.square(errors)) == pytest.approx(1, abs=0.5)


def _some(rng: np.random.Generator, size: int) -> list[int]:
    first, last = sorted(rng.integers(0, size, 2))
    return list(range(first, last + 1))


@pytest.mark.privacy
def test_a_changed_file_is_refused_while_it_is_read(
    new_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = new_desk()
    names = iter(["before", "after"])
    monkeypatch.setattr(desk, "fingerprint", lambda: next(names))
    with pytest.raises(InputError, match="changed while they were being read"):
        desk.ask(wanting(MORNING, epsilon=1))


def test_nothing_wanted_and_nothing_known(new_desk: MakeDesk) -> None:
    with pytest.raises(UsageError, match="want"):
        new_desk().ask(MORNING)
    with pytest.raises(UsageError, match="half-width"):
        new_desk().ask(wanting(MORNING, plus_minus=1e9))
    assert table(visits()).num_rows == 3200
