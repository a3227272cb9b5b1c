"""Kinds of faults: kills, a server that crashes, a disk that is full, clocks that jump, races."""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.faults.storm import Place, Run, Store, Storm, Tally
from tests.server import CRASHES, Server

from sfumato.privacy.ledger import Cap, Status
from sfumato.privacy.ledger.views import verify

HOUR, YEAR = 3600.0, 365 * 86_400.0
RACERS, ROOM = 32, 4


def postgres(server: Server) -> Store:
    return Store("PostgreSQL", lambda copy: server.database(*([copy] if copy else [])), server.drop)


def crashing(server: Server) -> dict[str, Any]:
    """The server goes down where the run would have been killed; afterwards it comes up again."""

    def crash(_place: Place, rng: random.Random) -> dict[str, Any]:
        return {"crash": [server.pid(), rng.choice(CRASHES)]}

    return {"weather": crash, "after": lambda _place: server.up()}


def jumping(_place: Place, rng: random.Random) -> dict[str, Any]:
    """The clock is wrong from the start, and is set again in the middle; nothing is killed."""
    spread = (-20 * YEAR, -2 * HOUR, -59.0, 59.0, 2 * HOUR, YEAR)
    return {"clock": rng.choice((0.0, *spread)), "jump": rng.choice(spread)}


class FullDisk(Storm):
    """Everything is on a small disk, with room for a part of what is to be written."""

    def __init__(self, disk: Path, *given: Any) -> None:
        super().__init__(*given)
        place = self.fresh()
        before = _size(place.home)
        self.run(place.order())
        # What is written in between takes room, too: a log of the database, temporary files.
        self.needs = 2 * (_size(place.home) - before)
        self.disk, self.ballast = disk, disk / "ballast"

    def fresh(self) -> Place:
        place = super().fresh()
        if hasattr(self, "disk"):
            moved = self.disk / place.home.name
            shutil.move(place.home, moved)
            place = replace(place, home=moved)
        return place

    def aim(self, number: int, reserved: bool) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def strike(self, place: Place, where: dict[str, Any]) -> dict[str, Any]:
        room = self.rng.randint(0, self.needs)
        with self.ballast.open("wb", buffering=0) as file:
            for _ in range(max(shutil.disk_usage(self.disk).free - room, 0) // 4096):
                file.write(bytes(4096))
        try:
            return super().strike(place, where)
        finally:
            self.ballast.unlink()


def _size(folder: Path) -> int:
    return sum(-(-p.stat().st_size // 4096) * 4096 for p in folder.rglob("*") if p.is_file())


@contextmanager
def small_disk(kib: int = 8192) -> Iterator[Path]:
    """A file system of its own in memory; OSError where none may be mounted."""
    folder = Path(tempfile.mkdtemp(prefix="sfumato-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
    try:
        if subprocess.run(command, capture_output=True, check=False).returncode:
            raise OSError("no file system can be mounted here")
        try:
            yield folder
        finally:
            subprocess.run(["umount", str(folder)], check=True)
    finally:
        folder.rmdir()


def small_files(_place: Place, rng: random.Random) -> dict[str, Any]:
    """No file may grow beyond a size: from too small for a key to enough for most files."""
    return {"most_bytes": int(16 * 2 ** rng.uniform(0, 12))}


def race(run: Run, home: Path, store: Store, kills: int, seed: int) -> Tally:
    """32 processes for a cap with room for four, some of them killed; then again until all ended.

    Every release has a name of its own. What fits is published to the last of it, and nothing else.
    """
    rng, tally = random.Random(seed), Tally(sieges=1)
    place = Place(home, "release", store.new(None))
    (home / "tmp").mkdir(parents=True)
    (home / "books").mkdir(mode=0o700)
    book = place.book()
    book.initialise()
    book.add_dataset("city", Cap(rho=_rho(run, home, store) * (ROOM + 0.5)))
    orders = [
        place.order(name=f"racer-{n}", out=str(home / "out" / f"racer-{n}")) for n in range(RACERS)
    ]
    struck = rng.sample(range(RACERS), kills)
    first = [
        order | ({"point": rng.randint(1, 1000)} if n in struck else {})
        for n, order in enumerate(orders)
    ]
    found = run(first)
    tally.strikes += sum(one["killed"] for one in found)
    tally.sites |= {one["site"] for one in found if "site" in one}
    ended = run(orders)
    published = [n for n, one in enumerate(ended) if "error" not in one]
    refused = [one for one in ended if one.get("code") == 3]
    if len(published) != ROOM or len(refused) != RACERS - ROOM:
        said = {one["error"] for one in ended if "error" in one and one.get("code") != 3}
        tally.wrong.append(f"paid: {len(published)} published, {len(refused)} refused {said}")
    before = {n for n, one in enumerate(found) if one.get("how") in ("new", "resumed")}
    if not before <= set(published):
        tally.wrong.append("lost: what was published is refused now")
    charges = place.book().book().charges.values()
    if [charge.status for charge in charges] != [Status.COMMITTED] * ROOM:
        tally.wrong.append(f"paid: {[charge.status.value for charge in charges]}")
    tally.wrong += [f"ledger: {one}" for one in verify(place.book(), home / "out").findings]
    tally.wrong += [f"left: {one}" for one in place.left() if "racer" not in one or "." in one]
    tally.compared = 1
    return tally


def _rho(run: Run, home: Path, store: Store) -> float:
    """What one of these releases costs."""
    from sfumato.privacy.ledger.totals import compose

    place = Place(home / "trial", "release", store.new(None)).made()
    run(place.order())
    (charge,) = place.book().book().charges.values()
    cost = compose([event for _, event in charge.claim.events], 1e-6)
    shutil.rmtree(place.home)
    rho = cost.rho
    assert rho is not None
    return float(rho)


def one_of_many(run: Run, home: Path, store: Store) -> Tally:
    """32 processes that make the same release at once: one pays, none makes another."""
    place = Place(home, "release", store.new(None)).made()
    found = run([place.order()] * RACERS)
    ended = run(place.order())
    tally = Tally(strikes=0, sieges=1, compared=1)
    made = [one for one in found if "error" not in one]
    ours = all(one.get("ours", True) for one in found)
    kinds = [row.kind for row in place.book().entries()]
    if not made or not ours or "error" in ended or kinds.count("reserve") != 1:
        tally.wrong.append(f"paid: {len(made)} made it, {kinds}, {ended.get('error')}")
    tally.wrong += [f"left: {one}" for one in place.left()]
    return tally
