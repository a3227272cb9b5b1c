"""What an engine says about a bad file, without the record that it quotes.

Its messages hold the offending line and value. Only the line number and the kind of
trouble are taken over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sfumato.model.errors import InputError

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
