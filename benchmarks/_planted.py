"""A made-up town of a million people, and sets of questions about it that give a few of them away.

The sets are of the kinds that `sfumato.attacks.queries.logged` looks for, hidden among random
ranges: every answer is of at least k. How a set is planted knows nothing of how sets are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from sfumato.model.time_grid import TimeGrid
from sfumato.queries.question import Frame, Question
from sfumato_lab.syntactic.truth import Visits

Ints = NDArray[np.int64]
ZONES, HOURS = 1000, 168
WINDOWS = 24
"""Runs of hours that half of the random questions ask about: mornings, nights, days."""


@dataclass(frozen=True, slots=True, eq=False)
class Metropolis:
    """Records, and the counts by zone and hour summed up from the corner."""

    frame: Frame
    held: Visits
    corner: Ints

    @classmethod
    def drawn(cls, people: int, rng: np.random.Generator, each: int = 8) -> Metropolis:
        """Everybody has three zones, and `each` visits to them; at night there are few."""
        busy = rng.lognormal(0.0, 1.0, ZONES)
        day = np.where(np.arange(HOURS) % 24 < 6, 0.03, 1.0) * rng.uniform(0.5, 1.5, HOURS)
        own = rng.choice(ZONES, size=(people, 3), p=busy / busy.sum())
        rows = people * each
        who = np.repeat(np.arange(people), each)
        zone = own[who, rng.integers(3, size=rows)]
        hour = rng.choice(HOURS, size=rows, p=day / day.sum())
        return cls.of(Visits(who, zone, hour))

    @classmethod
    def of(cls, held: Visits) -> Metropolis:
        """From records."""
        grid = TimeGrid(np.arange(HOURS + 1) * 3_600_000_000, timedelta(hours=1), "UTC")
        frame = Frame(np.array([f"Z{zone}" for zone in range(ZONES)]), grid)
        corner = np.zeros((ZONES + 1, HOURS + 1), np.int64)
        corner[1:, 1:] = held.counts(frame).cumsum(axis=0).cumsum(axis=1)
        return cls(frame, held, corner)

    def visits(self, zones: tuple[int, int], hours: tuple[int, int]) -> int:
        """Visits in a run of zones and of hours."""
        (a, b), (c, d), s = zones, hours, self.corner
        return int(s[b, d] - s[a, d] - s[b, c] + s[a, c])

    def range(self, measure: str, zones: tuple[int, int], hours: tuple[int, int]) -> Question:
        return self.frame.question(measure, range(*zones), range(*hours))

    def answers(self, questions: Sequence[Question]) -> Ints:
        """Exact answers, all at once."""
        out = np.zeros(len(questions), np.int64)
        people = [n for n, one in enumerate(questions) if one.measure == "unique_people"]
        out[people] = self.held.people([questions[n] for n in people], self.frame)
        table = self.held.counts(self.frame)
        for number, one in enumerate(questions):
            if one.measure == "visits":
                out[number] = table[np.ix_(one.places, one.slots)].sum()
        return out

    def inside(self, question: Question) -> NDArray[np.bool_]:
        """Which records lie in the question."""
        places, slots = np.zeros(ZONES, bool), np.zeros(HOURS, bool)
        places[list(question.places)] = slots[list(question.slots)] = True
        return places[self.held.places] & slots[self.held.slots]


def _run(rng: np.random.Generator, size: int, most: int) -> tuple[int, int]:
    length = int(rng.integers(1, most + 1))
    first = int(rng.integers(size - length + 1))
    return first, first + length


def _around(inner: tuple[int, int], size: int, rng: np.random.Generator) -> tuple[int, int]:
    """A run that has the inner one and more on both sides."""
    low, high = inner
    before, after = rng.integers(1, 40, size=2).tolist()
    return max(0, low - before), min(size, high + after)


def rest(town: Metropolis, rng: np.random.Generator, parts: int, k: int) -> list[Question] | None:
    """A whole and its parts, which leave out a few hours of one zone; none if it does not fit."""
    zones = _run(rng, ZONES, 1)
    hours = _run(rng, HOURS, 12)
    if not 1 <= town.visits(zones, hours) < k:
        return None
    wide = _around(zones, ZONES, rng)
    long = hours if parts == 2 else _around(hours, HOURS, rng)
    if parts == 3:
        long = (hours[0], long[1])
    pieces = [((wide[0], zones[0]), long), ((zones[1], wide[1]), long)]
    pieces += [(zones, (long[0], hours[0])), (zones, (hours[1], long[1]))]
    pieces = [(z, h) for z, h in pieces if z[1] > z[0] and h[1] > h[0]]
    while len(pieces) < parts:
        (a, b), h = pieces.pop(0)
        if b - a < 2:
            return None
        cut = int(rng.integers(a + 1, b))
        pieces += [((a, cut), h), ((cut, b), h)]
    if len(pieces) != parts or min(town.visits(*piece) for piece in pieces) < k:
        return None
    return [town.range("visits", *one) for one in ((wide, long), *pieces)]


def difference(town: Metropolis, rng: np.random.Generator, k: int) -> list[Question] | None:
    """A whole and all of it but a few hours of its last zone's."""
    zones, hours = _run(rng, ZONES - 1, 30), _run(rng, HOURS, 12)
    less = town.visits((zones[1], zones[1] + 1), hours)
    if not 1 <= less < k or town.visits(zones, hours) < k:
        return None
    return [town.range("visits", (zones[0], zones[1] + more), hours) for more in (1, 0)]


