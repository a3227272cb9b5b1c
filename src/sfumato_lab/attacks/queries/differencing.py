"""Differencing: the number of people in all of several places, from answers about any of them.

Acs, Biczok & Castelluccia tell it of John and the hospital. Questions with fewer than k people are
refused, and who was in three places at once can only be asked as who was in any of them. Inclusion
and exclusion turns seven such answers, each of them large, into the exact number of people who
were in the hospital H and in L1 and in L2:

    |H L1 L2| = |H| + |L1| + |L2| - |H u L1| - |H u L2| - |L1 u L2| + |H u L1 u L2|

If L1 and L2 together are John's alone, that number is whether John was in the hospital. The seven
questions share one set of slots, since a union of zones x slots is a question only then.

`hospital` makes such a case, John's bit a coin that is given. John's record stays and one visit is
added to it; every answer then moves by at most one and none down, as if he himself were added, so
that what a private desk says of adding a person holds of the visit.

`johns` says in whose data that works: everybody whom two zones single out. It reads records, and
is for the holder who wants to know how many of her people are so exposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.time_grid import TimeGrid
from sfumato.queries.question import Frame, Measure, Question
from sfumato_lab.attacks.queries.town import Answerer
from sfumato_lab.syntactic.truth import Visits


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many people were in all of the places, and the answers that told it."""

    people: float | None
    """None where an answer was refused."""
    questions: tuple[Question, ...]
    answers: tuple[float | None, ...]

    @property
    def smallest(self) -> float | None:
        """The least answer that was given: what a threshold would have to be above."""
        heard = [one for one in self.answers if one is not None]
        return min(heard) if heard else None


def unions(
    frame: Frame, regions: Sequence[Sequence[int]], slots: Sequence[int]
) -> list[tuple[int, Question]]:
    """Every union of some of the regions, with the sign that it has in inclusion and exclusion."""
    found = []
    for size in range(1, len(regions) + 1):
        for chosen in combinations(regions, size):
            zones = [place for region in chosen for place in region]
            question = frame.question(Measure.UNIQUE_PEOPLE, zones, slots)
            found.append((1 if size % 2 else -1, question))
    return found


def in_all(
    answerer: Answerer, frame: Frame, regions: Sequence[Sequence[int]], slots: Sequence[int]
) -> Overlap:
    """How many people were in every one of the regions, from 2^r - 1 answers about unions.

    Args:
        answerer: Who is attacked.
        frame: The places and slots that may be named.
        regions: Sets of places, as indices of the frame; three for John.
        slots: When, as indices of the frame.

    Returns:
        The number and the answers it came from.

    Raises:
        UsageError: If there are no regions, or more than eight.

    Example:
        >>> import numpy as np
        >>> from sfumato_lab.attacks.queries.town import Town, counter, threshold
        >>> user = np.array([0, 0, 0, 1, 1, 2, 2, 3, 3])
        >>> place = np.array([0, 1, 2, 0, 1, 0, 2, 1, 2])
        >>> held, frame = Visits(user, place, np.zeros(9, int)), Town.of(3).frame
        >>> in_all(threshold(counter(held, frame), 3), frame, [[0], [1], [2]], [0]).people
        1.0
    """
    if not 1 <= len(regions) <= 8:
        raise UsageError("Give between one and eight regions: r of them are 2^r - 1 questions.")
    signed = unions(frame, regions, slots)
    questions = tuple(question for _, question in signed)
    answers = tuple(answerer(questions))
    total = 0.0
    for (sign, _), answer in zip(signed, answers, strict=True):
        if answer is None:
            return Overlap(None, questions, answers)
        total += sign * answer
    return Overlap(total, questions, answers)


HOSPITAL, FIRST, SECOND = 0, 1, 2
"""Places of `hospital`."""


def hospital(visited: bool, rng: np.random.Generator, crowd: int = 120) -> tuple[Frame, Visits]:
    """John, who is person 0, among a crowd in which nobody else was in both his places.

    Args:
        visited: Whether John was in the hospital.
        rng: Draws the crowd.
        crowd: How many others there are; each place has about a third of them or more.

    Returns:
        Three places in one day, and who was in them.
    """
    day = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "1d", "UTC")
    frame = Frame(np.array(["hospital", "L1", "L2"]), day)
    either = rng.integers(3, size=crowd)  # the first of John's places, the second, or neither
    treated = (either == 0) | (rng.random(crowd) < 0.3)
    who = np.arange(1, crowd + 1)
    here = [np.r_[who[treated], [0] if visited else []], np.r_[who[either == 1], 0]]
    here.append(np.r_[who[either == 2], 0])
    user = np.concatenate(here).astype(np.int64)
    place = np.repeat([HOSPITAL, FIRST, SECOND], [len(one) for one in here])
    return frame, Visits(user, place, np.zeros(len(user), np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Johns:
    """People whom two places single out. INTERNAL."""

    user: NDArray[np.int64]
    pair: NDArray[np.int64]
    """Two places a person."""
    of: int
    """Among how many people."""


def johns(held: Visits, slots: Sequence[int], least: int = 1) -> Johns:
    """Everybody who was in two places in which, together, nobody else was. INTERNAL.

    Args:
        held: The records.
        slots: When, as indices of the frame.
        least: The fewest people that each of the two places must have had, so that a threshold
            lets questions about them pass.

    Returns:
        Whom, and by which two places; of several pairs the one whose places are busiest.

    Example:
        >>> import numpy as np
        >>> held = Visits(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 2, 1]), np.zeros(5, int))
        >>> johns(held, [0]).user.tolist()
        [0, 1]
    """
    inside = np.isin(held.slots, slots)
    rows = np.unique(np.stack([held.users[inside], held.places[inside]], axis=1), axis=0)
    users = int(np.unique(rows[:, 0]).size)
    places, code, crowd = np.unique(rows[:, 1], return_inverse=True, return_counts=True)
    kept = crowd[code] >= least
    user, code = rows[kept, 0], code[kept]
    starts = np.flatnonzero(np.r_[True, user[1:] != user[:-1]]) if len(user) else np.empty(0, int)
    lengths = np.diff(np.r_[starts, len(user)])
    one, other = [], []
    for width in np.unique(lengths[lengths > 1]):  # pairs of a person's places, by their number
        first, second = np.triu_indices(int(width), 1)
        begin = starts[lengths == width]
        one.append((begin[:, None] + first).ravel())
        other.append((begin[:, None] + second).ravel())
    if not one:
        return Johns(np.empty(0, np.int64), np.empty((0, 2), np.int64), users)
    left, right = np.concatenate(one), np.concatenate(other)
    named = code[left] * len(places) + code[right]
    _, back, times = np.unique(named, return_inverse=True, return_counts=True)
    alone = times[back] == 1
    left, right = left[alone], right[alone]
    busy = np.minimum(crowd[code[left]], crowd[code[right]])
    order = np.lexsort((-busy, user[left]))
    _, best = np.unique(user[left][order], return_index=True)
    chosen = order[best]
    pair = np.stack([places[code[left[chosen]]], places[code[right[chosen]]]], axis=1)
    return Johns(user[left[chosen]], pair, users)
