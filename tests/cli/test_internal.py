"""Nothing private outside `internal`: every publishing command, on neighbouring data.

Each command runs on some people's records and on those of the same people and one more, whose
rows are also of the kinds that are left out and counted. Beside the noise in the published
numbers, the two runs may differ in what is marked internal and in nothing else: not in what is
printed, not in the manifest, not in the words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sfumato.cli.main import app

pytestmark = pytest.mark.privacy

HOURS = range(24)
PEOPLE = [f"{u},2024-03-04T{h:02d}:10:00Z,t{(u + h) % 3}" for u in range(30) for h in HOURS]
ONE_MORE = [
    *(f"one,2024-03-04T{h:02d}:20:00Z,t1" for h in HOURS),
    "one,2024-03-04T08:00:00Z,nowhere",
    "one,2031-01-01T08:00:00Z,t0",
    "one,,t0",
    ",2024-03-04T08:00:00Z,t0",
]
WALKS = [f"w{u},2008-11-01T{h:02d}:00:00Z,{116.3 + u / 100},39.9" for u in range(3) for h in HOURS]
ANOTHER_WALK = [
    *(f"one,2008-11-01T{h:02d}:00:00Z,{116.3 + h},39.9" for h in HOURS),  # impossibly fast
    "one,2008-11-01T00:00:00Z,116.3,39.9",
    "one,2008-11-01T00:30:00Z,,",
    "one,2008-11-01T00:31:00Z,500,39.9",
]
WEEK = ("--dataset", "city", "--from", "2024-03-04", "--to", "2024-03-05", "--tz", "UTC")
COUNTED = (*WEEK, "--towers", "towers.csv", "--slot", "6h", "--epsilon", "0.5")
STREAM = (*COUNTED, "--expected-users", "30", "--scheme", "sample", "--out", "out")
"""A scheme whose sd is public: others estimate it from noisy numbers, which differ by chance."""


def release(home: Path, *more: str) -> Result:
    del home
    asked = ("--scheme", "laplace", "--bound", "sample:2", "--delta", "1e-6", "--out", "out")
    few = ("--expected-users", "30", "--anyway")
    return run("release", "events.csv", *COUNTED, *asked, *few, *more)


def history(home: Path, *more: str) -> Result:
    del home
    return run("stream", "events.csv", *STREAM, *more)


def pipe(home: Path, *more: str) -> Result:
    records = [row.split(",") for row in (home / "events.csv").read_text().splitlines()[1:]]
    lines = [{"user": user, "time": time, "place": place} for user, time, place in records]
    clock = [{"clock": "2024-03-04T00:00:00Z"}], [{"clock": "2024-03-05T00:00:00Z"}]
    feed = "".join(json.dumps(line) + "\n" for line in [*clock[0], *lines, *clock[1]])
    return run("stream", "-", "--clock", "feed", *STREAM, *more, feed=feed)


def folder(home: Path, *more: str) -> Result:
    (home / "inbox").mkdir(exist_ok=True)
    (home / "inbox" / "CLOCK").write_text("2024-03-04T00:00:00Z")
    (home / "inbox" / "a.csv").write_text((home / "events.csv").read_text())
    (home / "inbox" / "CLOCK").write_text("2024-03-05T00:00:00Z")
    return run("stream", "inbox", "--follow", *STREAM, *more)


def sanitise(home: Path, *more: str) -> Result:
    del home
    asked = ("--expected-noise", "100m", "--most-reports", "20", "--out", "out")
    day = ("--from", "2008-11-01", "--to", "2008-11-02", "--dataset", "walkers")
    return run("sanitise", "walks.csv", *day, *asked, *more)


COMMANDS = {
    "release": release,
    "stream of a history": history,
    "stream of a pipe": pipe,
    "stream of a folder": folder,
    "sanitise": sanitise,
}
Command = Callable[..., Result]


def run(*arguments: str, feed: str | None = None) -> Result:
    done = CliRunner().invoke(app, [*arguments, "--ledger", "ledger.sqlite"], input=feed)
    if done.exception is not None:
        raise done.exception
    return done


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two folders with neighbouring data and a ledger each."""
    made = []
    for name, more, walk in (("without", [], []), ("with", ONE_MORE, ANOTHER_WALK)):
        home = tmp_path / name
        home.mkdir()
        monkeypatch.chdir(home)
        (home / "events.csv").write_text("\n".join(["user,time,place", *PEOPLE, *more]) + "\n")
        (home / "walks.csv").write_text("\n".join(["user,time,lon,lat", *WALKS, *walk]) + "\n")
        (home / "towers.csv").write_text("place,lon,lat\nt0,2.0,48\nt1,2.1,48\nt2,2.2,48\n")
        units = (("city", "user-period"), ("city", "user-day"), ("walkers", "point:20m"))
        for dataset, unit in units:
            cap = ("--cap-epsilon", "9", "--cap-delta", "1e-6", "--unit", unit)
            run("ledger", "init", "--dataset", dataset, *cap)
        made.append(home)
    return made


