"""Desks under audit: the same questions put to neighbouring crowds, to the finished answer.

A desk is asked as an analyst asks it: events, engine, clip, routing, ledger, wall, answer. Two
things are exchanged. Keys of reservations come from the audit's seed, so that a table can be made
again. And the wall is one that keeps its transcript (`StreamListener`), so that a conversation can
be replayed on the neighbour with the very same answers. Then must be the same: every answer with
its interval and where it comes from, every refusal, and every row that the ledger holds but for
the names and fingerprints that are made of the input. What still differs behind the wall is what
one person moved, and is held against the sensitivity that the *ledger* was charged for.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from sfumato.audits.pairs import Stage, TablePair
from sfumato.audits.pipeline import REFUSED, output_row, parts_of, release_key
from sfumato.audits.run import EpsilonClaim, Row, SensitivityClaim, Subject, claims_of
from sfumato.audits.statistics import EVERYTHING, best_of, discriminant, projection
from sfumato.audits.streams import (
    PlayedStream,
    Questions,
    StreamListener,
    apart,
    loss_between,
    moved_by,
)
from sfumato.errors import BudgetRefused, SfumatoError, UsageError
from sfumato.model.counts import WeightBound
from sfumato.privacy.accounting import total_epsilon
from sfumato.privacy.events import PrivacyEvent
from sfumato.privacy.ledger import Cap, Ledger, chain
from sfumato.queries import desk as desks
from sfumato.queries import together
from sfumato.queries.answers import Answer
from sfumato.queries.desk import Desk
from sfumato.queries.routing import Cube
from sfumato_lab.queries import sitting

PEOPLE = "made-up neighbours"
DELTA = 1e-6
STAGE = Stage.for_bound(WeightBound(3))
"""Three towers, one day of 24 hours."""
RELEASED = np.full((len(STAGE.places), STAGE.grid.slots), 4.0)
"""The published table that sessions begin with: public, and the same for both neighbours."""
_IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""An audit's ledger need not outlive a power cut: nothing waits for a disk."""
Conversation = Callable[[Desk], Sequence[Answer]]
DAY: dict[str, Any] = {"measure": "visits", "zones": ["north", "south"]}
EVERYBODY: dict[str, Any] = {"measure": "unique_people", "zones": ["north", "south"]}
HOURS = [{"measure": "visits", "zones": [z], "hours": h} for z in ("north", "west")
         for h in ("0-6", "3-9", "0-24")]  # fmt: skip


class _Table:
    """As much of a release as a session begins with."""

    counts = RELEASED


def single(question: Mapping[str, Any], **want: float) -> Conversation:
    return lambda desk: [desk.ask({**question, "want": want})]


def batch(desk: Desk) -> Sequence[Answer]:
    return desk.together(HOURS, epsilon=4.0, visits=4)


def mwem(desk: Desk) -> Sequence[Answer]:
    return desk.together(HOURS, epsilon=4.0, method="mwem", rounds=3)


def batch_of_people(desk: Desk) -> Sequence[Answer]:
    people = [{**question, "measure": "unique_people"} for question in HOURS]
    return desk.together(people, epsilon=4.0, visits=4)


def batch_of_ranges(desk: Desk) -> Sequence[Answer]:
    """So many that they are made of measured runs of hours, group by group."""
    ends = [(a, b) for a in range(0, 24, 3) for b in range(a + 3, 25, 3)]
    ranges = [{"measure": "visits", "zones": ["north"], "hours": f"{a}-{b}"} for a, b in ends]
    return desk.together(ranges, epsilon=4.0, visits=2)


def released(desk: Desk) -> None:
    desk._cube = Cube(_Table(), np.arange(desk.frame.slots), "week", "id")  # type: ignore[arg-type]


def mwem_from_release(desk: Desk) -> Sequence[Answer]:
    released(desk)
    return mwem(desk)


def session(desk: Desk) -> Sequence[Answer]:
    """Several turns, each on a wall of its own; after the last update the hypothesis answers."""
    released(desk)
    found = desk.session("study", epsilon=4.0, clip=3, updates=2, threshold=9)
    return [found.ask(question) for question in [*HOURS, *HOURS[:2]]]


