"""The ways a strength is stated."""

from __future__ import annotations

import math

import pytest

from sfumato.errors import UsageError
from sfumato.privacy.noise.planar import (
    Strength,
    parse_level,
    parse_metres,
    parse_seconds,
    strength,
)

pytestmark = pytest.mark.privacy


def test_expected_noise_and_level_say_the_same() -> None:
    assert strength("100m", None, None).per_metre == 0.02
    found = strength(None, "200m", "ln4")
    assert found.per_metre == pytest.approx(0.0069315, rel=1e-4)
    assert found.expected_noise_m == pytest.approx(288.5, abs=0.1)
    assert found.level_within(200) == pytest.approx(math.log(4))


@pytest.mark.parametrize(
    ("noise", "radius", "level"),
    [(None, None, None), ("100m", "200m", "ln4"), (None, "200m", None), ("100", None, "ln4")],
)
def test_contradictions_are_refused(
    noise: str | None, radius: str | None, level: str | None
) -> None:
    with pytest.raises(UsageError):
        strength(noise, radius, level)


def test_units() -> None:
    assert parse_metres("1.5km") == 1500
    assert parse_metres("250") == 250
    assert parse_level("ln10") == pytest.approx(2.302585)
    assert parse_seconds("5min") == 300
    for bad in ("100ft", "-5m", "", "1e3m"):
        with pytest.raises(UsageError):
            parse_metres(bad)
    for bad in ("ln1", "lnx", "0", "-1"):
        with pytest.raises(UsageError):
            parse_level(bad)
    for bad in ("0s", "5", "5 weeks"):
        with pytest.raises(UsageError):
            parse_seconds(bad)


def test_absurd_noise_is_refused() -> None:
    for noise in (0.5, 1e9, 0.0, -1.0, float("nan")):
        with pytest.raises(UsageError):
            Strength.from_noise(noise)
