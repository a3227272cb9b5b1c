"""A quick part of `make fuzz`: every good line is good, and some hundred spoiled ones keep the
rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz import verbs
from tests.fuzz.program import EVERY, World, told

import sfumato
import sfumato_lab
from sfumato.cli.main import COMMANDS

LINES = 60
CALLS = 120
FIRST = 7_000_000


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def test_a_line_of_each_command_is_good(world: World) -> None:
    with world.inside():
        for number, (name, line) in enumerate(EVERY.items()):
            code, said = world.run(line.replace("OUT", f"good{number}").split())
            assert code == 0, (name, said)


def test_a_call_of_each_verb_is_good(world: World) -> None:
    with world.inside():
        for number, (verb, given) in enumerate(verbs.GOOD.items()):
            named = {name: verbs.named(one, 1_000 + number) for name, one in given.items()}
            verbs.verb_named(verb)(**named)


def test_nothing_is_left_out() -> None:
    own = {"demo", "foreach_batch", "Auditor", "Question", "Release", "__version__"}
    assert set(verbs.GOOD) == {*sfumato.__all__, *sfumato_lab.__all__} - own
    assert {line.split()[0] for line in EVERY.values()} == set(COMMANDS) - {"demo", "reproduce"}


def test_spoiled_calls_keep_the_rules(world: World) -> None:
    broken = [one for k in range(CALLS) if (one := verbs.judge(world, FIRST + k)).fault]
    assert not broken, "\n".join(map(told, broken))


def test_spoiled_lines_keep_the_rules(world: World) -> None:
    broken = [one for k in range(LINES) if (one := world.judge(FIRST + k)).fault]
    assert not broken, "\n".join(map(told, broken))


def test_the_same_seed_spoils_in_the_same_way(world: World, tmp_path: Path) -> None:
    def plain(made: World) -> list[str]:
        made.reset()
        return [" ".join(made.line(FIRST + k)[0]) for k in range(20)]

    assert plain(world) == plain(World(tmp_path))


def test_it_notices(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What breaks a rule is told: an exception, a record, a password, a long error, a change."""
    import sfumato.cli.main as program

    def broken(what: str) -> None:
        if what == "raises":
            raise KeyError(what)
        print({"record": "u007", "password": "hunter2hunter2", "long": "x\n" * 11}.get(what, ""))
        if what == "changes":
            (world.home / "towers.csv").write_text("")
        raise SystemExit(9 if what == "code" else 1)

    for what in ("raises", "record", "password", "long", "changes", "code"):
        monkeypatch.setattr(program, "app", lambda what=what, **_: broken(what))
        assert world.judge(FIRST).fault, what
    monkeypatch.undo()
    assert not world.judge(FIRST).fault
