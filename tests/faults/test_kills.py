"""A release that is killed at random instants finishes as the same release and pays once.

Every kill is a SIGKILL: at a random time, or right before or after a random call that the
release makes to the file system, the database or a library. Each release is killed several
times before it may finish. What must hold in the end: its bytes are those that an undisturbed
run gives *with the same key* (made from a copy of the ledger taken while the reservation was
open), the ledger has charged it once, its key is gone, and no temporary file is left.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sfumato.privacy.ledger import Status

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


def killed_again_and_again(
    zygote: Run, place: Any, rng: random.Random, points: int, seconds: float, most: int, copy: Path
) -> tuple[int, dict[str, bytes] | None]:
    """Kill the release up to `most` times; gives the kills and the undisturbed bytes, if any."""
    kills, reference = 0, None
    for _ in range(most):
        if rng.random() < 0.5:
            found = zygote(place, point=rng.randint(1, points))
        else:
            found = zygote(place, after=rng.uniform(0, seconds))
        assert "error" not in found, found
        kills += found["killed"]
        charges = list(place.book().book().charges.values())
        if reference is None and charges and charges[0].status is Status.RESERVED:
            twin = place.copied(copy)
            assert zygote(twin).get("how") == "resumed"
            reference = contents(twin.out)
        if not found["killed"]:
            break
    return kills, reference


def storm(
    zygote: Run, new_place: Callable[[], Any], tmp_path: Path, kills_wanted: int, seed: int
) -> None:
    rng = random.Random(seed)
    trial = new_place()
    counted = zygote(trial, count=True)
    points = counted["points"]
    seconds = zygote(new_place())["seconds"]
    kills = compared = releases = 0
    while kills < kills_wanted:
        place = new_place()
        most = min(KILLS_EACH, kills_wanted - kills)
        done, reference = killed_again_and_again(
            zygote, place, rng, points, seconds, most, tmp_path / f"copy-{releases}"
        )
        kills, releases = kills + done, releases + 1
        final = zygote(place)
        assert "error" not in final, final
        assert final["how"] in {"new", "resumed", "already"}
        if reference is not None:
            compared += 1
            assert contents(place.out) == reference
        rows = [entry.kind for entry in place.book().entries()]
        assert rows.count("reserve") == rows.count("commit") == 1
        (charge,) = place.book().book().charges.values()
        assert charge.status is Status.COMMITTED
        assert leftovers(place) == []
    assert compared > 0


def test_10_kills(zygote: Run, new_place: Callable[[], Any], tmp_path: Path) -> None:
    storm(zygote, new_place, tmp_path, kills_wanted=10, seed=20240304)


@pytest.mark.slow
def test_300_kills(zygote: Run, new_place: Callable[[], Any], tmp_path: Path) -> None:
    storm(zygote, new_place, tmp_path, kills_wanted=300, seed=300)
