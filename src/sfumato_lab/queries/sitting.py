"""`Sitting`: a session of private multiplicative weights whose every turn stands in the ledger.

`queries.online` says what a session is and proves what it costs. Here it survives kills and is
shared by processes: all of its budget is reserved when it opens; a turn is noted with its question
before anything is drawn for it, and with its answer before that is shown; one process at a time
holds the session's key. A turn that was begun and not finished is finished first, with the same
noise, by whoever asks next: no number meets two questions.

The threshold's noise lasts for the whole session, so the input must be the same all along: its
fingerprint is checked at every turn that reads it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InputError, ReservationRefused, UsageError
from sfumato.model.masks import Masks, Measure
from sfumato.privacy.ledger import Charge, Reservation, Status
from sfumato.privacy.wall import Wall
from sfumato.published.estimate import Estimate
from sfumato.queries.answers import Answer, Asking
from sfumato.queries.pricing import COVERAGE
from sfumato.queries.question import Question, Want
from sfumato.queries.workload import Table, Workload
from sfumato_lab.queries.online import Session, Terms, Turn, begun, corrected, plan_session

if TYPE_CHECKING:
    from sfumato.queries.desk import Desk

CLIP, UPDATES = 24, 20
"""Of a session where nothing is said: a day of hours, and as many corrections as the study uses."""
_PATIENCE_S = 120.0


@dataclass(eq=False)
class Sitting:
    """An open session of a desk: `ask` it, `close` it when no more is to be spent on it."""

    desk: Desk
    terms: Terms
    charge: str
    """Id of its reservation."""
    fingerprint: str
    """Of the input that it was opened on."""
    reservation: Reservation | None = None
    """None once it is closed."""

    @property
    def turns(self) -> list[Turn]:
        """Every question that was answered, by whichever process."""
        return self._read(self._row())[0]

    @property
    def updates_left(self) -> int:
        """How many corrections are still paid for."""
        return self.terms.updates - sum(turn.updated for turn in self.turns)

    def ask(self, question: str | Mapping[str, Any] | Question) -> Answer:
        """Answer a question of visits: by the hypothesis if that is near enough, else measured.

        Args:
            question: In its closed form, without `want`.

        Returns:
            The answer; it has an interval only where it was measured.

        Raises:
            UsageError: It is not of that form.
            InputError: The events changed since the session was opened.
        """
        asked, want = self.desk.parse(question)
        if want != Want() or asked.measure is not Measure.VISITS:
            raise UsageError(
                "A session answers visits, and how exactly was settled when it opened.",
                remedy="Leave `want` and `clip` out, and ask for visits.",
            )
        told = self.desk.frame.told(asked)
        with self._held() as open_:
            turn = self._next(asked) if open_ else None
            if open_ and self.updates_left == 0:  # nothing will be drawn any more
                self._end()
        if turn is not None:
            return self._told(turn, asked, told)
        return Answer(asked, told, Estimate(self._guess(self.turns, asked)), "session")

    def close(self) -> None:
        """End it: its key is destroyed, and from here on the hypothesis answers."""
        with self._held() as open_:
            if open_:
                self._end()

    def _end(self) -> None:
        self.desk.asking.ledger.commit(self.charge, {}, answer={"turns": len(self.turns)})

    def _next(self, asked: Question) -> Turn | None:
        """The turn of a question, answered; None where all updates are used up."""
        turns, pending = self._read(self._row())
        if pending is not None:  # begun by a process that was killed
            turns.append(self._answered(turns, pending))
            if pending == asked:
                return turns[-1]
        if sum(turn.updated for turn in turns) >= self.terms.updates:
            return None
        self._note({"turn": len(turns) + 1, "question": asked.stated()}, 2 * len(turns))
        return self._answered(turns, asked)

    def _told(self, turn: Turn, asked: Question, told: str) -> Answer:
        half = turn.plus_minus
        shown = (
            Estimate(turn.answer)
            if half is None
            else Estimate(turn.answer, turn.answer - half, turn.answer + half, COVERAGE)
        )
        clip = self.terms.clip if turn.updated else None
        return Answer(asked, told, shown, "session", None, clip, (self.charge,))

    def _guess(self, turns: list[Turn], asked: Question) -> float:
        start = begun(opening_table(self.desk))
        table = corrected(start, [turn for turn in turns if turn.updated])
        rows = Workload.of((self.desk.frame.places, self.desk.frame.slots), [asked])
        return float(table.answers(rows)[0])

    def _answered(self, turns: list[Turn], asked: Question) -> Turn:
        """Draw for a question that is noted, and note its answer."""
        assert self.reservation is not None
        # Every turn stands on the same reservation; the session counts what it has used of it.
        paid = replace(self.reservation, _taken=set())
        wall = Wall(paid, paid.key)
        session = Session(self.terms, opening_table(self.desk), wall, turns[:], bound=True)
        frame = self.desk.frame
        masks = Masks.of(frame.places, frame.slots, [(asked.places, asked.slots)])
        turn = session.ask(
            asked,
            lambda: self.desk.source().answers(masks, Measure.VISITS, self.terms.clip),
        )
        if self.desk.fingerprint() != self.fingerprint:
            raise InputError(
                "The events are not those that the session was opened on, so nothing was answered.",
                remedy="Put them back, or close the session and open another, at a new charge.",
            )
        answer = {"turn": turn.number, "answer": turn.answer, "updated": turn.updated}
        self._note(answer, 2 * len(turns) + 1)
        return turn

    def _note(self, content: Mapping[str, Any], after: int) -> None:
        """Write it down after the notes that were read, if nobody wrote another meanwhile.

        The lock keeps processes of one machine apart. Where the key was copied to a second one,
        this does: whoever comes second has drawn nothing yet, or nothing that is shown.
        """
        self.desk.asking.ledger.note(self.charge, content, expected=after)

    def _row(self) -> Charge:
        return self.desk.asking.ledger.book().charges[self.charge]

    def _read(self, row: Charge) -> tuple[list[Turn], Question | None]:
        """Turns that were answered, and the question of one that was not."""
        turns: list[Turn] = []
        pending: Question | None = None
        for note in row.notes:
            if "question" in note:
                pending = self.desk.frame.stored(note["question"])
                continue
            assert pending is not None
            updated = bool(note["updated"])
            half = self.terms.plus_minus if updated else None
            turns.append(Turn(int(note["turn"]), pending, float(note["answer"]), updated, half))
            pending = None
        return turns, pending

    @contextmanager
    def _held(self) -> Iterator[bool]:
        """The session, for this process alone; others wait. Whether it is open still."""
        until = time.monotonic() + _PATIENCE_S
        with ExitStack() as held:
            while self._row().status is Status.RESERVED:
                try:
                    held.enter_context(self.desk.asking.ledger.keyring.hold(self.charge))
                    break
                except ReservationRefused:
                    if time.monotonic() > until:
                        raise
                time.sleep(0.05)
            yield self._row().status is Status.RESERVED


def opening_table(desk: Desk) -> Table:
    """The table that a session begins with: the release's."""
    found = desk.released_table()
    if found is None:
        raise UsageError(
            "A session begins with a release of the same places and the whole period.",
            remedy="Open the desk with `release`.",
        )
    return np.asarray(found)


