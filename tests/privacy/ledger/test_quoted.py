"""What a manifest quotes of its ledger does not depend on the records: not one byte of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sfumato.privacy.ledger import Cap, Claim, Ledger, Reservation, chain, remembered
from sfumato.privacy.ledger import ledger as reserving
from sfumato.privacy.ledger.views import cumulative, ledger_row, release_facts

pytestmark = pytest.mark.privacy

Claims = Callable[..., Claim]


class SameBits:
    """Random bytes that are the same in every ledger, as the noise of neighbours is compared."""

    def __init__(self) -> None:
        self._turns = count()

    def token_bytes(self, size: int) -> bytes:
        return hashlib.shake_256(next(self._turns).to_bytes(8, "big")).digest(size)

    def token_hex(self, size: int) -> str:
        return self.token_bytes(size).hex()


class Noon(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Noon:
        return cls(2026, 1, 1, 12, tzinfo=tz or UTC)


def quoted(folder: Path, claim: Claims, fingerprint: str, patch: pytest.MonkeyPatch) -> list[Any]:
    """What two releases of an input say of their ledger, one after the other."""
    bits = SameBits()
    patch.setattr(reserving, "secrets", bits)
    patch.setattr(chain, "secrets", bits)
    patch.setattr(remembered, "datetime", Noon)
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("city", Cap(rho=2**-7))
    found = []
    for week in range(2):
        reservation = ledger.reserve(claim(f"week-{week}", week=week, fingerprint=fingerprint))
        assert isinstance(reservation, Reservation)
        parts = (release_facts(reservation), ledger_row(reservation), cumulative(reservation))
        found += [part.model_dump() for part in parts]
        ledger.commit(reservation.id, {})
    return found


def test_the_fingerprint_of_the_input_reaches_no_manifest(
    tmp_path: Path, claim: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seals go over it: a seal in a manifest would tell neighbouring records apart."""
    one, other = (quoted(tmp_path / c, claim, c * 64, monkeypatch) for c in "0f")
    assert one == other
    assert [part["row"] for part in one if "row" in part] == [4, 6]
