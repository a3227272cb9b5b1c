"""`--config`: flags in a file, overridden on the command line, and never silently ignored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sfumato.cli.config import long_flag, settings
from sfumato.cli.main import app
from sfumato.errors import InputError, UsageError

PROGRAM = typer.main.get_command(app)


def leaves(group: object, *names: str) -> list[list[str]]:
    commands = getattr(group, "commands", None)
    if commands is None:
        return [list(names)]
    return [path for name in commands for path in leaves(commands[name], *names, name)]


def written(home: Path, text: str) -> Path:
    path = home / "sfumato.toml"
    path.write_text(text)
    return path


def test_a_table_wins_over_what_stands_above_it(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'epsilon = 1\nfrom = 2007-09-10\nevents = "e.csv"\n'
        '[release]\nepsilon = 0.3\ncolumn = { user = "imsi" }\n[plan]\nrehearse = false\n',
    )
    assert settings(path, ["release"], PROGRAM) == {
        "epsilon": "0.3",
        "start": "2007-09-10",
        "events": "e.csv",
        "column": ["user=imsi"],
    }
    assert settings(path, ["plan"], PROGRAM) == {
        "epsilon": "1",
        "start": "2007-09-10",
        "events": "e.csv",
        "rehearse": False,
    }


def test_commands_of_a_group_have_tables_in_the_groups_table(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'quiet = true\ntz = "UTC"\n[attack]\ntime-unit = "ms"\nseeds = 3\n'
        "[attack.recovery]\nseeds = 4\n[attack.traces]\nseed = 9\n[ledger.init]\ncap-epsilon = 2\n",
    )
    assert settings(path, ["attack", "recovery"], PROGRAM) == {
        "quiet": True,
        "tz": "UTC",
        "time_unit": "ms",
        "seeds": "4",
    }
    assert settings(path, ["attack", "traces"], PROGRAM) == {
        "quiet": True,
        "tz": "UTC",
        "time_unit": "ms",
        "seed": "9",
    }
    assert settings(path, ["ledger", "init"], PROGRAM) == {"cap_epsilon": "2"}


def test_the_ledger_is_an_option_and_a_command(tmp_path: Path) -> None:
    above = written(tmp_path, 'ledger = "books.sqlite"\n')
    for names in (["release"], ["ledger", "show"]):
        assert settings(above, names, PROGRAM) == {"ledger": "books.sqlite"}
    inside = written(tmp_path, '[ledger]\nledger = "books.sqlite"\n[ledger.init]\ncap-rho = 1\n')
    assert settings(inside, ["release"], PROGRAM) == {"ledger": "books.sqlite"}
    assert settings(inside, ["ledger", "init"], PROGRAM)["cap_rho"] == "1"


def test_words_of_a_commands_own_are_not_given_what_others_mean(tmp_path: Path) -> None:
    path = written(tmp_path, 'towers = "towers.csv"\nto = 2007-09-17\nout = "x"\n')
    assert settings(path, ["release"], PROGRAM) == {
        "towers": "towers.csv",
        "end": "2007-09-17",
        "out": "x",
    }
    assert settings(path, ["city"], PROGRAM) == {"out": "x"}
    assert settings(path, ["export"], PROGRAM) == {"out": "x"}
    own = written(tmp_path, "[city]\ntowers = 12\n")
    assert settings(own, ["city"], PROGRAM) == {"towers": "12"}


@pytest.mark.parametrize(
    ("text", "key", "near"),
    [
        ("epsilo = 1", "epsilo", "epsilon"),
        ("[release]\nrehearse = true", "release.rehearse", "There are"),
        ("[plan]\nzone-cuont = 5", "plan.zone-cuont", "zone-count"),
        ("[reelase]\nepsilon = 1", "reelase", "release"),
        ("[attack.recovrey]\nseeds = 1", "attack.recovrey", "recovery"),
        ("[ledger.init]\ncap-epsilo = 1", "ledger.init.cap-epsilo", "cap-epsilon"),
        ("[nothing-like-it]\nx = 1", "nothing-like-it", "sfumato COMMAND -h"),
    ],
)
def test_what_does_not_exist_is_refused_by_its_name(
    tmp_path: Path, text: str, key: str, near: str
) -> None:
    with pytest.raises(UsageError, match=f"'{key}'") as refused:
        settings(written(tmp_path, text), ["release"], PROGRAM)
    assert near in refused.value.remedy


def test_broken_files_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not TOML"):
        settings(written(tmp_path, "epsilon = "), ["release"], PROGRAM)
    with pytest.raises(InputError, match="cannot be read"):
        settings(tmp_path / "nowhere.toml", ["release"], PROGRAM)
    with pytest.raises(UsageError, match=r"written as \[plan\]"):
        settings(written(tmp_path, "plan = 1"), ["release"], PROGRAM)


@pytest.mark.parametrize(
    ("text", "says", "do"),
    [
        (
            "epsilon = 1\ntz = 'UTC'\nepsilon = 2",
            "'epsilon' is written twice, in lines 1 and 3",
            "Keep",
        ),
        (
            "[plan]\ndelta = 1\n[release]\n\n[plan]",
            "[plan] is written twice, in lines 1 and 5",
            "one",
        ),
        (
            'ledger = "a.sqlite"\n[ledger.init]\ncap-epsilon = 2',
            "'ledger' has a value in line 1, and [ledger.init] in line 2",
            "move line 1 into a table [ledger], or",
        ),
    ],
)
def test_what_stands_twice_is_named_with_its_lines(
    tmp_path: Path, text: str, says: str, do: str
) -> None:
    with pytest.raises(InputError) as refused:
        settings(written(tmp_path, text), ["release"], PROGRAM)
    assert says in refused.value.problem
    assert do in refused.value.remedy


def test_an_empty_value_is_named_unless_a_flag_or_a_table_has_it(tmp_path: Path) -> None:
    path = written(tmp_path, 'tz = ""\nepsilon = ""\nevents = ""\n[plan]\ntz = "UTC"\n')
    with pytest.raises(UsageError, match=r"nothing is written yet for events, epsilon, tz\."):
        settings(path, ["release"], PROGRAM)
    with pytest.raises(UsageError, match=r"nothing is written yet for epsilon\."):
        settings(path, ["plan"], PROGRAM)
    assert settings(path, ["plan"], PROGRAM, {"epsilon"}) == {"tz": "UTC"}


def test_plan_reads_its_options_from_a_file_and_flags_override(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'epsilon = 0.5\ndelta = 1e-7\nexpected_users = 1_000_000\nscheme = "gaussian"\n'
        'zone-id = "iris"\n[plan]\nzone-count = 12\nrehearse = false\njson = true\n'
        "[stream]\ndelay = '5min'\n",
    )

    def planned(*flags: str) -> dict[str, float]:
        result = CliRunner().invoke(app, ["plan", "--config", str(path), *flags])
        assert result.exit_code == 0, result.output
        found: dict[str, float] = json.loads(result.output)
        return found

    assert planned()["epsilon"] == pytest.approx(0.5, rel=0.01)
    assert planned("--epsilon", "0.25")["epsilon"] == pytest.approx(0.25, rel=0.01)


@pytest.mark.parametrize("names", leaves(PROGRAM), ids=" ".join)
def test_every_flag_of_every_command_has_a_place_in_the_file(
    names: list[str], tmp_path: Path
) -> None:
    """A file with all of them is accepted, and each arrives where it belongs."""
    command = PROGRAM
    for name in names:
        command = command.commands[name]  # type: ignore[attr-defined]
    assert "--config" in {flag for one in command.params for flag in one.opts}
    flags = {long_flag(one).lstrip("-"): one.name for one in command.params if one.name != "config"}
    lines = "".join(f'{flag} = "x"\n' for flag in flags)
    found = settings(written(tmp_path, f"[{'.'.join(names)}]\n{lines}"), names, PROGRAM)
    assert set(found) == set(flags.values())
