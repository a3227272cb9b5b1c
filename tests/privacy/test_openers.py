"""Nobody but the named few can open a private box: seen in the source, and refused when tried."""

from __future__ import annotations

import ast
import functools
import tomllib
import types
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import PrivateNumbers
from sfumato.model import extensions, private
from sfumato.model.private import Private
from sfumato.privacy import door
from sfumato.streams.vault import packed

pytestmark = pytest.mark.privacy
INSIDE = {"_through_the_door", "_Private__content", "_TraceSource__traces"}
"""What only the box, the door and the source of true traces may name."""
PUBLIC = {"public_facts", "candidates", "PublicFacts"}
"""What anyone in the wall may ask of a box: shape and sensitivities, none of its numbers."""


@functools.cache
def packages() -> dict[str, Path]:
    """Folders of the product, its laboratory and what comes in by an entry point here."""
    points = entry_points(group=extensions.GROUP)
    names = {"sfumato", "sfumato_lab", *(point.module.partition(".")[0] for point in points)}
    return {name: Path(str(import_module(name).__file__)).parent for name in sorted(names)}


@functools.cache
def sources() -> list[tuple[str, ast.Module]]:
    modules = []
    for package, folder in packages().items():
        for path in sorted(folder.rglob("*.py")):
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            name = ".".join(parts).removesuffix(".__init__")
            modules.append((name, ast.parse(path.read_text(encoding="utf-8"))))
    return modules


