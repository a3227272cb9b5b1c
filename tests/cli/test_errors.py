"""Python's errors speak Python, the command's speak flags; one text is the source of both."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.test_config import PROGRAM, leaves
from tests.cli.test_program import command_named
from typer.testing import CliRunner

import sfumato
from sfumato.cli.command import say_in_flags
from sfumato.cli.main import app
from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.model.counts import SampleBound
from sfumato.model.time_grid import TimeGrid

SOURCE = Path(sfumato.__file__).parent
PEOPLE = ["--expected-users", "1000", "--epsilon", "1", "--delta", "1e-5", "--zone-count", "4"]


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ("Give `start` and `end`.", "Give --from and --to."),
        ("Check `zone_id`.", "Check --zone-id."),
        ("Write `bound='sample:30'`.", "Write --bound sample:30."),
        ("Try `delta=5e-08` or less.", "Try --delta 5e-08 or less."),
        (
            "Write `start='2007-09-10', end='2007-09-17'`.",
            "Write --from 2007-09-10 --to 2007-09-17.",
        ),
        ("`column={'user': 'imsi', 'time': NAME}`", "--column user=imsi --column time=NAME"),
        ("`columns={'user': 'a b'}`", "--column 'user=a b'"),
        ("`parameter={'visits': 12}`", "--parameter visits=12"),
        ("Give `repair_zones=True`.", "Give --repair-zones."),
        ("Give `events` again.", "Give EVENTS again."),
        ("See `sfumato.inspect`.", "See `sfumato inspect`."),
        ("See `sfumato.plan(suggest=True)`.", "See `sfumato plan --suggest`."),
        # What the command does not have stays as it is, and so does what is no parameter.
        ("Give `follow=True`.", "Give `follow=True`."),
        ("The extra `rnn`, `a b`, `f(x)`, `1`.", "The extra `rnn`, `a b`, `f(x)`, `1`."),
    ],
)
def test_what_stands_in_backticks_becomes_a_flag(python: str, command: str) -> None:
    error = InputError("nothing to count.", file="events.csv", remedy=python)
    say_in_flags(error, command_named(["release"]).params)
    assert error.remedy == command
    assert str(error) == f"events.csv: nothing to count. {command}"
    assert error.file == "events.csv"


def test_words_of_the_ledger_are_those_of_its_commands() -> None:
    error = UsageError("No cap.", remedy="Give `epsilon` and `delta`, or `rho`; see `key`.")
    say_in_flags(error, command_named(["ledger", "init"]).params)
    assert error.remedy == "Give --cap-epsilon and --cap-delta, or --cap-rho; see --ledger-key."


def test_an_option_that_is_on_has_a_way_to_say_off() -> None:
    error = UsageError("Slow.", remedy="Give `earth_mover=False`.")
    say_in_flags(error, command_named(["evaluate"]).params)
    assert error.remedy == "Give --no-earth-mover."


def test_one_mistake_in_python_and_on_the_command_line() -> None:
    from datetime import date

    with pytest.raises(UsageError) as python:
        TimeGrid.between(date(2024, 3, 5), date(2024, 3, 4), "1h", "UTC")
    assert "`end` is the first day" in python.value.remedy
    days = ["--from", "2024-03-05", "--to", "2024-03-04"]
    command = CliRunner().invoke(app, ["plan", *PEOPLE, *days]).exception
    assert isinstance(command, UsageError)
    assert "--to is the first day" in command.remedy
    assert "`" not in str(command)
    with pytest.raises(UsageError) as bound:
        SampleBound(0)
    assert "`bound='sample:30'`" in str(bound.value)
    told = CliRunner().invoke(app, ["plan", *PEOPLE, "--bound", "sample:0", "--scheme", "gaussian"])
    assert isinstance(told.exception, SfumatoError)
    assert "--bound sample:30" in str(told.exception)


def texts(path: Path) -> Iterator[str]:
    """The strings of a file, docstrings left out."""
    tree = ast.parse(path.read_text("utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [getattr(part, "value", None) for part in node.values]
            yield "".join(part if isinstance(part, str) else "{}" for part in parts)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
        ):
            yield node.value


def test_python_does_not_speak_in_flags() -> None:
    """Messages of the packages below the command name parameters, not options."""
    commands = [command_named(names) for names in leaves(PROGRAM)]
    flags = {flag for command in commands for one in command.params for flag in one.opts}
    for path in SOURCE.rglob("*.py"):
        if path.is_relative_to(SOURCE / "cli"):
            continue
        whole = [text for text in texts(path) if "--" in text]
        for text in whole:
            if any(text != other and text in other for other in whole):
                continue  # a piece of a longer one
            # A whole command may be named: one runs it in a shell.
            said = re.findall(r"(?<![\w-])--[a-z][a-z-]*", text.split("sfumato ")[0])
            assert not flags.intersection(said), (path.name, text)