def overlap(town: Metropolis, rng: np.random.Generator, regions: int, base: bool) -> list[Question]:
    """Regions in the same hours and all their unions, or two that share one; not looked at yet."""
    hours = _run(rng, HOURS, 30)
    most = 12 if regions == 2 else 40
    sets = [set(range(*_run(rng, ZONES, most))) for _ in range(regions + base)]
    if base:
        inner, one, other = sets
        unions = [inner | one, inner | other, inner | one | other, inner]
    elif regions == 2:
        unions = [*sets, sets[0] | sets[1]]
    else:
        a, b, c = sets
        unions = [a, b, c, a | b, a | c, b | c, a | b | c]
    return [town.frame.question("unique_people", union, range(*hours)) for union in unions]


SIGNS = {3: (1, 1, -1), 4: (1, 1, -1, -1), 7: (1, 1, 1, -1, -1, -1, 1)}
Try = Callable[[], list[Question] | None]


def _drawn(attempt: Try) -> Iterator[list[Question]]:
    while True:
        found = attempt()
        if found is not None:
            yield found


def planted(
    town: Metropolis, rng: np.random.Generator, each: int, k: int
) -> dict[str, list[list[Question]]]:
    """`each` sets of every kind, in which at least one and fewer than k are isolated."""
    found: dict[str, list[list[Question]]] = {}
    draws = _drawn(lambda: difference(town, rng, k))
    found["difference, 2"] = [next(draws) for _ in range(each)]
    for parts in range(2, 7):
        draws = _drawn(lambda parts=parts: rest(town, rng, parts, k))  # type: ignore[misc]
        found[f"rest, {parts + 1}"] = [next(draws) for _ in range(each)]
    for regions, base in ((2, False), (2, True), (3, False)):
        kept: list[list[Question]] = []
        while len(kept) < each:
            trial = [overlap(town, rng, regions, base) for _ in range(500)]
            size = len(trial[0])
            told = town.answers([one for many in trial for one in many]).reshape(-1, size)
            few = told @ np.array(SIGNS[size])
            fits = (few >= 1) & (few < k) & (told.min(axis=1) >= k)
            fits &= np.array([len(set(many)) == size for many in trial])
            kept += [many for many, good in zip(trial, fits, strict=True) if good]
        found[f"overlap, {size}"] = kept[:each]
    return found


def random_ranges(town: Metropolis, rng: np.random.Generator, many: int) -> list[Question]:
    """Runs of zones and hours, visits and people by turns; half of the hours are usual ones."""
    usual = [_run(rng, HOURS, 30) for _ in range(WINDOWS)]
    out = []
    for number in range(many):
        zones = _run(rng, ZONES, int(rng.choice([10, 100, 1000])))
        hours = usual[int(rng.integers(WINDOWS))] if rng.random() < 0.5 else _run(rng, HOURS, HOURS)
        out.append(town.range(("visits", "unique_people")[number % 2], zones, hours))
    return out
