"""A privacy loss as people read it: short, and never less than it is."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.cli.accounts import spent
from sfumato.model.rounding import percent, rounded_up


def test_rounding_errors_are_not_shown() -> None:
    assert rounded_up(0.9999999999999313, 4) == rounded_up(1.0000000000000002, 4) == "1"
    assert [rounded_up(v) for v in (0.30001, 2e-7, 2.001e-7, 0.0)] == [
        "0.301",
        "2e-07",
        "2.01e-07",
        "0",
    ]
    assert rounded_up(float("inf")) == "inf"


@pytest.mark.privacy
@pytest.mark.parametrize("figures", [2, 3, 4])
def test_no_smaller_loss_is_claimed(figures: int) -> None:
    values = 10 ** np.random.default_rng(11).uniform(-12, 3, 2000)
    for value in values:
        shown = float(rounded_up(float(value), figures))
        assert value * (1 - 2e-12) <= shown <= value * (1 + 10.0 ** (1 - figures)) * (1 + 1e-9)


@pytest.mark.privacy
def test_the_ledger_rounds_what_was_spent_up() -> None:
    told = spent({"epsilon": 1.00001, "delta": 1.0001e-6, "rho": 0.1250001})
    assert told == "epsilon 1.001 at delta 1.01e-06 (rho 0.1251)"


def test_shares_are_written_as_everywhere() -> None:
    assert [percent(0.044), percent(0.021, 1), percent(1.0)] == ["4 %", "2.1 %", "100 %"]


def test_the_smallest_deltas_are_written_too() -> None:
    assert rounded_up(1e-308) == "1e-308"
    assert rounded_up(1.2341e-300) == "1.24e-300"
    assert rounded_up(5e-324) == "4.94e-324"
