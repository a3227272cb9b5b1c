"""The page of the study: sections of text, tables and pictures, in Markdown and in HTML.

Both forms say the same. The HTML one has the head and the warning of other internal pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from sfumato.attacks.traces.run import head as html_head
from sfumato.attacks.traces.run import table as html_table
from sfumato.io.write import write_atomically

TITLE = "Questions to the data"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with what it shows."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure by the name of its file, and what is to be seen in it."""

    file: str
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """What a part of the study found."""

    title: str
    blocks: Sequence[str | Grid | Picture]

    def markdown(self) -> str:
        """The section with its heading."""
        parts = [f"## {self.title}"]
        for block in self.blocks:
            if isinstance(block, Grid):
                parts.append(f"**{block.caption}**\n\n{table(block.head, block.rows)}")
            elif isinstance(block, Picture):
                parts.append(f"![{block.caption}]({block.file})\n\n*{block.caption}*")
            else:
                parts.append(block)
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        """The same."""
        parts = [f"<h2>{escape(self.title)}</h2>"]
        for block in self.blocks:
            if isinstance(block, Grid):
                rows = [list(row) for row in block.rows]
                parts.append(f"<h3>{escape(block.caption)}</h3>")
                parts.append(html_table(list(block.head), rows))
            elif isinstance(block, Picture):
                words, file = escape(block.caption), escape(block.file)
                parts.append(f'<p><img src="{file}" alt="{words}"><br><em>{words}</em></p>')
            else:
                parts.append(f"<p>{escape(block)}</p>")
        return "\n".join(parts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def markdown_page(sections: Sequence[Section], title: str = TITLE) -> str:
    """All sections under one heading."""
    title = f"# {title} (internal: compares with true counts)\n"
    return "\n".join([title, *(section.markdown() for section in sections)])


def html_page(sections: Sequence[Section], title: str = TITLE) -> str:
    """The same as a page for a browser; pictures lie beside it."""
    parts = [html_head(title), f"<h1>{title}</h1>", *(section.html() for section in sections)]
    return "\n".join([*parts, "</html>", ""])


def save_figure(figure: Any, path: Path) -> None:
    """Write a PNG, whole or not at all."""

    def save(to: Path) -> None:
        figure.savefig(to, format="png", dpi=110, metadata={"Software": None})

    write_atomically(path, save)


Tell = Callable[[str, float], None]
"""Told what is being done, and which share of it is."""
