"""What may only become less in the source, counted: python tools/house.py [--ways] [--write].

    python tools/house.py                   a table: product, laboratory, both, and what is allowed
    python tools/house.py --ways            with the files and edges of tools/walk.py
    python tools/house.py --src OTHER/src   another tree; its ways are walked there, too
    python tools/house.py --write           lower tests/house.toml to what is counted (and with
                                            --ways the ways); a value that rose is refused

Limits stand in tests/house.toml for the product (`src/sfumato`) and for both packages together:
what moves from the product into the laboratory costs nothing, what moves back or is written anew
does. What is counted:

* lines, statements: of every file of Python, docstrings among them;
* constants: names in capitals that a module binds;
* vague names: names that say nothing of what they hold, bound or taken as an argument;
* options passed on: keywords `x=x` (also `x=thing.x`), calls with `**options`, calls with more than
  four positional arguments;
* class names used twice: names that several class statements give.

A new room may raise the totals once, by figures that stand in tests/house.toml beside the page that
gives their reasons:

    [new.flows]
    page = "docs/decisions/flows.md"
    lines = 2900
    ways.release = { files = 3, edges = 8, both_ways = 0 }

Only lines and ways can be raised so.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIMITS = ROOT / "tests" / "house.toml"
PACKAGES = ("sfumato", "sfumato_lab")
SAYING_NOTHING = frozenset(
    [
        *("found", "said", "asked", "told", "made", "given", "held", "one", "other", "kept"),
        *("seen", "wanted", "known", "taken", "left", "some", "shown", "called", "read", "put"),
        *("things", "way"),
    ]
)
REPLACED_BY = frozenset({"item", "items", "obj", "info", "thing"})
"""Other names that say no more."""
VAGUE = SAYING_NOTHING | REPLACED_BY
RATCHETS = {
    "lines": "lines",
    "constants": "constants with a name",
    "vague": "vague names",
    "passed": "options passed on",
    "twice": "class names used twice",
}
WAY = ("files", "edges", "both_ways")
HEAD = """\
# What may only become less (tools/house.py says what is counted, and how a new room raises it).
# `python tools/house.py --write` lowers the values, and with `--ways` the ways. It raises none.
# central: at most ten files of up to 700 lines; every other one has at most 500.
"""


@dataclass
class Counts:
    """What was counted in some files."""

    files: dict[str, int] = field(default_factory=dict)
    """Lines by path."""
    statements: int = 0
    constants: int = 0
    assigned: int = 0
    names: Counter[str] = field(default_factory=Counter)
    """Vague names that were bound."""
    arguments: Counter[str] = field(default_factory=Counter)
    """Vague names of arguments."""
    same: int = 0
    spread: int = 0
    positional: int = 0
    classes: Counter[str] = field(default_factory=Counter)

    @property
    def lines(self) -> int:
        return sum(self.files.values())

    @property
    def vague(self) -> int:
        return self.names.total() + self.arguments.total()

    @property
    def passed(self) -> int:
        return self.same + self.spread + self.positional

    @property
    def twice(self) -> int:
        return sum(times > 1 for times in self.classes.values())

    def add(self, path: str, text: str) -> None:
        """Count one file."""
        tree = ast.parse(text)
        self.files[path] = text.count("\n")
        for statement in tree.body:
            self.constants += len(capitals(statement))
        for node in ast.walk(tree):
            self.statements += isinstance(node, ast.stmt)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.assigned += 1
                self.names.update({node.id} & VAGUE)
            elif isinstance(node, ast.arg):
                self.arguments.update({node.arg} & VAGUE)
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] += 1
            elif isinstance(node, ast.Call):
                self.same += sum(map(is_same, node.keywords))
                self.spread += any(keyword.arg is None for keyword in node.keywords)
                self.positional += len(node.args) > 4


def capitals(statement: ast.stmt) -> list[str]:
    """Names in capitals that a statement of a module binds."""
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    else:
        return []
    parts = [part for target in targets for part in getattr(target, "elts", [target])]
    return [part.id for part in parts if isinstance(part, ast.Name) and part.id.isupper()]


def is_same(keyword: ast.keyword) -> bool:
    """Whether it hands a value on under the name that it has already."""
    value = keyword.value
    name = getattr(value, "id", None) or getattr(value, "attr", None)
    return isinstance(value, ast.Name | ast.Attribute) and name == keyword.arg


def counted(source: Path, packages: Iterable[str] = PACKAGES) -> Counts:
    """Everything in these packages of a folder of sources."""
    counts = Counts()
    for package in packages:
        for path in sorted((source / package).rglob("*.py")):
            counts.add(path.relative_to(source).as_posix(), path.read_text("utf-8"))
    return counts


@dataclass(frozen=True)
class House:
    """A folder of sources."""

    source: Path = ROOT / "src"

    @cached_property
    def product(self) -> Counts:
        return counted(self.source, PACKAGES[:1])

    @cached_property
    def lab(self) -> Counts:
        return counted(self.source, PACKAGES[1:])

    @cached_property
    def both(self) -> Counts:
        return Counts(
            *(
                getattr(self.product, part.name) | getattr(self.lab, part.name)
                if part.name == "files"
                else getattr(self.product, part.name) + getattr(self.lab, part.name)
                for part in fields(Counts)
            )
        )

    def ways(self) -> dict[str, dict[str, int]]:
        """Files and edges of each walk."""
        walk = [sys.executable, str(ROOT / "tools" / "walk.py"), "--json"]
        done = subprocess.run(
            walk,
            env=os.environ | {"PYTHONPATH": str(self.source)},
            stdout=subprocess.PIPE,
            check=True,
        )
        return {
            name: {"files": way["total"], "edges": way["edges"], "both_ways": way["both_ways"]}
            for name, way in json.loads(done.stdout).items()
        }


def limits(path: Path = LIMITS) -> dict[str, Any]:
    """The file of limits."""
    return tomllib.loads(path.read_text("utf-8"))


def raised(limits: Mapping[str, Any], *keys: str) -> int:
    """What new rooms may add to a limit."""
    total = 0
    for room in limits.get("new", {}).values():
        for key in keys:
            room = room.get(key, {})
        total += room or 0
    return total


def risen(limits: Mapping[str, Any], house: House) -> list[str]:
    """What is above its limit, and by how much."""
    problems = []
    for part in ("product", "both"):
        for name, words in RATCHETS.items():
            now, before = getattr(getattr(house, part), name), limits[part][name]
            most = before + (raised(limits, name) if name == "lines" else 0)
            if now > most:
                problems.append(f"{part}: {words}: {now}, {now - most} more than {most}")
    return problems


def risen_ways(limits: Mapping[str, Any], ways: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The same for the ways."""
    problems = []
    for name, way in ways.items():
        for key in WAY:
            most = limits["ways"][name][key] + raised(limits, "ways", name, key)
            if way[key] > most:
                words = key.replace("_", " ")
                problems.append(f"{name}: {words}: {way[key]}, {way[key] - most} more than {most}")
    return problems


