"""A release that is killed at random instants finishes as the same release and pays once.

Every kill is a SIGKILL: at a random time, or right before or after a random call that the
release makes to the file system or the database. Each release is killed several
times before it may finish. What must hold in the end: its bytes are those that an undisturbed
run gives *with the same key* (made from a copy of the ledger taken while the reservation was
open), the ledger has charged it once, its key is gone, and no temporary file is left.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sfumato.privacy.ledger import Status

pytestmark = pytest.mark.privacy

Run = Callable[..., dict[str, Any]]
KILLS_EACH = 4


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def leftovers(place: Any) -> list[Path]:
    """Anything that should not be there once a release is finished."""
    keys = place.key.with_suffix(".keys")
    beside = [path for path in place.out.parent.iterdir() if path != place.out]
    hidden = place.key.parent.rglob(".sfumato-*")
    return [*beside, *hidden, *place.tmp.rglob("*"), *keys.glob("*")]


@dataclass
class Storm:
    """Kills at random: a third by the clock, the rest before or after calls to the world."""

    zygote: Run
    rng: random.Random
    seconds: float
    points: int
    durable: int

    @classmethod
    def over(cls, zygote: Run, new_place: Callable[[], Any], seed: int) -> Storm:
        seconds = zygote(new_place())["seconds"]
        points = zygote(new_place(), count=True)["points"]
        durable = zygote(new_place(), count=True, durable=True)["points"]
        return cls(zygote, random.Random(seed), seconds, points, durable)

    def strike(self, place: Any) -> dict[str, Any]:
        kind = self.rng.choice(("clock", "call", "durable"))
        if kind == "clock":
            return self.zygote(place, after=self.rng.uniform(0, self.seconds))
        if kind == "call":
            return self.zygote(place, point=self.rng.randint(1, self.points))
        return self.zygote(place, point=self.rng.randint(1, self.durable), durable=True)


def undisturbed(zygote: Run, place: Any, copy: Path) -> dict[str, bytes] | None:
    """What a run without kills makes of the open reservation, if there is one: same key."""
    open_ = [c for c in place.book().book().charges.values() if c.status is Status.RESERVED]
    if not open_:
        return None
    twin = place.copied(copy)
    assert zygote(twin).get("how") == "resumed"
    return contents(twin.out)


def finish_and_check(zygote: Run, place: Any, reference: dict[str, bytes] | None) -> None:
    final = zygote(place)
    assert "error" not in final, final
    assert final["how"] in {"new", "resumed", "already"}
    if reference is not None:
        assert contents(place.out) == reference
    rows = [entry.kind for entry in place.book().entries()]
    assert rows.count("reserve") == rows.count("commit") == 1
    assert leftovers(place) == []


def weather(
    zygote: Run, new_place: Callable[[], Any], tmp_path: Path, kills_wanted: int, seed: int
) -> None:
    storm = Storm.over(zygote, new_place, seed)
    kills = compared = releases = 0
    while kills < kills_wanted:
        place, reference = new_place(), None
        for _ in range(min(KILLS_EACH, kills_wanted - kills)):
            found = storm.strike(place)
            assert "error" not in found, found
            kills += found["killed"]
            if reference is None:
                reference = undisturbed(zygote, place, tmp_path / f"copy-{releases}")
            if not found["killed"]:
                break
        finish_and_check(zygote, place, reference)
        releases += 1
        compared += reference is not None
    assert compared > 0


def test_10_kills(zygote: Run, new_place: Callable[[], Any], tmp_path: Path) -> None:
    weather(zygote, new_place, tmp_path, kills_wanted=10, seed=20240304)


@pytest.mark.slow
def test_300_kills(zygote: Run, new_place: Callable[[], Any], tmp_path: Path) -> None:
    weather(zygote, new_place, tmp_path, kills_wanted=300, seed=300)


@pytest.mark.slow
def test_a_kill_at_every_lasting_step(zygote: Run, new_place: Callable[[], Any]) -> None:
    """Right before and right after every sync, rename, removal, lock and commit, once each."""
    steps = zygote(new_place(), count=True, durable=True)["points"]
    assert steps > 50
    for step in range(1, steps + 1):
        place = new_place()
        zygote(place, point=step, durable=True)
        finish_and_check(zygote, place, None)
