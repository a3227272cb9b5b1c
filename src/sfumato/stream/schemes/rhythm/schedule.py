"""When `rhythm` measures: k slots a window, at public times that visit every hour in turn.

Under `user-day` each day measures k evenly spaced phases, shifted from day to day; under the
other units every n-th slot, n at least W/k, so that no window of W holds more than k. Shift
and n share no factor with the length of a day, so over the days all phases have their turn.
"""

from __future__ import annotations

import math

from sfumato.privacy.units import UnitKind
from sfumato.stream.facts import StreamFacts

_PER_ROOT, _PER_PERSON = 0.7, 0.035
"""Samples a window at epsilon 1 and one expected person a cell; see `samples`."""
_RHYTHM_SHOWS = 1.6
"""Epsilon times the root of the expected people a cell, from which on hours can be told apart."""


def samples(facts: StreamFacts) -> int:
    """How many slots of a window to measure, from public facts alone.

    The noise of k samples has sd of about 1.4 k / epsilon; a count of n people varies from day
    to day by about sqrt(n) and, where n is large, by about a twentieth of it. More samples
    pay until the former reaches the latter. Fewer than three do not show a day's rhythm, so
    there are three wherever there may be one to see.
    """
    people = (facts.expected_users or 4 * facts.cells) / facts.cells
    signal = facts.epsilon * math.sqrt(people)
    wanted = round(max(_PER_ROOT * signal, _PER_PERSON * facts.epsilon * people))
    least = min(3, max(facts.window // 4, 1)) if signal >= _RHYTHM_SHOWS else 1
    return min(max(wanted, least), facts.window)


def coprime_from(least: int, length: int) -> int:
    """The smallest number from `least` on that shares no factor with `length`."""
    number = max(least, 1)
    while math.gcd(number, length) > 1:
        number += 1
    return number


def due(facts: StreamFacts, slot: int, k: int) -> bool:
    """Whether this slot is measured."""
    length = facts.calendar.longest_day
    if facts.unit.kind is UnitKind.USER_DAY:
        shift = int(facts.calendar.day[slot]) * coprime_from(math.ceil(0.38 * length), length)
        phases = {(shift + j * length // k) % length for j in range(k)}
        return int(facts.calendar.phase[slot]) in phases
    every = math.ceil(facts.window / k)
    if every > 1:
        every = coprime_from(every, length)
    return slot % every == 0
