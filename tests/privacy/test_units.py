"""Units: written, read back, and never confused."""

import pytest

from sfumato.model.errors import UsageError
from sfumato.privacy.units import USER_PERIOD, Unit, UnitKind


@pytest.mark.parametrize("text", ["user-period", "user-day", "event", "point", "w-event:48"])
def test_text_and_back(text: str) -> None:
    assert str(Unit.parse(text)) == text


def test_the_default_is_a_whole_person() -> None:
    assert Unit() == USER_PERIOD
    assert "whole record" in USER_PERIOD.neighbours


def test_a_window_is_said_in_the_neighbours() -> None:
    assert "48 successive slots" in Unit(UnitKind.W_EVENT, 48).neighbours


@pytest.mark.parametrize("text", ["person", "", "w-event", "w-event:x", "w-event:0", "event:3"])
def test_what_is_no_unit(text: str) -> None:
    with pytest.raises(UsageError):
        Unit.parse(text)
