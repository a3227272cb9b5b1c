"""`sfumato.query`: questions to the data in one call; what `sfumato query` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from sfumato.engine.local import DropLog
from sfumato.errors import InputError, UsageError
from sfumato.io.foreign import contents
from sfumato.model.rounding import rounded_up
from sfumato.model.source import Progress
from sfumato.privacy.ledger import Ledger
from sfumato.published.release import Release
from sfumato.queries.answers import Answer, QuestionPlan
from sfumato.queries.batch import VISITS
from sfumato.queries.desk import Desk
from sfumato.queries.pricing import Mechanism
from sfumato.queries.question import LONGEST_TEXT, Question, read_json

Given = str | os.PathLike[str] | Mapping[str, Any] | Question


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers in the order of the questions, or, for a plan, what they would cost."""

    answers: tuple[Answer, ...] = ()
    plans: tuple[QuestionPlan, ...] = ()
    together: bool = False
    """Whether all of them were measured together: the cost that each names is that of all."""

    def numbers(self) -> dict[str, Any]:
        """As JSON shows them."""
        if self.plans:
            return {"plans": [_planned(one) for one in self.plans]}
        found: dict[str, Any] = {"answers": [one.numbers() for one in self.answers]}
        if self.together:
            cost = {key: found["answers"][0][key] for key in ("epsilon", "delta", "rho")}
            free = dict.fromkeys(cost)  # with it in each answer their sum would count it many times
            found = {"answers": [one | free for one in found["answers"]], "together": cost}
        return found

    def __str__(self) -> str:
        if self.plans:
            return "\n".join(_plan_line(one) for one in self.plans)
        lines = [_line(one, self.together) for one in self.answers]
        if self.together and self.answers[0].spend is not None:
            spend = self.answers[0].spend
            cost = f"epsilon {rounded_up(spend.epsilon)} at delta {rounded_up(spend.delta)}"
            lines.append(f"Charged {cost} for all {len(lines):,} together.")
        if self.together and self.answers[0].estimate.plus_minus is not None:
            lines.append(
                "Each ± is about noise alone: who makes more visits than was guessed "
                "beforehand counts less."
            )
        return "\n".join(lines)


def _line(one: Answer, together: bool = False) -> str:
    if one.how == "dummy":
        cost = "nothing was read or charged"
    elif one.how == "session":
        cost = "paid when the session opened"
    elif one.spend is None:
        cost = "free: from the release" if one.how == "release" else "free: stored"
    else:
        loss, delta = rounded_up(one.spend.epsilon), rounded_up(one.spend.delta)
        cost = f"charged epsilon {loss} at delta {delta}"
        cost = "charged together with the others" if together else cost
        cost += ", an interrupted run was finished" if one.how == "resumed" else ""
    clip = f"; a person counts at most {one.clip} times" if (one.clip or 1) > 1 else ""
    return f"{one}  {one.told} ({cost}{clip})"


def _plan_line(one: QuestionPlan) -> str:
    if one.price is None:
        assert one.known is not None
        return f"free, {one.known.estimate}  {one.told}"
    spend = one.price.spend
    known = "" if one.known is None else f"; known already: {one.known.estimate}"
    no = "" if one.refusal is None else "; the budget does not allow it"
    return (
        f"± {one.price.plus_minus:,.4g} (90 %) for epsilon {rounded_up(spend.epsilon)} at delta "
        f"{rounded_up(spend.delta)}  {one.told}{known}{no}"
    )


def _planned(one: QuestionPlan) -> dict[str, Any]:
    cost = one.price
    known = None if one.known is None else one.known.estimate
    return {
        "question": one.told,
        "free": one.free,
        "plus_minus": one.plus_minus,
        "known": None if known is None else [known.value, known.lower, known.upper],
        "epsilon": None if cost is None else cost.spend.epsilon,
        "delta": None if cost is None else cost.spend.delta,
        "rho": None if cost is None else cost.spend.rho,
        "clip": None if cost is None else cost.clip,
        "refused": one.refusal is not None,
    }


