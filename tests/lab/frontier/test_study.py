"""The small form of `sfumato reproduce frontier`: everything runs, stops and goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from sfumato.errors import UsageError
from sfumato_lab.cli.reproduce import frontier
from sfumato_lab.studies.frontier.cities import Kind
from sfumato_lab.studies.frontier.methods import LABELS
from sfumato_lab.studies.frontier.output import Record
from sfumato_lab.studies.frontier.study import NUMBERS, PLOT, TABLE

SMALL = (
    *("--users", "4000", "--towers", "24", "--zones", "20", "--draws", "1"),
    *("--draws-elsewhere", "1", "--epsilons", "0.3", "--emd-every", "56", "--quiet"),
    *("--cities", "ordinary,events"),
)


def run(*flags: str) -> None:
    app = typer.Typer()
    app.command()(frontier)
    result = CliRunner().invoke(app, list(flags), env={"SFUMATO_DATA": ""})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frontier")
    run("--out", str(folder), *SMALL)
    return folder


def test_every_method_is_drawn_in_every_city(out: Path) -> None:
    rows = Record(out / NUMBERS).rows
    assert {(row.city, row.method) for row in rows} == {
        (kind.value, label) for kind in (Kind.ORDINARY, Kind.EVENTS) for label in LABELS
    }
    assert all(np.isfinite([row.mre, row.pearson]).all() for row in rows)
    assert all(row.emd is None or row.emd >= 0 for row in rows)


def test_the_table_names_the_bars_and_the_plot_is_a_picture(out: Path) -> None:
    text = (out / TABLE).read_text()
    assert "match and strike, 4,000 people" in text
    assert all(f"| {label} |" in text for label in LABELS)
    assert (out / PLOT).read_bytes()[:4] == b"\x89PNG"
    assert f"]({PLOT})" in text


def test_a_run_that_lost_its_last_lines_goes_on(out: Path) -> None:
    path = out / NUMBERS
    before = path.read_text().splitlines()
    path.write_text("\n".join(before[:-2]) + "\n" + before[-2][:15])
    run("--out", str(out), *SMALL, "--no-figures")
    cpu_free = [line[: line.index('"cpu"')] for line in path.read_text().splitlines()]
    assert cpu_free == [line[: line.index('"cpu"')] for line in before]


def test_unknown_cities_and_methods_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="kind of city"):
        run("--out", str(tmp_path), "--cities", "atlantis")
    with pytest.raises(UsageError, match="no method"):
        run("--out", str(tmp_path), "--again", "magic")
