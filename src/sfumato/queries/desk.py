"""`Desk`: questions to the data, each answered from what is known or measured and charged.

    with sfumato.Desk("events.parquet", zones="zones.geojson", start="2007-09-10",
                      end="2007-09-17", tz="Europe/Paris", dataset="metro subscribers",
                      delta=1e-7, analyst="transport") as desk:
        desk.ask({"measure": "unique_people", "zones": ["Z00003"], "hours": "8-10",
                  "want": {"plus_minus": 50}})

*Routing.* A question is first held against stored answers, whoever asked for them, and against a
release (`queries.routing`). If their interval is as narrow as wanted, that is the answer, and it is
free. Otherwise the question is measured, charged, and stored. Which of the two happens is decided
by the question, the ledger and the release; the data is opened only after the budget allows it.

*Noise* comes from a fresh key of the reservation, which binds the canonical question, the clip, the
mechanism and its scale, and the keyed fingerprint of the input. The same again, in whatever words,
finds the reservation or the answer under its name, in the transaction that would reserve: one draw,
one price. Another scale or other data is another reservation with independent noise and a price of
its own. (Noise that is a function of the question alone would give the truth away: one draw at two
scales is two equations with two unknowns.) Overlapping questions have independent noise and pay in
full: averaging is limited by the cap.

*Claim.* Unit: a user's whole record; neighbours add or remove one. Every measurement is charged
before it is drawn (`Price.measure`, `run_batch`, and what others offer); the ledger's filter lets
questions be chosen in the light of all answers before, by all analysts together, who may collude:
one cap for the data set, and inside it an allowance for each.

All state is in the ledger: reservations, answers, turns. Any number of processes may ask at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.local import DropLog
from sfumato.engine.open import engine_of, opened_source
from sfumato.errors import UsageError
from sfumato.geography.places import PlaceOptions
from sfumato.io.beforehand import require_possible
from sfumato.model.arguments import checked
from sfumato.model.extensions import offered
from sfumato.model.places import Places
from sfumato.model.source import Progress, Source
from sfumato.model.time_grid import period_of
from sfumato.privacy.events import PrivacyEvent
from sfumato.privacy.ledger import Ledger, Reservation
from sfumato.privacy.transaction import answer as answered
from sfumato.privacy.wall import Wall
from sfumato.published.estimate import Estimate
from sfumato.published.release import Release
from sfumato.queries.answers import Answer, Asking, QuestionPlan, QuestionSession
from sfumato.queries.batch import VISITS
from sfumato.queries.pricing import FINE, LABEL, Mechanism, Price, clip_of, mechanism_of, price
from sfumato.queries.question import Frame, Question, Want, parse_question
from sfumato.queries.routing import Cube, Known, Stored, known
from sfumato.queries.store import Store, cube_of, dummy_events
from sfumato.queries.together import answer_together

_ROOM = 1 + 1e-9
"""Drawn noise is wider than asked for by the rounding of its scale, 2^-41 of it."""


class Desk:
    """Answers questions about one data set, its places and its period."""

    @checked
    def __init__(
        self,
        events: object = None,
        *,
        dataset: str = "",
        start: date | str,
        end: date | str,
        tz: str,
        slot: str = "1h",
        delta: float = 0.0,
        mechanism: Mechanism | str = Mechanism.GAUSSIAN,
        towers: object = None,
        zones: object = None,
        grid: str | None = None,
        region: object = None,
        zone_id: str | None = None,
        zone_name: str | None = None,
        layer: str | None = None,
        repair_zones: bool = False,
        drop_bad_towers: bool = False,
        release: Release | str | os.PathLike[str] | None = None,
        analyst: str | None = None,
        edition: str = "",
        dummy: bool = False,
        column: Mapping[str, str] | None = None,
        format: str | None = None,
        time_unit: str | None = None,
        events_tz: str | None = None,
        engine: str | None = None,
        master: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        internal: Callable[[DropLog], None] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Open a desk; events are not looked at before a question has to be measured.

        Args:
            events: Files, a folder, a table; as `sfumato.release` takes them.
            dataset: Whose people these are, as the ledger knows them.
            start: First day, such as 2007-09-10: a public choice, never read from the data.
            end: First day that is no longer part of it.
            tz: Time zone of days and slots.
            slot: Length of a time slot: 15min, 1h, 1d.
            delta: Of one question; well below one over the number of people.
            mechanism: Noise of a question: gaussian, or laplace, which is pure.
            towers: Towers that the events name.
            zones: Zones that questions name. With towers: those that stand in a zone are meant.
            grid: Cells instead of zones: 500m, h3:8.
            region: What the grid covers.
            zone_id: Column of the zones' ids.
            zone_name: Column of the zones' names.
            layer: Layer of the zones' or the region's file.
            repair_zones: Make crossing outlines valid.
            drop_bad_towers: Leave out towers without a usable position.
            release: A release about the same places, whose sums are free.
            analyst: Who asks; an allowance in the ledger bounds what each may spend.
            edition: A word for the state of the data: answers stored under another one are not
                used. Give a new one when records were corrected or came late.
            dummy: Answer from made-up people: no events are read, nothing is charged or stored,
                and every answer says so.
            column: Which column is what: `{"user": "imsi", "time": "ts"}`.
            format: Format of the events where their names do not tell.
            time_unit: Unit of epoch numbers: s, ms, us or ns.
            events_tz: Clock of event times that carry no offset; default: `tz`.
            engine: Where to count: local (default) or spark.
            master: Spark's master, for a session of its own.
            spark_conf: Settings of that session.
            ledger: The ledger, its file or address; default: a file in your data folder.
            internal: Told, before anything is reserved, how many rows were read and why some do
                not count: for the holder's eyes only.
            progress: Told the stage and its share.

        Raises:
            UsageError: What is asked for does not go together.
            InputError: A file of places, or the release, cannot be read.

        Example:
            >>> desk = sfumato.Desk(                                        # doctest: +SKIP
            ...     "events.parquet", towers="towers.csv", start="2007-09-10", end="2007-09-17",
            ...     tz="Europe/Paris", dataset="metro subscribers", delta=1e-7,
            ... )
        """
        if not dummy:
            engine_of(events, engine, master, spark_conf)
            if events is None or not dataset:
                raise UsageError(
                    "A desk needs events and whose people they are.",
                    remedy="Give `events` and `dataset`, or `dummy=True` for made-up people.",
                )
        slots = period_of(start, end, slot, tz)
        said = PlaceOptions(
            towers,
            zones,
            grid,
            region,
            zone_id,
            zone_name,
            layer,
            repair_zones,
            drop_bad_towers,
            None,
            column,
        )
        require_possible(
            events,
            format,
            column,
            zones=towers is None,
            period=slots.period,
            clock=events_tz,
        )
        counted, named = _places(said, tz)
        self.frame = Frame.of(counted, slots, named)
        self.mechanism = mechanism_of(mechanism)
        self.dummy = dummy
        book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        places = counted.fingerprint()
        self.asking = Asking(self.frame, dataset, book, float(delta), places, analyst, edition)
        if not dummy:
            book.require_dataset(dataset)
        self._store = Store(self.frame, places, dataset, edition)
        self._cube = None if release is None else cube_of(release, self.frame, dataset)
        self._internal, self._counted = internal, counted
        self._opening: dict[str, Any] = {
            "engine": engine,
            "master": master,
            "spark": spark_conf,
            "columns": column,
            "tz": events_tz or tz,
            "format": format,
            "time_unit": time_unit,
            "progress": progress,
        }
        self._events, self._held = events, ExitStack()
        self._source: Any = None
        self._read_as: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the events."""
        self._held.close()
        self._source = self._read_as = None

    def __repr__(self) -> str:
        who = "made-up people" if self.dummy else repr(self.asking.dataset)
        return f"<Desk of {who}: {self.frame.places:,} places, {self.frame.slots:,} slots>"

    @property
    def cube(self) -> Cube | None:
        """The release that sums are answered from, if there is one."""
        return self._cube

    def source(self) -> Source:
        """The events, opened when they are first needed."""
        if self._source is None:
            made = dummy_events(self._counted, self.frame.grid) if self.dummy else self._events
            opening = {"tz": "UTC"} if self.dummy else self._opening
            opened = opened_source(made, self._counted, self.frame.grid, **opening)
            self._source = self._held.enter_context(opened)
        found: Source = self._source
        return found

    def fingerprint(self) -> str:
        """What the input is called in the ledger: keyed, and of every byte of it.

        Rows are kept in memory between questions. Those that were read under another name are
        forgotten here, so that what is counted is always what the name stands for.
        """
        key = self.asking.ledger.fingerprint_key()
        now = self.source().fingerprint(key)
        if self._read_as not in (None, now):
            self.close()
            now = self.source().fingerprint(key)
        if self._read_as is None and self._internal is not None:
            self._internal(self._source.drops)
        self._read_as = now
        return now

    def parse(self, question: str | Mapping[str, Any] | Question) -> tuple[Question, Want]:
        """A question in its closed form, as text or mapping (`queries.question`)."""
        return parse_question(question, self.frame)

    def known(
        self, question: Question, clip: int, fingerprint: str | None = None, clipped: bool = False
    ) -> Known | None:
        """What stored answers and the release say; of the newest data, or of this fingerprint."""
        stored: Sequence[Stored] = ()
        if not self.dummy:
            stored = self._store.answers(self.asking.ledger.book(), fingerprint)
        return known(question, clip, stored, self._cube, clipped)

    def plan(self, question: str | Mapping[str, Any] | Question) -> QuestionPlan:
        """What a question would cost and how wide its answer would be, before anything is read.

        Args:
            question: In its closed form.

        Returns:
            What is known already, and what would be measured where that does not suffice.

        Raises:
            UsageError: The question is not of that form, or what is wanted cannot be had.
            InputError: There is no such place or time.
        """
        asked, want = self.parse(question)
        told = self.frame.told(asked)
        clip, clipped = clip_of(asked, want), want.clip is not None
        found = self.known(asked, clip, clipped=clipped)
        if found is not None and want.epsilon is None and want.plus_minus is None:
            return QuestionPlan(asked, told, found, None, clip=clip)
        cost = price(asked, want, delta=self.asking.delta, mechanism=self.mechanism)
        if found is not None and found.plus_minus <= cost.plus_minus * _ROOM:
            return QuestionPlan(asked, told, found, None, clip=clip)
        if self.dummy:
            return QuestionPlan(asked, told, found, cost, clip=clip)

        def at(epsilon: float) -> list[PrivacyEvent]:
            less = replace(want, plus_minus=None, epsilon=epsilon)
            return [price(asked, less, delta=self.asking.delta, mechanism=self.mechanism).event]

        refusal = self.asking.refused("question", [asked], {LABEL: cost.event}, cost.settings, at)
        return QuestionPlan(asked, told, found, cost, refusal, clip, clipped)

    def ask(self, question: str | Mapping[str, Any] | Question) -> Answer:
        """Answer a question: for nothing where what is known suffices, else measured and charged.

        Args:
            question: In its closed form, as JSON or a mapping.

        Returns:
            The answer with its interval. A measured one is combined with what was known before.

        Raises:
            UsageError: The question is not of that form, or what is wanted cannot be had.
            InputError: There is no such place or time, or the events cannot be read.
            BudgetRefused: It would pass the cap, or the analyst's allowance.
        """
        plan = self.plan(question)
        if plan.price is None:
            assert plan.known is not None
            return self._free(plan, plan.known)
        if plan.refusal is not None:
            raise plan.refusal  # before the data is opened: it has no part in a refusal
        cost = plan.price
        if self.dummy:
            made = cost.measure(self.source(), self.frame, Wall.seeded(self.dummy_seed()))
            return Answer(
                plan.question, plan.told, _interval(cost, made.values), "dummy", clip=cost.clip
            )
        fingerprint = self.fingerprint()
        claim = self.asking.claim(
            "question", [plan.question], {LABEL: cost.event}, cost.settings, fingerprint
        )

        def draw(reservation: Reservation) -> dict[str, Any]:
            wall = Wall(reservation, reservation.key)
            made = cost.measure(self.source(), self.frame, wall)
            return {"noisy": int(made.values.ravel()[0]), "units": made.units_per_count}

        _, how = answered(self.asking.ledger, claim, self.fingerprint, draw)
        found = self.known(plan.question, cost.clip, fingerprint, plan.clipped)
        assert found is not None
        spend = None if how == "already" else cost.spend
        how = "stored" if how == "already" else how
        return Answer(
            plan.question, plan.told, found.estimate, how, spend, found.clip, _sources(found)
        )

    def together(
        self,
        questions: Iterable[str | Mapping[str, Any] | Question],
        *,
        epsilon: float,
        method: str = "batch",
        visits: float = VISITS,
        rounds: int | None = None,
    ) -> list[Answer]:
        """Answer many questions on one budget, in one pass.

        Args:
            questions: In their closed form, without `want`; all of one measure.
            epsilon: Of all of them together, at the desk's delta.
            method: `batch`, with intervals; or one to compare with: `mwem`, a fitted table,
                without.
            visits: Batch: visits of a busy person, who shall be counted whole. A public guess.
            rounds: MWEM: how many questions are chosen and measured; 30 if not given.

        Returns:
            The answers, in the order of the questions; `spend` of each is that of all.

        Raises:
            UsageError: The questions do not go together, or a number is out of range.
            BudgetRefused: They would pass the cap, or the analyst's allowance.
        """
        return answer_together(
            self, questions, epsilon=epsilon, method=method, visits=visits, rounds=rounds
        )

    def session(
        self,
        name: str,
        *,
        epsilon: float,
        clip: int | None = None,
        updates: int | None = None,
        threshold: int | None = None,
    ) -> QuestionSession:
        """Open a session of private multiplicative weights, or find the one of this name.

        All of its budget is reserved at once. The release's table answers as long as it is near
        enough; where it is not, the question is measured and the table corrected, at most
        `updates` times (`sfumato_lab.queries.online`). It is there to compare with: a release
        for all of epsilon answers ranges better.

        Args:
            name: Of the session; the same again, in any process, goes on with it.
            epsilon: Of the whole session, pure.
            clip: The most visits that one person counts in one question; 24 if not given.
            updates: How often the table may be corrected; 20 if not given.
            threshold: How far it may be off, in visits; six scales of the tests' noise if not
                given.

        Returns:
            The session; `ask` it.

        Raises:
            UsageError: There is no release to begin with, or a number is out of range.
            BudgetRefused: It would pass the cap, or the analyst's allowance.
        """
        offer = offered("question session", "multiplicative-weights")
        asking = replace(self.asking, code=offer.provenance())
        opened: QuestionSession = offer.load()(
            self, asking, name, epsilon=epsilon, clip=clip, updates=updates, threshold=threshold
        )
        return opened

    def released_table(self) -> NDArray[np.float64] | None:
        """The release's counts of the whole frame, where it has all of it."""
        return None if self._cube is None else self._cube.table()

    def released_name(self) -> str:
        """The release's id, under which what begins with it is bound to it."""
        return "" if self._cube is None else self._cube.id

    def dummy_seed(self) -> int:
        """Of noise that means nothing."""
        return int.from_bytes(os.urandom(6), "little")

    def _free(self, plan: QuestionPlan, found: Known) -> Answer:
        how = "stored" if found.stored else "release"
        for release in found.stored:
            self.asking.ledger.finish(release)
        return Answer(
            plan.question, plan.told, found.estimate, how, None, found.clip, _sources(found)
        )


def _sources(found: Known) -> tuple[str, ...]:
    return (*found.stored, *(() if found.release is None else (found.release,)))


def _interval(cost: Price, values: Any) -> Estimate:
    value = int(np.asarray(values).ravel()[0]) / FINE
    half = cost.plus_minus
    return Estimate(value, value - half, value + half, 0.9)


def _places(said: PlaceOptions, tz: str) -> tuple[Places, Places | None]:
    """What is counted, and the zones that only name towers."""
    towers, areas = said.read(tz)
    if towers is not None:
        return towers, areas
    if areas is None:
        raise UsageError(
            "No places are given.",
            remedy="Give `towers`, `zones`, or `grid` with `region`.",
        )
    return areas, None
