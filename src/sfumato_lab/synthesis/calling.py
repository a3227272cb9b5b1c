"""Calling patterns of DP-WHERE: classes of people, how often they call, on what days and hours.

Classes are those of `sfumato.model.lives`, a public rule on one record. Everything here is drawn
from noisy counts: post-processing.

A class is *selected*: people who happened to call mostly at night are in it beside those who always
do. To draw a record from the class's mean profile would add chance to what chance had put there. So
records are drawn from a profile between everybody's and the class's and kept where they fall into
their class (rejection); it leans to the class just so much that the kept ones have the measured
share, and not at all where noise hides that. Unevenness of days is drawn alike: by chance alone
first, then with days of unlike weight (a gamma law).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.model.lives import ACTIVITY, KINDS, PERIODS, SPREADS, LifeQuestion
from sfumato.synthesis.fit import expected_activity, shrunk
from sfumato.synthesis.method import Noisy
from sfumato.synthesis.people import rounded_running

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_WHEN = np.array([0.33, 0.38, 0.29])
"""Public guess of visits at night, in office hours and at other times, as for `weeks`."""
_UNEVEN = np.array([0.25, 0.45, 0.2, 0.1])
"""Public guess of classes of unevenness: most people's days differ by chance alone."""
_TRIES = (
    (1.0,) * 8 + (0.0,) * 4,
    (1.0,) * 12,
    (1.0,) * 6 + (2.2,) * 6,
    (1.0,) * 3 + (2.2, 5.0, 9.0) * 3,
)
"""Variance over mean of daily visits in each attempt, by class of unevenness; 0: evenly spaced."""
_PROBES = 2000
"""People on whom the flattening is found: shares to a hundredth."""


