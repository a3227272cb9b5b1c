"""The tour of the demo: every stage ends, and every stage leaves what it says."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.errors import UsageError


def test_the_tour_streams_asks_and_attacks(tmp_path: Path) -> None:
    stages: list[str] = []
    made = sfumato.demo(
        tmp_path / "demo",
        users=2_000,
        tour=True,
        watch=lambda stage: stages.append(stage.name) if stage.found is None else None,
    )
    assert len(stages) == len(set(stages)) >= 5
    assert (made.release.folder / "index.html").is_file()
    assert made.stream is not None
    assert made.answer is not None
    assert made.answers is not None
    assert made.attacked is not None
    assert not any("internal" in path.name for path in made.release.folder.iterdir())


def test_the_demo_alone_leaves_the_tour_out(tmp_path: Path) -> None:
    made = sfumato.demo(tmp_path / "demo", users=1_000)
    assert (made.stream, made.answer, made.answers, made.attacked) == (None,) * 4


def test_too_few_people_are_no_city(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 1,000"):
        sfumato.demo(tmp_path / "demo", users=10)


@pytest.mark.slow
def test_the_command_says_where_to_look(tmp_path: Path) -> None:
    words = ["demo", "--tour", "--users", "1500", "--out", str(tmp_path / "d")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "index.html" in result.output