def too_long(limits: Mapping[str, Any], house: House) -> list[str]:
    """Files above 500 lines that are not among the ten that may have 700."""
    central = limits["central"]
    problems = [f"{name} is not there" for name in central if name not in house.both.files]
    if len(central) > 10:
        problems.append(f"{len(central)} files are called central")
    for name, lines in house.both.files.items():
        most = 700 if name in central else 500
        if lines > most:
            problems.append(f"{name}: {lines} lines, {lines - most} more than {most}")
    return problems


def unexplained(limits: Mapping[str, Any], house: House) -> list[str]:
    """New rooms that are not there, or whose page does not give the figure."""
    problems = []
    for name, room in limits.get("new", {}).items():
        page = ROOT / room["page"]
        if not (house.source / "sfumato" / name).exists():
            problems.append(f"{name}: there is no such room")
        text = page.read_text("utf-8").replace(",", "") if page.is_file() else ""
        if str(room.get("lines", 0)) not in text:
            problems.append(f"{name}: {room['page']} does not state {room.get('lines', 0)} lines")
    return problems


def lowered(
    limits: Mapping[str, Any],
    house: House,
    ways: Mapping[str, Mapping[str, int]] | None,
) -> dict[str, Any]:
    """The limits as they are now, where they are lower.

    Raises:
        SystemExit: Something rose.
    """
    problems = risen(limits, house) + (risen_ways(limits, ways) if ways else [])
    if problems:
        raise SystemExit("Nothing is raised here:\n" + "\n".join(problems))
    parts = {
        part: {
            name: getattr(getattr(house, part), name)
            - (raised(limits, name) if name == "lines" else 0)
            for name in RATCHETS
        }
        for part in ("product", "both")
    }
    walked = {
        name: {key: way[key] - raised(limits, "ways", name, key) for key in WAY}
        for name, way in (ways or {}).items()
    }
    return {**limits, **parts, "ways": {**limits["ways"], **walked}}


