"""`--config`: flags in a file, overridden on the command line, and never silently ignored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.cli.options import settings
from sfumato.errors import InputError, UsageError

KNOWN = {
    "release": {"events": "events", "from": "start", "epsilon": "epsilon", "column": "column"},
    "plan": {"from": "start", "epsilon": "epsilon", "rehearse": "rehearse"},
}


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
    assert settings(path, "release", KNOWN) == {
        "epsilon": "0.3",
        "start": "2007-09-10",
        "events": "e.csv",
        "column": ["user=imsi"],
    }
    assert settings(path, "plan", KNOWN) == {
        "epsilon": "1",
        "start": "2007-09-10",
        "rehearse": False,
    }


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("epsilo = 1", "epsilo"),
        ("[release]\nrehearse = true", "release.rehearse"),
        ("[plan]\nevents = 'a'", "plan.events"),
        ("[reelase]\nepsilon = 1", "reelase"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_it(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(UsageError, match=f"'{key}'"):
        settings(written(tmp_path, text), "release", KNOWN)


def test_broken_files_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not TOML"):
        settings(written(tmp_path, "epsilon = "), "release", KNOWN)
    with pytest.raises(InputError, match="cannot be read"):
        settings(tmp_path / "nowhere.toml", "release", KNOWN)
    with pytest.raises(UsageError, match=r"written as \[release\]"):
        settings(written(tmp_path, "release = 1"), "release", KNOWN)


def test_plan_reads_its_options_from_a_file_and_flags_override(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'epsilon = 0.5\ndelta = 1e-7\nexpected_users = 1_000_000\nscheme = "gaussian"\n'
        'zone-id = "iris"\n[plan]\nzone-count = 12\nrehearse = false\njson = true\n',
    )

    def planned(*flags: str) -> dict[str, float]:
        result = CliRunner().invoke(app, ["plan", "--config", str(path), *flags])
        assert result.exit_code == 0, result.output
        found: dict[str, float] = json.loads(result.output)
        return found

    assert planned()["epsilon"] == pytest.approx(0.5, rel=0.01)
    assert planned("--epsilon", "0.25")["epsilon"] == pytest.approx(0.25, rel=0.01)


@pytest.mark.parametrize("name", ["release", "plan"])
def test_every_flag_has_a_place_in_the_file(name: str, tmp_path: Path) -> None:
    """And every key is a flag: a file with all of them is accepted, one more is not."""
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    flags = {
        max(p.opts, key=len).lstrip("-"): p.name
        for p in command.params
        if p.name not in ("config", "help")
    }
    lines = "".join(f'{flag} = "x"\n' for flag in flags)
    found = settings(written(tmp_path, f"[{name}]\n{lines}"), name, {name: flags})
    assert set(found) == set(flags.values())
    assert {"from", "epsilon", "expected-users", "parameter"} <= set(flags)
