"""Many questions at once, on one budget: a batch, or a method that others offer.

A batch (`queries.batch`) measures the best of a few strategies in one pass over the data and
answers every question with an interval for its noise. A method is planned from the questions
alone, reserved as one charge, and kept as one answer: the same questions again, in whatever words
and order and however often each is named, are given what is stored.

What is counted in a batch: a person's vector of answers, scaled down to a norm that suits a busy
person (`visits`). Who has a longer one counts less in all of them, and the interval does not
know by how much; `plan_batch` says where that norm comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.model.extensions import Registry
from sfumato.privacy.events import PrivacyEvent
from sfumato.privacy.last_resort import REMARK, HearingWall, everything, numbers, refined
from sfumato.privacy.ledger import Reservation
from sfumato.privacy.ledger.totals import Spend, compose
from sfumato.privacy.transaction import answer as answered
from sfumato.privacy.wall import Wall
from sfumato.published.estimate import Estimate
from sfumato.queries.answers import Answer
from sfumato.queries.batch import VISITS, plan_batch, run_batch
from sfumato.queries.pricing import COVERAGE
from sfumato.queries.question import Question, Want

if TYPE_CHECKING:
    from sfumato.queries.desk import Desk

MOST_TOGETHER = 10_000
"""Questions of one batch: their answers are one row of the ledger."""


@dataclass(frozen=True, slots=True)
class JointPlan:
    """What is charged for questions that are asked together, and how their answers are drawn."""

    events: Mapping[str, PrivacyEvent]
    draw: Callable[[Wall], dict[str, Any]]
    """`values` of the questions in their order, and `plus_minus` where they have intervals."""
    config: Mapping[str, Any]
    """What the reservation binds beside the questions and their epsilon."""
    whole: bool = False
    """Whether slots outside of the questions are measured, too."""


def batch(
    desk: Desk, asked: list[Question], epsilon: float, visits: float, rounds: int | None
) -> JointPlan:
    """The strategy that fits the questions best."""
    del rounds  # it measures all of them at once
    shape, delta = (desk.frame.places, desk.frame.slots), desk.asking.delta
    plan = plan_batch(
        asked, shape, epsilon=epsilon, delta=delta, measure=asked[0].measure, visits=visits
    )

    def draw(wall: Wall) -> dict[str, Any]:
        found = run_batch(desk.source(), wall, plan)
        numbers(found.values, found.plus_minus)
        return {
            "values": np.round(found.values, 6).tolist(),
            "plus_minus": np.round(found.plus_minus, 6).tolist(),
            "strategy": found.strategy,
        }

    return JointPlan(plan.events, draw, {"visits": visits})


METHODS: Registry[Callable[[Desk, list[Question], float, float, int | None], JointPlan]] = Registry(
    "questions together", {"batch": batch}
)
"""By name: desk, questions, epsilon, visits of a busy person and rounds to what is charged."""


def answer_together(
    desk: Desk,
    questions: Iterable[str | Mapping[str, Any] | Question],
    *,
    epsilon: float,
    method: str = "batch",
    visits: float = VISITS,
    rounds: int | None = None,
) -> list[Answer]:
    """The answers, in the order of the questions; see `Desk.together`."""
    given = _asked(desk, questions)
    # One form of what is one batch: a set of questions, and numbers of one type.
    asked = sorted(set(given), key=lambda question: (question.places, question.slots))
    epsilon, visits = float(epsilon), float(visits)
    if method not in METHODS:
        raise UsageError(
            f"Questions are not answered by {method!r}.",
            remedy=f"Choose from {', '.join(METHODS)}.",
        )
    plan = METHODS[method](desk, asked, epsilon, visits, rounds)
    events, whole = plan.events, plan.whole
    config = {
        "questions": [question.stated() for question in asked],
        "epsilon": epsilon,
        **plan.config,
    }
    made: Mapping[str, Any]
    if desk.dummy:
        made, how, spend = plan.draw(Wall.seeded(desk.dummy_seed())), "dummy", None
    else:
        asking = replace(desk.asking, code=METHODS.provenance(method))
        refusal = asking.refused(method, asked, events, config, whole=whole)
        if refusal is not None:
            raise refusal
        claim = asking.claim(method, asked, events, config, desk.fingerprint(), whole=whole)

        def drawn(reservation: Reservation) -> Mapping[str, Any]:
            wall = HearingWall(reservation, reservation.key)
            return refined("query", lambda: plan.draw(wall), lambda: _spread(desk, asked, wall))

        charge, how = answered(desk.asking.ledger, claim, desk.fingerprint, drawn)
        assert charge.answer is not None
        made, spend = charge.answer, _spend(events, desk.asking.delta, how)
        how = "stored" if how == "already" else how
    wide = made.get("plus_minus") or [None] * len(asked)
    found = dict(zip(asked, map(_estimate, made["values"], wide), strict=True))
    remark = f" {made['remark']}" if "remark" in made else ""
    return [
        Answer(question, desk.frame.told(question) + remark, found[question], how, spend, None, ())
        for question in given
    ]


def _spread(desk: Desk, asked: list[Question], wall: HearingWall) -> dict[str, Any]:
    """The last resort: each question's share of the cells of the largest noisy sum."""
    cells = desk.frame.places * desk.frame.slots
    total = max([0.0, *(one.total for one in wall.heard.values())])
    most = everything(None, *(one.highest for one in wall.heard.values()))
    of_all = [len(one.places) * len(one.slots) / cells for one in asked]
    return {
        "values": [round(total * share, 6) for share in of_all],
        "plus_minus": [round(most, 6)] * len(asked),
        "remark": REMARK,
    }


def _spend(events: Mapping[str, PrivacyEvent], delta: float, how: str) -> Spend | None:
    return None if how == "already" else compose(list(events.values()), delta)


def _estimate(value: float, half: float | None) -> Estimate:
    if half is None:
        return Estimate(value)
    return Estimate(value, value - half, value + half, COVERAGE)


def _asked(desk: Desk, questions: Iterable[str | Mapping[str, Any] | Question]) -> list[Question]:
    parsed = [desk.parse(question) for question in questions]
    if not 1 <= len(parsed) <= MOST_TOGETHER:
        raise UsageError(
            f"Between 1 and {MOST_TOGETHER:,} questions are asked together.",
            remedy="Ask them in several batches.",
        )
    if any(want != Want() for _, want in parsed):
        raise UsageError(
            "Questions that are asked together share one epsilon and have no clip of their own.",
            remedy="Leave `want` and `clip` out, or ask them one by one.",
        )
    if len({question.measure for question, _ in parsed}) > 1:
        raise UsageError(
            "Questions that are asked together count the same.",
            remedy="Ask visits and unique_people in two batches.",
        )
    return [question for question, _ in parsed]
