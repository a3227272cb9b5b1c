"""Plants one fault after another in a copy of the source and sees which privacy test notices.

    python tests/mutants/run.py                  all faults
    python tests/mutants/run.py --quick          those that `make test` plants
    python tests/mutants/run.py --only sqrt      faults whose name holds this text
    python tests/mutants/run.py --write          also writes the table in docs/audit.md

A fault is one entry of a TOML file beside this one:

    [[fault]]
    name = "the cap of the grand total is not applied"
    file = "engine/tally.py"                     # of sfumato, or sfumato_lab/… or waves/…
    old = "out[0] += min(mass, cap)"
    new = "out[0] += mass"
    tests = ["tests/engine/test_bounds.py"]      # none: every privacy test
    quick = true                                 # planted by `make test` too

A new file is planted where `old` is empty and there is no such file. `waves` is a package that
comes in by an entry point (`tests/fixtures/extension`). `old` must stand in the file exactly once:
a fault that can no longer be planted is an error, not a survivor that nobody misses. Only tests
marked `privacy` are run, and none that compares with golden numbers, so neither an accuracy test
nor a digest counts as a kill. A mutant that does not even import is an error too: nobody would have
shipped it.

Every fault is tried in a child of a process that has the libraries loaded already, on a copy of the
sources. Compiled code is cached by file; where a fault lies in a file that others compile in, their
cached code is thrown away too.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMING_IN = ROOT / "tests" / "fixtures" / "extension"
PAGE = ROOT / "docs" / "audit.md"
HEAD = "## Planted faults\n"
LIBRARIES = (
    *("pytest", "hypothesis", "numpy", "scipy.sparse", "scipy.stats", "scipy.optimize", "numba"),
    *("pyarrow.parquet", "pyarrow.csv", "duckdb", "shapely", "pyproj", "sqlalchemy", "pydantic"),
    *("typer.testing", "rich.progress", "jinja2", "dp_accounting", "geopandas", "scipy.fft"),
)
"""Loaded once, before the first fault; never the package itself."""
LIMIT_S = 300
KILLED, SURVIVED, BROKEN = "killed", "SURVIVED", "BROKEN"


@dataclass(frozen=True, slots=True)
class Fault:
    """One planted fault: what is replaced by what, and the tests that should notice."""

    name: str
    area: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ("tests",)
    quick: bool = False

    @property
    def path(self) -> Path:
        """Below the sources: of the laboratory or the package that comes in, or of the product."""
        path = Path(self.file)
        return path if path.parts[0] in {"sfumato_lab", "waves"} else Path("sfumato") / path

    @property
    def source(self) -> Path:
        """Where the file stands in this repository."""
        return (COMING_IN if self.path.parts[0] == "waves" else ROOT / "src") / self.path

    def text(self) -> str:
        """The file without the fault; empty where the fault is a file of its own."""
        if self.source.is_file() == bool(self.old):
            return self.source.read_text(encoding="utf-8") if self.old else ""
        how = "no" if self.old else "there is already a"
        raise SystemExit(f"{self.area}: {self.name!r} cannot be planted: {how} {self.file}.")

    def planted(self, text: str) -> str:
        """The file with the fault in it."""
        if not self.old:
            return self.new
        found = text.count(self.old)
        if found != 1 or self.old == self.new:
            raise SystemExit(
                f"{self.area}: {self.name!r} cannot be planted: its fragment stands {found} times "
                f"in {self.file}. Write the fault anew for the code as it is."
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Verdict:
    fault: Fault
    outcome: str
    by: str
    """The first test that noticed, or what went wrong."""
    seconds: float


def faults(folder: Path = HERE) -> list[Fault]:
    """All faults, by area and in the order of their files."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]:
            tests = tuple(entry.pop("tests", ("tests",)))
            found.append(Fault(area=path.stem, tests=tests, **entry))
    names = [fault.name for fault in found]
    if len(set(names)) != len(names):
        raise SystemExit("Two faults have the same name.")
    return found


class _Watching:
    """A pytest plugin: the first failure, and whether anything ran at all."""

    def __init__(self) -> None:
        self.failed = ""
        self.broken = ""
        self.passed = 0

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.broken:
            self.broken = f"{report.nodeid} cannot be collected"

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid
        self.passed += report.passed and report.when == "call"


