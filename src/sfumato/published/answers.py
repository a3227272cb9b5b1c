"""What questions to a release are answered with: totals, comparisons, rankings, profiles, verdicts.

An answer is a small table with a headline. It prints itself, is HTML in a notebook, a data frame
(`to_pandas`), a table of Arrow, JSON (`numbers`) and a picture (`plot`). Where the release keeps no
posterior, numbers stand without an interval and verdicts are `None`: nothing is made up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from sfumato.errors import printable
from sfumato.published.estimate import Estimate

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Row = Mapping[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """An answer: what was asked, what comes first, and a table.

    The classes below are the kinds of it.
    """

    question: str
    """What was asked, in words."""
    headline: str
    """The answer in a line."""
    rows: Sequence[Row]
    """Column to value; values may be `Estimate`s."""
    notes: Sequence[str] = ()
    """What to take note of."""
    signature: str = ""
    """Release, scheme and privacy loss, as pictures show it."""

    _least_rows: ClassVar[int] = 2
    """Fewer rows than this are told by the headline alone."""

    @property
    def kind(self) -> str:
        """`total`, `comparison`, `ranking`, `profile`, `usual`, `presence` or `table`."""
        return type(self).__name__.lower()

    def table(self) -> pa.Table:
        """The rows; an estimate is four columns: the number, `_lower`, `_upper`, `_coverage`."""
        return pa.Table.from_pylist([dict(_flat(row)) for row in self.rows])

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a data frame, with the columns of `table`."""
        frame: pd.DataFrame = self.table().to_pandas()
        return frame

    def numbers(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "kind": self.kind,
            "question": self.question,
            "answer": self.headline,
            "rows": [{key: _plain(value) for key, value in row.items()} for row in self.rows],
            "notes": list(self.notes),
            "release": self.signature,
        }

    def lines(self) -> list[str]:
        """The answer as text: headline, question, table, notes."""
        table = self._text_table() if len(self.rows) >= self._least_rows else []
        return [
            *map(printable, (self.headline, self.question)),
            *table,
            *map(printable, self.notes),
        ]

    def plot(self) -> Figure:
        """A matplotlib figure: bars with their intervals, or a line with its band.

        Raises:
            UsageError: There is nothing to draw, or matplotlib is not installed.
        """
        from sfumato.reports.answers import draw

        return draw(self)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        said = f"{self.headline}; {self.question}"
        said = printable(said)
        return f"<{self.kind}: {said if len(said) <= 96 else said[:95] + '…'}>"

    def _repr_html_(self) -> str:
        heads = [*self.rows[0]] if self.rows else []
        head = "".join(f"<th>{escape(words_of(name))}</th>" for name in heads)
        body = "".join(
            "<tr>"
            + "".join(f"<td>{escape(shown(row[name], name))}</td>" for name in heads)
            + "</tr>"
            for row in self.printed()
        )
        left = len(self.rows) - len(self.printed())
        more = f"<div>and {left:,} more rows</div>" if left > 0 else ""
        notes = "".join(
            f"<div><small>{escape(printable(note))}</small></div>" for note in self.notes
        )
        return (
            f"<div><b>{escape(printable(self.headline))}</b></div>"
            f"<div>{escape(printable(self.question))}</div>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}{notes}"
        )

    def _text_table(self) -> list[str]:
        """Aligned columns, numbers to the right; cut where it would fill screens."""
        rows = self.printed()
        heads = [*rows[0]]
        cells = [[shown(row[name], name) for name in heads] for row in rows]
        right = [not isinstance(rows[0][name], str) for name in heads]
        titles = [words_of(name) for name in heads]
        wide = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
        lines = [
            "  ".join(
                text.rjust(size) if to_right else text.ljust(size)
                for text, size, to_right in zip(line, wide, right, strict=True)
            ).rstrip()
            for line in (titles, *cells)
        ]
        left = len(self.rows) - len(rows)
        cut = [f"and {left:,} more rows"] if left > 0 else []
        return ["", *lines, *cut, ""]

    def printed(self) -> Sequence[Row]:
        """The rows that are worth a terminal's lines."""
        return self.rows[:_MOST_SHOWN]


_FEW = 12
_MOST_SHOWN = 200
"""Rows that are printed: a week of hours. Tables and JSON have all of them."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Total(Answer):
    """A sum or a share."""

    estimate: Estimate


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Comparison(Answer):
    """Two sums beside each other, or two averages where they have unequally many slots."""

    first: Estimate
    second: Estimate
    difference: Estimate
    """The first less the second."""
    ratio: Estimate | None
    """The first over the second; `None` where the second is zero."""

    @property
    def clear(self) -> bool | None:
        """Whether the interval of the difference leaves zero out; `None` without an interval."""
        if self.difference.lower is None:
            return None
        low, high = self.difference.ends
        return low > 0 or high < 0


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Answer):
    """Places or times in order, each with how sure its rank is."""


@dataclass(frozen=True, eq=False, repr=False)
class Profile(Answer):
    """An average for each hour of the day, weekday, day, slot or place."""


@dataclass(frozen=True, eq=False, repr=False)
class Usual(Answer):
    """Slots against the same weekday and hour at other times."""

    @property
    def unusual(self) -> list[Row]:
        """The rows that are unusual."""
        return [row for row in self.rows if row["unusual"]]

    def printed(self) -> Sequence[Row]:
        """Those that are unusual, and a few that come next."""
        odd = len(self.unusual)
        if len(self.rows) <= _FEW or self.rows[0]["chance"] is None:
            return self.rows[:_MOST_SHOWN]
        rarest = sorted(self.rows, key=lambda row: float(row["chance"]))[: max(odd + 3, _FEW)]
        return rarest[:_MOST_SHOWN]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Presence(Answer):
    """How many may be somewhere at one moment."""

    estimate: Estimate
    at_most: float | None
    """What the number does not exceed, as surely as was asked; `None` without an interval."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Table(Answer):
    """What SQL over the released tables gives."""

    result: pa.Table
    _least_rows: ClassVar[int] = 1

    def table(self) -> pa.Table:
        return self.result

    def numbers(self) -> dict[str, Any]:
        """Every row, not only those that are printed."""
        rows = [{key: _plain(one) for key, one in row.items()} for row in self.result.to_pylist()]
        return super().numbers() | {"rows": rows}


def words_of(column: str) -> str:
    return printable(column.replace("_", " "))


_SHARES = frozenset({"chance", "chance_below", "chance_in_top", "relative", "sure"})
"""Columns of probabilities and shares, which are shown in per cent."""


def shown(value: object, column: str = "") -> str:
    """A cell as text."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.strftime("%a %Y-%m-%d %H:%M")
    if isinstance(value, float) and column in _SHARES:
        sign = "+" if column == "relative" else ""
        return f"{100 * value:{sign}.{1 if abs(value) < 0.1 else 0}f} %"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return printable(str(value))


def _flat(row: Row) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Estimate):
            yield name, value.value
            yield f"{name}_lower", value.lower
            yield f"{name}_upper", value.upper
            yield f"{name}_coverage", value.coverage
        else:
            yield name, value


def _plain(value: object) -> Any:
    if isinstance(value, Estimate):
        ends = {"value": value.value, "lower": value.lower, "upper": value.upper}
        return {**ends, "coverage": value.coverage, "text": str(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
