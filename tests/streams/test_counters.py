"""Running totals: what is charged covers what one unit can move, and no Gaussian is called pure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.privacy.events import GaussianEvent
from sfumato.streams.facts import StreamFacts
from sfumato.streams.scheme import NoiseKind
from sfumato.streams.schemes.baselines import Mean
from sfumato.streams.schemes.counters import Counter, tree_matrix

pytestmark = pytest.mark.privacy

Facts = Callable[..., StreamFacts]


@pytest.mark.parametrize("root", [True, False])
def test_gaussian_counters_are_not_offered_as_pure(root: bool, facts: Facts) -> None:
    with pytest.raises(UsageError, match="delta"):
        Counter(root).plan(facts("user-day", delta=0.0))


@pytest.mark.parametrize("unit", ["user-period", "user-day", "w-event:5", "event"])
@pytest.mark.parametrize("root", [True, False])
def test_somebody_who_is_elsewhere_in_every_slot_moves_no_more_entries_than_are_charged(
    unit: str, root: bool, facts: Facts
) -> None:
    known = facts(unit)
    rows = np.tril(np.ones((known.slots,) * 2)) if root else tree_matrix(known.slots)
    # One cell a slot (two for an event), so the entries of all slots are different ones.
    held = np.concatenate(([0], np.cumsum((rows > 0).sum(axis=0))))
    moved = known.l1 * (held[known.window :] - held[: -known.window]).max()
    event = Counter(root).plan(known).accounts[0].event
    assert isinstance(event, GaussianEvent)
    assert moved <= event.touched


def test_the_sum_of_a_window_is_moved_in_as_many_cells_as_it_has_slots(facts: Facts) -> None:
    known = facts("user-period")
    event = Mean(noise=NoiseKind.GAUSSIAN).plan(known).accounts[0].event
    assert isinstance(event, GaussianEvent)
    assert event.touched == known.slots