def run_tests(tree: Path, tests: Iterable[str]) -> dict[str, Any]:
    """The privacy tests among these on the sources of this tree, to the first failure."""
    import pytest
    from hypothesis import settings

    sys.path.insert(0, str(tree))
    os.environ["PYTHONPATH"] = str(tree)
    settings.register_profile("mutants", derandomize=True, database=None, deadline=None)
    settings.load_profile("mutants")
    watching = _Watching()
    select = ["-m", "privacy and not slow", "-k", "not golden"]
    quiet = ["-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
    code = pytest.main([*select, *quiet, *(str(ROOT / test) for test in tests)], [watching])
    return {
        "code": int(code),
        "failed": watching.failed,
        "broken": watching.broken,
        "passed": watching.passed,
    }


def in_a_child(tree: Path, tests: Iterable[str], log: Path) -> dict[str, Any]:
    """The same in a process of its own, which cannot disturb the next one."""
    report = log.with_suffix(".json")
    report.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        signal.alarm(LIMIT_S)
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            try:
                found = run_tests(tree, tests)
                report.write_text(json.dumps(found))
            except BaseException as error:
                print(repr(error), flush=True)
            finally:
                os._exit(0)
    os.waitpid(child, 0)
    if not report.exists():
        return {"code": -1, "failed": "", "broken": f"no end within {LIMIT_S} s", "passed": 0}
    result: dict[str, Any] = json.loads(report.read_text())
    return result


class Field:
    """A copy of the sources in which faults are planted, one at a time."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.tree = home / "src"
        shutil.copytree(ROOT / "src", self.tree)  # with times, so that compiled code stays valid
        shutil.copytree(COMING_IN, self.tree, dirs_exist_ok=True)
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(home / "hypothesis")

    def try_one(self, fault: Fault) -> Verdict:
        begun = perf_counter()
        path, text = self.tree / fault.path, fault.text()
        times = path.stat() if fault.old else self.tree.stat()
        mutant = fault.planted(text)
        if "model.compiled import" in text:
            self.forget_compiled(path)
        path.write_text(mutant, encoding="utf-8")
        os.utime(path, (times.st_atime, times.st_mtime + 7))  # never mistaken for the original
        try:
            found = in_a_child(self.tree, fault.tests, self.home / "log")
        finally:
            if fault.old:
                path.write_text(text, encoding="utf-8")
                os.utime(path, (times.st_atime, times.st_mtime))
            else:
                path.unlink()
            if "model.compiled import" in text:
                self.forget_compiled(path)
        outcome, by = judged(found)
        return Verdict(fault, outcome, by, perf_counter() - begun)

    def forget_compiled(self, path: Path) -> None:
        """Throw away compiled code of this file and of those that compile it in."""
        module = ".".join(path.relative_to(self.tree).with_suffix("").parts)
        for other in self.tree.rglob("*.py"):
            text = other.read_text(encoding="utf-8")
            if other == path or ("model.compiled import" in text and module in text):
                for old in (other.parent / "__pycache__").glob(f"{other.stem}.*.nb[ic]"):
                    old.unlink()

    def check(self, tests: Iterable[str]) -> None:
        """The same tests must pass where nothing is planted."""
        found = in_a_child(self.tree, sorted(set(tests)), self.home / "log")
        if found["code"] != 0:
            print((self.home / "log").read_text()[-3000:], file=sys.stderr)
            raise SystemExit("The privacy tests fail without any fault: mend that first.")


def judged(found: dict[str, Any]) -> tuple[str, str]:
    """What the tests said: a failure kills, a test that cannot be collected says nothing."""
    if found["broken"]:
        return BROKEN, found["broken"]
    if found["failed"]:
        return KILLED, found["failed"].replace(f"{ROOT}/", "")
    if found["code"] == 0 and found["passed"]:
        return SURVIVED, ""
    return BROKEN, "no privacy test was run"


def row(verdict: Verdict) -> str:
    """One line of the table."""
    fault, by = verdict.fault, verdict.by.partition("[")[0].replace("::", ": ")
    noticed = f"`{by}`" if verdict.outcome == KILLED else f"**{verdict.outcome}**"
    return f"| {fault.area} | {fault.name} | `{fault.file}` | {noticed} |"


def table(rows: Iterable[str]) -> str:
    """The section of docs/audit.md."""
    lines = [
        HEAD,
        "Faults planted one at a time in a copy of the source, and the first test marked `privacy` "
        "that noticed each of them. Accuracy tests and golden numbers do not count.\n",
        "    make mutants\n",
        "| where | fault | file | noticed by |",
        "|---|---|---|---|",
    ]
    return "\n".join([*lines, *rows]) + "\n"


def write_page(verdicts: list[Verdict]) -> None:
    """Puts the table at the end of the page; faults that were not tried keep their rows."""
    before, _, old = PAGE.read_text(encoding="utf-8").partition(HEAD)
    known = {line.split(" | ")[1]: line for line in old.splitlines() if line.count(" | ") == 3}
    known |= {verdict.fault.name: row(verdict) for verdict in verdicts}
    rows = [known[fault.name] for fault in faults() if fault.name in known]
    PAGE.write_text(before.rstrip("\n") + "\n\n" + table(rows), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only faults marked quick")
    parser.add_argument("--only", default="", help="only faults whose name or area holds this")
    parser.add_argument("--write", action="store_true", help="write the table in docs/audit.md")
    parser.add_argument("--unchecked", action="store_true", help="skip the run without a fault")
    asked = parser.parse_args(arguments)
    chosen = [
        fault
        for fault in faults()
        if (fault.quick or not asked.quick) and asked.only in f"{fault.area}: {fault.name}"
    ]
    if not chosen:
        raise SystemExit("There is no such fault.")
    for name in LIBRARIES:
        importlib.import_module(name)
    assert "sfumato" not in sys.modules
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="sfumato-mutants-") as home:
        field = Field(Path(home))
        for fault in chosen:
            fault.planted(fault.text())
        if not asked.unchecked:
            field.check(test for fault in chosen for test in fault.tests)
        for fault in chosen:
            verdict = field.try_one(fault)
            verdicts.append(verdict)
            by = verdict.by or "every test passed"
            print(
                f"{verdict.outcome:9}{verdict.seconds:5.1f} s  {fault.area}: {fault.name} — {by}",
                flush=True,
            )
    left = [verdict for verdict in verdicts if verdict.outcome != KILLED]
    print(f"{len(verdicts) - len(left)} of {len(verdicts)} faults were noticed.")
    if asked.write:
        write_page(verdicts)
    return 1 if left else 0


if __name__ == "__main__":
    raise SystemExit(main())
