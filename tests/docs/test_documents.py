"""The map of the documents: every numbered thing is on it, and whatever it names exists."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from click import Command
from tests.docs.pages import ROOT
from tests.docs.test_pages import PROGRAM
from typer.core import TyperGroup

from sfumato.density.registry import SCHEMES
from sfumato.streams.registry import SCHEMES as STREAMS
from sfumato.synthesis.registry import METHODS as SYNTHESIS
from sfumato_lab.studies.chapter.study import PARTS as CHAPTER
from sfumato_lab.studies.paris.study import STUDIES
from sfumato_lab.studies.queries.study import PARTS as QUERIES
from sfumato_lab.syntactic.registry import METHODS

PAGE: Path = ROOT / "docs" / "documents.md"
TEXT = PAGE.read_text("utf-8")


def _numbers(*parts: int | range) -> set[str]:
    return {str(n) for part in parts for n in (part if isinstance(part, range) else (part,))}


WANTED = {
    "Acs & Castelluccia (2014)": {
        "Definition": _numbers(range(1, 4)),
        "Theorem": _numbers(range(1, 6)),
        "Algorithm": _numbers(range(1, 5)),
        "Figure": _numbers(range(1, 12)),
    },
    "Chen et al.": {
        "Definition": {"3.1", "3.2"},
        "Theorem": {f"3.{n}" for n in range(3, 8)} | {f"6.{n}" for n in range(1, 5)},
        "Algorithm": _numbers(range(1, 6)),
        "Figure": _numbers(range(1, 13)),
        "Table": {"1"},
    },
    "Acs, Biczók & Castelluccia (2018)": {
        "Definition": _numbers(range(1, 6)),
        "Theorem": {"1", "2"},
        "Algorithm": {"1", "2"},
        "Figure": _numbers(range(1, 6)),
        "Table": {"1"},
    },
    "*Catch me if you can*": {"Figure": _numbers(range(1, 7))},
}
"""All that the documents number."""


def _section(title: str) -> str:
    return next(part for part in TEXT.split("\n## ") if part.startswith(title))


def _rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if not row[-1].strip().startswith(("here", "why not"))]


def _named(text: str, kind: str) -> set[str]:
    """Numbers after a word: `Figures 3 to 5`, `Definitions 3.1 and 3.2`, `Figure 1`."""
    found: set[str] = set()
    number = r"\d+(?:\.\d+)?"
    for first, word, last in re.findall(rf"{kind}s? ({number})(?: (to|and) ({number}))?", text):
        found |= {first} | ({last} if last else set())
        if word == "to":
            stem, _, low = first.rpartition(".")
            high = last.rpartition(".")[2]
            dot = f"{stem}." if stem else ""
            found |= {f"{dot}{n}" for n in range(int(low), int(high) + 1)}
    return found


@pytest.mark.parametrize("title", list(WANTED))
def test_everything_that_a_document_numbers_is_on_the_map(title: str) -> None:
    said = " ".join(row[0] for row in _rows(_section(title)))
    for kind, numbers in WANTED[title].items():
        assert numbers <= _named(said, kind), (kind, numbers - _named(said, kind))


def _commands(text: str) -> list[list[str]]:
    return [one.split() for one in re.findall(r"`sfumato ([a-z][^`]*)`", text)]


VALUES = {
    ("paris", "--studies"): set(STUDIES),
    ("queries", "--part"): set(QUERIES),
    ("chapter", "--part"): set(CHAPTER),
    ("release", "--scheme"): set(SCHEMES),
    ("stream", "--scheme"): set(STREAMS),
    ("traces", "--method"): set(METHODS),
    ("synth", "--method"): set(SYNTHESIS),
}


def test_every_command_option_and_value_exists() -> None:
    from sfumato_lab.cli.reproduce import PARTS as RECOVERY

    known = VALUES | {("recovery", "--part"): set(RECOVERY)}
    assert len(_commands(TEXT)) > 80
    for words in _commands(TEXT):
        found, taken = _resolved(words)
        options = {name for one in found.params for name in (*one.opts, *one.secondary_opts)}
        for at, word in enumerate(words[taken:], taken):
            if word.startswith("--"):
                assert word in options, (words, word)
                continue
            allowed = known.get((words[taken - 1], words[at - 1]))
            if allowed is not None:
                assert set(word.split(",")) <= allowed, (words, word)


def _resolved(words: list[str]) -> tuple[Command, int]:
    """The command that the words name, in full, and how many of them it took."""
    found: Command = PROGRAM
    taken = 0
    while isinstance(found, TyperGroup) and words != ["ledger"][:taken]:
        assert taken < len(words), f"sfumato {' '.join(words)} is a group of commands"
        assert words[taken] in found.commands, words
        found = found.commands[words[taken]]
        taken += 1
    return found, taken


def test_every_line_leads_to_a_command() -> None:
    for title in (*WANTED, "What they cite"):
        text = _section(title).partition("**Named, not built**")[0]
        rows = _rows(text)
        assert rows
        for row in rows:
            assert _commands(row[-1]), row
    for name in re.findall(r"`(sfumato\.[a-z_.]+)`", TEXT):
        import_module(name)


def test_what_is_not_built_says_why() -> None:
    rows = _rows(TEXT.partition("**Named, not built**")[2])
    assert len(rows) >= 6
    for name in ("(L, K, C)-privacy", "Nergiz", "Monreale", "hashing", "iReduct", "OnTheMap"):
        assert any(name in row[0] for row in rows), name
    for row in rows:
        assert len(row[1]) > 30, row
        assert not _commands(row[0])


def test_the_readme_says_what_the_page_shows() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "docs/documents.md" in readme
    assert "All of it is implemented" not in readme
