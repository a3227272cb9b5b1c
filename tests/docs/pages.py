"""Reading the documentation's pages as a reader would: what they print, run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from sfumato.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(r"^```(toml|sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of every fenced block."""
    return _BLOCK.findall(page.read_text("utf-8"))


def run(page: Path) -> None:
    """Everything that the page prints in fences, in order, in the working folder."""
    assert blocks(page), f"{named(page)} has no fenced block"
    for kind, text in blocks(page):
        if kind == "toml":
            Path("sfumato.toml").write_text(text)
        elif kind == "python":
            exec(compile(text, named(page), "exec"), {})
        else:
            for line in text.replace("\\\n", " ").splitlines():
                command, *arguments = shlex.split(line)
                assert command == "sfumato", line
                result = CliRunner().invoke(app, arguments)
                if isinstance(result.exception, Exception):
                    raise result.exception
                assert result.exit_code == 0, (line, result.output)
