"""The gate sees what it is for: a scheme that is registered is covered, and each leak is found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.replay import verbs
from tests.replay.gate import Case, Gate

from sfumato.cli import release as command
from sfumato.density import publish, registry
from sfumato.density.baselines import Laplace
from sfumato.errors import InputError

pytestmark = [pytest.mark.privacy, pytest.mark.xdist_group("replay")]
MADE_UP = "made-up"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Puts a scheme with this `run` into the registry, and nowhere else."""

    def register(run: Callable[..., Any]) -> None:
        scheme = type("MadeUp", (Laplace,), {"name": MADE_UP, "run": run})()
        monkeypatch.setitem(registry.SCHEMES._own, MADE_UP, scheme)

    return register


def covered() -> Iterator[Case]:
    """The cases of the made-up scheme that the gate finds by itself."""
    return (case for case in verbs.VERBS["release"]() if MADE_UP in case.words)


def leaks_in(home: Path) -> list[str]:
    """What the gate says of the made-up scheme's first case."""
    return Gate(home / os.urandom(4).hex()).leaks(next(covered()), "heavy")


def peek(source: Any, facts: Any) -> int:
    """A private number, out of its box without a key: a function that looks around inside."""
    sums: list[int] = []
    source.exact(facts.counting).map(lambda counts: sums.append(int(counts.values.sum())))
    return sums[0]


def test_a_scheme_that_is_registered_is_covered(home: Path, registered: Any) -> None:
    assert not list(covered())
    registered(Laplace.run)
    assert len(list(covered())) >= 5
    assert leaks_in(home) == []


def remarks_a_count(self: Any, source: Any, wall: Any, facts: Any) -> Any:
    density = Laplace.run(self, source, wall, facts)
    return replace(density, remarks=(*density.remarks, f"{peek(source, facts)} visits."))


def prints_a_count(self: Any, source: Any, wall: Any, facts: Any) -> Any:
    print(peek(source, facts))
    return Laplace.run(self, source, wall, facts)


def prints_below_python(self: Any, source: Any, wall: Any, facts: Any) -> Any:
    os.write(2, f"{peek(source, facts)} rows\n".encode())
    return Laplace.run(self, source, wall, facts)


def refuses_a_crowd(self: Any, source: Any, wall: Any, facts: Any) -> Any:
    if peek(source, facts) > 900:
        raise InputError("These are too many visits.")
    return Laplace.run(self, source, wall, facts)


def stops_at_a_crowd(self: Any, source: Any, wall: Any, facts: Any) -> Any:
    assert peek(source, facts) <= 900
    return Laplace.run(self, source, wall, facts)


class Between:
    """Stands between a scheme and its wall."""

    def __init__(self, wall: Any, laplace: Callable[..., Any]) -> None:
        self._wall, self.laplace = wall, laplace

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wall, name)


def counts_twice(self: Any, source: Any, wall: Any, facts: Any) -> Any:
    def laplace(box: Any, **words: Any) -> Any:
        return wall.laplace(box.map(lambda c: replace(c, values=2 * c.values)), **words)

    return Laplace.run(self, source, Between(wall, laplace), facts)


def measures_less_of_a_crowd(self: Any, source: Any, wall: Any, facts: Any) -> Any:
    def laplace(box: Any, **words: Any) -> Any:
        part = wall.laplace(box.map(lambda c: replace(c, values=c.values[:, 1:])), **words)
        return replace(part, values=np.pad(part.values, ((0, 0), (1, 0))))

    many = peek(source, facts) > 900
    return Laplace.run(self, source, Between(wall, laplace) if many else wall, facts)


SCHEMES = {
    "out/manifest.json": remarks_a_count,
    "standard output": prints_a_count,
    "standard error": prints_below_python,
    "exit code": refuses_a_crowd,
    "standard error: ": stops_at_a_crowd,
    "L1": counts_twice,
    "the shape": measures_less_of_a_crowd,
}


@pytest.mark.parametrize("where", SCHEMES)
def test_a_scheme_that_leaks_is_found(where: str, home: Path, registered: Any) -> None:
    registered(SCHEMES[where])
    assert any(where in line for line in leaks_in(home))


def stamped(real: Callable[..., Any]) -> Callable[..., Any]:
    """A publisher that dates its files by how many records there are."""

    def write(folder: Path, *given: Any, **words: Any) -> Any:
        written = real(folder, *given, **words)
        rows = Path("events.csv").read_bytes().count(b"\n")
        for path in folder.iterdir():
            os.utime(path, (rows, rows))
        return written

    return write


def named(real: Callable[..., Any]) -> Callable[..., Any]:
    """A publisher that has a file for every thousand records."""

    def write(folder: Path, *given: Any, **words: Any) -> Any:
        rows = Path("events.csv").read_bytes().count(b"\n")
        for part in range(rows // 1000):
            (folder / f"part-{part}.txt").write_text("")
        return real(folder, *given, **words)

    return write


@pytest.mark.parametrize(("where", "fault"), [("mode and time", stamped), ("there for one", named)])
def test_a_publisher_that_leaks_is_found(
    where: str, fault: Any, home: Path, registered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(Laplace.run)
    monkeypatch.setattr(publish, "write_release", fault(publish.write_release))
    assert any(where in line for line in leaks_in(home))


def test_a_command_that_leaks_is_found(
    home: Path, registered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is for the holder alone is excepted by its mark, and by nothing else."""
    registered(Laplace.run)

    def tell(log: Any) -> None:
        command.typer.echo(f"{log.internal_counts()}", err=True)

    monkeypatch.setattr(command, "RowsRead", lambda **_: tell)
    assert any("standard error" in line for line in leaks_in(home))
