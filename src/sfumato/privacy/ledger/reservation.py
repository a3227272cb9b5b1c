"""`Reservation`: budget that is set aside, the key that goes with it, and what it allows.

It is the `Charger` of a release: each planned measurement may be taken once, exactly as
planned. Nothing is written when a charge is taken, because everything was charged when the
reservation was made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sfumato.model.errors import UsageError
from sfumato.privacy.events import PrivacyEvent
from sfumato.privacy.ledger.records import Charge
from sfumato.privacy.ledger.spending import Standing


@dataclass(slots=True)
class Reservation:
    """An open reservation, new or resumed. `standing` is the spend right after it was made."""

    charge_row: Charge
    key: bytes = field(repr=False)
    ledger_id: str
    standing: Standing
    resumed: bool
    _taken: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        return self.charge_row.id

    def charge(self, label: str, event: PrivacyEvent) -> None:
        """Accept a planned measurement, once; refuse anything else before noise is drawn."""
        planned = dict(self.charge_row.claim.events)
        if label not in planned:
            raise UsageError(f"The measurement {label!r} was not reserved.")
        if planned[label] != event:
            raise UsageError(f"The measurement {label!r} is not the one that was reserved.")
        if label in self._taken:
            raise UsageError(f"The measurement {label!r} was already taken.")
        self._taken.add(label)
