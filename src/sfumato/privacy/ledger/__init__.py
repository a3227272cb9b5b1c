"""The ledger: what was ever released about whom, append-only, chained, and never passed."""

from sfumato.errors import LedgerBroken, LedgerError, ReservationRefused
from sfumato.privacy.ledger.claims import Cap, Claim
from sfumato.privacy.ledger.ledger import Ledger, Reservation
from sfumato.privacy.ledger.records import Charge, Status

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
