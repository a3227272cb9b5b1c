"""Units: written, read back, and never confused."""

import pytest

from sfumato.errors import UsageError
from sfumato.privacy.events import USER_PERIOD, Unit, UnitKind

NAMES = ["user-period", "user-day", "event", "point", "w-event:48"]
FULL = ["user-day@Europe/Paris", "w-event:48h/1h", "w-event:4h/5min", "w-event:90s", "point:200m"]


@pytest.mark.parametrize("text", [*NAMES, *FULL, "point:0.5m", "w-event:90min"])
def test_text_and_back(text: str) -> None:
    assert str(Unit.parse(text)) == text


def test_the_default_is_a_whole_person() -> None:
    assert Unit() == USER_PERIOD
    assert "whole record" in USER_PERIOD.neighbours


def test_a_window_is_said_in_the_neighbours() -> None:
    assert "48 successive slots" in Unit(UnitKind.W_EVENT, 48).neighbours


def test_one_unit_has_one_name() -> None:
    assert Unit.parse("w-event:2d/60min") == Unit.parse("w-event:48h/1h")
    assert Unit.parse("point:0.2km") == Unit.parse("point:200m")
    assert Unit.parse("w-event:48h") != Unit.parse("w-event:48")
    assert "48h" in Unit.parse("w-event:48h").neighbours
    assert "200 m" in Unit.parse("point:200m").neighbours
    assert "Europe/Paris" in Unit.parse("user-day@Europe/Paris").neighbours


WRONG = ["person", "", "w-event", "w-event:x", "w-event:0", "w-event:0h", "event:3", "event@UTC"]
ODD = ["user-day:3", "point:0m", "point:x", "w-event:48h@UTC", "w-event:5/1h", "user-period@UTC"]


@pytest.mark.parametrize("text", [*WRONG, *ODD])
def test_what_is_no_unit(text: str) -> None:
    with pytest.raises(UsageError):
        Unit.parse(text)
