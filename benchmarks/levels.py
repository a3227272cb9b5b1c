"""Do levels hold? Small populations, three kinds of people, real data: error, total, intervals.

    python -m benchmarks levels                                   # the judgement; writes docs
    python -m benchmarks.levels --quick                           # development cities, few draws
    python -m benchmarks.levels --quick --only calls,40,5000,0.3  # one cell of the design
    python -m benchmarks.levels --only gps,40 --draws 40 --parameter visits=127

A cell of the design is a kind of people, a number of zones, a number of people and an epsilon. Its
releases are spread over several cities of their own; each is judged as in `_levels_judge`, and the
means stand in docs/benchmarks/levels.md and .json beside the bars they have to meet. Without an
option, or with `--judge`, the cities are fresh ones that tuned nothing; with any other option they
are the development ones, and the table is written to out/levels. `--only` takes the parts of a
cell's name, in any order, any of them missing. What was computed is kept in out/levels, so that a
run that was stopped goes on, as long as the code is the same; what `paris` gave is kept longer.
`--study crowd` and `--study weak` are about large cities: docs/benchmarks/levels-studies.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks._levels_judge import RIVAL, Mean, drawn, verdict_of
from benchmarks._levels_page import figures, page, summary
from benchmarks._levels_people import KINDS, Population, population
from benchmarks._levels_real import REAL, missing, real_population
from benchmarks._levels_studies import STUDIES, studies_page

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "benchmarks"
OUT = Path(os.environ.get("SFUMATO_BENCH_DIR", ROOT / "out")) / "levels"
ZONES = (40, 400)
PEOPLE = (1_000, 2_000, 5_000, 10_000, 50_000)
EPSILONS = (0.3, 1.0)
DRAWS, CITIES = 20, 4
DEVELOPMENT, FRESH = 500, 130_000
"""First seeds of the cities: the development ones may tune what they like, the fresh ones judge."""


@dataclass(frozen=True, slots=True)
class Task:
    """Some releases of one city. Zones and people of a real one are found when it is read."""

    kind: str
    zones: int
    people: int
    seed: int
    epsilons: tuple[float, ...]
    draws: tuple[int, ...]
    scheme: str
    parameters: Mapping[str, float]
    rivals: bool
    code: str

    @property
    def group(self) -> tuple[str, int, int]:
        return self.kind, self.zones, self.people

    def populated(self) -> Population:
        """The city's people."""
        if self.kind in REAL:
            return real_population(self.kind, self.seed)
        return population(self.kind, self.zones, self.people, self.seed)


def code() -> str:
    """Digest of everything that a release is computed with."""
    found = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")) + sorted((ROOT / "benchmarks").glob("*.py")):
        if path.parent.name not in ("cli", "reports", "audits", "attacks", "streams", "traces"):
            found.update(path.read_bytes())
    return found.hexdigest()[:12]


def work(task: Task) -> dict[str, dict[str, Any]]:
    """What a task gives; a run that was stopped goes on where it was, if the code is the same."""
    name = hashlib.sha256(repr(task).encode()).hexdigest()[:12]
    path = OUT / "kept" / f"{task.code}-{name}.json"
    if not path.is_file():
        found = json.dumps(_worked(task))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found)
    known: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return known


def _worked(task: Task) -> dict[str, dict[str, Any]]:
    """Verdicts, the error of `paris` and of zeros, by cell of the design."""
    people = task.populated()
    found = {}
    city = f"{task.kind}-{task.zones}-{task.people}-{task.seed}"
    for epsilon in task.epsilons:
        facts = people.facts(epsilon, dict(task.parameters))
        verdicts = drawn(people, task.scheme, facts, task.draws, city)
        name = f"{task.kind},{people.truth.shape[0]},{people.people},{epsilon:g}"
        found[name] = {
            "zeros": float(people.truth.mean()),
            "verdicts": [verdict.as_json() for verdict in verdicts],
            "rival": _rival(people, epsilon, task.draws, city) if task.rivals else [],
        }
    return found


def _rival(people: Population, epsilon: float, draws: tuple[int, ...], city: str) -> list[float]:
    """Errors of `paris`, drawn once and remembered by city and draw."""
    same = zlib.crc32(people.truth.tobytes())
    path = OUT / f"{RIVAL}-{city}-{same:08x}-{epsilon:g}-{draws[0]}.json"
    known: dict[str, float] = json.loads(path.read_text()) if path.is_file() else {}
    new = [draw for draw in draws if str(draw) not in known]
    if new:
        for verdict in drawn(people, RIVAL, people.facts(epsilon), new, city):
            known[str(verdict.draw)] = verdict.mae_count
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(known))
    return [known[str(draw)] for draw in draws]


