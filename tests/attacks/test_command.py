"""The command end to end: a crowd, a release and a stream of it, the attack on all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato.city.crowd import CrowdPlan
from sfumato.city.write import write_crowd
from sfumato.cli.main import app
from sfumato.reports.internal import read_panel

pytestmark = pytest.mark.xdist_group("attack command")  # one costly fixture, made once

RUN = CliRunner()
PERIOD = ["--from", "2008-02-04", "--to", "2008-02-05", "--tz", "Asia/Shanghai"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attack")
    crowd = folder / "crowd"
    write_crowd(CrowdPlan(people=150, days=1, columns=12, rows=10), crowd)
    book = ["--ledger", str(folder / "ledger.db"), "--dataset", "town"]
    places = ["--zones", str(crowd / "zones.geojson"), "--epsilon", "1", "--delta", "1e-4"]
    events = str(crowd / "events.parquet")
    commands = (
        ["ledger", "init", "--cap-epsilon", "9", "--cap-delta", "1e-3", *book],
        ["ledger", "init", "--unit", "user-day", "--cap-epsilon", "9", "--cap-delta", "1e-3",
         *book],
        ["release", events, "--out", str(folder / "week"), "--scheme", "gaussian", *places, *PERIOD,
         *book],
        ["stream", events, "--out", str(folder / "live"), "--expected-users", "150", *places,
         *PERIOD, *book],
    )  # fmt: skip
    for command in commands:
        done = RUN.invoke(app, command)
        assert done.exit_code == 0, (command[0], done.output, done.exception)
    return folder


@pytest.fixture(scope="module")
def attacked(home: Path) -> dict[str, object]:
    ran = RUN.invoke(
        app,
        [
            "attack", str(home / "week"), str(home / "live"),
            "--events", str(home / "crowd" / "events.parquet"), "--group", "50", "--rounds", "8",
            "--zones", str(home / "crowd" / "zones.geojson"), "--seeds", "2",
            "--out", str(home / "internal"), "--json",
        ],
    )  # fmt: skip
    assert ran.exit_code == 0, (ran.output, ran.exception)
    said = json.loads((home / "internal" / "internal-attack.json").read_text())
    assert json.loads(ran.stdout) == {"internal": said}
    return said


def test_a_release_is_attacked_beside_the_truth(home: Path, attacked: dict[str, list]) -> None:
    names = [table["table"] for table in attacked["tables"]]
    assert names[:3] == ["no protection", "suppressed below 5", "suppressed below 15"]
    assert "gaussian" in names[3]
    assert "profile" in names[4], "the default for a day that is over"
    true, _, _, noisy, streamed = (
        table["scores"]["greedy"]["mean"] for table in attacked["tables"]
    )
    assert true > noisy + 0.1
    assert true > streamed  # by a tenth on average; the noise is fresh in every run
    text = (home / "internal" / "internal-attack.md").read_text()
    assert "must not be published" in text
    assert "Was somebody counted?" in text
    assert (home / "internal" / "internal-attack.png").exists()
    assert "](internal-attack.png)" in text


def test_membership_is_played_against_every_table(attacked: dict[str, dict]) -> None:
    found = attacked["membership"]
    assert len(found) == 5
    for name, one in found.items():
        for adversary in ("knows", "trained", "blind"):
            assert one[adversary]["low"] <= one[adversary]["auc"] <= one[adversary]["high"]
        if "ε" in name:  # one day is the whole record, so the guarantee has a ceiling
            assert one["allowed"] == pytest.approx(0.731, abs=0.001)
        else:
            assert one["allowed"] is None
    assert found["no protection"]["knows"]["auc"] > 0.75


def test_the_page_gets_figures_and_trajectories(home: Path, attacked: dict[str, object]) -> None:
    del attacked
    panel = read_panel(home / "internal")
    assert {result.attack for result in panel.results} == {"trajectory recovery", "membership"}
    assert len(panel.tracks) == 5
    for tracks in panel.tracks:
        tracks.check(places=120, slots=len(tracks.by_slot))
        assert len(tracks.true) == 24
    for path in (home / "internal").glob("internal-attack*"):
        assert path.stat().st_mode & 0o077 == 0, path.name


@pytest.mark.parametrize(
    ("releases", "problem"),
    [(["week"], "not about these places"), (["live"], "not about these places")],
)
def test_what_does_not_belong_together_is_refused(
    home: Path, releases: list[str], problem: str
) -> None:
    other = home / "other"
    if not other.exists():
        write_crowd(CrowdPlan(people=20, days=1, columns=8, rows=8), other)
    ran = RUN.invoke(
        app,
        [
            "attack", "recovery", *(str(home / name) for name in releases),
            "--zones", str(other / "zones.geojson"), "--events", str(other / "events.parquet"),
        ],
    )  # fmt: skip
    assert ran.exit_code != 0
    assert problem in str(ran.exception)