def as_toml(limits: Mapping[str, Any]) -> str:
    """The file of limits as text."""
    names = "".join(f'    "{name}",\n' for name in limits["central"])
    lines = [HEAD, f"central = [\n{names}]" if names else "central = []"]
    for part in ("product", "both"):
        lines += ["", f"[{part}]", *(f"{name} = {limits[part][name]}" for name in RATCHETS)]
    lines += ["", "[ways]", *(f"{name} = {_way(way)}" for name, way in limits["ways"].items())]
    for name, room in limits.get("new", {}).items():
        key = json.dumps(name)  # a room may be a file, whose name a bare key cannot hold
        lines += ["", f"[new.{key}]", f'page = "{room["page"]}"', f"lines = {room['lines']}"]
        lines += [f"ways.{walk} = {_way(way)}" for walk, way in room.get("ways", {}).items()]
    return "\n".join(lines) + "\n"


def _way(way: Mapping[str, int]) -> str:
    return "{ " + ", ".join(f"{key} = {way[key]}" for key in WAY) + " }"


def table(house: House, ways: Mapping[str, Mapping[str, int]] | None) -> str:
    """What is counted, as it stands in a page."""
    parts = (house.product, house.lab, house.both)

    def row(words: str, name: str) -> str:
        cells = (f"{getattr(part, name):,}" for part in parts)
        return f"| {words} | {' | '.join(cells)} |"

    rows = ["| | product | laboratory | both |", "|---|---|---|---|", row("lines", "lines")]
    rows += [row("statements", "statements")]
    rows += [row(words, name) for name, words in RATCHETS.items() if name != "lines"]
    kinds = {"`x=x`": "same", "`**options`": "spread", "more than four by position": "positional"}
    rows += [row(f"of the options passed on: {words}", name) for words, name in kinds.items()]
    share = [f"{part.names.total() / max(part.assigned, 1):.1%}" for part in parts]
    rows.append(f"| vague names among those bound | {' | '.join(share)} |")
    for name, way in (ways or {}).items():
        words = f"{way['files']} files, {way['edges']} edges, {way['both_ways']} both ways"
        rows.append(f"| one {name} passes | | | {words} |")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--src", type=Path, default=ROOT / "src", help="the folder of sources")
    parser.add_argument("--ways", action="store_true", help="walk, too")
    parser.add_argument("--write", action="store_true", help="lower tests/house.toml")
    options = parser.parse_args()
    house = House(options.src.resolve())
    ways = house.ways() if options.ways else None
    print(table(house, ways))
    before = limits()
    if options.write:
        LIMITS.write_text(as_toml(lowered(before, house, ways)), encoding="utf-8")
        return 0
    problems = risen(before, house) + too_long(before, house)
    problems += risen_ways(before, ways) if ways else []
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
