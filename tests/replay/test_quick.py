"""The gate on the product's own schemes: a person who joins changes nothing that is published."""

from __future__ import annotations

from importlib import import_module
from typing import get_type_hints

import pytest
from tests.replay import verbs
from tests.replay.gate import Case, Gate
from typer.models import ArgumentInfo

from sfumato.cli.main import COMMANDS, PUBLISH

pytestmark = [pytest.mark.privacy, pytest.mark.xdist_group("replay")]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Gate:
    return Gate(tmp_path_factory.mktemp("replay"))


@pytest.mark.parametrize(
    ("case", "person", "format", "true_looking"),
    [pytest.param(*each, id=f"{each[0].name}-{each[1]}-{each[2]}") for each in verbs.quick()],
)
def test_nothing_that_is_published_tells_that_somebody_joined(
    gate: Gate, case: Case, person: str, format: str, true_looking: bool
) -> None:
    assert gate.leaks(case, person, format, true_looking) == []
    run = gate.base(case, format, true_looking)
    assert run.published.code == 0, run.published.err
    assert run.published.files or run.published.out
    assert case.by_rules or run.recorder.measured


def given_records(name: str) -> bool:
    """Whether a command has an argument without a flag: what it reads."""
    module = import_module(COMMANDS[name].module)
    app = getattr(module, "app", None)
    own = [getattr(module, name)] if app is None else [c.callback for c in app.registered_commands]
    hints = [get_type_hints(each, include_extras=True) for each in own]
    return any(
        isinstance(mark, ArgumentInfo)
        for parameters in hints
        for hint in parameters.values()
        for mark in getattr(hint, "__metadata__", ())
    )


def test_every_command_that_publishes_from_records_is_replayed() -> None:
    """What others offer may publish, too: the laboratory's rules are among it."""
    offered = COMMANDS.keys() - set(COMMANDS.own)
    commands = {name for name, entry in COMMANDS.items() if entry.panel == PUBLISH} | offered
    records = {name for name in commands if given_records(name)}
    assert commands - records == {"plan", "reproduce"}
    assert records == set(verbs.VERBS)
    assert all(next(cases()).words[0] == name for name, cases in verbs.VERBS.items())
