"""Do levels hold? Small populations, three kinds of people, real data: error, total, intervals.

    python -m benchmarks levels                                   # development seeds
    python -m benchmarks.levels --judge                           # the fresh seeds
    python -m benchmarks.levels --quick --only calls,40,5000,0.3  # one cell of the design
    python -m benchmarks.levels --only gps,40 --draws 40 --parameter visits=127

A cell of the design is a kind of people, a number of zones, a number of people and an epsilon. Its
releases are spread over several cities of their own; each is judged as in `_levels_judge`, and the
means stand in docs/benchmarks/levels.md and .json beside the bars they have to meet. `--only` takes
the parts of a cell's name, in any order, any of them missing. What `paris` gives is remembered in
out/levels, since it does not change.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks._levels_judge import RIVAL, Verdict, drawn, verdict_of
from benchmarks._levels_page import page, summary
from benchmarks._levels_people import KINDS, population

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "benchmarks"
OUT = Path(os.environ.get("SFUMATO_BENCH_DIR", ROOT / "out")) / "levels"
ZONES = (40, 400)
PEOPLE = (1_000, 2_000, 5_000, 10_000, 50_000)
EPSILONS = (0.3, 1.0)
DRAWS, CITIES = 20, 4
DEVELOPMENT, FRESH = 500, 90_000
"""First seeds of the cities: the development ones may tune what they like, the fresh ones judge."""


@dataclass(frozen=True, slots=True)
class Task:
    """All releases of one made-up city."""

    kind: str
    zones: int
    people: int
    seed: int
    epsilons: tuple[float, ...]
    draws: tuple[int, ...]
    scheme: str
    parameters: Mapping[str, float]
    rivals: bool

    @property
    def city(self) -> str:
        return f"{self.kind}-{self.zones}-{self.people}-{self.seed}"


def cell_name(kind: str, zones: int, people: int, epsilon: float) -> str:
    return f"{kind},{zones},{people},{epsilon:g}"


def work(task: Task) -> dict[str, dict[str, Any]]:
    """Verdicts, the error of `paris` and of zeros, by cell of the design."""
    start = time.process_time()
    people = population(task.kind, task.zones, task.people, task.seed)
    made = time.process_time() - start
    found = {}
    for epsilon in task.epsilons:
        facts = people.facts(epsilon, dict(task.parameters))
        verdicts = drawn(people, task.scheme, facts, task.draws, task.city)
        name = cell_name(task.kind, task.zones, task.people, epsilon)
        found[name] = {
            "zeros": float(people.truth.mean()),
            "verdicts": [verdict.as_json() for verdict in verdicts],
            "rival": _rival(task, people, epsilon) if task.rivals else [],
            "made_cpu": made,
        }
    return found


def _rival(task: Task, people: Any, epsilon: float) -> list[float]:
    """Errors of `paris`, drawn once and remembered."""
    path = OUT / f"{RIVAL}-{task.city}-{epsilon:g}.json"
    known: dict[str, float] = json.loads(path.read_text()) if path.is_file() else {}
    missing = [draw for draw in task.draws if str(draw) not in known]
    if missing:
        for verdict in drawn(people, RIVAL, people.facts(epsilon), missing, task.city):
            known[str(verdict.draw)] = verdict.mae_count
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(known))
    return [known[str(draw)] for draw in task.draws]


def tasks(asked: argparse.Namespace) -> Iterator[Task]:
    """Every city that is asked for, the small ones first."""
    first = FRESH if asked.judge else asked.seed
    parts = set(filter(None, asked.only.split(","))) if asked.only else set()
    known = {*KINDS, *(str(n) for n in (*ZONES, *PEOPLE)), *(f"{e:g}" for e in EPSILONS)}
    if parts - known:
        raise SystemExit(f"--only knows {', '.join(sorted(known))}")
    epsilons = tuple(e for e in EPSILONS if _wanted(f"{e:g}", parts, [f"{e:g}" for e in EPSILONS]))
    cities = min(asked.cities, asked.draws)
    for people in PEOPLE:
        if asked.quick and people > 10_000 and str(people) not in parts:
            continue
        for zones in ZONES:
            for kind in KINDS:
                names = (
                    (kind, KINDS),
                    (str(zones), map(str, ZONES)),
                    (str(people), map(str, PEOPLE)),
                )
                if not all(_wanted(name, parts, list(all_)) for name, all_ in names):
                    continue
                for city in range(cities):
                    yield Task(
                        kind,
                        zones,
                        people,
                        first + city,
                        epsilons,
                        tuple(range(city, asked.draws, cities)),
                        asked.scheme,
                        dict(asked.parameter),
                        not asked.no_rivals,
                    )


def _wanted(name: str, parts: set[str], of: list[str]) -> bool:
    """Named, or nothing of its kind is."""
    return name in parts or not parts & set(of)


def run(todo: list[Task], processes: int) -> dict[str, dict[str, Any]]:
    """All tasks; verdicts of the cities of a cell put together."""
    cells: dict[str, dict[str, Any]] = {}
    left: dict[str, int] = {}
    for task in todo:
        for epsilon in task.epsilons:
            name = cell_name(task.kind, task.zones, task.people, epsilon)
            left[name] = left.get(name, 0) + 1
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(work, task) for task in todo]):
            for name, found in done.result().items():
                cell = cells.setdefault(name, {"zeros": [], "verdicts": [], "rival": []})
                cell["zeros"].append(found["zeros"])
                cell["verdicts"] += [verdict_of(row) for row in found["verdicts"]]
                cell["rival"] += found["rival"]
                left[name] -= 1
                if left[name] == 0:
                    print(summary(name, cell), flush=True)
    return cells


def kept(cells: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The same in plain values."""

    def plain(verdict: Verdict) -> dict[str, Any]:
        row = verdict.as_json()
        return {k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()}

    return {
        name: {**cell, "verdicts": [plain(verdict) for verdict in cell["verdicts"]]}
        for name, cell in cells.items()
    }


def _setting(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    return name, float(value)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="parts of a cell: kind,zones,people,epsilon")
    options.add_argument("--draws", type=int)
    options.add_argument("--cities", type=int, default=CITIES)
    options.add_argument("--scheme", default="bayes")
    options.add_argument("--parameter", type=_setting, action="append", default=[])
    options.add_argument("--seed", type=int, default=DEVELOPMENT)
    options.add_argument("--judge", action="store_true", help="the fresh cities; writes docs")
    options.add_argument("--quick", action="store_true", help="four draws, two cities, no docs")
    options.add_argument("--no-rivals", action="store_true", help="leave paris out")
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--write", type=Path, help="folder of the table; docs with --judge")
    asked = options.parse_args()
    if asked.quick:
        asked.cities = min(asked.cities, 2)
    asked.draws = asked.draws or (4 if asked.quick else DRAWS)
    todo = list(tasks(asked))
    start = time.time()
    cells = run(todo, asked.processes)
    print(f"{time.time() - start:.0f} s")
    folder = asked.write or (FOLDER if asked.judge and not asked.only else OUT)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "levels.json").write_text(json.dumps(kept(cells)) + "\n", "utf-8")
    (folder / "levels.md").write_text(page(cells, asked.scheme, asked.judge), "utf-8")
    print(f"written to {folder}/levels.md")


if __name__ == "__main__":
    main()
