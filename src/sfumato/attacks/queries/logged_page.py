"""`sfumato attack queries --log`: a file of answers, what it gives away, and the internal page.

Two forms of file are read, a JSON object a line:

* the log of `sfumato anonymise answers`, whose places and slots are numbers in their order;
* a list of answers: `{"measure": "visits", "zones": ["a", "b"], "slots": [0, 1], "answer": 12}`.
  Zones and slots are texts or whole numbers, whatever they are called; an answer that is null was
  refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from sfumato.attacks.queries.logged import Isolated, LogAttacked, attack_log
from sfumato.attacks.report import rich_table
from sfumato.attacks.traces.run import head, table
from sfumato.errors import InputError
from sfumato.io.foreign import contents, document
from sfumato.io.write import write_bytes
from sfumato.model.masks import Measure
from sfumato.published.folder import make_internal_folder
from sfumato.queries.question import Question

Label = str | int
MOST_BYTES = 1 << 30
SHOWN = 200
"""Sets on the page; the JSON file has all of them."""
_FORM = (
    'Give the log of `anonymise answers`, or lines such as {"measure": "visits", "zones": ["a"], '
    '"slots": [0, 1], "answer": 12}.'
)


@dataclass(slots=True)
class Log:
    """Questions with their answers, and what their places and slots are called."""

    answers: list[tuple[Question, float | None]] = field(default_factory=list)
    places: dict[Label, int] = field(default_factory=dict)
    slots: dict[Label, int] = field(default_factory=dict)

    def add(
        self, measure: Measure, places: Sequence[Label], slots: Sequence[Label], answer: int | None
    ) -> None:
        """One more question; names are numbered as they come."""
        where = {self.places.setdefault(one, len(self.places)) for one in places}
        when = {self.slots.setdefault(one, len(self.slots)) for one in slots}
        question = Question(measure, tuple(sorted(where)), tuple(sorted(when)))
        self.answers.append((question, None if answer is None else float(answer)))

    def told(self, number: int) -> str:
        """A question in words."""
        question, _ = self.answers[number]
        named = [
            _some(sorted((one for one, at in names.items() if at in set(members)), key=_natural))
            for names, members in ((self.places, question.places), (self.slots, question.slots))
        ]
        return f"question {number + 1}: places {named[0]}; slots {named[1]}"


def _natural(name: Label) -> tuple[bool, int, str]:
    return (True, 0, name) if isinstance(name, str) else (False, name, "")


def _some(names: list[Label]) -> str:
    numbers = [one for one in names if isinstance(one, int)]
    low, high = min(numbers, default=0), max(numbers, default=0)
    if len(numbers) == len(names) and len(names) > 2 and high - low + 1 == len(names):
        return f"{low}–{high}"
    if len(names) > 4:
        return ", ".join(str(one)[:40] for one in names[:3]) + f" and {len(names) - 3:,} others"
    return ", ".join(str(one)[:40] for one in names)


def read_log(path: str | os.PathLike[str]) -> Log:
    """Questions and answers from a file.

    Args:
        path: The log of an auditor, or a list of answers.

    Returns:
        The log, in the order of the file.

    Raises:
        InputError: It cannot be read, or a line is of neither form.
    """
    file, found = Path(path), Log()
    try:
        lines = contents(file, MOST_BYTES, links=True).decode("utf-8").splitlines()
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}.", file=file.name) from None
    except ValueError:
        raise InputError("it is not UTF-8 text.", file=file.name, remedy=_FORM) from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            _take(document(line), found)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            raise InputError(
                f"line {number} is not a question with its answer.", file=file.name, remedy=_FORM
            ) from None
    if not found.answers:
        raise InputError("there is no question in it.", file=file.name, remedy=_FORM)
    return found


def _take(line: Mapping[str, Any], found: Log) -> None:
    if "log" in line:
        return  # the first line of an auditor's log says what it is about
    if "questions" not in line:
        zones, slots = line["zones"], line["slots"]
        if isinstance(zones, str) or isinstance(slots, str) or not zones or not slots:
            raise ValueError
        if not all(type(one) in (str, int) for one in (*zones, *slots)):
            raise ValueError
        found.add(Measure(line["measure"]), zones, slots, _whole(line["answer"]))
        return
    for stated, answer in zip(line["questions"], line["answers"], strict=True):
        places, slots = (
            [one for first, last in stated[word] for one in range(int(first), int(last) + 1)]
            for word in ("places", "slots")
        )
        if not places or not slots:
            raise ValueError
        found.add(Measure(stated["measure"]), places, slots, _whole(answer))


def _whole(answer: object) -> int | None:
    if answer is None or (type(answer) is int and 0 <= answer < 1 << 53):
        return answer
    raise ValueError


def attack_logged(log: str | os.PathLike[str], *, k: int = 5) -> tuple[LogAttacked, Log]:
    """Attack a file of exact answers. INTERNAL.

    Args:
        log: The log of `anonymise answers`, or a list of answers.
        k: Counts below it are found.

    Returns:
        The sets of answers that give fewer than k away, and the log that they are of.

    Raises:
        InputError: The file cannot be read.
        UsageError: It holds too much, or `k` is below 1.
    """
    held = read_log(log)
    return attack_log(held.answers, k=k), held


COLUMNS = ("count", "of", "kind", "from these answers")


def rows(found: Sequence[Isolated], held: Log) -> list[list[str]]:
    """One row a set: the count, and each question with its sign and answer."""
    out = []
    for one in found:
        what = str(one.measure).replace("_", " ")
        terms = [
            f"{'+' if sign > 0 else '−'} {held.answers[n][1] or 0:,.0f} ({held.told(n)})"
            for sign, n in zip(one.signs, one.questions, strict=True)
        ]
        out.append([f"{one.count:,}", what, one.kind, " ".join(terms)])
    return out


def summary(found: LogAttacked) -> str:
    """What was found, in a sentence or two."""
    nobody = len(found.found) - found.somebody
    told = (
        f"{found.questions:,} questions, {found.answered:,} different ones answered. "
        f"Sets of two to seven answers that give counts from 1 to {found.k - 1} away: "
        f"{found.somebody:,}; that say that nobody was somewhere: {nobody:,}."
    )
    if not found.complete:
        told += " The search ended before it had seen all sets: there are more."
    return told


def page(found: LogAttacked, held: Log) -> str:
    """The sets that give most away, in words a holder can act on."""
    shown = found.found[:SHOWN]
    kinds = [
        ["difference", "a question inside of another, and what is left over"],
        ["rest", "a whole less parts of it that do not meet: visits of a few places and slots"],
        ["overlap", "inclusion and exclusion: who was in two or three regions at once"],
    ]
    parts = [
        head("what a log of answers gives away", "Exact counts of few people"),
        "<h1>What a log of exact answers gives away</h1>",
        f"<p>{summary(found)}</p>",
        "<p>Each count follows from the answers by adding and taking away; whoever holds the "
        "answers has it. A threshold does not see it: it looks at one answer at a time.</p>",
        table(list(COLUMNS), rows(shown, held), words=True) if shown else "",
        f"<p>Shown: {len(shown):,} of {len(found.found):,}.</p>" if shown else "",
        "<h2>What was looked for</h2>",
        table(["kind", "what it is"], kinds, words=True),
        "<p>A log in which nothing is found is not safe: other sets, more answers, and what "
        "somebody knows beforehand give people away as well.</p>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def to_json(found: LogAttacked) -> dict[str, Any]:
    """Plain values for a file; questions are numbered from 1."""
    sets = [asdict(one) | {"questions": [n + 1 for n in one.questions]} for one in found.found]
    about = {
        name: getattr(found, name) for name in ("questions", "answered", "k", "complete", "rest")
    }
    return {**about, "somebody": found.somebody, "sets": sets}


def show(found: LogAttacked, held: Log, most: int = 20) -> None:
    """The first sets as a table on standard error."""
    console, body = Console(stderr=True), rows(found.found[:most], held)
    console.print(f"internal: {summary(found)}", markup=False)
    if body:
        console.print(rich_table(None, list(COLUMNS), body, words=True))


def write(found: LogAttacked, held: Log, folder: Path) -> list[Path]:
    """JSON and page, for their owner alone."""
    make_internal_folder(folder)
    written = [folder / f"log-attack.internal.{ending}" for ending in ("json", "html")]
    text = json.dumps(to_json(found), indent=2, ensure_ascii=False)
    write_bytes(written[0], f"{text}\n".encode(), mode=0o600)
    write_bytes(written[1], page(found, held).encode(), mode=0o600)
    return written
