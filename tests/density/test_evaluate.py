"""The demo end to end: a city, its release, the comparison with the truth, both pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.density import evaluate
from sfumato.errors import InputError, UsageError
from sfumato.reports.internal import (
    PANEL,
    AttackPanel,
    AttackResult,
    AttackTracks,
    read_panel,
    write_panel,
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "run"
    told = CliRunner().invoke(app, ["demo", "--out", str(out), "--users", "4000"])
    assert told.exit_code == 0, told.output
    assert "index.html" in told.output
    return out


def inputs(demo: Path) -> dict[str, Path]:
    city = demo / "city"
    return {"towers": city / "towers.csv", "zones": city / "zones.geojson"}


def test_the_demo_leaves_a_release_with_a_page_and_internal_results(demo: Path) -> None:
    files = {path.name for path in (demo / "release").iterdir()}
    assert {"density.parquet", "density.csv", "manifest.json", "README.txt"} <= files
    assert {"index.html", "zones.geojson"} <= files
    internal = {path.name for path in (demo / "internal-release").iterdir()}
    assert {evaluate.SUMMARY, evaluate.BY_ZONE, evaluate.BY_SLOT, "internal.html"} <= internal


def test_internal_results_are_readable_by_their_owner_alone(demo: Path) -> None:
    for path in (demo / "internal-release").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path.name


def test_the_summary_says_what_it_is_and_how_good_the_release_was(demo: Path) -> None:
    found = json.loads((demo / "internal-release" / evaluate.SUMMARY).read_text())
    assert "Do not publish" in found["internal"]
    assert 0 < found["releases"][0]["mean_relative_error"] < 2


def test_the_public_folder_knows_nothing_of_the_comparison(demo: Path) -> None:
    for path in (demo / "release").iterdir():
        assert b"mean_relative_error" not in path.read_bytes(), path.name


def test_other_zones_or_events_of_other_towers_are_refused(demo: Path) -> None:
    events = demo / "city" / "events.parquet"
    with pytest.raises(UsageError, match="not the places"):
        evaluate.evaluate(demo / "release", events, zones=inputs(demo)["zones"])


def test_a_folder_that_is_no_release_is_refused(demo: Path) -> None:
    with pytest.raises(InputError, match="not a release folder"):
        evaluate.evaluate(demo / "city", demo / "city" / "events.parquet", **inputs(demo))


def test_the_internal_page_takes_up_what_an_attack_left_beside_it(
    demo: Path, tmp_path: Path
) -> None:
    assert read_panel(tmp_path) == AttackPanel()
    found = evaluate.evaluate(
        demo / "release", demo / "city" / "events.parquet", earth_mover=False, **inputs(demo)
    )
    slots = found.truth.shape[1]
    result = AttackResult("trajectory recovery", "release", "greedy accuracy", 0.2, 0.19)
    tracks = AttackTracks("release", [0.2] * slots, [0.1] * slots, [[0] * slots], [[1] * slots])
    write_panel(AttackPanel((result,), (tracks,)), tmp_path)
    page = evaluate.write_comparison(found, tmp_path)[0]
    assert page.name == "internal.html"
    shown = evaluate.internal_evaluation(found, read_panel(tmp_path))
    assert shown.attacks == (result,)
    assert shown.tracks == (tracks,)
    other = AttackTracks("release", [0.2], [0.1], [[0]], [[1]])
    with pytest.raises(UsageError, match="another period"):
        evaluate.internal_evaluation(found, AttackPanel(tracks=(other,)))
    (tmp_path / PANEL).write_text("nonsense")
    with pytest.raises(InputError, match="attack"):
        read_panel(tmp_path)