def adaptive(desk: Desk) -> Sequence[Answer]:
    """Wide, in other words, narrower, a half, the other half, what is too dear, and more of it."""
    first = desk.ask({**DAY, "want": {"plus_minus": 60}})
    again = desk.ask({**DAY, "zones": ["south", "north", "south"], "want": {"plus_minus": 60}})
    near = desk.ask({**DAY, "want": {"plus_minus": 40}})
    half = desk.ask({**DAY, "zones": ["north"], "want": {"plus_minus": 30}})
    rest = desk.ask({**DAY, "zones": ["south"]})
    with contextlib.suppress(BudgetRefused):
        desk.ask({**EVERYBODY, "want": {"epsilon": 1e6}})
    where = {"zones": ["north" if first.value > near.value else "south"]}
    last = desk.ask({**EVERYBODY, **where, "want": {"epsilon": 0.5}})
    return [first, again, near, half, rest, last]


@dataclass(frozen=True, slots=True)
class Case:
    """Questions, the desk that they are put to, and whether their loss is pure."""

    name: str
    ask: Conversation
    options: Mapping[str, Any]
    pure: bool = False
    runs: int = 2_000
    """Of the whole audit; none where exact rows tell all that runs could."""


LAPLACE = {"mechanism": "laplace", "delta": 0.0}
CLIPPED = {**DAY, "clip": 3}
CASES = (
    Case("visits, clipped at 3, gaussian", single(CLIPPED, epsilon=4.0), {}),
    Case("visits, clipped at 3, laplace", single(CLIPPED, epsilon=2.0), LAPLACE, True),
    Case("visits, clipped at the slots", single(DAY, plus_minus=20), {}),
    Case("people, gaussian", single(EVERYBODY, epsilon=4.0), {}),
    Case("people, laplace", single(EVERYBODY, epsilon=2.0), LAPLACE, True),
    Case("a batch", batch, {}),
    Case("a batch of people", batch_of_people, {}, runs=0),
    Case("a batch of ranges", batch_of_ranges, {}, runs=0),
    Case("MWEM", mwem, {}, runs=600),
    Case("MWEM from a release", mwem_from_release, {}, runs=0),
    Case("a session", session, {"delta": 0.0}, True, runs=600),
    Case("one after the other", adaptive, {}, runs=600),
)


class Ear:
    """Makes the walls of a desk, one that listens for each reservation or turn."""

    def __init__(self, earlier: Sequence[StreamListener] | None = None) -> None:
        self._earlier, self.walls = earlier, list[StreamListener]()

    def __call__(self, charger: Any, key: bytes) -> StreamListener:
        before = None
        if self._earlier is not None:
            if len(self.walls) >= len(self._earlier):
                raise UsageError("More is measured on a neighbouring input.")
            heard = self._earlier[len(self.walls)]
            before = PlayedStream(heard.steps, {}, None, heard.runs)
        self.walls.append(StreamListener(charger, key, before))
        return self.walls[-1]


@contextlib.contextmanager
def stage(seed: int, ear: Ear | None = None) -> Iterator[Ledger]:
    """A ledger of its own, with keys from the seed."""
    numbers = count()
    secrets = SimpleNamespace(token_bytes=lambda _: release_key(seed, next(numbers)))
    with contextlib.ExitStack() as held:
        near = tempfile.TemporaryDirectory(prefix="sfumato-audit-", dir=_IN_MEMORY)
        home = held.enter_context(near)
        if ear is not None:
            for module, wall in ((desks, "Wall"), (together, "HearingWall"), (sitting, "Wall")):
                held.enter_context(mock.patch.object(module, wall, ear))
        ledger = Ledger(Path(home) / "ledger.sqlite")
        ledger.initialise()
        ledger.add_dataset(PEOPLE, Cap(epsilon=1e5, delta=0.1))
        held.enter_context(mock.patch.object(chain, "secrets", secrets))
        yield ledger


def opened(events: object, ledger: Ledger, options: Mapping[str, Any]) -> Desk:
    given: dict[str, Any] = {"start": "2024-01-15", "end": "2024-01-16", "tz": "UTC"}
    given |= {"towers": STAGE.places, "dataset": PEOPLE, "delta": DELTA, "ledger": ledger}
    return Desk(events, **given | options)


def played(
    case: Case, events: object, seed: int, earlier: Sequence[StreamListener] | None = None
) -> tuple[PlayedStream, list[StreamListener], dict[str, PrivacyEvent]]:
    """Ask to the end, or replay with the answers of an earlier run; and what was charged."""
    ear = Ear(earlier)
    with stage(seed, ear) as ledger:
        refusal: Exception | None = None
        try:
            with opened(events, ledger, case.options) as desk:
                answers = case.ask(desk)
            parts = parts_of([_shown(one) for one in answers], "answers")
        except SfumatoError as error:  # a refusal is an answer too: it is compared like the rest
            parts, refusal = {REFUSED: f"{type(error).__name__}: {error}".encode()}, error
        rows = list(ledger.book().charges.values())
        parts |= parts_of([_row(row) for row in rows], "ledger")
        charged = {f"{n} {k}": event for n, row in enumerate(rows) for k, event in row.claim.events}
    steps = [step for wall in ear.walls for step in wall.steps]
    return PlayedStream(steps, parts, refusal, _joined(ear.walls)), ear.walls, charged


