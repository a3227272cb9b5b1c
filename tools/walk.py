"""How many source files one thing passes through: python tools/walk.py [--list] [--json].

Files of `sfumato`, of `sfumato_lab` and of every package that comes in by an entry point count.

Three walks, each through the command in this process, on made-up data in a temporary folder:

* `release`: one record, from `sfumato release` with its default scheme to the finished folder
  with its page;
* `slot`: one slot of a stream: `sfumato stream` with the scheme `rhythm` on a history of one
  record, one slot and the unit user-day, from the start of the command;
* `attack`: `sfumato attack` on a release of a small town.

A file counts when a function of it is entered, in whichever thread; an edge is a pair of files of
which a function of the first called one of the second, with or without a library in between, and
it goes both ways where functions of the second call the first, too. Loading does not count:
neither the body of a module nor what a body calls. Before each walk the same command is run once
on the same data, so that modules that are loaded when they are needed are there already; what
that run keeps in memory, by `functools.cache` and the like, is forgotten before the walk, so
that a remembered answer does not hide a file. Functions that numba compiles are entered without
Python and do not count.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import _lru_cache_wrapper
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from typer.testing import CliRunner

import sfumato.cli.main as command

OURS = Path(command.__file__).resolve().parents[1]
DAY = ("--from", "2007-09-10", "--to", "2007-09-11", "--tz", "Europe/Paris")
BUDGET = ("--epsilon", "1", "--delta", "1e-6", "--expected-users", "1000", "--dataset", "walk")
NOON = "2007-09-10T12:00:00+02:00"
ZONES = ("z0", "z1", "z2", "z3")

Walk = Callable[[Path, str], list[str]]
"""(folder with the data, name of the folder to write) -> the command."""


def packages() -> dict[str, Path]:
    """Folder of each package that is walked, by the package's name."""
    names = [point.module.partition(".")[0] for point in entry_points(group="sfumato.extensions")]
    specs = {name: find_spec(name) for name in (*names, "sfumato_lab")}
    folders = {
        name: Path(spec.origin).resolve().parent
        for name, spec in specs.items()
        if spec is not None and spec.origin is not None
    }
    return {OURS.name: OURS, **folders}


