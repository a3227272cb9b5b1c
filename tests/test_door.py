"""The door: what `sfumato` offers is complete, documented, and the same on the command line."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

import sfumato
import sfumato_lab
from sfumato.cli.command import built
from sfumato.cli.main import COMMANDS
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap

DOORS = (sfumato, sfumato_lab)
VERBS = {
    name: getattr(door, name)
    for door in DOORS
    for name in door.__all__
    if name[0].islower() and not name.startswith("_")
}
NOT_COMMANDS = {"foreach_batch", "read_release"}
"""Verbs of Python alone: what a command prints, a notebook reads; what Spark's driver calls."""
NOT_VERBS = {"init", "doctor", "city", "reproduce", "ledger"}
"""Commands without a verb: they begin, or keep books (`sfumato.Ledger`)."""
PYTHON_ALONE = {"internal", "progress", "watch", "begin", "keep_key", "asked"}
"""Who is told what; what the terminal shows instead, or takes as flags of its own."""
TERMINAL_ALONE = {"quiet", "as_json", "config", "dry_run", "ledger_key", "context", "out", "help"}
GROUPED = {f"anonymise_{what}": ("anonymise", what) for what in ("answers", "counts", "traces")}
"""Verbs that are commands of a group: the words are the same, with a space between them."""
TERMINAL_ALONE |= {"schemes"}  # prints what is written in docs/streams.md


def test_every_command_is_a_verb_and_every_verb_a_command() -> None:
    named = {GROUPED.get(name, (name,))[0] for name in VERBS if name not in NOT_COMMANDS}
    assert named == set(COMMANDS) - NOT_VERBS
    for verb, words in GROUPED.items():
        assert verb == "_".join(words)
        group = built(import_module(COMMANDS[words[0]].module).app)
        assert words[1] in group.commands


def test_the_door_lists_what_it_opens() -> None:
    assert set(dir(sfumato)) == set(sfumato.__all__) == {*sfumato._HOMES, "__version__"}
    assert set(dir(sfumato_lab)) == set(sfumato_lab.__all__) == set(sfumato_lab._HOMES)
    for door in DOORS:
        for name in door.__all__:
            assert getattr(door, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'realease'"):
        _ = sfumato.realease


def test_a_name_that_moved_is_told_where_it_is() -> None:
    import sfumato_lab

    for name in sfumato_lab.__all__:
        with pytest.raises(AttributeError, match=r"dir\(sfumato_lab\)"):
            getattr(sfumato, name)


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_says_what_it_takes_and_gives(name: str) -> None:
    verb = VERBS[name]
    text = inspect.getdoc(verb) or ""
    for part in ("Args:", "Returns:", "Raises:", "Example:"):
        assert part in text, f"{name} has no {part}"
    assert verb.__name__ == name
    for parameter in inspect.signature(verb).parameters.values():
        assert parameter.kind is not inspect.Parameter.VAR_KEYWORD, f"{name} hides its settings"
        assert f"{parameter.name}:" in text, f"{name}: {parameter.name} is not explained"
        assert parameter.annotation is not inspect.Parameter.empty


@pytest.mark.parametrize("name", sorted(VERBS.keys() - NOT_COMMANDS))
def test_the_words_are_the_same_on_the_command_line(name: str) -> None:
    group, word = GROUPED.get(name, (name, "recovery" if name == "attack" else name))
    module = import_module(COMMANDS[group].module)
    command = getattr(module, word)
    said = set(inspect.signature(command).parameters)
    taken = set(inspect.signature(VERBS[name]).parameters)
    assert taken - said <= PYTHON_ALONE
    assert said - taken <= TERMINAL_ALONE
    assert isinstance(built(command), typer.core.TyperCommand)


@pytest.mark.parametrize("name", VERBS)
def test_examples_run(name: str) -> None:
    """Those that need no files; the others are run by the tests of the pages."""
    globs = {door.__name__: door for door in DOORS}
    (found,) = doctest.DocTestFinder(recurse=False).find(VERBS[name], name, globs=globs)
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found)
    assert result.failed == 0


def test_the_door_is_light() -> None:
    """A door that is imported brings no engine; `dir` and a wrong name bring none either."""
    heavy = "numpy pyarrow duckdb numba scipy geopandas matplotlib pydantic sqlalchemy"
    code = (
        "import sys, sfumato, sfumato_lab\n"
        "for door in (sfumato, sfumato_lab): dir(door); hasattr(door, 'nothing')\n"
        f"print([name for name in {heavy.split()!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_verbs_give_shows_itself(tmp_path: Path) -> None:
    """A line in a terminal, and HTML in a notebook; private figures say that they are."""
    table = tmp_path / "events.csv"
    rows = "".join(f"{k % 9},2024-03-04T{k % 24:02d}:00:00Z,{'ab'[k % 2]}\n" for k in range(96))
    table.write_text(f"user,time,tower\n{rows}")
    (tmp_path / "towers.csv").write_text("tower_id,lon,lat\na,2.3,48.8\nb,2.4,48.9\n")
    book = sfumato.Ledger(tmp_path / "ledger.sqlite")
    book.initialise()
    book.add_dataset("town", Cap(epsilon=9, delta=1e-4))
    book.add_dataset("town", Cap(epsilon=9, delta=1e-4), Unit.parse("user-day"))
    place = {"towers": tmp_path / "towers.csv"}
    day = {"start": "2024-03-04", "end": "2024-03-05", "slot": "6h", "tz": "UTC"}
    paid = {"dataset": "town", "epsilon": 1.0, "ledger": book}
    made = sfumato.release(
        table, delta=1e-6, scheme="laplace", out=tmp_path / "day", **place, **day, **paid
    )
    public = [
        made,
        sfumato.plan(delta=1e-6, epsilon=1, expected_users=9, scheme="laplace", zone_count=2),
        sfumato.stream(table, scheme="sample", out=tmp_path / "s", **place, **day, **paid),
        sfumato.audit("laplace", epsilon=[1.0], runs=64),
    ]
    internal = [
        sfumato.inspect(table),
        sfumato.evaluate(made, table, earth_mover=False, **place),
        sfumato.attack(made, table, seeds=1, group=0, **place),
    ]
    for shown in (*public, *internal):
        assert "\n" not in repr(shown)
        # However deep the folder of temporary files lies: a path is shown as it was given.
        assert len(repr(shown).replace(str(tmp_path), "")) < 120
        assert "<" in shown._repr_html_()
    for shown in internal:
        assert "INTERNAL" in repr(shown)
        assert "internal" in shown._repr_html_().lower()
    assert made.plot("series")._repr_png_().startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules or not plt_figures()


def plt_figures() -> list[int]:
    from matplotlib import pyplot

    return list(pyplot.get_fignums())
