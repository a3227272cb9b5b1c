"""`sfumato plan`: cost and accuracy without data."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import UsageError

COUNTS = ["--tower-count", "60", "--zone-count", "45", "--expected-users", "10000"]
ASKED = ["plan", "--epsilon", "0.5", "--delta", "1e-6"]


def test_the_cost_in_words() -> None:
    done = CliRunner().invoke(app, [*ASKED, *COUNTS, "--no-rehearse", "--cap-epsilon", "4"])
    assert done.exit_code == 0
    assert "epsilon 0.5 at delta 1e-06" in done.output
    assert "allows" in done.output
    assert "Nothing was read and nothing was spent." in done.output


def test_the_forecast_as_json() -> None:
    flags = ["--scheme", "gaussian", "--target-error", "0.5", "--json"]
    done = CliRunner().invoke(app, [*ASKED, *COUNTS, *flags])
    assert done.exit_code == 0
    said = json.loads(done.output)
    assert 0.49 < said["epsilon"] <= 0.5
    rehearsal = said["rehearsal"]
    assert rehearsal["people"] == 10_000
    assert rehearsal["mean_relative_error"] > 0.5
    low, high = rehearsal["mean_relative_error_range"]
    assert low < rehearsal["mean_relative_error"] < high
    assert rehearsal["epsilon_for_target"] > 0.5
    assert rehearsal["error_at_best_bound"] <= rehearsal["mean_relative_error"] * 1.05
    assert rehearsal["best_bound"].startswith("weight:")


def test_who_asks_for_no_rehearsal_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target is found by rehearsing: the two together are refused, before anything is made up."""
    monkeypatch.setattr("sfumato.density.fitness.Rehearsal", None)
    asked = [*ASKED, *COUNTS, "--no-rehearse"]
    assert CliRunner().invoke(app, asked).exit_code == 0
    done = CliRunner().invoke(app, [*asked, "--target-error", "0.5"])
    assert isinstance(done.exception, UsageError)
    assert "rehearsing" in done.exception.problem


def test_wrong_questions_are_refused() -> None:
    many = [*ASKED, "--no-rehearse"]
    for flags in (
        ["--expected-users", "1000"],
        [*COUNTS, "--count", "cows"],
        [*COUNTS, "--from", "soon"],
        [*COUNTS, "--scheme", "magic"],
        [*COUNTS, "--unit", "event"],
        ["--tower-count", "9", "--expected-users", "100000000"],
    ):
        done = CliRunner().invoke(app, [*many, *flags])
        assert isinstance(done.exception, UsageError), flags
