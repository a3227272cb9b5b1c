"""Golden digests: python tools/golden.py [--quick] > digests.json; --compare A.json B.json.

Runs the command in this process on a small made-up town and prints name -> SHA-256 for every
file that it writes, for every scheme: releases of densities, streams, sanitised traces, the pages,
the internal results of `evaluate` and `attack`, exports, and what some commands print. Two source
trees that give the same digests publish the same bytes; it is meant for changes that should
change nothing, such as moving files about. Run it once in each tree and compare. Nothing of it is
stored: digests hold for one machine, one set of installed packages and one folder to work in.

What would differ from run to run is held still, for all of the process:

* the operating system's random bytes, from which keys and names of releases come, are replaced by
  a sequence that starts anew with every command and depends on the case's name alone. The n-th
  request for a number of bytes gets the same bytes, whatever other numbers are asked for between;
* the clock stands still, in `time.time` and in the `datetime` that sfumato, sfumato_lab and every
  package that comes in by an entry point import;
* the versions of their distributions read 0, and so do the digests of the modules of a scheme that
  comes in, which the ledger binds;
* the folder to work in is a fixed one, since paths enter the ledger's chain, whose head the
  manifests quote. It is emptied first and removed afterwards; a second run waits for the first.

No field is left out or rewritten before hashing. Of sfumato only `sfumato.cli.main` is loaded by
name, and `sfumato.model.extensions` where there is one. A command that refuses is a result as
well: its message is hashed, as `refused`. Any other failure ends the run. `--quick` is one case or
two of each verb that publishes and has cases here, for the tests (`tools/moves.py`).
"""

from __future__ import annotations

import argparse
import builtins
import datetime
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

INSTANT = 1_700_000_000
CITY = ("--users", "1500", "--towers", "14", "--zones", "9", "--days", "2", "--quiet")
DAYS = ("--from", "2007-09-10", "--to", "2007-09-12")
PERIOD = (*DAYS, "--tz", "Europe/Paris")
PEOPLE = ("--dataset", "golden")
USERS = ("--expected-users", "1500")
LOSS = ("--epsilon", "1", "--delta", "1e-6")
PURE = ("--epsilon", "1")
REGION = ("--region", "2.2,48.7,2.5,49.0")

DENSITIES: dict[str, tuple[str, ...]] = {
    "bayes": (),
    "bayes/visits": ("visits=5",),
    "paris": (),
    "paris/cut": ("keep=cut",),
    "paris/exponential": ("keep=exponential",),
    "paris/each": ("keep=exponential", "cut=each"),
    "paris/first": ("keep=first", "k=8"),
    "paris/laplace": ("noise=laplace",),
    "paris/zones": ("space=zones",),
    "paris/cover": ("space=cover",),
    "paris/one-visit": ("histogram=one-visit", "total_share=0"),
    "paris/dft": ("transform=dft", "nights=false", "tolerance=0.02"),
    "gaussian": (),
    "gaussian/unclipped": ("clip=false",),
    "laplace": (),
    "laplace/unclipped": ("clip=false",),
    "grouping": (),
    "grouping/four": ("group=4", "guide_share=0.3"),
}
"""Name of a case, which begins with the scheme's, to its parameters."""

MORE: dict[str, tuple[str, ...]] = {
    "bayes/people": ("--count", "people"),
    "bayes/districts": ("--hierarchy-column", "district", "--integers"),
    "bayes/quarters": ("--slot", "15min"),
    "paris/sampled": ("--bound", "sample:5"),
    "paris/people": ("--count", "people"),
    "gaussian/sampled": ("--bound", "sample:5", "--integers"),
    "gaussian/people": ("--count", "people", "--hierarchy-column", "district"),
    "laplace/sampled": ("--bound", "sample:5"),
    "grouping/sampled": ("--bound", "sample:5"),
}
"""The same to other options of the command."""

STREAMS = (
    *("rhythm", "profile", "zeros", "sample", "mean", "uniform", "direct", "threshold"),
    *("static-hybrid", "dynamic-hybrid", "bd", "ba", "fast", "fast-particles", "dsft", "dsat"),
    *("rescuedp", "fan-temporal", "fan-spatial", "tree", "toeplitz"),
)
NEED_DELTA = frozenset({"tree", "toeplitz"})
UNITS = {"user-day": "user-day", "w-event": "w-event:6"}

QUICK = frozenset(
    {
        *("release/bayes", "release/paris", "release/laplace"),
        *("stream/rhythm/user-day", "stream/threshold/user-day", "sanitise/independent"),
    }
)
"""Cases of a quick run."""

