"""Errors that say what is wrong, where, and what to do, and never show a record.

Exit codes of the command follow from the class: 1 the data or the request is at
fault, 2 wrong usage, 3 the budget refuses.

Whatever a message quotes (a path, the id of a tower, the name of a column) was written by somebody
else. `presentable` keeps it within a few lines, leaves a password out, and shows what is no
character as an escape, so that no name of a file commands a terminal.

What can go wrong with a ledger, in words for its holder. No record is ever shown.

What an engine says about a bad file, without the record that it quotes.

Its messages hold the offending line and value. Only the line number and the kind of
trouble are taken over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

LONGEST_WORD = 160
"""Characters of a path, an id or a name that a message repeats; of longer ones both ends."""
_KEPT = 60
MOST_LINES = 5
"""Lines of a problem, and of a remedy: ten together."""
LONGEST_LINE = 1200
"""Characters of one of these lines."""
TOO_LONG = "The name of a file is longer than the file system allows."
_PASSWORD = re.compile(
    r"((?:passw(?:or)?d|passfile|pwd|secret)[\"']?\s*[=:]).*", re.IGNORECASE | re.DOTALL
)
"""What follows it is left out to the end: where a password ends cannot be known."""
_USERINFO = re.compile(r"(:/+[^\s/:@]*):(?!\d+(?:[^\w@]|$))(?:.*@|(?!/)\S+)")
"""`//user:password@`, also where the address is cut off; `//host:9092` has a port."""


_UNSHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls (C0, C1, delete), what turns a line around, ends it or cannot be seen, and halves of
characters. Joiners, which some scripts need inside of a word, are none of them."""


def printable(text: str) -> str:
    """A text on one line that neither a terminal nor a page takes for a command.

    Example:
        >>> printable("a\x1b[31mb")
        'a\\\\x1b[31mb'
    """
    return _UNSHOWN.sub(lambda sign: ascii(sign[0])[1:-1], text)


def is_printable(text: str) -> bool:
    """Whether `printable` leaves a text as it is."""
    return _UNSHOWN.search(text) is None


def without_secrets(text: str) -> str:
    """A text without the password that an address or a connection string in it may hold."""
    return _PASSWORD.sub(r"\1…", _USERINFO.sub(r"\1:…@", text))


def presentable(text: str) -> str:
    """A text of at most `MOST_LINES` lines that a terminal and a log can show."""
    lines = without_secrets(text).split("\n")
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], "…"]
    return "\n".join(_line(line) for line in lines)


def _line(text: str) -> str:
    words = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text).split(" ")
    line = " ".join(w if len(w) <= LONGEST_WORD else f"{w[:_KEPT]}…{w[-_KEPT:]}" for w in words)
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


class SfumatoError(Exception):
    """Base of every error that is meant for the user's eyes."""

    exit_code: ClassVar[int] = 1

    def __init__(self, problem: str, *, remedy: str = "") -> None:
        self.problem = presentable(problem)
        self.remedy = presentable(remedy)
        super().__init__(f"{self.problem} {self.remedy}".strip())


class InputError(SfumatoError):
    """The data is at fault. Names the file, the column and the row *number*, never a value."""

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        column: str | None = None,
        row: int | None = None,
        remedy: str = "",
    ) -> None:
        self.file = file
        self.column = column
        self.row = row
        where = ", ".join(
            part
            for part in (
                # Apart from the problem, which would go with all that follows a password.
                presentable(file or ""),
                f"column {column!r}" if column is not None else "",
                f"row {row}" if row is not None else "",
            )
            if part
        )
        super().__init__(f"{where}: {problem}" if where else problem, remedy=remedy)


class UsageError(SfumatoError):
    """The request itself makes no sense: a missing or contradictory option."""

    exit_code = 2


class Unfit(SfumatoError):
    """Public facts say that a release or a stream would be of no use. Nothing was spent."""


class BudgetRefused(SfumatoError):
    """The ledger says no. Carries what is left and what would fit."""

    exit_code = 3

    def __init__(
        self,
        problem: str,
        *,
        remaining_rho: float | None = None,
        would_fit_epsilon: float | None = None,
        remedy: str = "",
    ) -> None:
        self.remaining_rho = remaining_rho
        self.would_fit_epsilon = would_fit_epsilon
        super().__init__(problem, remedy=remedy)


class PrivateNumbers(SfumatoError):
    """Code tried to look at numbers that have not passed the wall."""


_KINDS = (
    ("unterminated quote", "a quotation is opened and never closed"),
    ("not utf-8", "the text is not UTF-8"),
    ("utf-8", "the text is not UTF-8"),
    ("unicode", "the text is not UTF-8"),
    ("expected number of columns", "the line has another number of fields than the header"),
    ("maximum line size", "the line is longer than a record can be"),
    ("ended prematurely", "the compressed file is damaged"),
    ("invalid state", "the line ends are mixed, or the text does not follow RFC 4180"),
    ("gzip", "the compressed file is damaged"),
)


def csv_error(error: Exception, files: Sequence[str]) -> InputError:
    """The error to show for CSV files that DuckDB could not read. Row 1 follows the header."""
    message = str(error)
    lowered = message.lower()
    line = re.match(r".*?CSV Error on Line: (\d+)\n", message, re.DOTALL)
    problem = next((text for key, text in _KINDS if key in lowered), "the line cannot be read")
    found = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)\n", message)
    if found:
        problem = f"the line has {found[2]} fields, the header {found[1]}"
    return InputError(
        f"{problem}.",
        file=mentioned(message, files),
        row=max(int(line[1]) - 1, 1) if line else None,
        remedy="Correct or remove the line.",
    )


def parquet_error(error: Exception, files: Sequence[str]) -> InputError:
    """The error to show for Parquet files that cannot be opened or decoded."""
    if "at least one non-root column" in str(error):
        return InputError("the file has no columns.", file=mentioned(str(error), files))
    return InputError(
        "the Parquet file is damaged or cut short.",
        file=mentioned(str(error), files),
        remedy="Copy or write it again.",
    )


def mentioned(message: str, files: Sequence[str]) -> str | None:
    """Which of the known files a message is about; nothing else is taken from it."""
    if len(files) == 1:
        return files[0]
    about = [file for file in files if file in message]
    return max(about, key=len) if about else None


class LedgerError(SfumatoError):
    """The ledger cannot be opened, read or written. Exit code 1."""


class LedgerBroken(LedgerError):
    """The ledger was altered: a row was edited, removed, reordered or cut off."""


class ReservationRefused(LedgerError):
    """The rerun is not the release that was reserved, or its key is gone."""