def each(homes: list[Path], command: Command, monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    found = []
    for home in homes:
        monkeypatch.chdir(home)
        found.append(command(home))
    return found


def plain(home: Path, text: str) -> str:
    """Without what is random or names the folder: releases, digests, instants of today, and sums
    of what was published, which are noisy."""
    text = re.sub(r"sum [\d,.]+( ± [\d,.]+| \([^)]*\))*", "sum …", text.replace(str(home), "HOME"))
    return re.sub(r"[0-9a-f]{16,128}|20\d\d-\d\d-\d\dT[\d:.]+\+00:00", "…", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_json_tells_nothing_private_but_under_internal(
    name: str, homes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(home: Path) -> Result:
        return COMMANDS[name](home, "--json")

    said = each(homes, asked, monkeypatch)
    made: list[dict[str, Any]] = [json.loads(one.stdout) for one in said]
    private = [one.pop("internal") for one in made]
    assert private[0] != private[1], "the counts were told, where they belong"
    public = [plain(home, json.dumps(one)) for home, one in zip(homes, made, strict=True)]
    assert public[0] == public[1]
    told = [one.stderr.splitlines() for one in said]
    rest = [[line for line in lines if not line.startswith("internal: ")] for lines in told]
    assert rest[0] == rest[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_terminal_and_statement_tell_nothing_private_but_what_is_marked(
    name: str, homes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = each(homes, COMMANDS[name], monkeypatch)
    printed = [plain(home, one.stdout) for home, one in zip(homes, said, strict=True)]
    assert printed[0] == printed[1]
    told = [one.stderr.splitlines() for one in said]
    marked = [[line for line in lines if line.startswith("internal: ")] for lines in told]
    assert marked[0] != marked[1]
    rest = [
        [plain(home, line) for line in lines if not line.startswith("internal: ")]
        for home, lines in zip(homes, told, strict=True)
    ]
    assert rest[0] == rest[1]
    first, second = (statement(home, name) for home in homes)
    assert first == second


def statement(home: Path, name: str) -> str:
    """The manifest and the words of what was published."""
    manifest = json.loads((home / "out" / "manifest.json").read_text())
    words = (home / "out" / "README.txt").read_text()
    if name == "sanitise":  # how many reports there are is in the file, and said to be
        assert "that somebody is among the users, and how many they are" in words
        for measured in manifest["privacy"]["measurements"]:
            del measured["cells"]
    text = plain(home, json.dumps(manifest, sort_keys=True)) + plain(home, words)
    return " ".join(text.split())


def test_the_default_unit_of_a_stream_is_named_before_anything_is_reserved(
    homes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(homes[0])
    said = history(homes[0])
    first = said.stderr.splitlines()[0]
    assert first.startswith("unit user-day: epsilon 0.5 hides what one person did on any one day.")
    assert "Several days of one person add up" in first
    assert "unit" not in run("stream", "events.csv", *STREAM, "--resume", "--quiet").stderr


def test_what_compares_with_the_truth_is_internal_throughout(
    homes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(homes[0])
    zones = {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {"zone_id": f"z{k}"},
                "geometry": {
                    "type": "Polygon",
                    "coordinates": [[[w, 47], [w + 0.1, 47], [w + 0.1, 49], [w, 49], [w, 47]]],
                },
            }
            for k, w in enumerate((1.95, 2.05, 2.15))
        ],
    }
    Path("zones.geojson").write_text(json.dumps(zones))
    release(homes[0], "--zones", "zones.geojson", "--quiet")
    truth = ("--events", "events.csv", "--zones", "zones.geojson", "--towers", "towers.csv")
    asked = ["evaluate", "out", *truth, "--no-earth-mover"]
    quiet = CliRunner().invoke(app, [*asked, "--json"])
    assert set(json.loads(quiet.stdout)) == {"internal"}, quiet.output
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0
    assert shown.stdout == ""
    assert "internal: releases against the truth" in shown.stderr