NOISE = ("--expected-noise", "100m")
SANITISED: dict[str, tuple[str, ...]] = {
    "independent": (*NOISE, "--most-reports", "20"),
    "independent/level": ("--radius", "200m", "--level", "ln4", "--most-reports", "20"),
    "independent/clamp": (*NOISE, "--most-reports", "20", *REGION, "--outside", "clamp"),
    "independent/drop": (*NOISE, "--most-reports", "20", *REGION, "--outside", "drop"),
    "independent/daily": (*NOISE, "--most-reports", "20", "--daily-level", "6"),
    "clock": (*NOISE, "--window", "30min"),
    "printed-clock": (*NOISE, "--window", "30min", "--most-reports", "20"),
    "predictive": (*NOISE, "--threshold", "500m", "--most-reports", "20"),
    "gaussian": ("--radius", "200m", *LOSS, "--most-reports", "20", *REGION),
}
"""Name of a case, which begins with the kind's, to its options."""


class Bytes:
    """In the place of the operating system's generator: bytes that follow from a case's name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.begin("")

    def begin(self, case: str) -> None:
        """Start anew for a case."""
        with self._lock:
            self._case = case
            self._asked: Counter[int] = Counter()
        random.seed(case)

    def __call__(self, size: int, /) -> bytes:
        with self._lock:
            self._asked[size] += 1
            text = f"golden\0{self._case}\0{size}\0{self._asked[size]}"
        return hashlib.shake_256(text.encode()).digest(size)


class _Real(type):
    """Instants made by compiled code are instances, too."""

    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, _DATETIME)

    def __subclasscheck__(cls, one: type) -> bool:
        return issubclass(one, _DATETIME)


_DATETIME = datetime.datetime


class _Still(_DATETIME, metaclass=_Real):
    """A `datetime` for which it is always the same instant."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return cls.fromtimestamp(INSTANT, tz)

    @classmethod
    def utcnow(cls) -> Any:
        return cls.fromtimestamp(INSTANT, datetime.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> Any:
        return cls.fromtimestamp(INSTANT)


def _naming(real: Callable[[int], bytes], source: Bytes) -> Callable[[], uuid.UUID]:
    """Names for numba's cache must not shift the sequence: it writes some only where it is cold."""

    def name() -> uuid.UUID:
        asking = str(sys._getframe(1).f_globals.get("__name__"))
        draw = real if asking.partition(".")[0] == "numba" else source
        return uuid.UUID(bytes=draw(16), version=4)

    return name


def _ours() -> dict[str, set[str]]:
    """Packages under the wall's rules, and their distributions."""
    points = importlib.metadata.entry_points(group="sfumato.extensions")
    packages = {point.module.partition(".")[0] for point in points}
    distributions = {point.dist.name for point in points if point.dist is not None}
    return {
        "packages": {"sfumato", "sfumato_lab"} | packages,
        "distributions": {"sfumato"} | distributions,
    }


def _importing(real: Callable[..., ModuleType], packages: set[str]) -> Callable[..., ModuleType]:
    """Give these packages the clock that stands still; compiled ones need the real class."""
    still = ModuleType("datetime")
    vars(still).update(vars(datetime) | {"datetime": _Still})

    def load(
        name: str, names: Mapping[str, object] | None = None, *more: Any, **others: Any
    ) -> ModuleType:
        asking = str((names or {}).get("__name__"))
        if name == "datetime" and asking.partition(".")[0] in packages:
            return still
        return real(name, names, *more, **others)

    return load


def hold_still() -> Bytes:
    """Replace randomness, clock and version; before anything else of Python's world is loaded."""
    source = Bytes()
    uuid.uuid4 = _naming(os.urandom, source)
    os.urandom = source
    random._urandom = source  # type: ignore[attr-defined]  # what `secrets` draws from
    time.time = lambda: float(INSTANT)
    ours = _ours()
    builtins.__import__ = _importing(builtins.__import__, ours["packages"])
    distribution = importlib.metadata.PathDistribution
    written = distribution.version.fget

    def version(installed: importlib.metadata.Distribution) -> str:
        return "0" if installed.name in ours["distributions"] else written(installed)

    distribution.version = property(version)  # type: ignore[assignment, misc]
    if importlib.util.find_spec("sfumato.model.extensions"):
        extensions = importlib.import_module("sfumato.model.extensions")
        extensions.digest_of = lambda *_: "0"  # type: ignore[attr-defined]
        if points := getattr(extensions, "_points", None):  # which reads versions by itself
            extensions._points = lambda: [  # type: ignore[attr-defined]
                (owner, "0", table) for owner, _, table in points()
            ]
    for name in [name for name in os.environ if name.startswith("SFUMATO")]:
        del os.environ[name]
    os.environ |= {"MPLBACKEND": "Agg", "SOURCE_DATE_EPOCH": str(INSTANT), "COLUMNS": "100"}
    return source


@dataclass
class Run:
    """The cases, one after the other, in one folder."""

    home: Path
    source: Bytes
    invoke: Callable[[list[str], str | None], Any]
    only: frozenset[str] = frozenset()
    """Cases that publish, where not all of them are wanted."""
    digests: dict[str, str] = field(default_factory=dict)

    def command(self, case: str, *arguments: str | Path, text: str | None = None) -> str | None:
        """What the command prints on standard output; nothing where it refuses, which is noted."""
        began = time.perf_counter()
        self.source.begin(f"{case}\0{arguments[0]}")
        result = self.invoke([str(part) for part in arguments], text)
        took = time.perf_counter() - began
        print(f"{took:6.2f} s  {case}: {arguments[0]}", file=sys.stderr, flush=True)
        if not result.exit_code:
            return str(result.stdout)
        refusal = getattr(result.exception, "problem", None)
        if refusal is None:
            words = " ".join(str(part) for part in arguments)
            print(f"sfumato {words}\n{result.output}", file=sys.stderr)
            raise result.exception
        message = f"{type(result.exception).__name__}: {result.exception}"
        self._note(f"{case}/refused", message.encode())
        return None

    def output(self, case: str, *arguments: str | Path) -> None:
        """Keep what a command prints."""
        printed = self.command(case, *arguments)
        if printed is not None:
            self._note(f"{case}/output", printed.encode())

    def files(self, case: str, folder: Path) -> None:
        """Keep every file of a folder, by its path in it."""
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        if not found:
            raise SystemExit(f"{case}: no files in {folder}")
        for path in found:
            self._note(f"{case}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def _note(self, name: str, content: bytes) -> None:
        if name in self.digests:
            raise SystemExit(f"two files are called {name}")
        self.digests[name] = hashlib.sha256(content).hexdigest()

    def published(
        self, case: str, unit: str, *arguments: str | Path, text: str | None = None
    ) -> Path:
        """Run a command that publishes, on a ledger of its own, and keep what it writes."""
        place = self.home / "cases" / case.replace("/", "-")
        if self.only and case not in self.only:
            return place / "out"
        ledger = ("--ledger", place / "ledger.sqlite")
        caps = ("--unit", unit, "--cap-epsilon", "1000", "--cap-delta", "1e-3")
        place.mkdir(parents=True)
        self.command(case, "ledger", "init", *PEOPLE, *caps, *ledger)
        out = place / "out"
        head, *rest = arguments
        more = (*PEOPLE, "--name", case, "--out", out, *ledger, "--json")
        printed = self.command(case, head, *rest, *more, text=text)
        if printed is not None:
            self._note(f"{case}/output", printed.encode())
            self.files(case, out)
            self.output(f"{case}/ledger", "ledger", "export", *ledger)
        return out


def density_cases(run: Run, towns: dict[str, Path]) -> dict[str, Path]:
    """Every scheme of `sfumato release`; returns the folders by case."""
    town, walkers = towns["towers"], towns["gps"]
    towers, zones = ("--towers", town / "towers.csv"), ("--zones", town / "zones.geojson")
    made: dict[str, Path] = {}

    # Trees from before the forecast of use have no such flag, and refuse nothing.
    anyway = ("--anyway",) if importlib.util.find_spec("sfumato.density.fitness") else ()

    def release(case: str, *options: str | Path, data: Path = town) -> None:
        scheme = ("--scheme", case.partition("/")[0])
        fixed = (*PERIOD, *LOSS, *USERS, *scheme, *anyway)
        events = data / "events.parquet"
        name = f"release/{case}"
        made[case] = run.published(name, "user-period", "release", events, *fixed, *options)

    for case, given in DENSITIES.items():
        release(case, *towers, *zones, *(f"--parameter={one}" for one in given))
    for case, options in MORE.items():
        release(case, *towers, *zones, *options)
    for scheme in ("bayes", "paris", "gaussian"):
        release(f"{scheme}/towers-alone", *towers)
        release(f"{scheme}/zones-alone", "--zones", walkers / "zones.geojson", data=walkers)
    release("bayes/earlier", *towers, *zones, "--earlier", made["bayes"])
    release("bayes/no-such-parameter", *towers, *zones, "--parameter=colour=7")
    return made


def stream_cases(run: Run, towns: dict[str, Path]) -> dict[str, Path]:
    """Every scheme of `sfumato stream` for a unit of days and one of windows that slide."""
    town = towns["towers"]
    events, towers = town / "events.parquet", ("--towers", town / "towers.csv")
    hours, shared = ("--slot", "2h"), (*PERIOD, *USERS)
    made: dict[str, Path] = {}

    def stream(
        case: str, unit: str, source: Path | str, *options: str | Path, text: str | None = None
    ) -> None:
        fixed = (*shared, "--unit", unit, *options)
        cap = "w-event:12h" if unit.startswith("w-event") else unit
        made[case] = run.published(f"stream/{case}", cap, "stream", source, *fixed, text=text)

    for scheme in STREAMS:
        for name, unit in UNITS.items():
            chosen = ("--scheme", scheme, *(LOSS if scheme in NEED_DELTA else PURE))
            stream(f"{scheme}/{name}", unit, events, *towers, *hours, *chosen)
    for scheme in ("rhythm", "profile", "direct", "dsat"):
        chosen = ("--scheme", scheme)
        stream(f"{scheme}/delta", "user-day", events, *towers, *hours, *LOSS, *chosen)
        stream(f"{scheme}/period", "user-period", events, *towers, *hours, *LOSS, *chosen)
    for whole in ("nearest", "random"):
        chosen = ("--scheme", "rhythm", "--consistency", whole)
        stream(f"rhythm/{whole}", "user-day", events, *towers, *hours, *LOSS, *chosen)
    walkers = towns["gps"] / "events.parquet"
    zones = ("--zones", towns["gps"] / "zones.geojson")
    stream("default/zones", "user-day", walkers, *zones, *hours, *LOSS)
    cells = run.home / "cells.geojson"
    cells.write_text(json.dumps(grid()))
    for scheme in ("rhythm", "profile", "fan-spatial", "rescuedp", "threshold"):
        for name, unit in UNITS.items():
            chosen = ("--zones", cells, "--scheme", scheme)
            stream(f"{scheme}/grid-{name}", unit, walkers, *hours, *PURE, *chosen)
    text = feed(town)
    live = (*towers, *hours, *LOSS, "--clock", "feed")
    stream("default/pipe", "user-day", "-", *live, text=text)
    inbox = run.home / "inbox"
    inbox.mkdir()
    (inbox / "a.ndjson").write_text(text)
    (inbox / "CLOCK").write_text("2007-09-12T00:00:00+02:00")
    stream("default/folder", "user-day", inbox, *live, "--follow")
    return made


def grid(rows: int = 4, columns: int = 5) -> dict[str, Any]:
    """Zones that are the cells of a grid over the town, in the order of their ids."""
    features = []
    for k in range(rows * columns):
        west, north = 2.28 + 0.03 * (k % columns), 48.92 - 0.03 * (k // columns)
        east, south = west + 0.03, north - 0.03
        ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
        rounded = [[round(x, 6), round(y, 6)] for x, y in ring]
        shape = {"type": "Polygon", "coordinates": [rounded]}
        named = {"zone_id": f"c{k:03}"}
        features.append({"type": "Feature", "properties": named, "geometry": shape})
    return {"type": "FeatureCollection", "features": features}


def feed(town: Path) -> str:
    """Made-up lines for a pipe: records in order of time, and the feeder's clock."""
    with (town / "towers.csv").open() as file:
        names = [line.partition(",")[0] for line in file][1:]
    lines = []
    for hour in range(48):
        day, of_day = f"2007-09-{10 + hour // 24}", hour % 24
        for k in range(40):
            time_of = f"{day}T{of_day:02}:{k:02}:00+02:00"
            place = names[(k * k + hour) % len(names)]
            lines.append({"user": f"u{(7 * k + hour) % 90}", "time": time_of, "place": place})
        lines.append({"clock": f"{day}T{of_day:02}:59:59+02:00"})
    lines.append({"clock": "2007-09-12T00:00:00+02:00"})
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def trace_cases(run: Run, towns: dict[str, Path]) -> None:
    """Every kind of `sfumato sanitise`."""
    events = towns["gps"] / "events.parquet"
    for case, options in SANITISED.items():
        kind = ("--kind", case.partition("/")[0])
        name = f"sanitise/{case}"
        run.published(name, "point:200m", "sanitise", events, *DAYS, *kind, *options)


def internal_cases(
    run: Run, towns: dict[str, Path], releases: dict[str, Path], streams: dict[str, Path]
) -> None:
    """What is made of releases afterwards: comparison, attack, pages, figures, other forms."""
    town = towns["towers"]
    zones = ("--zones", town / "zones.geojson")
    truth = ("--events", town / "events.parquet", "--towers", town / "towers.csv")
    chosen = [releases[name] for name in ("bayes", "paris", "gaussian")]
    few = ("--seeds", "1", "--rounds", "8", "--group", "20")
    out = run.home / "internal"
    run.output("attack/recovery", "attack", chosen[0], *truth, *zones, *few, "--out", out, "--json")
    run.output("evaluate", "evaluate", *chosen, *truth, *zones, "--out", out, "--json")
    run.files("internal", out)
    beside = run.home / "internal-stream"
    slots = (streams["rhythm/user-day"], *truth, "--tz", "Europe/Paris", "--group", "0")
    quick = ("--solver", "cells", "--seeds", "1", "--quiet")
    run.command("attack/stream", "attack", *slots, *quick, "--out", beside)
    run.files("attack/stream", beside)
    attacked = run.home / "traces-attacked"
    walkers = towns["gps"] / "events.parquet"
    if run.command("attack/traces", "attack", "traces", walkers, "--out", attacked) is not None:
        run.files("attack/traces", attacked)
    pages = run.home / "pages"
    pages.mkdir()
    drawn = ("--figures", pages / "figures", "--quiet")
    run.command("report", "report", *chosen, "--out", pages / "index.html", *drawn)
    run.files("report", pages)
    forms = {"flowkit": ["--geojson"], "multimno": ["--zoning", "nuts:3"]}
    for form, options in forms.items():
        other = run.home / form
        told = run.command(f"export/{form}", "export", chosen[0], other, "--to", form, *options)
        if told is not None:
            run.files(f"export/{form}", other)
    run.output("inspect", "inspect", town / "events.parquet", "--json")
    for scheme in ("bayes", "paris", "gaussian", "laplace", "grouping"):
        places = ("--towers", town / "towers.csv", *zones, *PERIOD, "--no-rehearse")
        run.output(f"plan/{scheme}", "plan", *LOSS, *USERS, *places, "--scheme", scheme, "--json")
    ledger = ("--ledger", chosen[0].parent / "ledger.sqlite")
    for view in ("show", "history", "verify"):
        run.output(f"ledger/{view}", "ledger", view, *ledger, "--json")


@contextmanager
def working_folder(home: Path) -> Iterator[None]:
    """The fixed folder, empty, for one run at a time; removed afterwards."""
    with home.with_name(f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        try:
            yield
        finally:
            shutil.rmtree(home, ignore_errors=True)


def golden(home: Path, only: frozenset[str] = frozenset()) -> dict[str, str]:
    """All digests, by name, or those of these cases."""
    source = hold_still()
    from typer.testing import CliRunner

    import sfumato.cli.main as command

    print(f"the command is {command.__file__}", file=sys.stderr)
    with working_folder(home):
        run = Run(
            home, source, lambda words, text: CliRunner().invoke(command.app, words, text), only
        )
        towns = {"towers": home / "town", "gps": home / "walkers"}
        for name, options in {"towers": (), "gps": ("--gps",)}.items():
            run.command(f"city/{name}", "city", *CITY, *options, "--out", towns[name])
            run.files(f"city/{name}", towns[name])
        releases = density_cases(run, towns)
        streams = stream_cases(run, towns)
        trace_cases(run, towns)
        if not only:
            internal_cases(run, towns, releases, streams)
    return dict(sorted(run.digests.items()))


def compare(first: Path, second: Path) -> int:
    """Print what differs; 1 if anything does."""
    a, b = (json.loads(path.read_text("utf-8")) for path in (first, second))
    wrong = {name: "differs" for name in a.keys() & b.keys() if a[name] != b[name]}
    wrong |= dict.fromkeys(a.keys() - b.keys(), f"only in {first}")
    wrong |= dict.fromkeys(b.keys() - a.keys(), f"only in {second}")
    for name, what in sorted(wrong.items()):
        print(f"{name}: {what}")
    print(f"{len(wrong)} of {len(a.keys() | b.keys())} digests differ.")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Digests of all that the command publishes.")
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar=("A", "B"), help="say which digests differ"
    )
    parser.add_argument("--quick", action="store_true", help="a few cases only")
    given = parser.parse_args()
    if given.compare:
        return compare(*given.compare)
    home = Path(tempfile.gettempdir()) / f"sfumato-golden{'-quick' * given.quick}"
    print(json.dumps(golden(home, QUICK if given.quick else frozenset()), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
