"""`sfumato.inspect`: a look at the rows, for the holder alone, and lines that state how to read."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from sfumato.engine.local import DropReason
from sfumato.io.files import first_line
from sfumato.model.rounding import number_of, percent

UNREADABLE = str(DropReason.UNREADABLE)
MATCHED = "of known places"
_SHOWN = 5
"""Files without rows that are named; in JSON all are."""


@dataclass(slots=True)
class Inspection:
    """What was found. All of it is internal."""

    source: str
    files: int = 0
    unfit: list[tuple[str, str]] = field(default_factory=list)
    columns: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, type and part of every column, of the first file of each kind."""
    rows: Counter[str] = field(default_factory=Counter)
    """Rows read, and those that lack something, by reason."""
    span: tuple[int, int] | None = None
    extents: dict[str, tuple[str, dict[str, object]]] = field(default_factory=dict)
    """How large the places and the events' positions are, in words and as numbers."""
    people: int = 0
    remarks: list[str] = field(default_factory=list)
    suggested: dict[str, Any] = field(default_factory=dict)
    """Options to write down: `time-unit`, `events-tz`, `column`."""
    clock_is_open: bool = False
    """Whether there are times whose clock nobody has stated."""

    def lines(self) -> list[str]:
        """For the holder's eyes."""
        told = [f"{self.source}: {self.files} files" if self.files > 1 else self.source]
        told += [f"  {name}: gives no rows. {why}" for name, why in self.unfit[:_SHOWN]]
        if len(self.unfit) > _SHOWN:
            told.append(f"  … and {len(self.unfit) - _SHOWN:,} more files give no rows")
        width = max((len(name) for name, _, _ in self.columns), default=0)
        told += [f"  {name:<{width}}  {kind:<26} {part}" for name, kind, part in self.columns]
        read = self.rows["read"]
        told.append(f"  {number_of(read, 'rows')} of {number_of(self.people, 'people')}")
        told += [
            f"  {number_of(number, 'rows')} ({percent(number / max(read, 1), 2)}): {why}"
            for why, number in self.rows.items()
            if why != "read" and number
        ]
        if self.span is not None:
            first, last = (_instant(edge) for edge in self.span)
            days = (self.span[1] - self.span[0]) / 86_400e6
            told.append(f"  from {first} to {last} (UTC); the period is yours to choose")
            told.append(
                f"  {days:,.3g} days, with {read / max(self.people * days, 1e-9):,.3g} rows per "
                "person and day"
            )
        told += [f"  {words}" for words, _ in self.extents.values()]
        return told + [f"  note: {remark}" for remark in self.remarks]

    def __repr__(self) -> str:
        return f"<Inspection, INTERNAL: {self.source}, {self.files} files>"

    def _repr_html_(self) -> str:
        return f"<pre>internal: do not publish\n{escape(chr(10).join(self.lines()))}</pre>"

    @property
    def usable(self) -> bool:
        """Whether any row has all of its parts and, where places were given, lies in one."""
        faults = ["no user", "no time", "not a time", "no place"]
        faults.append("missing or impossible coordinates")
        read = self.rows["read"] - self.rows[UNREADABLE]
        return read > max(self.rows[why] for why in faults) and self.rows.get(MATCHED, 1) > 0

    def toml(self) -> list[str]:
        """Lines of `sfumato.toml` that state how the events are read.

        They stand above its tables: `evaluate` and others must read as `release` does.
        """
        made = [f"{key} = {_toml(value)}" for key, value in self.suggested.items()]
        if self.clock_is_open:
            made.append('# events-tz = "UTC"      # whose clock are the times on? else that of tz')
        return [f"events = {_toml(self.source)}", *made]

    def numbers(self) -> dict[str, Any]:
        """The same for a program, under `internal` where it is printed."""
        return {
            "source": self.source,
            "files": self.files,
            "files_without_rows": [{"file": name, "why": why} for name, why in self.unfit],
            "columns": [
                {"name": name, "type": kind, "part": part} for name, kind, part in self.columns
            ],
            "rows": dict(self.rows),
            "people": self.people,
            "span": None if self.span is None else [_instant(edge) for edge in self.span],
            "extents": {name: numbers for name, (_, numbers) in self.extents.items()},
            "remarks": self.remarks,
            "suggested": self.suggested,
        }


def field_kinds(path: Path) -> str:
    """What the fields of a file's first line look like, without what they hold.

    For files without a header, whose columns are chosen by number; nothing where the line cannot
    be cut into fields.
    """
    line = first_line(path).partition(b"\n")[0].decode("utf-8", "replace").strip()
    delimiter = max(",;\t|", key=line.count)
    try:
        fields = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return ""
    kinds = [f"{number} {_kind(text.strip())}" for number, text in enumerate(fields, start=1)]
    name = {"\t": "tsv", ";": "ssv", "|": "psv"}.get(delimiter)
    apart = "" if name is None or len(kinds) < 2 else f" (`format={name!r}`)"
    return ", ".join(kinds[:40]) + apart


_FORMS = (
    (re.compile(r""), "nothing"),
    (re.compile(r"[-+]?\d+,\d+"), "a number with a decimal comma, which is not read"),
    (re.compile(r"\d{1,4}[/.]\d{1,2}[/.]\d{1,4}\b.*"), "a date that is not ISO 8601 and not read"),
)


def _kind(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        return "a whole number" if number.is_integer() and "." not in text else "a number"
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return next((said for form, said in _FORMS if form.fullmatch(text)), "a text")
    return "a time"


def _instant(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).isoformat()


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(part)}" for key, part in value.items()) + " }"
    return json.dumps(str(value), ensure_ascii=False)