def reaching(tree: ast.Module) -> set[str]:
    """What a module names of the inside of a box, and what it takes from the door."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in INSIDE:
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {word for word in INSIDE if node.value == word}
            found |= {node.value} & {"sfumato.privacy.door"}
        elif isinstance(node, ast.ImportFrom) and node.module == "sfumato.privacy.door":
            found |= {alias.name for alias in node.names} - PUBLIC
        elif isinstance(node, ast.ImportFrom) and node.module == "sfumato.privacy":
            found |= {alias.name for alias in node.names} & {"door"}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & {"sfumato.privacy.door"}
    return found


def test_only_the_named_few_reach_into_a_box() -> None:
    box_itself = {"sfumato.model.private", "sfumato.privacy.door"}
    caught = {
        name: reaching(tree)
        for name, tree in sources()
        if name not in box_itself
        and not any(name == few or name.startswith(f"{few}.") for few in door.OPENERS)
    }
    assert {name: what for name, what in caught.items() if what} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "def f(box):\n    return box._through_the_door()",
        "def f(box):\n    return getattr(box, '_Private__content')",
        "def f(box):\n    from sfumato.privacy.door import open_private as o\n    return o(box)",
        "import importlib\ndoor = importlib.import_module('sfumato.privacy.door')",
        "from sfumato.privacy import door",
    ],
)
def test_the_search_sees_every_way_in(planted: str) -> None:
    assert reaching(ast.parse(planted))


def test_only_the_store_packs_what_the_vault_opens() -> None:
    """Packed and not yet sealed, a box lies open: `packed(box)` was a way around the door."""
    packing = {
        name
        for name, tree in sources()
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and node.module == "sfumato.streams.vault")
        or (
            isinstance(node, ast.Import | ast.ImportFrom)
            and "vault" in {a.name for a in node.names}
        )
        or (isinstance(node, ast.Constant) and node.value == "sfumato.streams.vault")
    }
    assert packing == {"sfumato.streams.state", "sfumato.privacy.door"}
    text = "from sfumato.streams.vault import packed\ndef look(box): return packed(box)"
    box = Private(np.arange(3), "made-up numbers")
    for name in ("sfumato.streams.schemes.baselines", "sfumato_lab.streams.threshold"):
        with pytest.raises(PrivateNumbers, match="may not pack"):
            module_called(name, text).look(box)
    with ThreadPoolExecutor(1) as pool, pytest.raises(PrivateNumbers):
        pool.submit(packed, box).result()


DRAWING = {
    "bernoulli_exp",
    "choose",
    "discrete_gaussian",
    "discrete_laplace",
    "fill_polar",
    "planar_laplace",
    "polar",
}
"""What turns random bits into noise."""


def test_noise_is_drawn_in_mechanisms_alone() -> None:
    """Whoever wants noise takes a measurement, which is charged: also on locations."""
    drawing = {
        name
        for name, tree in sources()
        for node in ast.walk(tree)
        if (
            isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith(("sfumato.privacy.noise", "sfumato.model.sphere"))
            and {alias.name for alias in node.names} & DRAWING
        )
        or (
            isinstance(node, ast.Attribute)
            and node.attr in DRAWING - {"choose", "polar", "planar_laplace"}
        )
    }
    outside = {name for name in drawing if not name.startswith("sfumato.privacy.noise")}
    assert outside
    assert all(name.startswith("sfumato.privacy.mechanisms.") for name in outside), outside


def test_every_opener_exists() -> None:
    known = {name for name, _ in sources()}
    assert set(door.OPENERS) <= known


def module_called(name: str, text: str) -> types.ModuleType:
    module = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
    return module


OPENING = "from sfumato.privacy.door import open_private\ndef look(box): return open_private(box)"
REACHING = "def look(box): return box._through_the_door()"


@pytest.mark.parametrize(
    "name",
    [
        "sfumato.density.baselines",
        "sfumato.streams.replay",
        "sfumato.density.publish",
        "sfumato.traces.bounds",
        "sfumato.traces.mechanisms",
        "sfumato.traces.publish",
        "sfumato.attacks.traces.run",
        "sfumato_lab",
        "sfumato_lab.toy",
    ],
)
@pytest.mark.parametrize("text", [OPENING, REACHING])
def test_a_module_that_is_not_named_is_refused_when_it_tries(name: str, text: str) -> None:
    box = Private(np.arange(3), "made-up numbers")
    with pytest.raises(PrivateNumbers) as refused:
        module_called(name, text).look(box)
    assert "2" not in str(refused.value)


@pytest.mark.parametrize("text", [OPENING, REACHING])
def test_a_package_that_is_bound_is_refused_and_the_holders_own_code_is_not(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private, "_BOUND", set(private._BOUND))
    box = Private(np.arange(3), "made-up numbers")
    module = module_called("third_party.schemes", text)
    assert module.look(box).tolist() == [0, 1, 2]
    private.bind("third_party.plugin")
    with pytest.raises(PrivateNumbers):
        module.look(box)
    assert module_called("third_party_tools", text).look(box).tolist() == [0, 1, 2]


def test_a_mechanism_may_open_but_not_go_around_the_door() -> None:
    box = Private(np.arange(3), "made-up numbers")
    name = "sfumato.privacy.mechanisms.additive"
    assert module_called(name, OPENING).look(box).tolist() == [0, 1, 2]
    with pytest.raises(PrivateNumbers):
        module_called(name, REACHING).look(box)


def test_the_import_rules_name_every_package_that_may_not_open_a_box() -> None:
    """A new package is put under the rule, or among the openers, on purpose."""
    settings = Path(__file__).parents[2] / "pyproject.toml"
    contracts = tomllib.loads(settings.read_text())["tool"]["importlinter"]["contracts"]
    (rule,) = [c for c in contracts if c.get("forbidden_modules") == ["sfumato.privacy.door"]]
    top = {"sfumato_lab"}  # all of it, but for what is an opener
    top |= {name for name, _ in sources() if name.count(".") == 1 and name.startswith("sfumato.")}
    ruled = set(rule["source_modules"])
    rest = {name for name in top - ruled if not name.startswith("sfumato.privacy")}
    partly = {"sfumato.audits"}  # some of its modules are openers
    assert all(any(few.startswith(f"{name}.") for few in door.OPENERS) for name in partly)
    excused = {line.partition(" -> ")[0].removesuffix(".**") for line in rule["ignore_imports"]}
    assert excused <= set(door.OPENERS)
    assert rest - partly - set(door.OPENERS) <= {"sfumato.__main__", "sfumato.errors"}


def test_type_checking_is_what_it_says() -> None:
    """The import rules leave out what stands under it, so nothing may make it true."""
    for name, tree in sources():
        for node in ast.walk(tree):
            stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            assert not (stored and node.id == "TYPE_CHECKING"), name
            if isinstance(node, ast.ImportFrom):
                taken = {alias.name for alias in node.names}
                assert "TYPE_CHECKING" not in taken or node.module == "typing", name
