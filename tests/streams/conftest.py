"""Small streams: public facts for a unit, and counts that try to break a meter.

Audits that `make audit` runs note their rows, and the page in the documentation is made of them.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.model.time_grid import Calendar
from sfumato.privacy.events import Unit
from sfumato.streams.facts import StreamFacts

CELLS, PER_DAY = 12, 8
PAGE = Path(__file__).parents[2] / "docs" / "audit-streams.md"
UNITS = ("user-period", "user-day", "w-event:5", "event")
WORDS = """# The audit of streams

*Written by `make audit`; do not edit.* [The other audits](audit.md)

## Exactly, by replay

Every scheme runs on made-up counts and is replayed on those of a neighbour with the very same
answers of the wall. What it measures next, publishes and calls fresh must be the same: a difference
was decided from private numbers. What still differs behind the wall, over the noise that was put
on it, adds up to the loss of that unit, in epsilon (Laplace) or in rho (Gaussian). It is counted
without the meter, for a unit in one place, one that is elsewhere in every slot and one that is
where the others are not: the whole period, every day, every run of five successive slots, every
event; 24 slots, two draws of a crowd that is everywhere and of one that goes to and fro. Shown is
the largest loss of any unit, 1 being what was promised; above 1 the claim would be wrong.

    pytest tests/streams/test_losses.py -m slow

{exact}

## By runs

Everybody stands still, or one person more changes cell in every slot; all that a stream puts out
is attacked. Confidence 0.999 a row. Streams that spend six times what they claim, and a sparse
vector with a tenth of the noise on its histograms, are there to show that the audit sees such
things.

    pytest tests/streams/test_audit.py -m slow

{runs}
"""


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(kept: dict[str, dict[str, list[str]]]) -> str:
    """The page made of the rows so far."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for scheme, unit, noise, share in kept["exact"].values():
        found.setdefault((scheme, noise), {})[unit] = share
    exact = [[*key, *(shares.get(unit, "") for unit in UNITS)] for key, shares in found.items()]
    heads = ["stream", "spends ε", "claim", "measured at least", "verdict", "runs", "how"]
    return WORDS.format(
        exact=table(["scheme", "noise", *UNITS], exact),
        runs=table(heads, list(kept["runs"].values())),
    )


@pytest.fixture(scope="session")
def note() -> Callable[[str, list[str]], None]:
    """Puts a row into a table of the page, in place of the one that begins alike."""

    def noted(where: str, row: list[str]) -> None:
        with PAGE.with_suffix(".json").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            kept = json.loads(file.read() or '{"exact": {}, "runs": {}}')
            kept[where][" ".join(row[: 3 if where == "exact" else 2])] = row
            kept[where] = dict(sorted(kept[where].items()))
            file.truncate(0)
            file.write(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
            PAGE.write_text(page(kept), encoding="utf-8")

    return noted


@pytest.fixture
def facts() -> Callable[..., StreamFacts]:
    def make(
        unit: str = "user-day",
        days: int = 3,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        cells: int = CELLS,
        per_day: int = PER_DAY,
        people: int | None = 1000,
        columns: int | None = 4,
    ) -> StreamFacts:
        calendar = Calendar.regular(days * per_day, per_day)
        return StreamFacts(cells, calendar, epsilon, delta, Unit.parse(unit), people, columns)

    return make


@pytest.fixture
def adversarial() -> Callable[[str, StreamFacts], NDArray[np.int64]]:
    """Streams (slot x cell) that a careless budget would not survive."""

    def make(kind: str, facts: StreamFacts) -> NDArray[np.int64]:
        counts = np.zeros((facts.slots, facts.cells), dtype=np.int64)
        if kind == "constant":
            counts[:] = 80
        elif kind == "alternating":
            counts[::2, ::2] = 500
            counts[1::2, 1::2] = 500
        elif kind == "spike":
            counts[facts.slots // 2] = 10_000
        elif kind == "one user":
            counts[np.arange(facts.slots), np.arange(facts.slots) % facts.cells] = 1
        return counts

    return make
