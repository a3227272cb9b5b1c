"""The command as a whole: what it loads, how it is asked for help, what every command has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest
import typer
from tests.cli.test_config import PROGRAM, leaves
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import COMMANDS, app
from sfumato.cli.options import PANELS, TABLE

HEAVY = {"numpy", "pyarrow", "numba", "duckdb", "scipy", "pandas", "shapely", "sqlalchemy"}


def command_named(names: list[str]) -> Any:
    found: Any = PROGRAM
    for name in names:
        found = found.commands[name]
    return found


def loaded(*arguments: str) -> tuple[str, set[str]]:
    """What the command prints, and which heavy packages it has imported by then."""
    program = (
        "import sys, atexit\n"
        f"heavy = {sorted(HEAVY)!r}\n"
        "atexit.register(lambda: print('LOADED', *(n for n in heavy if n in sys.modules)))\n"
        "from sfumato.cli.main import run\n"
        f"sys.argv = ['sfumato', *{list(arguments)!r}]\n"
        "run()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    printed, _, names = done.stdout.partition("LOADED")
    return printed, set(names.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["release", "-h"]], ids=" ".join)
def test_help_and_version_load_no_engine(arguments: list[str]) -> None:
    printed, heavy = loaded(*arguments)
    assert "sfumato" in printed
    assert not heavy


def ended(before: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own, after some lines of Python."""
    program = (
        f"{before}\n"
        "import sys\n"
        "from sfumato.cli.main import program\n"
        f"sys.argv = ['sfumato', *{list(arguments)!r}]\n"
        "program()\n"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


UNDONE = "class Undone:\n    def __del__(self): print('taken apart')\nundone = Undone()\n"


def test_a_process_ends_without_taking_modules_apart() -> None:
    """But with its exit code, all that it printed, and everybody called who asked for it."""
    done = ended(UNDONE, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("sfumato ")
    assert "taken apart" not in done.stdout
    assert ended(UNDONE, "no-such-command").returncode == 2
    earlier = ended(f"{UNDONE}import atexit; atexit.register(print, 'called')", "--version")
    assert earlier.stdout.splitlines()[1:] == ["called", "taken apart"]
    later = (
        f"{UNDONE}import atexit, threading, time, sfumato.cli.main as main\n"
        "def run(of=main.run):\n"
        "    atexit.register(print, 'called')\n"
        "    wait = lambda: (time.sleep(0.2), print('waited for'))\n"
        "    threading.Thread(target=wait).start()\n"
        "    of()\n"
        "main.run = run"
    )
    assert ended(later, "--version").stdout.splitlines()[1:] == ["waited for", "called"]


def test_lists_load_nothing_of_what_others_offer() -> None:
    """The tables of offers alone: what stands in them is loaded when it is run."""
    for words in (["--help"], ["attack", "--help"], ["release", "--help"]):
        program = (
            "import sys, atexit\n"
            "names = lambda: [n for n in sys.modules if n.partition('.')[0] == 'sfumato_lab']\n"
            "atexit.register(lambda: print('LOADED', *names()))\n"
            "from sfumato.cli.main import run\n"
            f"sys.argv = ['sfumato', *{words!r}]\n"
            "run()\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        names = done.stdout.partition("LOADED")[2].split()
        assert set(names) <= {"sfumato_lab", "sfumato_lab.offers"}, words


def test_no_command_loads_an_engine_before_it_runs() -> None:
    """So that a file of settings, which is checked against all commands, is read at once."""
    program = (
        "import sys, typer\n"
        "from sfumato.cli.main import app\n"
        "commands = typer.main.get_command(app).commands\n"
        "[commands[name] for name in commands]\n"
        f"print(*(n for n in {sorted(HEAVY)!r} if n in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sfumato", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"sfumato {sfumato.__version__}\n"


@pytest.mark.parametrize(
    "names", [[], ["attack"], ["ledger"], ["reproduce"], *leaves(PROGRAM)], ids=" ".join
)
def test_every_help_is_asked_for_with_h_and_ends_with_an_example(names: list[str]) -> None:
    short, long = (CliRunner().invoke(app, [*names, flag]) for flag in ("-h", "--help"))
    assert short.exit_code == long.exit_code == 0
    assert short.output == long.output
    if names:
        example = short.output.partition("Example:")[2]
        assert f"sfumato {names[0]}" in example, short.output


def test_commands_stand_in_panels_by_what_they_are_for() -> None:
    text = CliRunner().invoke(app, ["-h"]).output
    panels = re.findall(r"─ ([a-z][a-z, :]+?) ─", text)
    assert [panel.split(":")[0] for panel in panels] == [
        "begin",
        "publish with differential privacy, charged to the ledger",
        "use what is published",
        "internal",
        "ledger",
        "laboratory",
    ]
    for name in COMMANDS:
        assert re.search(rf"│ {name} ", text)


@pytest.mark.parametrize("names", leaves(PROGRAM), ids=" ".join)
def test_options_stand_in_panels_required_ones_first(names: list[str]) -> None:
    command = command_named(names)
    with command.make_context("x", [], resilient_parsing=True) as context:
        options = [one for one in command.get_params(context) if one.param_type_name == "option"]
    panels = [one.rich_help_panel for one in options]
    assert sorted(panels, key=PANELS.index) == panels
    for one in options:
        assert (one.rich_help_panel == "required") == one.required
        # What looks like a tag of the help's markup would not be printed.
        assert not re.search(r"\[[a-z#/@]", one.help), one.help


def test_an_option_that_several_commands_have_is_declared_once() -> None:
    """Or it is a word that a command has in another sense, and these are known."""
    homonyms = set()
    for names in leaves(PROGRAM):
        for one in command_named(names).params:
            flag = max(one.opts, key=len)
            if flag in TABLE and one.help not in TABLE[flag]:
                homonyms.add((" ".join(names), flag))
    assert homonyms == {
        ("anonymise counts", "--seed"),
        ("anonymise traces", "--seed"),
        ("ask", "--earlier"),
        ("ask", "--from"),
        ("ask", "--out"),
        ("ask", "--to"),
        ("ask", "--zones"),
        ("city", "--from"),
        ("city", "--towers"),
        ("city", "--tz"),
        ("city", "--zones"),
        ("export", "--to"),
        ("hotspots", "--region"),
        ("init", "--out"),
        ("ledger allow", "--cap-delta"),
        ("ledger allow", "--cap-epsilon"),
        ("query", "--epsilon"),
        ("reproduce chapter", "--towers"),
        ("reproduce chapter", "--zones"),
        ("reproduce frontier", "--towers"),
        ("reproduce frontier", "--zones"),
        ("reproduce paris", "--towers"),
        ("reproduce paris", "--zones"),
        ("reproduce queries", "--towers"),
        ("reproduce queries", "--zones"),
        ("reproduce recovery", "--scheme"),
        ("sanitise", "--delta"),
        ("sanitise", "--epsilon"),
        ("spread", "--slot"),
    }


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("sfumato rel", ["release"]),
        ("sfumato release --expected", ["--expected-users"]),
        ("sfumato ledger in", ["init"]),
        ("sfumato ledger init --cap-r", ["--cap-rho"]),
    ],
)
def test_the_shell_completes_commands_and_options(words: str, offered: list[str]) -> None:
    asked = {
        "_SFUMATO_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "sfumato"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | asked,
    )
    assert done.stdout.split() == offered


def test_completion_can_be_shown_and_installed() -> None:
    flags = {flag for one in typer.main.get_command(app).params for flag in one.opts}
    assert {"--install-completion", "--show-completion"} <= flags


def test_every_command_of_the_table_has_its_file() -> None:
    for name, entry in COMMANDS.items():
        assert find_spec(entry.module) is not None, name
