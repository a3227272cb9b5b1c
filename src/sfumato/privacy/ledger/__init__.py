"""The ledger: what was ever released about whom, append-only, chained, and never passed."""

from sfumato.errors import LedgerBroken, LedgerError, ReservationRefused
from sfumato.privacy.ledger.ledger import Ledger, Reservation
from sfumato.privacy.ledger.records import Cap, Charge, Claim, Status

__all__ = [
    "Cap",
    "Charge",
    "Claim",
    "Ledger",
    "LedgerBroken",
    "LedgerError",
    "Reservation",
    "ReservationRefused",
    "Status",
]
