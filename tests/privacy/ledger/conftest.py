"""Every ledger test runs on SQLite and on a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.privacy.events import USER_PERIOD, GaussianEvent
from sfumato.privacy.ledger import Cap, Claim, Ledger

WEEK = 7 * 86_400 * 1_000_000
DELTA = 2e-6


def gaussian(rho: float) -> GaussianEvent:
    """An event that costs exactly this rho (a power of two is best), on a coarse lattice."""
    return GaussianEvent(l2=1.0, sigma2=1 / (2 * Fraction(rho)), touched=1)


@pytest.fixture
def claim() -> Callable[..., Claim]:
    """A claim about the week `week`, costing `rho`, with anything else changed on request."""

    def make(name: str = "week-0", rho: float = 2**-9, week: int = 0, **changes: Any) -> Claim:
        plain = Claim(
            dataset="city",
            name=name,
            unit=USER_PERIOD,
            delta=DELTA,
            period=(week * WEEK, (week + 1) * WEEK),
            events=(("counts", gaussian(rho)),),
            config={"epsilon": 0.3, "slot": "1h"},
            fingerprint="f" * 64,
            out=f"/out/{name}",
        )
        return replace(plain, **changes)

    return make


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty ledger may go."""
    if request.param == "sqlite":
        return str(tmp_path / "books" / "ledger.sqlite")
    return str(request.getfixturevalue("new_postgres")())


@pytest.fixture
def empty_ledger(location: str, tmp_path: Path) -> Ledger:
    """A ledger that knows no data set yet."""
    ledger = Ledger(location, key=tmp_path / "books" / "ledger.key")
    ledger.initialise()
    return ledger


@pytest.fixture
def ledger(empty_ledger: Ledger) -> Ledger:
    """A ledger with the data set `city`, capped at rho 2^-7: four releases of rho 2^-9."""
    empty_ledger.add_dataset("city", Cap(rho=2**-7))
    return empty_ledger
