"""The small form of `sfumato reproduce paris`: everything runs, and the order is the paper's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sfumato.errors import UsageError
from sfumato_lab.cli.reproduce import paris
from sfumato_lab.studies.paris import cases
from sfumato_lab.studies.paris import cases as paper

pytestmark = pytest.mark.xdist_group("paris study")  # one costly fixture, made once


def run(*flags: str) -> None:
    app = typer.Typer()
    app.command()(paris)
    result = CliRunner().invoke(app, list(flags))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paris")
    run(
        *("--out", str(folder), "--users", "4000", "--towers", "40", "--zones", "30"),
        *("--repetitions", "2", "--epsilons", "0.3", "--emd-every", "24", "--quiet"),
    )
    return folder


@pytest.fixture(scope="module")
def found(out: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((out / "paris.internal.json").read_text())
    return data


def test_every_method_is_there_with_all_repetitions(found: dict[str, Any]) -> None:
    labels = {score["method"] for score in found["scores"]}
    everything = (
        *(*cases.MAIN, *cases.CORRECTED, *cases.SAMPLES, *cases.VARIANTS),
        *(*cases.CHAPTER, *cases.READINGS, *cases.OPTIONS),
    )
    assert labels == {case.label for case in everything}
    assert all(len(score["runs"]["mre"]) == 2 for score in found["scores"])
    assert {*paper.PRINTED, *paper.ONE_ZONE} <= labels


def test_the_order_of_the_methods_is_the_papers(found: dict[str, Any]) -> None:
    mre = {s["method"]: sum(s["runs"]["mre"]) for s in found["scores"]}
    assert mre["LPA(10)"] < mre["LPA(30)"] < mre["LPA(168)"]
    assert mre["EFPAG(30)"] < mre["LPA(30)"]
    assert mre["bayes"] < mre["gaussian"]
    cover = found["cover"]
    assert cover["cells"] <= min(cover["towers"], cover["zones"])
    assert cover["cell_mean"] >= cover["zone_mean"]


def test_fewer_visits_make_the_laplace_baseline_worse(found: dict[str, Any]) -> None:
    error = {(c["variation"], c["method"]): c["mre"] for c in found["causes"]}
    assert error["as it is", "LPA(30)"] < error["negative counts kept", "LPA(30)"]
    assert error["sanity bound 0.2 %", "EFPAG(30)"] < error["sanity bound 0.05 %", "EFPAG(30)"]


def test_a_study_that_was_stopped_goes_on(out: Path, found: dict[str, Any]) -> None:
    """Scores that are there are not made again: one is spoilt, and it alone changes."""
    kept = sorted((out / "scores.internal").iterdir())
    assert len(kept) == len(found["scores"])
    kept[0].unlink()
    before = {path: path.stat().st_mtime_ns for path in kept[1:]}
    run(
        *("--out", str(out), "--users", "4000", "--towers", "40", "--zones", "30"),
        *("--repetitions", "2", "--epsilons", "0.3", "--emd-every", "24", "--quiet"),
        *("--no-figures", "--studies", "main,corrected,variants,samples,chapter,readings,options"),
    )
    again = json.loads((out / "paris.internal.json").read_text())
    assert again["scores"] == found["scores"]
    assert kept[0].is_file()
    assert {path: path.stat().st_mtime_ns for path in kept[1:]} == before


def test_sampling_makes_the_histogram_better(found: dict[str, Any]) -> None:
    with_sampling, without = found["histogram"]
    assert with_sampling["sampling"]
    assert with_sampling["js"] < without["js"]


def test_the_table_has_both_numbers_and_everything_is_marked(out: Path) -> None:
    text = (out / "paris.internal.md").read_text()
    assert "INTERNAL" in text
    assert "| EFPAG(30) | as printed | 0.170 | 0.960 | 188 |" in text
    assert "| bayes | holds |" in text
    files = {path.name for path in out.iterdir() if path.is_file()}
    assert all(".internal." in name for name in files)
    pictures = {name for name in files if name.endswith(".png")}
    assert len(pictures) == 12
    assert '<img src="fig-2-cover' in (out / "paris.internal.html").read_text("utf-8")
    assert all(f"]({name})" in text for name in pictures)


def test_another_city_in_the_folder_is_not_overwritten(out: Path) -> None:
    with pytest.raises(UsageError, match="another city"):
        run("--out", str(out), "--users", "6000", "--repetitions", "1", "--quiet")
    with pytest.raises(UsageError, match="list of epsilons"):
        run("--out", str(out), "--epsilons", "high")
    with pytest.raises(UsageError, match="no study figures"):
        run("--out", str(out), "--studies", "main,figures")
