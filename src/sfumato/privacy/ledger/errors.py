"""What can go wrong with a ledger, in words for its holder. No record is ever shown."""

from __future__ import annotations

from sfumato.model.errors import SfumatoError


class LedgerError(SfumatoError):
    """The ledger cannot be opened, read or written. Exit code 1."""


class LedgerBroken(LedgerError):
    """The ledger was altered: a row was edited, removed, reordered or cut off."""


class ReservationRefused(LedgerError):
    """The rerun is not the release that was reserved, or its key is gone."""
