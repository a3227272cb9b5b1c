"""Inclusion and exclusion against a count of who was in all the places, and whom two single out."""

from __future__ import annotations

from datetime import date
from itertools import combinations

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.model.time_grid import TimeGrid
from sfumato.queries.question import Frame, Measure
from sfumato_lab.attacks.queries.differencing import (
    FIRST,
    HOSPITAL,
    SECOND,
    hospital,
    in_all,
    johns,
)
from sfumato_lab.attacks.queries.town import counter, exact, threshold
from sfumato_lab.syntactic.truth import Visits

JOHN = [[HOSPITAL], [FIRST], [SECOND]]


def _random_visits(rng: np.random.Generator, people: int = 40, places: int = 6) -> Visits:
    rows = rng.integers([people, places, 2], size=(3 * people, 3))
    return Visits(*np.unique(rows, axis=0).T)


@pytest.mark.parametrize("seed", range(5))
def test_unions_tell_how_many_were_in_all_of_the_regions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    held = _random_visits(rng)
    day = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 6), "1d", "UTC")
    frame = Frame(np.array(list("abcdef")), day)
    regions = [[0, 1], [2], [3, 4]]
    found = in_all(exact(counter(held, frame)), frame, regions, [0])
    now = held.slots == 0
    sets = [set(held.users[now & np.isin(held.places, region)]) for region in regions]
    assert found.people == len(sets[0] & sets[1] & sets[2])
    assert len(found.questions) == 7
    assert all(one.measure is Measure.UNIQUE_PEOPLE for one in found.questions)


@pytest.mark.parametrize("visited", [True, False])
def test_seven_large_answers_say_whether_john_was_in_the_hospital(visited: bool) -> None:
    for seed in range(10):
        frame, held = hospital(visited, np.random.default_rng(seed))
        found = in_all(threshold(counter(held, frame), 20), frame, JOHN, [0])
        assert found.people == visited
        assert found.smallest is not None
        assert found.smallest >= 20


def test_a_refusal_ends_it() -> None:
    frame, held = hospital(True, np.random.default_rng(1))
    found = in_all(threshold(counter(held, frame), 60), frame, JOHN, [0])
    assert found.people is None
    assert None in found.answers
    with pytest.raises(UsageError, match="between one and eight"):
        in_all(exact(counter(held, frame)), frame, [], [0])


@pytest.mark.parametrize("least", [1, 12])
def test_whom_two_places_single_out(least: int) -> None:
    rng = np.random.default_rng(3)
    held = _random_visits(rng, people=60, places=9)
    now = held.slots == 1
    been = {user: set(held.places[now & (held.users == user)]) for user in set(held.users[now])}
    crowd = {place: sum(place in one for one in been.values()) for place in range(9)}
    alone = {
        user
        for user, places in been.items()
        if any(
            min(crowd[a], crowd[b]) >= least and sum({a, b} <= one for one in been.values()) == 1
            for a, b in combinations(sorted(places), 2)
        )
    }
    found = johns(held, [1], least)
    assert set(found.user.tolist()) == alone
    assert found.of == len(been)
    for user, pair in zip(found.user.tolist(), found.pair.tolist(), strict=True):
        assert [u for u, places in been.items() if set(pair) <= places] == [user]


def test_nobody_is_singled_out_where_nobody_was() -> None:
    empty = np.empty(0, np.int64)
    assert johns(Visits(empty, empty, empty), [0]).user.size == 0
