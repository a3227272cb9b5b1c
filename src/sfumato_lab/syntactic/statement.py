"""What is said of audited answers wherever they go: not differential privacy, and what breaks it.

The words are those of the folder's README and of its manifest, and a command prints them. They
promise what an auditor checks and nothing beyond (design: two doors, two labels).
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.errors import UsageError
from sfumato.io.foreign import contents, document
from sfumato.io.write import make_folder, write_bytes, write_csv
from sfumato.published.manifest import MANIFEST_NAME, GridFacts
from sfumato.queries.question import Frame, Question

KIND = "audited answers"
LABEL = "NOT differential privacy"
ANSWERS, README = "answers.csv", "README.txt"


class AuditorName(StrEnum):
    """Who decides which exact answers are given."""

    ANYONE = "anyone"
    """Support, and Definition 5 in the chapter's universe: any of N people anywhere."""
    KNOWN = "known"
    """Support, and Definition 5 in Kleinberg's universe: known people, one bit each."""
    SIMULATABLE = "simulatable"
    """The row space of the questions alone; it never looks at an answer."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Which auditor let the answers go, with the numbers it was given. All public."""

    auditor: AuditorName
    least: int
    margin: float | None = None
    expected_users: int | None = None
    known_people: int | None = None

    @property
    def helps_against(self) -> list[str]:
        """Against whom it helps: what was checked of all answers together."""
        if self.auditor is AuditorName.SIMULATABLE:
            return [
                "Somebody who adds and subtracts answers: of no region of fewer than "
                f"{self.least:,} pairs of place and slot does the number of visits follow so.",
                "Somebody who reads refusals: they follow from the questions alone.",
            ]
        who = (
            "who knows nobody's visits"
            if self.auditor is AuditorName.ANYONE
            else "who knows which people belong to which place, and nobody's visits"
        )
        bits = (
            f"that nobody, or that all of {self.expected_users:,} people, were in a place and slot"
            if self.auditor is AuditorName.ANYONE
            else "whether a known person was in their place"
        )
        found = [
            f"Somebody who asks about few people: every answer is about {self.least:,} or more.",
            f"Somebody {who}: all answers together do not say for certain {bits}.",
        ]
        if self.margin is not None:
            found.append(
                "Somebody who solves the answers as a linear program and rounds: of all bits that "
                f"recovers at most a share of {self.margin:g} more than guessing."
            )
        return found

    @property
    def broken_by(self) -> list[str]:
        """What breaks it, each shown in docs/decisions/auditing.md."""
        found = [
            "Background knowledge: whoever knows all visits but one learns that one from any "
            "answer that counts it, and a few that only the person makes are enough.",
        ]
        if self.auditor is AuditorName.SIMULATABLE:
            return [
                *found,
                "What an answer is: 0 visits in a region of any size disclose that nobody was "
                "there. No auditor that does not look at answers prevents Definition 5 over bits.",
                "Few people in a large region: it has many pairs of place and slot and may have "
                "had one visitor. Support of k people is not simulatable, and is not checked.",
                "Answers that were given elsewhere about the same people: only this log is known.",
            ]
        found += [
            "Refusals: they depend on the data. Where a refusal means nobody or everybody, "
            "whoever was there knows about all others.",
            "Cost: deciding is coNP-hard. What is not decided in time is refused, which depends "
            "on the data too.",
            "Different people: seven counts of many give by inclusion and exclusion who was in "
            "three places at once. The audit sees counts of different people as bounds alone.",
            "Answers that were given elsewhere about the same people: only this log is known.",
        ]
        if self.auditor is AuditorName.ANYONE:
            found.append(
                "One person among many: where people are exchangeable, a single one is never "
                "disclosed, whatever follows about somebody whom two places single out."
            )
        return found

    def text(self) -> str:
        """The statement for readers."""
        rule = {
            AuditorName.ANYONE: "support and full disclosure among anyone",
            AuditorName.KNOWN: "support and full disclosure of known people",
            AuditorName.SIMULATABLE: "simulatable, by the questions alone",
        }[self.auditor]
        lines = [
            f"Exact answers to counting questions, released by an auditor ({rule}).",
            "",
            filled(
                f"{LABEL}. The answers are exact, nothing was added to them, and no budget bounds "
                "what they tell about a person. They stand in the holder's ledger without a bound, "
                "and what is published later about these people says that it does not cover them. "
                "What must hold against everybody, whatever they "
                "know, is answered by `sfumato query` and published by `sfumato release`."
            ),
            "",
            "It helps against:",
            *(filled(one, "* ") for one in self.helps_against),
            "",
            "What breaks it:",
            *(filled(one, "* ") for one in self.broken_by),
        ]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "differential_privacy": False,
            "label": LABEL,
            "auditor": str(self.auditor),
            "least": self.least,
            "least_is": (
                "pairs of place and slot of a region whose count may follow"
                if self.auditor is AuditorName.SIMULATABLE
                else "different people in an answer"
            ),
            "margin": self.margin,
            "expected_users": self.expected_users,
            "known_people": self.known_people,
            "helps_against": self.helps_against,
            "broken_by": self.broken_by,
        }


def filled(text: str, mark: str = "") -> str:
    """A paragraph, or a point of a list, in lines of a terminal's width."""
    return textwrap.fill(text, 88, initial_indent=mark, subsequent_indent=" " * len(mark))


def checked_folder(out: Path) -> Path:
    """Where answers may be written: not among what was published through the wall.

    Raises:
        UsageError: The folder holds something else.
    """
    if (out / MANIFEST_NAME).exists():
        try:
            kind = document(contents(out / MANIFEST_NAME)).get("kind")
        except (OSError, ValueError, AttributeError):
            kind = None
        if kind != KIND:
            raise UsageError(
                f"{out} holds a release: exact answers do not go there.",
                remedy="Choose another `out`.",
            )
    return out


def write_answers(
    out: Path,
    statement: Statement,
    frame: Frame,
    places: Mapping[str, Any],
    told: Sequence[tuple[Question, int | None]],
    version: str,
    booked: Mapping[str, Any],
) -> list[Path]:
    """Answers, README and manifest; the manifest last, with the digests of the others.

    `booked` says whose people they are about and which row of the ledger they stand in. Nothing
    says why a question was refused: that may tell about the data.
    """
    make_folder(checked_folder(out))
    table = pa.table(
        {
            "number": pa.array(range(1, len(told) + 1), pa.int64()),
            "question": [frame.told(question) for question, _ in told],
            "measure": [str(question.measure) for question, _ in told],
            "answer": pa.array([answer for _, answer in told], pa.int64()),
            "key": [question.key() for question, _ in told],
        }
    )
    write_csv(out / ANSWERS, table)
    write_bytes(out / README, statement.text().encode())
    digests = {
        name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in (ANSWERS, README)
    }
    manifest = {
        "kind": KIND,
        "format": 1,
        "sfumato": version,
        "privacy": statement.to_json(),
        "places": dict(places),
        "grid": GridFacts.of(frame.grid).model_dump(),
        "questions": len(told),
        "answered": sum(answer is not None for _, answer in told),
        **booked,
        "files": digests,
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    write_bytes(out / MANIFEST_NAME, text.encode())
    return [out / name for name in (ANSWERS, README, MANIFEST_NAME)]