def _shown(answer: Answer) -> dict[str, Any]:
    return {**answer.numbers(), "sources": len(answer.sources), "said": str(answer)}


def _row(row: Any) -> dict[str, Any]:
    claim = row.claim
    kept = ("dataset", "unit", "delta", "period", "events", "config", "sums", "analyst")
    said = {name: repr(getattr(claim, name)) for name in kept}
    return {**said, "status": row.status, "answer": repr(row.answer), "notes": repr(row.notes)}


def _joined(walls: Sequence[StreamListener]) -> list[Questions]:
    """The tests of all turns under one label are one run: its threshold has one noise."""
    found: dict[str, Questions] = {}
    for run in (run for wall in walls for run in wall.runs):
        whole = found.setdefault(run.label, replace(run, behind=[], answers=[]))
        whole.behind.extend(run.behind)
        whole.answers.extend(run.answers)
    return list(found.values())


def share(row: Row) -> float:
    """How much of what was paid for one person used up."""
    return row.measured / row.claim.value


def exact_rows(
    case: Case, pairs: Sequence[TablePair], seed: int, transcripts: int = 2
) -> list[Row]:
    """The largest shift of every measurement, the largest loss, and what differs in the end."""
    largest: dict[tuple[str, str], Row] = {}
    differs: tuple[str, list[str]] = ("all pairs", [])
    how = f"exact, {transcripts} transcripts of {len(pairs)} pairs"

    def keep(kind: str, row: Row) -> None:
        where = (row.subject, kind)
        if where not in largest or share(row) > share(largest[where]):
            largest[where] = row

    for pair in pairs:
        for turn in range(transcripts):
            tables = (pair.with_user, pair.without_user)
            first, second = tables if turn % 2 == 0 else tables[::-1]
            run, walls, charged = played(case, first, seed + turn)
            replay, _, _ = played(case, second, seed + turn, walls)
            found = apart(run, replay)
            if len(found) > len(differs[1]):
                differs = (pair.name, found)
            if found:
                continue
            for shift in moved_by(run, replay):
                claim = SensitivityClaim(shift.allowed, shift.norm)
                of = f"{case.name}: {shift.label}"
                keep(shift.norm, Row(of, pair.name, claim, shift.moved, how, transcripts, 1.0))
            if case.pure:
                whole = EpsilonClaim(float(total_epsilon(charged.values()) or 0))
                loss = loss_between(run, replay, pure=True)
                row = Row(f"{case.name}: loss", pair.name, whole, loss, how, transcripts, 1.0)
                keep("loss", row)
    return [*largest.values(), output_row(case.name, *differs, how, transcripts)]


def subject(case: Case, pair: TablePair) -> Subject:
    """Runs with fresh keys; claims what the ledger was charged for one of them."""
    tables = {True: pair.with_user, False: pair.without_user}
    charged = played(case, pair.with_user, 0)[2]

    def draw(with_user: bool, runs: int, seed: int) -> np.ndarray:
        rows = []
        with stage(seed) as ledger:
            for run in range(runs):
                # Another edition of the same records: nothing that is stored answers it.
                options = {**case.options, "edition": f"run {run}"}
                with opened(tables[with_user], ledger, options) as desk:
                    if case.ask is session:
                        rows.append(_numbers(_session_of(desk, run)))
                    else:
                        rows.append(_numbers(case.ask(desk)))
                if run == 0:
                    _same_bill(ledger, charged)
        return np.array(rows)

    delta = case.options.get("delta", DELTA)
    statistics = (*EVERYTHING, discriminant)
    claims = claims_of(charged.values(), delta)
    return Subject(
        case.name, pair.name, claims, draw, statistics, best_of(projection, discriminant)
    )


def _session_of(desk: Desk, run: int) -> Sequence[Answer]:
    real = desk.session
    desk.session = lambda _, **terms: real(f"study {run}", **terms)  # type: ignore[method-assign]
    return session(desk)


def _same_bill(ledger: Ledger, charged: Mapping[str, PrivacyEvent]) -> None:
    rows = ledger.book().charges.values()
    events = [event for row in rows for _, event in row.claim.events]
    assert events == list(charged.values()), "one run charged something other than another"


def _numbers(answers: Sequence[Answer]) -> list[float]:
    return [n for one in answers for n in (one.value, one.estimate.plus_minus or 0.0)]
