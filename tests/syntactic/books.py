"""Whose people the tests of rules are about, and the ledger that knows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.privacy.ledger import Cap, Ledger


def town(home: Path) -> dict[str, Any]:
    """Whose people, in which ledger (made if need be), at which places."""
    ledger = home / "ledger.sqlite"
    if not ledger.exists():
        book = Ledger(ledger)
        book.initialise()
        book.add_dataset("town", Cap(epsilon=2, delta=1e-6))
    return {"dataset": "town", "ledger": ledger, "towers": home / "towers.csv"}
