"""Does a manifest's own list of measurements add up to what it claims?

A reader has the manifest alone: every measurement that was paid for must stand in it, and
the list must give the rho and the epsilon beside it by the method that is named. The claim comes
from the ledger's row, and so does what may be measured: a reservation refuses anything else. A list
that left out a paid choice would not give the claim. Publishers ask before the manifest is written.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.model.errors import SfumatoError
from sfumato.privacy.accounting import (
    Method,
    guarantee,
    total_epsilon,
    total_per_metre,
    total_rho,
    zcdp_epsilon,
)
from sfumato.privacy.events import MetricEvent, PrivacyEvent, event_from_json
from sfumato.privacy.exact import decimal_up
from sfumato.privacy.ledger.spending import PER_METRE
from sfumato.privacy.manifest import Manifest, Privacy

_SAME = 1e-9
"""Far below any published digit, far above what a processor's last bits can do."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What a list of events amounts to by one method."""

    rho: float | None
    epsilon: float


def recomputed_claim(privacy: Privacy) -> Recomputed:
    """The loss that the manifest's measurements add up to, by the method that it names.

    Unit and neighbours: those of the manifest. `pure` and `zcdp` are sums, valid however the
    events were chosen; `gaussian` and `numerical` are the curves of events fixed beforehand.
    """
    events = [event_from_json(measured.event) for measured in privacy.measurements]
    if privacy.method == PER_METRE:
        return Recomputed(None, decimal_up(total_per_metre(events)))
    if any(isinstance(event, MetricEvent) for event in events):
        return Recomputed(None, math.inf)  # a loss per metre beside others has no one number
    rho = decimal_up(total_rho(events)) if events else 0.0
    return Recomputed(rho, _epsilon(events, rho, privacy.delta, Method(privacy.method)))


def _epsilon(events: list[PrivacyEvent], rho: float, delta: float, method: Method) -> float:
    match method:
        case Method.NOTHING:
            return 0.0 if not events else math.inf
        case Method.PURE:
            pure = total_epsilon(events)
            return math.inf if pure is None else decimal_up(pure)
        case Method.ZCDP:
            return zcdp_epsilon(rho, delta)
        case Method.GAUSSIAN | Method.NUMERICAL | Method.UNBOUNDED:
            return guarantee(events, delta).epsilon


def check_claim(manifest: Manifest) -> None:
    """Refuse to publish a manifest whose list does not give its claim."""
    privacy = manifest.privacy
    found = recomputed_claim(privacy)
    if _equal(found.epsilon, privacy.epsilon) and _equal(found.rho, privacy.rho):
        return
    raise SfumatoError(
        "The measurements in the manifest do not add up to its claim (rho "
        f"{_said(found.rho)} against {_said(privacy.rho)}, epsilon {_said(found.epsilon)} against "
        f"{_said(privacy.epsilon)}), so nothing was published.",
        remedy="This is a fault of sfumato: please report it with the options you gave.",
    )


def _equal(found: float | None, claimed: float | None) -> bool:
    if found is None or claimed is None:
        return found is claimed
    return found == claimed or math.isclose(found, claimed, rel_tol=_SAME)


def _said(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"
