"""Opens the zoo: every file in `zoo/` holds broken mechanisms and their corrected forms."""

import importlib.util
from pathlib import Path

import pytest

ZOO = Path(__file__).with_name("zoo")


def _load(path):
    spec = importlib.util.spec_from_file_location(f"zoo_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def zoo():
    """All files of the zoo as modules, by name."""
    return {path.stem: _load(path) for path in sorted(ZOO.glob("*.py"))}


def pytest_generate_tests(metafunc):
    """`broken`, `corrected`: (subject, runs); `exact_broken`, `exact_corrected`: (p, q, claim)."""
    for name in ("broken", "corrected", "exact_broken", "exact_corrected"):
        if name not in metafunc.fixturenames:
            continue
        cases, ids = [], []
        for module in map(_load, sorted(ZOO.glob("*.py"))):
            held = getattr(module, name.upper(), None)
            if held is None:
                continue
            if name.startswith("exact"):
                cases.append(held)
                ids.append(module.__name__)
            else:
                cases += [(subject, module.RUNS) for subject in held]
                ids += [subject.name for subject in held]
        metafunc.parametrize(name, cases, ids=ids)
