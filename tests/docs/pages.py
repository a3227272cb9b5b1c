"""Reading the documentation's pages as a reader would: what they print, run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.install.hiding import hide
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.model.extras import EXTRAS

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FRONT = [
    ROOT / "README.md",
    ROOT / "docs" / "tutorial.md",
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
]
"""Pages that a reader begins with: each says how its environment is made, or where it begins."""
_INSTALL = re.compile(r"^    pip install '?\.(?:\[([\w,]+)\])?'?(?: +#.*)?$", re.MULTILINE)
_BEGINS = re.compile(r"^\*Begins where \[before you begin\]\((\S+)#", re.MULTILINE)
_BLOCK = re.compile(r"^```(toml|sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of every fenced block."""
    return _BLOCK.findall(page.read_text("utf-8"))


def begins_at(page: Path) -> Path | None:
    """The page whose blocks come before those of this one, where it names one."""
    named = _BEGINS.search(page.read_text("utf-8"))
    return None if named is None else page.parent / named[1]


def installed(page: Path) -> set[str]:
    """The extras that the page, or the one where it begins, tells the reader to install."""
    text = (begins_at(page) or page).read_text("utf-8")
    (extras,) = _INSTALL.findall(text)
    return set(EXTRAS) - {"rnn"} if extras == "all" else set(extras.split(",")) - {""}


def run(page: Path) -> None:
    """Everything that the page prints in fences, in order, in the working folder.

    On a page that a reader begins with, what its install line does not bring is not there.
    """
    with pytest.MonkeyPatch.context() as patch:
        if page in FRONT:
            for extra in sorted(set(EXTRAS) - installed(page)):
                hide(patch, extra)
        _run(page)


def _run(page: Path) -> None:
    assert blocks(page), f"{named(page)} has no fenced block"
    for kind, text in blocks(page):
        if kind == "toml":
            Path("sfumato.toml").write_text(text)
        elif kind == "python":
            exec(compile(text, named(page), "exec"), {})
        else:
            for line in text.replace("\\\n", " ").splitlines():
                command, *arguments = shlex.split(line, comments=True)
                assert command == "sfumato", line
                result = CliRunner().invoke(app, arguments)
                if isinstance(result.exception, Exception):
                    raise result.exception
                assert result.exit_code == 0, (line, result.output)
