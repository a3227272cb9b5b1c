"""The mark of the formats: what bears another one is turned into today's, or refused.

One mark stands in everything that sfumato writes and reads again: manifests, Parquet tables, the
ledger, states of streams, measurements, posteriors. Readers ask `current` for a document of
today's format. Where a format changes, its mark becomes the next number and one entry of `STEPS`
turns a document of the mark before into it; entries are followed one after the other, so that each
is written once and never changed.

Format 1 is a draft until version 0.2 is out (docs/formats.md): until then it may change without a
step, and what an earlier commit wrote is made again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

FORMAT = "1-draft"
"""The mark of today. With version 0.2 it becomes 1."""
Document = Literal["manifest", "table", "ledger", "stream", "measurements", "posterior"]
Step = Callable[[Any], Any]
STEPS: dict[tuple[Document, str], tuple[str, Step]] = {}
"""Document and mark to the next mark, and what turns the one into the other. Of a ledger it turns
a row, given as its kind and payload; of a table its columns' names and types stand in the schema's
metadata, and the step turns the Arrow table."""


class OtherFormat(ValueError):
    """A mark from which no steps lead to today's."""

    def __init__(self, mark: object) -> None:
        text = mark if isinstance(mark, str) else ""
        self.newer = text.isdecimal() and int(text[:9]) >= int(FORMAT.partition("-")[0])
        self.problem = (
            f"it has format {text}, and this version of sfumato reads format {FORMAT}."
            if self.newer
            else "it was written by a development version before format 1."
        )
        self.remedy = "Read it with the version that wrote it." if self.newer else "Make it again."
        super().__init__(self.problem)


def steps(kind: Document, mark: object) -> list[Step]:
    """What turns a document of that mark into one of today's format, in order.

    Raises:
        OtherFormat: Nothing does.
    """
    found = []
    while mark != FORMAT:
        if not isinstance(mark, str) or (kind, mark) not in STEPS:
            raise OtherFormat(mark)
        mark, step = STEPS[kind, mark]
        found.append(step)
    return found


def current(kind: Document, mark: object, document: Any) -> Any:
    """A document of that mark as today's format has it, or `OtherFormat`."""
    for step in steps(kind, mark):
        document = step(document)
    return document
