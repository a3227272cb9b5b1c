"""`sfumato_lab.anonymise_answers`: exact answers from events, as far as an auditor lets them go.

Syntactic protection: nothing passes the wall, nothing is charged, and nothing is called
private; the ledger has a row without a bound for each set. What leaves carries *not differential
privacy*, against whom it helps and what breaks it (`sfumato_lab.syntactic.statement`). What must
hold against everybody is asked of `sfumato.query`.

Questions are in the closed form (`sfumato.queries.question`), one or a set; a set is decided
together with all that the log holds, and refused together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import geopandas
import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato import __version__
from sfumato.engine.local import DropLog
from sfumato.engine.open import engine_of, opened_source
from sfumato.errors import InputError, UsageError
from sfumato.geography.places import PlaceOptions
from sfumato.io.foreign import contents, document
from sfumato.io.names import PLACE, ZONE, Role, missing, pick
from sfumato.io.places import id_texts, load_places
from sfumato.model.counts import MOST_PEOPLE
from sfumato.model.masks import MOST_QUESTIONS
from sfumato.model.places import Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import period_of
from sfumato.privacy.ledger.by_rules import row_for
from sfumato.queries.question import Frame, Measure, Question, Want, parse_question
from sfumato_lab.syntactic.auditor import Auditor, Rule, Why
from sfumato_lab.syntactic.disclosure import MARGIN
from sfumato_lab.syntactic.statement import AuditorName, Statement, checked_folder, write_answers
from sfumato_lab.syntactic.truth import Counted

if TYPE_CHECKING:
    from sfumato.privacy.ledger import Ledger

Ints = NDArray[np.int64]
Asked = str | os.PathLike[str] | Mapping[str, Any] | Question
"""A question: JSON, a mapping, or a file of questions, one a line."""
MOST_BYTES = 64 << 20
"""Of a file of questions."""
_AREA = Role("area", PLACE.plain | ZONE.plain | {"area", "place"}, ZONE.weak)
_PEOPLE = Role("people", frozenset({"people", "population", "residents", "inhabitants", "known"}))


@dataclass(frozen=True, slots=True, eq=False)
class AuditedAnswers:
    """Exact answers that an auditor gave, none where it refused. NOT differential privacy."""

    questions: tuple[Question, ...]
    values: tuple[int | None, ...]
    statement: Statement
    frame: Frame = field(repr=False)
    internal_reasons: tuple[Why | None, ...] = field(repr=False)
    """Why questions were refused in this run; but for `simulatable` that tells about the data."""

    @property
    def refused(self) -> int:
        """How many questions were refused."""
        return sum(value is None for value in self.values)

    def words(self) -> list[str]:
        """Each question with its answer, a line each."""
        told = ("refused" if value is None else f"{value:,}" for value in self.values)
        return [
            f"{answer}: {self.frame.told(question)}"
            for question, answer in zip(self.questions, told, strict=True)
        ]

    def numbers(self) -> dict[str, Any]:
        """Plain values, with what they are not."""
        return {
            "answers": list(self.values),
            "questions": [self.frame.told(question) for question in self.questions],
            "privacy": self.statement.to_json(),
        }

    def __repr__(self) -> str:
        given = len(self.values) - self.refused
        rule = self.statement.auditor
        return f"<AuditedAnswers, NOT differential privacy: {given} given, {rule}>"

    def _repr_html_(self) -> str:
        rows = "".join(f"<li>{escape(line)}</li>" for line in self.words())
        return f"<b>not differential privacy</b><ol>{rows}</ol>"


def anonymise_answers(
    events: object,
    question: Asked | Sequence[Asked],
    *,
    auditor: AuditorName | str,
    least: int,
    log: str | os.PathLike[str],
    dataset: str,
    start: date | str,
    end: date | str,
    tz: str,
    slot: str = "1h",
    towers: object = None,
    zones: object = None,
    grid: str | None = None,
    region: object = None,
    zone_id: str | None = None,
    zone_name: str | None = None,
    layer: str | None = None,
    repair_zones: bool = False,
    drop_bad_towers: bool = False,
    expected_users: int | None = None,
    known: object = None,
    margin: float | None = MARGIN,
    out: str | os.PathLike[str] | None = None,
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
) -> AuditedAnswers:
    """Answer counting questions exactly, or refuse them. NOT differential privacy.

    Args:
        events: Files, a folder, the address of a table, an Arrow table or a data frame.
        question: In the closed form, as JSON or a mapping, or a file with one a line; or several.
        auditor: Who decides: `anyone` (support, and Definition 5 where anybody may be anywhere),
            `known` (the same about known people), `simulatable` (from the questions alone).
        least: The fewest people in an answer; of `simulatable` the fewest pairs of place and slot
            of a region whose count may follow.
        log: File of all questions and answers, which ends in .internal.jsonl. Durable, for the
            holder alone: without it an auditor does not know what it has given away.
        dataset: Whose people these are, as the ledger knows them. Each set of questions stands
            there in a row without a bound, answered or not: what is published later says that its
            epsilon does not cover it.
        start: First day, such as 2007-09-10: a public choice, never read from the data.
        end: First day that is no longer part of it.
        tz: Time zone of days and slots.
        slot: Length of a time slot: 15min, 1h, 1d.
        towers: Towers that the events name.
        zones: Zones in which coordinates lie.
        grid: Cells instead of zones: 500m, 1km@EPSG:3035, h3:8, geohash:6.
        region: What the grid covers: a file of polygons, or west,south,east,north.
        zone_id: Column of the zones' ids.
        zone_name: Column of the zones' names.
        layer: Layer of the zones' or the region's file.
        repair_zones: Make crossing outlines valid.
        drop_bad_towers: Leave out towers without a usable position.
        expected_users: How many people, from public knowledge: the people of `anyone`.
        known: People known at each place, public: a number for all places, or a table of places
            and people; for `known`.
        margin: The share of bits that rounding may recover beyond guessing, for `anyone` and
            `known`.
        out: Folder for answers, README and manifest; none: nothing but the log is written.
        column: Which column is what: `{"user": "imsi", "time": "ts"}`.
        format: Format of the events where their names do not tell.
        time_unit: Unit of epoch numbers: s, ms, us or ns.
        events_tz: Clock of event times that carry no offset; default: `tz`.
        engine: Where to count: local (default) or spark.
        master: Spark's master, for a session of its own.
        spark_conf: Settings of that session.
        ledger: The ledger, its file or address; default: a file in your data folder.
        internal: Told how many rows were read and why some do not count.
        progress: Told the stage and its share.

    Returns:
        An exact answer or a refusal for each question, and what is said of them.

    Raises:
        UsageError: What is asked for does not go together, a question is not of the form, or the
            ledger does not know the data set.
        InputError: A file cannot be read, or a question names what is not there.

    Example:
        >>> told = sfumato_lab.anonymise_answers(                              # doctest: +SKIP
        ...     "events.parquet", '{"measure": "visits", "hours": "8-10"}', towers="towers.csv",
        ...     start="2007-09-10", end="2007-09-17", tz="Europe/Paris",
        ...     auditor="simulatable", least=20, log="questions.internal.jsonl",
        ...     dataset="metro subscribers",
        ... )
    """
    engine_of(events, engine, master, spark_conf)
    name = _auditor(auditor)
    folder = None if out is None else checked_folder(Path(out).absolute())
    slots = period_of(start, end, slot, tz)
    opened = _whole_places(
        PlaceOptions(
            towers,
            zones,
            grid,
            region,
            zone_id,
            zone_name,
            layer,
            repair_zones,
            drop_bad_towers,
            column=column,
        )
    ).open(period=slots, tz=tz)
    places = opened.counted
    frame = Frame(places.ids, slots, places.geometry)
    asked = read_questions(question, frame)
    if name is AuditorName.SIMULATABLE and any(q.measure is not Measure.VISITS for q in asked):
        raise UsageError(
            "The auditor `simulatable` answers visits alone: different people are not a sum over "
            "places and slots.",
            remedy="Ask for visits, or choose another `auditor`.",
        )
    people = _known(known, places.ids) if name is AuditorName.KNOWN else None
    if known is not None and people is None:
        raise UsageError("Only the auditor `known` knows people.", remedy="Leave `known` out.")
    rules = _rules(name, least, expected_users, people, margin)
    write_row = row_for(dataset, ledger)
    with opened_source(
        events,
        places,
        slots,
        engine=engine,
        master=master,
        spark=spark_conf,
        columns=column,
        tz=events_tz or tz,
        format=format,
        time_unit=time_unit,
        progress=progress,
    ) as source:
        asking = Auditor(frame, Counted(source), log=log, order=along_hilbert(places), **rules)
        # Whatever becomes of them: what is answered and what is refused may hang on the records.
        settings = {"auditor": str(name), "least": least, "questions": len(asked)}
        row = write_row("answers", settings, slots.period, tz, folder or Path(log).absolute())
        values = asking(asked)
        if internal is not None:
            internal(source.drops)
    statement = Statement(
        name,
        least,
        rules.get("margin"),
        rules.get("people"),
        None if people is None else int(people.sum()),
    )
    told = list(zip(asked, values, strict=True))
    if folder is not None:
        about = {"kind": str(places.kind), "count": len(places), "sha256": places.fingerprint()}
        booked = {"dataset": dataset, "ledger": row}
        write_answers(folder, statement, frame, about, told, __version__, booked)
    reasons = tuple(asking.internal_reasons)
    return AuditedAnswers(tuple(asked), tuple(values), statement, frame, reasons)


def _auditor(given: AuditorName | str) -> AuditorName:
    try:
        return AuditorName(given)
    except ValueError:
        raise UsageError(
            f"There is no auditor {str(given)[:40]!r}.",
            remedy=f"Choose from {', '.join(AuditorName)}.",
        ) from None


def _whole_places(said: PlaceOptions) -> PlaceOptions:
    if said.spreads:
        raise UsageError(
            "Exact answers are about whole places: towers that are spread over zones give shares.",
            remedy="Give `towers` alone, or `zones` or `grid` alone where events have coordinates.",
        )
    return said


def _rules(
    name: AuditorName,
    least: int,
    expected_users: int | None,
    known: Ints | None,
    margin: float | None,
) -> dict[str, Any]:
    """An auditor's words for the verb's."""
    if isinstance(least, bool) or not isinstance(least, int) or least < 2:
        raise UsageError("`least` is a whole number, at least 2.")
    if margin is not None and not 0 <= margin <= 1:
        raise UsageError("`margin` is a share of all bits, from 0 to 1.")
    if name is AuditorName.SIMULATABLE:
        if expected_users is not None:
            raise UsageError(
                "The auditor `simulatable` looks at questions alone.",
                remedy="Leave `expected_users` out.",
            )
        return {"rule": Rule.SIMULATABLE, "least": least}
    if name is AuditorName.ANYONE and expected_users is None:
        raise UsageError(
            "Among anyone it must be said how many people there are.",
            remedy="Give `expected_users`, from public knowledge.",
        )
    if expected_users is not None and not 1 <= expected_users <= MOST_PEOPLE:
        raise UsageError(f"Between 1 and {MOST_PEOPLE:.0e} users may be expected.")
    if name is AuditorName.KNOWN and expected_users is not None:
        raise UsageError("Known people are counted already.", remedy="Leave `expected_users` out.")
    found: dict[str, Any] = {"universe": name.value, "k": least, "margin": margin}
    return found | ({"people": expected_users} if known is None else {"known": known})


def along_hilbert(places: Places) -> Ints:
    """Numbers of the places along a Hilbert curve: what lies together is a range. Public.

    Example:
        >>> import shapely
        >>> from sfumato.model.places import PlaceKind
        >>> at = [shapely.Point(x, 0.0) for x in (3.0, 1.0, 2.0)]
        >>> along_hilbert(Places.of(PlaceKind.TOWERS, ["a", "b", "c"], at)).tolist()
        [1, 2, 0]
    """
    points = geopandas.GeoSeries(shapely.point_on_surface(places.geometry))
    distance = points.hilbert_distance().to_numpy()
    return np.argsort(distance, kind="stable").astype(np.int64)


def read_questions(given: Asked | Sequence[Asked], frame: Frame) -> list[Question]:
    """Questions in their closed form, from texts, mappings and files.

    Args:
        given: One or several. A text that begins with { is a question; any other names a file,
            which holds one question, a list of them, or one a line.
        frame: The places and slots that they are about.

    Returns:
        The questions in their order.

    Raises:
        UsageError: One is not of that form, asks for noise, or there is none.
        InputError: A file cannot be read, or one names a place or a time that is not there.

    Example:
        >>> from datetime import timedelta
        >>> from sfumato.model.time_grid import TimeGrid
        >>> hours = TimeGrid(np.arange(3) * 3_600_000_000, timedelta(hours=1), "UTC")
        >>> [one] = read_questions({"measure": "visits"}, Frame(np.array(["a", "b"]), hours))
        >>> one.places
        (0, 1)
    """
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    texts = [text for one in several for text in _texts(one)]
    if not 1 <= len(texts) <= MOST_QUESTIONS:
        raise UsageError(
            f"Between 1 and {MOST_QUESTIONS:,} questions are asked at once.",
            remedy="Give a `question`.",
        )
    found = []
    for text in texts:
        question, want = parse_question(text, frame)
        if want != Want():
            raise UsageError(
                "An exact answer has no ± and no clip.",
                remedy="Leave `want` and `clip` out of the question, or ask `sfumato.query`.",
            )
        found.append(question)
    return found


def _texts(given: Asked) -> Iterable[str | Mapping[str, Any] | Question]:
    if isinstance(given, Mapping | Question):
        return [given]
    if not isinstance(given, str | os.PathLike):
        raise UsageError("A question is JSON, a mapping, or a file of questions.")
    if isinstance(given, str) and given.lstrip()[:1] in ("{", "["):
        return _of_file(given)
    path = Path(given)
    try:
        return _of_file(contents(path, MOST_BYTES, links=True).decode("utf-8"))
    except (OSError, ValueError):  # also a name that no file can have, and text that is not UTF-8
        raise InputError(
            "the file of questions cannot be read as text.",
            file=str(path)[:200],
            remedy="Give JSON, or a file with a question a line.",
        ) from None


def _of_file(text: str) -> list[str | Mapping[str, Any]]:
    """One question, a list of them, or one a line."""
    try:
        whole = document(text)
        if isinstance(whole, list):
            return [json.dumps(one) for one in whole]
    except ValueError:
        return [line for line in text.splitlines() if line.strip()]
    return [text]


def _known(given: object, ids: NDArray[np.str_]) -> Ints:
    """People known at each place: a number for everywhere, or a table."""
    text = str(given).strip() if isinstance(given, str | int) else ""
    if given is None or isinstance(given, bool):
        raise UsageError(
            "It must be said how many people are known where.",
            remedy="Give `known`: a number for every place, or a table of places and people.",
        )
    if text.isdecimal() and len(text) < 10:
        return np.full(ids.size, int(text), np.int64)
    if isinstance(given, int):
        raise UsageError("Known people are a whole number from 0 to 999,999,999.")
    table = load_places(given, roles=(_AREA, _PEOPLE))
    key = pick(table.names, _AREA, {}, table.label)
    if key is None:
        raise missing(table.names, _AREA, table.label)
    name = pick([one for one in table.names if one != key], _PEOPLE, {}, table.label)
    if name is None:
        raise missing(table.names, _PEOPLE, table.label)
    named = id_texts(table.attributes[key], key, table.label)
    values = [str(value).strip() for value in table.attributes[name].to_pylist()]
    if any(not value.isdecimal() or len(value) > 9 for value in values):
        raise InputError("known people are whole numbers.", file=table.label, column=name)
    if len(set(named)) != len(named):
        raise InputError("a place stands twice.", file=table.label, column=key)
    people = dict(zip(named, map(int, values), strict=True))
    absent = sorted(set(ids.tolist()) - people.keys())
    if absent:
        raise InputError(
            f"{len(absent):,} places are not in it, such as {absent[0][:40]!r}.",
            file=table.label,
            column=key,
            remedy="Give every place a row; 0 where nobody is known.",
        )
    return np.array([people[one] for one in ids.tolist()], np.int64)