def tasks(asked: argparse.Namespace) -> Iterator[Task]:
    """Every city that is asked for, the small ones first."""
    first, now = FRESH if asked.judge else asked.seed, code()
    choice = Choice.of(asked.only)
    cities = min(asked.cities, asked.draws)
    epsilons = tuple(e for e in EPSILONS if choice.wants("epsilon", f"{e:g}"))
    made = [
        (kind, zones, people)
        for people in PEOPLE
        if not asked.quick or people <= 10_000 or str(people) in choice.parts
        for zones in ZONES
        for kind in KINDS
        if choice.wants("kind", kind)
        and choice.wants("zones", str(zones))
        and choice.wants("people", str(people))
    ]
    real = [name for name in REAL if choice.wants("kind", name)]
    if choice.has("zones") or choice.has("people") or (asked.quick and not choice.has("kind")):
        real = []
    for name in real:
        reason = missing(name)
        if reason is not None:
            print(f"left out: {reason}", flush=True)
    groups = made + [(name, 0, 0) for name in real if missing(name) is None]
    for kind, zones, people in groups:
        for city in range(cities):
            yield Task(
                kind,
                zones,
                people,
                first + (0 if kind in REAL else city),
                epsilons,
                tuple(range(city, asked.draws, cities)),
                asked.scheme,
                dict(asked.parameter),
                not asked.no_rivals,
                now,
            )


SORTS = {
    "kind": (*KINDS, *REAL),
    "zones": tuple(map(str, ZONES)),
    "people": tuple(map(str, PEOPLE)),
    "epsilon": tuple(f"{e:g}" for e in EPSILONS),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """The parts of cells' names that were asked for."""

    parts: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Choice:
        parts = frozenset(filter(None, text.split(",")))
        known = [name for names in SORTS.values() for name in names]
        if parts - set(known):
            raise SystemExit(f"--only knows {', '.join(known)}")
        return cls(parts)

    def has(self, what: str) -> bool:
        """Whether anything of that sort is named."""
        return bool(self.parts & set(SORTS[what]))

    def wants(self, what: str, name: str) -> bool:
        """Named, or nothing of its sort is."""
        return name in self.parts or not self.has(what)


def run(todo: list[Task], processes: int) -> dict[str, dict[str, Any]]:
    """All tasks; verdicts of the cities of a cell put together."""
    cells: dict[str, dict[str, Any]] = {}
    left: dict[tuple[str, int, int], int] = {}
    for task in todo:
        left[task.group] = left.get(task.group, 0) + 1
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(work, task): task for task in todo}
        for done in as_completed(waiting):
            group = waiting[done].group
            left[group] -= 1
            for name, found in done.result().items():
                cell = cells.setdefault(name, {"zeros": [], "verdicts": [], "rival": []})
                cell["zeros"].append(found["zeros"])
                cell["verdicts"] += [verdict_of(row) for row in found["verdicts"]]
                cell["rival"] += found["rival"]
                if left[group] == 0:
                    print(summary(name, cell), flush=True)
    return cells


def plain(value: Any) -> Any:
    """Figures as JSON has them."""
    if isinstance(value, Mean):
        return {"mean": plain(value.mean), "error": plain(value.error)}
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value


def study(name: str, seed: int, draws: int, folder: Path) -> None:
    """Run a study; its rows replace the ones of its name."""
    rows = STUDIES[name](seed, draws, lambda line: print(line, flush=True))
    path = folder / "levels-studies.json"
    known = json.loads(path.read_text("utf-8")) if path.is_file() else []
    now = {row["study"] for row in rows}
    rows = [row for row in known if row["study"] not in now] + rows
    path.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    (folder / "levels-studies.md").write_text(studies_page(rows), "utf-8")


def _setting(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    return name, float(value)


def options() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__)
    found.add_argument("--only", default="", help="parts of a cell: kind,zones,people,epsilon")
    found.add_argument("--draws", type=int)
    found.add_argument("--cities", type=int, default=CITIES)
    found.add_argument("--scheme", default="bayes")
    found.add_argument("--parameter", type=_setting, action="append", default=[])
    found.add_argument("--seed", type=int, default=DEVELOPMENT)
    found.add_argument("--judge", action="store_true", help="the fresh cities; writes docs")
    found.add_argument("--quick", action="store_true", help="four draws, two cities, no docs")
    found.add_argument("--no-rivals", action="store_true", help="leave paris out")
    found.add_argument("--study", choices=sorted(STUDIES), help="a study of large cities instead")
    found.add_argument("--processes", type=int, default=2)
    found.add_argument("--write", type=Path, help="folder of the table; docs with --judge")
    return found


def main() -> None:
    asked = options().parse_args(sys.argv[1:] or ["--judge"])
    if asked.quick:
        asked.cities = min(asked.cities, 2)
    asked.draws = asked.draws or (4 if asked.quick else DRAWS)
    folder = asked.write or (FOLDER if asked.judge and not asked.only else OUT)
    folder.mkdir(parents=True, exist_ok=True)
    if asked.study:
        study(asked.study, FRESH if asked.judge else asked.seed, asked.draws, folder)
        return
    start = time.time()
    cells = run(list(tasks(asked)), asked.processes)
    print(f"{time.time() - start:.0f} s")
    found = {name: {k: plain(v) for k, v in figures(name, cells[name]).items()} for name in cells}
    (folder / "levels.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    (folder / "levels.md").write_text(page(cells, asked.scheme, asked.judge), "utf-8")
    print(f"written to {folder}/levels.md")


if __name__ == "__main__":
    main()
