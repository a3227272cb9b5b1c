"""Charging: every mechanism tells a `Charger` what it is about to do, before it does it.

A ledger reservation is a `Charger`; so is the `Tab`, which remembers charges in memory
for plans, audits and tests and publishes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from sfumato.model.errors import UsageError
from sfumato.privacy.events import PrivacyEvent


class Charger(Protocol):
    """Accepts a charge or raises; a mechanism draws only after this has returned."""

    def charge(self, label: str, event: PrivacyEvent) -> None: ...


@dataclass
class Tab:
    """Charges kept in memory, in order. A label is charged once."""

    charged: dict[str, PrivacyEvent] = field(default_factory=dict)

    def charge(self, label: str, event: PrivacyEvent) -> None:
        if label in self.charged:
            raise UsageError(f"The measurement {label!r} was already taken.")
        self.charged[label] = event
