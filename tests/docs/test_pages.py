"""Every page: commands and flags that exist, links that lead somewhere, a page for each command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from tests.docs.pages import PAGES, ROOT, named
from typer.core import TyperCommand, TyperGroup

from sfumato.cli.main import app

PROGRAM = typer.main.get_command(app)
assert isinstance(PROGRAM, TyperGroup)
MADE = {f"{folder}/index.md" for folder in ("commands", "benchmarks", "decisions")} | {
    f"reference/{name}.md" for name in ("api", "options", "config", "exit-codes", "manifest")
}
"""Pages that are made when the site is built (`tools/docs_site.py`), which checks these links."""
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def printed_commands(page: Path) -> Iterator[list[str]]:
    """What follows `sfumato` in blocks and in backticks, word by word."""
    text = page.read_text("utf-8").replace("\\\n", " ")
    for line in re.findall(r"^(?: {4}|\$ )?(?:.*\| )?sfumato +([a-z].*)$", text, re.MULTILINE):
        yield line.partition(" #")[0].split()
    for words in re.findall(r"`sfumato +([a-z][^`]*)`", text):
        yield words.split()


def command_of(words: list[str]) -> TyperCommand:
    """The command that the words name; groups that have a default command take it."""
    found: object = PROGRAM
    for word in words:
        if not isinstance(found, TyperGroup) or word not in found.commands:
            break
        found = found.commands[word]
    if isinstance(found, TyperGroup):
        found = found.commands["recovery"]  # `sfumato attack RELEASE`
    assert isinstance(found, TyperCommand)
    return found


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_and_flags_exist(page: Path) -> None:
    for words in printed_commands(page):
        assert words[0] in PROGRAM.commands, words[0]
        flags = _FLAG.findall(" ".join(words))
        if flags:
            params = command_of(words).params
            known = {"--help"} | {name for p in params for name in (*p.opts, *p.secondary_opts)}
            assert set(flags) <= known, (" ".join(words), set(flags) - known)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        there = (page.parent / link).resolve()
        assert there.exists() or there.relative_to(ROOT / "docs").as_posix() in MADE, link


def options(command: object, name: str) -> Iterator[tuple[str, list[str]]]:
    """Of a command, or of all commands of a group: the name, and the flags that say an option."""
    if isinstance(command, TyperGroup):
        for inner in command.commands:
            yield from options(command.commands[inner], f"{name} {inner}")
        return
    assert isinstance(command, TyperCommand)
    for one in command.params:
        if one.param_type_name == "option" and one.name != "config":  # said once, for all
            yield name, [flag for flag in (*one.opts, *one.secondary_opts) if flag[:2] == "--"]


@pytest.mark.parametrize("name", PROGRAM.commands)
def test_every_option_is_on_its_commands_page(name: str) -> None:
    page = (ROOT / "docs" / "commands" / f"{name}.md").read_text("utf-8")
    printed = set(_FLAG.findall(page))
    for command, flags in options(PROGRAM.commands[name], name):
        assert all(word in page for word in command.split()), command
        assert printed & set(flags), (command, flags)


def test_every_command_has_a_page() -> None:
    for name in PROGRAM.commands:
        assert (ROOT / "docs" / "commands" / f"{name}.md").is_file(), name


def test_the_front_door_is_short_and_says_what_it_must() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert len(readme.splitlines()) < 140
    assert "make demo" in readme
    assert "make test" in readme
    (lines,) = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert sum(1 for line in lines.splitlines() if line.strip()) <= 10
    for title in ("when not to use it", "How it compares", "Read on"):
        assert title in readme
