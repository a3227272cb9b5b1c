"""What a desk gives back, and what every way of asking it shares: who asks, on whose budget.

A claim's name is made of everything that decides its noise and its answer, so that the ledger
finds the same question again in the transaction that would reserve it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sfumato import __version__
from sfumato.errors import BudgetRefused
from sfumato.privacy.events import USER_PERIOD, GaussianEvent, PrivacyEvent
from sfumato.privacy.ledger import Claim, Ledger, Status
from sfumato.privacy.ledger.chain import digest
from sfumato.privacy.ledger.limits import Replan
from sfumato.privacy.ledger.totals import Spend
from sfumato.published.estimate import Estimate
from sfumato.queries.pricing import Price
from sfumato.queries.question import Frame, Question
from sfumato.queries.routing import Known


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered: the number with its interval, where it comes from, what it cost."""

    question: Question
    told: str
    """The question in words."""
    estimate: Estimate
    how: str
    """`new`, `resumed` (a killed run was finished), `stored`, `release`, or `dummy`."""
    spend: Spend | None = None
    """What was charged for it now; None for what was free."""
    clip: int | None = None
    """The most that one person counts; None in sums of other answers, and where all visits do."""
    sources: tuple[str, ...] = ()
    """Ids of the stored answers and the name of the release that it is made of."""

    @property
    def value(self) -> float:
        return self.estimate.value

    def numbers(self) -> dict[str, Any]:
        """As JSON shows it."""
        shown = self.estimate
        return {
            "question": self.told,
            "value": shown.value,
            "lower": shown.lower,
            "upper": shown.upper,
            "coverage": shown.coverage,
            "how": self.how,
            "dummy": self.how == "dummy",
            "epsilon": None if self.spend is None else self.spend.epsilon,
            "delta": None if self.spend is None else self.spend.delta,
            "rho": None if self.spend is None else self.spend.rho,
            "clip": self.clip,
            "sources": list(self.sources),
        }

    def __str__(self) -> str:
        if self.how == "dummy":
            return f"DUMMY, from made-up people: {self.estimate}"
        return str(self.estimate)


@dataclass(frozen=True, slots=True)
class QuestionPlan:
    """What a question would cost, and how wide its answer would be. Nothing was read or spent."""

    question: Question
    told: str
    known: Known | None
    """What is known already."""
    price: Price | None
    """What would be measured; None where what is known suffices."""
    refusal: BudgetRefused | None = None
    """Why the ledger would refuse it, if it would."""
    clip: int = 1
    """The most that one person counts in it."""
    clipped: bool = False
    """Whether the question itself names it."""

    @property
    def free(self) -> bool:
        return self.price is None

    @property
    def plus_minus(self) -> float:
        """90 % half-width of the answer, as far as it is known beforehand."""
        if self.price is not None:
            return self.price.plus_minus
        assert self.known is not None
        return self.known.plus_minus


class QuestionSession(Protocol):
    """Questions one after the other that were all paid for when it opened."""

    @property
    def updates_left(self) -> int:
        """How often the data may still be asked."""

    def ask(self, question: str | Mapping[str, Any] | Question) -> Answer:
        """Answer a question of visits."""

    def close(self) -> None:
        """End it: nothing more is spent on it."""


@dataclass(eq=False)
class Asking:
    """Who asks about which frame on whose budget: what every way of asking shares."""

    frame: Frame
    dataset: str
    ledger: Ledger
    delta: float
    places: str
    """Fingerprint of the places that are counted, outlines and dates included. Zones that only
    name them have no part in it: a question is about the places, however they are called."""
    analyst: str | None = None
    edition: str = ""
    code: Mapping[str, str] = field(default_factory=dict)
    """Of others, by which it is asked (`Offer.provenance`): a reservation binds it, so that no
    other code finishes what this one began."""

    def claim(
        self,
        kind: str,
        questions: Sequence[Question],
        events: Mapping[str, PrivacyEvent],
        config: Mapping[str, Any],
        fingerprint: str,
        name: str | None = None,
        whole: bool = False,
    ) -> Claim:
        """What the ledger is asked to set aside, under a name that is made of all but the code.

        `whole` where slots outside of the questions are measured, too.
        """
        edges = self.frame.grid.edges
        first = 0 if whole else min(question.slots[0] for question in questions)
        last = edges.size - 2 if whole else max(question.slots[-1] for question in questions)
        bound = {
            "kind": kind,
            "frame": self.frame.fingerprint,
            "places": self.places,
            "edition": self.edition,
            **config,
        }
        planned = [[label, repr(event)] for label, event in events.items()]
        marks = [bound, fingerprint, planned, self.delta]
        return Claim(
            dataset=self.dataset,
            name=f"{kind} {digest(marks)[:32]}" if name is None else name,
            unit=USER_PERIOD,
            delta=self.delta,
            period=(int(edges[first]), int(edges[last + 1])),
            events=tuple(events.items()),
            config={"sfumato": __version__, **bound, **({"code": self.code} if self.code else {})},
            fingerprint=fingerprint,
            out="",
            sums=tuple(
                label for label, event in events.items() if isinstance(event, GaussianEvent)
            ),
            analyst=self.analyst,
        )

    def refused(
        self,
        kind: str,
        questions: Sequence[Question],
        events: Mapping[str, PrivacyEvent],
        config: Mapping[str, Any],
        replan: Replan | None = None,
        whole: bool = False,
    ) -> BudgetRefused | None:
        """Why the ledger would refuse this, from question and ledger alone.

        What was begun or answered is paid for: it is refused only if that turns out to have been
        on other data.
        """
        book = self.ledger.book()
        claim = self.claim(kind, questions, events, config, "", whole=whole)
        known = set(book.keyed)
        if kind != "question":  # stored answers to single questions were looked for before
            known |= {of for (_, name), of in book.named.items() if name.startswith(f"{kind} ")}
        for row in (book.charges[release] for release in known):
            paid = row.status is not Status.ABANDONED and row.claim.dataset == self.dataset
            same = replace(claim, fingerprint=row.claim.fingerprint)
            if paid and not row.differences(same):
                return None
        try:
            self.ledger.require_room(claim, replan)
        except BudgetRefused as refusal:
            return refusal
        return None
