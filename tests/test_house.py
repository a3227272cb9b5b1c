"""The floor plan, held against the source: what may only become less, and nothing unreachable.

`tools/house.py` counts, `tests/house.toml` holds the limits. What imports what is checked by
import-linter (`pyproject.toml`).
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tools import house

import sfumato

ROOT = Path(sfumato.__file__).parents[1]
DOORS = ("sfumato", "sfumato.__main__", "sfumato.cli", "sfumato_lab", "sfumato_lab.offers")
"""Where users come in; everything but the studies can be reached from here."""
TABLES = ("sfumato", "sfumato.cli.main", *DOORS[3:])
"""Modules that load others by names in a table."""


def _modules() -> dict[str, Path]:
    modules = {}
    for path in sorted(
        path for package in house.PACKAGES for path in (ROOT / package).rglob("*.py")
    ):
        parts = path.relative_to(ROOT).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = path
    return modules


MODULES = _modules()


def _imports(module: str) -> set[str]:
    """Modules of ours that one imports, wherever in it, or loads by a name in a table."""
    found: set[str] = set()
    tables = module in TABLES
    for node in ast.walk(ast.parse(MODULES[module].read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif tables and isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.partition(":")[0])
    return found & MODULES.keys()


IMPORTS = {name: _imports(name) for name in MODULES}


def _folder(name: str) -> str:
    return name.rpartition(".")[0]


def test_every_module_can_be_reached_from_the_door_or_a_command() -> None:
    seen: set[str] = set()
    todo = [name for name in MODULES if name in DOORS or name.startswith("sfumato.cli.")]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += [*IMPORTS[name], *filter(None, [_folder(name)])]
    missed = MODULES.keys() - seen
    assert {name for name in missed if not name.startswith("sfumato_lab.studies.")} == set()


@pytest.fixture(scope="module")
def counted() -> house.House:
    return house.House()


def test_nothing_rises_that_may_only_become_less(counted: house.House) -> None:
    """Lower the limits by `python tools/house.py --write`; it raises none."""
    limits = house.limits()
    assert house.risen(limits, counted) == []
    assert house.too_long(limits, counted) == []
    assert house.unexplained(limits, counted) == []


@pytest.mark.slow  # it runs the command six times
def test_no_way_becomes_longer(counted: house.House) -> None:
    assert house.risen_ways(house.limits(), counted.ways()) == []


def test_limits_are_written_as_they_are_read() -> None:
    limits = house.limits()
    assert tomllib.loads(house.as_toml(limits)) == limits


PLANTED = {
    "lines": "\n",
    "constants": "MOST, LEAST = 7, 3",
    "vague": "def f(found): return [item for item in found]",
    "passed": "f(x=x)\nf(x=y.x)\nf(**options)\nf(1, 2, 3, 4, 5)",
    "twice": "class House: ...\nclass Box:\n    class House: ...",
}


def test_what_is_planted_is_counted() -> None:
    added = {"lines": 2, "constants": 2, "vague": 2, "passed": 4, "twice": 1}
    for name, text in PLANTED.items():
        counts = house.Counts()
        counts.add("sfumato/a.py", "")
        counts.add("sfumato/b.py", f"{text}\n")
        assert getattr(counts, name) == added[name], name
    counts = house.Counts()
    counts.add("a.py", "f(x=y, y=z.x)\nf(1, 2, 3, 4)\nvalues = [1]\nclass A: ...\n")
    assert [counts.constants, counts.vague, counts.passed, counts.twice] == [0, 0, 0, 0]


def test_what_rose_is_named_and_never_written(tmp_path: Path) -> None:
    """A new room may raise lines and ways once; names, constants and options are never raised."""
    for package in house.PACKAGES:
        (tmp_path / package).mkdir()
    room = tmp_path / "sfumato" / "flows.py"
    room.write_text("MOST = 7\n")
    before = {"lines": 1, "constants": 1, "vague": 0, "passed": 0, "twice": 0}
    way = {"files": 3, "edges": 2, "both_ways": 0}
    limits = {"central": [], "product": before, "both": before, "ways": {"release": way}}
    assert house.risen(limits, house.House(tmp_path)) == []
    room.write_text("MOST = 7\nLEAST = 2\n")
    assert house.risen(limits, house.House(tmp_path)) == [
        f"{part}: {words}: 2, 1 more than 1"
        for part in ("product", "both")
        for words in ("lines", "constants with a name")
    ]
    with pytest.raises(SystemExit, match="Nothing is raised here"):
        house.lowered(limits, house.House(tmp_path), None)
    new = {"flows": {"page": "docs/no-page.md", "lines": 9, "ways": {"release": {"files": 2}}}}
    raised = limits | {"new": new}
    assert len(house.risen(raised, house.House(tmp_path))) == 2  # the constant, in both
    assert house.risen_ways(raised, {"release": way | {"files": 5}}) == []
    assert house.risen_ways(limits, {"release": way | {"edges": 5}}) == [
        "release: edges: 5, 3 more than 2"
    ]
    assert house.unexplained(raised, house.House(tmp_path)) == [
        "flows: there is no such room",
        "flows: docs/no-page.md does not state 9 lines",
    ]
    room.write_text("")
    lower = house.lowered(limits, house.House(tmp_path), {"release": way | {"files": 2}})
    assert lower["product"]["constants"] == 0
    assert lower["ways"]["release"]["files"] == 2
    room.write_text("\n" * 501)
    assert house.too_long(limits, house.House(tmp_path)) == [
        "sfumato/flows.py: 501 lines, 1 more than 500"
    ]
    assert house.too_long(limits | {"central": ["sfumato/flows.py"]}, house.House(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.skipif("SFUMATO_JUDGES" not in os.environ, reason="SFUMATO_JUDGES names no judges")
@pytest.mark.parametrize("package", house.PACKAGES)
def test_the_judges_count_the_same(package: str) -> None:
    counts = house.counted(ROOT, [package])
    shown = {
        judge: subprocess.run(
            [sys.executable, Path(os.environ["SFUMATO_JUDGES"]) / judge, ROOT / package],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for judge in ("words.py", "forwarding.py")
    }
    nothing = sum(counts.names[name] for name in house.SAYING_NOTHING)
    assert f"names: {counts.assigned} of these to vague ones: {nothing}\n" in shown["words.py"]
    assert f"used in several files: {counts.twice} {{" in shown["words.py"]
    (total,) = (line for line in shown["forwarding.py"].splitlines() if line.startswith("ALL"))
    assert int(total.split()[3]) == counts.same
