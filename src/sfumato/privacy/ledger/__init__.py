"""The ledger: what was ever released about whom, append-only, chained, and never passed."""

from sfumato.privacy.ledger.caps import Cap
from sfumato.privacy.ledger.errors import LedgerBroken, LedgerError, ReservationRefused
from sfumato.privacy.ledger.ledger import Ledger
from sfumato.privacy.ledger.records import Charge, Claim, Status
from sfumato.privacy.ledger.reservation import Reservation

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