class Entered:
    """Files of the packages in which a function was entered, in order, and edges between them."""

    def __init__(self, folders: dict[str, Path] | None = None) -> None:
        self.files: dict[str, None] = {}
        self.edges: set[tuple[str, str]] = set()
        self._folders = packages() if folders is None else folders
        self._inside: dict[str, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        name = self._name(frame.f_code.co_filename)
        if name is None:
            return
        before = self._before(frame)
        crossed = before not in (None, name) and (before, name) not in self.edges
        if not (crossed or name not in self.files) or self._loading(frame):
            return
        self.files[name] = None
        if before is not None and crossed:
            self.edges.add((before, name))

    def both_ways(self) -> int:
        """Pairs of files that call each other."""
        return sum((second, first) in self.edges for first, second in self.edges) // 2

    def _before(self, frame: FrameType) -> str | None:
        """The file of the packages whose function called this one, through libraries too."""
        above = frame.f_back
        while above is not None:
            name = self._name(above.f_code.co_filename)
            if name is not None:
                return name
            above = above.f_back
        return None

    def _name(self, file: str) -> str | None:
        """Path inside the product, or behind the name of another package; nothing elsewhere."""
        if file not in self._inside:
            path = Path(file)
            name = None
            for package, folder in self._folders.items():
                if path.is_absolute() and path.resolve().is_relative_to(folder):
                    inside = path.resolve().relative_to(folder).as_posix()
                    name = inside if folder == OURS else f"{package}/{inside}"
            self._inside[file] = name
        return self._inside[file]

    def _loading(self, frame: FrameType) -> bool:
        """Whether a module of the packages is being loaded further up."""
        above: FrameType | None = frame
        while above is not None:
            code = above.f_code
            if code.co_name == "<module>" and self._name(code.co_filename) is not None:
                return True
            above = above.f_back
        return False


@contextmanager
def noticed() -> Iterator[Entered]:
    """Notice every entry into a function until the block ends, also in threads begun in it."""
    entered = Entered()
    threading.setprofile(entered)
    sys.setprofile(entered)
    try:
        yield entered
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def run(*arguments: str) -> None:
    """The command in this process; a failure ends everything and says why."""
    result = CliRunner().invoke(command.app, list(arguments))
    if result.exit_code:
        shown = result.exception if result.exception is not None else result.output
        raise SystemExit(f"sfumato {' '.join(arguments)}: {shown!r}\n{result.output}")


def forget() -> None:
    """Empty what functions of the packages remember between calls."""
    names = packages()
    for memory in gc.get_objects():
        if isinstance(memory, _lru_cache_wrapper):
            owner = str(getattr(memory, "__module__", None) or "")
            if owner.partition(".")[0] in names:
                memory.cache_clear()


def write_places(home: Path) -> None:
    """Four square zones in a row with an antenna in the middle of each, and one record."""
    rows = [f"t{k},{2.005 + k / 100:.3f},48.005" for k in range(len(ZONES))]
    (home / "towers.csv").write_text("\n".join(["tower_id,lon,lat", *rows]) + "\n")
    features = []
    for k, name in enumerate(ZONES):
        west, east = 2 + k / 100, 2.01 + k / 100
        ring = [[west, 48], [east, 48], [east, 48.01], [west, 48.01], [west, 48]]
        shape = {"type": "Polygon", "coordinates": [ring]}
        features.append({"type": "Feature", "properties": {"zone_id": name}, "geometry": shape})
    collection = {"type": "FeatureCollection", "features": features}
    (home / "zones.geojson").write_text(json.dumps(collection))
    (home / "events.csv").write_text(f"user,time,tower\np,{NOON},t1\n")


def prepare(home: Path) -> None:
    """Data and ledger for all walks, and the release that is attacked."""
    write_places(home)
    for unit in ("user-period", "user-day"):
        caps = ("--cap-epsilon", "100", "--cap-delta", "1e-3", "--unit", unit)
        run("ledger", "init", "--dataset", "walk", *caps, "--ledger", str(home / "ledger.sqlite"))
    town = ("--users", "60", "--towers", "8", "--zones", "6", "--days", "1")
    run("city", *town, "--out", str(home / "town"), "--quiet")
    run(*release(home / "town", "attacked", home, "events.parquet"))


def release(data: Path, out: str, home: Path, events: str) -> list[str]:
    """`sfumato release` of the records in a folder."""
    places = ["--towers", str(data / "towers.csv"), "--zones", str(data / "zones.geojson")]
    ledger = ["--out", str(home / out), "--ledger", str(home / "ledger.sqlite")]
    return ["release", str(data / events), *places, *DAY, *BUDGET, *ledger, "--anyway"]


def release_walk(home: Path, out: str) -> list[str]:
    return release(home, out, home, "events.csv")


def slot_walk(home: Path, out: str) -> list[str]:
    places = ["--towers", str(home / "towers.csv"), "--scheme", "rhythm", "--slot", "1d"]
    ledger = ["--out", str(home / out), "--ledger", str(home / "ledger.sqlite")]
    return ["stream", str(home / "events.csv"), *places, *DAY, *BUDGET, *ledger]


def attack_walk(home: Path, out: str) -> list[str]:
    town = home / "town"
    places = ["--towers", str(town / "towers.csv"), "--zones", str(town / "zones.geojson")]
    truth = [str(home / "attacked"), "--events", str(town / "events.parquet"), *places]
    few = ["--seeds", "1", "--rounds", "8", "--group", "10"]
    return ["attack", *truth, *few, "--out", str(home / out), "--quiet"]


WALKS: dict[str, Walk] = {"release": release_walk, "slot": slot_walk, "attack": attack_walk}


def walk(make: Walk, home: Path, name: str) -> Entered:
    """What a command enters, after one run that loads what it needs."""
    run(*make(home, f"{name}-first"))
    forget()
    with noticed() as entered:
        run(*make(home, f"{name}-walked"))
    return entered


def walks(names: Iterable[str] = WALKS) -> dict[str, Entered]:
    """Each of these walks, in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        prepare(home)
        return {name: walk(WALKS[name], home, name) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the source files that one thing passes.")
    parser.add_argument("walks", nargs="*", metavar="WALK", help=f"of {', '.join(WALKS)}; all")
    parser.add_argument("--list", action="store_true", help="name the files in order")
    parser.add_argument("--json", action="store_true", help="totals and files as JSON")
    given = parser.parse_args()
    unknown = set(given.walks) - set(WALKS)
    if unknown:
        parser.error(f"there is no walk {', '.join(sorted(unknown))}")
    walked = walks(given.walks or WALKS)
    if given.json:
        print(json.dumps({name: _plain(entered) for name, entered in walked.items()}, indent=2))
        return
    for name, entered in walked.items():
        edges = f"{len(entered.edges)} edges, {entered.both_ways()} both ways"
        print(f"{name}: {len(entered.files)} files, {edges}")
        if given.list:
            print("".join(f"  {file}\n" for file in entered.files), end="")


def _plain(entered: Entered) -> dict[str, Any]:
    edges = {"edges": len(entered.edges), "both_ways": entered.both_ways()}
    return {"total": len(entered.files), **edges, "files": list(entered.files)}


if __name__ == "__main__":
    main()
