"""Compiled code is kept where nobody else can put theirs, and never stands in the way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

from sfumato.model import compiled as kept

CALLER = """
from sfumato.model.compiled import compiled
from callee import FACTOR, twice

@compiled
def work(n):
    return FACTOR * twice(n)
"""
CALLEE = """
from sfumato.model.compiled import compiled

FACTOR = {factor}

@compiled
def twice(n):
    return {times} * n
"""


@pytest.fixture(autouse=True)
def _forgetful() -> Iterator[None]:
    """Every test decides anew where things are kept, and later tests as before it."""
    yield
    for remembered in (kept.compiled_folders, kept._own_folder, kept._kept_in, kept._digest):
        remembered.cache_clear()


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """A package of two files whose functions call each other, as another process would load it."""
    sources = tmp_path / "package"
    sources.mkdir()
    monkeypatch.setattr(kept.config, "CACHE_DIR", "", raising=False)

    def make(times: int = 2, factor: float = 1) -> ModuleType:
        (sources / "callee.py").write_text(CALLEE.format(times=times, factor=factor))
        (sources / "caller.py").write_text(CALLER)
        for remembered in (kept.compiled_folders, kept._own_folder, kept._kept_in, kept._digest):
            remembered.cache_clear()
        modules: dict[str, ModuleType] = {}
        for name in ("callee", "caller"):
            spec = util.spec_from_file_location(name, sources / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            modules[name] = util.module_from_spec(spec)
            monkeypatch.setitem(sys.modules, name, modules[name])
            spec.loader.exec_module(modules[name])
        return modules["caller"]

    return make


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.nb?")}


def test_code_is_kept_with_the_package_and_read_again(
    load: Callable[..., ModuleType], tmp_path: Path
) -> None:
    assert load().work(3) == 6
    assert any("work" in name for name in files(tmp_path / "package" / "__pycache__"))
    again = load()
    assert again.work(3) == 6
    assert sum(again.work.stats.cache_hits.values()) == 1


def test_kept_code_runs_without_what_compiling_takes(
    load: Callable[..., ModuleType], tmp_path: Path
) -> None:
    load().work(3)
    program = (
        "import sys\n"
        "from caller import work\n"
        "print(work(3), sum(work.stats.cache_hits.values()))\n"
        "print('numba.cpython.unicode' in sys.modules)\n"
        "print(work(0.5), 'numba.cpython.unicode' in sys.modules)\n"
    )
    paths = os.pathsep.join((str(tmp_path / "package"), *sys.path))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["6 1", "False", "1.0 True"]


def test_code_that_hashes_texts_is_not_kept(tmp_path: Path) -> None:
    """Its secrets would be missing where it is read again, and the process would be aborted."""
    (tmp_path / "hashing.py").write_text(
        "from sfumato.model.compiled import compiled\n\n"
        "@compiled\ndef hashed(text):\n    return hash(text)\n"
    )
    spec = util.spec_from_file_location("hashing", tmp_path / "hashing.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.hashed("tower") == hash("tower")
    assert not any("hashed" in name for name in files(tmp_path))


def test_what_another_file_gives_is_noticed(load: Callable[..., ModuleType]) -> None:
    """numba looks at a function's own file: stale code of a callee would go on being run."""
    assert load(times=2).work(3) == 6
    assert load(times=5).work(3) == 15
    assert load(times=5, factor=2).work(3) == 30


def test_a_package_that_cannot_be_written_is_read(
    load: Callable[..., ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load().work(3)
    before = files(tmp_path / "package")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr(kept.platformdirs, "user_cache_path", lambda: home / ".cache")
    no_writing(monkeypatch, tmp_path / "package")
    caller = load()
    assert caller.work(3) == 6
    assert not files(home), "nothing had to be compiled"
    assert caller.work(0.5) == 1.0, "and what was not there is"
    own = home / ".cache" / "sfumato-compiled"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert files(own)
    assert files(tmp_path / "package") == before


def test_with_no_folder_at_all_it_is_compiled_every_time(
    load: Callable[..., ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_own_folder", _Nowhere())
    no_writing(monkeypatch, tmp_path / "package")
    assert load().work(3) == 6
    assert not files(tmp_path)


def test_a_damaged_file_is_compiled_anew(load: Callable[..., ModuleType], tmp_path: Path) -> None:
    load().work(3)
    for path in (tmp_path / "package" / "__pycache__").glob("*.nb?"):
        path.write_bytes(path.read_bytes()[:7])
    assert load().work(3) == 6
    for path in (tmp_path / "package" / "__pycache__").glob("*.nb?"):
        path.write_bytes(b"not a pickle")
    assert load().work(3) == 6


@pytest.mark.skipif(os.name == "nt", reason="owners and modes of POSIX")
def test_a_folder_of_ones_own_is_nobody_elses(tmp_path: Path) -> None:
    assert kept._only_mine(tmp_path / "new" / "own")
    assert stat.S_IMODE((tmp_path / "new" / "own").stat().st_mode) == 0o700
    entered = tmp_path / "entered"
    entered.mkdir()
    entered.chmod(0o750)
    assert not kept._only_mine(entered), "its group may look"
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "new" / "own")
    assert not kept._only_mine(link), "a link may lead anywhere, tomorrow elsewhere"
    anybodys = tmp_path / "anybodys"
    anybodys.mkdir()
    anybodys.chmod(0o777)
    assert not kept._only_mine(anybodys / "own"), "anybody can put another in its stead"
    anybodys.chmod(0o1777)
    assert kept._only_mine(anybodys / "own"), "as in /tmp, where only owners can"
    assert not kept._only_mine(Path("~/.cache/own")), "there is no home"
    if os.geteuid() == 0:
        os.chown(anybodys / "own", 65534, 65534)
        assert not kept._only_mine(anybodys / "own"), "somebody else's"


class _Nowhere:
    def __call__(self) -> None:
        return None

    def cache_clear(self) -> None:
        """As a remembered function has it."""


def no_writing(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """A folder that cannot be written, for root as well, whom no mode stops."""
    real = kept._writable
    patch.setattr(kept, "_writable", lambda at: not at.is_relative_to(folder) and real(at))
