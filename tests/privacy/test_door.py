"""The door: public facts without numbers; charges and measurements beside it."""

from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import PrivateNumbers, UsageError
from sfumato.model.counts import Counting, Counts
from sfumato.model.private import Private
from sfumato.privacy.door import PublicFacts, candidates, open_private, public_facts
from sfumato.privacy.events import LaplaceEvent, Measurement, Selection, Tab

pytestmark = pytest.mark.privacy

EVENT = LaplaceEvent(1.0, Fraction(2))


def box(values: list[list[int]]) -> Private[Counts]:
    return Private(Counts(np.array(values), 4, 3.0, 2.0, Counting.VISITS, "t"), "towers")


def test_facts_do_not_depend_on_the_people() -> None:
    assert public_facts(box([[1, 2], [3, 4]])) == public_facts(box([[0, 0], [0, 99]]))
    assert public_facts(box([[1, 2, 3]])) == PublicFacts((1, 3), 4, 3.0, 2.0)
    assert public_facts(box([[1, 2, 3]])).size == 3
    assert candidates(Private(np.arange(7), "costs")) == 7


def test_only_the_door_opens_a_box() -> None:
    shut = box([[1, 2]])
    assert open_private(shut).values.tolist() == [[1, 2]]
    with pytest.raises(PrivateNumbers):
        np.asarray(shut)
    assert repr(shut) == "<private towers>"


def test_a_tab_remembers_in_order_and_once() -> None:
    tab = Tab()
    tab.charge("b", EVENT)
    tab.charge("a", EVENT)
    assert list(tab.charged) == ["b", "a"]
    with pytest.raises(UsageError, match="already"):
        tab.charge("a", EVENT)


def test_a_measurement_speaks_in_counts_and_cannot_be_changed() -> None:
    found = Measurement("m", np.array([8, -4]), 64.0, 4, EVENT)
    assert found.estimate().tolist() == [2.0, -1.0]
    assert found.sd == 2.0
    assert not found.tainted
    with pytest.raises(ValueError):
        found.values[0] = 1


def test_a_selection_is_a_plain_value() -> None:
    assert Selection("m", 2, 5, EVENT) == Selection("m", 2, 5, EVENT)
