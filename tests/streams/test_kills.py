"""A stream that is killed again and again publishes what an undisturbed one does, and pays once.

Every kill is a SIGKILL at a random time, or right before or after a random call to files,
folders, locks or the database. Kills come one soon after the other, so that a stream is killed
many times from its first slot to its last. The undisturbed twin runs on a copy of the ledger,
with the same key. `threshold` keeps private state and a sparse vector run; `rhythm` is the
default.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger, Status

pytestmark = pytest.mark.privacy

USER_DAY = Unit.parse("user-day")
Run = Callable[..., dict[str, Any]]


@contextmanager
def zygote(warm: Path, *size: object) -> Iterator[Run]:
    program = Path(__file__).with_name("zygote.py")
    process = subprocess.Popen(
        [sys.executable, str(program), str(warm), *map(str, size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    reader, writer = process.stdout, process.stdin
    assert json.loads(reader.readline())["ready"]

    def run(place: Place, **command: Any) -> dict[str, Any]:
        where = {"ledger": place.ledger, "key": str(place.key), "out": str(place.out)}
        writer.write(json.dumps(where | {"tmp": str(place.tmp)} | command) + "\n")
        writer.flush()
        found: dict[str, Any] = json.loads(reader.readline())
        return found

    try:
        yield run
    finally:
        writer.close()
        process.wait()


class Place:
    """A ledger with room for one stream, and the folder it writes to."""

    def __init__(self, home: Path, ledger: str | None, scheme: str) -> None:
        (home / "books").mkdir(parents=True, mode=0o700)
        (home / "tmp").mkdir()
        self.home = home
        self.ledger = ledger or str(home / "books" / "ledger.sqlite")
        self.key = home / "books" / "ledger.key"
        self.out = home / "out" / scheme
        self.tmp = home / "tmp"

    def book(self) -> Ledger:
        return Ledger(self.ledger, key=self.key)

    def copied(self, home: Path, ledger: str | None) -> Place:
        """The same ledger and keys at this moment, with an output folder elsewhere."""
        twin = Place(home, ledger, self.out.name)
        shutil.rmtree(home / "books")
        shutil.copytree(self.home / "books", home / "books")
        if self.out.exists():
            shutil.copytree(self.out, twin.out)
        return twin


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def new_ledger(request: pytest.FixtureRequest) -> Callable[..., str | None]:
    """Gives the address of an empty or copied database; None is a file of the place's own."""
    if request.param == "sqlite":
        return lambda _source=None: None
    make: Callable[..., str] = request.getfixturevalue("new_postgres")
    return lambda source=None: make() if source is None else make(source)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def storm(
    run: Run,
    tmp_path: Path,
    new_ledger: Callable[..., str | None],
    scheme: str,
    kills: int,
    each: int,
    seed: int,
    counts: Callable[[Place], bool] = lambda _: True,
) -> None:
    """`kills` in all that count, about `each` of any kind in every stream."""
    rng = random.Random(seed)

    def fresh(name: str) -> Place:
        place = Place(tmp_path / name, new_ledger(), scheme)
        place.book().initialise()
        place.book().add_dataset("city", Cap(epsilon=1.0, delta=1e-6), USER_DAY)
        return place

    trial = run(fresh("trial"), count=True)
    # The next kill is half that far away on average, and opening the stream takes its part.
    reach = {"point": 2 * trial["points"] / each, "after": 2 * trial["seconds"] / each}
    place, done, reference, streams = fresh("stream-0"), 0, None, 1
    while done < kills:
        how = "point" if rng.random() < 0.5 else "after"
        far = rng.uniform(0, reach[how])
        found = run(place, **{how: int(far) + 1 if how == "point" else far})
        assert "error" not in found, found
        done += found["killed"] and counts(place)
        # A busy machine is slower in one run than in the next, so how far follows what happens:
        # it stays where it is with `each` kills to a stream that came to its end.
        reach[how] *= 2 ** (1 / each) if found["killed"] else 1 / 2
        charges = list(place.book().book().charges.values())
        if reference is None and charges and charges[0].status is Status.RESERVED:
            twin = place.copied(tmp_path / f"twin-{streams}", new_ledger(place.ledger))
            assert "error" not in run(twin)
            reference = contents(twin.out)
        if not found["killed"]:
            _finished(run, place, reference)
            place, reference, streams = fresh(f"stream-{streams}"), None, streams + 1
    _finished(run, place, reference)


def _finished(run: Run, place: Place, reference: dict[str, bytes] | None) -> None:
    final = run(place)
    assert "error" not in final, final
    if reference is not None:
        made = contents(place.out)
        assert made.keys() == reference.keys()
        assert made == reference
    rows = [entry.kind for entry in place.book().entries()]
    assert rows.count("reserve") == rows.count("commit") == 1
    assert not list(place.key.with_suffix(".keys").glob("*"))
    assert not [path for path in place.out.rglob(".*") if path.is_file()]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """12 slots of 40 cells."""
    with zygote(tmp_path_factory.mktemp("warm"), 2, 40, 6) as run:
        yield run


def test_10_kills(small: Run, tmp_path: Path, new_ledger: Callable[..., str | None]) -> None:
    scheme = "threshold" if new_ledger() is None else "rhythm"
    storm(small, tmp_path, new_ledger, scheme, kills=10, each=10, seed=11)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["threshold", "rhythm"])
def test_200_kills(scheme: str, tmp_path: Path, new_ledger: Callable[..., str | None]) -> None:
    """336 slots of 8,000 cells."""
    (tmp_path / "warm").mkdir()
    with zygote(tmp_path / "warm", 7, 8000, 48) as run:
        storm(run, tmp_path, new_ledger, scheme, kills=200, each=70, seed=200)