def query(
    events: object,
    question: Given | Iterable[Given],
    *,
    start: date | str,
    end: date | str,
    tz: str,
    dataset: str = "",
    slot: str = "1h",
    delta: float = 0.0,
    mechanism: Mechanism | str = Mechanism.GAUSSIAN,
    plan: bool = False,
    together: str | None = None,
    session: str | None = None,
    epsilon: float | None = None,
    visits: float = VISITS,
    rounds: int | None = None,
    clip: int | None = None,
    updates: int | None = None,
    threshold: int | None = None,
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
) -> Answers:
    """Answer questions about the data, charged to the ledger unless what is known suffices.

    Args:
        events: Files, a folder, a table; as `sfumato.release` takes them. None with `dummy`.
        question: Closed questions: mappings, JSON texts, files of JSON (one, a list, or one a
            line).
        start: First day, such as 2007-09-10: a public choice, never read from the data.
        end: First day that is no longer part of it.
        tz: Time zone of days and slots.
        dataset: Whose people these are, as the ledger knows them.
        slot: Length of a time slot: 15min, 1h, 1d.
        delta: Of one question, or of all that are asked together.
        mechanism: Noise of a question: gaussian, or laplace, which is pure.
        plan: Only say what each would cost and how wide its answer would be.
        together: Answer all on one epsilon: batch, with intervals, or mwem, without.
        session: Name of a session of private multiplicative weights, opened if it is new.
        epsilon: Of all questions together, or of the session.
        visits: Batch: visits of a busy person, who shall be counted whole. A public guess.
        rounds: MWEM: how many questions are chosen and measured; 30 if not given.
        clip: Session: the most visits that one person counts in a question; 24 if not given.
        updates: Session: how often its table may be corrected; 20 if not given.
        threshold: Session: how far its table may be off.
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
        edition: A word for the state of the data; answers of another one are not used.
        dummy: Answer from made-up people: nothing is read, charged or stored.
        column: Which column is what: `{"user": "imsi", "time": "ts"}`.
        format: Format of the events where their names do not tell.
        time_unit: Unit of epoch numbers: s, ms, us or ns.
        events_tz: Clock of event times that carry no offset; default: `tz`.
        engine: Where to count: local (default) or spark.
        master: Spark's master, for a session of its own.
        spark_conf: Settings of that session.
        ledger: The ledger, its file or address; default: a file in your data folder.
        internal: Told how many rows were read and why some do not count: for the holder only.
        progress: Told the stage and its share.

    Returns:
        The answers, or the plans.

    Raises:
        UsageError: A question, or what is asked for, makes no sense.
        InputError: There is no such place or time, or a file cannot be read.
        BudgetRefused: The cap, or the analyst's allowance, would be passed.

    Example:
        >>> sfumato.query(                                                 # doctest: +SKIP
        ...     "events.parquet",
        ...     {"measure": "unique_people", "zones": ["Z00003"], "want": {"plus_minus": 50}},
        ...     zones="zones.geojson", start="2007-09-10", end="2007-09-17", tz="Europe/Paris",
        ...     dataset="metro subscribers", delta=1e-7,
        ... )
    """
    asked = read_questions(question)
    many = together is not None
    if many and session is not None:
        raise UsageError("Questions are asked together or in a session.", remedy="Choose one.")
    if plan and (many or session is not None):
        raise UsageError(
            "Questions that are asked together, and sessions, cost the epsilon that is given.",
            remedy="Leave `plan` out, or ask single questions.",
        )
    if (many or session is not None) != (epsilon is not None):
        raise UsageError(
            "`epsilon` is that of a session or of questions that are asked together.",
            remedy='Give it with `together` or `session`; a single question says {"epsilon": 0.1} '
            "in its `want`.",
        )
    with Desk(
        events,
        dataset=dataset,
        start=start,
        end=end,
        tz=tz,
        slot=slot,
        delta=delta,
        mechanism=mechanism,
        towers=towers,
        zones=zones,
        grid=grid,
        region=region,
        zone_id=zone_id,
        zone_name=zone_name,
        layer=layer,
        repair_zones=repair_zones,
        drop_bad_towers=drop_bad_towers,
        release=release,
        analyst=analyst,
        edition=edition,
        dummy=dummy,
        column=column,
        format=format,
        time_unit=time_unit,
        events_tz=events_tz,
        engine=engine,
        master=master,
        spark_conf=spark_conf,
        ledger=ledger,
        internal=internal,
        progress=progress,
    ) as desk:
        parsed = [desk.parse(one) for one in asked]  # all of them, before the first is paid for
        if plan:
            return Answers(plans=tuple(desk.plan(one) for one in asked))
        if together is not None and epsilon is not None:
            answers = desk.together(
                asked, epsilon=epsilon, method=together, visits=visits, rounds=rounds
            )
            return Answers(tuple(answers), together=True)
        if session is not None and epsilon is not None:
            sitting = desk.session(
                session, epsilon=epsilon, clip=clip, updates=updates, threshold=threshold
            )
            return Answers(tuple(sitting.ask(question) for question, _ in parsed))
        return Answers(tuple(desk.ask(one) for one in asked))


def read_questions(given: Given | Iterable[Given]) -> list[Mapping[str, Any] | str | Question]:
    """Questions from mappings, JSON texts and files; a file or text may hold several.

    Raises:
        InputError: A file cannot be read.
        UsageError: There is no question.
    """
    if isinstance(given, Mapping | Question | str | os.PathLike):
        given = [given]
    found: list[Mapping[str, Any] | str | Question] = []
    for one in given:
        if isinstance(one, Mapping | Question):
            found.append(one)
        else:
            found += _texts(os.fspath(one))
    if not found:
        raise UsageError("There is no question.", remedy="Give `question`, a file of JSON.")
    return found


def _texts(given: str) -> Sequence[Mapping[str, Any] | str]:
    """The questions of a JSON text, or of a file that holds one."""
    text = given.strip()
    if not text.startswith(("{", "[")):
        text = _content(Path(text)).strip()
    if text.startswith("["):
        listed = read_json(text)
        if not all(isinstance(one, Mapping) for one in listed):
            raise UsageError("A list of questions is a JSON list of objects.")
        return list(listed)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(line.strip()[:1] + line.strip()[-1:] == "{}" for line in lines):
        return lines
    return [text]


def _content(path: Path) -> str:
    try:
        return contents(path, 64 * LONGEST_TEXT, links=True).decode("utf-8")
    except OSError as error:
        raise InputError(
            f"it cannot be read: {error.strerror}.",
            file=str(path)[:200],
            remedy="Give a file of questions, or a question as JSON.",
        ) from None
    except ValueError:  # not UTF-8, or a name that no file can have
        raise InputError(
            "it is not UTF-8 text.", file=str(path)[:200], remedy="Write questions as JSON."
        ) from None
