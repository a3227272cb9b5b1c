"""The floor plan, held against the source: few files, none too small or too long, none unreachable.

What imports what beyond this is checked by import-linter (`pyproject.toml`).
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import sfumato

ROOT = Path(sfumato.__file__).parent
DOORS = ("sfumato", "sfumato.__main__", "sfumato.cli")
"""Where users come in; everything but the studies can be reached from here."""


def _modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ("sfumato", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = _modules()
LINES = {name: len(path.read_text("utf-8").splitlines()) for name, path in MODULES.items()}


def _imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, wherever in it, or loads by a name in a table."""
    found: set[str] = set()
    tables = path in (ROOT / "__init__.py", ROOT / "cli" / "main.py")
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif tables and isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.partition(":")[0])
    return found & MODULES.keys()


IMPORTS = {name: _imports(path) for name, path in MODULES.items()}


def test_at_most_five_files_a_thousand_lines() -> None:
    assert 1000 * len(MODULES) / sum(LINES.values()) <= 5


def test_no_file_is_longer_than_a_topic() -> None:
    assert {name: lines for name, lines in LINES.items() if lines > 500} == {}


def test_no_small_file_serves_one_neighbour_alone() -> None:
    users: dict[str, set[str]] = defaultdict(set)
    for name, used in IMPORTS.items():
        for one in used:
            users[one].add(name)
    lonely = {
        name
        for name, lines in LINES.items()
        if lines < 60 and MODULES[name].name not in ("__init__.py", "__main__.py")
        if len(users[name]) == 1 and _folder(name) == _folder(*users[name])
        if _folder(name) != "sfumato.cli" and name != "sfumato.privacy.door"
    }
    assert lonely == set()


def _folder(name: str) -> str:
    return name.rpartition(".")[0]


def test_every_module_can_be_reached_from_the_door_or_a_command() -> None:
    seen: set[str] = set()
    todo = [name for name in MODULES if name in DOORS or name.startswith("sfumato.cli.")]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += [*IMPORTS[name], *(one for one in (_folder(name),) if one)]
    lost = {name for name in MODULES if name not in seen and not name.startswith("sfumato_lab")}
    assert lost == set()
