"""Questions under audit, from events to the answer that the analyst is shown, on neighbours.

Quick: a few neighbours of every kind of question, exactly, and some runs. The whole audit, which
writes its section of docs/audit.md, is `test_the_documentation_shows_the_questions` (slow).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.audits.desks import (
    CASES,
    EVERYBODY,
    HOURS,
    LAPLACE,
    STAGE,
    Case,
    exact_rows,
    share,
    single,
    subject,
)

from sfumato.audits.report import as_markdown
from sfumato.audits.run import Audit, SameOutputClaim, audit
from sfumato.errors import UsageError
from sfumato.queries.desk import Desk

pytestmark = pytest.mark.privacy
PAIRS = {pair.name: pair for pair in STAGE.pairs(crowd=1)}
FEW = [
    PAIRS[name]
    for name in (
        "every place in every slot, nobody else",
        "one place all the time, some others",
        "an empty text id beside ids that look alike",
    )
]
NAMES = [case.name for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_nobody_moves_an_answer_by_more_than_was_paid(case: Case) -> None:
    """And under equal answers of the wall everything shown, stored and refused is the same."""
    rows = exact_rows(case, FEW, seed=1)
    assert [row.subject for row in rows if row.violated] == []
    reached = max(share(row) for row in rows if row.claim.value)
    assert reached > 0.999  # a person of these reaches some bound: a larger one would be seen


def test_what_an_analyst_is_shown_stays_within_the_claim() -> None:
    case = Case("people", single(EVERYBODY, epsilon=6.0), LAPLACE, pure=True)
    found = audit([subject(case, FEW[0])], runs=64, confidence=0.99, seed=1)
    assert found.violations == ()
    assert found.rows[0].measured > 1.0  # it would notice something


def visits_of(desk: Desk) -> int:
    """The exact number of visits, out of its box without a key."""
    seen: list[int] = []
    source = desk.source()
    source.exact("visits").map(lambda c: seen.append(int(c.values.sum())) or c)  # type: ignore[arg-type]
    return seen[0]


def squeamish(desk: Desk) -> Any:
    if visits_of(desk) < 2:
        raise UsageError("Too few visits.")
    return CASES[0].ask(desk)


def generous(desk: Desk) -> Any:
    return single(HOURS[0], plus_minus=20 if visits_of(desk) > 30 else 25)(desk)


def talkative(desk: Desk) -> Any:
    more = 2 if visits_of(desk) > 30 else 1
    return [answer for _ in range(more) for answer in CASES[3].ask(desk)]


@pytest.mark.parametrize("ask", [squeamish, generous, talkative])
def test_what_was_decided_from_the_data_is_seen(ask: Any) -> None:
    """A refusal, a price, a number of answers."""
    rows = exact_rows(Case("peeking", ask, {}), FEW[:1], seed=1)
    (row,) = (row for row in rows if row.violated)
    assert isinstance(row.claim, SameOutputClaim)


DOCS = Path(__file__).parents[2] / "docs"
SECTION = "## Questions\n"
CONFIDENCE, SEED = 0.999, 1
WORST = {"a session": "one place all the time, nobody else"}
"""Neighbours of the runs; where none is named, those that move the exact answers most."""


WORDS = f"""\
Desks of [asking the data](querying.md), asked as an analyst asks them: events, clip, routing,
ledger, noise, the answer as it is shown. First by runs: whatever the analyst sees of many desks
with and without one person. Then exactly, by replay with the same answers of the wall: how far any
of {len(PAIRS)} neighbours moves each measurement, against what the *ledger* was charged for; for
pure noise the loss of the whole conversation; and `output`: everything that is shown, stored or
refused must be the same bytes. `one after the other` asks wide, in other words, narrower, a half,
the other half, something too dear, and then what the answers suggest. Every turn of the session has
a wall of its own, as if another process had come. Neighbours that use up the most are named.
"""


def placed(page: str, section: str) -> str:
    """The page with this section in its place: before the mechanisms, where there is none yet."""
    before, found, rest = page.partition(SECTION)
    if not found:
        before, found, rest = page.partition("## Mechanisms of the wall\n")
        return before + section + "\n" + found + rest
    return before + section + "\n" + rest[rest.index("## ") :]


def test_the_section_replaces_itself_alone() -> None:
    page = "# A\n\n## Mechanisms of the wall\n\nx\n## Planted faults\n"
    once = placed(page, SECTION + "\nfirst\n")
    assert (
        once
        == "# A\n\n## Questions\n\nfirst\n\n## Mechanisms of the wall\n\nx\n## Planted faults\n"
    )
    assert placed(once, SECTION + "\nsecond\n") == once.replace("first", "second")


@pytest.mark.slow
def test_the_documentation_shows_the_questions() -> None:
    """All neighbours exactly, and many runs; writes the section of docs/audit.md."""
    exact, subjects = [], []
    for case in CASES:
        rows = exact_rows(case, list(PAIRS.values()), seed=SEED)
        exact += rows
        moved = max((row for row in rows if row.pair in PAIRS), key=share)
        if case.runs:
            subjects.append((case, subject(case, PAIRS[WORST.get(case.name, moved.pair)])))
    each = 1 - (1 - CONFIDENCE) / len(subjects)
    found = [audit([one], runs=case.runs, confidence=each, seed=SEED) for case, one in subjects]
    runs = Audit(tuple(row for result in found for row in result.rows), CONFIDENCE, SEED)
    assert runs.violations == ()
    assert [row.subject for row in exact if row.violated] == []
    words = [SECTION, WORDS, "    pytest -m slow tests/audits/test_questions.py\n"]
    words += [as_markdown(runs), as_markdown(Audit(tuple(exact), 1.0, SEED))]
    page = DOCS / "audit.md"
    page.write_text(placed(page.read_text(encoding="utf-8"), "\n".join(words)), encoding="utf-8")