@dataclass(frozen=True, slots=True, eq=False)
class Patterns:
    """What noisy numbers say of calling patterns."""

    calls: Floats
    """Class x visits x unevenness, flat: how many people."""
    running: Floats
    """Class x slot: running sums of the flattened profile."""
    question: LifeQuestion

    @classmethod
    def of(
        cls, blocks: Noisy, noise: Mapping[str, float], mean: float, question: LifeQuestion
    ) -> Patterns:
        """From the blocks `calls` and `profiles`, and the visits that are expected of a person."""
        seen = np.asarray(blocks["calls"], dtype=np.float64)
        calls = shrunk(seen, expected_calls(seen, mean, question), noise["calls"], 2.0)
        seen = np.asarray(blocks["profiles"], dtype=np.float64).reshape(KINDS, 48)
        random = np.random.Generator(np.random.Philox(0))  # public, and the same for all people
        laws = calls.reshape(KINDS, ACTIVITY, SPREADS).sum(axis=2)
        slots = np.stack(
            [
                _profile(seen, kind, laws[kind], noise["profiles"], question, random)
                for kind in range(KINDS)
            ]
        )
        return cls(calls, np.cumsum(slots, axis=1), question)

    def drawn(self, count: int, random: np.random.Generator) -> tuple[Ints, Ints]:
        """Person and slot of every record of so many people, in order of person."""
        pattern = np.repeat(np.arange(self.calls.size), rounded_running(self.calls, count))
        pattern = pattern[random.permutation(count)]
        kind, rest = np.divmod(pattern, ACTIVITY * SPREADS)
        level, uneven = np.divmod(rest, SPREADS)
        # Within a class from n to 2 n the smaller numbers are the likelier ones.
        many = np.floor(np.exp2(level) * (1 + random.random(count) ** 1.3)).astype(np.int64)
        begins = np.cumsum(many) - many
        slot = np.empty(int(many.sum()), np.int64)
        waiting = np.arange(count)
        for attempt in range(len(_TRIES[0])):
            over = np.array([tries[attempt] for tries in _TRIES])[uneven[waiting]]
            user, now = self._records(kind[waiting], many[waiting], over, random)
            rank = np.arange(user.size) - np.repeat(
                np.cumsum(many[waiting]) - many[waiting], many[waiting]
            )
            slot[begins[waiting][user] + rank] = now  # the last attempt stands
            fits = self._fits(user, now, kind[waiting], uneven[waiting], many[waiting])
            waiting = waiting[~fits]
            if waiting.size == 0:
                break
        return np.repeat(np.arange(count), many), slot

    def _records(
        self, kind: Ints, many: Ints, over: Floats, random: np.random.Generator
    ) -> tuple[Ints, Ints]:
        """One attempt: days by their weights, then the hour by the class."""
        question, running = self.question, self.running
        ends = np.searchsorted(question.day, np.arange(question.day[-1] + 1), side="right") - 1
        upto = running[:, ends]  # class x day
        lot = np.diff(upto, axis=1, prepend=0.0)[kind]
        loose = np.flatnonzero(over > 1)
        shape = many[loose] / ends.size / (over[loose] - 1)
        lot[loose] *= random.gamma(shape[:, None], size=(loose.size, ends.size))
        lot += 1e-12
        lot /= lot.sum(axis=1, keepdims=True)
        share = np.cumsum(lot, axis=1)
        user = np.repeat(np.arange(kind.size), many)
        rank = np.arange(user.size) - np.repeat(np.cumsum(many) - many, many)
        luck = random.random(user.size)
        even = over[user] == 0
        luck[even] = (rank[even] + luck[even]) / many[user[even]]
        row = np.arange(kind.size)[:, None]  # all people's days in one rising line
        day = np.searchsorted((share + row).ravel(), user + luck, side="right") - user * ends.size
        day = np.clip(day, 0, ends.size - 1)
        part = (luck - (share[user, day] - lot[user, day])) / lot[user, day]
        low = np.where(day > 0, upto[kind[user], np.maximum(day - 1, 0)], 0.0)
        wanted = low + np.clip(part, 0.0, 1.0) * (upto[kind[user], day] - low)
        slot = np.empty(user.size, np.int64)
        for one in range(KINDS):
            those = np.flatnonzero(kind[user] == one)
            slot[those] = np.searchsorted(running[one], wanted[those], side="right")
        return user, np.clip(slot, 0, question.hour.size - 1)

    def _fits(
        self, user: Ints, slot: Ints, kind: Ints, uneven: Ints, many: Ints
    ) -> NDArray[np.bool_]:
        """Whose records are of their class and as uneven as they should be."""
        question, days = self.question, int(self.question.day[-1]) + 1
        often = np.zeros((kind.size, PERIODS), np.int64)
        np.add.at(often, (user, question.period[slot]), 1)
        daily = np.zeros((kind.size, days), np.int64)
        np.add.at(daily, (user, question.day[slot]), 1)
        over = np.square(daily).sum(axis=1) / many - many / days
        band = np.searchsorted((0.5, 1.5, 3.0), over, side="left")
        return np.asarray((often.argmax(axis=1) == kind // 2) & (band == uneven))


def expected_calls(seen: Floats, mean: float, question: LifeQuestion) -> Floats:
    """Class x visits x unevenness from public guesses, as many people as were seen."""
    law = expected_activity(mean).sum(axis=0)
    busy = np.exp2(np.arange(ACTIVITY)) * 1.4 > int(question.day[-1]) + 1
    guess = np.zeros((PERIODS, 2, ACTIVITY, SPREADS))
    for often in (0, 1):
        guess[:, often] = (_WHEN[:, None] * (law * (busy == often)))[..., None] * _UNEVEN
    return np.asarray(guess.ravel() * max(float(seen.sum()), 1.0), dtype=np.float64)


def _profile(
    seen: Floats,
    kind: int,
    law: Floats,
    sd: float,
    question: LifeQuestion,
    random: np.random.Generator,
) -> Floats:
    """Slots of a class: its hours in each period; periods between everybody's and its own."""
    most, period = kind // 2, question.period
    often = np.bincount(question.hour, minlength=48)[question.hour]
    kept = np.maximum(seen, 0.0) + 1e-9
    everybody = (kept.sum(axis=0) / kept.sum())[question.hour] / often
    there = seen[kind][question.hour] / often  # hours that the slots do not have are noise alone
    level = max(float(there.sum()), 0.0)
    weight = level / (level + 48 * sd)
    own = weight * (kept[kind] / kept[kind].sum())[question.hour] / often + (1 - weight) * everybody
    shares = [np.bincount(period, one, PERIODS) for one in (everybody, own)]
    base = own * (shares[0] / np.maximum(shares[1], 1e-12))[period]
    if not law.sum() > 0 or not 0 < shares[0][most] < shares[0].sum() or level <= 0:
        return np.asarray(base, dtype=np.float64)
    wanted = float(there[period == most].sum()) / level  # sums of unclipped noise have no bias
    level_of = random.choice(ACTIVITY, _PROBES, p=law / law.sum())
    many = np.floor(np.exp2(np.minimum(level_of, 10)) * 1.4).astype(np.int64)
    counted = 1 / np.sqrt(many)  # as the block counts a record's visits
    apart = np.log(np.maximum(shares[1], 1e-6)) - np.log(np.maximum(shares[0], 1e-6))
    low, high = 0.0, 1.0
    for _ in range(10):
        lean = (low + high) / 2
        between = shares[0] * np.exp(lean * apart)
        tried = random.multinomial(many, between / between.sum())
        fits = tried.argmax(axis=1) == most
        reached = (tried[fits, most] * counted[fits]).sum()
        reached /= max(float((many * counted)[fits].sum()), 1e-9)
        low, high = (low, lean) if reached > wanted else (lean, high)
    return np.asarray(base * np.exp(low * apart)[period], dtype=np.float64)