def open_sitting(
    desk: Desk,
    asking: Asking,
    name: str,
    *,
    epsilon: float,
    clip: int | None = None,
    updates: int | None = None,
    threshold: int | None = None,
) -> Sitting:
    """Open a session, or find the one of this name; see `Desk.session`."""
    opening_table(desk)
    clip, updates = CLIP if clip is None else clip, UPDATES if updates is None else updates
    terms = plan_session(epsilon=epsilon, clip=clip, updates=updates, threshold=threshold)
    frame = desk.frame
    everything = frame.question(Measure.VISITS, range(frame.places), range(frame.slots))
    if desk.dummy:
        raise UsageError("Made-up people have no sessions.", remedy="Ask single questions.")
    if not name.strip() or len(name) > 100 or not name.isprintable():
        raise UsageError("A session has a printable name of at most 100 letters.")
    config = {
        "clip": terms.clip,
        "threshold": terms.threshold,
        "updates": terms.updates,
        "scales": [str(terms.threshold_scale), str(terms.query_scale), str(terms.update_scale)],
        "start": desk.released_name(),
    }
    called = f"session {name}"
    if asking.ledger.book().find(asking.dataset, called) is None:
        refusal = asking.refused("session", [everything], terms.events, {})
        if refusal is not None:
            raise refusal
    claim = asking.claim(
        "session", [everything], terms.events, config, desk.fingerprint(), name=called
    )
    found = asking.ledger.reserve(claim)
    if isinstance(found, Charge):
        return Sitting(desk, terms, found.id, claim.fingerprint)
    return Sitting(desk, terms, found.id, claim.fingerprint, found)
