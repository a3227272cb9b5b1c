"""Questions that are killed at random instants are answered as if nothing had happened, once.

As for releases (`test_kills`): SIGKILL at a random time, or right before or after a random call to
the file system or the database. The cap has room for one charge only, so whoever would pay twice is
refused. In the end the numbers are those of an undisturbed run *with the same key*, made from a
copy of the ledger while the reservation was open; one reservation and one commitment stand in the
ledger, the key is gone, and nothing is left on the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.faults.test_kills import KILLS_EACH, Storm

from sfumato.privacy.ledger import Status

pytestmark = pytest.mark.privacy

Run = Callable[..., dict[str, Any]]
TURNS = 3


def undisturbed(run: Run, place: Any, copy: Path) -> list[float] | None:
    """What a run without kills makes of the open reservation, if there is one: same key."""
    open_ = [c for c in place.book().book().charges.values() if c.status is Status.RESERVED]
    if not open_:
        return None
    found = run(place.copied(copy))
    assert "error" not in found, found
    values: list[float] = found["values"]
    return values


def finish_and_check(run: Run, place: Any, reference: list[float] | None, entry: str) -> None:
    final = run(place)
    assert "error" not in final, final
    assert reference is None or final["values"] == reference
    assert run(place)["values"] == final["values"]
    rows = [row.kind for row in place.book().entries()]
    assert rows.count("reserve") == rows.count("commit") == 1
    assert rows.count("note") == (2 * TURNS if entry == "session" else 0)
    left = [*place.key.with_suffix(".keys").glob("*"), *place.key.parent.rglob(".sfumato-*")]
    # A half-written note of the head, no secret, is taken up by whoever writes the ledger next.
    half = place.key.with_name(f".sfumato-{place.key.with_suffix('.head').name}")
    assert [path for path in [*left, *place.tmp.rglob("*")] if path != half] == []


def weather(
    zygote: Run, new_place: Callable[[], Any], home: Path, entry: str, kills_wanted: int, seed: int
) -> dict[str, int]:
    run = partial(zygote, entry=entry)
    storm = Storm.over(run, new_place, seed)
    seen = {"kills": 0, "questions": 0, "compared": 0}
    while seen["kills"] < kills_wanted:
        place, reference = new_place(), None
        for _ in range(min(KILLS_EACH, kills_wanted - seen["kills"])):
            first = seen["kills"] == 0  # in the middle of things, so that something is compared
            found = run(place, point=storm.points * 4 // 5) if first else storm.strike(place)
            assert "error" not in found, found
            seen["kills"] += found["killed"]
            if reference is None:
                reference = undisturbed(run, place, home / f"copy-{seen['questions']}")
            if not found["killed"]:
                break
        finish_and_check(run, place, reference, entry)
        seen["questions"] += 1
        seen["compared"] += reference is not None
    return seen


def test_6_kills(zygote: Run, new_place: Callable[[], Any], tmp_path: Path) -> None:
    for entry, kills in (("question", 4), ("session", 2)):
        seen = weather(zygote, new_place, tmp_path / entry, entry, kills_wanted=kills, seed=21)
    assert seen["compared"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "kills"), [("question", 300), ("session", 300), ("batch", 60), ("mwem", 60)]
)
def test_300_kills(
    zygote: Run, new_place: Callable[[], Any], tmp_path: Path, entry: str, kills: int
) -> None:
    seen = weather(zygote, new_place, tmp_path, entry, kills_wanted=kills, seed=2100)
    print(f"\n{entry}: {seen}")
    assert seen["compared"] > kills / 20  # a third follow the clock


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["question", "session"])
def test_a_kill_at_every_lasting_step(
    zygote: Run, new_place: Callable[[], Any], entry: str
) -> None:
    """Right before and right after every sync, rename, removal, lock and commit, once each."""
    run = partial(zygote, entry=entry)
    steps = run(new_place(), count=True, durable=True)["points"]
    assert steps > 20
    for step in range(1, steps + 1):
        place = new_place()
        run(place, point=step, durable=True)
        finish_and_check(run, place, None, entry)
